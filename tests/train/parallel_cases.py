"""Run under torchrun: updates of many cases in some layouts, beside the same updates by one process alone.

    torchrun --nproc-per-node N -m train.parallel_cases OUT.json '{"LAYOUT": ["CASE", …], …}'

In double precision and without dropout, which is another draw in every process. OUT.json gets for each case of a layout
the largest difference of loss, gradients and weights, or the words of what was raised. Of a layout called count-fsdp it
gets what one step exchanges, counted and as `train.mesh` says.
"""

import json
import sys
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives as functional

from families import shake
from glassformer.blocks.transformer import Layer
from glassformer.data.batches import Schedule
from glassformer.train.layout import lay_out
from glassformer.train.mesh import Mesh, exchanges, held
from glassformer.train.optimiser import build_optimiser
from glassformer.train.processes import Processes
from glassformer.train.transforms import recomputing
from glassformer.train.update import OptimizerStep, updates
from glassformer.train.vocabulary_scores import VocabularyScores
from tasks.cases import BERT, NAMES, RECIPES, SMALL, case

LLAMA = BERT | {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64}
FAMILIES = {  # those that have no case of their own: (task, sizes)
    "llama": ("text-generation", LLAMA),
    "deberta-v2": ("text-classification", BERT | {"conv_kernel_size": 3}),
    "modernbert": ("fill-mask", BERT | {"num_hidden_layers": 3, "local_attention": 6}),
}
for arch, (task, sizes) in FAMILIES.items():
    SMALL[arch] = sizes
    RECIPES[f"{task}/{arch}"] = {"task": task, "arch": arch}
EVERY = [*NAMES, *(f"{task}/{arch}" for arch, (task, _) in FAMILIES.items())]
PARTS = [name for name in EVERY if "contrastive" not in name]  # whose question is another in every part
LAYOUTS = {
    "ddp": {"parallel": "ddp"},
    "fsdp": {"parallel": "fsdp", "min_num_params": 0},
    "joined": {"parallel": "fsdp"},  # small layers are gathered together
    "joined-again": {"parallel": "fsdp", "checkpointing": True},
    "partly": {"parallel": "fsdp", "min_num_params": 3000},  # some of a stack
    "kept": {"parallel": "fsdp", "min_num_params": 0, "reshard": False},
    "hsdp": {"parallel": "hsdp", "shard_size": 2, "min_num_params": 0},
    "tensor": {"tensor_parallel": 2},
    "tensor-fsdp": {"tensor_parallel": 2, "parallel": "fsdp"},
    "tensor-again": {"tensor_parallel": 2, "parallel": "hsdp", "shard_size": 1, "checkpointing": True},
    "context": {"context_parallel": 2},
    "context-fsdp": {"context_parallel": 2, "parallel": "fsdp"},
    "context-hsdp": {"context_parallel": 2, "parallel": "hsdp", "shard_size": 2},
    "context-tensor": {"context_parallel": 2, "tensor_parallel": 2},
}
STEPS = 3


@contextmanager
def alone():
    """As if torchrun had started this process only."""
    with patch.object(dist, "is_initialized", lambda: False):
        yield


def trained(name, layout):
    """(losses, norms and clipped gradients of each step, weights), of the whole, after a few updates."""
    one, processes = case(name), Processes()
    model = shake(one.model).double().eval()
    if LAYOUTS[layout].get("checkpointing"):
        recomputing(model)
    plan = replace(one.plan, batch_size=7, batch_tokens=None, accumulate=2, clip=0.5, **LAYOUTS[layout])
    laid_out = lay_out(model, one.task, plan, processes)
    optimiser = build_optimiser(model, 1e-2, eps=1e-3)  # a tensor whose gradient is nothing shall stay at rest
    gradients = []

    def look(*_):
        found = {key: tensor.grad for key, tensor in model.named_parameters() if tensor.grad is not None}
        gradients.append({key: tensor.clone() for key, tensor in laid_out.gather(found).items()})

    optimiser.register_step_pre_hook(look)
    stepper = OptimizerStep(laid_out, plan, optimiser)
    schedule = Schedule(one.items.lengths, plan.budget, seed=plan.seed)
    losses, norms = [], []
    data = laid_out.data
    feed = updates(one.task, one.items, schedule, plan, after=0, processes=data)
    for _, update in zip(range(STEPS), feed, strict=False):
        (count,) = data.all_reduce(update.count)
        loss, norm = stepper(update, max(1, int(count)), 1.0)
        norms.append(float(norm))
        losses.append(data.all_reduce(float(loss))[0] / max(1, count))
    return losses, norms, gradients, laid_out.gather(model.state_dict())


@contextmanager
def counted(tensor_row):
    """Bytes that a process receives from others by each collective, without those of a few numbers."""
    found = {what: [] for what in ("gathered", "scattered", "summed", "forward", "backward", "loss")}
    gathering, scattering = (  # as torch calls them since 2.13, and before
        ("all_gather_single", "reduce_scatter_single")
        if hasattr(dist, "all_gather_single")
        else ("all_gather_into_tensor", "reduce_scatter_tensor")
    )
    in_a_row = functional.all_reduce
    plain = {name: getattr(dist, name) for name in (gathering, scattering, "all_reduce")}

    def received(given, count):
        return 2 * (count - 1) / count * given.nbytes

    def tensors(given, named):
        return [one for one in (*given, *named.values()) if isinstance(one, torch.Tensor)]

    def gather(*given, **named):
        output, own = tensors(given, named)
        found["gathered"].append(output.nbytes - own.nbytes)
        return plain[gathering](*given, **named)

    def scatter(*given, **named):
        output, own = tensors(given, named)
        found["scattered"].append(own.nbytes - output.nbytes)
        return plain[scattering](*given, **named)

    def reduce(given, *args, group=None, **named):
        if group is not None and given.dim():  # those of a few numbers go to all; norms are one
            ranks = dist.get_process_group_ranks(group)
            found["loss" if len(tensor_row) > 1 and ranks == tensor_row else "summed"].append(
                received(given, len(ranks))
            )
        return plain["all_reduce"](given, *args, group=group, **named)

    def reduce_in_a_row(given, *args, **named):
        if given.dim() > 1:
            way = "forward" if torch._C._current_graph_task_id() == -1 else "backward"
            found[way].append(received(given, len(tensor_row)))
        return in_a_row(given, *args, **named)

    with (
        patch.object(dist, gathering, gather),
        patch.object(dist, scattering, scatter),
        patch.object(dist, "all_reduce", reduce),
        patch.object(functional, "all_reduce", reduce_in_a_row),
    ):
        yield found


def volumes(name, layout):
    """What was counted of one step, beside what `train.mesh` says of it."""
    one, world = case(name), dist.get_world_size()
    plan = replace(one.plan, batch_size=8, batch_tokens=None, accumulate=2, **LAYOUTS[layout])
    size, empty = plan.tensor_parallel, deepcopy(one.model)
    one.model.train()
    if plan.checkpointing:
        recomputing(one.model)
    laid_out = lay_out(one.model, one.task, plan, Processes())
    stepper = OptimizerStep(laid_out, plan, build_optimiser(one.model, 1e-3))
    schedule = Schedule(one.items.lengths, plan.budget, seed=plan.seed)
    feed = updates(one.task, one.items, schedule, plan, after=0, processes=laid_out.data)
    stepper(next(feed), 1, 1.0)
    update, first = next(feed), dist.get_rank() // size * size
    with counted([*range(first, first + size)]) as found, worked_at(one.model) as (tokens, scored):
        stepper(update, 1, 1.0)
    each = {"tokens": sum(tokens) / plan.accumulate, "scored": sum(scored) / plan.accumulate}
    said = exchanges(empty, plan, Mesh(1, world), **each, chunk=one.recipe.options.get("chunk"))
    kept = held(empty, plan, Mesh(1, world), tokens=0)
    return {
        "said": {row.what: [row.count, row.bytes] for row in said},
        "found": {what: [len(rows), sum(rows)] for what, rows in found.items()},
        "held": kept.weights,
        "shards": sum(tensor.to_local().nbytes for tensor in one.model.parameters()),
    }


@contextmanager
def worked_at(model):
    """How many tokens come to the first layer, and how many of them are scored, in forward passes."""
    tokens, scored, plain = [], [], VocabularyScores.cross_entropy

    def score(scores, target, *args, **named):
        if torch._C._current_graph_task_id() == -1:
            scored.append(len(target))
        return plain(scores, target, *args, **named)

    (first, *_) = (part for part in model.modules() if isinstance(part, Layer))
    hook = first.register_forward_pre_hook(lambda _, inputs: tokens.append(inputs[0][..., 0].numel()))
    with patch.object(VocabularyScores, "cross_entropy", score):
        yield tokens, scored
    hook.remove()


def compared(name, layout):
    """The largest differences, each as a share of the largest value where that is above 1; rank 0 finds them."""
    many = trained(name, layout)
    if dist.get_rank():
        return {}
    with alone():
        one = trained(name, "ddp")
    assert [step.keys() for step in many[2]] == [step.keys() for step in one[2]]
    return {
        "loss": max(abs(ours - theirs) for ours, theirs in zip(many[0], one[0], strict=True)),
        "norm": max(abs(ours - theirs) / max(1.0, theirs) for ours, theirs in zip(many[1], one[1], strict=True)),
        "gradient": max(furthest(*pair) for pair in zip(many[2], one[2], strict=True)),
        "weights": furthest(many[3], one[3]),
    }


def furthest(ours, theirs):
    scale = max(1.0, *(float(tensor.abs().max()) for tensor in theirs.values()))
    return max(float((ours[name].double() - theirs[name].double()).abs().max()) / scale for name in theirs)


def tried(find, name, layout):
    try:
        return find(name, layout)
    except Exception as error:  # all of a torchrun would end with it
        return {"error": f"{type(error).__name__}: {error}"[:500]}


def main():
    out, asked = sys.argv[1:]
    dist.init_process_group("gloo")
    found = {}
    for layout, names in json.loads(asked).items():
        find = volumes if layout.startswith("count-") else compared
        found[layout] = {name: tried(find, name, layout.removeprefix("count-")) for name in names}
    if dist.get_rank() == 0:
        Path(out).write_text(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
