"""What a continuous batch promises beside the law that each request is written as if alone (tests/laws)."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

import glassformer as gf
from families import SMALL_GPT, random_model, settings_of, shake
from generators import sharp
from glassformer.engine import slots
from glassformer.generate.continuous import ContinuousBatch
from glassformer.text.train import train

PROMPT = [5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24]
LARGE = SMALL_GPT | {"n_positions": 64, "tie_word_embeddings": False}


@pytest.fixture
def model():
    return sharp(random_model("gpt2", "text-generation", LARGE)).double().eval()


@pytest.fixture(scope="module")
def spoken(tmp_path_factory):
    """A small language model with a byte-level tokenizer, on texts with characters of several bytes."""
    corpus = tmp_path_factory.mktemp("text") / "corpus.txt"
    corpus.write_text("the cat sat on the mat. 猫坐在垫子上。 😀 naïve café\n" * 20, encoding="utf-8")
    tokenizer = train([corpus], kind="bpe", vocab_size=300)
    return random_model("gpt2", "text-generation", LARGE | {"vocab_size": 300, "bos_token_id": 0}, seed=3), tokenizer


def batch_of(model, tokenizer=None, **sizes):
    return ContinuousBatch(model, tokenizer, **{"max_rows": 4, "max_length": 60, **sizes})


def written(batch):
    """All events until it is idle, by request and sequence."""
    found = {}
    while not batch.idle:
        for event in batch.step():
            found.setdefault((event.request_id, event.index), []).append(event)
    return found


def ids_of(events):
    return [event.token_id for event in events if event.token_id is not None]


def alone(model, prompt, **request):
    return gf.generate(model, None, torch.tensor([prompt]), **request)[0, len(prompt) :].tolist()


def test_a_known_beginning_changes_nothing(model):
    """Of the prompt again, of a longer one, of what was written, and of another text that differs at its end."""
    batch, request = batch_of(model), {"max_new_tokens": 20, "eos_token_id": None}
    batch.add("first", PROMPT, **request)
    first = written(batch)["first", 0]
    assert ids_of(first) == alone(model, PROMPT, **request)
    assert first[0].cached_tokens == 0
    talk = [*PROMPT, *ids_of(first)]
    for prompt, cached in ((PROMPT, 16), ([*PROMPT, 30, 31], 16), (talk, 32), (PROMPT[:16], 0), ([4, *PROMPT], 0)):
        batch.add("again", prompt, **request)
        events = written(batch)["again", 0]
        assert ids_of(events) == alone(model, prompt, **request)
        assert {event.cached_tokens for event in events} == {cached}


def test_prompts_that_are_not_known_any_more_are_read_again(model, monkeypatch):
    """Memory for few blocks: the least recently used go, and never what others stand behind."""
    monkeypatch.setattr(slots, "BLOCK", 2)
    block = 2 * 2 * 2 * 12 * 8  # keys and values of 2 tokens in 2 layers of width 12, in float64
    batch, chance = batch_of(model, prefix_bytes=7 * block), torch.Generator().manual_seed(0)
    assert batch.prefixes.max_blocks == 7
    for number in range(20):
        length, same = torch.randint(1, 20, (2,), generator=chance).tolist()
        prompt = [*PROMPT[:same], *torch.randint(4, 7, (length,), generator=chance).tolist()]
        batch.add(number, prompt, max_new_tokens=3)
        assert ids_of(written(batch)[number, 0]) == alone(model, prompt, max_new_tokens=3)
        known, numbers = batch.prefixes.blocks, {0} | {block.number for block in batch.prefixes.blocks.values()}
        assert len(known) <= 7
        assert all(before in numbers for before, _ in known)


def test_a_weight_that_changes_between_two_requests_is_seen(model):
    """By the decoder, and by what was remembered."""
    batch = batch_of(model)
    for seed in range(3):
        batch.add("one", PROMPT, max_new_tokens=8)
        events = written(batch)["one", 0]
        assert ids_of(events) == alone(model, PROMPT, max_new_tokens=8)
        assert events[0].cached_tokens == 0
        shake(model, seed)


def test_a_model_that_is_looked_into_is_run_as_it_is(model):
    batch = batch_of(model)
    with gf.record(model, "layers.0", every_call=True) as seen:
        batch.add("one", PROMPT, max_new_tokens=4)
        events = written(batch)["one", 0]
    assert len(seen.calls("layers.0")) == 4
    assert ids_of(events) == alone(model, PROMPT, max_new_tokens=4)


@pytest.mark.parametrize("chunk", [1, 3, 7, 19, 20, 256])
def test_others_wait_for_one_chunk_of_a_long_prompt(model, chunk):
    batch = batch_of(model, prefill_chunk=chunk)
    batch.add("first", PROMPT[:1], max_new_tokens=40, eos_token_id=None)
    batch.step()
    batch.add("second", PROMPT, max_new_tokens=5, eos_token_id=None)
    events = [batch.step() for _ in range(-(-len(PROMPT) // chunk))]
    assert all(event.request_id == "first" for some in events[:-1] for event in some)
    assert all(sum(event.request_id == "first" for event in some) == 1 for some in events), "a token at every step"
    assert [event.request_id for event in events[-1]] == ["second", "first", "second"]
    found = [event for some in events for event in some if event.request_id == "second"] + written(batch)["second", 0]
    assert ids_of(found) == alone(model, PROMPT, max_new_tokens=5, eos_token_id=None)


def test_whoever_is_cancelled_at_any_step_the_others_are_not(model):
    request = {"max_new_tokens": 9, "eos_token_id": None}
    expected = {name: alone(model, prompt, **request) for name, prompt in (("a", PROMPT[:3]), ("c", PROMPT[:11]))}
    for step in range(14):
        batch, found = batch_of(model, max_rows=2, prefill_chunk=5), {"a": [], "b": [], "c": []}
        for name, prompt in (("a", PROMPT[:3]), ("b", PROMPT), ("c", PROMPT[:11])):
            batch.add(name, prompt, **request)
        for number in range(100):
            if number == step:
                batch.cancel("b")
            for event in batch.step():
                found[event.request_id].append(event)
            if batch.idle:
                break
        assert found["b"][-1].finish_reason == ("cancelled" if step < 12 else "length")
        assert {name: ids_of(found[name]) for name in expected} == expected
    batch.cancel("b")
    assert batch.idle
    assert batch.step() == []


def test_a_row_that_breaks_down_fails_alone(model):
    """While its prompt is read, and in the midst of its text; whoever comes into its place is well."""
    with torch.no_grad():
        model.embeddings.token.weight[40] = torch.nan
    batch, request = batch_of(model, max_rows=2), {"eos_token_id": None, "suppress_tokens": [40]}
    batch.add("well", PROMPT, max_new_tokens=35, **request)
    batch.add("at once", [5, 40, 6], max_new_tokens=12, **request)
    batch.add("later", PROMPT[:9], max_new_tokens=12, sequence_bias=[[[40], 1e4]])
    found = {"well": [], "at once": [], "later": [], "in its place": []}
    for number in range(40):
        if number == 8:  # what has broken down lies before it, in the same row
            batch.add("in its place", PROMPT[:2], max_new_tokens=12, **request)
        for event in batch.step():
            found[event.request_id].append(event)
    for name, tokens in (("at once", 0), ("later", 1)):
        *before, last = found[name]
        assert (last.finish_reason, last.completion_tokens) == ("error", tokens)
        assert len(before) == tokens
        assert "not numbers (NaN)" in last.error
    assert ids_of(found["well"]) == alone(model, PROMPT, max_new_tokens=35, **request)
    assert ids_of(found["in its place"]) == alone(model, PROMPT[:2], max_new_tokens=12, **request)


def test_a_setting_that_fails_at_its_step_fails_alone(model):
    batch = batch_of(model)
    batch.add("wrong", PROMPT, max_new_tokens=3, forced_eos_token_id=999)
    batch.add("right", PROMPT, max_new_tokens=8)
    found = written(batch)
    assert found["wrong", 0][-1].error.startswith("the id 999 is not in the vocabulary")
    assert ids_of(found["right", 0]) == alone(model, PROMPT, max_new_tokens=8)


def test_log_probabilities_are_those_of_generate(model):
    request = {"max_new_tokens": 6, "temperature": 1.5, "num_return_sequences": 3, "seed": 4, "top_logprobs": 4}
    request |= {"eos_token_id": [7, 9, 30]}
    batch = batch_of(model)
    batch.add("one", PROMPT, **request)
    batch.add("bare", PROMPT, max_new_tokens=3, return_dict_in_generate=True)
    batch.add("none", PROMPT, max_new_tokens=3)
    found = written(batch)
    expected = gf.generate(model, None, torch.tensor([PROMPT]), return_dict_in_generate=True, **request)
    for index, length in enumerate(expected.lengths.tolist()):
        scores = [event.score for event in found["one", index]]
        assert_close(torch.tensor([one.logprob for one in scores]), expected.logprobs[index, :length])
        assert [[id_ for id_, _ in one.top] for one in scores] == expected.top_ids[index, :length].tolist()
        assert_close(torch.tensor([[x for _, x in one.top] for one in scores]), expected.top_logprobs[index, :length])
    assert all(event.score.top == [] and event.score.logprob <= 0 for event in found["bare", 0])
    assert all(event.score is None for event in found["none", 0])


def test_texts_come_in_whole_characters_and_without_their_stop_strings(spoken):
    model, tokenizer = spoken
    batch, stops, ended = batch_of(model, tokenizer), ["at", "坐在", "e c", "\n"], 0
    requests = {seed: {"max_new_tokens": 25, "temperature": 2.0, "seed": seed} for seed in range(12)}
    requests |= {seed + 12: {**request, "stop_strings": stops} for seed, request in requests.items()}
    for number, request in requests.items():
        batch.add(number, "the cat", **request)
    found = written(batch)
    for number, request in requests.items():
        whole, events = gf.generate(model, tokenizer, "the cat", **request), found[number, 0]
        text, last = "the cat" + "".join(event.text for event in events), events[-1]
        if number < 12:
            assert not any(event.text.endswith("\ufffd") for event in events[:-1])
        if last.stop_string is None:
            assert text == whole
        else:
            ended += 1
            assert last.finish_reason == "stop"
            assert whole.startswith(text + last.stop_string)
            assert not any(stop in text[len("the cat") :] for stop in stops)
    assert ended > 3


def test_ids_with_a_tokenizer_give_texts(spoken):
    model, tokenizer = spoken
    ids = tokenizer("the cat")["input_ids"]
    batch = batch_of(model, tokenizer)
    batch.add("ids", ids, max_new_tokens=5, stop_strings=["at"])
    batch.add("text", "the cat", max_new_tokens=5, stop_strings=["at"])
    found = written(batch)
    assert [one.text for one in found["ids", 0]] == [one.text for one in found["text", 0]]
    assert gf.generate(model, tokenizer, torch.tensor([ids]), max_new_tokens=5) == [
        gf.generate(model, tokenizer, "the cat", max_new_tokens=5)
    ]


def test_a_prompt_beyond_a_row_is_cut_where_that_is_asked_for(model):
    batch, long = batch_of(model, max_length=16), {"truncation": True, "max_new_tokens": 7, "eos_token_id": None}
    assert batch.add("cut", PROMPT, **long).prompt_ids == PROMPT[-10:]
    assert batch.add("silent", PROMPT[:9]).max_new_tokens == 8, "no more than fits"
    assert ids_of(written(batch)["cut", 0]) == alone(model, PROMPT[-10:], max_new_tokens=7, eos_token_id=None)


def test_the_clock_ends_a_text(model):
    batch = batch_of(model)
    batch.add("one", PROMPT, max_time=1e-9, eos_token_id=None)
    (only,) = written(batch)["one", 0]
    assert only.finish_reason == "length"


REFUSED = [
    ({"num_beams": 3}, "the strategy 'beam' does not write token by token; use gf.generate"),
    ({"penalty_alpha": 0.6, "top_k": 4}, "the strategy 'contrastive'"),
    ({"prompt_lookup_num_tokens": 3}, "the strategy 'speculative'"),
    (
        {"max_new_tokens": 45},
        "45 new tokens after a prompt of 20 do not fit into a row's 60 positions; .*max_new_tokens=41 at most",
    ),
    ({"temperature": 0.0}, "temperature must be above 0"),
    ({"num_return_sequences": 5, "do_sample": True}, "num_return_sequences=5 is more than the 4 rows"),
    ({"num_return_sequences": 10**15, "do_sample": True}, "num_return_sequences=1000000000000000 is more than"),
    ({"suppress_tokens": [41]}, "the id 41 is not in the vocabulary"),
    ({"stop_strings": ["a"]}, "stop_strings need a tokenizer"),
    ({"prompt": []}, "nothing to go on from"),
    ({"prompt": [5, 41]}, "the id 41 is not in the vocabulary; give whole numbers from 0 to 40"),
    ({"prompt": [5, -1]}, "the id -1 is not in the vocabulary"),
    ({"prompt": [5, 10**30]}, "is not in the vocabulary"),
    ({"prompt": [5, 1.5]}, "the id 1.5 is not in the vocabulary"),
    ({"prompt": "a text"}, "a text needs a tokenizer"),
    ({"prompt": [5] * 61, "max_new_tokens": 1}, "shorten the prompt"),
    ({"topk": 3}, "generation has no setting 'topk'; near it: top_k"),
]


@pytest.mark.parametrize(("request_", "message"), REFUSED)
def test_what_cannot_be_written_is_refused_at_once(model, request_, message):
    batch, prompt = batch_of(model), request_.get("prompt", PROMPT)
    with pytest.raises(ValueError, match=message):
        batch.add("one", prompt, **{name: value for name, value in request_.items() if name != "prompt"})
    assert batch.idle


def test_an_id_stands_for_one_request(model):
    batch = batch_of(model)
    batch.add("one", PROMPT)
    with pytest.raises(ValueError, match="the request 'one' is there already"):
        batch.add("one", PROMPT)
    written(batch)
    batch.add("one", PROMPT)


@pytest.mark.parametrize("sizes", [{"max_rows": 0}, {"max_length": 0}, {"prefill_chunk": 0}, {"prefix_bytes": -1}])
def test_sizes_are_above_zero(model, sizes):
    with pytest.raises(ValueError, match=rf"{next(iter(sizes))} must be \d or more"):
        batch_of(model, **sizes)


def test_a_batch_beyond_memory_is_refused_beforehand(model):
    with pytest.raises(ValueError, match=r"max_rows=1000000000 of max_length=60 needs about [\d,.]+ GB and cpu has"):
        batch_of(model, max_rows=10**9)


@pytest.mark.parametrize(
    ("kind", "head"),
    [("glassformer-rnn", "text-generation"), ("t5", "text2text-generation"), ("bert", "fill-mask")],
)
@settings(max_examples=1)
@given(data=st.data())
def test_other_models_are_refused_by_name(kind, head, data):
    with pytest.raises(ValueError, match="no decoder-only Transformer; use gf.generate|does not generate"):
        batch_of(random_model(kind, head, data.draw(settings_of(kind))))
