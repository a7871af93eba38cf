"""What one request may ask of the studio: how long a text, how wide a search, how many seconds."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic

from torch import nn

from glassformer.generate.settings import GenerationSettings

LONGEST = 4096  # tokens of a text, read at once
MOST = {"num_beams": 32, "num_return_sequences": 32, "max_new_tokens": 1024}
SECONDS = 120.0


class Late(ValueError):
    """A request has taken all the time there is for one."""


@dataclass(frozen=True)
class Deadline:
    """When a request must be done; the server keeps to it, whether or not anybody still waits for the answer."""

    at: float
    seconds: float

    @classmethod
    def after(cls, seconds: float) -> "Deadline":
        return cls(monotonic() + seconds, seconds)

    @property
    def left(self) -> float:
        """Seconds; at least a moment, so that it can be handed on as a limit."""
        return max(1e-3, self.at - monotonic())

    def check(self) -> None:
        """Stop work that is not worth going on with."""
        if monotonic() >= self.at:
            raise Late(
                f"this took longer than the {self.seconds:g} seconds that the studio gives a request: ask for less, or "
                "start it with more --deadline"
            )

    @contextmanager
    def watching(self, model: nn.Module, *, inside: bool = False) -> Iterator[None]:
        """Within the block a model looks at the clock before each of its calls, or of all calls inside it.

        A hook inside lets a model take its textbook path: do so only where it is recorded anyway.
        """
        parts = model.modules() if inside else [model]
        hooks = [part.register_forward_pre_hook(lambda *_: self.check()) for part in parts]
        try:
            self.check()
            yield
        finally:
            for hook in hooks:
                hook.remove()


def within(settings: GenerationSettings, prompt: int, *, explicit: bool) -> GenerationSettings:
    """A request of generation as far as the studio goes along; a length that is not `explicit` is cut to it."""
    for name in ("num_beams", "num_return_sequences"):
        if getattr(settings, name) > MOST[name]:
            raise ValueError(f"{name}={getattr(settings, name)}: the studio goes up to {MOST[name]}; ask for less")
    new, most = settings.max_new(prompt), MOST["max_new_tokens"]
    if new > most and explicit:
        raise ValueError(f"max_new_tokens={new}: the studio writes up to {most}; ask for less")
    return settings.with_max_new(min(new, most))


def check_length(tokens: int) -> None:
    """Refuse a text that is too long to be read at once."""
    if tokens > LONGEST:
        raise ValueError(
            f"this text has {tokens:,} tokens, and the studio reads {LONGEST:,} at once: give a shorter one"
        )
