"""Run under torchrun: what reaches a task in half precision, whole and in shards, and what layers share of a mask.

    torchrun --nproc-per-node N -m train.half_cases OUT.json

OUT.json gets, for each layout and case, the kinds of numbers among labels and weights, whether they are what the batch
held, and how often the rotation of a batch was worked out.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import torch
import torch.distributed as dist

from glassformer.blocks.rotary import Rotary
from glassformer.data.batches import Schedule
from glassformer.train.layout import lay_out
from glassformer.train.optimiser import build_optimiser
from glassformer.train.processes import Processes
from glassformer.train.update import OptimizerStep, updates
from tasks.cases import case

from . import parallel_cases

CASES = ("sentence-similarity/bert/mean", "text-classification/bert/regression", "replaced-token-detection/electra")
CASES += ("text-generation/llama", "translation/transformer/smoothed")


def reached(name, layout):
    one = case(name)
    plan = replace(one.plan, batch_size=8, batch_tokens=None, precision="bf16", **parallel_cases.LAYOUTS[layout])
    laid_out = lay_out(one.model.train(), one.task, plan, Processes())
    stepper = OptimizerStep(laid_out, plan, build_optimiser(one.model, 1e-3))
    schedule = Schedule(one.items.lengths, plan.budget, seed=plan.seed)
    update = next(updates(one.task, one.items, schedule, plan, after=0, processes=laid_out.data))
    came, plain, rotations, rotate = [], one.task.loss, [], Rotary.forward

    def loss(model, batch):
        came.append(batch.targets)
        return plain(model, batch)

    def rotation(self, *given):
        rotations.append(self)
        return rotate(self, *given)

    with patch.object(one.task, "loss", loss), patch.object(Rotary, "forward", rotation):
        stepper(update, 1, 1.0)
    made = [batch.targets for batch, _ in update.parts]
    pairs = [(ours[key], theirs[key]) for ours, theirs in zip(came, made, strict=True) for key in theirs]
    floats = [(ours, theirs) for ours, theirs in pairs if theirs.is_floating_point()]
    return {
        "kinds": sorted({str(ours.dtype) for ours, _ in floats}),
        "same": all(torch.equal(ours, theirs) for ours, theirs in pairs),
        "floats": len(floats),
        "rotations": len(rotations),
        "batches": len(came),
    }


def main():
    dist.init_process_group("gloo")
    found = {layout: {name: reached(name, layout) for name in CASES} for layout in ("ddp", "fsdp")}
    if dist.get_rank() == 0:
        Path(sys.argv[1]).write_text(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
