"""What stands in requests of several faces: texts, numbers and the settings of what is written, with their limits."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from .errors import Problem
from .limits import Limits

Text = Annotated[str, Field(strict=True)]
Count = Annotated[int, Field(strict=True, ge=1)]
Id = Annotated[int, Field(strict=True, ge=0, lt=2**31)]
Ids = Annotated[list[Id], Field(min_length=1)]
Flag = Annotated[bool, Field(strict=True)]
Seed = Annotated[int, Field(strict=True, ge=-(2**63), le=2**64 - 1)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Direction = Literal["left", "right", "Left", "Right"]


class Strict(BaseModel):
    """A request that holds nothing but what is known."""

    model_config = ConfigDict(extra="forbid")


class Reply(BaseModel):
    """An answer, as it is described in /openapi.json."""


def within(limits: Limits, name: str, value: int | None, *, param: str) -> None:
    """Refuse a number beyond one of the limits, with both."""
    most = getattr(limits, name)
    if value is not None and value > most:
        raise Problem(422, f"{param} is {value:,}, and this server goes up to {most:,}", param=param)


def check_inputs(limits: Limits, inputs: list[Any], *, param: str) -> None:
    """Refuse no inputs, and too many."""
    if not inputs:
        raise Problem(422, f"{param} is empty: give at least one", param=param)
    check_count(limits, len(inputs), f"{param} holds", param=param)


def check_count(limits: Limits, count: int, holds: str, *, param: str) -> None:
    """Refuse more texts than a request may hold, with both numbers; `holds` says what there are so many of."""
    if count > limits.inputs:
        raise Problem(413, f"{holds} {count:,} inputs, and a request may hold {limits.inputs:,}", param=param)


def side_of(given: str | None) -> dict[str, str]:
    """The option of a worker for a truncation_direction."""
    return {} if given is None else {"truncation_side": given.lower()}


def check_prompt_name(given: str | None) -> None:
    if given is not None:
        raise Problem(422, "no model here has prompts by name: leave prompt_name out", param="prompt_name")
