"""`glassformer serve`: models over HTTP, to the official clients of OpenAI and Hugging Face."""

import os
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.serve.limits import Limits
from glassformer.web import LOOPBACK

from .listening import address_of, check_extra, key_of, listening, size_of
from .output import Device, Dtype, Json, echo, print_json
from .serve_ray import RayFlags, serve_ray

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from glassformer.serve.service import Service

KEY = "GLASSFORMER_SERVE_KEY"
LIMITS = Limits()
NEEDED = ("fastapi", "uvicorn", "orjson", "prometheus_client")


def serve(
    models: Annotated[
        list[str], typer.Argument(metavar="MODEL", help="Folders, hub names, zoo:NAME; several at once.")
    ],
    host: Annotated[str, typer.Option(help="Where to listen; any but this machine itself needs a key.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any that is free.")] = 8000,
    unix_socket: Annotated[Path | None, typer.Option(help="Listen on this socket instead of a port.")] = None,
    unix_socket_mode: Annotated[
        str, typer.Option(help="Who may use that socket, in octal: 0660 also its group, as that of a proxy.")
    ] = "0600",
    key_file: Annotated[Path | None, typer.Option(help=f"A file that holds the key; also ${KEY}.")] = None,
    insecure_no_auth: Annotated[bool, typer.Option(help="Let anybody in who can reach --host.")] = False,
    allowed_host: Annotated[list[str] | None, typer.Option(help="A name that clients call this server by.")] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="Certificate (PEM), for https.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its private key (PEM).")] = None,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Processes for each model.")] = 1,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of a process; by default all, shared.")] = None,
    batch_tokens: Annotated[int, typer.Option(min=1, help="Tokens read at once.")] = 4096,
    rows: Annotated[int, typer.Option(min=1, help="Texts written at once.")] = 16,
    max_length: Annotated[
        int | None, typer.Option(min=1, help="Tokens of a text that is written, with its prompt.")
    ] = None,
    max_body: Annotated[str, typer.Option(help="Size of a request.")] = "2MB",
    max_connections: Annotated[int, typer.Option(min=1, help="Connections at once.")] = LIMITS.connections,
    max_queue: Annotated[int, typer.Option(min=1, help="Requests that wait or run, of a model.")] = LIMITS.queue,
    max_inputs: Annotated[int, typer.Option(min=1, help="Texts of one request.")] = LIMITS.inputs,
    max_top_k: Annotated[int, typer.Option(min=1, help="Words for a mask, and answers to a question.")] = LIMITS.top_k,
    max_answer: Annotated[str, typer.Option(help="Size of the vectors in one answer.")] = "32MB",
    max_n: Annotated[int, typer.Option(min=1, help="Texts for one prompt, and beams.")] = LIMITS.n,
    max_logprobs: Annotated[int, typer.Option(min=1, help="Alternatives told of a token.")] = LIMITS.logprobs,
    max_stop: Annotated[int, typer.Option(min=1, help="Strings that end a text.")] = LIMITS.stop,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Tokens written at most.")] = LIMITS.new_tokens,
    deadline: Annotated[float, typer.Option(min=0.1, help="Seconds that a request may take.")] = LIMITS.deadline,
    shutdown_timeout: Annotated[
        float, typer.Option(min=0.1, help="Seconds for open requests to end after SIGTERM.")
    ] = LIMITS.shutdown_timeout,
    ray: Annotated[bool, typer.Option("--ray", help="On a Ray cluster, or on one begun here.")] = False,
    replicas: Annotated[str | None, typer.Option(help="Of --ray: replicas of a model; 1-8 as there is work.")] = None,
    target_requests: Annotated[
        int | None, typer.Option(min=1, help="Of --ray: requests at once that a replica is to have.")
    ] = None,
    fronts: Annotated[int | None, typer.Option(min=1, help="Of --ray: replicas of the web server.")] = None,
    models_per_replica: Annotated[
        int | None, typer.Option(min=1, help="Of --ray: share replicas, each with so many models at a time.")
    ] = None,
    studio: Annotated[bool, typer.Option(help="Also the studio, at /studio/: on this machine, without a key.")] = False,
    access_log: Annotated[bool, typer.Option(help="A line of json on stderr for each request.")] = True,
    device: Device = None,
    dtype: Dtype = None,
    json: Json = False,
) -> None:
    """Serve models to the clients of OpenAI and Hugging Face, and to curl: classes, entities, answers, vectors, text.

    Example: glassformer serve zoo:embed-mini-en runs/reviews ./my-gpt2
    """
    check_extra("the server", "serve", *NEEDED)
    key = key_of(None, key_file, KEY)
    _check_exposure(host, key, insecure=insecure_no_auth, unix_socket=unix_socket)
    if studio and (key or host not in LOOPBACK or unix_socket is not None):
        raise ValueError("--studio is for this machine's own browser: leave out the key, --host and --unix-socket")
    tls, mode = _tls(tls_cert, tls_key), _mode(unix_socket_mode)
    limits = Limits(
        body_bytes=size_of(max_body, "--max-body"),
        connections=max_connections,
        queue=max_queue,
        inputs=max_inputs,
        top_k=max_top_k,
        answer_bytes=size_of(max_answer, "--max-answer"),
        n=max_n,
        logprobs=max_logprobs,
        stop=max_stop,
        new_tokens=max_new_tokens,
        deadline=deadline,
        shutdown_timeout=shutdown_timeout,
    )
    from glassformer.serve.messages import WorkerSpec
    from glassformer.serve.run import run_server, service_of

    specs = [
        WorkerSpec(
            source,
            device=device,
            dtype=dtype,
            threads=threads or _share_of_cores(workers),
            batch_tokens=batch_tokens,
            rows=rows,
            max_length=max_length,
        )
        for source in models
    ]
    asked = RayFlags(replicas, target_requests, fronts, models_per_replica)
    if ray:
        alone = {"--unix-socket": unix_socket, "--tls-cert": tls, "--workers": workers > 1, "--studio": studio}
        asked.check(alone)
        serve_ray(
            asked,
            specs,
            limits,
            host=host,
            port=port,
            key=key,
            insecure=insecure_no_auth,
            hosts=allowed_host or [],
            log=access_log,
            json=json,
        )
        return
    asked.check_unused()
    service = service_of(specs, workers=workers, limits=limits)
    with _socket(host, port, unix_socket, mode) as listener:
        address = _address(listener, host, tls=bool(tls), unix_socket=unix_socket)

        def on_ready() -> None:
            if json:
                print_json({"address": address, "models": list(service.models)})
            else:
                _announce(address, service)

        hosts = allowed_host or []
        mounts = _studio(models, device) if studio else None
        run_server(service, listener, key=key, hosts=hosts, log=access_log, mounts=mounts, on_ready=on_ready, **tls)
    if unix_socket is not None:
        unix_socket.unlink(missing_ok=True)


def _studio(models: list[str], device: str | None) -> "dict[str, ASGIApp]":
    """The studio of the same models, which it opens once more, in the server's own process, when they are looked at."""
    from concurrent.futures import ThreadPoolExecutor

    from glassformer.studio.front import front

    from .studio import studio_routes

    return {"/studio": front(ThreadPoolExecutor(1).submit(studio_routes, models, device))}


def _announce(address: str, service: "Service") -> None:
    for name, model in service.models.items():
        echo(f"{name}: {', '.join(model.info.tasks if model.info else ())}")
    echo(f"serving at {address} (Ctrl-C stops it)")


def _check_exposure(host: str, key: str | None, *, insecure: bool, unix_socket: Path | None) -> None:
    if unix_socket is None and host not in LOOPBACK and not key and not insecure:
        raise ValueError(
            f"--host {host} lets other machines in: give a --key-file with a secret that they must know, or "
            "--insecure-no-auth to let anybody in"
        )


def _tls(cert: Path | None, key: Path | None) -> dict[str, str]:
    """What uvicorn is told of the certificate."""
    if (cert is None) != (key is None):
        raise ValueError("--tls-cert and --tls-key belong together: give both, or neither")
    if cert is None or key is None:
        return {}
    for option, path in (("--tls-cert", cert), ("--tls-key", key)):
        if not path.is_file():
            raise ValueError(f"{option} {path} is no file; name one in PEM")
    import ssl

    _check_pem("--tls-cert", cert, "CERTIFICATE-----")
    _check_pem("--tls-key", key, "PRIVATE KEY-----")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key, password=lambda: "")
    except (ssl.SSLError, ValueError) as error:
        reason = getattr(error, "reason", None) or "it is encrypted"
        fix = "give the private key that the certificate was made with, without a password"
        raise ValueError(f"--tls-key {key} is not the key of --tls-cert {cert} ({reason}): {fix}") from None
    return {"ssl_certfile": str(cert), "ssl_keyfile": str(key)}


def _check_pem(option: str, path: Path, holds: str) -> None:
    """Refuse a file that holds no such thing in PEM, as one in DER."""
    if not re.search(rf"-----BEGIN [A-Z ]*{holds}".encode(), path.read_bytes()):
        kind = "x509" if option == "--tls-cert" else "pkey"
        fix = f"openssl {kind} -inform der -in {path} -out {path.stem}.pem makes PEM of DER"
        raise ValueError(f"{option} {path} holds no {holds.strip('-').lower()} in PEM: name one that does; {fix}")


def _share_of_cores(workers: int) -> int | None:
    """Threads of each of several workers of a model; None leaves it to torch."""
    return None if workers == 1 else max(1, (os.cpu_count() or 1) // workers)


def _mode(text: str) -> int:
    """Permissions of a socket in octal, which must let its owner in and may let its group in."""
    if not re.fullmatch(r"0?6[06]0", text):
        raise ValueError(f"--unix-socket-mode {text!r} is none that a socket may have here: give 0600 or 0660")
    return int(text, 8)


def _socket(host: str, port: int, path: Path | None, mode: int) -> socket.socket:
    if path is None:
        return listening(host, port)
    if path.exists():
        raise ValueError(f"--unix-socket {path} is there already: delete it, or choose another")
    made, mask = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM), os.umask(0o177)
    try:
        made.bind(str(path))
    except OSError as error:
        made.close()
        raise ValueError(f"--unix-socket {path} cannot be made ({error.strerror}); choose another") from None
    finally:
        os.umask(mask)
    path.chmod(mode)  # after which nobody else has it in between
    made.listen(128)
    return made


def _address(listener: socket.socket, host: str, *, tls: bool, unix_socket: Path | None) -> str:
    if unix_socket is not None:
        return f"unix:{unix_socket}"
    return address_of(host, listener.getsockname()[1], scheme="https" if tls else "http")
