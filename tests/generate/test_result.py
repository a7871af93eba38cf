"""Results: log-probabilities and alternatives as the whole model gives them, stops, the clock, and limits."""

import logging
import threading
import time

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

import glassformer as gf
from families import SMALL_GPT, random_model, sequences, settings_of
from generators import GENERATING, begun, logits, padded_left, unforced
from glassformer.blocks import memory
from glassformer.generate.job import Prompt
from glassformer.generate.needs import search_bytes
from glassformer.generate.prompts import request_of
from glassformer.text.train import train

NEW = 6
REQUEST = {"max_new_tokens": NEW, "pad_token_id": 0, "decoder_start_token_id": 0, "return_dict_in_generate": True}
STRATEGIES = {
    "greedy": {},
    "sample": {"temperature": 1.5, "num_return_sequences": 2, "seed": 3},
    "beam": {"num_beams": 3, "num_return_sequences": 2},
    "contrastive": {"penalty_alpha": 0.6, "top_k": 4},
    "speculative": {"prompt_lookup_num_tokens": 3},
}


@pytest.mark.parametrize(("model_type", "head"), GENERATING)
@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(max_examples=1)
@given(data=st.data())
def test_every_token_is_explained(model_type, head, strategy, data):
    """Whatever found it, from a left-padded batch."""
    model = unforced(random_model(model_type, head, data.draw(settings_of(model_type))))
    rows = sequences(lengths=(5, 2, 8, 3, 4))
    ids, mask = padded_left(rows)
    request = REQUEST | STRATEGIES[strategy] | {"top_logprobs": 3}
    free = gf.generate(model, None, ids, attention_mask=mask, **request, eos_token_id=[10**6])
    end = int(free.sequences[0, -4])
    found = gf.generate(model, None, ids, attention_mask=mask, eos_token_id=end, **request)
    start, share = found.sequences.shape[1] - found.logprobs.shape[1], len(found.sequences) // len(rows)
    assert strategy == "beam" or (found.lengths < NEW).any()
    for place, (text, length) in enumerate(zip(found.sequences.tolist(), found.lengths.tolist(), strict=True)):
        row = rows[place // share]
        new = text[start : start + length]
        assert (end in new[:-1]) is False
        assert new[-1] == end or length == NEW
        assert text[start + length :] == [0] * (len(text) - start - length)
        known = begun(model, row)
        logs = logits(model, row, (*known, *new))[len(known) - 1 : -1].log_softmax(-1)
        expected = logs.gather(1, torch.tensor(new)[:, None])[:, 0]
        assert_close(found.logprobs[place, :length], expected, atol=1e-4, rtol=1e-4)
        assert found.logprobs[place, length:].eq(0).all()
        assert_close(found.top_logprobs[place, :length], logs.topk(3).values, atol=1e-4, rtol=1e-4)
        assert_close(logs.gather(1, found.top_ids[place, :length]), logs.topk(3).values, atol=1e-4, rtol=1e-4)
        score = float(expected.sum()) / (length if strategy == "beam" else 1)
        assert float(found.sequences_scores[place]) == pytest.approx(score, abs=1e-3)


@pytest.fixture(scope="module")
def spoken(tmp_path_factory):
    folder = tmp_path_factory.mktemp("spoken")
    (folder / "corpus.txt").write_text("the cat sat on the mat. 猫坐在垫子上。 😀 naïve café\n" * 20, encoding="utf-8")
    tokenizer = train([folder / "corpus.txt"], kind="bpe", vocab_size=300)
    chosen = SMALL_GPT | {"vocab_size": 300, "bos_token_id": 0, "eos_token_id": None, "n_positions": 60}
    model = random_model("gpt2", "text-generation", chosen, seed=3)
    gf.save(model, folder, tokenizer=tokenizer)
    return model, tokenizer, folder


def test_texts_and_steps_are_told(spoken):
    model, tokenizer, _ = spoken
    prompts = ["the cat", "猫"]
    found = gf.generate(model, tokenizer, prompts, max_new_tokens=4, top_logprobs=2, return_dict_in_generate=True)
    assert found.texts == gf.generate(model, tokenizer, prompts, max_new_tokens=4)
    steps = found.steps(1, tokenizer)
    assert [step["id"] for step in steps] == found.sequences[1, -4:].tolist()
    assert [step["top"][0]["id"] for step in steps] == [step["id"] for step in steps]  # greedy takes the likeliest
    assert steps[2]["logprob"] == pytest.approx(steps[2]["top"][0]["logprob"], abs=1e-5)


@pytest.mark.parametrize("request_", [{}, {"num_beams": 2}, {"prompt_lookup_num_tokens": 3}])
def test_stop_strings_end_a_text_across_token_borders(spoken, request_):
    model, tokenizer, _ = spoken
    prompts, seen = ["the cat", "the cat sat on the mat and", "猫"], 0
    free = gf.generate(model, tokenizer, prompts, max_new_tokens=25, **request_)
    for prompt, text in zip(prompts, free, strict=True):
        new = text[len(prompt) :]
        for start in range(0, len(new) - 3, 3):
            stop = new[start : start + 3]
            request = {"max_new_tokens": 25, "stop_strings": stop, "return_dict_in_generate": True, **request_}
            found = gf.generate(model, tokenizer, [prompt], **request)
            ids = found.sequences[0, -found.logprobs.shape[1] :].tolist()
            if "\ufffd" in stop or request_.get("num_beams"):
                continue
            seen += 1
            assert stop in tokenizer.decode(ids)
            assert stop not in tokenizer.decode(ids[:-1])  # no token later than needed
            assert new.startswith(tokenizer.decode(ids[:-1]).rstrip("\ufffd"))
    assert seen > 10 or request_.get("num_beams")


def test_stop_strings_in_beams_end_hypotheses(spoken):
    """All that is found ends with the string, or is as long as it may be; nothing goes on behind it."""
    model, tokenizer, _ = spoken
    request = {"max_new_tokens": 8, "num_beams": 4, "num_return_sequences": 4, "return_dict_in_generate": True}
    stops = 0
    for stop in "aetscon":
        found = gf.generate(model, tokenizer, ["the cat"], stop_strings=[stop], **request)
        for text, length in zip(found.sequences, found.lengths.tolist(), strict=True):
            new = text[text.shape[0] - found.logprobs.shape[1] :][:length].tolist()
            assert stop not in tokenizer.decode(new[:-1])
            assert length == 8 or stop in tokenizer.decode(new)
            stops += length < 8
    assert stops > 1


def test_stop_strings_are_those_of_transformers(spoken):
    """The same ids, where the stop does not begin inside the prompt."""
    model, tokenizer, folder = spoken
    peer = transformers.GPT2LMHeadModel.from_pretrained(folder)
    their_tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    ids = torch.tensor([tokenizer("猫")["input_ids"]])
    seen = 0
    for stop in ("a", "th", "at ", "he", "t", " c", "sat", "o", "子"):
        request = {"max_new_tokens": 25, "stop_strings": stop, "do_sample": False}
        expected = peer.generate(
            ids, attention_mask=torch.ones_like(ids), tokenizer=their_tokenizer, pad_token_id=0, **request
        )[0].tolist()
        found = gf.generate(model, tokenizer, ["猫"], return_dict_in_generate=True, **request)
        assert found.sequences[0].tolist() == expected
        seen += len(expected) < ids.shape[1] + 25
    assert seen > 1


def test_a_stream_stops_as_generate_does(spoken):
    model, tokenizer, _ = spoken
    for request in ({"stop_strings": ["a"]}, {"penalty_alpha": 0.5, "top_k": 4}, {"prompt_lookup_num_tokens": 2}):
        whole = gf.generate(model, tokenizer, "the", max_new_tokens=20, **request)
        assert "the" + "".join(gf.stream(model, tokenizer, "the", max_new_tokens=20, **request)) == whole


def test_extra_stop_tokens_end_a_text():
    model = random_model("gpt2", "text-generation", SMALL_GPT)
    prompt = torch.tensor([[5, 6]])
    free = gf.generate(model, None, prompt, max_new_tokens=9, eos_token_id=3)[0, 2:].tolist()
    stopped = gf.generate(model, None, prompt, max_new_tokens=9, eos_token_id=3, stop_token_ids=[free[2]])
    assert stopped[0, 2:].tolist() == free[: free.index(free[2]) + 1]


@pytest.mark.parametrize(
    "request_", [{}, {"num_beams": 3}, {"penalty_alpha": 0.5, "top_k": 3}, {"prompt_lookup_num_tokens": 3}]
)
def test_the_clock_ends_a_text(request_, monkeypatch):
    """Time is up at the fourth look at the clock, which other threads of the process look at too."""
    model = random_model("gpt2", "text-generation", SMALL_GPT)
    ticks, clock, own = iter([0.0, *[0.5] * 3, *[2.0] * 99]), time.monotonic, threading.get_ident()
    monkeypatch.setattr(time, "monotonic", lambda: next(ticks) if threading.get_ident() == own else clock())
    written = gf.generate(
        model, None, torch.tensor([[5, 6]]), max_new_tokens=30, max_time=1.0, eos_token_id=[10**6], **request_
    )
    assert written.shape == (1, 2 + 4)


@pytest.mark.parametrize(("model_type", "head"), GENERATING)
@settings(max_examples=5)
@given(data=st.data())
def test_the_size_of_a_state_is_told_before(model_type, head, data):
    model = random_model(model_type, head, data.draw(settings_of(model_type)))
    ids = torch.tensor([sequences()[1]] * 3)
    told = model.state_bytes(3, 20, ids.shape)
    state = model.start(ids, None, length=20)
    parts, real = [state], 0
    while parts:
        part = parts.pop()
        if isinstance(part, torch.Tensor):
            real += part.nbytes if part.is_floating_point() else 0
        elif part is not None and not isinstance(part, int):
            parts += part if isinstance(part, (list, tuple)) else vars(part).values()
    assert told == real or (model_type == "glassformer-seq2seq" and real / 2 <= told <= 2 * real)


@pytest.mark.parametrize("request_", [{}, {"num_beams": 4}, {"prompt_lookup_num_tokens": 3}])
def test_a_cache_that_does_not_fit_is_refused_before_the_start(request_, monkeypatch):
    model = random_model("gpt2", "text-generation", SMALL_GPT)
    prompt = torch.tensor([[5, 6]])
    needed = search_bytes(model, Prompt(prompt), request_of(model, {"max_new_tokens": 9, **request_}))
    assert needed > model.state_bytes(request_.get("num_beams", 1), 2 + 9 - 1, prompt.shape)
    monkeypatch.setattr(memory, "free_bytes", lambda _device: needed)
    assert gf.generate(model, None, prompt, max_new_tokens=9, **request_).shape == (1, 11)
    monkeypatch.setattr(memory, "free_bytes", lambda _device: needed - 1)
    monkeypatch.setattr(model, "start", None)
    with pytest.raises(
        ValueError, match="max_new_tokens=9 after 2 tokens: the search needs about .* GB free; give fewer"
    ):
        gf.generate(model, None, prompt, max_new_tokens=9, **request_)


def test_a_long_prompt_is_cut_where_asked_and_it_is_said(spoken, caplog):
    model, tokenizer, _ = spoken
    long = "the cat sat on the mat. " * 30
    with pytest.raises(ValueError, match="positions; shorten the prompt, or give truncation=True to keep its end"):
        gf.generate(model, tokenizer, long)
    ids = tokenizer(long)["input_ids"]
    with caplog.at_level(logging.WARNING, "glassformer"):
        found = gf.generate(model, tokenizer, [long], max_new_tokens=7, truncation=True, return_dict_in_generate=True)
    assert f"a prompt has {len(ids)} tokens and only 54 fit: its first ones are left out" in caplog.text
    kept = torch.tensor([ids[-54:]])
    assert found.sequences.tolist() == gf.generate(model, None, kept, max_new_tokens=7).tolist()
    assert gf.generate(model, None, torch.tensor([ids]), truncation=True).shape == (1, 31 + 30)


def test_a_long_source_is_cut_at_its_end(caplog):
    chosen = {"vocab_size": 41, "d_model": 8, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
    chosen |= {"encoder_layers": 1, "decoder_layers": 1, "max_position_embeddings": 6, "eos_token_id": 3}
    model = random_model("glassformer-transformer", "text2text-generation", chosen)
    source = torch.tensor([[5, 6, 7, 8, 9, 10, 11, 12]])
    with caplog.at_level(logging.WARNING, "glassformer"):
        cut = gf.generate(model, None, source, truncation=True, max_new_tokens=4)
    assert "its last ones are left out" in caplog.text
    assert cut.tolist() == gf.generate(model, None, source[:, :6], max_new_tokens=4).tolist()


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"top_logprobs": -1}, "top_logprobs is -1; it must be a whole number from 0"),
        ({"max_time": 0}, "max_time is .*; it must be a number above 0"),
        ({"stop_strings": ["a", ""]}, "a stop string is empty"),
        ({"stop_strings": "a"}, "stop_strings need a tokenizer"),
    ],
)
def test_wrong_requests_are_named(request_, message):
    model = random_model("gpt2", "text-generation", SMALL_GPT)
    with pytest.raises(ValueError, match=message):
        gf.generate(model, None, torch.tensor([[5, 6]]), **request_)
