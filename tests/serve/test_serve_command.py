"""`glassformer serve`: a real process, from its address to its end, and every way to start it wrongly."""

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

import glassformer as gf
from glassformer.blocks.memory import free_on_this_machine
from glassformer.generate.continuous import PREFIX_BYTES, reserved_bytes
from glassformer.serve import worker
from glassformer.serve.limits import Limits
from glassformer.serve.memory import need_of
from glassformer.serve.messages import WorkerSpec
from glassformer.zoo import folder_of
from serve.cases import asked, running

CURL = shutil.which("curl")


@contextmanager
def started(*words, cwd, **more):
    """The command in a process of its own, once it has said its address."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": "1", **more}
    command = [sys.executable, "-m", "glassformer", "serve", *map(str, words)]
    running = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=cwd
    )
    try:
        while found := running.stdout.readline():
            if match := re.search(r"serving at (\S+)", found):
                yield running, match[1].rstrip("/")
                break
        else:
            raise AssertionError(running.stderr.read())
    finally:
        running.kill()
        running.communicate()


def test_it_serves_and_ends_when_it_is_told_to_with_open_streams(tmp_path):
    """SIGTERM under load: what is open gets its end, a line for each request is on stderr, and the exit code is 0."""
    with started("zoo:gpt-mini-en", "--port", 0, "--shutdown-timeout", 5, cwd=tmp_path) as (server, address):
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+", address)
        assert asked(f"{address}/ready")[0] == 200
        body = {"model": "gpt-mini-en", "prompt": "secret", "max_tokens": 100, "temperature": 0, "stream": True}
        with httpx.stream("POST", f"{address}/v1/completions", json=body, timeout=60) as answer:
            lines = answer.iter_lines()
            next(lines)
            server.send_signal(signal.SIGTERM)
            rest = [line for line in lines if line]
        assert rest[-1] == "data: [DONE]" or "shutting down" in rest[-1]
        assert server.wait(30) == 0
        logged = server.stderr.read()
    routes = [json.loads(line)["route"] for line in logged.splitlines()]
    assert routes == ["/ready", "/v1/completions"]
    assert "secret" not in logged


@pytest.mark.slow
@pytest.mark.skipif(CURL is None, reason="needs curl")
def test_a_unix_socket_a_key_file_and_curl(tmp_path):
    (tmp_path / "key").write_text("open sesame\n")
    words = ["zoo:embed-mini-en", "--unix-socket", "s.sock", "--key-file", "key", "--no-access-log"]
    with started(*words, cwd=tmp_path) as (server, address):
        assert address == "unix:s.sock"
        assert (tmp_path / "s.sock").stat().st_mode & 0o777 == 0o600
        curl = [CURL, "-s", "--unix-socket", "s.sock", "http://localhost/embed", "-d", '{"inputs": "a"}']
        curl += ["-H", "Content-Type: application/json"]
        told = json.loads(subprocess.run(curl, cwd=tmp_path, capture_output=True, check=True).stdout)
        assert told["error_type"] == "authentication"
        curl += ["-H", "Authorization: Bearer open sesame"]
        (vector,) = json.loads(subprocess.run(curl, cwd=tmp_path, capture_output=True, check=True).stdout)
        assert len(vector) == 192
        server.send_signal(signal.SIGINT)
        assert server.wait(30) == 0
        assert server.stderr.read() == ""
    assert not (tmp_path / "s.sock").exists()


@pytest.mark.slow
def test_a_unix_socket_may_be_for_a_group_and_for_nobody_else(tmp_path):
    words = ["zoo:embed-mini-en", "--unix-socket", "s.sock", "--unix-socket-mode", "0660"]
    with started(*words, cwd=tmp_path):
        assert (tmp_path / "s.sock").stat().st_mode & 0o777 == 0o660


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_tls(tmp_path):
    make = "openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost"
    more = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run([*make.split(), *more], cwd=tmp_path, capture_output=True, check=True)
    words = ["zoo:embed-mini-en", "--port", 0, "--tls-cert", "cert.pem", "--tls-key", "key.pem"]
    with started(*words, cwd=tmp_path) as (_, address):
        assert address.startswith("https://")
        import ssl

        trusted = ssl.create_default_context(cafile=tmp_path / "cert.pem")
        assert httpx.get(f"{address}/health", verify=trusted).json() == {"status": "ok"}
        with pytest.raises(httpx.HTTPError):
            httpx.get(address.replace("https", "http") + "/health", timeout=5)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_files_of_tls_that_cannot_be_used_are_named_with_the_fix(glassformer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("one", "other"):
        make = (
            f"openssl req -x509 -newkey rsa:2048 -nodes -keyout {name}.key -out {name}.pem -days 2 -subj /CN=localhost"
        )
        subprocess.run(make.split(), capture_output=True, check=True)
    for make in (
        "x509 -in one.pem -outform der -out one.der",
        "rsa -in one.key -aes128 -passout pass:ab -out locked.key",
    ):
        subprocess.run(["openssl", *make.split()], capture_output=True, check=True)
    Path("noise.pem").write_bytes(b"\x00\xff" * 40)
    for cert, key, said in [
        ("one.der", "one.key", "--tls-cert one.der holds no certificate in PEM"),
        ("noise.pem", "one.key", "--tls-cert noise.pem holds no certificate in PEM"),
        ("one.pem", "noise.pem", "--tls-key noise.pem holds no private key in PEM"),
        ("one.pem", "other.key", "--tls-key other.key is not the key of --tls-cert one.pem"),
        ("one.pem", "locked.key", "--tls-key locked.key is not the key of --tls-cert one.pem"),
    ]:
        code, _, err = glassformer("serve", "zoo:en-de", "--tls-cert", cert, "--tls-key", key)
        assert (code, said in err, err.count("\n")) == (1, True, 1), err


@pytest.mark.slow
def test_the_studio_lies_beside_it(tmp_path):
    with started("zoo:lstm-sentiment", "--port", 0, "--studio", cwd=tmp_path) as (_, address):
        page = httpx.get(f"{address}/studio", follow_redirects=True).text
        for name in re.findall(r'(?:href|src)="(static/[^"]+)"', page):
            assert httpx.get(f"{address}/studio/{name}").status_code == 200, name
        models = httpx.get(f"{address}/studio/api/v1/models", timeout=60).json()
        assert [one["name"] for one in models] == ["lstm-sentiment"]
        assert httpx.get(f"{address}/studio/api/v1/models", headers={"Host": "evil.example"}).status_code == 403


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--host", "0.0.0.0"], "--host 0.0.0.0 lets other machines in: give a --key-file"),
        (["--key-file", "no-such-file"], "--key-file no-such-file cannot be read"),
        (["--key-file", os.devnull], f"--key-file {os.devnull} is empty"),
        (["--max-body", "lots"], "--max-body 'lots' is no size: write it like 500MB or 2GB"),
        (["--unix-socket", "s.sock", "--unix-socket-mode", "0666"], "--unix-socket-mode '0666' is none that a socket"),
        (["--unix-socket", "s.sock", "--unix-socket-mode", "rw"], "--unix-socket-mode 'rw' is none that a socket"),
        (["--tls-cert", "cert.pem"], "--tls-cert and --tls-key belong together"),
        (["--tls-cert", "no.pem", "--tls-key", "no.pem"], "--tls-cert no.pem is no file"),
        (["zoo:en-de"], "are both called 'en-de'; rename one of them"),
        (["--unix-socket", os.devnull], f"--unix-socket {os.devnull} is there already"),
        (["--studio", "--host", "0.0.0.0", "--insecure-no-auth"], "--studio is for this machine's own browser"),
    ],
)
def test_what_cannot_be_started_says_why(glassformer, monkeypatch, words, said):
    monkeypatch.delenv("GLASSFORMER_SERVE_KEY", raising=False)
    code, _, err = glassformer("serve", "zoo:en-de", *words)
    assert (code, said in err, err.count("\n")) == (1, True, 1), err


@pytest.mark.parametrize(("models", "workers"), [(["zoo:gpt-mini-en"], 3), (["zoo:gpt-mini-en", "copy"], 2)])
def test_memory_is_reserved_for_all_workers_together(tmp_path, models, workers):
    """Each of them alone would fit; they are refused before one is begun, in one line with both numbers."""
    shutil.copytree(folder_of("zoo:gpt-mini-en"), tmp_path / "copy")
    one, free = need_of(WorkerSpec("zoo:gpt-mini-en", rows=1000)), free_on_this_machine()
    rows = int(0.6 * free / (one.caches / 1000))
    words = [sys.executable, "-m", "glassformer", "serve", *models, "--rows", rows, "--workers", workers, "--port", 0]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run(
        [*map(str, words)], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert (run.returncode, run.stderr.count("\n")) == (1, 1), run.stderr
    said = r"error: the (\d) workers need about ([\d.]+) GB \([\d.]+ GB .*\) and cpu has ([\d.]+) GB free: give fewer"
    found = re.match(said, run.stderr)
    assert found, run.stderr
    assert int(found[1]) == workers * len(models)
    assert float(found[2]) > float(found[3]) > float(found[2]) / int(found[1])


def test_what_a_worker_needs_is_what_it_reserves():
    """By its config alone, of a language model as of any other."""
    spec = WorkerSpec("zoo:gpt-mini-en", rows=3, max_length=50)
    model = gf.load("zoo:gpt-mini-en")
    found = need_of(spec)
    assert found.weights == sum(one.numel() * one.element_size() for one in model.parameters())
    assert found.caches == reserved_bytes(model, rows=3, length=50, prefix_bytes=PREFIX_BYTES)
    other = need_of(WorkerSpec("zoo:embed-mini-en", dtype="bfloat16"))
    assert (other.weights, other.caches) == (
        2 * sum(one.numel() for one in gf.load("zoo:embed-mini-en").parameters()),
        0,
    )


def test_a_port_in_use_is_one_line_with_the_fix(glassformer):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, _, err = glassformer("serve", "zoo:en-de", "--port", port)
    assert (code, f"port {port} is in use" in err) == (1, True)


def test_a_missing_extra_is_one_line_with_the_fix(glassformer, monkeypatch):
    monkeypatch.setitem(sys.modules, "orjson", None)
    code, _, err = glassformer("serve", "zoo:en-de")
    assert (code, err) == (1, "error: the server needs orjson: pip install 'glassformer[serve]'\n")


@pytest.mark.slow
def test_a_folder_that_is_not_there_ends_it_in_one_line(tmp_path):
    words = [sys.executable, "-m", "glassformer", "serve", "./nowhere", "--port", "0"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr.count("\n")) == (1, 1), run.stderr
    assert "there is no folder './nowhere'" in run.stderr


def test_the_server_itself_imports_no_torch():
    """Its process stays small, and answers /health while the models are loaded in others."""
    code = "import sys, glassformer.serve.run, glassformer.cli.main\nprint('torch' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert said.stdout.strip() == "False"


def memory_of(*pids):
    """Bytes of the processes, as far as they share them with nobody."""
    pages = [Path(f"/proc/{pid}/statm").read_text().split() for pid in pids]
    return sum((int(one[1]) - int(one[2])) * os.sysconf("SC_PAGE_SIZE") for one in pages)


async def flood(url, count, longest):
    """Many requests for vectors, of texts of many lengths, sixteen at once."""
    async with httpx.AsyncClient(timeout=60, limits=httpx.Limits(max_connections=16)) as client:
        bodies = ({"inputs": "a " * (1 + number % longest)} for number in range(count))
        turns = asyncio.Semaphore(16)

        async def one(body):
            async with turns:
                assert (await client.post(f"{url}/embed", json=body)).status_code == 200

        await asyncio.gather(*map(one, bodies))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").is_file(), reason="needs /proc")
def test_memory_does_not_grow_with_requests():
    """Of a worker at rest, over some thousands of requests of many shapes, after a warm-up."""
    with running(["zoo:embed-mini-en"], limits=Limits(queue=64)) as one:
        (pid,) = one.service.models["embed-mini-en"].pids
        asyncio.run(flood(one.url, 1000, 25))
        time.sleep(worker.IDLE + 1)
        before = memory_of(pid)
        asyncio.run(flood(one.url, 3000, 25))
        time.sleep(worker.IDLE + 1)
        assert memory_of(pid) - before < 20e6


def test_a_worker_without_work_gives_memory_back(monkeypatch):
    """Once, when nothing has come for a while; what comes then is taken as ever."""
    times, given = [], threading.Event()
    monkeypatch.setattr(worker, "IDLE", 0.02)
    monkeypatch.setattr(worker, "give_back_memory", lambda: (times.append(1), given.set()))
    inference = SimpleNamespace(spec=SimpleNamespace(batch_tokens=64))
    waiting = worker.Worker(None, inference, None)
    threading.Timer(0.2, waiting.inbox.put, ["a message"]).start()
    assert waiting._next() == "a message"
    assert given.is_set()
    assert len(times) == 1
    waiting.inbox.put("another")
    assert waiting._next() == "another"
    assert len(times) == 1
