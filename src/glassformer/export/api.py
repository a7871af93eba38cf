"""gf.export: a model as another runtime reads it, once it is proved to say there what it says here."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

import glassformer
from glassformer.files import write_json
from glassformer.hub.fetch import config_folder, has_tokenizer
from glassformer.hub.folder import CONFIG, GENERATION
from glassformer.hub.load import hf_config, load, load_tokenizer
from glassformer.jobs.predict import Pipeline, pipeline, task_of
from glassformer.jobs.progress import shown
from glassformer.models.contract import as_model, generation_config
from glassformer.models.encoder import Encoder
from glassformer.models.encoder_decoder import EncoderAlone
from glassformer.models.pretrained import PreTrainedModel
from glassformer.tasks.pooling import Mode, PoolingOptions, read_pooling, write_pooling
from glassformer.text.tokenizer import Tokenizer

from .check import ExportSource
from .folder import REPORT, check_free, fresh_folder
from .formats import EXACT, Format, format_of
from .samples import COUNT, samples


def export(
    model: str | Path | nn.Module,
    folder: str | Path,
    *,
    to: str = "onnx",
    tokenizer: Tokenizer | None = None,
    quant: str | None = None,
    pooling: Mode | None = None,
    data: str | Sequence[str] | None = None,
    columns: Mapping[str, str] | None = None,
    task: str | None = None,
    tolerance: float | None = None,
    force: bool = False,
) -> dict[str, Any]:
    """Write a model for another runtime; gives what the export.json beside it says.

    `to` is onnx, ctranslate2, gguf or torch-export, and `quant` how weights are kept there. The model and what was
    written run on 32 inputs, of `data` (files for the model's task, with `columns` as in training) or built in; an
    error beyond `tolerance` raises, and leaves nothing. With data, ONNX in 8 bits is scored beside the model. `pooling`
    puts the vector of each text into the graph of a bare encoder; a folder of Sentence-Transformers says it by itself.
    `force` replaces an earlier export, and nothing else.
    """
    form, target = format_of(to), Path(folder)
    form.check_installed()
    quant = form.check_quant(quant)
    check_free(target, force=force)
    with shown(f"exporting to {to}"):
        made = _loaded(model)
        form.check_model(made)
        found = _tokenizer(model) if tokenizer is None else tokenizer
        pipe = None if data is None else _pipeline(model, made, found, task)
        files = [data] if isinstance(data, str) else list(data or [])
        examples = [] if pipe is None else pipe.read(files, columns=columns).examples
        texts = [one.texts[0] for one in examples[:COUNT]]
        inputs = samples(made, found, texts)
        source = ExportSource(made, found, inputs, quant, _pooling(model, made, pooling))
        scored = pipe is not None and form.name == "onnx" and quant == "int8"
        scores = {"float32": pipe.score(examples).compute()} if pipe is not None and scored else {}
        with fresh_folder(target, force=force) as partial:
            details = _written(form, source, partial, tolerance)
            if pipe is not None and scored:
                scores |= {quant: _onnx_scores(pipe, source, partial, examples)}
                details["scores"] = {"examples": len(examples), **scores}
            _write_beside(form, source, partial)
            named = {"model": str(model)} if isinstance(model, str | Path) else {}
            details = {**_made_by(form, source), **named, **details, "files": digests(partial)}
            write_json(partial / REPORT, details)
    return details


def _written(form: Format, source: ExportSource, folder: Path, tolerance: float | None) -> dict[str, Any]:
    """Write and compare; gives what is to be said of both."""
    module = form.load()
    details: dict[str, Any] = module.write(source, folder)
    comparison = module.compare(source, folder)
    allowed = form.quants[source.quant] if tolerance is None else tolerance
    comparison.require(allowed, exact=form.quants[source.quant] <= EXACT)
    return {**details, "tolerance": allowed, "compared": comparison.as_dict()}


def _onnx_scores(pipe: Pipeline, source: ExportSource, folder: Path, examples: Sequence[object]) -> dict[str, float]:
    """The scores of the graphs in a folder on the examples that the model was scored on."""
    from .onnx_model import OnnxModel

    theirs = Pipeline(OnnxModel(source.model, folder), pipe.task, pipe.made, folder=pipe.folder)
    return theirs.score(examples).compute()


def _loaded(model: str | Path | nn.Module) -> PreTrainedModel:
    """The model in float32 on the CPU, in eval mode."""
    if isinstance(model, str | Path):
        return load(model, dtype="float32")
    made = getattr(model, "_orig_mod", model)  # inside torch.compile's wrapper
    first = next(as_model(made).parameters())
    if made.training or first.dtype != torch.float32 or first.device.type != "cpu":
        raise ValueError("a model is exported from float32 on the CPU in eval mode: model.float().cpu().eval()")
    assert isinstance(made, PreTrainedModel)
    return made


def _tokenizer(model: str | Path | nn.Module) -> Tokenizer | None:
    return None if isinstance(model, nn.Module) or not has_tokenizer(model) else load_tokenizer(model)


def _pipeline(
    model: str | Path | nn.Module, made: PreTrainedModel, tokenizer: Tokenizer | None, task: str | None
) -> Pipeline:
    """What reads the data, and scores."""
    if tokenizer is None:
        raise ValueError("data is read with the model's tokenizer, and it has none: leave the data out")
    if not isinstance(model, nn.Module):
        return pipeline(task or task_of(str(model)), model, tokenizer, dtype="float32")
    if task is None:
        raise ValueError("name the task that the data is for: task='text-classification'")
    return pipeline(task, made, tokenizer)


def _pooling(model: str | Path | nn.Module, made: PreTrainedModel, mode: Mode | None) -> PoolingOptions | None:
    """How the graph of a bare encoder makes one vector of a text: as asked, or as the model's folder says."""
    bare = (isinstance(made, Encoder) and made.head is None) or isinstance(made, EncoderAlone)
    stated = read_pooling(config_folder(model)) if isinstance(model, str | Path) and bare else None
    if mode is None:
        return stated
    if not bare:
        raise ValueError(
            f"pooling is for an encoder without a head, not for {as_model(made).head_name!r}: leave it out"
        )
    return PoolingOptions(mode) if stated is None else PoolingOptions(mode, stated.normalize, stated.max_length)


def _write_beside(form: Format, source: ExportSource, folder: Path) -> None:
    """The config and the tokenizer, as they stand beside a model in a folder of transformers."""
    known = as_model(source.model)
    if "config" in form.beside:
        write_json(folder / CONFIG, hf_config(source.model))
        if generation := generation_config(known):
            write_json(folder / GENERATION, generation)
        if source.pooling is not None:
            write_pooling(folder, source.pooling)
    if "tokenizer" in form.beside and source.tokenizer is not None:
        source.tokenizer.save(folder, segments=source.tokenizer.settings.segments and known.config.has_segments)


def _made_by(form: Format, source: ExportSource) -> dict[str, Any]:
    known = as_model(source.model)
    return {
        "format": form.name,
        "quant": source.quant,
        "model_type": known.config.model_type,
        "head": known.head_name,
        "versions": {"glassformer": glassformer.__version__, "torch": torch.__version__, **form.versions()},
    }


def digests(folder: Path) -> dict[str, dict[str, Any]]:
    """The size and sha256 of each file in a folder, by its path in it."""
    found = {}
    for path in sorted(one for one in folder.rglob("*") if one.is_file()):
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        found[path.relative_to(folder).as_posix()] = {"bytes": path.stat().st_size, "sha256": digest}
    return found
