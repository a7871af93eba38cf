"""Parity: folders written by transformers give the same numbers here, and the other way round."""

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch.testing import assert_close

import glassformer as gf
from families import IN_TRANSFORMERS, VOCABULARY, settings_of, shake
from glassformer.hub.registry import ARCHITECTURES

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
READERS = ("bert", "roberta", "xlm-roberta", "albert", "electra", "deberta-v2", "modernbert")
LEFT = (*READERS, "gpt2", "llama", "mistral", "qwen2", "qwen3")  # those that take position_ids there
SCORES_TOKENS = ("question-answering", "replaced-token-detection")  # with one number a token
CLOSE = {"atol": 1e-5, "rtol": 1e-5}


def their_model(model_type, head, chosen):
    if head in ("question-answering", "pretraining"):  # which have two outputs, whatever the labels
        chosen = {**chosen, "num_labels": 2}
    config = transformers.AutoConfig.for_model(model_type, **chosen)
    cls = getattr(transformers, ARCHITECTURES[model_type].heads[head].hf_class)
    config._attn_implementation = "eager"
    return shake(cls(config)).eval()


def inputs_for(peer, seed):
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(4, VOCABULARY, (3, 9), generator=generator)
    mask = torch.ones_like(ids)
    mask[0, 4:], mask[2, 8:] = 0, 0
    ids[mask == 0] = peer.config.pad_token_id or 0
    inputs = {"input_ids": ids, "attention_mask": mask}
    if type(peer).__name__ == "BartForSequenceClassification":  # it reads its source twice, up to the end of the text
        ids[torch.arange(len(ids)), mask.sum(1) - 1] = peer.config.eos_token_id
    elif peer.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = torch.randint(4, VOCABULARY, (3, 6), generator=generator)
    if getattr(peer.config, "type_vocab_size", 0) > 1:
        inputs["token_type_ids"] = torch.randint(0, peer.config.type_vocab_size, ids.shape, generator=generator)
    return inputs


def compare(ours, theirs, mask):
    """Equal wherever there is a real token."""
    for name, value in ours._asdict().items():
        other = theirs[name]
        if value.shape[:2] == mask.shape:
            value, other = value[mask.bool()], other[mask.bool()]
        assert_close(value, other, **CLOSE, msg=lambda text, name=name: f"{name}: {text}")


def compare_inside(seen, theirs, peer, mask):
    """Hidden states, and the attention of every layer and head."""
    if peer.config.is_encoder_decoder:
        patterns = {
            "encoder.layers.*.attention": theirs.encoder_attentions,
            "decoder.layers.*.attention": theirs.decoder_attentions,
            "decoder.layers.*.cross_attention": theirs.cross_attentions,
        }
        hidden, expected = seen.hidden_states, theirs.encoder_hidden_states
    else:
        patterns = {"layers.*.attention": theirs.attentions}
        hidden, expected = seen.hidden_states, theirs.hidden_states
    assert len(hidden) == len(expected)
    for one, other in zip(hidden, expected, strict=True):
        assert_close(one[mask.bool()], other[mask.bool()], **CLOSE)
    for pattern, layers in patterns.items():
        for number, other in enumerate(layers):
            one = seen[pattern.replace("*", str(number)) + ".pattern"]
            if one.shape[2] == mask.shape[1]:  # rows of padding mean nothing
                rows = mask.bool()[:, None, :, None]
                one, other = one * rows, other * rows
            assert_close(one, other, **CLOSE)


@pytest.mark.parametrize(("model_type", "head"), IN_TRANSFORMERS)
@settings(max_examples=6)
@given(data=st.data())
def test_same_numbers_both_ways(model_type, head, data, tmp_path_factory):
    peer = their_model(model_type, head, data.draw(settings_of(model_type)))
    theirs_folder, ours_folder = (tmp_path_factory.mktemp(name) for name in ("theirs", "ours"))
    peer.save_pretrained(theirs_folder)
    model = gf.load(theirs_folder)
    inputs = inputs_for(peer, data.draw(st.integers(0, 9)))
    mask = inputs["attention_mask"]
    with torch.inference_mode():
        expected = peer(**inputs, output_hidden_states=True, output_attentions=True)
        compare(model(**inputs), expected, mask)
        with gf.record(model, "*") as seen:
            compare(model(**inputs), expected, mask)
        compare_inside(seen, expected, peer, mask)

        gf.save(model, ours_folder)
        again = type(peer).from_pretrained(ours_folder).eval()
        compare(model(**inputs), again(**inputs), mask)
    assert_same_tensors(theirs_folder, ours_folder)


def assert_same_tensors(theirs_folder, ours_folder):
    """Byte-identical after the round trip, but for tensors that have no effect."""
    theirs, ours = (load_file(folder / "model.safetensors") for folder in (theirs_folder, ours_folder))
    assert ours.keys() <= theirs.keys()
    without_effect = (
        "shared.weight",
        "encoder.rel_embeddings.weight",
        "encoder.LayerNorm.weight",
        "encoder.LayerNorm.bias",
    )
    idle = {name for name in theirs if "embed_positions" in name or name.endswith(without_effect)}
    assert theirs.keys() - ours.keys() <= idle
    for name, tensor in ours.items():
        assert_close(tensor, theirs[name], atol=0, rtol=0)


@pytest.mark.parametrize(("model_type", "head"), [case for case in IN_TRANSFORMERS if case[0] in LEFT])
@settings(max_examples=3)
@given(data=st.data())
def test_left_padding_equals_transformers_with_its_positions(model_type, head, data, tmp_path_factory):
    """What transformers gets right only when it is told the positions is the default here."""
    peer = their_model(model_type, head, data.draw(settings_of(model_type)))
    folder = tmp_path_factory.mktemp("theirs")
    peer.save_pretrained(folder)
    model = gf.load(folder)
    ids = torch.randint(4, VOCABULARY, (2, 8), generator=torch.Generator().manual_seed(0))
    mask = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1], [1] * 8])
    ids[mask == 0] = peer.config.pad_token_id or 0
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    if "roberta" in model_type:
        positions = mask.cumsum(1) * mask + 1
    with torch.inference_mode():
        expected = peer(input_ids=ids, attention_mask=mask, position_ids=positions)
        ours = model(input_ids=ids, attention_mask=mask)
        told = model(input_ids=ids, attention_mask=mask, position_ids=positions)
    keep = mask.bool()
    for name, value in ours._asdict().items():
        if value.dim() < 3 and head not in SCORES_TOKENS:  # transformers pools a padding token here
            assert_close(getattr(told, name), value, **CLOSE)
            continue
        assert_close(value[keep], expected[name][keep], **CLOSE)
        assert_close(getattr(told, name)[keep], expected[name][keep], **CLOSE)
