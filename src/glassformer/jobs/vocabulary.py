"""The tokenizer of a run: the model's own, another one, or one learnt from the training texts."""

import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from glassformer.hub.load import load_tokenizer
from glassformer.text.tokenizer import Tokenizer
from glassformer.text.train import SPECIAL, train

SIZES = {"wordpiece": 8000, "bpe": 8000, "unigram": 8000, "character": 8000}


def tokenizer_for(
    name: str, texts: Callable[[], Iterable[str]], *, vocab_size: int | None, lowercase: bool
) -> Tokenizer:
    """`name` is a folder, a hub name, or a kind of vocabulary to learn."""
    if name not in SPECIAL:
        return load_tokenizer(name)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "texts.txt"
        with path.open("w", encoding="utf-8") as file:
            file.writelines(text + "\n" for text in texts())
        return train([path], kind=name, vocab_size=vocab_size or SIZES[name], lowercase=lowercase)
