"""Run under torchrun: a folder is loaded and dealt out, and each process says what memory of its own that took.

    torchrun --nproc-per-node N -m train.loading_cases OUT.json FOLDER SMALL_FOLDER

SMALL_FOLDER is loaded before anything is measured, so that all modules are imported. What is mapped from a file is not
counted: the system takes it back when it needs the room.
"""

import json
import re
import sys
import threading
from pathlib import Path

import torch
import torch.distributed as dist

import glassformer as gf
from glassformer.tasks.text_generation import TextGeneration
from glassformer.train.layout import Layout, lay_out
from glassformer.train.plan import Plan
from glassformer.train.processes import Processes


def own_memory() -> int:
    found = re.search(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return 1024 * int(found[1])


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


def dealt_out(folder: str) -> Layout:
    model = gf.load(folder, dtype=torch.float32)
    task = TextGeneration(gf.load_tokenizer(folder))
    return lay_out(model, task, Plan(parallel="fsdp", steps=1, batch_size=4), Processes())


def measured(folder: str) -> dict[str, int]:
    watch, before = Watch(), own_memory()
    watch.start()
    layout = dealt_out(folder)
    peak = watch.stop() - before
    whole = list(layout.objective.parameters())
    shards = [tensor.to_local() for tensor in whole]
    return {"peak": peak, "shard": sum(one.nbytes for one in shards), "model": sum(4 * one.numel() for one in whole)}


def main() -> None:
    out, folder, small = sys.argv[1:]
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    dealt_out(small)
    mine = measured(folder)
    found: list[dict[str, int]] = [{} for _ in range(dist.get_world_size())]
    dist.all_gather_object(found, mine)
    if dist.get_rank() == 0:
        Path(out).write_text(json.dumps({str(rank): one for rank, one in enumerate(found)}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
