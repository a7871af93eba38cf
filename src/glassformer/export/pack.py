"""pack and unpack: a model with all that belongs to it in one file, and answers of it that are asked again elsewhere.

B batch, T tokens.
"""

import hashlib
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Required, TypedDict

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from glassformer.files import read_json, write_atomically, write_json
from glassformer.hub.fetch import TOKENIZER_EXTRAS, TOKENIZER_FILES, has_tokenizer, model_folder, tokenizer_folder
from glassformer.hub.folder import CONFIG, GENERATION, SAFETENSORS
from glassformer.hub.load import load, load_tokenizer, save
from glassformer.hub.tensors import is_adapter
from glassformer.inspect.laws import error
from glassformer.jobs.progress import shown
from glassformer.jobs.recipe import RECIPE
from glassformer.jobs.run_folder import CARD, RESULT
from glassformer.models.contract import as_model, can_generate
from glassformer.tasks.pooling import LENGTH, MODULES, PLACE

from .archive import extract, write_archive
from .check import Mismatch, greedy
from .folder import fresh_folder
from .samples import Batch, samples

FORMAT, VERSION = "glassformer archive", 1
MANIFEST, GOLDEN = "archive.json", "golden.safetensors"
BESIDE = (CONFIG, GENERATION, RECIPE, CARD, RESULT, "card.toml", MODULES, LENGTH, f"{PLACE}/{CONFIG}")
ALONE, TOKENS, COLUMNS = 2, 24, 256  # inputs, tokens of each and columns of outputs that are kept: they stay small
TOLERANCE = 1e-4
PART = re.compile(r"(?P<number>\d+)\.(?P<side>input|output)\.(?P<name>\w+)")


class ArchiveManifest(TypedDict):
    """archive.json: what an archive is, and how far a model's answers may be off."""

    format: Required[str]
    version: Required[int]
    tolerance: Required[float]


def pack(model: str | Path, file: str | Path, *, force: bool = False) -> dict[str, Any]:
    """Put a model, its tokenizer, recipe and card, and answers of it into one file; gives its size and sha256."""
    target = Path(file)
    if target.is_dir() or not target.name:
        raise ValueError(f"{file} is a folder: name a file, such as model.gfz")
    if target.exists() and not force:
        raise ValueError(f"{file} is there already: choose another name, or --force to write over it")
    with shown("packing"), tempfile.TemporaryDirectory() as staged:
        folder = Path(staged)
        _gather(model, folder)
        save_file(golden(folder), folder / GOLDEN)
        write_json(folder / MANIFEST, {"format": FORMAT, "version": VERSION, "tolerance": TOLERANCE})
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(target, lambda partial: write_archive(folder, partial))
    with target.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return {"file": str(file), "bytes": target.stat().st_size, "sha256": digest}


def unpack(file: str | Path, folder: str | Path) -> dict[str, Any]:
    """Take a model out of an archive into a new folder, once every byte and every answer is found to be right.

    What is wrong is a ValueError, and leaves nothing. Gives the names of the files, and how far the answers are off.
    """
    path = Path(file)
    with shown("unpacking"), fresh_folder(Path(folder)) as partial:
        names = extract(path, partial)
        if lacking := [name for name in (MANIFEST, GOLDEN, CONFIG, SAFETENSORS) if name not in names]:
            raise ValueError(f"{path} holds no {lacking[0]}: it is no archive of glassformer pack")
        manifest = read_json(partial / MANIFEST, ArchiveManifest)
        if (manifest["format"], manifest["version"]) != (FORMAT, VERSION):
            kind = f"{manifest['format']} {manifest['version']}"
            raise ValueError(f"{path} is a {kind}; this program reads {FORMAT} {VERSION}")
        worst = _asked_again(partial)
        if not worst <= manifest["tolerance"]:
            raise Mismatch(f"{path}: the model answers otherwise than when it was packed, by {worst:.1e}")
    return {"folder": str(folder), "files": names, "error": worst}


def _gather(model: str | Path, folder: Path) -> None:
    """Copy what belongs to a model; weights that are no single file of safetensors are written as one."""
    held = model_folder(model)
    _copy(held, folder, BESIDE)
    if has_tokenizer(model):
        _copy(tokenizer_folder(model), folder, (*TOKENIZER_FILES, *TOKENIZER_EXTRAS))
    if is_adapter(held) or not (held / SAFETENSORS).is_file():
        with tempfile.TemporaryDirectory() as merged:
            save(load(model), merged)
            _copy(Path(merged), folder, (SAFETENSORS,))
    else:
        _copy(held, folder, (SAFETENSORS,))


def _copy(source: Path, target: Path, names: tuple[str, ...]) -> None:
    for name in names:
        if (source / name).is_file():
            (target / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(source / name, target / name)


@torch.inference_mode()
def golden(folder: Path) -> dict[str, Tensor]:
    """Some inputs, and what the model of a folder says of them in float32: two by themselves, and a padded batch."""
    model = load(folder, dtype="float32")
    batches = samples(model, load_tokenizer(folder) if has_tokenizer(folder) else None).batches
    found: dict[str, Tensor] = {}
    for number, whole in enumerate([*batches[:ALONE], batches[-1]]):
        batch = {name: one[:, -TOKENS:].contiguous() for name, one in whole.items()}
        found |= {f"{number}.input.{name}": one for name, one in batch.items()}
        found |= {f"{number}.output.{name}": one for name, one in _answers(model, batch).items()}
    return found


def _answers(model: nn.Module, batch: Batch) -> dict[str, Tensor]:
    """Every output, of a wide one some columns; and the tokens that a model writes."""
    outputs: Mapping[str, Tensor] = model(**batch)._asdict()
    found = {name: one[..., :: -(-one.shape[-1] // COLUMNS)].contiguous() for name, one in outputs.items()}
    return found | ({"written": greedy(model, batch).contiguous()} if can_generate(as_model(model)) else {})


@torch.inference_mode()
def _asked_again(folder: Path) -> float:
    """The largest error of a model's answers now against those beside it."""
    try:
        kept = load_file(folder / GOLDEN)
    except (SafetensorError, OSError) as problem:
        raise ValueError(f"the archive's {GOLDEN} cannot be read: {problem}") from None
    parts = {name: PART.fullmatch(name) for name in kept}
    if not kept or not all(parts.values()):
        raise ValueError(f"the archive's {GOLDEN} does not hold inputs and outputs by their names")
    model, worst = load(folder, dtype="float32"), 0.0
    for number in sorted({found["number"] for found in parts.values() if found}):
        asked, expected = (
            {
                found["name"]: kept[name]
                for name, found in parts.items()
                if found and found.group(1, 2) == (number, side)
            }
            for side in ("input", "output")
        )
        answers = _answers(model, asked)
        if answers.keys() != expected.keys():
            return float("inf")
        worst = max(worst, *(error(answers[name], expected[name]) for name in expected))
    return worst
