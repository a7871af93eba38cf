"""BPE-dropout (Provilkov et al., 2020): words cut into other pieces each time, because some merges are left out.

In plain Python, because what the Rust library draws cannot be seeded.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
from random import Random

from .backend import RustBackend
from .tokenizer import Tokenizer

NO_WORD = -1  # of special tokens


class BpeDropout:
    """Cuts the words of encoded texts anew; before each merge, every pair that is open to it may be left out."""

    def __init__(self, vocab: Mapping[str, int], merges: Sequence[tuple[str, str]], dropout: float) -> None:
        self.vocab, self.dropout = vocab, dropout
        self.tokens = {index: token for token, index in vocab.items()}
        self.rank = {pair: rank for rank, pair in enumerate(merges)}

    @classmethod
    def of(cls, tokenizer: Tokenizer, dropout: float) -> "BpeDropout":
        """Of a tokenizer whose model is BPE over plain characters or bytes; any other is refused."""
        backend = tokenizer.backend
        model = json.loads(backend.rust.to_str())["model"] if isinstance(backend, RustBackend) else {}
        marks = model.get("continuing_subword_prefix") or model.get("end_of_word_suffix")
        if model.get("type") != "BPE" or marks:
            kind = "BPE with marked pieces" if marks else model.get("type", "not the library's")
            raise ValueError(f"bpe_dropout needs a BPE tokenizer, and this one is {kind}; leave it out, or train a bpe")
        merges = [tuple(pair.split(" ") if isinstance(pair, str) else pair) for pair in model["merges"]]
        return cls(model["vocab"], merges, dropout)

    def row(self, ids: Sequence[int], words: Sequence[int], chance: Random) -> list[int]:
        """The ids of a text cut anew; `words` says which word each token belongs to, NO_WORD for none."""
        found: list[int] = []
        for word, group in groupby(zip(ids, words, strict=True), key=lambda pair: pair[1]):
            whole = [index for index, _ in group]
            found += whole if word == NO_WORD else self.cut(whole, chance)
        return found

    def cut(self, word: Sequence[int], chance: Random) -> Sequence[int]:
        """One word cut anew; with a character that is unknown it stays as it is."""
        pieces = self.pieces("".join(self.tokens.get(index, "") for index in word), chance)
        known = all(index in self.tokens for index in word) and all(piece in self.vocab for piece in pieces)
        return [self.vocab[piece] for piece in pieces] if known else word

    def pieces(self, word: str, chance: Random) -> list[str]:
        """From single characters, merge what was learnt first among the pairs that are not left out this time."""
        parts = list(word)
        while len(parts) > 1:
            open_ = [
                (self.rank[pair], place)
                for place, pair in enumerate(pairwise(parts))
                if pair in self.rank and chance.random() >= self.dropout
            ]
            if not open_:
                break
            _, at = min(open_)
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        return parts
