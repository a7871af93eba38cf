"""A run folder as the zoo ships it: 16 bits a weight, or a LoRA adapter over another model of the zoo; and its scores.

O outputs, I inputs of a linear layer, R rank of its correction.
"""

import json
import re
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
from glassformer.hub.adapters import ADAPTER, ADAPTER_CONFIG, DOWN, PREFIX, ROWS, UP
from glassformer.hub.fetch import model_folder
from glassformer.hub.folder import read_config
from glassformer.hub.registry import architecture_for
from glassformer.hub.tensors import WeightFiles
from glassformer.jobs.predict import Pipeline, pipeline, task_of
from glassformer.jobs.recipe import read_recipe
from glassformer.models.contract import as_model
from glassformer.tasks.metrics import Rouge
from glassformer.tasks.task import evaluate

NOT_SHIPPED = ("checkpoints", "curves.svg", "examples.npz", "metrics.jsonl", "run.json", "README.md", ".lock")
UNTRAINED, COPIED, FIRST = "the same shape, untrained", "the source, copied", "the first sentence, copied"
COMMONEST = "always the token that is masked most often"
INEXACT = 1e-3  # how far a correction of the stated rank may be from what was trained, as a share of it


def pack(run: Path, place: Path, base: str | None) -> None:
    """Write the folder of a model from its run folder; the weights of one that has a base are a correction of it."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(run, place, ignore=shutil.ignore_patterns(*NOT_SHIPPED, "model.safetensors"))
    if base is None:
        gf.save(gf.load(run).to(torch.bfloat16), place)
        return
    rank = int(read_recipe(run / "recipe.toml").get("lora", 0))
    trained, before = WeightFiles(run), WeightFiles(model_folder(base))
    turned = read_config(run)["model_type"] == "gpt2"  # whose linear layers are Conv1D, (I, O)
    tensors = corrections(trained, before, rank, turned=turned)
    names = [name.removeprefix(PREFIX) for name in tensors]
    tables = [name.removesuffix(ROWS) for name in names if name.endswith(ROWS)]
    config = {
        "base_model_name_or_path": base,
        "peft_type": "LORA",
        "r": max(1, rank),
        "lora_alpha": max(1, rank),
        "target_modules": sorted({".".join(name.removesuffix(DOWN).split(".")[-2:]) for name in names if DOWN in name}),
        "modules_to_save": sorted({name.rpartition(".")[0] for name in names if not name.endswith((DOWN, UP, ROWS))}),
        "bias": "none",
        "fan_in_fan_out": turned,
        "inference_mode": True,
    }
    if tables:
        sizes = {name: [files.shapes[f"{name}.weight"][0] for files in (before, trained)] for name in tables}
        config["trainable_token_indices"] = {
            name.rpartition(".")[2]: list(range(*size)) for name, size in sizes.items()
        }
    (place / ADAPTER_CONFIG).write_text(json.dumps(config, indent=2) + "\n", "utf-8")
    save_file(tensors, place / ADAPTER, metadata={"format": "pt"})


def corrections(trained: WeightFiles, base: WeightFiles, rank: int, *, turned: bool = False) -> dict[str, Tensor]:
    """What makes the trained weights of the base's, under PEFT's names and in 16 bits.

    A linear layer that has changed is given by the two factors of its change, which must be of this rank, if it is not
    0; it is (O, I), or `turned` (I, O). A table that has grown is given by its new rows. Anything else that has
    changed, or that the base lacks, is whole.
    """
    found = {}
    for name in trained.shapes:
        before = next((one for one in base.shapes if f".{one}".endswith(f".{name}")), None)
        value, old = trained.mapped(name).double(), None if before is None else base.mapped(before).double()
        layer = name.removesuffix(".weight")
        if old is not None and len(value) > len(old) and torch.equal(value[: len(old)], old):
            found[f"{PREFIX}{layer}{ROWS}"] = value[len(old) :].to(torch.bfloat16)
        elif old is None or layer == name or value.dim() != 2 or not rank:
            if old is None or not torch.equal(value, old):
                found[PREFIX + name] = value.to(torch.bfloat16)
        elif (change := value - old).any():
            change = change.T if turned else change
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
    """What is reached without learning: by a translation that copies, a summary that is the first sentence, by guessing
    the commonest masked token, else by a new model of the same shape."""
    pipe = pipeline(task_of(str(model)), model, device=device)
    examples = pipe.read(sources).examples
    if pipe.task.name == "translation":
        texts, targets = [one.source for one in examples], [one.target for one in examples]
        return sacrebleu.corpus_bleu(texts, [targets], tokenize=pipe.made.get("bleu_tokenize", "13a")).score, COPIED
    if pipe.task.name == "summarization":
        rouge = Rouge()
        rouge.update([re.split(r"(?<=[.?!]) ", one.source)[0] for one in examples], [one.target for one in examples])
        return rouge.compute()[metric], FIRST
    if pipe.task.name == "fill-mask":
        items = pipe.task.encode(examples)
        batches = pipe.task.eval_batches(items, Budget(tokens=8192))
        words = torch.cat([pipe.task.batch(items, indices).targets["words"] for indices in batches])
        return float(words.bincount().max()) / len(words), COMMONEST
    made = as_model(pipe.model)
    torch.manual_seed(0)
    untrained = architecture_for(made.config.model_type).build(made.config, made.head_name).to(pipe.device).eval()
    return _scored(Pipeline(untrained, pipe.task, pipe.made), examples)[metric], UNTRAINED


def _scored(pipe: Pipeline, examples: Sequence[Any]) -> dict[str, float]:
    """Without what takes a pass for every token: the pseudo-likelihood of masked words."""
    items, final = pipe.task.encode(examples), pipe.task.name != "fill-mask"
    model = prepared_reader(as_model(pipe.model))
    return dict(evaluate(model, pipe.task, items, budget=Budget(tokens=8192), final=final).compute())
