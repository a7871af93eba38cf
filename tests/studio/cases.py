"""Small models of every family for the studio, a server, and a page that is watched."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
import torch

import glassformer as gf
from browser import borrowed, context, heard
from glassformer.data import microworld
from glassformer.text.train import train
from glassformer.web.server import server_of

SIZE = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 20}
ENCODER = {**SIZE, "max_position_embeddings": 64}
DEBERTA = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_buckets": 8, "conv_kernel_size": 3}
MODERNBERT = {"local_attention": 4, "classifier_pooling": "mean"}
TRANSFORMER = {"d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2}
TRANSFORMER |= {"decoder_attention_heads": 2, "encoder_ffn_dim": 20, "decoder_ffn_dim": 20}
RNN = {"embedding_size": 12, "hidden_size": 10}
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "rnn": ("glassformer-rnn", "text-classification", {**RNN, "kind": "rnn"}),
    "lstm": ("glassformer-rnn", "text-classification", {**RNN, "kind": "lstm", "bidirectional": True}),
    "gru-lm": ("glassformer-rnn", "text-generation", {**RNN, "kind": "gru", "num_layers": 2}),
    "cnn": ("glassformer-cnn", "text-classification", {"embedding_size": 12, "num_filters": 4}),
    "bow": ("glassformer-bow", "text-classification", {"initializer_range": 0.1}),
    "seq2seq": ("glassformer-seq2seq", "text2text-generation", {**RNN, "kind": "lstm"}),
    "transformer": ("glassformer-transformer", "text2text-generation", TRANSFORMER),
    "bert": ("bert", "text-classification", {**ENCODER, "num_labels": 3}),
    "bert-ner": ("bert", "token-classification", {**ENCODER, "num_labels": 5}),
    "bert-qa": ("bert", "question-answering", ENCODER),
    "bert-mlm": ("bert", "fill-mask", ENCODER),
    "albert": ("albert", "text-classification", {**ENCODER, "embedding_size": 12, "num_labels": 3}),
    "electra": ("electra", "replaced-token-detection", {**ENCODER, "embedding_size": 12}),
    "gpt2": ("gpt2", "text-generation", {"n_embd": 16, "n_head": 2, "n_layer": 2, "n_positions": 64}),
    "deberta": ("deberta-v2", "token-classification", {**ENCODER, **DEBERTA, "num_labels": 5}),
    "modernbert": ("modernbert", "text-classification", {**ENCODER, **MODERNBERT, "num_labels": 3}),
}
AGAIN = ("rnn", "bert-ner", "bert-qa", "bert-mlm")  # other heads and cells of families that are there without them
FAMILIES = [pytest.param(name, marks=[pytest.mark.slow] * (name in AGAIN)) for name in MODELS]
TEXT = "Anna gave the red book to Tom ."
http = httpx.Client(verify=False)  # no certificates: to read them costs more than an answer


def every_second(first: int) -> list[Any]:
    """The families; the quick suite takes every second, as what a page costs is the browser's and not the family's."""
    quick = [name for name in MODELS if name not in AGAIN][first::2]
    return [pytest.param(name, marks=[pytest.mark.slow] * (name not in quick)) for name in MODELS]


def made(where: Path) -> dict[str, Path]:
    """A folder for every family, random but with weights large enough to look somewhere."""
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


def kept(app: Any) -> Any:
    """The app, whose scripts and styles a browser asks for once: to hear that each is unchanged costs half a load."""

    async def answered(scope: Any, receive: Any, send: Any) -> None:
        async def sent(message: Any) -> None:
            if scope.get("path", "").startswith("/static/") and message.get("status") == 200:
                others = [one for one in message["headers"] if one[0] != b"cache-control"]
                message["headers"] = [*others, (b"cache-control", b"max-age=600")]
            await send(message)

        await app(scope, receive, sent)

    return answered


@contextmanager
def serving(app: Any) -> Iterator[str]:
    """A real server in a thread; its address."""
    server = server_of(kept(app), port=0, log_level="error")
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


@contextmanager
def watched(browser: Any, url: str, **size: int) -> Iterator[Any]:
    """A new tab, which is closed at the end; `watching` it."""
    one = context(browser, url=url, **size).new_page()
    try:
        with watching(one, url):
            yield one
    finally:
        one.close()


@contextmanager
def watched_again(browser: Any, url: str, **size: int) -> Iterator[Any]:
    """As watched, in a tab that is used again: for a server that stays."""
    with borrowed(browser, url=url, **size) as one, watching(one, url):
        yield one


@contextmanager
def watching(one: Any, url: str) -> Iterator[None]:
    """At the end there must have been no error and no dialog, and nobody else may have been asked."""
    one.set_default_timeout(20_000)
    one.faults = faults = []  # a test that provokes an error clears it
    one.loaded = False

    def dismiss(dialog: Any) -> None:
        faults.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    with heard(
        one,
        console=lambda message: faults.append(message.text) if message.type == "error" else None,
        pageerror=lambda error: faults.append(str(error)),
        request=lambda asked: None if asked.url.startswith((url, "data:", "blob:")) else faults.append(asked.url),
        dialog=dismiss,
    ):
        yield
        assert not faults, faults


def turn(page: Any, address: str) -> None:
    """Go on to another address of the studio as its own links do: the page is loaded the first time alone."""
    if not page.loaded:
        page.goto(address)
        page.loaded = True
        return
    page.evaluate(
        "(address) => { document.querySelector('#screen').replaceChildren(); history.pushState(null, '', address);"
        "dispatchEvent(new PopStateEvent('popstate')) }",
        address,
    )


def visited(page: Any, screen: str, **state: Any) -> Any:
    """The page, when that screen is painted."""
    turn(page, "/?" + urlencode({"screen": screen, "lang": "en", **state}))
    page.wait_for_selector(f".screen-{screen}[data-painted=yes]")
    return page
