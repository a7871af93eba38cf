"""Who may import whom: the rooms of the design, downward only."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "glassformer"
BELOW = (
    "files",
    "zoo",
    "blocks",
    "models",
    "engine",
    "text",
    "hub",
    "data",
    "tasks",
    "train",
    "generate",
    "inspect",
    "view",
)
MAY_IMPORT = {
    "files": (),
    "zoo": ("files",),
    "blocks": (),
    "text": ("files",),
    "view": (),
    "models": ("files", "blocks"),
    "engine": ("blocks", "models.contract"),
    "generate": ("files", "blocks", "models.contract", "engine", "text.tokenizer"),
    "inspect": ("blocks", "models.contract", "models.heads", "engine.linear"),
    "hub": ("files", "zoo", "models", "text", "blocks", "engine"),
    "data": ("files", "text"),
    "tasks": ("files", "data", "text", "blocks", "models.contract", "generate"),
    "train": ("files", "tasks", "data", "text", "blocks", "models.contract"),
    "jobs": BELOW,
    "export": (*BELOW, "jobs"),
    "compare": (*BELOW, "jobs"),
    "web": (),
    "studio": (*BELOW, "jobs", "web"),
    "serve": (*BELOW, "jobs", "web", "studio"),
    "cli": (*BELOW, "jobs", "export", "compare", "web", "studio", "serve"),
}
ROOMS = sorted(path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__")


def imports(tree: ast.AST, package: str) -> set[str]:
    """Every absolute module name imported anywhere in a file, lazily or not."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")
                base = ".".join(parents[: len(parents) - node.level + 1] + ([base] if base else []))
            names |= {f"{base}.{alias.name}" for alias in node.names} | {base}
    return names


def rooms_imported(tree: ast.AST, package: str) -> set[str]:
    """Rooms, each with the module in it where one is named: "text", "hub.load"."""
    ours = set()
    for name in imports(tree, package):
        parts = name.split(".")
        if parts[0] == "glassformer" and len(parts) > 1 and (PACKAGE / parts[1]).is_dir():
            named = len(parts) > 2 and (PACKAGE / parts[1] / parts[2]).with_suffix(".py").is_file()
            ours.add(".".join(parts[1 : 3 if named else 2]))
    return ours


def test_the_rule_sees_every_form_of_import():
    source = "import glassformer.hub.load\ndef f():\n    from ..cli import main\n    from glassformer import text\n"
    assert rooms_imported(ast.parse(source), "glassformer.blocks") == {"hub.load", "cli", "cli.main", "text"}


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_what_lies_below_it(room):
    assert room in MAY_IMPORT, f"{room}/ is not in the design"
    for path in (PACKAGE / room).rglob("*.py"):
        package = ".".join(["glassformer", *path.relative_to(PACKAGE).parts[:-1]])
        found, allowed = rooms_imported(ast.parse(path.read_text()), package), {room, *MAY_IMPORT[room]}
        wrong = [one for one in found if one not in allowed and one.split(".")[0] not in allowed]
        assert not wrong, f"{path.relative_to(PACKAGE)} imports {sorted(wrong)}"


def test_commands_say_what_they_say_in_one_place():
    """cli/output.py lets no control character of the data through; nothing may be said past it."""
    files = [path for path in (PACKAGE / "cli").glob("*.py") if path.name != "output.py"]
    assert files
    calls = [
        call for path in files for call in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(call, ast.Call)
    ]
    said = {ast.unparse(call) for call in calls if ast.unparse(call.func) in ("print", "typer.echo", "typer.secho")}
    assert said == {"print(line, file=file)"}  # translate's own file, which holds what the model wrote


def test_blocks_import_only_torch_and_the_standard_library():
    for path in (PACKAGE / "blocks").rglob("*.py"):
        third_party = {name.split(".")[0] for name in imports(ast.parse(path.read_text()), "glassformer.blocks")} & {
            "numpy",
            "tokenizers",
            "safetensors",
            "huggingface_hub",
            "transformers",
            "rich",
            "typer",
        }
        assert not third_party, f"{path.name} imports {third_party}"


def test_tasks_do_not_know_the_built_in_examples():
    """A task learns from any examples; which are built in for it is asked by jobs."""
    for path in (PACKAGE / "tasks").rglob("*.py"):
        found = imports(ast.parse(path.read_text("utf-8")), "glassformer.tasks")
        assert not [name for name in found if name.startswith("glassformer.data.microworld")], path.name


def test_a_class_name_occurs_once():
    places = {}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(path.name)
    assert {name: files for name, files in places.items() if len(files) > 1} == {}
