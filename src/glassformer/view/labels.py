"""Labels: tokens as text that can be seen, and that fits."""

import re
from unicodedata import east_asian_width

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
EM = 0.61  # the width of a column in a monospaced font, in ems


def visible(token: str) -> str:
    """A token in which blanks and control characters can be seen."""
    shown = "".join(char if char.isprintable() else repr(char)[1:-1] for char in token.replace("\n", "↵"))
    return shown.replace(" ", "␣") or "∅"


def escaped(text: str, *, keep: str = "") -> str:
    """A text in which what could move, hide or recolour the text around it is spelt out, as \\x1b; all but `keep`.

    That is control characters, ends of lines among them, what turns the direction of writing, and halves of characters.
    """
    return CONTROL.sub(lambda found: found[0] if found[0] in keep else repr(found[0])[1:-1], text)


def escaped_json(text: str) -> str:
    """JSON, or a string of TOML, in which such characters are spelt as JSON spells them."""
    return CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def text_width(text: str) -> int:
    """How many columns of a monospaced font a text takes; a Chinese character takes two."""
    return sum(2 if east_asian_width(char) in "WF" else 1 for char in text)


def short(token: str, longest: int = 16) -> str:
    """As much of a token as so many columns have room for."""
    shown = visible(token)
    if text_width(shown) <= longest:
        return shown
    while text_width(shown) >= longest:
        shown = shown[:-1]
    return shown + "…"
