"""Texts into padded tensors: ours beside transformers, one thread, the same ids.

Run it as `python -m benchmarks.tokenize`.
"""  # noqa: A005  (a module of a package shadows nothing)

import json
import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

DATA = Path(os.environ.get("GLASSFORMER_DATA", Path(__file__).parents[2] / "shared" / "data"))
ROUNDS = 5
BATCH = 32


def run() -> list[dict[str, Any]]:
    """One row a corpus and vocabulary: thousands of tokens a second, cold and warm."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    os.environ["RAYON_NUM_THREADS"] = "1"
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, kind, texts in cases():
            rows += compare(name, write_folder(Path(folder) / kind, kind, texts), texts)
    return rows


def cases() -> Iterator[tuple[str, str, list[str]]]:
    """A name, a vocabulary and real texts; made-up ones where the data is absent."""
    if not DATA.is_dir():
        yield "made-up English, WordPiece", "trained", made_up(4000)
        return
    wiki = [line.strip() for line in lines("wikitext2/train.txt") if line.strip()][:4000]
    sst = [line.split("\t")[0] for line in lines("glue/SST-2/train.tsv")[1:]][:8000]
    chinese = [line.split("\t")[1] for line in lines("chnsenticorp/train.tsv")[1:] if "\t" in line][:2000]
    yield "wikitext2, bert-base-uncased", "bert-base-uncased", wiki
    yield "SST-2, bert-base-uncased", "bert-base-uncased", sst
    yield "ChnSentiCorp, bert-base-chinese", "bert-base-chinese", chinese
    yield "wikitext2, gpt2", "gpt2", wiki


def lines(name: str) -> list[str]:
    """The lines of a data file."""
    return (DATA / name).read_text(encoding="utf-8").split("\n")


def made_up(count: int) -> list[str]:
    """Texts over 5000 made-up words, the common ones often."""
    rng = random.Random(0)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 9))) for _ in range(5000)]
    weights = [1 / rank for rank in range(1, len(words) + 1)]
    return [" ".join(rng.choices(words, weights, k=rng.randint(5, 60))) for _ in range(count)]


def write_folder(folder: Path, kind: str, texts: list[str]) -> Path:
    """A tokenizer folder that both read."""
    folder.mkdir(exist_ok=True)
    if kind == "trained":
        from glassformer.text.train import train

        corpus = folder / "corpus.txt"
        corpus.write_text("\n".join(texts), encoding="utf-8")
        train([corpus], kind="wordpiece", vocab_size=3000).save(folder)
    elif kind == "gpt2":
        shutil.copy(DATA / "tokenizers/gpt2/encoder.json", folder / "vocab.json")
        shutil.copy(DATA / "tokenizers/gpt2/vocab.bpe", folder / "merges.txt")
    else:
        shutil.copy(DATA / "tokenizers" / kind / "vocab.txt", folder / "vocab.txt")
    (folder / "config.json").write_text(json.dumps({"model_type": "gpt2" if kind == "gpt2" else "bert"}))
    return folder


def compare(name: str, folder: Path, texts: list[str]) -> list[dict[str, Any]]:
    """Both on the same batches, turn by turn; the first turn of ours is cold, the others warm."""
    from transformers import AutoTokenizer

    from glassformer.text import Tokenizer

    theirs = AutoTokenizer.from_pretrained(str(folder))
    theirs.pad_token = theirs.pad_token or theirs.eos_token
    batches = [texts[start : start + BATCH] for start in range(0, len(texts), BATCH)]
    cold, warm, peer = [], [], []
    for _ in range(ROUNDS):
        ours = Tokenizer.from_folder(folder)
        ours.pad_token = ours.pad_token or ours.eos_token
        ours.model_max_length = theirs.model_max_length = 10**9  # speed only: no warnings about length
        cold.append(clock(ours, batches))
        peer.append(clock(theirs, batches))
        warm.append(clock(ours, batches))
    for batch in batches[:20]:
        expected, found = (tok(batch, padding=True, return_tensors="pt") for tok in (theirs, ours))
        assert expected["input_ids"].equal(found["input_ids"]), f"{name}: ids differ"
    tokens = sum(map(len, ours(texts)["input_ids"])) / 1000
    return [
        row(f"tokenize {name}, cold cache", tokens, min(cold), min(peer)),
        row(f"tokenize {name}, warm cache", tokens, min(warm), min(peer)),
    ]


def clock(tokenizer: Callable[..., Any], batches: list[list[str]]) -> float:
    """Seconds for all batches."""
    start = time.perf_counter()
    for batch in batches:
        tokenizer(batch, padding=True, return_tensors="pt")
    return time.perf_counter() - start


def row(name: str, tokens: float, ours: float, peer: float) -> dict[str, Any]:
    """One line of the table."""
    return {
        "name": name,
        "ours": round(tokens / ours, 1),
        "peer": round(tokens / peer, 1),
        "peer_name": "transformers",
        "ratio": round(peer / ours, 2),
        "unit": "thousand tokens/s",
    }


if __name__ == "__main__":
    for result in run():
        print(json.dumps(result))
