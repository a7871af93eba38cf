"""Diverse and constrained beams: as their textbook, as exhaustive search, and each text as if alone."""

from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

import glassformer as gf
from families import SMALL_GPT, random_model, sequences, settings_of
from generators import GENERATING, begun, next_logs, padded_left, sharp, tiny, unforced
from glassformer.generate.constraints import DisjunctiveConstraint, PhrasalConstraint, Phrases

END, NEW = 3, 5
REQUEST = {
    "max_new_tokens": NEW, "eos_token_id": END, "pad_token_id": 0, "decoder_start_token_id": 0,
    "return_dict_in_generate": True,
}  # fmt: skip


def group_step(model, row, group, taken, number, *, width, penalty, length_penalty, early):
    """One word more for the beams of one group, in plain Python; gives the words it takes."""
    start = len(begun(model, row))
    ways = []
    for score, ids in group["live"]:
        logs = next_logs(model, row, ids)
        ways += [(score + float(logs[w]) - penalty * taken.count(w), (*ids, w)) for w in range(len(logs))]
    ways = sorted(ways, reverse=True)[: 2 * width]
    over = [ids[-1] == END or number == NEW for _, ids in ways]
    for (score, ids), ended in list(zip(ways, over, strict=True))[:width]:
        if ended:
            group["done"].append((score / (len(ids) - start) ** length_penalty, ids))
    group["done"] = sorted(group["done"], reverse=True)[:width]
    group["live"] = [way for way, ended in zip(ways, over, strict=True) if not ended][:width]
    if number == NEW or len(group["done"]) < width:
        group["closed"] = number == NEW
    else:
        hope = group["live"][0][0] / number**length_penalty
        group["closed"] = early is True or hope <= group["done"][-1][0]
    return [] if group["closed"] else [ids[-1] for _, ids in group["live"]]


def textbook(model, row, *, groups, width, **options):
    """Diverse beam search of one text: [(score, ids)], best first."""
    running = [{"live": [(0.0, begun(model, row))], "done": [], "closed": False} for _ in range(groups)]
    for number in range(1, NEW + 1):
        taken = []
        for group in running:
            if not group["closed"]:
                taken += group_step(model, row, group, taken, number, width=width, **options)
    return sorted((way for group in running for way in group["done"]), reverse=True)


@pytest.mark.few(3)
@pytest.mark.parametrize(("model_type", "head"), GENERATING)
@settings(max_examples=8)
@given(data=st.data(), seed=st.integers(0, 99))
def test_diverse_beams_are_the_textbook(model_type, head, data, seed):
    """From a left-padded batch, whose prompts end at different times."""
    model = sharp(unforced(random_model(model_type, head, data.draw(settings_of(model_type)), seed)))
    rows = sequences(seed, lengths=(5, 2, 8))
    ids, mask = padded_left(rows)
    groups, width = data.draw(st.sampled_from([(2, 1), (2, 2), (3, 2)]))
    options = {
        "penalty": data.draw(st.sampled_from([0.3, 1.0, 5.0])),
        "length_penalty": data.draw(st.sampled_from([0.0, 1.0])),
        "early": data.draw(st.booleans()),
    }
    number = groups * width
    found = gf.generate(
        model, None, ids, attention_mask=mask, num_beams=groups * width, num_beam_groups=groups,
        diversity_penalty=options["penalty"], length_penalty=options["length_penalty"],
        early_stopping=options["early"], num_return_sequences=number, **REQUEST,
    )  # fmt: skip
    for place, row in enumerate(rows):
        expected = textbook(model, row, groups=groups, width=width, **options)[:number]
        part = slice(place * number, (place + 1) * number)
        assert found.sequences_scores[part].tolist() == pytest.approx([score for score, _ in expected], abs=1e-4)
        assert new_texts(found)[part] == [ids[len(begun(model, row)) :] for _, ids in expected]


def test_a_penalty_makes_groups_differ():
    model = random_model("gpt2", "text-generation", SMALL_GPT)
    ids = torch.tensor([[5, 6, 7]])
    request = {"max_new_tokens": 6, "num_beams": 4, "num_return_sequences": 4}
    firsts = []
    for penalty in (1e-6, 100.0):
        found = gf.generate(model, None, ids, num_beam_groups=4, diversity_penalty=penalty, **request)
        firsts.append(len({text[3] for text in found.tolist()}))
    assert firsts == [1, 4]


WORDS, SHORT = 4, 4


def new_texts(found):
    at = found.sequences.shape[1] - found.logprobs.shape[1]
    return [tuple(text[at : at + n].tolist()) for text, n in zip(found.sequences, found.lengths, strict=True)]


def holds(text, phrase):
    return any(text[at : at + len(phrase)] == tuple(phrase) for at in range(len(text)))


def exhaustive(model, row, constraints, penalty):
    """All texts of at most SHORT tokens that hold one phrase of each constraint: [(score, ids)], best first."""
    texts = set()
    for words in product(range(WORDS), repeat=SHORT):
        cut = words.index(END) + 1 if END in words else SHORT
        texts.add(words[:cut])
    found = []
    for words in texts:
        if all(any(holds(words, phrase) for phrase in options) for options in constraints):
            ids, total = begun(model, row), 0.0
            for word in words:
                total += float(next_logs(model, row, ids)[word])
                ids = (*ids, word)
            found.append((total / len(words) ** penalty, words))
    return sorted(found, reverse=True)


@pytest.mark.parametrize(("model_type", "head"), GENERATING)
@pytest.mark.parametrize(
    "constraints", [[[[1, 2]]], [[[1, 2]], [[2, 0]]], [[[1, 1, 2], [2]]], [[[0]], [[2, 2], [1]]], [[[END]]]]
)
@settings(max_examples=1)
@given(data=st.data())
def test_wide_constrained_beams_are_exhaustive(model_type, head, constraints, data):
    """Phrases, one of several phrases, and phrases that may overlap."""
    model = tiny(model_type, head, data, WORDS)
    row, number = [1, 2, 0, 1], 5
    expected = exhaustive(model, row, constraints, 1.0)[:number]
    found = gf.generate(
        model, None, torch.tensor([row]), num_beams=WORDS**SHORT, num_return_sequences=len(expected),
        constraints=[DisjunctiveConstraint(options) for options in constraints], **REQUEST | {"max_new_tokens": SHORT},
    )  # fmt: skip
    assert new_texts(found) == [words for _, words in expected]
    assert found.sequences_scores.tolist() == pytest.approx([score for score, _ in expected], abs=1e-4)


@pytest.mark.parametrize(("model_type", "head"), GENERATING)
@settings(max_examples=6)
@given(data=st.data(), seed=st.integers(0, 99))
def test_few_beams_still_write_every_phrase(model_type, head, data, seed):
    """Even with no token to spare; each text of a padded batch as if alone."""
    model = unforced(random_model(model_type, head, data.draw(settings_of(model_type)), seed))
    rows = sequences(seed, lengths=(5, 2, 8))
    ids, mask = padded_left(rows)
    phrase = st.lists(st.integers(4, 9), min_size=1, max_size=3)
    words = data.draw(st.lists(phrase | st.lists(phrase, min_size=1, max_size=3), min_size=1, max_size=3))
    options = [word if isinstance(word[0], list) else [word] for word in words]
    least, spare = sum(min(map(len, each)) for each in options), data.draw(st.sampled_from([0, 1, 5]))
    request = REQUEST | {"force_words_ids": words, "max_new_tokens": least + spare}
    request["num_beams"] = data.draw(st.integers(2, 4))
    request["num_return_sequences"] = number = request["num_beams"] if spare else 1  # else there may be but one
    found = gf.generate(model, None, ids, attention_mask=mask, **request)
    for place, row in enumerate(rows):
        alone = gf.generate(model, None, torch.tensor([row]), **request)
        part = slice(place * number, (place + 1) * number)
        assert new_texts(alone) == new_texts(found)[part]
        for text in new_texts(alone):
            assert all(any(holds(text, phrase) for phrase in each) for each in options)
        assert_close(alone.sequences_scores, found.sequences_scores[part], atol=1e-4, rtol=1e-4)


@given(offers=st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=12), room=st.integers(0, 5))
def test_offers_take_turns(offers, room):
    """First what there is room for, dead ends last; within each the best of every need, the least need first."""
    needed, alive = zip(*offers, strict=True)
    phrases = Phrases.of([], torch.device("cpu"))
    turns = phrases.turns(torch.tensor([alive]), torch.tensor([needed]), room)[0]
    order = sorted(range(len(offers)), key=lambda place: -turns[place])
    ranks = [sum(n == needed[place] and a for n, a in offers[:place]) for place in range(len(offers))]
    expected = sorted(
        (needed[place] > room, ranks[place], needed[place], place) for place in range(len(offers)) if alive[place]
    )
    assert order[: len(expected)] == [place for *_, place in expected]


def test_more_beams_find_likelier_texts():
    """The best text with a phrase, by the model's own measure, not just any text with it."""
    model = random_model("gpt2", "text-generation", SMALL_GPT)
    request = {"max_new_tokens": 8, "constraints": [PhrasalConstraint([9, 8])], "return_dict_in_generate": True}
    scores = [
        float(gf.generate(model, None, torch.tensor([[5, 6]]), num_beams=n, **request).sequences_scores)
        for n in (2, 8, 32)
    ]
    assert scores[0] <= scores[1] <= scores[2]
    assert scores[0] < scores[2]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"num_beams": 4, "num_beam_groups": 3, "diversity_penalty": 1.0}, "4 beams do not make 3 equal groups"),
        ({"num_beams": 4, "num_beam_groups": 2}, "give a penalty above 0 and 2 groups or more"),
        ({"num_beams": 4, "diversity_penalty": 1.0}, "give a penalty above 0 and 2 groups or more"),
        ({"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 1.0, "do_sample": True}, "draws nothing"),
        ({"force_words_ids": [[5]]}, "need beams; give num_beams=4"),
        ({"force_words_ids": [[]], "num_beams": 2}, "has no ids; leave it out"),
        ({"force_words_ids": [[5, 6, 7, 8]], "num_beams": 2, "max_new_tokens": 3}, "4 tokens and there is room for 3"),
        ({"force_words_ids": [[5]], "num_beams": 2, "penalty_alpha": 0.5, "top_k": 4}, "two strategies; choose one"),
    ],
)
def test_wrong_requests_are_named(request_, message):
    model = random_model("gpt2", "text-generation", SMALL_GPT)
    with pytest.raises(ValueError, match=message):
        gf.generate(model, None, torch.tensor([[5, 6]]), **request_)
