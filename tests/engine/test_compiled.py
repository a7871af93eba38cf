"""The library of C kernels is loaded only if it is ours and whole; whatever is odd, torch's kernels do the work."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from glassformer.engine import native
from glassformer.files import compiled

pytestmark = pytest.mark.skipif(native.kernels() is None, reason="there is no C compiler")
OPENED = native.opened.__wrapped__
GENERATE = (
    "import glassformer as gf, torch; from glassformer.engine import native\n"
    "from families import SMALL_GPT, random_model\n"
    "gf.generate(random_model('gpt2', 'text-generation', SMALL_GPT), None, torch.tensor([[5, 6]]), max_new_tokens=4)\n"
    "print(native.why_not())"
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "glassformer" / "native"


def started(**more):
    """A process of its own that generates; why it did without our kernels."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **more}
    ran = subprocess.run([sys.executable, "-c", GENERATE], capture_output=True, text=True, env=environment)
    assert ran.returncode == 0, (ran.returncode, ran.stderr)
    return ran.stdout.strip()


@pytest.mark.slow
def test_it_is_compiled_once_into_a_folder_of_ones_own(folder):
    first = native.library()
    about, made = folder.stat(), first.stat()
    assert (about.st_uid, about.st_mode & 0o777, made.st_mode & 0o777) == (os.geteuid(), 0o700, 0o700)
    assert native.library() == first
    assert first.stat().st_ino == made.st_ino
    assert [path.name for path in folder.iterdir()] == [first.name]  # nothing half made is left


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 100, 5000])
def test_a_library_that_was_cut_short_is_made_again(folder, size):
    """Loading one kills the process, at every start, with no word why."""
    whole = native.library()
    content = whole.read_bytes()
    assert size < len(content)
    os.truncate(whole, size)
    assert started() == "None"
    assert [path.read_bytes() for path in folder.glob("*.so")] == [content]


@pytest.mark.slow
def test_another_file_in_its_place_is_not_loaded(folder, tmp_path):
    whole = native.library()
    content = whole.read_bytes()
    whole.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert native.library().read_bytes() == content
    (tmp_path / "theirs.so").write_bytes(content)
    whole.unlink()
    whole.symlink_to(tmp_path / "theirs.so")
    assert "is not this user's own file" in OPENED()


def make_open(folder):
    folder.mkdir(parents=True)
    folder.chmod(0o755)


def make_link(folder):
    (folder.parent / "elsewhere").mkdir(parents=True, mode=0o700)
    folder.symlink_to("elsewhere")


def make_file(folder):
    folder.parent.mkdir(parents=True)
    folder.write_text("")


ODD = {
    "open": (make_open, "is open to other users; chmod 700 it"),
    "link": (make_link, "is a link"),
    "file": (make_file, "File exists"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ODD)
def test_from_an_odd_folder_nothing_is_loaded(folder, kind):
    make, said = ODD[kind]
    make(folder)
    found = OPENED()
    assert isinstance(found, str)
    assert said in found
    assert str(folder) in found
    assert "\n" not in found
    assert said in started()  # and a first call does not fail because of it


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
@pytest.mark.parametrize("which", ["native", "."])
def test_a_folder_of_another_user_is_left_alone(folder, tmp_path, which):
    theirs = folder if which == "native" else tmp_path
    theirs.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.chown(theirs, 12345, 12345)
    assert OPENED() == f"{theirs} belongs to another user"
    assert which == "native" or not list(tmp_path.iterdir())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_home_that_cannot_be_written_to(folder, tmp_path):
    tmp_path.chmod(0o500)
    assert "Permission denied" in OPENED()


def test_it_can_be_turned_off(folder):
    assert started(GLASSFORMER_NATIVE="0") == "GLASSFORMER_NATIVE=0 turns them off"
    assert not folder.exists()


@pytest.mark.slow
def test_two_processes_may_compile_at_once(folder):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    code = "from glassformer.engine.native import library; print(library())"
    both = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(2)
    ]
    paths = [Path(one.communicate()[0].strip()) for one in both]
    assert [one.returncode for one in both] == [0, 0]
    for path in paths:
        assert compiled.is_whole(path)


def test_doctor_says_why(glassformer, monkeypatch):
    monkeypatch.setattr(native, "opened", lambda: "GLASSFORMER_NATIVE=0 turns them off")
    code, out, _ = glassformer("doctor", "--json")
    assert code == 0
    assert '"torch\'s alone: GLASSFORMER_NATIVE=0 turns them off"' in out
