"""Cells on a Ray cluster: each is a task that carries out its folder, which all machines must see."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from glassformer.jobs.ray_pool import RayCluster

from .cell import LOG
from .worker import carry_out

RETRIES = 2  # on another machine, where one is lost; the run goes on from its last checkpoint


class RayExecutor:
    """As many cells at once as the cluster has place for; without a cluster, one is started on this machine."""

    def __init__(self, *, gpus: float = 0.0) -> None:
        self.cluster = RayCluster(gpus=gpus)
        self.ray, self.capacity = self.cluster.ray, self.cluster.capacity
        self.task = self.ray.remote(num_cpus=1, num_gpus=self.cluster.gpus, max_retries=RETRIES)(carry_out_on_node)
        self.running: dict[Any, Path] = {}

    def submit(self, folder: Path) -> None:
        self.running[self.task.remote(str(folder.resolve()))] = folder

    def finished(self) -> Iterator[tuple[Path, str]]:
        ready, _ = self.ray.wait(list(self.running), timeout=0) if self.running else ([], [])
        for reference in ready:
            folder, how = self.running.pop(reference), ""
            try:
                self.ray.get(reference)
            except self.ray.exceptions.RayError as error:
                how = f"the task was lost: {str(error).splitlines()[0]}"
            yield folder, how

    def close(self) -> None:
        for reference in self.running:
            self.ray.cancel(reference, force=True)
        self.cluster.close()


def carry_out_on_node(folder: str) -> None:
    """A cell, wherever this runs."""
    path = Path(folder)
    if not path.is_dir():
        raise FileNotFoundError(f"{folder} is not on this machine: --out must be a folder that all machines share")
    with (path / LOG).open("a", encoding="utf-8") as log:
        carry_out(path, log=lambda text: print(text, file=log, flush=True))
