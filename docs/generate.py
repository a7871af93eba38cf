"""`make docs`: the tables of the docs that the code itself can write, between the marks where they stand.

A page holds `<!-- generated: NAME -->`, the table, and `<!-- end -->`; a test sees to it that no table is stale.
"""

import ast
import re
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "glassformer"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
MARKED = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
ORDER = ("files", "zoo", "blocks", "models", "engine", "text", "hub", "generate", "inspect", "view", "data", "tasks")
ORDER += ("train", "jobs", "compare", "studio", "cli")


def filled(page: str) -> str:
    """A page with its tables as the code is now."""
    return MARKED.sub(lambda found: found[1] + TABLES[found[2]]() + "\n" + found[3], page)


def table(columns: tuple[str, str], rows: dict[str, str]) -> str:
    lines = [f"| {columns[0]} | {columns[1]} |", "|---|---|", *(f"| {one} | {other} |" for one, other in rows.items())]
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


if __name__ == "__main__":
    for page in PAGES:
        before = page.read_text("utf-8")
        if (after := filled(before)) != before:
            page.write_text(after, "utf-8")
            print(f"{page.relative_to(ROOT)}: written anew", file=sys.stderr)
