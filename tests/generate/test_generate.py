"""generate and stream: as the naive loop, each text as if alone, in texts and in ids."""

import json
import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

import glassformer as gf
from families import SMALL_GPT, random_model, sequences, settings_of
from generators import GENERATING, padded_left, unforced
from glassformer.generate.prompts import request_of
from glassformer.text.train import train

NEW = 6


def naive(model, ids, *, eos, source=None):
    """One row: the full forward for every token, until eos; `source` is an encoder-decoder's input."""
    for _ in range(NEW):
        given_ = {"input_ids": ids} if source is None else {"input_ids": source, "decoder_input_ids": ids}
        ids = torch.cat([ids, model(**given_).logits[:, -1:].argmax(-1)], dim=1)
        if ids[0, -1] == eos:
            break
    return ids[0].tolist()


@pytest.mark.parametrize(("model_type", "head"), GENERATING)
@settings(max_examples=6)
@given(options=st.data(), seed=st.integers(0, 99))
@torch.no_grad()
def test_greedy_is_the_naive_loop(model_type, head, options, seed):
    """From a left-padded batch whose rows end at different times, and so leave it."""
    model = random_model(model_type, head, options.draw(settings_of(model_type)), seed)
    rows = sequences(seed)
    ids, mask = padded_left(rows)
    seq2seq = head != "text-generation"
    request = {"max_new_tokens": NEW, "decoder_start_token_id": 1, "pad_token_id": 0, "forced_eos_token_id": None}
    request["eos_token_id"] = [10**6]
    before = 1 if seq2seq else ids.shape[1]
    free = gf.generate(unforced(model), None, ids, attention_mask=mask, **request)
    eos = free[0, before + 2].item()  # a token that some row surely writes
    written = gf.generate(model, None, ids, attention_mask=mask, **request | {"eos_token_id": eos})
    assert_close(written[:, :before], torch.ones_like(ids[:, :1]) if seq2seq else ids)
    for row, out in zip(rows, written.tolist(), strict=True):
        known = [1] if seq2seq else row
        expected = naive(model, torch.tensor([known]), eos=eos, source=torch.tensor([row]) if seq2seq else None)
        new = expected[len(known) :]
        assert out[before:] == new + [0] * (written.shape[1] - before - len(new))


ONE_TEXT_WAYS = [{}, {"num_beams": 2}, {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.5}]
ONE_TEXT_WAYS += [{"penalty_alpha": 0.4, "top_k": 3}]


@pytest.mark.parametrize("way", ONE_TEXT_WAYS)
def test_texts_that_have_ended_leave_the_batch(way):
    """And the filters that look at a source keep to the texts that stay."""
    chosen = {"vocab_size": 41, "d_model": 12, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 8}
    chosen |= {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "decoder_ffn_dim": 8}
    chosen |= {"max_position_embeddings": 40, "tie_word_embeddings": False}
    model = random_model("glassformer-transformer", "text2text-generation", chosen)
    rows = sequences(5, lengths=(5, 11, 2, 8, 3, 9))
    ids, mask = padded_left(rows)
    request = {"max_new_tokens": 12, "decoder_start_token_id": 1, "pad_token_id": 0, "early_stopping": True, **way}
    request |= {"encoder_repetition_penalty": 1.4, "encoder_no_repeat_ngram_size": 2, "repetition_penalty": 1.2}
    free = gf.generate(model, None, ids, attention_mask=mask, eos_token_id=[10**6], **request)
    request["eos_token_id"] = [*range(20, 26), free[0, 3].item()]
    fed, hidden_step = [], model.hidden_step
    model.hidden_step = lambda new, state, **more: (fed.append(len(new)), hidden_step(new, state, **more))[1]
    together = gf.generate(model, None, ids, attention_mask=mask, **request)
    assert fed[-1] <= max(fed) // 2
    for row, text in zip(rows, together.tolist(), strict=True):
        alone = gf.generate(model, None, torch.tensor([row]), **request)[0].tolist()
        assert text == alone + [0] * (len(text) - len(alone))


def test_it_stops_when_every_row_has_ended():
    model = random_model("glassformer-rnn", "text-generation", {"vocab_size": 9, "hidden_size": 8})
    prompt = torch.tensor([[5, 6]])
    first = gf.generate(model, None, prompt, max_new_tokens=1)[0, -1].item()
    assert gf.generate(model, None, prompt, max_new_tokens=50, eos_token_id=first).tolist() == [[5, 6, first]]


def test_a_position_table_is_used_to_its_end():
    model = random_model("gpt2", "text-generation", SMALL_GPT | {"n_positions": 5})
    prompt = torch.tensor([[5, 6]])
    assert gf.generate(model, None, prompt, max_new_tokens=4).shape == (1, 6)
    assert gf.generate(model, None, prompt).shape == (1, 6)  # as much as fits
    with pytest.raises(ValueError, match="ask for max_new_tokens=4 at most"):
        gf.generate(model, None, prompt, max_new_tokens=5)
    with pytest.raises(ValueError, match="the prompt has 6 tokens and the model 5 positions"):
        gf.generate(model, None, torch.tensor([[5, 6, 7, 8, 5, 6]]))


@pytest.fixture(scope="module")
def spoken(tmp_path_factory):
    """A small language model with a byte-level tokenizer, on texts with characters of several bytes."""
    corpus = tmp_path_factory.mktemp("text") / "corpus.txt"
    corpus.write_text("the cat sat on the mat. 猫坐在垫子上。 😀 naïve café\n" * 20, encoding="utf-8")
    tokenizer = train([corpus], kind="bpe", vocab_size=300)
    return random_model(
        "gpt2", "text-generation", SMALL_GPT | {"vocab_size": 300, "bos_token_id": 0}, seed=3
    ), tokenizer


def test_texts_in_a_batch_are_as_if_alone(spoken):
    model, tokenizer = spoken
    prompts = ["the cat", "猫", "the cat sat on the mat and", ""]
    for request in ({}, {"num_beams": 3}, {"repetition_penalty": 1.5, "no_repeat_ngram_size": 2}):
        together = gf.generate(model, tokenizer, prompts, max_new_tokens=8, **request)
        alone = [gf.generate(model, tokenizer, prompt, max_new_tokens=8, **request) for prompt in prompts]
        assert together == alone
        assert together[2].startswith(prompts[2])


def test_a_stream_is_the_text_in_whole_characters(spoken):
    model, tokenizer = spoken
    for seed in range(20):
        request = {"max_new_tokens": 20, "temperature": 2.0, "seed": seed}
        pieces = list(gf.stream(model, tokenizer, "the", **request))
        assert "the" + "".join(pieces) == gf.generate(model, tokenizer, "the", **request)
        assert not any(piece.endswith("\ufffd") for piece in pieces[:-1])


def test_seeds_and_several_texts(spoken):
    model, tokenizer = spoken
    drawn = gf.generate(model, tokenizer, "the", max_new_tokens=9, temperature=1.5, num_return_sequences=4, seed=7)
    again = gf.generate(model, tokenizer, "the", max_new_tokens=9, temperature=1.5, num_return_sequences=4, seed=7)
    assert drawn == again
    assert len(set(drawn)) > 1
    torch.manual_seed(1)
    first = gf.generate(model, tokenizer, "the", top_p=0.9)
    torch.manual_seed(1)
    assert gf.generate(model, tokenizer, "the", top_p=0.9) == first
    beams = gf.generate(model, tokenizer, ["the", "cat"], max_new_tokens=5, num_beams=4, num_return_sequences=3)
    assert [len(set(texts)) for texts in beams] == [3, 3]


def test_right_padded_ids_go_on_at_their_last_token():
    model = random_model("gpt2", "text-generation", SMALL_GPT)
    ids, mask = torch.tensor([[5, 6, 7, 0], [5, 6, 7, 8]]), torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1]])
    written = gf.generate(model, None, ids, attention_mask=mask, max_new_tokens=4)
    alone = gf.generate(model, None, torch.tensor([[5, 6, 7]]), max_new_tokens=4)
    assert written[0, 4:].tolist() == alone[0, 3:].tolist()


def test_a_model_gone_wrong_is_stopped():
    model = random_model("gpt2", "text-generation", SMALL_GPT)
    with torch.no_grad():
        model.final_norm.weight[0] = float("nan")
    for request in ({}, {"num_beams": 2}):
        with pytest.raises(ValueError, match="not numbers"):
            gf.generate(model, None, torch.tensor([[5, 6]]), max_new_tokens=3, **request)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"max_new_tokens": 0}, "max_new_tokens is 0; it must be a whole number from 1"),
        ({"max_new_token": 3}, "no setting 'max_new_token'; near it: max_new_tokens"),
        ({"temperature": 0.0}, "temperature must be above 0"),
        ({"top_p": 1.5}, "top_p must be above 0 and at most 1"),
        ({"num_return_sequences": 2}, "need num_beams=2 or more, or do_sample=True"),
        ({"num_return_sequences": 3, "num_beams": 2, "do_sample": True}, "need num_beams=3 or more"),
        ({"early_stopping": "soon"}, "early_stopping is 'soon'; it must be true or false or 'never'"),
        ({"max_length": 2}, "the prompt has 2 tokens and max_length is 2"),
    ],
)
def test_wrong_requests_are_named(request_, message):
    model = random_model("gpt2", "text-generation", SMALL_GPT)
    with pytest.raises(ValueError, match=message):
        gf.generate(model, None, torch.tensor([[5, 6]]), **request_)


def test_what_stands_elsewhere_is_named_and_asked_for_nothing_is_taken(spoken):
    model, tok = spoken
    idle = {"output_attentions": False, "streamer": None, "output_scores": False}
    assert gf.generate(model, tok, "the", max_new_tokens=3, **idle) == gf.generate(model, tok, "the", max_new_tokens=3)
    for name, answer in {
        "output_attentions": "gf.record",
        "streamer": "gf.stream",
        "output_scores": "logprobs",
    }.items():
        with pytest.raises(ValueError, match=f"generation takes no {name}: .*{answer}"):
            gf.generate(model, tok, "the", **{name: True})


@pytest.mark.parametrize("key", ["num_beams", "do_sample", "eos_token_id", "temperature"])
def test_a_wrong_value_in_a_folder_names_the_file_and_the_key(spoken, tmp_path, key):
    gf.save(spoken[0], tmp_path, tokenizer=spoken[1])
    (tmp_path / "generation_config.json").write_text(json.dumps({key: "much"}))
    with pytest.raises(ValueError, match=re.escape(f"{tmp_path / 'generation_config.json'}: {key} is 'much'; it must")):
        gf.generate(gf.load(tmp_path), spoken[1], "a", max_new_tokens=2)


@pytest.mark.parametrize(("written", "meant"), [(0, False), (1, True)])
def test_a_folder_may_write_flags_as_numbers(spoken, tmp_path, written, meant):
    """As transformers takes them; a request may not."""
    gf.save(spoken[0], tmp_path, tokenizer=spoken[1])
    (tmp_path / "generation_config.json").write_text(json.dumps({"do_sample": written}))
    assert request_of(gf.load(tmp_path), {}).do_sample is meant
    with pytest.raises(ValueError, match="do_sample is 1; it must be true or false"):
        request_of(spoken[0], {"do_sample": 1})


def test_other_wrong_uses_are_named(spoken):
    model, tokenizer = spoken
    with pytest.raises(ValueError, match="give a tensor of ids"):
        gf.generate(model, None, "the cat")
    with pytest.raises(ValueError, match="give a prompt that is not empty"):
        gf.generate(random_model("gpt2", "text-generation", SMALL_GPT | {"vocab_size": 300}), tokenizer, "")
    with pytest.raises(ValueError, match="a stream is one text"):
        next(gf.stream(model, tokenizer, "the", num_beams=2))
    with pytest.raises(ValueError, match="with head None does not generate"):
        gf.generate(random_model("gpt2", None, SMALL_GPT), None, torch.tensor([[5]]))


def test_a_prompt_beyond_all_measure_is_not_tokenised():
    model = random_model("gpt2", "text-generation", SMALL_GPT)

    def unused(*_args, **_options):
        raise AssertionError("it was tokenised")

    with pytest.raises(ValueError, match="a prompt has 10,000,001 characters; 10,000,000 are the most"):
        gf.generate(model, unused, "a" * 10_000_001)
