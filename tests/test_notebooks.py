"""The notebooks run, show what they have stored, and are all in the list."""

import re
from math import isclose

import pytest

pytest.importorskip("nbclient", reason="pip install -e '.[test]'")
from docs.generate import ROOT
from notebooks.run import executed, notebooks, read, tidy

QUICK = ("04",)  # the others are slow: each is a process that imports torch
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")
MACHINE = re.compile(r"/(?:home|root|Users|tmp|work|mnt)/\w|\x1b\[")
NOTEBOOKS = [
    path if path.name.startswith(QUICK) else pytest.param(path, marks=pytest.mark.slow) for path in notebooks()
]


def texts_of(notebook):
    """What each code cell printed, and the pictures it drew with # for their numbers.

    Without stderr, where what takes long tells every ten seconds how far it is.
    """
    found = []
    for cell in notebook.cells:
        for one in cell.get("outputs", []):
            if one.get("name") == "stderr":
                continue
            found.append(one.get("text", "") + one.get("data", {}).get("text/plain", ""))
            if "image/svg+xml" in one.get("data", {}):
                found.append(NUMBER.sub("#", one.data["image/svg+xml"]))
    return found


def near(one, other):
    """Whether two numbers differ in their last digit at most, or by a fiftieth: processors round differently."""
    digits = min(len(text.partition("e")[0].partition(".")[2]) for text in (one, other))
    return one == other or isclose(float(one), float(other), rel_tol=0.02, abs_tol=1.01 * 10.0**-digits)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_shows_what_it_has_stored(path):
    """`make notebooks` stores it anew."""
    now, then = texts_of(executed(path)), texts_of(read(path))
    assert [NUMBER.sub("#", text) for text in now] == [NUMBER.sub("#", text) for text in then]
    pairs = [
        pair
        for new, old in zip(now, then, strict=True)
        for pair in zip(NUMBER.findall(new), NUMBER.findall(old), strict=True)
    ]
    assert [pair for pair in pairs if not near(*pair)] == []


@pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.stem)
def test_a_notebook_is_tidy_and_has_run_from_top_to_bottom(path):
    notebook = read(path)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert notebook == tidy(read(path))
    assert not MACHINE.search(path.read_text("utf-8"))
    assert not any(one.get("name") == "stderr" for cell in code for one in cell.outputs)
    assert any("image/svg+xml" in one.get("data", {}) for cell in code for one in cell.outputs)
    assert path.stat().st_size < 100_000
    prose = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    assert prose.startswith("# ")
    assert "**Try it.**" in prose
    links = re.findall(r"\]\(([^)]+)\)", prose)
    assert links
    assert [link for link in links if not (path.parent / link).is_file()] == []


@pytest.mark.parametrize("page", ["docs/notebooks.md", "docs/zh/notebooks.md"])
def test_every_notebook_is_in_the_list(page):
    listed = re.findall(r"\(([\w/.-]+\.ipynb)\)", (ROOT / page).read_text("utf-8"))
    assert [(ROOT / page).parent.joinpath(link).resolve() for link in listed] == notebooks()
    assert len(listed) >= 10


def test_numbers_that_are_near():
    assert near("0.463", "0.464")
    assert near("4", "4")
    assert near("1e-05", "1.01e-05")
    assert not near("0.463", "0.48")
    assert not near("3", "5")
