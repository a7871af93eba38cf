"""What the tests of the studio share: models, a server, and a page in a real browser."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from glassformer.studio.app import create_app
from glassformer.studio.app_state import ModelStore, Studio
from glassformer.studio.traces import Traces
from studio.cases import made, serving, visited, watched_again


@pytest.fixture(scope="session")
def studio_folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return made(tmp_path_factory.mktemp("studio"))


@pytest.fixture(scope="session")
def studio(studio_folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Studio:
    store = ModelStore([str(folder) for folder in studio_folders.values()])
    return Studio(store, Traces(), runs=tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="session")
def studio_url(studio: Studio) -> Iterator[str]:
    with serving(create_app(studio)) as url:
        yield url


@pytest.fixture
def page(browser: Any, studio_url: str) -> Iterator[Any]:
    """A tab of the studio, to be loaded anew."""
    with watched_again(browser, studio_url) as one:
        yield one


@pytest.fixture
def visit(page: Any) -> Callable[..., Any]:
    """Open a screen and wait until it is painted: visit("head", model="bert", text="…")."""
    return partial(visited, page)


@pytest.fixture(scope="module")
def old_tab(browser: Any, studio_url: str) -> Iterator[Any]:
    with watched_again(browser, studio_url) as one:
        yield one


@pytest.fixture
def tab(old_tab: Any) -> Iterator[Any]:
    """The tab of the tests before in this file, for those that only look: it loads nothing anew."""
    old_tab.bring_to_front()
    yield old_tab
    faults = [old_tab.faults.pop() for _ in old_tab.faults[:]]
    assert not faults


@pytest.fixture
def tour(tab: Any) -> Callable[..., Any]:
    """As visit, in the tab of the tests before."""
    return partial(visited, tab)
