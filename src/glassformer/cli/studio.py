"""`glassformer studio`: look inside models in the browser."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.studio import model_name
from glassformer.web import LOOPBACK
from glassformer.zoo import PREFIX, zoo

from .listening import address_of, check_extra, key_of, listening, size_of
from .output import Device, Json, echo, print_json

if TYPE_CHECKING:
    from starlette.types import ASGIApp

KEY = "GLASSFORMER_STUDIO_KEY"


def studio(
    models: Annotated[list[str] | None, typer.Argument(metavar="MODEL", help="Folders, hub names, zoo:NAME.")] = None,
    host: Annotated[str, typer.Option(help="Where to listen; any but this machine itself needs --key.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any that is free.")] = 8421,
    runs: Annotated[Path, typer.Option(help="Where runs are, for the screen Train.")] = Path("runs"),
    memory: Annotated[str, typer.Option(help="How much is kept of what was looked at.")] = "2GB",
    keep: Annotated[float, typer.Option(min=0.1, help="Minutes it is kept after the last look.")] = 30,
    deadline: Annotated[float, typer.Option(min=1, help="Seconds that one request may take.")] = 120,
    key: Annotated[str | None, typer.Option(help=f"Who opens the page must know it; also ${KEY}.")] = None,
    key_file: Annotated[Path | None, typer.Option(help="A file that holds the key: `ps` shows --key to all.")] = None,
    device: Device = None,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    json: Json = False,
) -> None:
    """Look inside models in the browser: every head, state and tensor of a text's way through them.

    Without a model it shows the built-in ones.

    Example: glassformer studio ./my-bert runs/en-de --open
    """
    typed, key = key, key_of(key, key_file, KEY)
    if host not in LOOPBACK and not key:
        raise ValueError(
            f"--host {host} lets other machines in: give a --key-file or --key that they must know, or leave --host out"
        )
    budget = size_of(memory, "--memory")
    check_extra("the studio", "studio", "fastapi", "uvicorn")
    with listening(host, port) as listener:
        from glassformer.studio.front import front
        from glassformer.web.server import server_of

        sources = models or [f"{PREFIX}{card['name']}" for card in zoo()]
        routes = ThreadPoolExecutor(1).submit(
            studio_routes, sources, device, budget=budget, keep=60 * keep, runs=runs, deadline=deadline
        )
        if models:
            routes.result()  # what is wrong with a folder is said before there is an address
        server = server_of(front(routes, key=key))
        port = listener.getsockname()[1]
        address = address_of(host, port, typed)  # a key that was kept from sight is not printed either
        if json:
            print_json({"address": address, "models": [model_name(one) for one in sources]})
        else:
            needed = "; add ?key= and the key" if key and not typed else ""
            echo(f"the studio is at {address} (Ctrl-C stops it{needed})")
        if open_:
            typer.launch(address_of(host, port, key))
        routes.add_done_callback(lambda done: setattr(server, "should_exit", bool(done.exception())))
        with suppress(KeyboardInterrupt):  # which is how it is meant to end
            server.run(sockets=[listener])
        routes.result()


def studio_routes(
    sources: list[str],
    device: str | None,
    *,
    budget: int = 2 << 30,
    keep: float = 1800,
    runs: Path = Path("runs"),
    deadline: float = 120,
) -> "ASGIApp":
    """What answers for these models. To import torch takes longer than all else: the page does not wait for it."""
    from glassformer.studio.app import create_routes
    from glassformer.studio.app_state import ModelStore, Studio, WorkQueue
    from glassformer.studio.traces import Traces

    store, traces = ModelStore(sources, device=device), Traces(budget=budget, seconds=keep)
    return create_routes(Studio(store, traces, runs=runs, work=WorkQueue(seconds=deadline)))
