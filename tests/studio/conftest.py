"""What the tests of the studio share: models, a server, and a page in a real browser."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from glassformer.studio.app import create_app
from glassformer.studio.app_state import ModelStore, Studio
from glassformer.studio.traces import Traces
from studio.cases import made, serving, turn, watched


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
    """A page of the studio; at the end there must have been no error, and nobody else may have been asked."""
    with watched(browser, studio_url) as one:
        yield one


@pytest.fixture
def visit(page: Any) -> Callable[..., Any]:
    """Open a screen and wait until it is painted: visit("head", model="bert", text="…")."""

    def go(screen: str, **state: Any) -> Any:
        turn(page, "/?" + urlencode({"screen": screen, "lang": "en", **state}))
        page.wait_for_selector(f".screen-{screen}[data-painted=yes]")
        return page

    return go
