"""What every config shares: reading from and writing to Hugging Face's config.json keys."""

from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields
from typing import Any, TypeVar

C = TypeVar("C")
PROBLEMS = (None, "single_label_classification", "multi_label_classification", "regression")
MAY_BE_ZERO = ("position_offset",)


def read(cls: type[C], raw: dict[str, Any], *, only: Mapping[str, tuple[Any, ...]] | None = None) -> C:
    """Build a config from a config.json dict; `only` lists settings of which we carry out just some values."""
    for key, allowed in {"quantization_config": (None,), "problem_type": PROBLEMS, **(only or {})}.items():
        value = raw.get(key, allowed[0])
        if value not in allowed:
            raise ValueError(
                f"config.json says {key} = {value!r}, which is not supported; "
                f"supported: {', '.join(repr(v) for v in dict.fromkeys(allowed))}"
            )
    known = {field.name: field for field in fields(cls)}  # type: ignore[arg-type]
    needed = [name for name, f in known.items() if f.default is MISSING and f.default_factory is MISSING]
    if missing := [name for name in needed if name not in raw]:
        raise ValueError(f"config.json lacks {', '.join(missing)}")
    given = {key: value for key, value in raw.items() if key in known and key != "id2label"}
    for key, value in given.items():
        least = 0 if key in MAY_BE_ZERO else 1
        if known[key].type is int and (not isinstance(value, int) or isinstance(value, bool) or value < least):
            raise ValueError(f"config.json says {key} = {value!r}; it must be a whole number of at least {least}")
    return cls(**given, **({"id2label": labels(raw)} if "id2label" in known else {}))


def labels(raw: Mapping[str, Any]) -> dict[int, str]:
    """id2label with integer keys, from id2label, label2id or num_labels, whichever the folder has."""
    by_id, by_name = raw.get("id2label"), raw.get("label2id")
    for name, value in (("id2label", by_id), ("label2id", by_name)):
        if value is not None and not isinstance(value, Mapping):
            raise ValueError(f"{name} must map numbers and labels, not be a {type(value).__name__}")
    if by_id:
        found = {int(key): str(value) for key, value in by_id.items()}
    elif by_name:
        found = {int(value): str(key) for key, value in by_name.items()}
    else:
        found = {number: f"LABEL_{number}" for number in range(raw.get("num_labels") or 2)}
    if sorted(found) != list(range(len(found))):
        raise ValueError(f"id2label must number the labels 0 to {len(found) - 1}, not {sorted(found)}")
    return dict(sorted(found.items()))


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
