"""What every config shares: reading from and writing to Hugging Face's config.json keys."""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, asdict, fields
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, Self, TypedDict, TypeVar

from glassformer.files.schema import Bounds, conform, hints_of

C = TypeVar("C", bound="BaseConfig")
ProblemType = Literal["single_label_classification", "multi_label_classification", "regression"]
TaskParams = dict[str, dict[str, Any]]  # what a folder says of single tasks: T5's prefixes, how long a summary is
PLACE = "config.json"


class Common(TypedDict, total=False):
    """The keys of a config.json that mean the same in every architecture."""

    model_type: str
    architectures: list[str]
    num_labels: Annotated[float, Bounds(1, 1_000_000)]
    id2label: dict[str | int, str | int | float | None]
    label2id: dict[str | int, int | str]


class BaseConfig:
    """What the config dataclasses of most architectures say in the same way (`contract.ModelConfig`)."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    is_encoder_decoder: ClassVar[bool] = False
    has_segments: ClassVar[bool] = False  # whether token_type_ids mean something to the model
    mask_rate: ClassVar[float] = 0.15  # share of the tokens that is hidden when it learns to fill masks
    initializer_range: float = 0.02
    problem_type: ProblemType | None = None
    id2label: Mapping[int, str] = MappingProxyType({})  # of one without classes
    vocab_size: int

    @property
    def target_vocab_size(self) -> int:
        return self.vocab_size

    @classmethod
    def from_hf(cls, raw: dict[str, Any]) -> Self:
        """Of the dict of a config.json."""
        return read(cls, raw)

    def to_hf(self) -> dict[str, Any]:
        """The dict of a config.json."""
        return write(self)

    def to_dict(self) -> dict[str, Any]:
        """The same, by the name that transformers gives it."""
        return self.to_hf()

    @property
    def label2id(self) -> dict[str, int]:
        """The number of each label; none where a model has no labels."""
        return {name: number for number, name in self.id2label.items()}

    @property
    def num_labels(self) -> int:
        """How many there are; two may have one name."""
        return len(self.id2label)


def read(cls: type[C], raw: Mapping[str, Any], *, only: Mapping[str, tuple[Any, ...]] | None = None) -> C:
    """Build a config from a config.json dict; `only` lists settings of which we carry out just some values."""
    conform(raw, Common, PLACE)
    for key, allowed in {"quantization_config": (None,), **(only or {})}.items():
        if raw.get(key, allowed[0]) not in allowed:
            supported = ", ".join(repr(value) for value in dict.fromkeys(map(_hashable, allowed)))
            raise ValueError(f"{PLACE} says {key} = {raw[key]!r}, which is not supported; supported: {supported}")
    known = {field.name: field for field in fields(cls)}
    needed = [name for name, f in known.items() if f.default is MISSING and f.default_factory is MISSING]
    if missing := [name for name in needed if name not in raw]:
        raise ValueError(f"{PLACE} lacks {', '.join(missing)}")
    given = {key: value for key, value in raw.items() if key in known and key != "id2label"}
    hints = hints_of(cls)
    for key, value in given.items():
        conform(value, hints[key], PLACE, key)
    return cls(**given, **({"id2label": labels(raw)} if "id2label" in known else {}))


def labels(raw: Mapping[str, Any]) -> dict[int, str]:
    """id2label with integer keys, from id2label, label2id or num_labels, whichever the folder has.

    A num_labels that says another number than the names counts, as in `transformers`: old folders keep the two
    default names beside it.
    """
    conform(raw, Common, PLACE)
    by_id, by_name, count = raw.get("id2label"), raw.get("label2id"), raw.get("num_labels")
    if count is not None and count != int(count):
        raise ValueError(f"{PLACE}: num_labels is {count}; it must be a whole number")
    if by_id:
        found = {_number(key): str(value) for key, value in by_id.items()}
    elif by_name:
        found = {_number(value): str(key) for key, value in by_name.items()}
    else:
        found = {}
    if not found or count not in (None, len(found)):
        found = {number: f"LABEL_{number}" for number in range(int(count or 2))}
    if sorted(found) != list(range(len(found))):
        raise ValueError(f"id2label must number the labels 0 to {len(found) - 1}, not {sorted(found)[:20]}")
    return dict(sorted(found.items()))


def _number(key: str | int) -> int:
    try:
        return int(key)
    except ValueError:
        raise ValueError(f"{PLACE}: id2label has the key {key!r}; its keys are the labels' numbers") from None


def _hashable(value: object) -> Any:
    return str(value) if isinstance(value, dict | list) else value


def write(config: BaseConfig) -> dict[str, Any]:
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


def check_layer_types(named: Sequence[str] | None, layers: int) -> None:
    """Refuse kinds of layers that are not named one for each."""
    if named is not None and len(named) != layers:
        raise ValueError(f"layer_types names {len(named)} layers, and there are {layers}")
