"""Contrastive search: as its textbook without a cache, for every family, each text as if alone."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import cosine_similarity

import glassformer as gf
from families import SMALL_GPT, random_model, sequences, settings_of
from generators import GENERATING, begun, logits, padded_left, sharp, unforced

NEW = 6
REQUEST = {"max_new_tokens": NEW, "pad_token_id": 0, "decoder_start_token_id": 0}


def hidden_states(model, row, ids):
    """What the output layer reads after each token of a text."""
    heard = []
    hook = model.head.register_forward_pre_hook(lambda _module, inputs: heard.append(inputs[0][0]))
    logits(model, row, ids)
    hook.remove()
    return heard[-1]


def textbook(model, row, *, alpha, k, end):
    """Su et al. 2022, word by word: the whole text is read again for every candidate."""
    ids = begun(model, row)
    for _ in range(NEW):
        chances = logits(model, row, ids)[-1].softmax(-1)
        scores = {}
        for word in chances.topk(k).indices.tolist():
            states = hidden_states(model, row, (*ids, word))
            likeness = cosine_similarity(states[-1:], states[:-1], dim=-1).max()
            scores[word] = float((1 - alpha) * chances[word] - alpha * likeness)
        ids = (*ids, max(scores, key=scores.get))
        if ids[-1] == end:
            break
    return list(ids[len(begun(model, row)) :])


@pytest.mark.parametrize(("model_type", "head"), GENERATING)
@settings(max_examples=4)
@given(data=st.data(), seed=st.integers(0, 99))
def test_it_is_the_textbook(model_type, head, data, seed):
    model = unforced(random_model(model_type, head, data.draw(settings_of(model_type)), seed))
    rows = sequences(seed)
    ids, mask = padded_left(rows)
    alpha, k = data.draw(st.sampled_from([0.2, 0.6, 0.9])), data.draw(st.integers(2, 6))
    request = REQUEST | {"penalty_alpha": alpha, "top_k": k}
    end = textbook(model, rows[0], alpha=alpha, k=k, end=None)[2]  # one that some row surely writes
    written = gf.generate(model, None, ids, attention_mask=mask, eos_token_id=end, **request)
    new = written[:, len(begun(model, ids[0])) :]
    for row, out in zip(rows, new.tolist(), strict=True):
        expected = textbook(model, row, alpha=alpha, k=k, end=end)
        assert out == expected + [0] * (len(out) - len(expected))


@pytest.mark.parametrize("model_type", ["gpt2", "glassformer-rnn"])
def test_padding_means_nothing(model_type):
    """However much there is of it."""
    chosen = SMALL_GPT if model_type == "gpt2" else {"vocab_size": 41, "hidden_size": 8, "embedding_size": 8}
    request = REQUEST | {"penalty_alpha": 0.8, "top_k": 6, "eos_token_id": [10**6]}
    for seed in range(15):
        model = sharp(random_model(model_type, "text-generation", chosen, seed))
        rows = sequences(seed, lengths=(2, 25))
        ids, mask = padded_left(rows)
        together = gf.generate(model, None, ids, attention_mask=mask, **request)[0, -NEW:]
        assert together.tolist() == gf.generate(model, None, torch.tensor(rows[:1]), **request)[0, -NEW:].tolist()


def test_the_penalty_ends_repetition():
    """A model that greedy search drives round in circles writes more different words."""
    model = random_model("gpt2", "text-generation", SMALL_GPT)
    prompt, request = torch.tensor([[5, 6]]), {"max_new_tokens": 30, "eos_token_id": [10**6]}
    greedy = gf.generate(model, None, prompt, **request)[0, 2:].tolist()
    contrastive = gf.generate(model, None, prompt, penalty_alpha=0.6, top_k=8, **request)[0, 2:].tolist()
    assert len(set(greedy)) < len(set(contrastive))


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"penalty_alpha": 0.6}, "top_k of 2 or more, not 0.6 and None"),
        ({"penalty_alpha": 1.5, "top_k": 4}, "above 0 and below 1"),
        ({"penalty_alpha": 0.6, "top_k": 4, "temperature": 2.0}, "penalty_alpha draws nothing"),
        ({"penalty_alpha": 0.6, "top_k": 4, "num_beams": 3}, "follows one text, not 3 beams"),
    ],
)
def test_wrong_requests_are_named(request_, message):
    model = random_model("gpt2", "text-generation", SMALL_GPT)
    with pytest.raises(ValueError, match=message):
        gf.generate(model, None, torch.tensor([[5, 6]]), **request_)
