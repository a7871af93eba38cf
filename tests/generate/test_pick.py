"""Filters equal transformers' own, a padded row is as if alone, and draws follow the filtered distribution."""

import math
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from glassformer.generate import pick

V = 13
EOS = [2, 3]

ids_ = st.integers(0, V - 1)
words = st.lists(st.lists(ids_, min_size=1, max_size=3), min_size=1, max_size=6, unique_by=tuple)
share = st.floats(0.05, 0.99)
penalty = st.floats(0.3, 3)
VALUES = {
    "temperature": st.floats(0.1, 3),
    "top_k": st.integers(1, V + 3),
    "top_p": share,
    "min_p": share,
    "typical_p": share,
    "epsilon_cutoff": st.floats(0.001, 0.5),
    "eta_cutoff": st.floats(0.001, 0.5),
    "sequence_bias": words.flatmap(
        lambda chosen: st.lists(st.floats(-5, 5), min_size=len(chosen), max_size=len(chosen)).map(
            lambda biases: {tuple(word): bias for word, bias in zip(chosen, biases, strict=True)}
        )
    ),
    "encoder_repetition_penalty": penalty,
    "repetition_penalty": penalty,
    "no_repeat_ngram_size": st.integers(1, 4),
    "encoder_no_repeat_ngram_size": st.integers(1, 4),
    "bad_words_ids": words.filter(lambda chosen: any(word not in [[id_] for id_ in EOS] for word in chosen)),
    "min_length": st.integers(1, 9),
    "min_new_tokens": st.integers(1, 5),
    "forced_bos_token_id": ids_,
    "forced_eos_token_id": st.lists(ids_, min_size=1, max_size=2, unique=True),
    "suppress_tokens": st.lists(ids_, min_size=1, max_size=4, unique=True),
    "begin_suppress_tokens": st.lists(ids_, min_size=1, max_size=4, unique=True),
}
OURS_ALONE = {"presence_penalty": st.floats(-2, 2), "frequency_penalty": st.floats(-2, 2)}
WARPERS = list(VALUES)[:7]


def texts(seed, *, rows=4, length=7, few=4):
    """Ids (of `few` kinds, so that they repeat), scores and a source."""
    random = torch.Generator().manual_seed(seed)
    ids = torch.randint(1, 1 + few, (rows, length), generator=random)
    source = torch.randint(1, 1 + few, (rows, 5), generator=random)
    return ids, 3 * torch.randn(rows, V, generator=random), source


@pytest.fixture(scope="module")
def model():
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(n_layer=1, n_head=1, n_embd=4, vocab_size=V))


def transformers_list(model, chosen, *, prompt_length, max_length, source, beams=1):
    from transformers import GenerationConfig

    config = GenerationConfig(do_sample=True, max_length=max_length, num_beams=beams)
    config._eos_token_tensor = torch.tensor(EOS)
    for name in VALUES:  # set afterwards: it refuses to suppress what it forces
        setattr(config, name, chosen.get(name))
    return model._get_logits_processor(config, prompt_length, source, device="cpu")


def ours(chosen, *, prompt_length, max_length, source, least=1):
    known = {"prompt_length": prompt_length, "max_length": max_length, "source": source}
    return pick.processors(chosen, eos_token_id=EOS, **known) + pick.warpers(chosen, min_tokens_to_keep=least)


def one_by_one(filters, ids, scores):
    """As transformers applies them, but a filter that would leave a row nothing is passed over for that row."""
    for each in filters:
        changed = each(ids, scores.clone())
        scores = torch.where(changed.isneginf().all(1, keepdim=True), scores, changed)
    return scores


def assert_same(mine, expected):
    assert_close(mine.isneginf(), expected.isneginf())
    assert_close(mine, expected)
    assert mine.isfinite().any(1).all()
    assert not mine.isnan().any()


@pytest.mark.parametrize("name", VALUES)
@settings(max_examples=80)
@given(options=st.data(), seed=st.integers(0, 9999), beams=st.sampled_from([1, 2]))
def test_each_filter_is_that_of_transformers(model, name, options, seed, beams):
    chosen = {name: options.draw(VALUES[name])}
    ids, scores, source = texts(seed)
    if beams == 1 and options.draw(st.booleans()):
        scores[:, options.draw(ids_)] = -math.inf
    length = options.draw(st.integers(1, ids.shape[1]))
    ids = ids[:, :length]
    prompt = 1 if name == "forced_bos_token_id" else options.draw(st.integers(1, length))
    known = {"prompt_length": prompt, "max_length": options.draw(st.integers(length, length + 2))}
    known["source"] = source[: len(ids) // beams]
    before = ids.clone(), scores.clone()
    mine = pick.apply(ours(chosen, **known, least=1 if beams == 1 else 3), ids, scores)
    assert_close((ids, scores), before, equal_nan=True)
    assert_same(mine, one_by_one(transformers_list(model, chosen, **known, beams=beams), ids, scores))


@settings(max_examples=250)
@given(options=st.data(), seed=st.integers(0, 9999))
def test_all_together_are_those_of_transformers_in_its_order(model, options, seed):
    chosen = options.draw(st.fixed_dictionaries({}, optional=VALUES))
    ids, scores, source = texts(seed)
    length = options.draw(st.integers(1, ids.shape[1]))
    ids = ids[:, :length]
    prompt = 1 if "forced_bos_token_id" in chosen else options.draw(st.integers(1, length))
    known = {"prompt_length": prompt, "max_length": options.draw(st.integers(length, length + 2)), "source": source}
    mine, expected = ours(chosen, **known), transformers_list(model, chosen, **known)
    assert len(mine) == len(expected)
    assert_same(pick.apply(mine, ids, scores), one_by_one(expected, ids, scores))


def test_off_is_off():
    from transformers import GenerationConfig

    neutral = {name: off for name, (off, _, _) in pick.SETTINGS.items()} | {"bad_words_ids": [], "sequence_bias": {}}
    for settings_ in ({}, neutral, SimpleNamespace(), SimpleNamespace(**neutral), GenerationConfig()):
        assert pick.processors(settings_, prompt_length=1) + pick.warpers(settings_) == []
    assert pick.warpers(SimpleNamespace(top_k=3, temperature=0.5)) == [pick.Temperature(0.5), pick.TopK(3)]


@settings(max_examples=250)
@given(options=st.data(), seed=st.integers(0, 9999))
def test_a_padded_row_is_as_if_alone(options, seed):
    chosen = options.draw(st.fixed_dictionaries({}, optional=VALUES | OURS_ALONE))
    ids, scores, source = texts(seed)
    new = options.draw(st.integers(0, 3))
    prompt = ids.shape[1] - new
    lengths = options.draw(st.lists(st.integers(1, prompt), min_size=len(ids), max_size=len(ids)))
    source_lengths = options.draw(st.lists(st.integers(1, 5), min_size=len(ids), max_size=len(ids)))
    keep = torch.arange(prompt) >= prompt - torch.tensor(lengths)[:, None]
    source_keep = torch.arange(5) < torch.tensor(source_lengths)[:, None]
    room = options.draw(st.integers(1, 3))
    known = {"prompt_length": prompt, "max_length": prompt + new + room, "source": pick.hide(source, source_keep)}
    together = pick.apply(ours(chosen, **known), ids, scores, keep)
    assert_close(
        pick.apply(ours(chosen, **known), ids, scores, torch.nn.functional.pad(keep.int(), (0, new), value=1)),
        together,
        rtol=0,
        atol=0,
    )
    for row, (length, long) in enumerate(zip(lengths, source_lengths, strict=True)):
        known = {"prompt_length": length, "max_length": length + new + room, "source": source[row : row + 1, :long]}
        alone = pick.apply(ours(chosen, **known), ids[row : row + 1, prompt - length :], scores[row : row + 1])
        assert_same(together[row : row + 1], alone)


@given(presence=st.floats(-2, 2), frequency=st.floats(-2, 2), prompt=st.integers(0, 7), seed=st.integers(0, 999))
def test_presence_and_frequency_count_what_was_written(presence, frequency, prompt, seed):
    ids, scores, _ = texts(seed)
    expected = scores.clone()
    for row, written in enumerate(ids[:, prompt:].tolist()):
        for id_ in set(written):
            expected[row, id_] -= written.count(id_) * frequency + presence
    assert_close(pick.PresenceFrequency(presence, frequency, prompt)(ids, scores), expected)
    both = {"presence_penalty": presence, "frequency_penalty": frequency}
    assert_close(pick.apply(pick.processors(both, prompt_length=prompt), ids, scores), expected)


def test_a_ban_on_everything_is_passed_over_for_that_row_alone():
    ids, scores = torch.arange(V).repeat(2, 1), texts(0, rows=2)[1]
    ids[1, :5] = 7  # so 0 to 4 have not been written
    once = pick.NoRepeatNgram(1)(ids, scores)
    assert_close(once[0], scores[0], rtol=0, atol=0)
    assert once[1].isfinite().nonzero().flatten().tolist() == [0, 1, 2, 3, 4]
    assert_close(pick.Suppress(range(V))(ids, scores), scores, rtol=0, atol=0)
    words = pick.BadWords([*([id_] for id_ in range(V - 1)), [9, 9, V - 1]])
    assert_close(words(ids, scores)[0, : V - 1].isneginf(), torch.ones(V - 1, dtype=torch.bool))
    ids[:, -2:] = 9
    assert_close(words(ids, scores), scores, rtol=0, atol=0)


def test_ids_beyond_the_scores_are_no_trouble():
    ids, scores = torch.tensor([[V + 5, V, 1, V + 5]]), torch.ones(1, V)
    assert pick.RepetitionPenalty(2.0)(ids, scores).tolist() == [[1, 0.5] + [1] * (V - 2)]
    ids[0, 0] = -1
    assert pick.PresenceFrequency(1, 0, 0)(ids, scores).tolist() == [[1, 0] + [1] * (V - 2)]
    assert_close(pick.NoRepeatNgram(2)(ids, scores), scores)
    assert_close(pick.MinLength(9, [50256])(ids, scores), scores)


SAMPLERS = [
    {},
    {"temperature": 0.6},
    {"temperature": 1.7},
    {"top_k": 4},
    {"top_p": 0.7},
    {"min_p": 0.2},
    {"typical_p": 0.6},
    {"epsilon_cutoff": 0.06},
    {"eta_cutoff": 0.2},
    {"temperature": 1.3, "top_k": 6, "top_p": 0.9, "min_p": 0.05},
]


@pytest.mark.parametrize("chosen", SAMPLERS, ids=str)
def test_draws_follow_the_filtered_distribution(model, chosen):
    from scipy.stats import chisquare

    ids, scores = torch.zeros(1, 1, dtype=torch.long), texts(5, rows=1)[1] / 2
    known = {"prompt_length": 1, "max_length": 9, "source": None}
    exact = transformers_list(model, chosen, **known)(ids, scores.clone()).double().softmax(-1)[0].numpy()
    filtered = pick.apply(pick.warpers(chosen), ids, scores)
    drawn = pick.draw(filtered.expand(20_000, -1), torch.Generator().manual_seed(1))
    seen = torch.bincount(drawn, minlength=V).numpy()
    possible = exact > 0
    assert seen[~possible].sum() == 0
    assert possible.sum() < V or not set(chosen) - {"temperature"}
    assert chisquare(seen[possible], 20_000 * exact[possible]).pvalue > 0.001


def test_a_seed_repeats_its_draws():
    scores = texts(3, rows=50)[1]
    first, again, other = (pick.draw(scores, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert first.tolist() == again.tolist() != other.tolist()


def test_one_possible_token_is_drawn_whatever_the_noise():
    scores = torch.full((3000, V), -math.inf).index_fill(1, torch.tensor([4]), -900.0)
    assert set(pick.draw(scores).tolist()) == {4}


@settings(max_examples=60)
@given(options=st.data(), seed=st.integers(0, 999))
def test_nothing_waits_for_a_value(options, seed):
    """On the meta device there are no values to wait for: reading one fails."""
    chosen = options.draw(st.fixed_dictionaries({}, optional=VALUES | OURS_ALONE))
    ids, scores, source = (x.to("meta") for x in texts(seed))
    keep = torch.ones(4, 5, dtype=torch.bool, device="meta")
    known = {"prompt_length": 7, "max_length": 8, "source": source}
    assert pick.draw(pick.apply(ours(chosen, **known), ids, scores, keep)).shape == (4,)


def test_what_is_made_in_inference_mode_serves_outside():
    ids, scores, _ = texts(0)
    filters = [pick.Suppress([11]), pick.BadWords([[12], [1, 10]])]
    with torch.inference_mode():
        expected = pick.apply(filters, ids, scores).clone()
    mine = pick.apply(filters, ids, scores.requires_grad_())
    mine.logsumexp(-1).sum().backward()
    assert_close(mine.detach(), expected)


BAD = [
    ("temperature", 0, "do_sample=False"),
    ("temperature", -1.5, "above 0"),
    ("temperature", math.nan, "nan"),
    ("top_k", -3, "whole number above 0"),
    ("top_k", 2.5, "whole number above 0"),
    ("top_p", 0, "at most 1"),
    ("top_p", 1.2, "at most 1"),
    ("min_p", -0.1, "at least 0"),
    ("min_p", 1.1, "at most 1"),
    ("typical_p", 1.5, "at most 1"),
    ("epsilon_cutoff", 1.0, "below 1"),
    ("eta_cutoff", -0.5, "above 0"),
    ("repetition_penalty", 0, "above 0"),
    ("repetition_penalty", -2.0, "above 0"),
    ("encoder_repetition_penalty", 0, "above 0"),
    ("presence_penalty", math.inf, "finite"),
    ("frequency_penalty", math.nan, "finite"),
    ("no_repeat_ngram_size", -1, "whole number above 0"),
    ("encoder_no_repeat_ngram_size", 1.5, "whole number above 0"),
    ("min_length", -1, "whole number above 0"),
    ("min_new_tokens", -2, "whole number above 0"),
]


@pytest.mark.parametrize(("name", "value", "fix"), BAD)
def test_a_bad_value_is_named_with_its_fix(name, value, fix):
    source = torch.ones(1, 2, dtype=torch.long)
    with pytest.raises(ValueError, match=f"^{name} must be .*not {value}") as caught:
        ours({name: value}, prompt_length=1, max_length=5, source=source)
    assert fix in str(caught.value)


def test_a_filter_checks_what_it_is_given():
    for make, value in ((pick.Temperature, 0.0), (pick.TopK, 0), (pick.TopP, 0.0), (pick.NoRepeatNgram, 0)):
        with pytest.raises(ValueError, match=f"not {value}"):
            make(value)


def test_wrong_words_and_names_are_named():
    with pytest.raises(ValueError, match=r"at least one id .* not \[\]"):
        pick.processors({"bad_words_ids": [[1], []]}, prompt_length=1)
    with pytest.raises(ValueError, match=r"below infinity, not \[4\]: inf"):
        pick.processors({"sequence_bias": [[[4], math.inf]]}, prompt_length=1)
    for build in (pick.warpers, lambda settings_: pick.processors(settings_, prompt_length=1)):
        with pytest.raises(ValueError, match="'top_kk' .* there is top_k"):
            build({"top_kk": 3})
    with pytest.raises(ValueError, match="max_length"):
        pick.processors({"forced_eos_token_id": 2}, prompt_length=1)
    for name in ("encoder_repetition_penalty", "encoder_no_repeat_ngram_size"):
        with pytest.raises(ValueError, match="a source"):
            pick.processors({name: 2}, prompt_length=1)


@pytest.mark.parametrize(
    "chosen",
    [
        {"bad_words_ids": [[1, V]]},
        {"bad_words_ids": [[V, 1]]},
        {"sequence_bias": {(V,): 1.0}},
        {"suppress_tokens": [V]},
        {"begin_suppress_tokens": [V]},
        {"forced_eos_token_id": V},
    ],
    ids=str,
)
def test_an_id_outside_the_vocabulary_is_named(chosen):
    ids, scores, _ = texts(0)
    with pytest.raises(ValueError, match=f"the id {V} is not in the vocabulary; give one from 0 to {V - 1}"):
        pick.apply(ours(chosen, prompt_length=7, max_length=8, source=None), ids, scores)
