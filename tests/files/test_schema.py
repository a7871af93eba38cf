"""Schemas: every value that fits is taken, every other is refused in one line that names its place and what fits."""

import json
import math
import re
from pathlib import Path
from typing import Annotated, Any, Literal, Required, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.files import conform, parse_json, read_json, read_text
from glassformer.files.schema import Bounds, Probability, Size, words


class Inner(TypedDict, total=False):
    """One layer of a file."""

    rate: Probability
    names: list[str]


class Outer(TypedDict, total=False):
    """A file."""

    kind: Required[Literal["a", "b"]]
    size: Size
    ids: int | list[int]
    inner: Inner
    table: dict[str, int]
    pair: tuple[str, float]
    anything: Any


RIGHT = [
    {"kind": "a"},
    {"kind": "b", "size": 3, "ids": 4, "inner": {"rate": 1, "names": []}, "table": {"x": 1}, "pair": ["y", 2]},
    {"kind": "a", "ids": [1, 2], "unknown": [object()], "anything": {"deep": [None]}, "size": None},
]
WRONG = [
    ([], "f.json is []; it must be an object of names and values"),
    ({}, "f.json lacks kind"),
    ({"kind": "c"}, "f.json: kind is 'c'; it must be 'a' or 'b'"),
    ({"kind": None}, "f.json: kind is None; it must be 'a' or 'b'"),
    ({"kind": "a", "size": 0}, "f.json: size is 0; it must be a whole number from 1 to 268435456"),
    ({"kind": "a", "size": True}, "f.json: size is True; it must be a whole number from"),
    ({"kind": "a", "size": 2.0}, "f.json: size is 2.0; it must be a whole number"),
    ({"kind": "a", "ids": "12"}, "f.json: ids is '12'; it must be a whole number or a list, each of it a whole number"),
    ({"kind": "a", "ids": [1, "x"]}, "f.json: ids[1] is 'x'; it must be a whole number"),
    ({"kind": "a", "inner": {"rate": 1.5}}, "f.json: inner.rate is 1.5; it must be a number from 0 to 1"),
    ({"kind": "a", "inner": {"rate": math.nan}}, "f.json: inner.rate is nan; it must be a number from 0 to 1"),
    ({"kind": "a", "inner": {"names": ["x", 3]}}, "f.json: inner.names[1] is 3; it must be text"),
    ({"kind": "a", "inner": {"names": ["\ud800"]}}, "f.json: inner.names[0] is '\\ud800'; it must be text"),
    ({"kind": "a", "table": {"x": []}}, "f.json: table.x is []; it must be a whole number"),
    ({"kind": "a", "pair": ["y"]}, "f.json: pair is ['y']; it must be a list of 2: text, a number"),
    ({"kind": "a", "pair": ["y", "z"]}, "f.json: pair[1] is 'z'; it must be a number"),
    ({"kind": "a" * 500}, "f.json: kind is 'aaaa"),
]


@pytest.mark.parametrize("value", RIGHT)
def test_what_fits_is_taken(value):
    assert conform(value, Outer, "f.json") is None


@pytest.mark.parametrize(("value", "message"), WRONG)
def test_what_does_not_fit_is_one_line(value, message):
    with pytest.raises(ValueError, match="^" + re.escape(message)) as caught:
        conform(value, Outer, "f.json")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 250


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["kind", "size", "ids", "inner", "x"]), inner)
    ),
)


@given(ANY_JSON)
def test_any_json_is_taken_or_refused(value):
    if isinstance(value, dict) and value.keys() <= {"kind", "x"} and value.get("kind") in ("a", "b"):
        conform(value, Outer, "f.json")
    elif not isinstance(value, dict) or value.get("kind") not in ("a", "b"):
        with pytest.raises(ValueError, match="^f.json"):
            conform(value, Outer, "f.json")


@given(st.floats(allow_nan=True) | st.integers())
def test_bounds_are_kept(value):
    half_open = Annotated[float, Bounds(0, 1, below=True)]
    if math.isfinite(value) and 0 <= value < 1:
        conform(value, half_open, "x")
    else:
        with pytest.raises(ValueError, match="x is .*; it must be a number of at least 0 and below 1"):
            conform(value, half_open, "x")


def test_what_may_be_left_out_is_not_said():
    assert words(Size | None) == words(Size)
    assert words(Annotated[float, Bounds(0, above=True)]) == "a number above 0"


def test_files_that_are_none_are_named(tmp_path: Path):
    import os

    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "latin").write_bytes("grün".encode("latin-1"))
    (tmp_path / "deep").write_text("[" * 100_000)
    (tmp_path / "half").write_text('{"a": ')
    for name, message in {
        "folder": "is a folder: a file is needed",
        "pipe": "is no regular file: a file is needed",
        "latin": r"is not in UTF-8 \(byte 2 cannot be read\)",
        "deep": "is nested too deeply",
        "half": "is not valid JSON",
    }.items():
        with pytest.raises(ValueError, match=f"{name} {message}"):
            read_json(tmp_path / name)
    with pytest.raises(ValueError, match="nowhere is not there"):
        read_text(tmp_path / "nowhere")
    assert read_json(tmp_path / "nowhere") == {}
    assert parse_json(json.dumps({"a": 1}), "x") == {"a": 1}
