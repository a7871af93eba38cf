"""Labels: tokens as text that can be seen, and that fits."""

from unicodedata import east_asian_width

EM = 0.61  # the width of a column in a monospaced font, in ems


def visible(token: str) -> str:
    """A token in which blanks and control characters can be seen."""
    shown = "".join(char if char.isprintable() else repr(char)[1:-1] for char in token.replace("\n", "↵"))
    return shown.replace(" ", "␣") or "∅"


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
