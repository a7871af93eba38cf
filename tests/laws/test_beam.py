"""Wide beam = exhaustive search, scores included, for every family that generates."""

from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from generators import GENERATING, tiny
from glassformer.generate.beams import beams
from glassformer.generate.job import Job, Prompt
from glassformer.generate.settings import GenerationSettings

WORDS, END, NEW = 4, 3, 3


def exhaustive(model, source, written, penalty):
    """Every text of at most NEW tokens, scored by running the whole model on it: [(score, ids)], best first."""
    found = {}
    for words in product(range(WORDS), repeat=NEW):
        cut = words.index(END) + 1 if END in words else NEW
        found[words[:cut]] = None
    for words in found:
        ids = torch.cat([written, torch.tensor([words])], dim=1)
        given_ids = (
            {"input_ids": source, "decoder_input_ids": ids} if model.config.is_encoder_decoder else {"input_ids": ids}
        )
        scores = model(**given_ids).logits.log_softmax(-1)[0, written.shape[1] - 1 : -1]
        total = sum(float(row[word]) for row, word in zip(scores, words, strict=True))
        found[words] = total / len(words) ** penalty
    return sorted(((score, words) for words, score in found.items()), reverse=True)


@pytest.mark.parametrize(("model_type", "head"), GENERATING)
@settings(max_examples=4)
@given(data=st.data(), penalty=st.sampled_from([0.0, 1.0, 2.0]), early=st.sampled_from([False, "never"]))
def test_wide_beam_is_exhaustive(model_type, head, data, penalty, early):
    model = tiny(model_type, head, data, WORDS)
    source = torch.tensor([[1, 2, 0, 1]])
    start = torch.tensor([[0]]) if model.config.is_encoder_decoder else None
    prompt = Prompt(source, None, start)
    width = WORDS**NEW
    request = GenerationSettings(
        num_beams=width, num_return_sequences=5, max_new_tokens=NEW, eos_token_id=END, length_penalty=penalty,
        early_stopping=early, pad_token_id=0,
    )  # fmt: skip
    with torch.no_grad():
        found = beams(model, Job.of(prompt, request))
        expected = exhaustive(model, source, prompt.written, penalty)
    for row, score, (best, words) in zip(found.sequences, found.scores, expected, strict=False):
        assert float(score) == pytest.approx(best, abs=1e-4)
        assert row[prompt.written.shape[1] :].tolist()[: len(words)] == list(words)
