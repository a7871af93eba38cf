"""The tokenizer of a run: the model's own, another one, or one learnt from the training texts."""

from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from glassformer.hub.load import load_tokenizer
from glassformer.text.tokenizer import Tokenizer
from glassformer.text.train import SPECIAL, Kind, train
from glassformer.train import checkpoint
from glassformer.train.processes import Processes

from .progress import shown

SIZES = {"wordpiece": 8000, "bpe": 8000, "unigram": 8000, "word": 30000, "wordpunct": 30000, "character": 8000}


def tokenizer_for(
    name: str,
    texts: Callable[[], Iterable[str]],
    *,
    vocab_size: int | None,
    lowercase: bool,
    folder: Path,
    processes: Processes | None,
) -> Tokenizer:
    """`name` is a folder, a hub name, or a kind of vocabulary to learn.

    It is learnt once, by one of the `processes` that share a run folder; all read it there, and again when the run
    goes on. Without any it is learnt for the moment.
    """
    if name not in SPECIAL:
        return load_tokenizer(name)
    size = vocab_size or SIZES[name]
    if processes is None:
        return _learnt(name, texts(), size, lowercase=lowercase)
    if processes.is_main and checkpoint.newest(folder) is None:
        _learnt(name, texts(), size, lowercase=lowercase).save(folder)
    processes.all_gather(None)  # it is there
    return load_tokenizer(folder)


def _learnt(kind: Kind, texts: Iterable[str], vocab_size: int, *, lowercase: bool) -> Tokenizer:
    with TemporaryDirectory() as folder, shown("learning a vocabulary"):
        path = Path(folder) / "texts.txt"
        with path.open("w", encoding="utf-8") as file:
            file.writelines(text + "\n" for text in texts)
        return train([path], kind=kind, vocab_size=vocab_size, lowercase=lowercase)
