"""The package as it is published: built from its own sources, installed elsewhere, used without a network."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import glassformer
from browser import borrowed, heard

ROOT = Path(__file__).parents[1]
OFFLINE = """
import sys

def refuse(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.bind", "socket.sendto"):
        raise RuntimeError(f"a socket was asked for: {event} {arguments}")

sys.addaudithook(refuse)
"""
USE = """
import sys
import glassformer as gf
from pathlib import Path

folder = sys.argv[1]
print(Path(gf.__file__).parent)
print(gf.load(folder).num_parameters())
print(gf.pipeline("text-classification", folder)("Paul is glad .")[0]["label"])
"""


def run(*words, **options):
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The sdist, and the wheel that is made of it; what is there already builds them, so that no network is needed."""
    pytest.importorskip("build", reason="pip install build hatchling")
    pytest.importorskip("hatchling", reason="pip install build hatchling")
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return sdist, wheel


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """A fresh environment with the wheel in it; its dependencies are found where they are, and sockets are refused."""
    folder = tmp_path_factory.mktemp("fresh")
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    (packages,) = (folder / "lib").glob("*/site-packages")
    (packages / "dependencies.pth").write_text(
        sysconfig.get_path("purelib") + "\n"
    )  # whose own .pth files are not read
    (packages / "sitecustomize.py").write_text(OFFLINE)
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", built[1])
    return folder


@pytest.fixture
def clean(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("PYTHON", "HF_"))]:
        monkeypatch.delenv(name)


@pytest.mark.slow
def test_the_wheel_holds_every_file_of_the_package(built):
    """Sources in C, texts in toml, pages with their scripts and styles among them; and nothing else."""
    package = ROOT / "src" / "glassformer"
    expected = {f"glassformer/{path.relative_to(package).as_posix()}" for path in package.rglob("*") if path.is_file()}
    expected = {name for name in expected if "__pycache__" not in name}
    with zipfile.ZipFile(built[1]) as wheel:
        names = wheel.namelist()
    assert {name for name in names if ".dist-info/" not in name} == expected
    assert {".c", ".toml", ".html", ".js", ".css", ".typed"} <= {Path(name).suffix or Path(name).name for name in names}
    print(f"{built[1].name}: {built[1].stat().st_size / 1e6:.2f} MB; {built[0].stat().st_size / 1e6:.2f} MB of sources")


@pytest.mark.slow
def test_the_sources_are_enough_to_work_on_it(built):
    with tarfile.open(built[0]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"README.md", "LICENSE", "CHANGELOG.md", "Makefile", "tests/conftest.py", "docs/generate.py"} <= names
    assert not [name for name in names if name.startswith((".ci", "runs/", "out/", ".venv"))]


@pytest.mark.slow
def test_the_command_of_a_fresh_environment(installed, clean):
    command = installed / "bin" / "glassformer"
    assert run(command, "--version") == f"glassformer {glassformer.__version__}\n"
    assert "Usage: glassformer" in re.sub(r"\x1b\[[\d;]*m", "", run(command, "--help"))


@pytest.mark.slow
def test_a_model_is_loaded_and_used_in_a_fresh_environment(installed, clean, trained):
    folder = trained("text-classification/bert")
    place, parameters, label = run(installed / "bin" / "python", "-c", USE, folder).splitlines()
    assert Path(place).is_relative_to(installed)
    assert int(parameters) > 0
    assert label in ("negative", "neutral", "positive")


@pytest.mark.slow
def test_make_demo_in_a_fresh_environment(installed, clean, tmp_path, browser):
    """Without a network, in an empty folder; its page opens without a fault."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    (installed / ".installed").touch()
    out = run("make", "demo", f"VENV={installed}", cwd=tmp_path)
    assert all(f"zoo:{card['name']}" in out for card in glassformer.zoo())
    accuracy = float(re.findall(r"^  dev: .*accuracy ([\d.]+)", out, re.MULTILINE)[-1])
    assert accuracy > 0.9
    assert (tmp_path / "runs" / "demo" / "model.safetensors").is_file()
    faults: list[object] = []
    with (
        borrowed(browser, width=360, height=800) as tab,
        heard(tab, console=lambda told: faults.append(told.text), pageerror=lambda error: faults.append(str(error))),
    ):
        tab.goto((tmp_path / "out" / "demo.html").as_uri())
        assert tab.evaluate("document.documentElement.scrollWidth") <= 360
        assert tab.locator("figure svg").count() == 2
    assert faults == []


@pytest.mark.slow
def test_a_fresh_environment_reaches_no_network(installed, clean):
    asked = subprocess.run(
        [installed / "bin" / "python", "-c", "import socket; socket.create_connection(('127.0.0.1', 9))"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "a socket was asked for" in asked.stderr


def test_the_version_is_said_once():
    """CHANGELOG.md has an entry for it, and CITATION.cff cites it."""
    version = glassformer.__version__
    assert re.search(rf"^## {re.escape(version)}\b", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert f"version: {version}\n" in (ROOT / "CITATION.cff").read_text("utf-8")
    assert "dynamic" in (ROOT / "pyproject.toml").read_text("utf-8")
