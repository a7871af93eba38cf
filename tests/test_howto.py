"""How-to pages do what they say, from top to bottom, and have all that a page of their kind has."""

import re

import pytest
from docs.generate import PAGES, ROOT

from pages import FENCED, WRONG, Shell, carry_out, page_blocks

FOLDER = ROOT / "docs" / "howto"
INDEX = FOLDER / "index.md"
HOWTO = [page for page in PAGES if page.parent == FOLDER and page != INDEX]
PARTS = ["Do it", "In Python", "Look at it", WRONG, "Read on"]
LONG = ("chinese", "hugging-face", "language-model", "long-texts", "reports", "resuming")
TRIED = [page for page in HOWTO if page.stem != "architecture"]  # see test_new_architecture
MARKED = [pytest.param(page, marks=pytest.mark.slow) if page.stem in LONG else page for page in TRIED]


@pytest.mark.parametrize("page", MARKED, ids=lambda page: page.stem)
def test_a_how_to_runs(page, glassformer, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    carry_out(page, Shell(glassformer), capsys)


@pytest.mark.parametrize("page", HOWTO, ids=lambda page: page.stem)
def test_a_how_to_has_all_its_parts(page):
    text = page.read_text("utf-8")
    assert re.findall(r"^## (.+)$", FENCED.sub("", text), re.MULTILINE) == PARTS
    by_part = {part: {block.language for block in page_blocks(page) if block.section == part} for part in PARTS}
    assert "sh" in by_part["Do it"]
    assert "python" in by_part["In Python"]
    assert {"sh", "text"} <= by_part[WRONG], "commands that fail, and what they say"
    assert {block.language for block in page_blocks(page) if not block.file} == {"sh", "python", "text"}  # are run
    assert "](../pictures/" in text.split("## Look at it")[1].split(f"## {WRONG}")[0]
    assert text.split("## Read on")[1].count("](") >= 2
    assert len(FENCED.sub("", text).split()) < 700, "a page is read in three minutes"
    assert f"({page.name})" in INDEX.read_text("utf-8")


SOUND = """# A page

## Do it

Save this as `words/two.txt`:

```text
one
two
```

```sh
make everything  # is not run
sort -r < words/two.txt > sorted.txt && cat sorted.txt | head -n 1
A_VARIABLE="$(cat words/two.txt)" glassformer --version
```

```text
two
glassformer …
```

```python
from pathlib import Path

print(Path("sorted.txt").read_text().split())  # ['two', 'one']
```

## What goes wrong

```sh
glassformer show ./nothing
```

```text
error: there is no folder './nothing'
```
"""
FAULTS = {
    "a line that is not printed": ("glassformer …", "glassformer … of gold"),
    "a value that is not printed": ("# ['two', 'one']", "# ['one', 'two']"),
    "a command that fails": ("glassformer --version", "glassformer show ./nothing"),
    "a mistake that is none": ("glassformer show ./nothing", "glassformer --version"),
    "another message": ("error: there is no folder './nothing'", "error: there is no folder './something'"),
    "another program that fails": ("sort -r <", "sort --no-such-option <"),
    "a file by another name": ("`words/two.txt`:", "`words/three.txt`:"),
}


@pytest.mark.parametrize("fault", [None, *FAULTS])
def test_a_page_with_a_fault_is_found_out(fault, glassformer, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text(SOUND.replace(*FAULTS[fault]) if fault else SOUND, "utf-8")
    if fault is None:
        carry_out(page, Shell(glassformer), capsys)
    else:
        with pytest.raises((AssertionError, FileNotFoundError)):
            carry_out(page, Shell(glassformer), capsys)
