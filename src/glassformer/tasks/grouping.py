"""Tagged tokens put together into entities, as Hugging Face's token-classification pipeline does it.

C classes.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from tokenizers.models import BPE, WordPiece

from glassformer.data.examples import Tagged
from glassformer.text.backend import Pieces, RustBackend
from glassformer.text.tokenizer import Tokenizer
from glassformer.text.wordpiece import is_ideograph

Strategy = Literal["none", "simple", "first", "average", "max"]
UNKNOWN = "\ufffd"  # what bytes that are no character are decoded to
Join = Callable[[list[str]], str]  # tokens to text


@dataclass(frozen=True)
class ScoredToken:
    """One token of a text, or one word."""

    text: str
    index: int  # its place in the row, special tokens counted
    start: int  # characters of the text
    end: int
    is_subword: bool  # whether it goes on with the word before it
    scores: NDArray[np.float32]  # (C,)


def entities(
    tokens: Sequence[ScoredToken], labels: Sequence[str], strategy: Strategy, *, ignored: Collection[str], join: Join
) -> list[dict[str, Any]]:
    """Entities with their scores and places.

    none: every token by itself. simple: neighbours of one type are an entity, which B- opens anew. first, average and
    max: the same, once the tokens of each word agree on the scores of its first token, on the mean, or on those of its
    surest token.
    """
    if strategy not in get_args(Strategy):
        raise ValueError(f"aggregation_strategy={strategy!r} is not known: use one of {', '.join(get_args(Strategy))}")
    if strategy == "none":
        tagged = [(labels[int(one.scores.argmax())], one) for one in tokens]
        return [_single(label, one) for label, one in tagged if label not in ignored]
    if strategy != "simple":
        tokens = [_agreed(word, strategy, join) for word in _words(tokens)]
    groups = _groups(tokens, labels)
    return [_entity(kind, group, join) for kind, group in groups if kind not in ignored]


def _single(label: str, token: ScoredToken) -> dict[str, Any]:
    return {
        "entity": label,
        "score": float(token.scores.max()),
        "index": token.index,
        "word": token.text,
        "start": token.start,
        "end": token.end,
    }


def _entity(kind: str, group: Sequence[ScoredToken], join: Join) -> dict[str, Any]:
    return {
        "entity_group": kind,
        "score": float(np.mean([one.scores.max() for one in group])),
        "word": _joined_words([one.text for one in group], join),
        "start": group[0].start,
        "end": group[-1].end,
    }


def _joined_words(words: list[str], join: Join) -> str:
    """Words, which are joined as tokens are; a decoder of bytes takes the é of a word for a byte, and is not asked."""
    text = join(words)
    return "".join(words) if UNKNOWN in text and UNKNOWN not in "".join(words) else text


def _words(tokens: Sequence[ScoredToken]) -> Iterator[list[ScoredToken]]:
    """The tokens of each word."""
    group: list[ScoredToken] = []
    for one in tokens:
        if group and not one.is_subword:
            yield group
            group = []
        group.append(one)
    if group:
        yield group


def _agreed(word: Sequence[ScoredToken], strategy: Strategy, join: Join) -> ScoredToken:
    scores = np.stack([one.scores for one in word])
    if strategy == "average":
        chosen = scores.mean(0)
    else:
        chosen = scores[0 if strategy == "first" else int(scores.max(1).argmax())]
    text = join([one.text for one in word])
    return ScoredToken(text, word[0].index, word[0].start, word[-1].end, is_subword=False, scores=chosen)


def _groups(tokens: Sequence[ScoredToken], labels: Sequence[str]) -> Iterator[tuple[str, list[ScoredToken]]]:
    """Runs of tokens of one type, O among them; a label without B- or I- is a type that goes on."""
    open_kind = ""
    group: list[ScoredToken] = []
    for one in tokens:
        label = labels[int(one.scores.argmax())]
        opens, kind = label.startswith("B-"), label[2:] if label[:2] in ("B-", "I-") else label
        if group and (opens or kind != open_kind):
            yield open_kind, group
            group = []
        open_kind = kind
        group.append(one)
    if group:
        yield open_kind, group


def scored_tokens(
    text: str, pieces: Pieces, scores: NDArray[np.float32], *, tokenizer: Tokenizer, before: int
) -> list[ScoredToken]:
    """The tokens of a text with the scores (T, C) of each; `before` special tokens stand before them.

    What a word is, transformers takes from the mark that a tokenizer has for tokens inside words (BERT's ##); without
    one a word ends at a space, so that "Paris," is one. Here, a Chinese character is a word in any case.
    """
    names, marked, last = tokenizer.convert_ids_to_tokens(pieces.ids), marks_subwords(tokenizer), -1
    found = []
    for place, (start, end) in enumerate(pieces.offsets):
        covered, name = text[start:end], names[place]
        if pieces.ids[place] == tokenizer.unk_token_id:
            name, inside = covered, False
        elif marked:
            inside = len(name) != len(covered)
        else:
            around = text[max(0, start - 1) : start + 1]
            inside = start == last if any(map(is_ideograph, around)) else start > 0 and " " not in around
        found.append(ScoredToken(name, before + place, start, end, inside, scores[place]))
        last = start
    return found


def marks_subwords(tokenizer: Tokenizer) -> bool:
    """Whether tokens inside words can be told from others by a mark, as BERT's ##."""
    model = tokenizer.backend.rust.model if isinstance(tokenizer.backend, RustBackend) else None
    return isinstance(model, WordPiece | BPE) and bool(model.continuing_subword_prefix)


def tagged_words(words: Sequence[str], labels: Sequence[str], scores: NDArray[np.float32]) -> list[dict[str, Any]]:
    """The likeliest tag of every word, from scores (T, C)."""
    return [
        {"entity": labels[row.argmax()], "score": float(row.max()), "index": index, "word": word}
        for index, (word, row) in enumerate(zip(words, scores, strict=True))
    ]


def joined(tokenizer: Tokenizer, tokens: list[str]) -> str:
    """Tokens, or words that were joined from them, to text, as the tokenizer decodes them."""
    backend = tokenizer.backend
    decoder = backend.rust.decoder if isinstance(backend, RustBackend) else None
    return str(decoder.decode(tokens)) if decoder is not None else " ".join(tokens)


def text_or_words(given: Any) -> str | list[str]:
    """A text, or the words of one."""
    match given:
        case str():
            return given
        case Tagged():
            return list(given.words)
        case [*words] if all(isinstance(word, str) for word in words):
            return words
    raise ValueError(f"a text or a list of words is wanted, not {given!r}")
