"""What every config shares: reading from and writing to Hugging Face's config.json keys."""

from dataclasses import MISSING, asdict, fields
from typing import Any, TypeVar

C = TypeVar("C")


def read(cls: type[C], raw: dict[str, Any], *, only: dict[str, tuple[Any, ...]] | None = None) -> C:
    """Build a config from a config.json dict; `only` lists settings of which we carry out just some values."""
    for key, allowed in (only or {}).items():
        value = raw.get(key, allowed[0])
        if value not in allowed:
            raise ValueError(
                f"config.json says {key} = {value!r}, which is not supported; "
                f"supported: {', '.join(repr(v) for v in allowed)}"
            )
    names = {field.name for field in fields(cls)}  # type: ignore[arg-type]
    needed = [f.name for f in fields(cls) if f.default is MISSING and f.default_factory is MISSING]  # type: ignore[arg-type]
    if missing := [name for name in needed if name not in raw]:
        raise ValueError(f"config.json lacks {', '.join(missing)}")
    given = {key: value for key, value in raw.items() if key in names and key != "id2label"}
    return cls(**given, **labels(raw) if "id2label" in names else {})


def labels(raw: dict[str, Any]) -> dict[str, dict[int, str]]:
    """id2label with integer keys, from id2label, label2id or num_labels, whichever the folder has."""
    if raw.get("id2label"):
        found = {int(key): str(value) for key, value in raw["id2label"].items()}
    elif raw.get("label2id"):
        found = {int(value): str(key) for key, value in raw["label2id"].items()}
    else:
        found = {number: f"LABEL_{number}" for number in range(raw.get("num_labels") or 2)}
    if sorted(found) != list(range(len(found))):
        raise ValueError(f"id2label must number the labels 0 to {len(found) - 1}, not {sorted(found)}")
    return {"id2label": dict(sorted(found.items()))}


def write(config: Any) -> dict[str, Any]:
    """The config.json dict of a config."""
    raw = asdict(config)
    if "id2label" in raw:
        raw["label2id"] = {label: number for number, label in raw["id2label"].items()}
        raw["id2label"] = {str(number): label for number, label in raw["id2label"].items()}
    return raw


def check_heads(width: int, heads: int) -> int:
    """The width of one head; an error where the heads do not share the width evenly."""
    if heads < 1 or width % heads:
        raise ValueError(f"a width of {width} cannot be shared by {heads} heads; choose a divisor of {width}")
    return width // heads
