"""`glassformer serve --ray`: the same server as an application of Ray Serve."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from .listening import address_of, listening
from .output import echo, echo_line, print_json

if TYPE_CHECKING:
    from glassformer.serve.limits import Limits
    from glassformer.serve.messages import ModelInfo, WorkerSpec


class RayFlags(NamedTuple):
    """The flags of --ray; None where they are not given."""

    replicas: str | None
    target_requests: int | None
    fronts: int | None
    models_per_replica: int | None

    def check(self, others: Mapping[str, object]) -> None:
        """Refuse flags of a server that is not Ray's."""
        if wrong := [flag for flag, value in others.items() if value]:
            raise ValueError(f"{wrong[0]} is for a server on this machine alone: leave it out with --ray")

    def check_unused(self) -> None:
        if given := [flag for flag, value in self._asdict().items() if value is not None]:
            raise ValueError(f"--{given[0].replace('_', '-')} is for a Ray cluster: give --ray as well")


def serve_ray(
    flags: RayFlags,
    specs: "Sequence[WorkerSpec]",
    limits: "Limits",
    *,
    host: str,
    port: int,
    key: str | None,
    insecure: bool,
    hosts: Sequence[str],
    log: bool,
    json: bool,
) -> None:
    """Serve on a cluster until a signal comes."""
    from glassformer.serve.ray_run import RayServer, RaySettings, replicas_of, serve_on_ray

    settings = RaySettings(
        replicas=replicas_of(flags.replicas or "1"),
        target=flags.target_requests or RaySettings.target,
        fronts=flags.fronts or RaySettings.fronts,
        models_per_replica=flags.models_per_replica,
    )
    with listening(host, port) as free:
        port = free.getsockname()[1]
    server = RayServer(specs, limits, settings, host=host, port=port)
    if server.shared and not (key or insecure):
        server.cluster.close()
        raise ValueError(
            "Ray Serve runs on this cluster already, where it may be open to other machines: give a --key-file, or "
            "--insecure-no-auth to let anybody in"
        )

    def on_ready(models: "Mapping[str, ModelInfo]") -> None:
        address = "where Ray Serve listens" if server.shared else address_of(host, port)
        if json:
            print_json({"address": None if server.shared else address, "models": list(models)})
            return
        for name, info in models.items():
            echo_line(f"{name}: {', '.join(info.tasks)}")
        echo(f"serving at {address}, on a Ray cluster (Ctrl-C stops it)")

    serve_on_ray(server, key=key, hosts=hosts, log=log, on_ready=on_ready)
