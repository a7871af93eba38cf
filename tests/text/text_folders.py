"""A small corpus in several scripts, and tokenizer folders written by hand."""

import json
from pathlib import Path

from tokenizers import Tokenizer as Rust

CORPUS = """\
The quick brown fox jumps over the lazy dog, and the dog doesn't mind: it's a warm day in June.
We, the readers of long books, can't say whether 1,234 pages are many or few; they're enough.
Best-selling albums sold 124443 copies (unheard of!) while nobody was listening to the radio.
Un petit café près de la forêt; l'été, les élèves y déjeunent. Ça va très bien, naïve Zoë.
Der größte Fluß heißt Über-See: Mädchen schwimmen dort früh am Morgen.
今天天气很好，我们去公园散步。他说：“明天也许会下雨。” 你好 世界
Что ты читаешь? Я читаю книгу о море. Привет, мир! 😀 ½ ² ﬁ
"""


def write(folder: Path, **files: str | dict) -> Path:
    """A folder with these files; names have _ for the dot, and values that are no strings become JSON."""
    folder.mkdir(parents=True)
    for name, content in files.items():
        stem, _, suffix = name.rpartition("_")
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / f"{stem}.{suffix}").write_text(text, encoding="utf-8")
    return folder


def vocab_lines(rust: Rust) -> str:
    vocab = rust.get_vocab()
    return "\n".join(sorted(vocab, key=vocab.__getitem__)) + "\n"


def merge_lines(rust: Rust) -> str:
    merges = json.loads(rust.to_str())["model"]["merges"]
    return "#version: 0.2\n" + "\n".join(" ".join(pair) for pair in merges) + "\n"
