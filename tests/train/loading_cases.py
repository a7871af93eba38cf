"""Run under torchrun: models are dealt out, and each process says what memory of its own that took.

    torchrun --nproc-per-node N -m train.loading_cases OUT.json FOLDER…

Each FOLDER is loaded, and each model is also made from nothing in the sizes of its config. The first is dealt out once
before anything is measured, so that all modules are imported. What is mapped from a file is not counted: the system
takes it back when it needs the room. Afterwards the shards are compared with the model as one process alone has it.
"""

import ctypes
import gc
import json
import re
import sys
import threading
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

import glassformer as gf
from glassformer.hub.registry import architecture_for
from glassformer.models.init import fill_tables
from glassformer.tasks.text_generation import TextGeneration
from glassformer.train.deferred import Deferred
from glassformer.train.layout import Layout, lay_out
from glassformer.train.plan import Plan
from glassformer.train.processes import Processes


def own_memory() -> int:
    found = re.findall(r"(?:RssAnon|RssShmem):\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert len(found) == 2
    return 1024 * sum(map(int, found))


class Watch(threading.Thread):
    """The most memory that was seen until `stop`."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most, self.over = own_memory(), threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.001):
            self.most = max(self.most, own_memory())

    def stop(self) -> int:
        self.over.set()
        self.join()
        return self.most


def made(folder: str, *, fresh: bool) -> nn.Module:
    """As a recipe's model is made: from a folder in float32, or from nothing."""
    torch.manual_seed(3)
    if not fresh:
        return gf.load(folder, dtype=torch.float32, device=torch.get_default_device())
    config = json.loads((Path(folder) / "config.json").read_text())
    architecture = architecture_for(config["model_type"])
    return architecture.build(architecture.config.from_hf(config), "text-generation")


def dealt_out(folder: str, *, fresh: bool) -> Layout:
    values = Deferred(torch.device("cpu"))
    with values.building():
        model = made(folder, fresh=fresh)
    fill_tables(model, values.device, torch.float32)
    task = TextGeneration(gf.load_tokenizer(folder))
    return lay_out(model, task, Plan(parallel="fsdp", steps=1, batch_size=4), Processes(), values)


def measured(folder: str, *, fresh: bool) -> dict[str, float]:
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)  # what was given up before goes back to the system
    watch, before = Watch(), own_memory()
    watch.start()
    layout = dealt_out(folder, fresh=fresh)
    peak = watch.stop() - before
    whole = list(layout.objective.parameters())
    shards = [tensor.to_local() for tensor in whole]
    return {
        "peak": peak,
        "shard": sum(one.nbytes for one in shards),
        "model": sum(4 * one.numel() for one in whole),
        "largest": max(4 * one.numel() for one in whole),
        "difference": furthest(layout, made(folder, fresh=fresh)),
    }


@torch.no_grad()
def furthest(layout: Layout, alone: nn.Module) -> float:
    """From the tensors that a process alone has."""
    with layout.whole() as model:
        pairs = zip([*model.parameters(), *model.buffers()], [*alone.parameters(), *alone.buffers()], strict=True)
        return max(float((ours - theirs).abs().max()) for ours, theirs in pairs)


def main() -> None:
    out, *folders = sys.argv[1:]
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    dealt_out(folders[0], fresh=False)
    mine = {f"{Path(one).name}{' afresh' * fresh}": measured(one, fresh=fresh) for one in folders for fresh in (0, 1)}
    found: list[dict[str, dict[str, float]]] = [{} for _ in range(dist.get_world_size())]
    dist.all_gather_object(found, mine)
    if dist.get_rank() == 0:
        Path(out).write_text(json.dumps({name: [one[name] for one in found] for name in mine}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
