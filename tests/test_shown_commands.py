"""Every command that the README and the guide show is run, on files and models as their names say, only smaller.

Pages of the tour and how-to pages run by themselves, on what they make: see test_docs.py and test_howto.py.
"""

import json
import os
import re
import subprocess
import sys
from itertools import pairwise
from urllib.parse import quote
from urllib.request import HTTPCookieProcessor, build_opener

import pytest
from docs.generate import PAGES, ROOT

from named import ELSEWHERE, EVERYWHERE
from pages import Shell, blocks, commands, lines_of
from tasks.cases import SMALL

NOT_RUN = {  # words that a command holds, one after another, and why it is not run here
    ("glassformer", "demo"): "tests/test_demo.py runs it",
    ("make",): "make runs the tests, not the tests make; `make bench` and `make zoo` take hours",
    ("pip",): "it would install over what the tests run with; tests/test_package.py installs a wheel elsewhere",
    ("jupyter",): "it opens a browser and does not end; the notebooks themselves are run by their own test",
    ("--ray",): "a cluster is started where it is tested by itself, by the tests named after ray",
}
SERVERS = {"studio": "/", "serve": "/health"}  # what does not end is started, asked for a path, and stopped
BY_OTHERS = ("tour", "howto", "zh")  # folders whose pages have tests of their own, or the commands of another page
REPORTS = "results"  # of hours on other machines: each ends with the command that does it again
TYPES = {"lstm": "glassformer-rnn", "modernbert": "bert"}  # whose settings of SMALL they take
QUICK = ("figures.md", "models.md", "tokenizers.md")
SMALLER = {  # what an experiment is given besides, so that it takes seconds
    "ladder": {"contestants": ["bag of words", "frozen"], "sizes": [30]},
    "scratch-vs-finetune": {"sizes": [30]},
    "layers-heads": {"layers": [1], "heads": [1, 2], "widths": [16], "limit": 40, "head_examples": 2},
    "attention": {"contestants": ["no attention", "bahdanau"], "width": 16, "limit": 40, "vocab_size": 200},
    "recurrence": {"contestants": ["gru"], "lessons": ["parity"], "lengths": [5], "distance": 5, "examples": 60},
    "scaling": {"contestants": ["gru"], "lengths": [8, 16, 32, 64], "rounds": 1, "width": 16, "batch": 1},
    "positions": {"length": 16, "times": 2, "width": 16, "layers": 1, "heads": 2, "tokens": 256, "vocab_size": 300},
    "pooling": {},
    "tokenizers": {"kinds": ["bpe"], "sizes": [300]},
    "pretraining": {"contestants": ["none", "MLM"], "width": 16, "layers": 1, "heads": 2, "length": 32}
    | {"vocab_size": 300, "downstream_budget": "2steps", "batch_tokens": 256},
    "optimisers": {"contestants": ["adamw", "sgd"], "rates": [0.001], "arch": "bow"},
    "schedules": {"contestants": ["constant", "linear"], "rates": [0.001]},
}


def is_run(words):
    """Whether it is not in the list above."""
    return not any(
        known == tuple(words[place : place + len(known)]) for known in NOT_RUN for place in range(len(words))
    )


def lines_to_run(page):
    return [words for block in blocks(page, "sh") for words in lines_of(block) if is_run(words)]


GUIDE = [page for page in PAGES if not {*BY_OTHERS, REPORTS} & {*page.relative_to(ROOT).parts}]
SHOWN = [page for page in GUIDE if page.name != "README.zh-CN.md" and lines_to_run(page)]  # that one is as README.md
MARKED = [page if page.name in QUICK else pytest.param(page, marks=pytest.mark.slow) for page in SHOWN]


def smaller(words):
    """The same command with less to do, on this machine's processor."""
    words = ["cpu" if before == "--device" else word for before, word in pairwise(["", *words])]
    if words[1] == "train" and not {"--help", "--dry-run-mesh"} & {*words} and not {"--resume", "--steps"} <= {*words}:
        arch = words[words.index("--arch") + 1] if "--arch" in words else ""
        sizes = SMALL.get(TYPES.get(arch, arch), {})
        given = [f"config.{name}={size}" for name, size in sizes.items()]
        given += ["limit=40"] if "microworld" in words else []
        return [*words, "--steps", "2", *(word for one in given for word in ("--set", one))]
    if words[1] == "compare" and words[2] in SMALLER:
        given = [word for name, value in SMALLER[words[2]].items() for word in ("--set", f"{name}={json.dumps(value)}")]
        bounds = [] if words[2] in ("pooling", "scaling") else ["--budget", "2steps", "--seeds", "1"]
        return [*words, *bounds, "--jobs", "0", *given]
    return words


def named_in(page):
    """What is to be there before the page's commands: all that they name and none has made by then."""
    made, found = set(), set()
    for words in (words for block in blocks(page, "sh") for words in commands(block) if is_run(words)):
        plain = [word.removeprefix("./") for word in words]
        plain = [word.partition("=")[2] if "=" in word else word for word in plain]  # ner=eng.train
        made |= {word for before, word in pairwise(plain) if before == "--out"} - found
        found |= {*plain} - made
    return found & EVERYWHERE.keys()


def starts_and_stops(words, folder):
    """A server of this machine alone answers, at any port that is free."""
    changed = {"--host": "127.0.0.1", "--key-file": "key", "--port": "0"}
    words = [changed.get(before, word) for before, word in pairwise(["", *words])]
    if "--key-file" in words and not (folder / "key").exists():
        (folder / "key").write_text("open sesame\n")
        (folder / "key").chmod(0o600)
    running = subprocess.Popen(
        [sys.executable, "-m", *words, *([] if "--port" in words else ["--port", "0"])],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": "1"},
        cwd=folder,
    )
    try:
        address = next((found[0] for line in running.stdout if (found := re.search(r"http://[\w.:]+", line))), None)
        assert address, running.stderr.read()
        key = f"?key={quote((folder / 'key').read_text().strip())}" if words[1] == "studio" and "key" in words else ""
        path = f"{address}{SERVERS[words[1]]}{key}"
        assert build_opener(HTTPCookieProcessor()).open(path, timeout=60).status == 200
        assert running.poll() is None
    finally:
        running.kill()
        running.communicate()


@pytest.mark.parametrize("page", MARKED, ids=lambda page: page.name)
def test_every_command_of_a_page_runs(page, glassformer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for variable, folder in {"HF_HUB_CACHE": "cache", "GLASSFORMER_DATA": "data"}.items():
        monkeypatch.setenv(variable, str(tmp_path / folder))
    monkeypatch.setenv("BROWSER", "true")  # what --open starts
    makers = EVERYWHERE | ELSEWHERE.get(page.name, {})
    for name in sorted(named_in(page)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        makers[name](tmp_path / name)
    shell = Shell(glassformer, smaller)
    for words in lines_to_run(page):
        if words[0] == "glassformer" and words[1] in SERVERS:
            starts_and_stops(words, tmp_path)
        else:
            ran = shell.run(words)
            assert ran.code == 0, f"{' '.join(words)}\n{ran.err}"
