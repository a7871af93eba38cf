"""Corpora and tables that lie in a bucket (s3://, a server of its protocol) or on a hub (hf://), both on this machine:
what comes of them is what comes of the same files in a folder."""

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import torch

import glassformer as gf
from glassformer.data import microworld, shard_store
from glassformer.data.shards import Shards
from glassformer.text.train import train

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),  # of the clients' own
]
MODEL = {"n_layer": 1, "n_embd": 16, "n_head": 2, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "resid_pdrop": 0.0}
LOOP = {"steps": 6, "batch_size": 4, "block_size": 16, "lr": 1e-2, "config": MODEL, "device": "cpu"}
RUN = {**LOOP, "task": "text-generation", "arch": "gpt2", "shuffle_window": 500}
TABLE = "text,id\n" + "".join(f"a film that is {'good' if number % 2 else 'bad'},{number}\n" for number in range(7))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Texts and a tokenizer, and beside them the shards that are made of them here."""
    folder = tmp_path_factory.mktemp("corpus")
    for number in range(4):
        own = microworld.examples("documents", 40)[number::4]
        (folder / f"{number}.txt").write_text("\n\n".join(story.text for story in own), encoding="utf-8")
    train(sorted(folder.glob("*.txt")), kind="bpe", vocab_size=400).save(folder / "tok")
    assert commanded(*tokenising(str(folder), corpus=folder, out=folder / "tokens")).returncode == 0
    return folder


@pytest.fixture(scope="module")
def bucket():
    """An empty bucket, as its client sees it."""
    moto, s3fs = pytest.importorskip("moto.server"), pytest.importorskip("s3fs")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "someone")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        files = s3fs.S3FileSystem(use_listings_cache=False)
        files.mkdir("bucket")
        yield files
    server.stop()


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(shard_store, "PAUSE", 0.0)


def commanded(*words, **environment):
    """The command line in a process of its own, which has seen no listing before."""
    path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    asked = [sys.executable, "-m", "glassformer", *map(str, words)]
    return subprocess.run(asked, capture_output=True, text=True, env={**os.environ, **path, **environment})


def tokenising(place, *, corpus, out):
    asked = ["data", "tokenize", f"{place}/*.txt", "--tokenizer", corpus / "tok", "--out", out, "--unit", "block"]
    return [*asked, "--shard-tokens", "400", "--jobs", "1"]


def weights(folder):
    return gf.load(folder).state_dict()


def test_what_is_tokenised_in_a_bucket_is_learnt_as_from_a_folder(bucket, corpus, tmp_path):
    bucket.put([str(one) for one in sorted(corpus.glob("*.txt"))], "bucket/texts/")
    for times in ("done", "found again"):
        ended = commanded(*tokenising("s3://bucket/texts", corpus=corpus, out="s3://bucket/tokens"))
        assert ended.returncode == 0, ended.stderr
        assert ("were done before" in ended.stdout) == (times == "found again")
    here = {str(one.relative_to(corpus / "tokens")): one for one in (corpus / "tokens").rglob("*.npy")}
    there = {one.removeprefix("bucket/tokens/"): one for one in bucket.find("bucket/tokens") if one.endswith(".npy")}
    assert sorted(Path(one).name for one in there) == sorted(Path(one).name for one in here)
    assert Shards("s3://bucket/tokens")[:].tolist() == Shards(corpus / "tokens")[:].tolist()
    for name, data in (("here", corpus / "tokens"), ("there", "s3://bucket/tokens")):
        gf.train(**RUN, data=data, out=tmp_path / name, log=lambda _: None)
    same = {
        key: torch.equal(value, weights(tmp_path / "there")[key]) for key, value in weights(tmp_path / "here").items()
    }
    assert all(same.values()), same
    ended = commanded("eval", tmp_path / "there", "--data", "s3://bucket/tokens", "--json")
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["loss"] > 0


def test_two_processes_stream_a_bucket_as_one_does(bucket, corpus, tmp_path):
    bucket.put(str(corpus / "tokens"), "bucket/shared", recursive=True)
    run = ["train", "text-generation", "--arch", "gpt2", "--data", "s3://bucket/shared", "--steps", "6", "--set"]
    run += ["block_size=16", "--set", "batch_size=4", "--set", "shuffle_window=500", "--set", "device=cpu"]
    run += [word for name, value in MODEL.items() for word in ("--set", f"config.{name}={value}")]
    many = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "glassformer"]
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ended = subprocess.run([*many, *run, "--out", tmp_path / "two"], capture_output=True, text=True, env=path)
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert commanded(*run, "--out", tmp_path / "one").returncode == 0
    for name, value in weights(tmp_path / "one").items():
        torch.testing.assert_close(weights(tmp_path / "two")[name], value, rtol=1e-4, atol=1e-6)


def test_tables_in_a_bucket_are_predicted_row_for_row(bucket, tmp_path, glassformer):
    (tmp_path / "in").mkdir()
    for number in range(3):
        (tmp_path / "in" / f"{number}.csv").write_text(TABLE)
        bucket.pipe(f"bucket/reviews/{number}.csv", TABLE.encode())
    asked = ["--columns", "text=text", "--json"]
    for place, out in ((tmp_path / "in", "here"), ("s3://bucket/reviews", "there")):
        code, printed, _ = glassformer(
            "predict", "zoo:lstm-sentiment", "--data", f"{place}/*.csv", "--out", tmp_path / out, *asked
        )
        assert code == 0
        assert json.loads(printed)["rows"] == 21
    for number in range(3):
        assert (tmp_path / "there" / f"{number}.csv").read_text() == (tmp_path / "here" / f"{number}.csv").read_text()


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("s3://bucket/nothing/*.csv", "there is no file 's3://bucket/nothing/*.csv'"),
        ("s3://nobody/*.csv", "there is no file 's3://nobody/*.csv'"),
        ("s3://nobody/a.csv", "s3://nobody/a.csv cannot be listed"),
    ],
)
def test_what_is_not_in_a_bucket_is_named(bucket, glassformer, tmp_path, place, reason):
    code, out, err = glassformer("predict", "zoo:lstm-sentiment", "--data", place, "--out", tmp_path / "out")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert reason in err


def test_a_bucket_that_cannot_be_written_to_or_reached_is_one_line(bucket, corpus, tmp_path):
    bucket.put([str(one) for one in sorted(corpus.glob("*.txt"))], "bucket/more/")
    for place, environment in (
        ("s3://nobody/tokens", {}),
        ("s3://bucket/x", {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}),
    ):
        ended = commanded(*tokenising(str(corpus), corpus=corpus, out=place), **environment, AWS_MAX_ATTEMPTS="1")
        assert ended.returncode == 1
        error = ended.stderr.strip().splitlines()[-1]
        assert error.startswith(f"error: {place}"), error
        assert "Traceback" not in ended.stderr


class FakeHub(ThreadingHTTPServer):
    """The data sets of a hub: lists what is in a folder, and gives files."""

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder = folder
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(BaseHTTPRequestHandler):
    """Repository lab/corpus, revision main."""

    server: FakeHub

    def log_message(self, *_args) -> None:
        pass

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        api, tree = "/api/datasets/lab/corpus", "/api/datasets/lab/corpus/tree/main"
        files = "/datasets/lab/corpus/resolve/main/"
        if path in (api, f"{api}/revision/main"):
            self.send({"id": "lab/corpus", "sha": "a" * 40, "siblings": []})
        elif path == tree or path.startswith(f"{tree}/"):
            folder = self.server.folder / path.removeprefix(tree).strip("/")
            found = [self.entry(one) for one in sorted(folder.iterdir())] if folder.is_dir() else None
            self.send(found) if found is not None else self.send({"error": "not found"}, 404)
        elif path.startswith(files) and (file := self.server.folder / path.removeprefix(files)).is_file():
            self.send(file.read_bytes())
        else:
            self.send({"error": "not found"}, 404)

    def do_POST(self) -> None:
        """Of some paths what each is, those left out that are not there."""
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        paths = (
            json.loads(body)["paths"] if body.startswith("{") else [unquote(body.partition("paths=")[2].split("&")[0])]
        )
        there = [self.server.folder / one for one in ([paths] if isinstance(paths, str) else paths)]
        self.send([self.entry(one) for one in there if one.exists()])

    def entry(self, path: Path) -> dict[str, object]:
        name = str(path.relative_to(self.server.folder))
        if path.is_dir():
            return {"type": "directory", "oid": "b" * 40, "size": 0, "path": name}
        return {"type": "file", "oid": "c" * 40, "size": path.stat().st_size, "path": name}

    def send(self, answer: object, status: int = 200) -> None:
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.end_headers()


def test_shards_on_a_hub_are_streamed(corpus, tmp_path):
    hub = FakeHub(corpus)
    run = ["train", "text-generation", "--arch", "gpt2", "--data", "hf://datasets/lab/corpus/tokens", "--steps", "6"]
    run += ["--set", "block_size=16", "--set", "batch_size=4", "--set", "device=cpu", "--set", "shuffle_window=500"]
    run += [word for name, value in MODEL.items() for word in ("--set", f"config.{name}={value}")]
    online = {"HF_ENDPOINT": f"http://127.0.0.1:{hub.server_port}", "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1"}
    try:
        ended = commanded(*run, "--out", tmp_path / "there", **online)
        assert ended.returncode == 0, ended.stderr[-2000:]
    finally:
        hub.shutdown()
        hub.server_close()
    run[5] = corpus / "tokens"
    assert commanded(*run, "--out", tmp_path / "here").returncode == 0
    for name, value in weights(tmp_path / "here").items():
        torch.testing.assert_close(weights(tmp_path / "there")[name], value)
