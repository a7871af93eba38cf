"""What goes wrong, and how each face says it: OpenAI's clients look for `error.message`, Hugging Face's for `error`."""

from collections.abc import Mapping
from typing import Any

TYPES = {  # in the words of each face: OpenAI's, and that of text-generation-inference
    400: ("invalid_request_error", "validation"),
    401: ("authentication_error", "authentication"),
    403: ("permission_error", "permission"),
    404: ("not_found_error", "not_found"),
    405: ("invalid_request_error", "validation"),
    408: ("invalid_request_error", "validation"),
    410: ("not_found_error", "not_found"),
    413: ("invalid_request_error", "validation"),
    415: ("invalid_request_error", "validation"),
    422: ("invalid_request_error", "validation"),
    429: ("rate_limit_error", "overloaded"),
    500: ("server_error", "generation"),
    503: ("server_error", "unhealthy"),
    504: ("timeout_error", "incomplete_generation"),
}
RETRY = {429: "1", 503: "1"}  # seconds after which to try again


class Problem(Exception):
    """An answer that is an error: its HTTP status, and a line for a person. `param` names what it is about."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.param, self.code = status, message, param, code
        self.headers = {**({"Retry-After": RETRY[status]} if status in RETRY else {}), **(headers or {})}

    def body(self, path: str) -> Mapping[str, Any]:
        """In the shape of the face that a path belongs to."""
        return self.openai if speaks_openai(path) else self.huggingface

    @property
    def openai(self) -> dict[str, Any]:
        kind = TYPES.get(self.status, TYPES[400])[0]
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}

    @property
    def huggingface(self) -> dict[str, Any]:
        return {"error": self.message, "error_type": TYPES.get(self.status, TYPES[400])[1]}


def speaks_openai(path: str) -> bool:
    return path.startswith("/v1/") or (path.startswith("/models/") and "/v1/" in path)
