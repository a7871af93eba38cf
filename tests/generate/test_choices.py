"""Choices: the tokens that generate writes, with the log-probabilities it tells, and the shares they were drawn by."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

import glassformer as gf
from families import SMALL_GPT, random_model, settings_of
from generators import GENERATING, unforced
from glassformer.generate.choices import choices
from glassformer.generate.job import Job
from glassformer.generate.prompts import prompt_of, request_of

IDS = torch.tensor([[5, 6, 7]])
REQUEST = {"max_new_tokens": 6, "pad_token_id": 0, "decoder_start_token_id": 0, "eos_token_id": 3}


def job(model, **request):
    return Job.of(*prompt_of(model, None, IDS, None, request_of(model, REQUEST | request)))


@pytest.mark.parametrize(("model_type", "head"), GENERATING)
@settings(max_examples=4)
@given(data=st.data(), seed=st.integers(0, 99), drawn=st.booleans())
def test_choices_are_those_of_generate(model_type, head, data, seed, drawn):
    model = unforced(random_model(model_type, head, data.draw(settings_of(model_type)), seed))
    request = {"temperature": 1.5, "top_k": 9, "seed": seed} if drawn else {"repetition_penalty": 1.3}
    found = list(choices(model, job(model, **request), 4))
    told = {"return_dict_in_generate": True, "top_logprobs": 4}
    wanted = gf.generate(model, None, IDS, **REQUEST, **request, **told)
    length = int(wanted.lengths[0])
    new = wanted.sequences[0, -length:].tolist()
    assert [one.taken.id for one in found] == new
    assert_close(torch.tensor([one.taken.logprob for one in found]), wanted.logprobs[0], atol=1e-4, rtol=1e-4)
    tops = torch.tensor([[other.logprob for other in one.top] for one in found])
    assert_close(tops, wanted.top_logprobs[0], atol=1e-4, rtol=1e-4)
    assert [one.last for one in found] == [token == 3 for token in new]


def test_shares_are_what_is_drawn_by():
    """Temperature and top_k written out: of the two likeliest tokens, each by the exponential of its half logit."""
    model = unforced(random_model(*GENERATING[0], SMALL_GPT))
    (first, *_) = choices(model, job(model, temperature=2.0, top_k=2, seed=1), 41)
    logs = torch.tensor([other.logprob for other in first.top])
    expected = torch.cat([(logs[:2] / 2).softmax(0), torch.zeros(39)])
    assert_close(torch.tensor([other.share for other in first.top]), expected, atol=1e-5, rtol=1e-5)


def test_beams_are_no_choices():
    model = unforced(random_model(*GENERATING[0], SMALL_GPT))
    with pytest.raises(ValueError, match="'beam' does not take token by token; take greedy or sample"):
        next(choices(model, job(model, num_beams=2), 3))
