"""What the tests of the server share: a server in a thread, raw requests, and models that are no one else's."""

import asyncio
import json
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import torch

import glassformer as gf
from chats import llama_folder
from glassformer.serve.app import create_app
from glassformer.serve.limits import Limits
from glassformer.serve.messages import WorkerSpec
from glassformer.serve.run import serve, service_of
from glassformer.serve.service import Service

ZOO = ("embed-mini-en", "bert-mini-en-sentiment", "bert-mini-en-ner", "bert-mini-en-qa", "bert-mini-en", "en-de")
ZOO += ("gpt-mini-en",)
CHATML = (
    "{% for message in messages %}{{ message['role'] + ': ' + message['content'] + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant:' }}{% endif %}"
)


@dataclass
class Running:
    """A server that runs, and what is behind it."""

    service: Service
    port: int
    loop: asyncio.AbstractEventLoop

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, path: str, body: Any = None, **headers: str) -> tuple[int, Any, dict[str, str]]:
        """Status, JSON and headers of an answer."""
        return asked(f"{self.url}{path}", body, **headers)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)


@contextmanager
def running(
    sources: Sequence[str | Path], *, limits: Limits | None = None, workers: int = 1, key: str | None = None, **of: Any
) -> Iterator[Running]:
    """A real server with its worker processes, in a thread."""
    specs = [WorkerSpec(str(source), threads=1, **of) for source in sources]
    service = service_of(specs, workers=workers, limits=limits)
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        port, ready, loops = listener.getsockname()[1], threading.Event(), list[asyncio.AbstractEventLoop]()
        ended: list[BaseException] = []

        async def work() -> None:
            loops.append(asyncio.get_running_loop())
            await serve(create_app(service, key=key), service, [listener], on_ready=ready.set)

        def run() -> None:
            try:
                asyncio.run(work())
            except BaseException as error:
                ended.append(error)
            ready.set()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        ready.wait()
        if ended:
            raise ended[0]
        try:
            yield Running(service, port, loops[0])
        finally:
            loops[0].call_soon_threadsafe(service.stop)
            thread.join(30)
            assert not thread.is_alive()


def asked(url: str, body: Any = None, **headers: str) -> tuple[int, Any, dict[str, str]]:
    data = None if body is None else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = Request(url, data=data, headers={"Content-Type": "application/json", **named})
    try:
        with urlopen(request, timeout=60) as answer:
            return answer.status, _read(answer.read()), {**answer.headers}
    except HTTPError as error:
        with error:
            return error.code, _read(error.read()), {**error.headers}


def _read(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text.decode()


def chat_folder(folder: Path) -> Path:
    """A small random Llama with a chat template."""
    return llama_folder(folder, chat_template=CHATML)


def nli_folder(folder: Path) -> Path:
    """The classifier of the zoo, its classes called by the names of inference."""
    gf.save(gf.load("zoo:bert-mini-en-sentiment"), folder, tokenizer=gf.load_tokenizer("zoo:bert-mini-en-sentiment"))
    config = json.loads((folder / "config.json").read_text())
    config["id2label"] = {"0": "contradiction", "1": "entailment"}
    config["label2id"] = {"contradiction": 0, "entailment": 1}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def broken_folder(folder: Path, source: str) -> Path:
    """A model that has broken down: its first weight is NaN."""
    model, tok = gf.load(source), gf.load_tokenizer(source)
    with torch.no_grad():
        next(model.parameters()).fill_(float("nan"))
    gf.save(model, folder, tokenizer=tok)
    return folder
