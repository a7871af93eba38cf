"""Runs the notebooks and stores what they show: `make notebooks`, or some of them with `make notebooks ONLY=03`.

A notebook is kept as anyone's editor writes it, but for what differs from run to run: times and machines.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

HERE = Path(__file__).parent
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
QUIET = ["--Application.log_level=40"]  # the kernel says that 127.0.0.1 is not encrypted
SECONDS = 300  # that a cell may take


def notebooks() -> list[Path]:
    return sorted(HERE.glob("*.ipynb"))


def read(path: Path) -> NotebookNode:
    return nbformat.read(path, as_version=4)


def executed(path: Path) -> NotebookNode:
    """The notebook as it comes out of a kernel of its own, in an empty folder. A cell that fails is an error."""
    notebook = read(path)
    with TemporaryDirectory() as folder:
        place = {"metadata": {"path": folder}}
        NotebookClient(
            notebook, timeout=SECONDS, kernel_name="python3", resources=place, extra_arguments=QUIET
        ).execute()
    return tidy(notebook)


def tidy(notebook: NotebookNode) -> NotebookNode:
    """Without what differs from run to run."""
    notebook.metadata = nbformat.from_dict(METADATA)
    for number, cell in enumerate(notebook.cells):
        cell.metadata, cell.id = nbformat.from_dict({}), f"cell-{number:02}"
        if cell.cell_type == "code":
            cell.outputs = joined(cell.outputs)
            for output in cell.outputs:
                output.get("metadata", {}).clear()
    return notebook


def joined(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """What was printed as one output: a kernel sends it in pieces as it likes."""
    found: list[NotebookNode] = []
    for one in outputs:
        if found and one.output_type == found[-1].output_type == "stream" and one.name == found[-1].name:
            found[-1].text += one.text
        else:
            found.append(one)
    return found


def main(wanted: list[str]) -> None:
    for path in notebooks():
        if not wanted or path.name.startswith(tuple(wanted)):
            nbformat.write(executed(path), path)
            print(path.relative_to(HERE.parent), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
