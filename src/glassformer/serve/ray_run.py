"""A server on a Ray cluster: deployments of engines and of fronts, from the first replica until it is told to end."""

import logging
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

from glassformer.hub.fetch import config_folder
from glassformer.jobs.ray_pool import RayCluster
from glassformer.web.server import IDLE, REQUEST

from .limits import Limits
from .messages import ModelInfo, NotLoaded, WorkerSpec
from .ray_engine import engine_class
from .ray_front import FRONTS, Front, Fronts, FrontSettings
from .run import service_of

APPLICATION = "glassformer"
SHARED = "models"  # the deployment of all models, where a replica holds several
CLOSING = 5.0  # seconds for the last bytes of answers
# Of Ray with its proxy: after its own 5 s, too few for a busy machine, it kills the proxy, and the start fails.
PATIENCE = {"RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60"}
REPLICAS = re.compile(r"(\d+)(?:-(\d+))?")


@dataclass(frozen=True, kw_only=True)
class RaySettings:
    """How many of what; each is a flag."""

    replicas: tuple[int, int] = (1, 1)  # of each model, at least and at most
    target: int = 16  # requests at once that a replica is to have: with more, another one is started
    fronts: int = 1  # replicas of the web application
    models_per_replica: int | None = None  # None: each model has replicas of its own


def replicas_of(text: str) -> tuple[int, int]:
    """ "2" as so many, "1-8" as from one to eight."""
    match = REPLICAS.fullmatch(text.strip())
    least, most = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 1 <= least <= most:
        raise ValueError(f"--replicas {text!r} is no number of them: write 2, or 1-8 for as many as there is work for")
    return least, most


class RayServer:
    """An application on a cluster, which is started where there is none; used as a context."""

    def __init__(
        self, specs: Sequence[WorkerSpec], limits: Limits, settings: RaySettings, *, host: str, port: int
    ) -> None:
        self.limits, self.settings, self.host, self.port = limits, settings, host, port
        self.specs = dict(zip(service_of(specs, workers=0, limits=limits).models, specs, strict=True))
        try:
            self.serve = import_module("ray.serve")
        except ImportError:
            raise ValueError("serve --ray needs ray[serve]: pip install 'glassformer[ray,serve]'") from None
        for spec in specs:
            config_folder(spec.source)  # what is not there is said before a cluster is begun
        logging.getLogger("ray.serve").setLevel(logging.ERROR)
        self._fronts: Any = None  # an actor
        for name, value in PATIENCE.items():  # heard by a cluster that is begun here
            os.environ.setdefault(name, value)
        self.cluster = RayCluster()
        self._check_capacity()
        self.shared = bool(self.serve.status().proxies)  # Ray Serve runs there already

    def _check_capacity(self) -> None:
        """Refuse what would wait for ever: replicas that a cluster of this machine alone has no place for."""
        gpus = self.cluster.gpus and any(spec.device != "cpu" for spec in self.specs.values())
        each = 1 if gpus else next(iter(self.specs.values())).threads or 1
        deployments = 1 if self.settings.models_per_replica is not None else len(self.specs)
        needed, kind = self.settings.replicas[0] * deployments * each, "GPUs" if gpus else "cores"
        if self.cluster.is_local and needed > self.cluster.capacity:
            self.cluster.close()
            raise ValueError(
                f"{deployments * self.settings.replicas[0]} replicas need {needed} {kind}, and this machine has "
                f"{self.cluster.capacity}: give fewer --replicas or --threads, or let models share them: "
                f"--models-per-replica {len(self.specs)}"
            )

    def __enter__(self) -> "RayServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.serve.delete(APPLICATION)
        if self._fronts is not None:
            self.cluster.ray.kill(self._fronts)
        self.cluster.close()

    def drain(self) -> None:
        """Have the fronts take nothing on any more, and wait until what is open has come to an end, or is told so."""
        get, late = self.cluster.ray.get, time.monotonic() + self.limits.shutdown_timeout + CLOSING
        assert self._fronts is not None
        get(self._fronts.drain.remote())
        while get(self._fronts.num_drained.remote()) < self.settings.fronts and time.monotonic() < late:
            time.sleep(0.1)

    def deploy(self, *, key: str | None = None, hosts: Sequence[str] = (), log: bool = False) -> dict[str, ModelInfo]:
        """Start everything; the models, when every one is loaded and every front answers.

        A model that cannot be loaded is a ValueError. Ray Serve that runs on the cluster already keeps its host and
        port.
        """
        shared = self.settings.models_per_replica is not None
        engines = {name: SHARED if shared else _deployment_name(name) for name in self.specs}
        front = FrontSettings(self.specs, engines, APPLICATION, self.limits, key, tuple(hosts), log)
        deployments = [
            self._engine(one, {name: _anywhere(spec) for name, spec in self.specs.items() if engines[name] == one})
            for one in dict.fromkeys(engines.values())
        ]
        options = {
            "name": "front",
            "num_replicas": self.settings.fronts,
            "max_ongoing_requests": self.limits.connections,
            "graceful_shutdown_timeout_s": self.limits.shutdown_timeout,
            "ray_actor_options": {"num_cpus": 0},
        }
        quiet = {"log_level": "WARNING", "enable_access_log": False}  # the gate has a log of its own
        whole = self.limits.deadline + REQUEST + CLOSING  # after which Ray's proxy gives up
        http = {"host": self.host, "port": self.port, "request_timeout_s": whole, "keep_alive_timeout_s": IDLE}
        self.serve.start(http_options=http, logging_config=quiet)
        actor = self.cluster.ray.remote(Fronts).options(name=FRONTS, num_cpus=0, get_if_exists=True)
        self._fronts = actor.remote()
        ingress = self.serve.deployment(self.serve.ingress(Front(front))()).options(**options)
        application = ingress.bind(*deployments)
        self.serve.run(application, name=APPLICATION, route_prefix="/", logging_config=quiet)
        found = {name: self._info(name, engines[name]) for name in self.specs}
        while self.cluster.ray.get(self._fronts.num_ready.remote()) < self.settings.fronts:
            time.sleep(0.02)  # a front hears of the models by itself, and would answer 503 until then
        return found

    def _engine(self, name: str, specs: dict[str, WorkerSpec]) -> Any:
        """The deployment of some models."""
        (least, most), threads = self.settings.replicas, next(iter(specs.values())).threads or 1
        cpu = any(spec.device == "cpu" for spec in specs.values())
        scaled = {"min_replicas": least, "max_replicas": most, "target_ongoing_requests": self.settings.target}
        count: dict[str, Any] = {"num_replicas": least} if least == most else {"autoscaling_config": scaled}
        options = {
            "name": name,
            "max_ongoing_requests": self.limits.queue,
            "graceful_shutdown_timeout_s": self.limits.shutdown_timeout,
            "ray_actor_options": {"num_cpus": threads, "num_gpus": 0.0 if cpu else self.cluster.gpus},
            **count,
        }
        engine = engine_class(self.serve, self.settings.models_per_replica)
        return self.serve.deployment(engine).options(**options).bind(specs, self.limits)

    def _info(self, name: str, deployment: str) -> ModelInfo:
        handle = self.serve.get_deployment_handle(deployment, app_name=APPLICATION)
        found: ModelInfo | NotLoaded = handle.options(multiplexed_model_id=name).info.remote(name).result()
        if isinstance(found, NotLoaded):
            raise ValueError(found.message)
        return found

    def wait(self) -> None:
        """Until a signal comes."""
        ended = threading.Event()

        def on_signal(sig: int, frame: FrameType | None) -> None:
            del sig, frame
            ended.set()

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, on_signal)
        ended.wait()


def _anywhere(spec: WorkerSpec) -> WorkerSpec:
    """The same from whatever folder a replica runs in."""
    return replace(spec, source=str(Path(spec.source).resolve())) if Path(spec.source).is_dir() else spec


def _deployment_name(model: str) -> str:
    return re.sub(r"[^\w.-]", "-", f"model-{model}")


def serve_on_ray(
    server: RayServer,
    *,
    key: str | None = None,
    hosts: Sequence[str] = (),
    log: bool = True,
    on_ready: Callable[[dict[str, ModelInfo]], None] = lambda _: None,
) -> None:
    """Serve until a signal comes, then bring everything to its end."""
    with server:
        on_ready(server.deploy(key=key, hosts=hosts, log=log))
        server.wait()
        server.drain()
