"""The README and docs say what is so: their Python runs, their commands exist, their map is complete."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
HUB_NAME = "sentence-transformers/all-MiniLM-L6-v2"


def blocks(page, language):
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.name)
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
    }
    shell = "\n".join(block for page in PAGES for block in blocks(page, "sh"))
    shown = {
        " ".join(words.split())
        for words in re.findall(r"^glassformer ((?:tokenizer |compare )?\w+)", shell, re.MULTILINE)
    }
    assert shown == names


def test_the_map_has_every_file_in_its_own_words():
    package = ROOT / "src" / "glassformer"
    files = {path for path in package.glob("*/**/*.py") if path.name != "__init__.py"}
    told = {str(path.relative_to(package)): ast.get_docstring(ast.parse(path.read_text("utf-8"))) for path in files}
    wanted = {name: " ".join(text.split("\n\n")[0].split()) for name, text in told.items()}
    rows = re.findall(r"^\| `([\w/]+\.py)` \| (.*) \|$", (ROOT / "docs" / "map.md").read_text("utf-8"), re.MULTILINE)
    assert dict(rows) == wanted


def test_the_table_of_what_can_do_what_is_the_registrys():
    from glassformer.jobs.models import able
    from glassformer.jobs.tasks import TASKS, task_class

    half = {"bert": " (`bert`)", "gpt2": " (`gpt2`)"}
    wanted = {
        task: ", ".join(
            f"`{arch}`{half.get(kind, '') if arch == 'transformer' else ''}" for arch, kind in kinds.items()
        )
        for task in TASKS
        if (kinds := able(task_class(task)))
    }
    _, table = (ROOT / "docs" / "training.md").read_text("utf-8").split("| task | `--arch` |\n|---|---|\n")
    assert dict(re.findall(r"^\| `([\w-]+)` \| (.*) \|$", table.split("\n\n")[0], re.MULTILINE)) == wanted


def test_the_table_of_heads_is_the_registrys():
    from glassformer.hub.registry import ARCHITECTURES

    page = (ROOT / "docs" / "loading.md").read_text("utf-8")
    rows = re.findall(r"^\| (`.*`) \| (`.*`) \|$", page.split("\n\n")[4], re.MULTILINE)
    told = {kind: heads for kinds, heads in rows for kind in kinds.split(", ")}
    assert told == {
        f"`{kind}`": ", ".join(f"`{head}`" for head in architecture.heads if head is not None)
        for kind, architecture in ARCHITECTURES.items()
    }


def test_the_readme_names_every_room():
    rooms = {path.parent.name for path in (ROOT / "src" / "glassformer").glob("*/__init__.py")}
    assert set(re.findall(r"^\| `(\w+)/` \|", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)) == rooms


def test_make_targets_that_are_shown_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    for target in set(re.findall(r"(?:`|^)make (\w+)", text, re.MULTILINE)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for link in re.findall(r"\]\(([\w/.]+\.md)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).is_file(), f"{page.name}: {link}"
