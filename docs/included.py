"""Lines of the source that a page shows: found by name, so that they are what runs.

A page holds `<!-- code: glassformer.blocks.recurrent.LstmGates.step -->` and `<!-- end -->`; several names stand with
commas between them, and a test is named as it is imported: `tests.models.test_rnn.test_padding_is_invisible`.
"""

import ast
import re
from os.path import relpath
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[1]
LINT = re.compile(r"  # (?:type: ignore|noqa).*$", re.MULTILINE)  # for the checkers, not for the reader
Named = ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign


def included(names: str, page: Path) -> str:
    """A block of Python with all that is named, and under it the files where it stands, as links of this page."""
    wanted = [located(name.strip()) for name in names.split(",")]
    found = [source_of(path, name) for path, name in wanted]
    places: dict[Path, list[str]] = {}
    for path, name in wanted:
        places.setdefault(path, []).append(f"`{name}`")
    links = [
        f"[{path.relative_to(ROOT).as_posix()}]({Path(relpath(path, page.parent)).as_posix()}): {', '.join(some)}"
        for path, some in places.items()
    ]
    return "```python\n{}\n```\n\n{}".format("\n\n\n".join(found), " · ".join(links))


def located(name: str) -> tuple[Path, str]:
    """The file of a dotted name, and what it names in that file."""
    parts = name.split(".")
    for end in range(len(parts) - 1, 0, -1):
        for root in (ROOT / "src", ROOT):
            path = root.joinpath(*parts[:end]).with_suffix(".py")
            if path.is_file():
                return path, ".".join(parts[end:])
    raise ValueError(f"no file for {name!r}: write the module first, as in glassformer.blocks.recurrent.LstmGates.step")


def source_of(path: Path, name: str) -> str:
    """The lines of one function, class, method or constant; a docstring of several lines is left out."""
    text = path.read_text("utf-8")
    node = found_in(ast.parse(text), name, path)
    first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
    lines = text.splitlines()
    kept = [line for number, line in enumerate(lines[: node.end_lineno], 1) if number >= first]
    for start, end in reversed(list(long_docstrings(node))):
        del kept[start - first : end - first + 1]
    return LINT.sub("", dedent("\n".join(kept)))


def found_in(tree: ast.Module, name: str, path: Path) -> Named:
    node: ast.AST = tree
    for part in name.split("."):
        children = {found: child for child in getattr(node, "body", []) for found in names_of(child)}
        if part not in children:
            known = ", ".join(children) or "nothing"
            raise ValueError(f"there is no {part!r} of {name!r} in {path.relative_to(ROOT)}; there is {known}")
        node = children[part]
    assert isinstance(node, Named)
    return node


def names_of(node: ast.AST) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def long_docstrings(node: ast.AST) -> list[tuple[int, int]]:
    """First and last line of every docstring that takes more than one, in the order of the file."""
    found = []
    for one in ast.walk(node):
        if isinstance(one, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(one) is not None:
            told = one.body[0]
            assert told.end_lineno is not None
            if told.end_lineno > told.lineno:
                found.append((told.lineno, told.end_lineno))
    return sorted(found)
