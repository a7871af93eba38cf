"""`make docs`: the tables of the docs that the code itself can write, between the marks where they stand.

A page holds `<!-- generated: NAME -->`, the table, and `<!-- end -->`; a test sees to it that no table is stale. On a
page in docs/zh, lines and cells that docs/zh/words.json has other words for are in those words. `<!-- code: NAME -->`
is filled with lines of the source: see docs/included.py.

Pictures are written to docs/pictures, each by its function there. What is in the package is written too: the settings
that `--help` shows, and the meanings that editors show.
"""

import ast
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from docs.included import included  # noqa: E402 - found when the root is on the path
from docs.pictures import pictures  # noqa: E402

PACKAGE = ROOT / "src" / "glassformer"
WORDS = ROOT / "docs" / "zh" / "words.json"  # English lines and cells of generated tables, and Chinese ones
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
MARKED = re.compile(r"(<!-- (generated|code): ([\w., ]+) -->\n).*?(<!-- end -->)", re.DOTALL)
ORDER = ("files", "zoo", "blocks", "models", "engine", "text", "hub", "generate", "inspect", "view", "data", "tasks")
ORDER += ("train", "jobs", "export", "compare", "web", "studio", "serve", "cli")


def filled(page: Path) -> str:
    """A page with its tables and included code as the code is now."""
    chinese = "zh" in page.parts or page.name.endswith(".zh-CN.md")
    known = json.loads(WORDS.read_text("utf-8")) if chinese else {}

    def made(found: re.Match[str]) -> str:
        text = included(found[3], page) if found[2] == "code" else translated(TABLES[found[3]](), known)
        return f"{found[1]}{text}\n{found[4]}"

    return MARKED.sub(made, page.read_text("utf-8"))


def translated(text: str, words: Mapping[str, str]) -> str:
    """A text whose lines, and cells of tables, are in other words where there are any."""
    cell = re.compile(r"(?<=\| )(?:[^|\n]|(?<=\\)\|)+(?= \|)|^[^|\n]+$", re.MULTILINE)
    return cell.sub(lambda found: words.get(found[0], found[0]), text)


def table(columns: tuple[str, ...], rows: Mapping[str, str | tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    lines += [f"| {' | '.join((one, *((rest,) if isinstance(rest, str) else rest)))} |" for one, rest in rows.items()]
    return "\n".join(lines)


def sentence(path: Path) -> str:
    """What a file says of itself first."""
    told = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    return " ".join(told.split("\n\n")[0].split())


def room_names() -> list[str]:
    found = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert found == set(ORDER), f"ORDER and the rooms differ: {found ^ set(ORDER)}"
    return list(ORDER)


def rooms() -> str:
    return table(
        ("room", "what it holds"), {f"`{room}/`": sentence(PACKAGE / room / "__init__.py") for room in room_names()}
    )


def files() -> str:
    parts = []
    for room in room_names():
        paths = sorted(path for path in (PACKAGE / room).rglob("*.py") if path.name != "__init__.py")
        rows = {f"`{path.relative_to(PACKAGE)}`": sentence(path) for path in paths}
        told = sentence(PACKAGE / room / "__init__.py")
        parts.append(f"## {room}/\n\n{told}\n\n" + table(("file", "what it holds"), rows))
    return "\n\n".join(parts)


def archs() -> str:
    """Which kind of fresh model does which task."""
    from glassformer.jobs.models import able
    from glassformer.jobs.tasks import TASKS, task_class

    half = {"bert": " (`bert`)", "gpt2": " (`gpt2`)"}
    rows = {}
    for task in TASKS:
        names = [
            f"`{arch}`" + (half.get(kind, "") if arch == "transformer" else "")
            for arch, kind in able(task_class(task)).items()
        ]
        rows |= {f"`{task}`": ", ".join(names)} if names else {}
    return table(("task", "`--arch`"), rows)


def heads() -> str:
    from glassformer.hub.registry import ARCHITECTURES

    kinds: dict[str, list[str]] = {}
    for kind, architecture in ARCHITECTURES.items():
        listed = ", ".join(f"`{head}`" for head in architecture.heads if head is not None)
        kinds.setdefault(listed, []).append(f"`{kind}`")
    rows = {", ".join(names): listed for listed, names in kinds.items()}
    return table(("model_type", "heads (and `None`, the bare model, but of `cnn` and `bow`)"), rows)


def exports() -> str:
    """Which kind of model can be exported to which format, with which heads."""
    from glassformer.export.formats import FORMATS, supported
    from glassformer.hub.registry import ARCHITECTURES

    kinds: dict[tuple[str, ...], list[str]] = {}
    for kind, architecture in ARCHITECTURES.items():
        cells = tuple(head_list(heads, len(architecture.heads)) for heads in supported(kind).values())
        kinds.setdefault(cells, []).append(f"`{kind}`")
    rows = {", ".join(names): cells for cells, names in kinds.items()}
    return table(("model_type", *(f"`{name}`" for name in FORMATS)), rows)


def head_list(heads: Sequence[str | None], count: int) -> str:
    """Some of a model's heads, of so many."""
    if len(heads) in (0, count):
        return "all heads" if heads else "–"
    return ", ".join("no head" if head is None else f"`{head}`" for head in heads)


def zoo() -> str:
    """The built-in models and what their cards say."""
    import glassformer as gf

    lines = ["| name | task | what it is | score | baseline | size | data |", "|---|---|---|---|---|---|---|"]
    for card in gf.zoo():
        scores = [f"{card['metric']} {card['score']:.4g}"]
        scores += [f"{what}: {value:.4g}" for what, value in card.get("elsewhere", {}).items()]
        size, data = f"{card['bytes'] / 1e6:.1f} MB", f"{card['data']['text']} ({card['data']['licence']})"
        cells = (f"`zoo:{card['name']}`", card["task"], card["about"], "; ".join(scores), f"{card['baseline']:.4g}")
        lines.append(f"| {' | '.join((*cells, size, data))} |")
    return "\n".join(lines)


TABLES: dict[str, Callable[[], str]] = {"rooms": rooms, "files": files, "archs": archs, "heads": heads, "zoo": zoo}
TABLES["exports"] = exports


def of_reference(name: str) -> Callable[[], str]:
    """A table of docs/tables.py, which imports the code when it is first asked for."""

    def made() -> str:
        from docs import tables

        return str(getattr(tables, name)())

    return made


TABLES |= {name: of_reference(name) for name in ("settings", "standard", "vocabularies", "tasks", "generation")}
TABLES |= {name: of_reference(name) for name in ("commands", "pipelines", "scale")}


def sources() -> dict[Path, str]:
    """Files of the package that are written here, as they should be."""
    from docs import settings

    options, typed = PACKAGE / "generate" / "options.py", PACKAGE / "jobs" / "settings.py"
    return {
        PACKAGE / "cli" / "settings.json": json.dumps(settings.settings_file(), indent=1, ensure_ascii=False) + "\n",
        options: settings.documented(options.read_text("utf-8"), settings.generation_meanings()),
        typed: settings.documented(typed.read_text("utf-8"), settings.run_meanings()),
    }


def write(path: Path, text: str) -> None:
    if not path.exists() or path.read_text("utf-8") != text:
        path.write_text(text, "utf-8")
        print(f"{path.relative_to(ROOT)}: written anew", file=sys.stderr)


if __name__ == "__main__":
    for path, text in sources().items():  # first, since the command line reads one of them
        write(path, text)
    for path, draw in pictures().items():
        write(path, draw() + "\n")
    for page in PAGES:
        write(page, filled(page))
