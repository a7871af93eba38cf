"""Hypothesis texts over characters that the Unicode tables of Python and of the Rust library agree on.

The Rust library reads several tables (categories of about Unicode 8, accents, lower case, GPT-2's letters),
and Python one more. They agree on characters whose category has not changed since Unicode 3.2, the oldest
table that Python has. Characters that came or changed later (U+166D, many marks) are left out where the
readable tokenizers are compared with Rust, but for the emoji, which are added. Nothing else is left out.
"""

import unicodedata
from functools import cache

from hypothesis import strategies as st

OLD = unicodedata.ucd_3_2_0
EMOJI = [chr(code) for code in range(0x1F300, 0x1F5FB)]
ODD = [
    "[MASK]",
    "[SEP]",
    "<|endoftext|>",
    "  ",
    " \n ",
    "\t",
    "\r\n",
    "\u00a0",
    "\u3000",
    "'s",
    "'ll",
    "don't",
    "##a",
    "e\u0301",
]


@cache
def known() -> list[str]:
    """Every character that all tables agree on; 0xD800 to 0xDFFF are no characters."""
    codes = [*range(0xD800), *range(0xE000, 0x110000)]
    return [c for c in map(chr, codes) if OLD.category(c) == unicodedata.category(c) != "Cn"] + EMOJI


letters = st.characters(max_codepoint=0x24F, exclude_categories=["Cn", "Cs"])
anything = st.deferred(lambda: st.sampled_from(known()))
pieces = st.one_of(st.text(letters, max_size=8), st.text(anything, max_size=4), st.sampled_from(ODD), st.just(" "))
texts = st.lists(pieces, max_size=12).map("".join)
