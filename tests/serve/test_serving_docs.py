"""docs/serving.md says what is so: its Python and its curl run, its flags exist, its manifests can be read."""

import configparser
import json
import shlex
import shutil
import subprocess
from dataclasses import fields

import pytest
import yaml
from docs.generate import ROOT
from huggingface_hub import constants
from typer.main import get_command

from glassformer.cli.main import app
from glassformer.serve.limits import Limits
from test_docs import blocks

PAGE = ROOT / "docs" / "serving.md"
ADDRESS = "127.0.0.1:8000"


def parsed(words):
    """The parameters that `glassformer serve` makes of some words; words that it does not know are refused."""
    assert words[0] == "serve"
    return get_command(app).commands["serve"].make_context("serve", words[1:]).params


def test_its_python_runs(served, monkeypatch, capsys):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    for code in blocks(PAGE, "python"):
        exec(compile(code.replace(ADDRESS, f"127.0.0.1:{served.port}"), PAGE.name, "exec"), {"__name__": "docs"})
    said = capsys.readouterr().out
    assert "prompt_tokens" in said
    assert "entity_group='PER'" in said


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_its_curl_runs(served):
    lines = [line for block in blocks(PAGE, "text") for line in block.splitlines() if line.startswith("curl ")]
    assert len(lines) > 1
    for line in lines:
        words = shlex.split(line.replace(ADDRESS, f"127.0.0.1:{served.port}"))
        found = json.loads(subprocess.run([*words, "-s"], capture_output=True, check=True).stdout)
        assert isinstance(found, list), found


def test_its_table_of_limits_is_the_truth():
    """Every limit has its row, with the default of its flag."""
    rows = [line.split("|")[1:3] for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `--max")]
    rows += [line.split("|")[1:3] for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `--deadline")]
    rows += [line.split("|")[1:3] for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `--shutdown")]
    options = {one.opts[0]: one for one in get_command(app).commands["serve"].params}
    assert len(rows) == len(fields(Limits))
    for flag, default in rows:
        assert str(options[flag.strip(" `")].default).removesuffix(".0") == default.strip()


def test_its_manifest_can_be_read_and_its_flags_exist():
    (text,) = blocks(PAGE, "yaml")
    deployment, service = yaml.safe_load_all(text)
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    told = parsed(container["args"])
    assert str(told["key_file"]) == "/secrets/key"
    assert told["port"] == container["ports"][0]["containerPort"] == 8000
    assert told["shutdown_timeout"] < pod["terminationGracePeriodSeconds"]
    assert {one["name"] for one in container["volumeMounts"]} == {one["name"] for one in pod["volumes"]}
    assert service["spec"]["selector"] == deployment["spec"]["selector"]["matchLabels"]
    compile(container["readinessProbe"]["exec"]["command"][2], "probe", "exec")


def test_its_unit_can_be_read_and_its_flags_exist():
    (text,) = blocks(PAGE, "ini")
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str
    unit.read_string(text)
    program, *words = shlex.split(unit["Service"]["ExecStart"])
    told = parsed(words)
    assert program.endswith("/glassformer")
    assert told["unix_socket"].parent.name == unit["Service"]["RuntimeDirectory"]
    assert told["shutdown_timeout"] < float(unit["Service"]["TimeoutStopSec"])
    assert unit["Service"]["KillMode"] == "mixed"


def test_a_proxy_can_use_the_socket_of_its_unit():
    """The socket and its folder are open to a group that the unit names, and closed to all others."""
    (text,) = blocks(PAGE, "ini")
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str
    unit.read_string(text)
    service = unit["Service"]
    told = parsed(shlex.split(service["ExecStart"])[1:])
    assert service["Group"]
    assert int(told["unix_socket_mode"], 8) == 0o660
    assert int(service["RuntimeDirectoryMode"], 8) == 0o750


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_finds_nothing_wrong_with_its_unit(tmp_path):
    (text,) = blocks(PAGE, "ini")
    (tmp_path / "glassformer.service").write_text(text.replace("/opt/glassformer/bin/glassformer", "/bin/true"))
    run = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / "glassformer.service")],
        capture_output=True,
        text=True,
        check=False,
    )
    said = [line for line in run.stderr.splitlines() if "glassformer.service" in line]
    assert (run.returncode, said) == (0, []), run.stderr


def test_the_dockerfile_says_what_there_is():
    lines = (ROOT / "Dockerfile").read_text("utf-8").splitlines()
    shown = [shlex.split(line.partition(" glassformer ")[2]) for line in lines if line.startswith("#   docker run")]
    assert [words[0] for words in shown] == ["serve", "studio"]
    assert parsed(shown[0])["host"] == "0.0.0.0"
    assert 'ENTRYPOINT ["glassformer"]' in lines
    assert json.loads(next(line for line in lines if line.startswith("CMD "))[4:])[0] == "studio"
    copied = [line.split()[1:-1] for line in lines if line.startswith("COPY ")]
    assert all((ROOT / name).exists() for names in copied for name in names)
