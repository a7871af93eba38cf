"""Names on a hub: a real server on 127.0.0.1, the cache, mirrors, revisions, and no call home."""

import hashlib
import os
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import torch

import glassformer as gf
from families import SMALL_BERT, random_model
from glassformer.hub import fetch

COMMITS = {"main": "a" * 40, "old": "b" * 40}


class FakeHub(ThreadingHTTPServer):
    """Serves folders the way the hub does: HEAD for the commit and etag, GET for the file."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.repositories: dict[tuple[str, str], Path] = {}
        self.requests: list[tuple[str, str, str | None]] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: FakeHub

    def log_message(self, *_args) -> None:
        pass

    def answer(self, *, with_body: bool) -> None:
        self.server.requests.append((self.command, self.path, self.headers.get("Authorization")))
        name, _, rest = self.path.lstrip("/").partition("/resolve/")
        revision, _, file = rest.split("?")[0].partition("/")
        revision = next((key for key, commit in COMMITS.items() if commit == revision), revision)
        folder = self.server.repositories.get((name, revision))
        path = folder / file if folder else None
        self.send_response(200 if path and path.is_file() else 404)
        if folder is None:
            self.send_header("X-Error-Code", "RepoNotFound" if revision == "main" else "RevisionNotFound")
        elif not path.is_file():
            self.send_header("X-Error-Code", "EntryNotFound")
            self.send_header("X-Repo-Commit", COMMITS[revision])
        body = path.read_bytes() if path and path.is_file() else b""
        self.send_header("Content-Length", str(len(body)))
        if body:
            self.send_header("ETag", f'"{hashlib.sha256(body).hexdigest()}"')
            self.send_header("X-Repo-Commit", COMMITS[revision])
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def do_HEAD(self) -> None:
        self.answer(with_body=False)

    def do_GET(self) -> None:
        self.answer(with_body=True)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub with one model in two revisions; the environment is set after all imports, and must count."""
    server = FakeHub()
    for revision in COMMITS:
        folder = gf.save(random_model("bert", None, SMALL_BERT, seed=len(revision)), tmp_path / revision)
        (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello", "world"]))
        server.repositories["lab/tiny", revision] = folder
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    yield server
    server.shutdown()
    server.server_close()


def token_weight(model):
    return model.embeddings.token.weight


def test_a_name_is_fetched_once_and_then_opens_no_socket(hub, monkeypatch):
    first = gf.load("lab/tiny")
    assert gf.load_tokenizer("lab/tiny")("hello world")["input_ids"] == [2, 5, 6, 3]
    asked = len(hub.requests)
    assert asked > 0

    def no_socket(*_args, **_kwargs):
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", no_socket)
    monkeypatch.setattr(socket, "create_connection", no_socket)
    again = gf.load("lab/tiny")
    gf.load_tokenizer("lab/tiny")
    assert torch.equal(token_weight(first), token_weight(again))
    assert len(hub.requests) == asked


def test_a_token_is_never_sent_to_a_mirror(hub):
    gf.load("lab/tiny")
    gf.load_tokenizer("lab/tiny")
    assert hub.requests
    assert {authorization for _, _, authorization in hub.requests} == {None}


def test_a_revision_is_its_own_model(hub):
    main, old = gf.load("lab/tiny"), gf.load("lab/tiny", revision="old")
    assert not torch.equal(token_weight(main), token_weight(old))
    with pytest.raises(ValueError, match=r"no such repository \(revision never\)"):
        gf.load("lab/tiny", revision="never")


def test_offline_uses_the_cache_and_asks_nobody(hub, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ValueError, match="HF_HUB_OFFLINE is set"):
        gf.load("lab/tiny")
    assert hub.requests == []
    monkeypatch.delenv("HF_HUB_OFFLINE")
    gf.load("lab/tiny")
    asked = len(hub.requests)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    gf.load("lab/tiny")
    assert len(hub.requests) == asked


def test_all_files_of_a_tokenizer_are_fetched(hub):
    """Also when a first attempt broke off half-way."""
    folder = hub.repositories["lab/tiny", "main"]
    (folder / "added_tokens.json").write_text('{"<new>": 7}')
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    (folder / "vocab.txt").rename(folder / "away")
    with pytest.raises(ValueError, match="has no tokenizer"):
        gf.load_tokenizer("lab/tiny")
    (folder / "away").rename(folder / "vocab.txt")
    tokens = gf.load_tokenizer("lab/tiny").tokenize("hello Hello <new>")
    assert tokens == ["hello", "[UNK]", "<new>"]


def test_a_half_fetched_model_is_completed(hub):
    fetch.config_folder("lab/tiny")
    assert not any("model.safetensors" in path for _, path, _ in hub.requests)
    assert token_weight(gf.load("lab/tiny")).shape == (41, 12)


def test_names_that_lead_nowhere_are_explained(hub, tmp_path):
    with pytest.raises(ValueError, match="there is no folder 'lab/nothing', and .* has no such repository"):
        gf.load("lab/nothing")
    empty = tmp_path / "empty"
    empty.mkdir()
    hub.repositories["lab/empty", "main"] = empty
    with pytest.raises(ValueError, match=r"lab/empty at .* has no config\.json"):
        gf.load("lab/empty")
    with pytest.raises(ValueError, match="has no tokenizer; looked for tokenizer.json"):
        gf.load_tokenizer("lab/empty")
    (empty / "config.json").write_text('{"model_type": "bert"}')
    hub.repositories["lab/half", "main"] = empty
    with pytest.raises(ValueError, match="has no weights; looked for model.safetensors"):
        gf.load("lab/half")
    with pytest.raises(ValueError, match="no hub name looks like that"):
        gf.load("what is this?")


@pytest.mark.parametrize("name", ["lab/tinny", "./tinny", "lab/some/tiny", "/nowhere/tiny", "~/no-such-folder-here"])
def test_a_mistyped_folder_is_not_asked_for_on_the_hub(hub, tmp_path, monkeypatch, name):
    (tmp_path / "lab" / "tiny").mkdir(parents=True)
    (tmp_path / "tiny").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=f"there is no folder {name!r}") as error:
        gf.load(name)
    near = {"lab/tinny": "near it: lab/tiny (a folder 'lab' is here", "./tinny": "near it: tiny"}
    assert near.get(name, "") in str(error.value)
    assert hub.requests == []


def test_a_name_that_no_hub_knows_is_answered_with_folders_like_it(hub, tmp_path, monkeypatch):
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="there is no folder 'rnus/tiny'; near it: runs, and .* has no such"):
        gf.load("rnus/tiny")
    assert hub.requests


def test_without_a_network_there_is_one_line_and_no_trying_again(tmp_path):
    """A port that was free a moment ago takes no connection; huggingface_hub would warn of each attempt on stderr."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    code = "from glassformer.hub.fetch import config_folder\ntry: config_folder('lab/tiny')\n"
    code += "except ValueError as error: print(error)"
    env = {**os.environ, "HF_ENDPOINT": f"http://127.0.0.1:{port}", "HF_HUB_CACHE": str(tmp_path), "HF_HUB_OFFLINE": ""}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    assert f"http://127.0.0.1:{port} cannot be reached (connection refused); or is the path mistyped?" in done.stdout
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""


def test_a_network_that_swallows_everything_is_not_waited_for(monkeypatch):
    over = threading.Event()

    def silent(*_args, **_kwargs):
        over.wait(60)
        raise TimeoutError

    monkeypatch.setattr(socket, "create_connection", silent)
    assert "no answer in 0.01 s" in str(fetch.knock("huggingface.co", 443, wait=0.01))
    over.set()


def test_a_proxy_is_who_must_answer(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    assert fetch.host_and_port("https://huggingface.co") == ("huggingface.co", 443)
    assert fetch.host_and_port("http://mirror:8080/hf") == ("mirror", 8080)
    monkeypatch.setenv("https_proxy", "http://me:secret@proxy.lab:3128")
    assert fetch.host_and_port("https://huggingface.co") == ("proxy.lab", 3128)
    assert fetch.host_and_port("http://mirror") == ("mirror", 80)
    monkeypatch.setenv("no_proxy", "huggingface.co")
    assert fetch.host_and_port("https://huggingface.co") == ("huggingface.co", 443)


def test_a_local_folder_needs_no_network_at_all(tmp_path):
    """In a fresh process in which sockets cannot be made."""
    folder = gf.save(random_model("bert", None, SMALL_BERT), tmp_path)
    (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello"]))
    code = """
import sys
def refuse(event, args):
    if event.startswith("socket."): raise SystemExit(f"a socket was opened: {event}")
sys.addaudithook(refuse)
import glassformer as gf
model, tok = gf.load(sys.argv[1]), gf.load_tokenizer(sys.argv[1])
print(model(**tok(["hello"], return_tensors="pt")).last_hidden_state.shape)
"""
    done = subprocess.run([sys.executable, "-c", code, folder], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "torch.Size([1, 3, 12])", done.stderr
