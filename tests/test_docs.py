"""The README and docs say what is so: their Python runs, their commands exist, their map is complete."""

import re

import pytest
from docs.generate import PAGES, ROOT, TABLES, filled

HUB_NAME = "sentence-transformers/all-MiniLM-L6-v2"


def blocks(page, language):
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


SHOWN = [page for page in PAGES if blocks(page, "python") and page.name != "extending.md"]  # see test_new_architecture


LONG = ("pipelines.md", "training.md")
MARKED = [pytest.param(page, marks=pytest.mark.slow) if page.name in LONG else page for page in SHOWN]


@pytest.mark.parametrize("page", MARKED, ids=lambda page: page.name)
def test_the_python_of_a_page_runs(page, minilm, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code = "\n".join(blocks(page, "python")).replace(HUB_NAME, str(minilm))
    exec(compile(code, page.name, "exec"), {"__name__": "docs"})
    printed = capsys.readouterr().out.splitlines()
    promised = re.findall(r"print\(.*\)  # (\[.*\])$", code, re.MULTILINE)
    for expected in promised:
        assert expected in printed


def test_the_example_of_the_readme_is_short():
    (example,) = blocks(ROOT / "README.md", "python")
    assert len([line for line in example.splitlines() if line.strip()]) <= 10


def test_every_command_is_shown_and_every_shown_command_exists():
    from typer.main import get_command

    from glassformer.cli.main import app

    root = get_command(app)
    names = {
        f"{name} {sub}" if sub else name
        for name, command in root.commands.items()
        for sub in (command.commands if hasattr(command, "commands") else [None])
        if sub is None or not command.commands[sub].hidden
    }
    shell = "\n".join(block for page in PAGES for block in blocks(page, "sh"))
    shown = {
        " ".join(words.split())
        for words in re.findall(r"^glassformer ((?:tokenizer |compare )?[\w-]+)", shell, re.MULTILINE)
    }
    assert shown == names


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_table_is_stale(page):
    """`make docs` writes what the code says of itself: rooms, files, heads, and which arch does which task."""
    text = page.read_text("utf-8")
    assert filled(text) == text


def test_every_table_stands_somewhere():
    marks = re.findall(r"<!-- generated: (\w+) -->", "".join(page.read_text("utf-8") for page in PAGES))
    assert sorted(marks) == sorted(TABLES)


def test_make_targets_that_are_shown_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    for target in set(re.findall(r"(?:`|^)make (\w+)", text, re.MULTILINE)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for link in re.findall(r"\]\(([\w/.]+\.md)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).is_file(), f"{page.name}: {link}"
