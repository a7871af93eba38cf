"""The folder that tests of loading change."""

from pathlib import Path

import pytest

import glassformer as gf
from families import SMALL_BERT, random_model


@pytest.fixture
def folder(tmp_path) -> Path:
    """A SMALL_BERT with its masked-LM head."""
    return gf.save(random_model("bert", "fill-mask", SMALL_BERT), tmp_path / "model")
