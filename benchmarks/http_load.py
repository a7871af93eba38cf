"""Many clients at once on a server: each has one connection, and asks again as soon as it has its answer."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

END = b"\r\n"


@dataclass
class Load:
    """What clients have seen: seconds to the first part of each body and to its last; and how many failed."""

    first: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)
    failed: int = 0
    last: bytes = b""  # the body of the answer that came last
    failure: bytes = b""  # and of the last that failed
    seconds: float = 0.0  # from the first request to the last answer

    def add(self, other: "Load") -> None:
        """What others have seen after these."""
        self.first, self.whole, self.seconds = (
            self.first + other.first,
            self.whole + other.whole,
            self.seconds + other.seconds,
        )
        self.failed, self.last, self.failure = self.failed + other.failed, other.last, other.failure or self.failure

    def percentile(self, share: float) -> float:
        """Of the seconds that answers took."""
        return sorted(self.whole)[min(len(self.whole) - 1, int(share * len(self.whole)))]


def load(url: str, bodies: Iterable[object], *, clients: int) -> Load:
    """POST every body once, `clients` of them at a time."""
    seen, waiting = Load(), iter([json.dumps(one).encode() for one in bodies])
    began = time.perf_counter()
    asyncio.run(_all(url, waiting, seen, clients))
    seen.seconds = time.perf_counter() - began
    return seen


async def _all(url: str, waiting: Iterator[bytes], seen: Load, clients: int) -> None:
    await asyncio.gather(*(_client(url, waiting, seen) for _ in range(clients)))


async def _client(url: str, waiting: Iterator[bytes], seen: Load) -> None:
    parts = urlsplit(url)
    head = f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\n"
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    for body in waiting:
        began = time.perf_counter()
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        status, headers = await _head(reader)
        parts_of_body = []
        async for part in _parts(reader, headers):
            parts_of_body.append((time.perf_counter() - began, part))
        seen.first.append(parts_of_body[0][0])
        seen.whole.append(parts_of_body[-1][0])
        seen.last = b"".join(part for _, part in parts_of_body)
        if status != 200:
            seen.failed, seen.failure = seen.failed + 1, seen.last
    writer.close()


async def _head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    first, *lines = (await reader.readuntil(END + END)).decode().split("\r\n")
    pairs = (line.partition(":") for line in lines if line)
    return int(first.split()[1]), {name.lower(): value.strip() for name, _, value in pairs}


async def _parts(reader: asyncio.StreamReader, headers: dict[str, str]) -> AsyncIterator[bytes]:
    """A body as it comes: whole, or in chunks."""
    if "content-length" in headers:
        yield await reader.readexactly(int(headers["content-length"]))
        return
    while size := int(await reader.readuntil(END), 16):
        yield await reader.readexactly(size)
        await reader.readuntil(END)
    await reader.readuntil(END)
