"""The pictures of the docs: a module for each page, in it a function for each picture.

`make docs` writes docs/pictures/NAME.svg for every public function, NAME being the function's with hyphens. Values are
of real models and blocks with a fixed seed; what is drawn is rounded first, so that every machine writes the same.
"""

import inspect
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

FOLDER = Path(__file__).parent


def pictures() -> dict[Path, Callable[[], str]]:
    """The file of every picture, and the function that draws it."""
    found: dict[Path, Callable[[], str]] = {}
    for path in sorted(FOLDER.glob("[!_]*.py")):
        module = import_module(f"docs.pictures.{path.stem}")
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if function.__module__ == module.__name__ and not name.startswith("_"):
                file = FOLDER / f"{name.replace('_', '-')}.svg"
                assert file not in found, f"two pictures have the name {name}"
                found[file] = function
    return found
