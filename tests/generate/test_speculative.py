"""Speculative decoding: the tokens of greedy search and the distribution of sampling, in fewer steps."""

from copy import deepcopy
from itertools import product

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

import glassformer as gf
from families import SMALL_GPT, random_model, sequences, settings_of, shake
from generators import GENERATING, begun, logits, padded_left, sharp, unforced
from glassformer.generate.pick import apply, warpers

NEW = 9
REQUEST = {"max_new_tokens": NEW, "pad_token_id": 0, "decoder_start_token_id": 0}


@pytest.mark.few(3)
@pytest.mark.parametrize(("model_type", "head"), GENERATING)
@settings(max_examples=6)
@given(data=st.data(), seed=st.integers(0, 99))
def test_greedy_guesses_change_nothing(model_type, head, data, seed):
    """A good draft (near the model), a bad one (another model), and the text itself, from a left-padded batch."""
    chosen = data.draw(settings_of(model_type))
    model = unforced(random_model(model_type, head, chosen, seed))
    ids, mask = padded_left(sequences(seed))
    request = REQUEST | {"repetition_penalty": data.draw(st.sampled_from([None, 1.3]))}
    free = gf.generate(model, None, ids, attention_mask=mask, eos_token_id=[10**6], **request)
    request["eos_token_id"] = free[0, -4].item()
    expected = gf.generate(model, None, ids, attention_mask=mask, **request).tolist()
    near = deepcopy(model)
    with torch.no_grad():
        for weight in near.parameters():
            weight += 0.02 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(seed))
    number = data.draw(st.integers(1, 6))
    for draft in (near, random_model(model_type, head, chosen, seed + 1)):
        guessed = {"assistant_model": draft, "num_assistant_tokens": number}
        assert gf.generate(model, None, ids, attention_mask=mask, **request, **guessed).tolist() == expected
    guessed = {"prompt_lookup_num_tokens": number, "max_matching_ngram_size": data.draw(st.integers(1, 3))}
    assert gf.generate(model, None, ids, attention_mask=mask, **request, **guessed).tolist() == expected


@settings(max_examples=8)
@given(data=st.data())
def test_it_is_the_assisted_generation_of_transformers(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    config = transformers.GPT2Config(**data.draw(settings_of("gpt2")) | {"pad_token_id": 1, "eos_token_id": 3})
    peers = [shake(transformers.GPT2LMHeadModel(config), seed).eval() for seed in (0, 1)]
    models = []
    for number, peer in enumerate(peers):
        peer.generation_config = transformers.GenerationConfig(pad_token_id=1, eos_token_id=3)
        peer.save_pretrained(folder / str(number))
        models.append(gf.load(folder / str(number)))
    ids = torch.tensor([[5, 6, 7, 5, 6]])
    request = {"max_new_tokens": NEW}
    for theirs, ours in (
        ({"assistant_model": peers[1]}, {"assistant_model": models[1]}),
        ({"prompt_lookup_num_tokens": 3}, {"prompt_lookup_num_tokens": 3}),
    ):
        expected = peers[0].generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, **request, **theirs)
        assert gf.generate(models[0], None, ids, **request, **ours).tolist() == expected.tolist()


def counted(model):
    """The model, and a list that grows with every step it takes."""
    steps, step = [], model.hidden_step
    model.hidden_step = lambda ids, state, **more: (steps.append(ids.shape[1]), step(ids, state, **more))[1]
    return model, steps


def test_right_guesses_save_steps():
    model = random_model("gpt2", "text-generation", SMALL_GPT)
    twin = deepcopy(model)
    prompt = torch.tensor([[5, 6, 7]])
    request = {"max_new_tokens": 20, "eos_token_id": [10**6]}
    model, steps = counted(model)
    gf.generate(model, None, prompt, assistant_model=twin, num_assistant_tokens=4, **request)
    assert steps == [3 + 4, 1 + 4, 1 + 4, 1 + 4]  # five tokens each
    steps.clear()
    gf.generate(model, None, prompt, **request)
    assert len(steps) == 20
    steps.clear()
    gf.generate(model, None, prompt, prompt_lookup_num_tokens=4, sequence_bias={(9,): 100.0}, **request)
    assert steps == [3, 1, 1 + 1, 1 + 2, 1 + 4, 1 + 4, 1 + 2]  # 9 9 9 …: the more there is, the more is guessed


V, LONG, DRAWS = 4, 3, 1000


def exact(model, row, settings_):
    """The probability of every text of LONG words, after the warpers of these settings."""
    filters, found = warpers(settings_), {}
    for words in product(range(V), repeat=LONG):
        ids, chance = begun(model, row), 1.0
        for word in words:
            scores = apply(filters, torch.tensor([ids]), logits(model, row, ids)[-1][None])
            chance *= float(scores.softmax(-1)[0, word])
            ids = (*ids, word)
        found[words] = chance
    return found


CASES = {
    "gpt2": SMALL_GPT | {"vocab_size": V, "n_layer": 1},
    "glassformer-rnn": {"vocab_size": V, "kind": "gru", "hidden_size": 6, "embedding_size": 6},
    "marian": {
        "vocab_size": V, "d_model": 8, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
        "decoder_attention_heads": 2, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8, "max_position_embeddings": 20,
        "pad_token_id": 0, "eos_token_id": 0, "decoder_start_token_id": 0, "forced_eos_token_id": None,
    },
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model_type", "guessed"),
    [("gpt2", "a draft"), ("gpt2", "the text"), ("glassformer-rnn", "a draft"), ("marian", "a draft")],
)
def test_draws_follow_the_model_and_not_the_guesses(model_type, guessed):
    from scipy.stats import chisquare

    head = "text2text-generation" if model_type == "marian" else "text-generation"
    model, draft = (sharp(random_model(model_type, head, CASES[model_type], seed), 2.5) for seed in (1, 2))
    row, chosen = [1, 2, 1, 3, 1], {"temperature": 1.3, "top_p": 0.95}
    expected = exact(model, row, chosen)
    request = {"max_new_tokens": LONG, "eos_token_id": [10**6], "decoder_start_token_id": 0, **chosen, "seed": 5}
    request |= {"assistant_model": draft, "num_assistant_tokens": 2} if guessed == "a draft" else {}
    request |= {"prompt_lookup_num_tokens": 2} if guessed == "the text" else {}
    drawn = gf.generate(model, None, torch.tensor([row]), num_return_sequences=DRAWS, **request)[:, -LONG:]
    counts = dict.fromkeys(expected, 0)
    for words in drawn.tolist():
        counts[tuple(words)] += 1
    likely = [words for words, chance in expected.items() if chance * DRAWS >= 5]
    rest = 1 - sum(expected[words] for words in likely)
    seen = [counts[words] for words in likely] + [DRAWS - sum(counts[words] for words in likely)]
    assert len(likely) > 5
    assert not [words for words, chance in expected.items() if chance == 0 and counts[words]]
    if rest * DRAWS < 1:  # too few to be counted
        seen, likely, rest = seen[:-1], likely, 0
    hoped = [expected[words] for words in likely] + ([rest] if rest else [])
    scale = sum(seen) / sum(hoped)
    assert chisquare(seen, [chance * scale for chance in hoped]).pvalue > 1e-3


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"prompt_lookup_num_tokens": 0}, "prompt_lookup_num_tokens is 0; it must be a whole number from 1"),
        ({"prompt_lookup_num_tokens": 3, "num_beams": 2}, "follows one text, not 2 beams"),
    ],
)
def test_wrong_requests_are_named(request_, message):
    model = random_model("gpt2", "text-generation", SMALL_GPT)
    with pytest.raises(ValueError, match=message):
        gf.generate(model, None, torch.tensor([[5, 6]]), **request_)
    draft = random_model("gpt2", "text-generation", SMALL_GPT | {"vocab_size": 50})
    with pytest.raises(ValueError, match="writes 50 ids and the model 41"):
        gf.generate(model, None, torch.tensor([[5, 6]]), assistant_model=draft)
