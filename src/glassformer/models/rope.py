"""Rotary positions as a config.json describes them, in today's keys and in those of before."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypedDict, get_args

from glassformer.blocks.rotary import (
    DynamicScaling,
    LinearScaling,
    Llama3Scaling,
    RopeScaling,
    Rotary,
    Unscaled,
    YarnScaling,
    yarn_attention_factor,
)
from glassformer.files.schema import Bounds, NotNegative, Positive, Size, conform

from .config import PLACE

RopeType = Literal["default", "linear", "dynamic", "llama3", "yarn"]
NEEDED: dict[str, tuple[str, ...]] = {
    "linear": ("factor",),
    "dynamic": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
    "yarn": ("factor", "original_max_position_embeddings"),
}


class RopeParameters(TypedDict, total=False):
    """Hugging Face's `rope_parameters`."""

    rope_type: RopeType
    rope_theta: Annotated[float, Bounds(1, above=True)]
    factor: Positive
    original_max_position_embeddings: Size
    low_freq_factor: Positive
    high_freq_factor: Positive
    attention_factor: NotNegative
    beta_fast: Positive
    beta_slow: Positive
    mscale: NotNegative
    mscale_all_dim: NotNegative
    truncate: bool
    partial_rotary_factor: Positive


def rope_parameters(raw: Mapping[str, Any], default_theta: float = 10000.0) -> RopeParameters:
    """The `rope_parameters` of a config.json, or what `rope_theta` and `rope_scaling` say in older ones."""
    given = raw.get("rope_parameters") or raw.get("rope_scaling") or {}
    conform(given, dict[str, Any], PLACE, "rope_parameters")
    found = {key: value for key, value in given.items() if value is not None and key != "type"}
    found = {"rope_type": given.get("type") or "default", "rope_theta": raw.get("rope_theta") or default_theta} | found
    check_rope(found)
    return found  # type: ignore[return-value]


def check_rope(found: Mapping[str, Any]) -> None:
    """Refuse kinds of rotary positions that are not carried out, and those that lack a number."""
    kind = found["rope_type"]
    if kind not in get_args(RopeType):
        known = ", ".join(get_args(RopeType))
        raise ValueError(f"{PLACE} says rope_type = {kind!r}, which is not supported; supported: {known}")
    conform(found, RopeParameters, PLACE, "rope_parameters")
    if found.get("partial_rotary_factor", 1.0) != 1.0:
        raise ValueError(f"{PLACE} turns only a part of each head (partial_rotary_factor), which is not supported")
    if missing := [key for key in NEEDED.get(kind, ()) if key not in found]:
        raise ValueError(f"{PLACE}: rope_parameters of type {kind} lack {', '.join(missing)}")


def build_rotary(rope: RopeParameters, width: int, max_positions: int) -> Rotary:
    """Rotary positions for heads of this width."""
    return Rotary(width, theta=rope["rope_theta"], scaling=_scaling(rope, max_positions))


def _scaling(rope: RopeParameters, max_positions: int) -> RopeScaling:
    match rope["rope_type"]:
        case "linear":
            return LinearScaling(rope["factor"])
        case "dynamic":
            return DynamicScaling(rope["factor"], max_positions)
        case "llama3":
            trained = rope["original_max_position_embeddings"]
            return Llama3Scaling(rope["factor"], rope["low_freq_factor"], rope["high_freq_factor"], trained)
        case "yarn":
            factor, own = rope["factor"], rope.get("attention_factor")
            if own is None:
                own = yarn_attention_factor(factor, rope.get("mscale"), rope.get("mscale_all_dim"))
            ramp = (rope.get("beta_fast") or 32.0, rope.get("beta_slow") or 1.0, rope.get("truncate", True))
            return YarnScaling(factor, rope["original_max_position_embeddings"], own, *ramp)
        case _:
            return Unscaled()


def older_keys(rope: RopeParameters) -> dict[str, Any]:
    """What releases of `transformers` before 5 read."""
    scaling = {key: value for key, value in rope.items() if key != "rope_theta"}
    return {
        "rope_parameters": dict(rope),
        "rope_theta": rope["rope_theta"],
        "rope_scaling": None if rope["rope_type"] == "default" else scaling,
    }
