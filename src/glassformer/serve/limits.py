"""What one client may ask of a server, and what a server takes on; each is a flag, and all are told at /info."""

from dataclasses import dataclass, fields


@dataclass(frozen=True, kw_only=True)
class Limits:
    """A string under a field says what it means, to /info and to help."""

    body_bytes: int = 2 << 20
    """Bytes of a request."""
    connections: int = 512
    """Connections at once."""
    queue: int = 256
    """Requests of a model that wait or run; more are sent away with 429."""
    inputs: int = 2048
    """Texts of one request; they are read in several batches."""
    top_k: int = 100
    """Words for one mask, and answers to one question."""
    answer_bytes: int = 32 << 20
    """Bytes of the vectors in one answer."""
    n: int = 8
    """Texts for one prompt, and beams."""
    logprobs: int = 20
    """Alternatives told for each token."""
    stop: int = 4
    """Strings that end a text."""
    new_tokens: int = 4096
    """Tokens that a text may go on for, where the model itself sets no limit."""
    deadline: float = 60.0
    """Seconds from a request to the end of its answer."""
    shutdown_timeout: float = 20.0
    """Seconds that open requests have left once the server is told to end."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) > 0:
                raise ValueError(f"{field.name} is {getattr(self, field.name)}: a limit is a number above 0")
