"""`make fuzz`: random edits of files that are right; whatever is not carried out or refused in one line is listed.

Each worker is a process of its own with little memory and a time limit, so that a hang, an abort or a bomb is a
result like any other. What is found is written as json lines, which corpus.jsonl can keep.
"""

import argparse
import json
import logging
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from fuzz.edits import Edit, apply, drawn
from fuzz.targets import TARGETS, Target

SECONDS = 20  # for one edit
MEMORY = 8 << 30
REFUSALS = (ValueError, OSError)


def tried(target: Target, edit: Edit, template: Path, scratch: Path) -> str:
    """What came of one edit: "fine", "refused: " and why, or the fault and where it came from."""
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(template, scratch)
    try:
        apply(edit, scratch)
    except (KeyError, IndexError, TypeError, ValueError):
        return "no edit"
    try:
        target.use(scratch)
    except REFUSALS as error:
        return f"refused: {error}" if "\n" not in str(error) else f"several lines: {str(error)[:80]!r}"
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return f"{type(error).__name__}: {_where(error)}: {str(error)[:90]!r}"
    return "fine"


def _where(error: BaseException) -> str:
    """The last line of ours that the fault went through."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "glassformer/" in frame.filename]
    return f"{frames[-1].filename.rpartition('glassformer/')[2]}:{frames[-1].name}" if frames else "outside"


def made(target: Target, place: Path) -> Path:
    """The folder as it should be, with which everything works."""
    place.mkdir(parents=True)
    target.make(place)
    untouched = place.with_name(place.name + "-tried")
    shutil.copytree(place, untouched)
    target.use(untouched)
    return place


def _worker(target: Target, edits: list[Edit], template: Path, write: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGALRM, _too_long)
    torch.set_num_threads(1)
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
        os.dup2(nowhere.fileno(), 1)
    for number, edit in enumerate(edits):
        os.write(write, f"{number}\t".encode())
        signal.alarm(SECONDS)
        found = tried(target, edit, template, template.with_name(f"scratch-{os.getpid()}"))
        signal.alarm(0)
        os.write(write, json.dumps(found).encode() + b"\n")


class TooLong(BaseException):
    """The time for one edit is over."""


def _too_long(*_: Any) -> None:
    raise TooLong


def outcomes(target: Target, edits: list[Edit], template: Path) -> Iterator[tuple[Edit, str]]:
    """Every edit with what came of it; a process that dies is the fault of the edit it was at."""
    while edits:
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(read)
            try:
                _worker(target, edits, template, write)
            finally:
                os._exit(0)
        os.close(write)
        with os.fdopen(read, "r") as results:
            lines = results.read().splitlines()
        _, status = os.waitpid(pid, 0)
        done = [line.split("\t", 1)[1] for line in lines if "\t" in line and line.split("\t", 1)[1]]
        for edit, found in zip(edits, done, strict=False):
            yield edit, json.loads(found)
        if len(done) < len(edits):
            yield edits[len(done)], f"died ({status})"
        edits = edits[len(done) + 1 :]


def sweep(count: int, seed: int, names: list[str], keep: Path | None) -> int:
    """Try so many edits, tell what came of them, and give the number of faults."""
    totals, faults = Counter[str](), dict[str, tuple[int, str, Edit]]()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as place:
        for number, name in enumerate(names):
            target, chance = TARGETS[name], random.Random(f"{seed} {name}")
            template = made(target, Path(place) / name)
            edits = [drawn(chance, template, list(target.files)) for _ in range(-(-count // len(names)))]
            here = Counter[str]()
            for edit, found in outcomes(target, edits, template):
                kind = found.partition(":")[0]
                kind = kind if kind in ("fine", "refused", "no edit") else "other"
                here[kind] += 1
                if kind == "other":
                    times, *_ = faults.get(f"{name} {found}", (0,))
                    faults[f"{name} {found}"] = (times + 1, name, edit)
            totals += here
            print(f"{number + 1}/{len(names)} {name}: {dict(here)}  {time.perf_counter() - began:.0f} s", flush=True)
    for found, (times, _, edit) in sorted(faults.items(), key=lambda one: -one[1][0]):
        print(f"{times:5d}  {found}  {json.dumps(edit)[:150]}")
    if keep is not None:
        keep.write_text("".join(json.dumps({"target": name, **edit}) + "\n" for _, name, edit in faults.values()))
    print(f"{sum(totals.values())} edits: {dict(totals)}")
    return totals["other"]


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--count", type=int, default=20_000)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--keep", type=Path, help="write one edit of every kind of fault to this file")
    arguments.add_argument("targets", nargs="*", help=f"of {', '.join(TARGETS)}")
    asked = arguments.parse_args()
    sys.exit(bool(sweep(asked.count, asked.seed, asked.targets or list(TARGETS), asked.keep)))
