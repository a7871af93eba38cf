"""`glassformer studio`: look inside models in the browser."""

import errno
import os
import re
import socket
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from glassformer.studio import LOOPBACK

from .output import Device, Json, echo, print_json

KEY = "GLASSFORMER_STUDIO_KEY"
UNITS = {"KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}


def studio(
    models: Annotated[list[str] | None, typer.Argument(metavar="MODEL", help="Folders, or hub names.")] = None,
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

    Without a model, small models of every family are trained first, once, in a minute or two.

    Example: glassformer studio ./my-bert runs/en-de --open
    """
    typed, key = key, key_of(key, key_file)
    if host not in LOOPBACK and not key:
        raise ValueError(
            f"--host {host} lets other machines in: give a --key-file or --key that they must know, or leave --host out"
        )
    budget = size_of(memory)
    _check_extra()
    with _listening(host, port) as listener:
        from glassformer.studio.app import create_app
        from glassformer.studio.app_state import Studio, WorkQueue
        from glassformer.studio.server import server_of
        from glassformer.studio.traces import Traces

        store, traces = _store(models, device, quiet=json), Traces(budget=budget, seconds=60 * keep)
        studio = Studio(store, traces, runs=runs, work=WorkQueue(seconds=deadline))
        server = server_of(create_app(studio, key=key))
        port = listener.getsockname()[1]
        address = address_of(host, port, typed)  # a key that was kept from sight is not printed either
        if json:
            print_json({"address": address, "models": [one["name"] for one in studio.models.entries]})
        else:
            needed = "; add ?key= and the key" if key and not typed else ""
            echo(f"the studio is at {address} (Ctrl-C stops it{needed})")
        if open_:
            typer.launch(address_of(host, port, key))
        with suppress(KeyboardInterrupt):  # which is how it is meant to end
            server.run(sockets=[listener])


def _store(models: list[str] | None, device: str | None, *, quiet: bool) -> Any:
    """The models that are named, or the studio's own."""
    from glassformer.studio.app_state import ModelStore
    from glassformer.studio.demo import demo_models

    log = partial(print, file=sys.stderr) if quiet else print
    return ModelStore(models or [str(folder) for folder in demo_models(log=log)], device=device)


def size_of(text: str) -> int:
    """ "2GB" in bytes."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMG]B)", text.strip().upper())
    if not match or not float(match[1]):
        raise ValueError(f"--memory {text!r} is no size: write it like 500MB or 2GB")
    return int(float(match[1]) * UNITS[match[2]])


def address_of(host: str, port: int, key: str | None) -> str:
    from urllib.parse import quote

    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}/" + (f"?key={quote(key, safe='')}" if key else "")


def key_of(given: str | None, file: Path | None) -> str | None:
    """The key: of --key, of a file without the end of its line, or of the environment; None where there is none."""
    if given is not None and file is not None:
        raise ValueError("give --key or --key-file, not both")
    key, source = (os.environ.get(KEY) or None, KEY) if given is None else (given, "--key")
    if file is not None:
        try:
            key, source = file.read_text(encoding="utf-8").rstrip("\r\n"), f"--key-file {file}"
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"--key-file {file} cannot be read ({error}); name a text file with the key") from None
    if key is not None and not key.strip():
        raise ValueError(f"{source} is empty: write a long secret into it, or leave it out")
    return key


def _check_extra() -> None:
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise ValueError(f"the studio needs {error.name}: pip install 'glassformer[studio]'") from None


def _listening(host: str, port: int) -> socket.socket:
    """The port, taken before anything slow begins."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=128)
    except socket.gaierror:
        raise ValueError(f"--host {host!r} is no address of this machine; leave it out for 127.0.0.1") from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ValueError(f"port {port} is in use, perhaps by another studio; --port 0 takes a free one") from None
        raise ValueError(f"nothing can listen on {host}:{port} ({error.strerror}); choose another --port") from None
