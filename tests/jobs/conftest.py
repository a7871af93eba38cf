"""What the tests of jobs share: the command line, and a run folder of every task."""

from functools import cache
from pathlib import Path

import pytest

import glassformer as gf
from tasks.cases import WHERE, recipe_of


@pytest.fixture(scope="session")
def trained():
    """The run folder of a case, after two steps; each is made once."""

    @cache
    def folder(name: str) -> Path:
        out = Path(WHERE.name) / "trained" / name.replace("/", "-")
        settings = recipe_of(name, out=str(out), steps=2, batch_size=8, batch_tokens=None, test="microworld")
        if "made" in name or settings["data"] != "microworld":
            del settings["test"]
        gf.train(**settings, say=lambda _: None)
        return out

    return folder
