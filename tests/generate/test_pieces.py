"""Pieces of a text as it is written: joined they are the text, and none says too much."""

import json
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from glassformer.generate.pieces import TextPieces
from glassformer.text.train import train

CORPUS = "the cat sat on the mat. 猫坐在垫子上。 😀👩‍👩‍👧 naïve café\n"


@pytest.fixture(scope="module")
def decoders_of(tmp_path_factory):
    """Byte-level BPE, WordPiece, and SentencePiece's way to fall back to bytes and to begin with a space."""
    corpus = tmp_path_factory.mktemp("text") / "corpus.txt"
    corpus.write_text(CORPUS * 20, encoding="utf-8")
    found = {kind: train([corpus], kind=kind, vocab_size=300) for kind in ("bpe", "wordpiece")}
    known = {
        kind: (len(one), lambda ids, one=one: one.decode(ids, skip_special_tokens=True)) for kind, one in found.items()
    }
    words = ["<s>", "▁", "▁the", "▁cat", "s", "at", "▁猫", *(f"<0x{byte:02X}>" for byte in range(256))]
    rust = Tokenizer(models.BPE({word: place for place, word in enumerate(words)}, [], byte_fallback=True))
    rust.pre_tokenizer = pre_tokenizers.Metaspace()
    rust.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    rust.add_special_tokens([AddedToken("<s>", special=True)])
    assert json.loads(rust.to_str())["decoder"]["type"] == "Sequence"
    return known | {"sentencepiece": (len(words), lambda ids: rust.decode(ids, skip_special_tokens=True))}


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "sentencepiece"])
@given(data=st.data())
def test_joined_they_are_what_ids_add_to_a_text(decoders_of, kind, data):
    """Whatever bytes stand beside each other: of every character only the whole is told, as long as more may come."""
    size, decode = decoders_of[kind]
    units = st.integers(0, size - 1).map(lambda id_: [id_])
    if kind == "sentencepiece":  # which turns all of a run of bytes into nothing when the last of them is wrong
        units = st.integers(0, 6).map(lambda id_: [id_]) | st.sampled_from(CORPUS).map(
            lambda x: [7 + b for b in x.encode()]
        )
    prompt, new = (list(chain(*data.draw(st.lists(units, max_size=20)))) for _ in range(2))
    if decode(prompt).endswith("\ufffd"):
        prompt = []  # what a broken character becomes depends on what follows
    pieces, told = TextPieces(decode, context=prompt), list[str]()
    for token in new:
        pieces.push(token)
        told.append(pieces.take())
    assert not any(piece.endswith("\ufffd") for piece in told)
    told.append(pieces.finish(stopped=False)[0])
    assert decode(prompt) + "".join(told) == decode([*prompt, *new])


@given(
    text=st.text("ab.", max_size=30),
    stops=st.lists(st.text("ab.", min_size=1, max_size=5), min_size=1, max_size=4),
    size=st.integers(1, 4),
)
def test_no_part_of_a_stop_string_is_told(text, stops, size):
    """A text that comes in parts is told as far as it is certain, and ends before the first of its stop strings."""
    parts = [text[start : start + size] for start in range(0, len(text), size)]
    pieces = TextPieces(lambda ids: "".join(parts[id_] for id_ in ids), stops=stops)
    told, so_far = "", ""
    for place, part in enumerate(parts):
        pieces.push(place)
        so_far += part
        if any(stop in so_far for stop in stops):
            rest, found = pieces.finish(stopped=True)
            first = min(so_far.find(stop) for stop in stops if stop in so_far)
            assert told + rest == so_far[:first]
            assert so_far[first:].startswith(found)
            return
        told += pieces.take()
        assert so_far.startswith(told)
        held = so_far[len(told) :]
        assert held == "" or any(stop.startswith(held) for stop in stops), "nothing is held back without need"
    assert told + pieces.finish(stopped=False)[0] == text
