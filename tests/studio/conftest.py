"""What the tests of the studio share: small models of every family, a server, and a page in a real browser."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
import uvicorn

import glassformer as gf
from glassformer.data import microworld
from glassformer.studio.app import create_app
from glassformer.studio.desk import Shelf, Studio
from glassformer.studio.traces import Traces
from glassformer.text.train import train
from jobs.conftest import trained  # noqa: F401, a fixture

SIZE = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 20}
ENCODER = {**SIZE, "max_position_embeddings": 64}
TRANSFORMER = {"d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2}
TRANSFORMER |= {"decoder_attention_heads": 2, "encoder_ffn_dim": 20, "decoder_ffn_dim": 20}
RNN = {"embedding_size": 12, "hidden_size": 10}
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "rnn": ("glassformer-rnn", "text-classification", {**RNN, "kind": "rnn"}),
    "lstm": ("glassformer-rnn", "text-classification", {**RNN, "kind": "lstm", "bidirectional": True}),
    "gru-lm": ("glassformer-rnn", "text-generation", {**RNN, "kind": "gru", "num_layers": 2}),
    "seq2seq": ("glassformer-seq2seq", "text2text-generation", {**RNN, "kind": "lstm"}),
    "transformer": ("glassformer-transformer", "text2text-generation", TRANSFORMER),
    "bert": ("bert", "text-classification", {**ENCODER, "num_labels": 3}),
    "bert-ner": ("bert", "token-classification", {**ENCODER, "num_labels": 5}),
    "bert-qa": ("bert", "question-answering", ENCODER),
    "bert-mlm": ("bert", "fill-mask", ENCODER),
    "gpt2": ("gpt2", "text-generation", {"n_embd": 16, "n_head": 2, "n_layer": 2, "n_positions": 64}),
}
TEXT = "Anna gave the red book to Tom ."


@pytest.fixture(scope="session")
def studio_folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder for every family, random but with weights large enough to look somewhere."""
    where = tmp_path_factory.mktemp("studio")
    corpus = where / "corpus.txt"
    texts = [one.text for one in microworld.examples("labelled", 300)]
    corpus.write_text("\n".join([*texts, TEXT]), encoding="utf-8")
    reading = train([corpus], kind="wordpiece", vocab_size=300)
    writing = train([corpus], kind="bpe", vocab_size=400)
    folders = {}
    for place, (name, (kind, head, settings)) in enumerate(MODELS.items()):
        torch.manual_seed(place)
        tokenizer = writing if head == "text-generation" else reading
        extra = {"vocab_size": tokenizer.vocab_size, "pad_token_id": tokenizer.pad_token_id}
        if head == "text2text-generation":
            extra |= {"decoder_start_token_id": tokenizer.cls_token_id, "eos_token_id": tokenizer.sep_token_id}
        if kind == "gpt2":
            extra.pop("pad_token_id")
            extra |= {"eos_token_id": tokenizer.eos_token_id, "bos_token_id": tokenizer.eos_token_id}
        model = gf.build(kind, head, **settings, **extra).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(4)
        folders[name] = where / name
        gf.save(model, folders[name], tokenizer=tokenizer)
    return folders


@contextmanager
def serving(app: Any) -> Iterator[str]:
    """A real server in a thread; its address."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(10)


@pytest.fixture(scope="session")
def studio(studio_folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Studio:
    shelf = Shelf([str(folder) for folder in studio_folders.values()])
    return Studio(shelf, Traces(), runs=tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="session")
def studio_url(studio: Studio) -> Iterator[str]:
    with serving(create_app(studio)) as url:
        yield url


@pytest.fixture
def page(browser: Any, studio_url: str) -> Iterator[Any]:
    """A page of the studio; at the end there must have been no error, and nobody else may have been asked."""
    with watched(browser, studio_url) as one:
        yield one


@contextmanager
def watched(browser: Any, url: str, **settings: Any) -> Iterator[Any]:
    context = browser.new_context(base_url=url, **({"viewport": {"width": 1440, "height": 900}} | settings))
    one = context.new_page()
    one.set_default_timeout(20_000)
    faults: list[str] = []
    one.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    one.on("pageerror", lambda error: faults.append(str(error)))
    one.on("request", lambda asked: None if asked.url.startswith((url, "data:", "blob:")) else faults.append(asked.url))
    one.faults = faults  # a test that provokes an error clears it
    try:
        yield one
        assert faults == []
    finally:
        context.close()


@pytest.fixture
def visit(page: Any) -> Callable[..., Any]:
    """Open a screen and wait until it is painted: visit("head", model="bert", text="…")."""

    def go(screen: str, **state: Any) -> Any:
        from urllib.parse import urlencode

        page.goto("/?" + urlencode({"screen": screen, "lang": "en", **state}))
        page.wait_for_selector(f".screen-{screen}[data-painted=yes]")
        return page

    return go
