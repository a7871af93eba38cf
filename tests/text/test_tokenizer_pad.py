"""tok.pad gives what transformers' gives, and the names that its users try next are there."""

from copy import deepcopy

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken

from glassformer.hub.load import load_tokenizer

TEXTS = ["the quick brown fox", "doesn't", "", "a b c d e f g"]


@pytest.fixture(scope="module")
def pair(folders):
    from transformers import AutoTokenizer

    return load_tokenizer(folders["bert"]), AutoTokenizer.from_pretrained(str(folders["bert"]))


def plain(encoding):
    return {name: value.tolist() if hasattr(value, "tolist") else value for name, value in encoding.items()}


@given(
    many=st.booleans(),
    dropped=st.sampled_from([(), ("attention_mask",), ("token_type_ids", "attention_mask")]),
    options=st.fixed_dictionaries(
        {},
        optional={
            "padding": st.sampled_from([True, "longest", False]),
            "padding_side": st.sampled_from(["left", "right"]),
            "pad_to_multiple_of": st.sampled_from([4, 16]),
            "return_attention_mask": st.booleans(),
        },
    ),
    tensors=st.sampled_from([None, "pt", "np"]),
)
def test_encodings_are_padded_as_transformers_pads_them(pair, many, dropped, options, tensors):
    ours, theirs = pair
    encodings = {name: rows for name, rows in ours(TEXTS).items() if name not in dropped}
    given = encodings if many else [{name: rows[i] for name, rows in encodings.items()} for i in range(len(TEXTS))]
    if tensors and options.get("padding", True) is False:
        with pytest.raises(ValueError, match="several lengths, and cannot be one tensor: pass padding=True"):
            ours.pad(given, return_tensors=tensors, **options)
        return
    if options.get("return_attention_mask") is False and "attention_mask" not in dropped:
        options = {**options, "return_attention_mask": True}  # one that is given stays, where theirs is not filled up
    expected = theirs.pad(given, return_tensors=tensors, **options)
    found = ours.pad(given, return_tensors=tensors, **options)
    assert plain(found) == plain(expected)
    assert {type(value) for value in found.values()} == {type(value) for value in expected.values()}


def test_a_width_tensors_and_a_single_row(pair):
    ours, theirs = pair
    asked = {"padding": "max_length", "max_length": 12}
    assert plain(ours.pad(ours(TEXTS[0]), **asked)) == plain(theirs.pad(theirs(TEXTS[0]), **asked))
    rows = [{"input_ids": torch.tensor([5, 6])}, {"input_ids": np.array([5])}]
    assert ours.pad(rows, return_tensors="pt").attention_mask.tolist() == [[1, 1], [1, 0]]
    ours_left = ours.adapted()
    ours_left.padding_side = "left"
    assert ours_left.pad(rows)["input_ids"] == [[5, 6], [ours.pad_token_id, 5]]
    assert ours.pad([]) == ours.pad({}) == {}
    assert ours.pad({"input_ids": [np.int64(5), np.int64(6)], "label": 1}) == {
        "input_ids": [5, 6],
        "label": 1,
        "attention_mask": [1, 1],
    }
    assert ours.pad([{"input_ids": (5, 6)}, {"input_ids": (5,)}])["attention_mask"] == [[1, 1], [1, 0]]
    assert ours.pad([{"input_ids": []}], return_tensors="pt")["input_ids"].dtype == torch.int64


def test_what_no_model_reads_stays_as_it_is(pair):
    rows = [{"input_ids": [5, 6], "labels": 0.5}, {"input_ids": [5], "labels": 1.0}]
    found = pair[0].pad(rows, return_tensors="pt")
    assert found["labels"].tolist() == [0.5, 1.0]
    assert found["labels"].dtype == torch.float32


@pytest.mark.parametrize(
    ("encodings", "options", "message"),
    [
        (["a text"], {}, "cannot be padded: give encodings"),
        ([{"ids": [1]}], {}, "no input_ids to pad, only ids"),
        ([{"input_ids": [1]}, {"input_ids": [1], "labels": 0}], {}, "encoding 1 and the first differ in labels"),
        ([{"input_ids": [1, 2, 3]}], {"padding": "max_length", "max_length": 2}, "3 tokens, over max_length=2"),
        ([{"input_ids": [1]}], {"padding": "most"}, "padding='most' is not known"),
        ([{"input_ids": [1]}], {"pad_to_multiple_of": -3}, "pad_to_multiple_of=-3: give at least 1"),
        ([{"input_ids": [[1, 2]]}, {"input_ids": [[1]]}], {}, r"a row of input_ids is \[\[1, 2\]\]"),
        ({"input_ids": [[1], 2]}, {}, "a row of input_ids is 2"),
        ([{"input_ids": [1], "text": "abc"}], {"return_tensors": "pt"}, "'text' holds what is no number"),
        ([{"input_ids": [1], "labels": None}], {"return_tensors": "pt"}, "'labels' holds what is no number"),
        (
            [{"input_ids": [1], "labels": [1]}, {"input_ids": [1], "labels": [1, 2]}],
            {"return_tensors": "pt"},
            "rows of 'labels' are of several lengths",
        ),
    ],
)
def test_what_cannot_be_padded_is_refused_in_one_line(pair, encodings, options, message):
    with pytest.raises(ValueError, match=message):
        pair[0].pad(encodings, **options)


def test_a_padded_encoding_says_that_it_knows_no_texts(pair):
    padded = pair[0].pad(pair[0](TEXTS))
    for ask in (padded.word_ids, padded.sequence_ids):
        with pytest.raises(ValueError, match="ask"):
            ask()


@pytest.mark.parametrize("kind", ["bert", "gpt2", "roberta"])
def test_further_names_of_transformers(folders, kind, tmp_path):
    from transformers import AutoTokenizer

    ours, theirs = load_tokenizer(folders[kind]), AutoTokenizer.from_pretrained(str(folders[kind]))
    ids = [ours(text)["input_ids"] for text in TEXTS]
    for skip in (False, True):
        assert ours.batch_decode(ids, skip_special_tokens=skip) == theirs.batch_decode(ids, skip_special_tokens=skip)
    assert ours.batch_decode(torch.tensor(ids[:1])) == ours.batch_decode(ids[:1])
    for name in ("vocab_size", "vocab", "special_tokens_map", "all_special_tokens", "model_max_length", "padding_side"):
        assert getattr(ours, name) == getattr(theirs, name)
    assert len(ours) == len(theirs)
    named = {"text": TEXTS[0], "text_pair": TEXTS[1]}
    assert plain(ours(**named)) == plain(theirs(**named))
    assert set(ours.model_input_names) == set(ours(TEXTS[0]))
    assert ours.convert_ids_to_tokens(ids[0]) == theirs.convert_ids_to_tokens(ids[0])
    added = {"pad_token": "<PAD>", "additional_special_tokens": ["<a>", "<b>"]}
    assert ours.add_special_tokens(added) == theirs.add_special_tokens(added) == 3
    assert (ours.pad_token_id, len(ours)) == (theirs.pad_token_id, len(theirs))
    with pytest.raises(ValueError, match="'padding_token' is no name of a special token: use one of bos_token"):
        ours.add_special_tokens({"padding_token": "<PAD>"})
    ours.save_pretrained(tmp_path)
    assert load_tokenizer(tmp_path)("<a> fox")["input_ids"] == theirs("<a> fox")["input_ids"]


def test_an_argument_that_there_is_not_is_answered_with_near_ones(pair):
    ours = pair[0]
    with pytest.raises(TypeError, match=r"Tokenizer.__call__ takes no 'pading'; near it: padding"):
        ours("a", pading=True)
    with pytest.raises(TypeError, match=r"Tokenizer.decode takes no 'skip_specials'; near it: skip_special_tokens"):
        ours.decode([1], skip_specials=True)
    with pytest.raises(TypeError, match=r"Tokenizer.pad takes no 'side'; it takes: encodings, padding"):
        ours.pad([{"input_ids": [1]}], side="left")
    assert ours.pad([{"input_ids": [1]}], verbose=False)["input_ids"] == [[1]]
    assert list(ours("a", return_attention_mask=False)) == ["input_ids", "token_type_ids"]


def test_the_tokens_of_an_encoding(pair):
    import pickle

    ours, theirs = pair
    for asked in ({}, {"padding": True, "return_tensors": "pt"}):
        found, expected = ours(TEXTS, **asked), theirs(TEXTS, **asked)
        assert [found.tokens(row) for row in range(len(TEXTS))] == [expected.tokens(row) for row in range(len(TEXTS))]
    assert ours(TEXTS[0]).tokens() == theirs(TEXTS[0]).tokens()
    assert ours("", add_special_tokens=False).tokens() == []
    with pytest.raises(ValueError, match=r"has no tokenizer: tok.convert_ids_to_tokens\(ids\)"):
        pickle.loads(pickle.dumps(ours(TEXTS))).tokens()


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (["<x>"], "special tokens are given by name"),
        ({"pad_token": ["<x>", "<y>"]}, "pad_token is .* give one token"),
        ({"pad_token": None}, "pad_token is None: give one token"),
        ({"bos_token": "<x>", "nonsense": "<y>"}, "'nonsense' is no name of a special token"),
    ],
)
def test_special_tokens_that_cannot_be_added_change_nothing(pair, tokens, message):
    ours = deepcopy(pair[0])
    with pytest.raises(ValueError, match=message):
        ours.add_special_tokens(tokens)
    assert (len(ours), ours.special_tokens_map) == (len(pair[0]), pair[0].special_tokens_map)


def test_a_special_token_may_say_how_it_is_found(pair):
    ours = deepcopy(pair[0])
    assert ours.add_special_tokens({"bos_token": AddedToken("<go>", lstrip=True)}) == 1
    assert ours.bos_token == "<go>"
    assert ours("<go>", add_special_tokens=False)["input_ids"] == [ours.bos_token_id]


@pytest.mark.parametrize("ids", ["abc", [1.5], [[None]]])
def test_what_is_no_id_has_no_text(pair, ids):
    with pytest.raises(ValueError, match="is no id: give whole numbers"):
        pair[0].decode(ids)
