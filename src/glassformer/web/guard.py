"""Who may ask: the Host, the Origin and the size of a request, and its key, before anything else is looked at."""

import asyncio
import re
from collections.abc import Callable
from hmac import compare_digest
from typing import NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Message, Receive

HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[^\s\[\]:/?#@]+)(:[0-9]{0,5})?", re.IGNORECASE)  # as a header gives it
BEARER = "bearer "


class Refusal(NamedTuple):
    """A status and the reason, for a person to read."""

    status: int
    detail: str


def refusal(
    request: Request, *, largest: int, may_call: Callable[[str], bool], pages: tuple[str, ...]
) -> Refusal | None:
    """Why a request is not let in; None where nothing speaks against it.

    `may_call` says whether the server answers to a host name; `pages` are paths that a link of another site may open;
    `largest` are the bytes that a request may announce.
    """
    host, origin = request.headers.get("host", ""), request.headers.get("origin")
    known, length = HOST.fullmatch(host), request.headers.get("content-length", "0")
    if known is None or not length.isdecimal():
        return Refusal(400, f"this is no request: host {host!r}, content-length {length!r}")
    if not may_call(known["name"].lower().strip("[]")):
        return Refusal(403, f"this server does not answer as {host!r}")
    if origin is not None and origin.lower() not in (f"http://{host}".lower(), f"https://{host}".lower()):
        return Refusal(403, f"a page of {origin!r} may not use this server")
    if request.headers.get("sec-fetch-site") == "cross-site" and request.scope["path"] not in pages:
        return Refusal(403, "another site's page may not use this server")
    if len(length) > 18 or int(length) > largest:
        return Refusal(413, too_large(largest))
    return None


def too_large(largest: int) -> str:
    return f"a request may hold {largest:,} bytes"


def bears(request: Request, key: str) -> bool:
    """Whether a request has the key as its bearer token; how long this takes says nothing of the key."""
    given = request.headers.get("authorization", "")
    token = given[len(BEARER) :] if given[: len(BEARER)].lower() == BEARER else ""
    return compare_digest(token.encode("latin-1"), key.encode())  # a header's bytes, as they were sent


def bounded(receive: Receive, largest: int) -> Receive:
    """`receive` that stops a body beyond `largest` bytes: chunks come without a content-length."""
    size = 0

    async def counted() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > largest:
            raise HTTPException(413, too_large(largest))
        return message

    return counted


def timely(receive: Receive, seconds: float) -> Receive:
    """`receive` that waits so long for the whole of a body, however slowly it comes; for what follows it, for ever."""
    whole, until = False, asyncio.get_running_loop().time() + seconds

    async def awaited() -> Message:
        nonlocal whole
        try:
            async with asyncio.timeout_at(None if whole else until):
                message = await receive()
        except TimeoutError:
            raise HTTPException(408, f"a request must have come within {seconds:g} seconds") from None
        whole = whole or not message.get("more_body")
        return message

    return awaited
