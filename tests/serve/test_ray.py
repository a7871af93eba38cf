"""The server on a Ray cluster: the same answers, and none is lost when a replica dies."""

import asyncio
import os
import signal
import socket
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

import glassformer as gf
from glassformer.serve.limits import Limits
from glassformer.serve.messages import Call, Fault, WorkerSpec
from glassformer.serve.ray_engine import Engine
from glassformer.serve.ray_run import PATIENCE, RayServer, RaySettings, replicas_of
from serve.cases import asked
from serve.test_engine import until
from serve.test_hostile import HANDSHAKE, rest_of

EMBEDS, WRITES, KEY = "embed-mini-en", "gpt-mini-en", "a long secret"
RAYS_OWN = ("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning", "ignore::UserWarning")
RAYS_OWN += ("ignore::pytest.PytestUnraisableExceptionWarning",)


@pytest.mark.parametrize(("text", "found"), [("2", (2, 2)), ("1-8", (1, 8)), (" 3-3 ", (3, 3))])
def test_replicas_are_a_number_or_from_one_to_another(text, found):
    assert replicas_of(text) == found


@pytest.mark.parametrize("text", ["", "0", "3-1", "-2", "many", "1-", "1.5"])
def test_what_is_no_number_of_replicas_is_refused(text):
    with pytest.raises(ValueError, match="is no number of them"):
        replicas_of(text)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--replicas", "2"], "--replicas is for a Ray cluster: give --ray as well"),
        (["--models-per-replica", "2"], "--models-per-replica is for a Ray cluster"),
        (["--ray", "--workers", "2"], "--workers is for a server on this machine alone"),
        (["--ray", "--unix-socket", "/tmp/none.sock"], "--unix-socket is for a server on this machine alone"),
        (["--ray", "--studio"], "--studio is for a server on this machine alone"),
        (["--ray", "--replicas", "none"], "--replicas 'none' is no number of them"),
        (["--ray", "--host", "0.0.0.0"], "lets other machines in"),
    ],
)
def test_what_does_not_go_together_is_refused(glassformer, words, message):
    code, out, err = glassformer("serve", f"zoo:{EMBEDS}", *words)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert message in err


def test_a_replica_that_cannot_load_a_model_any_more_says_so():
    """Whoever asks it is told, and does not wait for what never comes."""
    engine = Engine({"gone": WorkerSpec("./nowhere")}, Limits())
    call = Call("generate", "text-generation", ["a"])

    async def both():
        return [await engine.ask("gone", call), *[one async for one in engine.write("gone", call)]]

    assert asyncio.run(both()) == [Fault(0, 0, 410, "gone was served here, and cannot be loaded any more")] * 2


@pytest.mark.slow
@pytest.mark.filterwarnings(*RAYS_OWN)
def test_replicas_that_this_machine_has_no_place_for_are_refused(monkeypatch):
    """They would wait for ever, and whoever began them with them."""
    ray = pytest.importorskip("ray")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    many = RaySettings(replicas=(os.cpu_count() + 1,) * 2)
    with pytest.raises(ValueError, match=r"replicas need \d+ \w+, and this machine has \d+: give fewer --replicas"):
        RayServer([WorkerSpec(f"zoo:{EMBEDS}")], Limits(), many, host="127.0.0.1", port=1)
    assert not ray.is_initialized()


@pytest.fixture(scope="module")
def server():
    """Two replicas that share two models, behind a key."""
    ray = pytest.importorskip("ray")
    pytest.importorskip("ray.serve", reason="pip install 'ray[serve]'", exc_type=ImportError)
    specs = [WorkerSpec(f"zoo:{name}", threads=1) for name in (EMBEDS, WRITES)]
    settings = RaySettings(replicas=(2, 2), models_per_replica=2)
    limits = Limits(shutdown_timeout=2.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        for name, value in PATIENCE.items():
            patch.setenv(name, value)
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=100 << 20)
        with pytest.raises(ValueError, match="there is no folder"):
            RayServer([WorkerSpec("./nowhere")], Limits(), settings, host="127.0.0.1", port=1)
        with RayServer(specs, limits, settings, host="127.0.0.1", port=free_port()) as server:
            assert server.deploy(key=KEY).keys() == {EMBEDS, WRITES}
            yield server
    ray.shutdown()


@pytest.fixture(scope="module")
def url(server):
    return f"http://127.0.0.1:{server.port}"


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as one:
        return one.getsockname()[1]


def ask(url, path, body=None):
    return asked(f"{url}{path}", body, Authorization=f"Bearer {KEY}")[:2]


def embedded(url, texts):
    status, found = ask(url, "/v1/embeddings", {"model": EMBEDS, "input": texts})
    return status, [one["embedding"] for one in found.get("data", ())]


def replicas():
    """The processes of the engines' replicas."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if words.startswith(b"ray::ServeReplica:glassformer:models"):
                found.append(int(entry.name))
    return found


@pytest.mark.slow
@pytest.mark.filterwarnings(*RAYS_OWN)
def test_the_answers_are_those_of_the_models(url):
    assert ask(url, "/ready") == (200, {"status": "ready", "models": [EMBEDS, WRITES]})
    status, found = embedded(url, ["A cat sat.", "No."] * 40)  # in parts, by whatever replica
    assert status == 200
    wanted = gf.embed(["A cat sat.", "No."], f"zoo:{EMBEDS}").tolist()
    assert found == [pytest.approx(wanted[at % 2], abs=1e-5) for at in range(80)]
    body = {"model": WRITES, "prompt": "The film", "max_tokens": 6, "temperature": 0}
    status, answer = ask(url, "/v1/completions", body)
    model, tok = gf.load(f"zoo:{WRITES}"), gf.load_tokenizer(f"zoo:{WRITES}")
    text = answer["choices"][0]["text"]
    assert "The film" + text == gf.generate(model, tok, "The film", max_new_tokens=6)
    status, streamed = ask(url, "/v1/completions", {**body, "stream": True})
    assert (status, streamed.count("data: {"), streamed.endswith("data: [DONE]\n\n")) == (200, 6, True)


@pytest.mark.slow
@pytest.mark.filterwarnings(*RAYS_OWN)
def test_the_gate_stands_before_it(url):
    assert asked(f"{url}/v1/models")[0] == 401
    assert asked(f"{url}/health")[0] == 200
    assert asked(f"{url}/health", Origin="http://evil.example")[0] == 403
    assert ask(url, "/v1/embeddings", {"model": "none", "input": "a"})[0] == 404
    assert ask(url, "/v1/embeddings", {"model": EMBEDS, "input": [1e9]})[0] in (400, 422)


@pytest.mark.slow
@pytest.mark.filterwarnings(*RAYS_OWN)
def test_a_replica_that_is_killed_under_load_costs_no_answer(url):
    wanted = gf.embed("A cat sat.", f"zoo:{EMBEDS}").tolist()
    before, counted, many = replicas(), threading.Semaphore(0), 120
    assert len(before) == 2

    def one(_):
        answer = embedded(url, ["A cat sat."] * 40)
        counted.release()
        return answer

    with ThreadPoolExecutor(6) as clients:
        answers = [clients.submit(one, number) for number in range(many)]
        for _ in range(20):
            counted.acquire()
        os.kill(before[0], signal.SIGKILL)
        found = [answer.result() for answer in answers]
    assert [status for status, _ in found] == [200] * many
    assert all(vectors == [pytest.approx(wanted, abs=1e-5)] * 40 for _, vectors in found)
    assert before[0] not in replicas()


def behind(pids):
    """The processes that some have begun, and those that these have."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    found: set[int] = set()
    while more := {pid for pid, parent in parents.items() if parent in found | set(pids)} - found:
        found |= more
    return found


@pytest.mark.slow
@pytest.mark.filterwarnings(*RAYS_OWN)
def test_a_websocket_does_not_pass_the_gate(server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(HANDSHAKE % b"/v1/models")
        head = rest_of(connection, most=100)
    assert head.startswith((b"HTTP/1.1 403", b"HTTP/1.1 401")), head


@pytest.mark.slow
@pytest.mark.filterwarnings(*RAYS_OWN)
def test_when_it_ends_it_is_not_ready_and_open_streams_are_told(server, url):
    """The last test of this server. The models stand still, so that the stream is certainly open."""
    stopped = behind(replicas())
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    body = {"model": WRITES, "prompt": "The", "max_tokens": 100, "temperature": 0, "stream": True}
    try:
        with httpx.stream(
            "POST", f"{url}/v1/completions", json=body, headers={"Authorization": f"Bearer {KEY}"}, timeout=60
        ) as answer:
            lines = answer.iter_lines()
            assert next(lines) == ": keep-alive"
            draining = threading.Thread(target=server.drain)
            draining.start()
            until(lambda: ask(url, "/ready")[0] == 503)
            status, told = ask(url, "/v1/completions", {**body, "stream": False})
            assert (status, "shutting down" in told["error"]["message"]) == (503, True)
            rest = [line for line in lines if line]
        assert "the server is shutting down" in rest[-1]
        draining.join()
    finally:
        for pid in stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
