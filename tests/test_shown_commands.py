"""Every command that the README and the guide show is run, on files and models as their names say, only smaller.

Pages of the tour and how-to pages run by themselves, on what they make: see test_docs.py and test_howto.py.
"""

import json
import os
import re
import subprocess
import sys
import tomllib
from itertools import pairwise
from urllib.parse import quote
from urllib.request import HTTPCookieProcessor, build_opener

import pytest
from docs.generate import PAGES, ROOT

from named import ELSEWHERE, EVERYWHERE
from pages import FENCED, Shell, blocks, commands, lines_of, text_of
from tasks.cases import SMALL

NOT_RUN = {  # words that a command holds, one after another, and why it is not run here
    ("glassformer", "demo"): "tests/test_demo.py runs it",
    ("make",): "make runs the tests, not the tests make; `make bench` and `make zoo` take hours. Looked up below",
    ("pip",): "it would install over what the tests run with; tests/test_package.py installs a wheel. Looked up below",
    ("jupyter",): "it opens a browser and does not end; the notebooks are run by their own test. Looked up below",
    ("--ray",): "runs on a cluster, below",
    ("--nnodes",): "tests/train/test_machines.py runs it, on two machines",
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


def shown_lines(page):
    return [words for block in blocks(page, "sh") for words in lines_of(block)]


def lines_to_run(page):
    return [words for words in shown_lines(page) if is_run(words)]


GUIDE = [page for page in PAGES if not {*BY_OTHERS, REPORTS} & {*page.relative_to(ROOT).parts}]
ON_RAY = [words for page in PAGES if "zh" not in page.parts for words in shown_lines(page) if "--ray" in words]
SHOWN = [page for page in GUIDE if page.name != "README.zh-CN.md" and lines_to_run(page)]  # that one is as README.md
MARKED = [page if page.name in QUICK else pytest.param(page, marks=pytest.mark.slow) for page in SHOWN]


def smaller(words):
    """The same command with less to do, on this machine's processor."""
    words = ["cpu" if before == "--device" else word for before, word in pairwise(["", *words])]
    if {"--resume", "--steps"} <= {*words}:  # a run of two steps is lengthened
        return [str(int(word) // 100) if before == "--steps" else word for before, word in pairwise(["", *words])]
    if words[1] == "train" and not {"--help", "--dry-run-mesh"} & {*words}:
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


def starts_and_stops(words, folder, end=subprocess.Popen.kill):
    """A server of this machine alone answers, at any port that is free; it is ended by `end`."""
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
        end(running)
        running.communicate(timeout=120)
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


@pytest.fixture
def cluster():
    """The address of a cluster that believes it has cores enough; Ray Serve would go on in it, so each has its own."""
    ray = pytest.importorskip("ray")
    pytest.importorskip("ray.serve", reason="pip install 'ray[serve]'", exc_type=ImportError)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # of the workers
        started = ray.init(num_cpus=8, include_dashboard=False, log_to_driver=False, object_store_memory=100 << 20)
        yield started.address_info["address"]
        ray.shutdown()


def on_this_machine(words):
    """The same files, at an address of fsspec's that needs no network."""
    return [word.replace("s3://bucket/", f"file://{os.getcwd()}/") for word in words]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("words", ON_RAY, ids=" ".join)
def test_every_command_on_a_cluster_runs(words, cluster, glassformer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in sorted({word.replace("s3://bucket/", "") for word in words} & EVERYWHERE.keys()):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        EVERYWHERE[name](tmp_path / name)
    if words[1] in SERVERS:
        monkeypatch.setenv("RAY_ADDRESS", cluster)
        starts_and_stops(words, tmp_path, end=subprocess.Popen.terminate)
    else:
        ran = Shell(glassformer, on_this_machine).run(words)
        assert ran.code == 0, ran.err
        assert [path.name for path in (tmp_path / "predicted").glob("*.parquet")] == ["1.parquet"]


def set_up(program):
    """What every page shows of a program that sets this one up: in blocks, and in the middle of sentences."""
    inline = [found.split() for page in PAGES for found in re.findall(r"`([^`\n]+)`", FENCED.sub("", text_of(page)))]
    lines = [words for page in PAGES for words in shown_lines(page)] + inline
    return [words for words in lines if words[0] == program and len(words) > 1]


def test_extras_that_pip_is_shown_to_install_are_there():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    shown = set_up("pip")
    assert len(shown) > 5
    for words in shown:
        assert words[1] in ("install", "wheel"), words
        for name, extras in re.findall(r"([\w.-]+)\[([\w,-]+)\]", " ".join(words)):
            assert name in (".", project["name"]), words
            assert {*extras.split(",")} <= project["optional-dependencies"].keys(), words
        named = [word for before, word in pairwise(words) if before == "-c"]
        assert all((ROOT / name).is_file() for name in named), words


def test_targets_and_variables_that_make_is_shown_with_are_there():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    shown = set_up("make")
    assert len(shown) > 10
    for _, *words in shown:
        for word in words:
            name, given, _ = word.partition("=")
            known = rf"\$\(.*\b{name}\b.*\)" if given else rf"^(\.PHONY: .*\b{name}\b.*|{name}:.*)$"
            assert re.search(known, makefile, re.MULTILINE), words


def test_what_jupyter_is_shown_to_open_is_there():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    shown = set_up("jupyter")
    assert shown
    for words in shown:
        assert list((ROOT / words[2]).glob("*.ipynb")), words
        assert any(words[1] in one for one in project["optional-dependencies"]["notebooks"]), words
