"""Two machines made of this one: network namespaces joined by a cable, each with a host name and an address of its own.

They share processors, files and process ids; all that they say to each other goes over the cable, which can be cut.
"""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

CARD = "eth0"  # what the network card of each is called
ADDRESSES = {"node-a": "10.77.0.1", "node-b": "10.77.0.2"}
KNOWS_HOSTS = 'hostname "$0" && mount --bind "$1" /etc/hosts && shift && exec "$@"'  # in namespaces of its own for both


@dataclass(frozen=True)
class Machine:
    """A host name, its network namespace, and the file of hosts that it knows."""

    name: str
    namespace: str
    hosts: Path

    def start(self, words: Sequence[object], **settings: Any) -> subprocess.Popen[Any]:
        """A process there; its id is that of the command itself."""
        inside = ["ip", "netns", "exec", self.namespace, "unshare", "--uts", "--mount"]
        return subprocess.Popen([*inside, "sh", "-c", KNOWS_HOSTS, self.name, self.hosts, *map(str, words)], **settings)

    def processes(self) -> list[int]:
        """All that run there, whoever has started them."""
        return [int(one) for one in _ip("netns", "pids", self.namespace).split()]

    def switch_off(self) -> None:
        """All that run there are killed, and nobody outside is told more than a kernel tells."""
        for process in self.processes():
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def cable(self, state: str) -> None:
        """`down` cuts it: nobody is told, what is sent is lost; `up` mends it."""
        _ip("-netns", self.namespace, "link", "set", CARD, state)


@cache
def refused() -> str | None:
    """Why there can be no machines here, if so."""
    if os.geteuid() != 0:
        return "only root may make network namespaces"
    if not (shutil.which("ip") and shutil.which("unshare")):
        return "network namespaces are made by ip and unshare: apt-get install iproute2 util-linux"
    try:
        with TemporaryDirectory() as folder, two_machines(Path(folder)) as machines:
            refusal = machines[0].start(["true"], stderr=subprocess.PIPE, text=True).communicate()[1]
    except subprocess.CalledProcessError as error:
        refusal = error.stderr
    return f"network namespaces are refused here: {refusal.strip()}" if refusal else None


@contextmanager
def two_machines(folder: Path) -> Iterator[list[Machine]]:
    """node-a and node-b, which know each other by name; the folder is for their files of hosts."""
    machines = []
    for name in ADDRESSES:
        known = ADDRESSES | {"localhost": "127.0.0.1", name: "127.0.1.1"}  # Debian has machines call themselves so
        hosts = folder / f"{name}.hosts"
        hosts.write_text("".join(f"{address} {one}\n" for one, address in known.items()))
        machines.append(Machine(name, f"{name}-{os.getpid()}", hosts))
    try:
        for machine in machines:
            _ip("netns", "add", machine.namespace)
        here, there = (machine.namespace for machine in machines)
        _ip("link", "add", CARD, "netns", here, "type", "veth", "peer", "name", CARD, "netns", there)
        for machine in machines:
            inside = ("-netns", machine.namespace)
            _ip(*inside, "address", "add", f"{ADDRESSES[machine.name]}/24", "dev", CARD)
            for card in ("lo", CARD):
                _ip(*inside, "link", "set", card, "up")
        yield machines
    finally:
        for machine in machines:
            with suppress(subprocess.CalledProcessError):  # it was not made
                machine.switch_off()
                _ip("netns", "del", machine.namespace)


def _ip(*words: str) -> str:
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout
