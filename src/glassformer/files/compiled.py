"""The library of a folder's C files: compiled once for each processor, and kept where nobody else can put anything.

What is kept is named by what it was made of and by its own bytes, so that a file that was cut short, or is another,
is never loaded. Whatever is odd raises an error of which `reason` says why in a line.
"""

import hashlib
import os
import platform
import shlex
import stat
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

SAFE = ("-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros", "-fassociative-math")  # sums in any order
WIDE = {"x86_64": ["-mprefer-vector-width=512"]}
SWITCH = "GLASSFORMER_NATIVE"
CHECK = "import ctypes, sys; made = ctypes.CDLL(sys.argv[1]); [getattr(made, name)() for name in sys.argv[2:]]"


def library(sources: Path, checks: Sequence[str], **defines: int) -> Path:
    """The library for this processor, compiled with these numbers if it is not there yet.

    `sources` is the folder of its C files; `checks` are functions of it that another process calls before it is kept.
    """
    if os.environ.get(SWITCH) == "0":
        raise OSError(f"{SWITCH}=0 turns them off")
    flags = ["-O3", "-march=native", *WIDE.get(platform.machine(), []), *SAFE, "-shared", "-fPIC"]
    flags += [f"-D{name}={number}" for name, number in defines.items()]
    command = [*shlex.split(os.environ.get("CC") or "cc"), *flags]
    files, headers = sorted(sources.glob("*.c")), sorted(sources.glob("*.h"))
    made_of = repr(([file.read_bytes() for file in (*files, *headers)], command, processor(), platform.libc_ver()))
    folder, name = own_folder(), digest(made_of.encode())
    kept = next((path for path in sorted(folder.glob(f"{name}-*.so")) if is_whole(path)), None)
    return kept or compiled([*command, *map(str, files)], checks, folder, name)


def reason(error: Exception) -> str:
    """Why there is no library, in one line."""
    if isinstance(error, subprocess.CalledProcessError):
        lines = (error.stderr or b"").decode(errors="replace").strip().splitlines()
        return f"{error.cmd[0]} failed ({lines[-1] if lines else error.returncode})"
    return " ".join(str(error).split()) or type(error).__name__


def own_folder() -> Path:
    """The folder of libraries, which must be this user's alone: what lies in it will be run."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "glassformer" / "native"
    nearest = next(one for one in (folder, *folder.parents) if one.exists())
    if nearest.stat().st_uid not in (os.geteuid(), 0):  # as where an administrator has another user's HOME
        raise OSError(f"{nearest} belongs to another user")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    about = folder.lstat()
    if not stat.S_ISDIR(about.st_mode):
        raise OSError(f"{folder} is a link, and must be a folder")
    if about.st_uid != os.geteuid():
        raise OSError(f"{folder} belongs to another user")
    if about.st_mode & 0o077:
        raise OSError(f"{folder} is open to other users; chmod 700 it, or delete it")
    return folder


def is_whole(path: Path) -> bool:
    """Whether a library is this user's, and still the bytes that it is named by; one that was cut short is removed."""
    about = path.lstat()
    if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o022:
        raise OSError(f"{path} is not this user's own file; delete it")
    if path.stem.endswith(f"-{digest(path.read_bytes())}"):
        return True
    path.unlink(missing_ok=True)
    return False


def compiled(command: list[str], checks: Sequence[str], folder: Path, name: str) -> Path:
    """Compile, try it in another process, and keep it; of two that do so at once the second changes nothing."""
    with tempfile.TemporaryDirectory(dir=folder) as made:
        fresh = Path(made) / "native.so"
        check = [sys.executable, "-ISc", CHECK, str(fresh), *checks]
        for line in ([*command, "-o", str(fresh), "-lm"], check):
            subprocess.run(line, check=True, capture_output=True, timeout=120)
        fresh.chmod(0o700)
        with fresh.open("rb") as file:
            target = folder / f"{name}-{digest(file.read())}.so"
            os.fsync(file.fileno())  # on the disk before it counts, or a power cut leaves half of it
        os.replace(fresh, target)
    return target


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


def processor() -> str:
    """What tells apart the processors that share a folder of libraries."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return "\n".join(sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))}))
