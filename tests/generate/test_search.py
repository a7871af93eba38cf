"""Greedy and beam search: token for token as transformers generates, from left-padded batches too."""

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

import glassformer as gf
from families import settings_of, shake

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
NAMES = {"gpt2": "GPT2LMHeadModel", "marian": "MarianMTModel", "bart": "BartForConditionalGeneration"}
NAMES |= {"mbart": "MBartForConditionalGeneration", "pegasus": "PegasusForConditionalGeneration"}
NAMES |= {"m2m_100": "M2M100ForConditionalGeneration", "t5": "T5ForConditionalGeneration"}
NAMES |= {"llama": "LlamaForCausalLM", "qwen3": "Qwen3ForCausalLM"}
DECODERS = ("gpt2", "llama", "qwen3")


def both(model_type, chosen, folder):
    """The same random model in transformers and here; padding is told apart from what can be written."""
    chosen = {**chosen, "pad_token_id": 1, "eos_token_id": 3}
    if model_type not in DECODERS:
        chosen |= {"decoder_start_token_id": 2, "forced_eos_token_id": None}
    if model_type == "t5":  # whose cache in transformers has as many layers as the encoder
        chosen["num_decoder_layers"] = chosen["num_layers"]
    config = transformers.AutoConfig.for_model(model_type, **chosen)
    peer = shake(getattr(transformers, NAMES[model_type])(config)).eval()
    peer.generation_config = transformers.GenerationConfig(
        pad_token_id=1, eos_token_id=3, bos_token_id=2, decoder_start_token_id=2
    )
    peer.save_pretrained(folder)
    return peer, gf.load(folder)


def inputs(model_type):
    ids = torch.randint(4, 40, (3, 7), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[0, :3] = 0
    if model_type not in DECODERS:
        mask = mask.flip(1)
    return ids.masked_fill(mask == 0, 1), mask


@pytest.mark.parametrize("model_type", NAMES)
@settings(max_examples=8)
@given(data=st.data())
def test_the_same_tokens_as_transformers(model_type, data, tmp_path_factory):
    peer, model = both(model_type, data.draw(settings_of(model_type)), tmp_path_factory.mktemp("model"))
    ids, mask = inputs(model_type)
    request = {
        "max_new_tokens": 9,
        "suppress_tokens": [1],  # padding, which an M2M-100 of transformers does not see even where it has written it
        "num_beams": data.draw(st.integers(1, 5)),
        "length_penalty": data.draw(st.sampled_from([0.0, 0.6, 1.0, 2.0])),
        "early_stopping": data.draw(st.sampled_from([False, True, "never"])),
        "repetition_penalty": data.draw(st.sampled_from([None, 1.3])),
        "no_repeat_ngram_size": data.draw(st.sampled_from([None, 2])),
        "min_new_tokens": data.draw(st.sampled_from([None, 4])),
    }
    request["num_return_sequences"] = data.draw(st.integers(1, request["num_beams"]))
    for row in range(len(ids)) if request["repetition_penalty"] or request["no_repeat_ngram_size"] else [slice(None)]:
        part = slice(row, row + 1) if isinstance(row, int) else row
        given_ids, given_mask = ids[part], mask[part]
        if isinstance(row, int):  # transformers counts padding as repetition, so one text at a time
            given_ids, given_mask = given_ids[given_mask.bool()][None], None
        expected = peer.generate(given_ids, attention_mask=given_mask, do_sample=False, **request)
        found = gf.generate(model, None, given_ids, attention_mask=given_mask, **request)
        assert found.tolist() == expected.tolist()
