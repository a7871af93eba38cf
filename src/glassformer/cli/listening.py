"""What commands that serve share: a port taken before anything slow begins, the key, sizes as people write them."""

import errno
import os
import re
import socket
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

UNITS = {"KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens there."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=128)
    except socket.gaierror:
        raise ValueError(f"--host {host!r} is no address of this machine; leave it out for 127.0.0.1") from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ValueError(
                f"port {port} is in use, perhaps by another of these servers; --port 0 takes a free one"
            ) from None
        raise ValueError(f"nothing can listen on {host}:{port} ({error.strerror}); choose another --port") from None


def address_of(host: str, port: int, key: str | None = None, *, scheme: str = "http") -> str:
    name = f"[{host}]" if ":" in host else host
    return f"{scheme}://{name}:{port}/" + (f"?key={quote(key, safe='')}" if key else "")


def key_of(given: str | None, file: Path | None, variable: str) -> str | None:
    """The key: of --key, of a file without the end of its line, or of the environment; None where there is none."""
    if given is not None and file is not None:
        raise ValueError("give --key or --key-file, not both")
    key, source = (os.environ.get(variable) or None, variable) if given is None else (given, "--key")
    if file is not None:
        try:
            key, source = file.read_text(encoding="utf-8").rstrip("\r\n"), f"--key-file {file}"
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"--key-file {file} cannot be read ({error}); name a text file with the key") from None
    if key is not None and not key.strip():
        raise ValueError(f"{source} is empty: write a long secret into it, or leave it out")
    return key


def size_of(text: str, option: str) -> int:
    """ "2GB" in bytes."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMG]B)", text.strip().upper())
    if not match or not float(match[1]):
        raise ValueError(f"{option} {text!r} is no size: write it like 500MB or 2GB")
    return int(float(match[1]) * UNITS[match[2]])


def check_extra(what: str, extra: str, *packages: str) -> None:
    """Refuse to begin without the packages of an extra."""
    for name in packages:
        if find_spec(name) is None:
            raise ValueError(f"{what} needs {name}: pip install 'glassformer[{extra}]'")
