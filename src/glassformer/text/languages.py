"""Languages that a multilingual tokenizer tells apart by a code beside each text: NLLB, M2M-100, mBART."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from glassformer.text.assemble import Part, Template

if TYPE_CHECKING:
    from glassformer.text.tokenizer import Tokenizer

NLLB = re.compile(r"([a-z]{3}_[A-Z][a-z]{3})")  # eng_Latn
M2M_100 = re.compile(r"__([a-z]{2,3})__")  # __en__, whose code is en
MBART = re.compile(r"([a-z]{2,3}_[A-Z]{2})")  # en_XX
KINDS = {"nllb": (NLLB,), "m2m": (M2M_100, NLLB), "mbart": (MBART,)}  # by a part of the tokenizer's or model's class
DEFAULTS = ("eng_Latn", "en", "en_XX")  # the language of a source where nobody says it, as in transformers


@dataclass(frozen=True)
class Languages:
    """The codes that a tokenizer knows, and where the code of a text stands."""

    tokens: Mapping[str, str]  # code -> token
    after: bool  # text </s> code, as mBART and the first NLLB have it, instead of code text </s>

    @classmethod
    def of(cls, kind: str, config: Mapping[str, Any], special: Iterable[str]) -> Self | None:
        """Of a tokenizer of this class, by its special tokens; None where it has no languages."""
        patterns = next((some for name, some in KINDS.items() if name in kind), ())
        found = [(match[1], token) for token in special for one in patterns if (match := one.fullmatch(token))]
        if not found:
            return None
        old = "mbart" in kind and "mbart50" not in kind
        return cls(dict(found), old or bool(config.get("legacy_behaviour")))

    def token(self, code: str) -> str:
        """The token of a language, which must be known."""
        if code in self.tokens:
            return self.tokens[code]
        near = get_close_matches(code, self.tokens, n=3) or [one for one in self.tokens if one[:2] == code[:2].lower()]
        some = ", ".join(near[:5] or list(self.tokens)[:10])
        listed = f"near it: {some}" if near else f"it has {len(self.tokens)}: {some} …"
        raise ValueError(f"the tokenizer knows no language {code!r}; {listed}")

    @property
    def default(self) -> str:
        """The language of a source where nobody says it."""
        return next((code for code in DEFAULTS if code in self.tokens), next(iter(self.tokens)))

    def template(self, code: int, end: int, *, pair: bool) -> Template:
        """Where the id of a language and the end stand beside a text."""
        special = [[], [end, code]] if self.after else [[code], [end]]
        before, behind = (Part(None, 0, np.array(ids, dtype=np.int64)) for ids in special)
        texts = [Part(number, 0, np.zeros(0, np.int64)) for number in range(1 + pair)]
        return (*([before] if len(before.ids) else []), *texts, behind)


class Language:
    """`tok.src_lang` or `tok.tgt_lang`: the code of a language that the tokenizer knows, or None."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, tokenizer: "Tokenizer", owner: type | None = None) -> str | None:
        return tokenizer.languages_of_sides.get(self.name)

    def __set__(self, tokenizer: "Tokenizer", code: str | None) -> None:
        languages = tokenizer.settings.languages
        if code is not None:
            if languages is None:
                raise ValueError(f"{self.name} = {code!r}, but this tokenizer marks no languages: leave it out")
            languages.token(code)
        tokenizer.languages_of_sides = {**tokenizer.languages_of_sides, self.name: code}
