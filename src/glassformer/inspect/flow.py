"""Flow: the way of the data through a model as a graph, drawn from the model itself.

Its nodes are the values of one forward pass, as the walk of each block names them, inside the modules they belong to;
its edges say which value is made from which. All heads of an attention are one node, and all time steps of a gate.

B batch, T length, H heads.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from glassformer.models.contract import as_model

from .calls import capture_calls
from .flow_kinds import kind_of
from .flow_source import SourceLines, source_of
from .formulas import IDENTITY
from .recompute import kind
from .record import modules_of, plain, record
from .steps import RecomputeStep, compute
from .walk import Walk
from .walks.models import walk_model

OUTPUT = ".result"  # what a module gives whose parts are nodes as well


@dataclass(frozen=True)
class FlowNode:
    """A value of the pass, or a module that holds some of them (`step` and `formula` are those of a value)."""

    name: str
    parent: str | None  # the module around it
    kind: str  # input, embedding, attention, feed_forward, norm, residual, recurrent, head, output …
    class_name: str  # of the module; "" where a value is no module's
    shape: tuple[int, ...]
    side: str  # whose tokens it belongs to: "read", or "fed" to a decoder
    token_dim: int | None  # the dimension along which the tokens lie
    step: str | None = None  # as `explain` knows it, with * for the number of a head or a time; None for an input
    formula: str = ""
    latex: str = ""
    numbers: bool = False  # whether `explain` can take one cell of it apart
    part_shape: tuple[int, ...] = ()  # of one head, or of one time
    weights: tuple[str, ...] = ()
    recorded: bool = False  # whether gf.record keeps it under this name
    gives: str = ""  # of a module that is not recorded: the value that it gives at last
    source: SourceLines | None = None


@dataclass(frozen=True)
class FlowEdge:
    """A value on its way: `end` is made from `start`, whose shape it has."""

    start: str
    end: str
    shape: tuple[int, ...]
    recurrent: bool = False  # from one time step to the next


@dataclass(frozen=True)
class FlowGraph:
    """Nodes in the order of computation, those inside a module after it; edges between values alone."""

    model_type: str
    nodes: dict[str, FlowNode]
    edges: list[FlowEdge]
    values: dict[str, Tensor]

    @property
    def leaves(self) -> list[FlowNode]:
        """The values; the other nodes are the modules around them."""
        return [self.nodes[name] for name in self.values]

    @property
    def groups(self) -> set[str]:
        """The modules that hold others."""
        return {node.parent for node in self.nodes.values() if node.parent is not None}


def flow_graph(
    model: nn.Module,
    inputs: Mapping[str, Tensor],
    seen: Mapping[str, Tensor] | None = None,
    outputs: Mapping[str, Tensor] | None = None,
) -> FlowGraph:
    """The graph of one pass: `seen` is what gf.record kept of it under "*", and `outputs` what the model gave.

    What is not given is computed here.
    """
    if model.training:
        raise ValueError("the model is training, and dropout has no formula; call model.eval() first")
    with torch.no_grad():
        if seen is None:
            with record(model, "*") as seen:
                outputs = model(**inputs)._asdict()
        if outputs is None:
            outputs = model(**inputs)._asdict()
        return _Flow(walk_model(model, inputs, capture_calls(model, inputs), outputs), seen).graph()


class _Flow:
    """A walk being folded into a graph."""

    def __init__(self, walk: Walk, seen: Mapping[str, Tensor]) -> None:
        self.walk, self.seen = walk, seen
        self.parts = modules_of(walk.model)
        self.parameters = {plain(name) for name, _ in walk.model.named_parameters(remove_duplicate=False)}
        self.groups = {name for name, part in self.parts.items() if _is_group(part)}
        used = {operand for step in walk.steps for operand in step.operands.values()}
        self.inputs = {name: value for name, value in walk.given.items() if name in used and _is_ids(name, value, walk)}
        self.names: dict[str, str] = {}  # of a step or an input -> of its node
        self.folded: dict[str, list[RecomputeStep]] = {}
        for step in walk.steps:
            self.names[step.name] = self._node_name(step.name)
            self.folded.setdefault(self.names[step.name], []).append(step)
        self.names |= {name: self._node_name(name) for name in self.inputs}

    def graph(self) -> FlowGraph:
        values = self._values()
        edges = dict.fromkeys(self._edges())
        order = self._order()
        place = {name: number for number, name in enumerate(order)}
        sides = self._sides(edges)
        lengths = {side: _length(self.walk, side) for side in ("read", "fed")}
        nodes: dict[str, FlowNode] = {}
        leaves = [name for name in order if name in values]
        for name in leaves:
            nodes[name] = self._leaf(name, values[name], sides[name], lengths[sides[name]], nodes, edges)
        for name in order:
            if name not in values:
                last = [one for one in leaves if one.startswith(f"{name}.")][-1]
                nodes[name] = self._group(name, nodes[last])
        nodes = {name: nodes[name] for name in order}
        listed = [
            FlowEdge(start, end, tuple(values[start].shape), recurrent=place[start] >= place[end])
            for start, end in edges
        ]
        own = {name: values[name] for name in order if name in values}
        return FlowGraph(as_model(self.walk.model).config.model_type, nodes, listed, own)

    # --- names --------------------------------------------------------------------------------------------------

    def _node_name(self, name: str) -> str:
        """Without the numbers of heads and times; a module that has parts is a group, and what it gives one of them."""
        folded = re.sub(r"\.(head|step)\.\d+", "", name)
        folded = re.sub(r"\bembeddings\.ids$", "input_ids", folded)  # with which all begins
        return folded + OUTPUT if folded in self.groups else folded

    def _parent(self, name: str) -> str | None:
        """The nearest module around a name that has parts of its own."""
        parts = name.split(".")
        around = (".".join(parts[:count]) for count in range(len(parts) - 1, 0, -1))
        return next((one for one in around if one in self.groups), None)

    def _order(self) -> list[str]:
        """Every node by when it was computed last, as a loop over time comes back to its parts; modules in front."""
        last: dict[str, float] = {}
        for number, step in enumerate(self.walk.steps):
            for operand in step.operands.values():
                if operand in self.inputs:
                    last.setdefault(self.names[operand], number - 0.5)
            name = self.names[step.name]
            last[name] = number + len(self.walk.steps) * (step.formula is IDENTITY and "." not in name)  # an output
        edges = set(self._edges())
        ends = {end for _, end in edges}
        for name in self.folded.keys() - ends:  # a mask, or rates of positions: beside what it is for
            readers = [last[end] for start, end in edges if start == name]
            last[name] = min(readers, default=last[name]) - 0.25
        inside: dict[str | None, dict[str, float]] = {}
        for name, place in last.items():
            one, parent = name, self._parent(name)
            inside.setdefault(parent, {})[one] = place
            while parent is not None:
                one, parent = parent, self._parent(parent)
                beside = inside.setdefault(parent, {})
                beside[one] = max(place, beside.get(one, -1.0))
        found: list[str] = []

        def visit(parent: str | None) -> None:
            beside = inside.get(parent, {})
            for name in sorted(beside, key=beside.__getitem__):
                found.append(name)
                visit(name)

        visit(None)
        return found

    # --- values -------------------------------------------------------------------------------------------------

    def _values(self) -> dict[str, Tensor]:
        """What each node is: what was recorded, or what its steps saw, or what their formulas give."""
        known = dict(self.walk.given)
        for step in self.walk.steps:
            known[step.name] = step.seen if step.seen is not None else _as_float32(compute(step, known))
        found = {self.names[name]: value for name, value in self.inputs.items()}
        for name, steps in self.folded.items():
            many = [known[step.name] for step in steps]
            if name in self.seen:
                found[name] = self.seen[name]
            else:
                found[name] = many[0] if steps[0].name == kind(steps[0].name) else _joined(steps, many)
        return found

    def _edges(self) -> Iterable[tuple[str, str]]:
        for step in self.walk.steps:
            for operand in step.operands.values():
                whole = operand if operand in self.names else operand.rpartition("[")[0]
                if whole in self.names:
                    yield self.names[whole], self.names[step.name]

    def _sides(self, edges: Iterable[tuple[str, str]]) -> dict[str, str]:
        """Which values depend on what is fed to a decoder."""
        after: dict[str, list[str]] = {}
        for start, end in edges:
            after.setdefault(start, []).append(end)
        made = {end for _, end in edges}
        fed, left = set(), [one for one in self.names.values() if one.startswith("decoder.") and one not in made]
        while left:
            one = left.pop()
            if one not in fed:
                fed.add(one)
                left += after.get(one, [])
        return {name: "fed" if name in fed else "read" for name in self.names.values()}

    # --- nodes --------------------------------------------------------------------------------------------------

    def _leaf(
        self,
        name: str,
        value: Tensor,
        side: str,
        length: int,
        nodes: Mapping[str, FlowNode],
        edges: Iterable[tuple[str, str]],
    ) -> FlowNode:
        part = self.parts.get(name.removesuffix(OUTPUT))
        shape, parent = tuple(value.shape), self._parent(name)
        steps = self.folded.get(name, [])
        made_from = [nodes[start] for start, end in edges if end == name and start in nodes]
        token_dim = _token_dim(shape, length, steps, value)
        if len(shape) == 2 and any(one.token_dim is None and one.kind != "residual" for one in made_from):
            token_dim = None  # of a text, as what it is made from
        class_name = "" if part is None or name.endswith(OUTPUT) else type(part).__name__
        source = source_of(self.walk.model, self.parts, name.removesuffix(OUTPUT), parent)
        if not steps:
            return FlowNode(name, parent, "input", class_name, shape, side, token_dim, source=source)
        first = steps[0]
        weights = [one for one in first.operands.values() if one in self.walk.given and one not in self.inputs]
        return FlowNode(
            name,
            parent,
            kind_of(name, part, first.formula, is_output=not self._goes_on(name)),
            class_name,
            shape,
            side,
            token_dim,
            step=kind(first.name),
            formula=first.formula.text,
            latex=first.formula.latex,
            numbers=first.formula.number is not None,
            part_shape=() if first.seen is None else tuple(first.seen.shape),
            weights=tuple(one for one in weights if one in self.parameters),
            recorded=name in self.seen,
            source=source,
        )

    def _goes_on(self, name: str) -> bool:
        return "." in name or any(start == name for start, _ in self._edges())

    def _group(self, name: str, last: FlowNode) -> FlowNode:
        """A module; its value is what was recorded of it, or else its last one."""
        part, seen = self.parts[name], self.seen.get(name)
        if seen is not None and tuple(seen.shape) != last.shape:
            seen = None  # one step of a module that is called at every one, or what others make of its parts
        return FlowNode(
            name,
            self._parent(name),
            kind_of(name, part, None),
            type(part).__name__,
            last.shape if seen is None else tuple(seen.shape),
            last.side,
            last.token_dim if seen is None else 1 if seen.dim() > 2 else None,
            recorded=seen is not None,
            gives=last.name if seen is None else "",
            source=source_of(self.walk.model, self.parts, name, self._parent(name)),
        )


def _is_group(part: nn.Module) -> bool:
    """Whether a module is drawn around its parts; a list of modules is only a way to name them."""
    return next(part.children(), None) is not None and not isinstance(part, nn.ModuleList | nn.ModuleDict)


def _is_ids(name: str, value: Tensor, walk: Walk) -> bool:
    """Whether a given value is numbers of tokens, segments, places or distances: no mask and no weight."""
    return not value.is_floating_point() and value.dtype != torch.bool and name not in walk.parts


def _as_float32(value: Tensor) -> Tensor:
    return value.float() if value.is_floating_point() else value


def _length(walk: Walk, side: str) -> int:
    mask = "decoder_attention_mask" if side == "fed" else "attention_mask"
    return walk.given[mask].shape[1] if mask in walk.given else 0


def _joined(steps: list[RecomputeStep], values: list[Tensor]) -> Tensor:
    """All times (B, T, ·) in reading order, or all heads (B, H, T, ·)."""
    number = re.compile(r"\.(?:head|step)\.(\d+)")
    places = [int(found[1]) for step in steps if (found := number.search(step.name))]
    assert len(places) == len(values)
    return torch.stack([value for _, value in sorted(zip(places, values, strict=True), key=lambda one: one[0])], dim=1)


def _token_dim(shape: tuple[int, ...], length: int, steps: list[RecomputeStep], value: Tensor) -> int | None:
    if len(shape) == 4 and steps and shape[2] == length:  # (B, H, T, ·), unless it is (B, T, H, ·) with H = T
        first = steps[0].seen
        heads_first = shape[1] != length or first is None or torch.equal(first.float(), value[:, 0].float())
        return 2 if heads_first else 1
    if len(shape) >= 2 and shape[1] == length:
        return 1
    return 1 if len(shape) == 3 and shape[1] > 1 else None
