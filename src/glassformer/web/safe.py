"""Answers in JSON, which knows no NaN and no infinity: their names stand for them."""

import json
import math
from typing import Any

from starlette.responses import JSONResponse

LONGEST = 600  # letters of what went wrong


def dump(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return json.dumps(finite(value), ensure_ascii=False, allow_nan=False)


def finite(value: object) -> Any:
    """The same with "nan", "inf" and "-inf"."""
    if isinstance(value, dict):
        return {name: finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [finite(one) for one in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def one_line(error: object) -> str:
    """What went wrong, without the line ends and without the middle of what somebody has sent."""
    text = " ".join(str(error).split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]} … {text[-LONGEST // 2 :]}"


class SafeJSONResponse(JSONResponse):
    """What every route gives that gives JSON."""

    def render(self, content: object) -> bytes:
        return dump(content).encode(errors="backslashreplace")  # half a pair of surrogates is no letter
