"""The tokenizer call gives what transformers gives, for every option and kind; and says what it cut."""

import logging
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.hub.load import load_tokenizer

KINDS = ["bert", "cased", "distilbert", "gpt2", "roberta"]
WORDS = [
    "the",
    "quick",
    "Été",
    "doesn't",
    "124443",
    "今天",
    "книгу",
    "\t",
    "😀",
    "unheard-of",
    "  ",
    "[MASK]",
    "<mask>",
]

texts = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)


@pytest.fixture(scope="module")
def both(folders):
    """Ours and theirs for each kind, with a pad token."""
    from transformers import AutoTokenizer

    found = {}
    for kind in KINDS:
        ours, theirs = load_tokenizer(folders[kind]), AutoTokenizer.from_pretrained(str(folders[kind]))
        for tokenizer in (ours, theirs):
            tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
        found[kind] = ours, theirs
    return found


def same(ours, theirs, *args, pairs=None, **options):
    """Assert that both give the same dict, or that both refuse."""
    try:
        expected = theirs(*args, text_pair=pairs, **options)
    except BaseException as error:  # a panic of the Rust library is no Exception
        if isinstance(error, KeyboardInterrupt):
            raise
        with pytest.raises(ValueError, match=r"\w"):
            ours(*args, pairs, **options)
        return
    found = ours(*args, pairs, **options)
    assert list(found) == list(expected)
    for name, value in expected.items():
        assert plain(found[name]) == plain(value), name
    for row in range(len(expected.encodings)):
        assert found.sequence_ids(row) == expected.sequence_ids(row)
        assert found.word_ids(row) == expected.word_ids(row)


def plain(value):
    """Lists all the way down."""
    value = value.tolist() if hasattr(value, "tolist") else value
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


@settings(max_examples=100)
@given(
    kind=st.sampled_from(KINDS),
    batch=st.lists(st.tuples(texts, texts), min_size=1, max_size=4),
    paired=st.booleans(),
    padding=st.sampled_from([False, True, "longest", "max_length"]),
    truncation=st.sampled_from([None, False, True, "longest_first", "only_first", "only_second", "do_not_truncate"]),
    max_length=st.integers(6, 30),
    stride=st.integers(0, 3),
    overflow=st.booleans(),
    special=st.booleans(),
    left=st.booleans(),
    cut_left=st.booleans(),
    multiple=st.sampled_from([None, 1, 2]),
)
def test_every_option_gives_what_transformers_gives(
    both,
    kind,
    batch,
    paired,
    padding,
    truncation,
    max_length,
    stride,
    overflow,
    special,
    left,
    cut_left,
    multiple,
):
    ours, theirs = both[kind]
    ours.truncation_side = theirs.truncation_side = "left" if cut_left else "right"
    if padding is True and truncation in (None, False, "do_not_truncate"):
        max_length = None  # transformers warns that it has no use for it
    if padding == "max_length" and truncation in (None, False, "do_not_truncate"):
        truncation = True  # rows that stay longer than the width asked for are refused here
    if max_length is None or padding == "max_length" or (multiple and max_length % multiple):
        multiple = None
    same(
        ours,
        theirs,
        [first for first, _ in batch],
        pairs=[second for _, second in batch] if paired else None,
        padding=padding,
        truncation=truncation,
        max_length=max_length,
        stride=stride if overflow else 0,  # without windows Rust trips over a stride that has no meaning
        return_overflowing_tokens=overflow,
        return_offsets_mapping=kind != "roberta",  # where Rust forgets the space before the first word of a window
        return_special_tokens_mask=True,
        add_special_tokens=special,
        padding_side="left" if left else None,
        pad_to_multiple_of=multiple,
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pair", [None, "the lazy dog"])
def test_one_text_gives_flat_lists_and_tensors_have_two_dimensions(both, kind, pair):
    ours, theirs = both[kind]
    same(ours, theirs, "Best-selling books", pairs=pair)
    same(ours, theirs, "Best-selling books", pairs=pair, return_tensors="pt", return_offsets_mapping=True)
    assert ours("Best-selling books", pair, return_tensors="np")["input_ids"].ndim == 2


@pytest.mark.parametrize("kind", ["bert", "cased", "roberta"])
def test_texts_in_words(both, kind):
    ours, theirs = both[kind]
    words = [["The", "quick", "café"], ["unheard-of"], []]
    same(ours, theirs, words, padding=True, is_split_into_words=True, return_offsets_mapping=True)
    same(ours, theirs, words[0], is_split_into_words=True)


@pytest.mark.parametrize("kind", KINDS)
def test_ids_and_tokens_and_text_convert_as_in_transformers(both, kind):
    ours, theirs = both[kind]
    text = "The café isn't far, 今天 ! It's [MASK] <mask>"
    ids = ours.encode(text)
    assert ids == theirs.encode(text)
    assert ours.tokenize(text) == theirs.convert_ids_to_tokens(theirs.encode(text, add_special_tokens=False))
    assert ours.convert_ids_to_tokens(ids) == theirs.convert_ids_to_tokens(ids)
    assert ours.convert_ids_to_tokens(ids, skip_special_tokens=True) == theirs.convert_ids_to_tokens(
        ids, skip_special_tokens=True
    )
    assert ours.convert_tokens_to_ids(["the", "no such token"]) == theirs.convert_tokens_to_ids(
        ["the", "no such token"]
    )
    for skip in (True, False):
        assert ours.decode(ids, skip_special_tokens=skip) == theirs.decode(ids, skip_special_tokens=skip)
        assert ours.batch_decode(torch.tensor([ids]), skip_special_tokens=skip) == theirs.batch_decode(
            [ids], skip_special_tokens=skip
        )
    if kind != "gpt2":
        assert ours.decode(ids, clean_up_tokenization_spaces=True) == theirs.decode(
            ids, clean_up_tokenization_spaces=True
        )
    assert (len(ours), ours.vocab_size) == (len(theirs), theirs.vocab_size)
    assert ours.get_vocab() == theirs.get_vocab()
    assert set(ours.all_special_ids) == set(theirs.all_special_ids)
    for name in ("bos", "eos", "unk", "sep", "pad", "cls", "mask"):
        assert getattr(ours, f"{name}_token_id") == getattr(theirs, f"{name}_token_id")


def test_the_encoding_is_a_dict_with_attributes(both):
    ours, _ = both["bert"]
    encoding = ours(["a dog", "a"], padding=True, return_tensors="pt")
    assert encoding.input_ids is encoding["input_ids"]
    assert "cut" not in encoding
    assert encoding.to("cpu") is encoding
    assert {**encoding}.keys() == {"input_ids", "token_type_ids", "attention_mask"}
    with pytest.raises(AttributeError, match="labels"):
        _ = encoding.labels
    again = pickle.loads(pickle.dumps(encoding))
    torch.testing.assert_close(again.input_ids, encoding.input_ids)
    assert again.sequence_ids(1) == encoding.sequence_ids(1)


def test_an_empty_batch_is_empty(both):
    ours, _ = both["bert"]
    assert ours([])["input_ids"] == []
    assert ours([], padding=True, return_tensors="pt")["input_ids"].shape == (0, 0)


def test_truncation_is_reported(both, caplog):
    ours, _ = both["bert"]
    with caplog.at_level(logging.WARNING, "glassformer"):
        encoding = ours(["the dog", "the dog " * 10], truncation=True, max_length=8)
    assert encoding.num_truncated == [0, 14]
    with pytest.deprecated_call(match="num_truncated"):
        assert encoding.cut == [0, 14]
    assert [record.message.split(":")[0] for record in caplog.records] == [
        "truncation to 8 tokens cut 14 tokens from 1 of 2 texts"
    ]
    caplog.clear()
    assert ours(["the dog " * 10], max_length=8, return_overflowing_tokens=True).num_truncated == [0]
    assert not caplog.records


def test_a_text_longer_than_the_model_reads_is_reported(both, caplog):
    ours, _ = both["cased"]
    assert ours.model_max_length == 64
    with caplog.at_level(logging.WARNING, "glassformer"):
        ours("the dog " * 40)
    assert "82 tokens but the model reads 64" in caplog.text
    assert len(ours("the dog " * 40, truncation=True)["input_ids"]) == 64
    assert len(ours("the dog", padding="max_length")["input_ids"]) == 64


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((None,), {}, "texts is None"),
        (([1.5, "a"],), {}, r"texts\[0\] is 1.5 \(float\)"),
        ((["a", float("nan")],), {}, r"texts\[1\] is nan"),
        (([("a", "b")],), {}, "second argument"),
        ((["a", "b"], ["c"]), {}, "2 texts but 1 pairs"),
        (("a", None), {"max_length": 1, "truncation": True}, "max_length=1 is under the 2 special tokens"),
        (("a",), {"padding": "yes"}, "padding='yes'"),
        (("a",), {"truncation": "middle"}, "truncation='middle'"),
        (("a",), {"return_tensors": "tf"}, "return_tensors='tf'"),
        ((["a", "a b"],), {"return_tensors": "pt"}, "padding=True"),
        (("a",), {"padding": "max_length"}, "needs a max_length"),
        (("the " * 9,), {"padding": "max_length", "max_length": 5}, "over max_length=5"),
        (("the " * 9,), {"truncation": "only_second", "max_length": 5}, "needs pairs"),
        (("the", "the " * 9), {"truncation": "only_first", "max_length": 5}, "longest_first"),
        (("the " * 9,), {"max_length": 5, "stride": 3, "return_overflowing_tokens": True}, "stride=3"),
        ((["a b"],), {"is_split_into_words": True}, None),
        (([["a"], "b"],), {"is_split_into_words": True}, "list of words"),
    ],
)
def test_wrong_calls_say_what_is_wrong(both, arguments, options, message):
    ours, _ = both["bert"]
    if message is None:
        assert ours(*arguments, **options)["input_ids"]
        return
    with pytest.raises(ValueError, match=message) as error:
        ours(*arguments, **options)
    assert "\n" not in str(error.value)


def test_padding_without_a_pad_token_names_the_fix(folders):
    ours = load_tokenizer(folders["gpt2"])
    with pytest.raises(ValueError, match=r"tok\.pad_token = tok\.eos_token"):
        ours(["a", "a b"], padding=True)
    ours.pad_token = ours.eos_token
    assert ours(["a", "a b"], padding=True)["input_ids"][0][-1] == ours.eos_token_id
    with pytest.raises(ValueError, match="add_tokens"):
        ours.pad_token = "<nowhere>"


@pytest.mark.parametrize("ids", [[-1], [10**6], [-100, 3]])
def test_ids_out_of_range_are_named(both, ids):
    ours, _ = both["bert"]
    with pytest.raises(ValueError, match=f"id {ids[0]} is not in the vocabulary"):
        ours.decode(ids)
    with pytest.raises(ValueError, match=f"id {ids[0]}"):
        ours.convert_ids_to_tokens(np.array(ids))
