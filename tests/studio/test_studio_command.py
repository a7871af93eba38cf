"""`glassformer studio`: a real server on a free port, and every way to start it wrongly."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

import glassformer as gf
from glassformer.cli.listening import address_of, size_of


@contextmanager
def started(*words, cwd, **more):
    """The command in a process of its own, once it has said its address."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": "1", **more}
    command = [sys.executable, "-m", "glassformer", "studio", *map(str, words), "--port", "0"]
    running = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=cwd
    )
    try:
        line = running.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found, line + running.stderr.read()
        yield running, found[0]
    finally:
        running.kill()
        running.communicate()


def asked(url, **headers):
    with urlopen(Request(url, headers=headers), timeout=20) as answer:
        return answer.read()


def test_it_serves_the_models_and_the_page_and_stops_cleanly(studio_folders, tmp_path):
    with started(studio_folders["bert"], studio_folders["lstm"], cwd=tmp_path) as (running, address):
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", address)
        assert [one["name"] for one in json.loads(asked(f"{address}api/v1/models"))] == ["bert", "lstm"]
        assert json.loads(asked(f"{address}api/v1/runs")) == {"folder": "runs", "runs": []}
        assert b"main.js" in asked(address)
        running.send_signal(signal.SIGINT)
        assert running.wait(20) == 0
        assert running.stderr.read() == ""


@pytest.mark.slow
def test_a_key_is_asked_for(studio_folders, tmp_path):
    with started(studio_folders["bert"], "--host", "0.0.0.0", "--key", "open sesame", cwd=tmp_path) as (_, address):
        assert address.endswith("/?key=open%20sesame")
        models = address.replace("0.0.0.0", "127.0.0.1").split("?")[0] + "api/v1/models"
        with pytest.raises(HTTPError, match="401") as caught:
            asked(models)
        caught.value.close()
        assert len(json.loads(asked(models, Authorization="Bearer open sesame"))) == 1


@pytest.mark.slow
@pytest.mark.parametrize("way", ["file", "environment"])
def test_a_key_need_not_stand_in_the_list_of_processes(studio_folders, tmp_path, way):
    (tmp_path / "key").write_text("open sesame\n")
    words = ["--key-file", "key"] if way == "file" else []
    with started(
        studio_folders["bert"], *words, cwd=tmp_path, GLASSFORMER_STUDIO_KEY="" if words else "open sesame"
    ) as (running, address):
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", address)  # nor on the screen
        models = f"{address}api/v1/models"
        with pytest.raises(HTTPError, match="401") as caught:
            asked(models)
        caught.value.close()
        assert len(json.loads(asked(models, Authorization="Bearer open sesame"))) == 1
        if Path("/proc/self/cmdline").is_file():
            assert b"sesame" not in Path(f"/proc/{running.pid}/cmdline").read_bytes()


def test_a_port_in_use_is_one_line_with_the_fix(glassformer, studio_folders):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, _, err = glassformer("studio", studio_folders["bert"], "--port", port)
    assert code == 1
    assert err == f"error: port {port} is in use, perhaps by another of these servers; --port 0 takes a free one\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--host", "0.0.0.0"], "--host 0.0.0.0 lets other machines in: give a --key-file"),
        (["--host", "no.such.host.invalid", "--key", "k"], "'no.such.host.invalid' is no address of this machine"),
        (["--key", ""], "--key is empty: write a long secret into it"),
        (["--key", "a", "--key-file", "b"], "give --key or --key-file, not both"),
        (["--key-file", "no-such-file"], "--key-file no-such-file cannot be read"),
        (["--key-file", os.devnull], f"--key-file {os.devnull} is empty"),
        (["--memory", "lots"], "--memory 'lots' is no size: write it like 500MB or 2GB"),
        (["--memory", "0GB"], "--memory '0GB' is no size"),
        (["./nowhere", "--port", "0"], "there is no folder './nowhere'"),
    ],
)
def test_what_cannot_be_started_says_why(glassformer, words, said):
    code, _, err = glassformer("studio", *words)
    assert code == 1
    assert said in err
    assert err.count("\n") == 1


def test_two_models_of_one_name_are_refused(glassformer, studio_folders, tmp_path):
    (tmp_path / "bert").symlink_to(studio_folders["bert"])
    code, _, err = glassformer("studio", studio_folders["bert"], tmp_path / "bert", "--port", "0")
    assert code == 1
    assert "are both called 'bert'" in err


def test_a_missing_extra_is_one_line_with_the_fix(glassformer, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    code, _, err = glassformer("studio")
    assert (code, err) == (1, "error: the studio needs uvicorn: pip install 'glassformer[studio]'\n")


@pytest.mark.slow
def test_without_a_model_it_shows_the_built_in_ones_without_training_or_network(tmp_path):
    """The page before torch is there; then every model, and one that runs. Nothing is written, no one is asked."""
    (tmp_path / "sitecustomize.py").write_text(ALONE)
    more = {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]), "GLASSFORMER_CACHE": str(tmp_path / "cache")}
    with started(cwd=tmp_path, **more) as (running, address):
        assert b"main.js" in asked(address)
        models = json.loads(asked(f"{address}api/v1/models"))
        assert [one["name"] for one in models] == [card["name"] for card in gf.zoo()]
        for one in models:
            body = json.dumps({"model": one["name"], **one["examples"][0]}).encode()
            request = Request(f"{address}api/v1/traces", data=body, headers={"Content-Type": "application/json"})
            with urlopen(request, timeout=60) as answer:
                assert json.load(answer)["tokens"]
        running.send_signal(signal.SIGINT)
        assert running.wait(20) == 0
        assert running.stderr.read() == ""
    assert [path.name for path in tmp_path.iterdir() if path.name != "__pycache__"] == ["sitecustomize.py"]


ALONE = """
import sys

def told(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo") and "127.0.0.1" not in str(arguments):
        raise RuntimeError(f"{event}: {arguments}")
    if event == "subprocess.Popen" or (event == "import" and arguments[0] == "glassformer.jobs.train"):
        raise RuntimeError("training has begun")

sys.addaudithook(told)
"""


@pytest.mark.slow
def test_a_built_in_model_that_cannot_be_read_ends_the_studio(tmp_path):
    home = import_module("glassformer.zoo").HOME
    shutil.copytree(home / "lstm-sentiment", tmp_path / "lstm-sentiment")
    (tmp_path / "lstm-sentiment" / "config.json").write_text("{}")
    run = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, str(tmp_path), "studio", "--port", "0", "--json"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1
    assert json.loads(run.stdout)["models"] == ["lstm-sentiment"]
    assert "config.json is damaged: install glassformer again" in run.stderr
    assert run.stderr.count("\n") == 1


ELSEWHERE = """
import sys
from importlib import import_module
from pathlib import Path

import_module("glassformer.zoo").HOME = Path(sys.argv.pop(1))
import_module("glassformer.cli.main").main()
"""


def test_sizes_and_addresses():
    assert [size_of(text, "--memory") for text in ("2GB", "1.5 mb", "10KB")] == [2 << 30, 3 << 19, 10 << 10]
    assert address_of("::1", 80, None) == "http://[::1]:80/"
    assert address_of("127.0.0.1", 80, "a&b") == "http://127.0.0.1:80/?key=a%26b"


def test_help_imports_nothing_heavy():
    heavy = "[name for name in ('torch', 'fastapi', 'uvicorn') if name in sys.modules]"
    code = f"import sys\nfrom glassformer.cli.main import app\nprint({heavy})"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert said.stdout.strip() == "[]"
