"""A run folder as the zoo ships it: 16 bits a weight, or a LoRA adapter over another model of the zoo; and its scores.

O outputs, I inputs of a linear layer, R rank of its correction.
"""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sacrebleu
import torch
from safetensors.torch import save_file
from torch import Tensor

import glassformer as gf
from glassformer.data.batches import Budget
from glassformer.engine.prepare import prepared_reader
from glassformer.hub.adapters import ADAPTER, ADAPTER_CONFIG, DOWN, PREFIX, UP
from glassformer.hub.fetch import model_folder
from glassformer.hub.registry import architecture_for
from glassformer.hub.tensors import WeightFiles
from glassformer.jobs.predict import Pipeline, pipeline, task_of
from glassformer.jobs.recipe import read_recipe
from glassformer.models.contract import as_model
from glassformer.tasks.task import evaluate

NOT_SHIPPED = ("checkpoints", "curves.svg", "examples.npz", "metrics.jsonl", "run.json", "README.md", ".lock")
UNTRAINED, COPIED = "the same shape, untrained", "the source, copied"
INEXACT = 1e-3  # how far a correction of the stated rank may be from what was trained, as a share of it


def pack(run: Path, place: Path, base: str | None) -> None:
    """Write the folder of a model from its run folder; the weights of one that has a base are a correction of it."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(run, place, ignore=shutil.ignore_patterns(*NOT_SHIPPED, "model.safetensors"))
    if base is None:
        gf.save(gf.load(run).to(torch.bfloat16), place)
        return
    rank = int(read_recipe(run / "recipe.toml")["lora"])
    tensors = corrections(WeightFiles(run), WeightFiles(model_folder(base)), rank)
    layers = {name.removeprefix(PREFIX).removesuffix(DOWN) for name in tensors if name.endswith(DOWN)}
    whole = {name.removeprefix(PREFIX).rpartition(".")[0] for name in tensors if ".lora_" not in name}
    config = {
        "base_model_name_or_path": base,
        "peft_type": "LORA",
        "r": rank,
        "lora_alpha": rank,
        "target_modules": sorted({".".join(name.split(".")[-2:]) for name in layers}),
        "modules_to_save": sorted(whole),
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
    }
    (place / ADAPTER_CONFIG).write_text(json.dumps(config, indent=2) + "\n", "utf-8")
    save_file(tensors, place / ADAPTER, metadata={"format": "pt"})


def corrections(trained: WeightFiles, base: WeightFiles, rank: int) -> dict[str, Tensor]:
    """What makes the trained weights of the base's, under PEFT's names and in 16 bits.

    A linear layer that has changed is given by the two factors of its change, which must be of this rank; anything
    else that has changed, or that the base lacks, is whole.
    """
    found = {}
    for name in trained.shapes:
        before = next((one for one in base.shapes if f".{one}".endswith(f".{name}")), None)
        value = trained.mapped(name).double()
        change = value if before is None else value - base.mapped(before).double()
        if before is not None and not change.any():
            continue
        layer = name.removesuffix(".weight")
        if before is None or layer == name or value.dim() != 2:
            found[PREFIX + name] = value.to(torch.bfloat16)
            continue
        up, down = factors(change, rank)
        if (up @ down - change).norm() > INEXACT * change.norm():
            raise ValueError(
                f"{name} has changed by more than a correction of rank {rank}: train it with lora = {rank}"
            )
        found[f"{PREFIX}{layer}{DOWN}"] = down.to(torch.bfloat16).contiguous()
        found[f"{PREFIX}{layer}{UP}"] = up.to(torch.bfloat16).contiguous()
    return found


def factors(change: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """The best U (O, R) and D (R, I) with U D = change (O, I), of like size."""
    left, values, right = torch.linalg.svd(change, full_matrices=False)
    root = values[:rank].sqrt()
    return left[:, :rank] * root, root[:, None] * right[:rank]


# --- scores -----------------------------------------------------------------------------------------------------------


def scores(model: str | Path, sources: Sequence[str], *, device: str = "auto", **options: Any) -> dict[str, float]:
    """Every score of a model on some data, as it is loaded by anyone who names it; the options are the task's."""
    pipe = pipeline(task_of(str(model)), model, device=device, **options)
    return _scored(pipe, pipe.read(sources, **options).examples)


def baseline(model: str | Path, sources: Sequence[str], metric: str, *, device: str = "auto") -> tuple[float, str]:
    """What is reached without learning: by a translation that copies, else by a new model of the same shape."""
    pipe = pipeline(task_of(str(model)), model, device=device)
    examples = pipe.read(sources).examples
    if pipe.task.name == "translation":
        texts, targets = [one.source for one in examples], [one.target for one in examples]
        return sacrebleu.corpus_bleu(texts, [targets], tokenize=pipe.made.get("bleu_tokenize", "13a")).score, COPIED
    made = as_model(pipe.model)
    torch.manual_seed(0)
    untrained = architecture_for(made.config.model_type).build(made.config, made.head_name).to(pipe.device).eval()
    return _scored(Pipeline(untrained, pipe.task, pipe.made), examples)[metric], UNTRAINED


def _scored(pipe: Pipeline, examples: Sequence[Any]) -> dict[str, float]:
    """Without what takes a pass for every token: the pseudo-likelihood of masked words."""
    items, final = pipe.task.encode(examples), pipe.task.name != "fill-mask"
    model = prepared_reader(as_model(pipe.model))
    return dict(evaluate(model, pipe.task, items, budget=Budget(tokens=8192), final=final).compute())
