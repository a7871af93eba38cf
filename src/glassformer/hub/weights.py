"""The weight-table engine: one table, run from their file to our module and back.

A table is written out as entries (their name, our names, op) for the model at hand; loading and saving walk the
same entries in opposite directions, so that no inverse is ever written by hand.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape

import torch
from torch import Tensor, nn

from glassformer.models.architecture import Architecture, Op, Row
from glassformer.models.contract import as_model

Shape = tuple[int, ...]


@dataclass(frozen=True)
class WeightEntry:
    """One tensor of theirs, and the tensors of ours it holds one after another."""

    theirs: str
    ours: tuple[str, ...]
    op: Op | None = None

    def split(self, tensor: Tensor) -> list[Tensor]:
        """Theirs -> ours, as views of theirs."""
        turned = self.op is Op.TRANSPOSE and tensor.dim() == 2
        return list((tensor.t() if turned else tensor).chunk(len(self.ours)))

    def join(self, tensors: Sequence[Tensor]) -> Tensor:
        """Ours -> theirs."""
        tensor = torch.cat(list(tensors)) if len(tensors) > 1 else tensors[0]
        return (tensor.t() if self.op is Op.TRANSPOSE and tensor.dim() == 2 else tensor).contiguous()

    def shape(self, ours: Sequence[Shape]) -> Shape:
        """The shape that theirs must have."""
        whole = (sum(shape[0] for shape in ours), *ours[0][1:]) if len(ours) > 1 else ours[0]
        return whole[::-1] if self.op is Op.TRANSPOSE else whole


@dataclass
class LoadReport:
    """What a load did: our tensors that were read, ours that are new, theirs that are of no use here."""

    loaded: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        parts = [f"{len(self.loaded)} tensors loaded"]
        if self.new:
            parts.append(f"{len(self.new)} new with random values: {some(self.new)}")
        if self.unused:
            parts.append(f"{len(self.unused)} of the file unused: {some(self.unused)}")
        return "; ".join(parts)

    def __repr__(self) -> str:
        return f"LoadReport({self})"

    def _repr_html_(self) -> str:
        """The counts, each of which opens to its names, for notebooks; what could turn or hide text is spelt out."""
        told = {"loaded": "tensors loaded", "new": "new with random values", "unused": "of the file unused"}
        found = {told[name]: names for name, names in asdict(self).items() if names or name == "loaded"}
        listed = {what: [escape(repr(name)[1:-1]) for name in names] for what, names in found.items()}
        return "".join(
            f"<details><summary>{len(names)} {what}</summary><code>{'<br>'.join(names)}</code></details>"
            for what, names in listed.items()
        )


@dataclass
class LoadPlan:
    """Which entries to read, in file names, and what will be reported."""

    reads: list[WeightEntry]
    report: LoadReport
    copies: list[tuple[str, str]] = field(default_factory=list)  # of tied outputs: their copy, and what is read


def tensors_of(model: nn.Module) -> dict[str, Tensor]:
    """Every tensor that a checkpoint holds; a tied one under each of its names."""
    transient = {
        f"{path}.{name}".removeprefix(".")
        for path, module in model.named_modules(remove_duplicate=False)
        for name in module._non_persistent_buffers_set
    }
    named = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
    return {name.replace("_orig_mod.", ""): tensor for name, tensor in named if name not in transient}


def entries(rows: Iterable[Row] | None, ours: Iterable[str]) -> list[WeightEntry]:
    """The table written out for a model whose tensors have these names."""
    names = list(ours)
    if rows is None:
        return [WeightEntry(name, (name,)) for name in names]
    found = []
    for theirs, target, *op in rows:
        if target is None:
            continue
        targets = [target] if isinstance(target, str) else target
        for name in names:
            if match := _pattern(targets[0]).fullmatch(name):
                number, suffix = match.groupdict(default="").get("number", ""), match["suffix"] or ""
                ours_here = tuple(each.replace("*", number) + suffix for each in targets)
                found.append(WeightEntry(theirs.replace("*", number) + suffix, ours_here, *op))
    return found


def _pattern(name: str) -> re.Pattern[str]:
    """`layers.*.x` fits `layers.3.x`, `layers.3.x.weight` and `layers.3.x.bias`."""
    return re.compile(re.escape(name).replace(r"\*", r"(?P<number>\d+)") + r"(?P<suffix>\.weight|\.bias)?")


def plan_load(
    architecture: Architecture, model: nn.Module, head: str | None, file: Mapping[str, Shape], *, fresh_head: bool
) -> LoadPlan:
    """Match the tensors of a file with those of a model on the meta device; all that is wrong is said at once."""
    ours = tensors_of(model)
    same = {name: id(tensor) for name, tensor in ours.items()}  # tied names have one identity
    canonical = {_canonical(name, architecture.prefix): name for name in file}
    body = architecture.rows(as_model(model).config)
    rows = None if body is None else [*body, *architecture.heads[head].weights]
    reads: list[WeightEntry] = []
    filled, used, copies = set(), set(), []
    misshaped: dict[str, str] = {}
    for entry in entries(rows, ours):
        if (name := canonical.get(entry.theirs)) is None:
            continue
        used.add(name)
        if all(same[target] in filled for target in entry.ours):  # a tied copy
            if entry.ours[0].startswith("head.") and entry.ours[0].endswith("weight"):
                first = next(each for each in reads if same[each.ours[0]] == same[entry.ours[0]])
                copies.append((name, first.theirs))
            continue
        wanted = entry.shape([tuple(ours[target].shape) for target in entry.ours])
        if file[name] == wanted:
            reads.append(WeightEntry(name, entry.ours, entry.op))
            filled |= {same[target] for target in entry.ours}
        elif not (fresh_head and _is_fresh(entry.ours[0])):
            text = f"{name}: {list(file[name])} in the file, {list(wanted)} by config.json"
            misshaped |= dict.fromkeys(entry.ours, text)
    absent = [name for name in ours if same[name] not in filled and name not in architecture.zero_if_absent]
    new = [name for name in absent if fresh_head and _is_fresh(name)]
    missing = [name for name in absent if name not in new and name not in misshaped]
    left = [name for name in file if name not in used]
    dropped = [name for name in left if _dropped(body or (), _canonical(name, architecture.prefix))]
    known = [
        name
        for name in left
        if name in dropped or _known_elsewhere(architecture, head, _canonical(name, architecture.prefix))
    ]
    unknown = [name for name in left if name not in known]
    _raise_all(missing=missing, unknown=unknown, misshaped=list(dict.fromkeys(misshaped.values())))
    unused = [name for name in known if name not in dropped]
    return LoadPlan(reads, LoadReport([name for entry in reads for name in entry.ours], new, unused), copies)


def check_same(model: nn.Module, built: nn.Module) -> None:
    """Refuse to save a model that is no longer what its config says: it could not be loaded again."""
    ours, planned = tensors_of(model), tensors_of(built)
    wrong = [f"{name} is missing" for name in planned if name not in ours]
    wrong += [f"{name} is extra" for name in ours if name not in planned]
    both = [name for name in planned if name in ours]
    for name in both:
        is_shape, should = list(ours[name].shape), list(planned[name].shape)
        wrong += [f"{name} has the shape {is_shape}, by config {should}"] if is_shape != should else []
    twins = [(a, b) for place, a in enumerate(both) for b in both[:place] if planned[a] is planned[b]]
    wrong += [f"{a} is no longer tied to {b}" for a, b in twins if ours[a] is not ours[b]]
    if wrong:
        raise ValueError(f"the model does not fit its config and could not be loaded again: {some(wrong)}")


def their_tensors(architecture: Architecture, model: nn.Module, head: str | None) -> dict[str, Tensor]:
    """A model's tensors under the names and in the shapes of its Hugging Face file, tied copies once."""
    ours = tensors_of(model)
    rows, table = None, architecture.rows(as_model(model).config)
    if table is not None:
        prefix = f"{architecture.prefix}." if head and architecture.prefix else ""
        body: list[Row] = [(prefix + row[0], *row[1:]) for row in table]
        rows = [*body, *architecture.heads[head].weights]
    theirs: dict[str, Tensor] = {}
    written: set[int] = set()
    for entry in entries(rows, ours):
        tensors = [ours[name] for name in entry.ours]
        if not all(id(tensor) in written for tensor in tensors):
            theirs[entry.theirs] = entry.join([tensor.detach() for tensor in tensors])
            written |= {id(tensor) for tensor in tensors}
    lost = [name for name, tensor in ours.items() if id(tensor) not in written]
    assert not lost, f"the weight table has no row for {lost}"
    return theirs


def _canonical(name: str, prefix: str) -> str:
    """Without the body's prefix, and with today's words for a norm's two tensors."""
    name = name.removeprefix(f"{prefix}.") if prefix else name
    return re.sub(r"(?<=LayerNorm\.)gamma$", "weight", re.sub(r"(?<=LayerNorm\.)beta$", "bias", name))


def _is_fresh(name: str) -> bool:
    """What may be new when a head is asked for that the file does not have."""
    return name.startswith(("head.", "pooler.", "pooling."))


def _known_elsewhere(architecture: Architecture, head: str | None, name: str) -> bool:
    """Whether this tensor is known to belong to another head, or to be idle; a whole layer too many is neither."""
    if architecture.weights is None and head is None and name.startswith(("head.", "pooling.")):  # by our own names
        return True
    rows = [row[0] for head in architecture.heads.values() for row in head.weights]
    return any(_pattern(theirs).fullmatch(name) for theirs in (*rows, *architecture.may_be_idle))


def _dropped(rows: Sequence[Row], name: str) -> bool:
    """Old buffers that mean nothing."""
    return any(row[1] is None and _pattern(row[0]).fullmatch(name) for row in rows)


def _raise_all(**problems: list[str]) -> None:
    words = {"missing": "missing from the file", "unknown": "in the file but unknown", "misshaped": "of another shape"}
    found = [f"{words[kind]}: {some(names)}" for kind, names in problems.items() if names]
    if found:
        raise ValueError("the weights do not fit the config; " + "; ".join(found))


def some(names: Sequence[str], most: int = 20) -> str:
    """The names, shortened where they are very many."""
    rest = len(names) - most
    shown = [name if name.isprintable() else repr(name) for name in names[:most]]
    return ", ".join(shown) + (f" and {rest} more" if rest > 0 else "")
