"""`glassformer train RECIPE --dry-run-mesh 16x8`: what a step would exchange, hold and take; nothing is trained."""

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn

from glassformer.hub.fetch import config_folder
from glassformer.hub.folder import read_config
from glassformer.hub.registry import architecture_for, check_known, reading_head, skeleton
from glassformer.models.contract import GENERATES, as_model
from glassformer.train.mesh import MOMENTS, WEIGHT, Exchange, Held, Mesh, exchanges, flops_per_token, held

from .assemble import plan_of
from .defaults import defaults
from .models import head_for, model_type
from .recipe import Recipe
from .tasks import task_class

PEAK, MEMORY = 731e12, 139 * 2**30  # of an H200 in bf16, both as measured (docs/results.md)
WITHIN = 450e9  # bytes a second in each direction: NVLink 4, between the GPUs of a machine
NETWORKS = {  # bytes a second of each GPU, in each direction, between machines
    "InfiniBand NDR, 400 Gb/s a GPU": 50e9,
    "Ethernet or EFA, 100 Gb/s a GPU": 12.5e9,
    "Ethernet, 25 Gb/s a GPU": 3.125e9,
}
DISK = 2e9  # bytes a second that a machine writes
VOCABULARY = 32_000  # of a model from nothing whose recipe does not say


@dataclass(frozen=True)
class MeshReport:
    """One step of a recipe on a mesh."""

    parallel: str
    world_size: int
    shard_size: int
    tensor_size: int
    parameters: int
    tokens: int  # of a step, over all processes
    length: int
    exchanges: list[Exchange]
    held: Held
    compute_seconds: float  # at the measured peak
    checkpoint_bytes: float
    nodes: int

    def exchange_seconds(self, network: str) -> float:
        """As if nothing else went on, at the full speed of every link."""
        return sum(one.bytes / (NETWORKS[network] if one.between else WITHIN) for one in self.exchanges)

    def shares(self, network: str) -> tuple[float, float]:
        """The share of the peak that exchange leaves: where nothing of it is hidden behind computing, and all."""
        seconds = self.exchange_seconds(network)
        total, longer = self.compute_seconds + seconds, max(self.compute_seconds, seconds)
        return self.compute_seconds / total, self.compute_seconds / longer

    @property
    def breaks(self) -> str:
        """What goes wrong first, and what to do."""
        if self.held.total > MEMORY:
            return _too_large(self)
        rows = self.world_size // self.tensor_size
        if self.tokens < rows * self.length:
            return (
                f"a process has {self.tokens / rows:,.0f} tokens of a step, less than one text of {self.length:,}: "
                f"raise batch_tokens to {rows * self.length:,} or more, or take fewer GPUs"
            )
        if sum(one.bytes for one in self.exchanges if one.in_row) / WITHIN > self.compute_seconds:
            return "what a row sums takes longer than computing: take a smaller tensor_parallel"
        for network in NETWORKS if self.nodes > 1 else ():
            if self.shares(network)[1] < 0.9:
                return f"the network: with {network} exchange takes longer than computing; raise batch_tokens, " + (
                    "take hsdp, which gathers within a machine" if self.parallel == "fsdp" else "or accumulate"
                )
        where = "on these networks" if self.nodes > 1 else "within a machine"
        return f"nothing {where}; the next limit is how large a batch still helps learning"

    def as_dict(self) -> dict[str, Any]:
        found = asdict(self)
        found["held"]["total"] = self.held.total
        networks = {
            name: {"exchange_seconds": self.exchange_seconds(name), "share_of_peak": self.shares(name)}
            for name in NETWORKS
        }
        return {**found, "networks": networks, "breaks": self.breaks}

    def lines(self) -> list[str]:
        """The same for a person."""
        rows = self.world_size // self.tensor_size
        kept, each = self.held, self.tokens / rows
        together = f"N = {self.tensor_size} compute one model together, " if self.tensor_size > 1 else ""
        shares = {name: "{:.0%} to {:.0%}".format(*self.shares(name)) for name in NETWORKS}
        lines = [
            f"{self.parameters:,} parameters; {self.parallel} on {self.nodes} machines, {self.world_size} processes: "
            f"{together}S = {self.shard_size} share one model, R = {rows // self.shard_size}",
            f"a step: {self.tokens:,} tokens in texts of {self.length:,}, {each:,.0f} a process",
            "a process receives in a step:",
            *(
                f"  {one.what}: {_bytes(one.bytes)} in {one.count} calls = {one.formula}"
                f"{' (between machines)' if one.between else ' (within a machine)'}"
                for one in self.exchanges
            ),
            f"a process holds {_bytes(kept.total)} of {_bytes(MEMORY)}: weights {_bytes(kept.weights)}, gradients "
            f"{_bytes(kept.gradients)}, moments {_bytes(kept.moments)}, gathered layers {_bytes(kept.gathered)}, "
            f"activations {_bytes(kept.activations)}, scores {_bytes(kept.scores)}"
            f"{f'; beside it {_bytes(kept.offloaded)} in the memory of the CPU' if kept.offloaded else ''}",
            f"computing takes {self.compute_seconds:.3g} s at {PEAK / 1e12:.0f} TFLOP/s; exchange, and the share of "
            "the peak that it leaves if none or all of it is hidden:",
            *(f"  {name}: {self.exchange_seconds(name):.3g} s, {shares[name]}" for name in NETWORKS),
            f"a checkpoint has {_bytes(self.checkpoint_bytes)} = P · 12, and takes "
            f"{self.checkpoint_bytes / self.nodes / DISK:.3g} s where each machine writes {_bytes(DISK)}/s",
            f"what breaks first: {self.breaks}",
        ]
        return lines if self.exchanges else [line for line in lines if not line.startswith("a process receives")]


def mesh_report(recipe: Recipe, mesh: Mesh) -> MeshReport:
    """Nothing is read but the config of a recipe's model, and nothing is allocated: the model has no values."""
    model = _skeleton(recipe)
    standard = defaults(task_class(recipe.task).name, model, pretrained=recipe.model is not None, device="cuda")
    plan = plan_of(standard, recipe.plan)
    if plan.context_parallel > 1:
        raise ValueError("what context_parallel exchanges is not counted: leave it out of a dry run")
    length = _length(recipe, model)
    tokens = plan.batch_tokens or (plan.batch_size or 1) * length
    parameters = sum(tensor.numel() for tensor in model.parameters())
    rows = mesh.rows(plan)
    at_once = max(tokens / rows / plan.accumulate, min(length, tokens))
    scored, chunk = _scored(recipe, model, at_once), recipe.options.get("chunk")
    flops = tokens / mesh.world_size * flops_per_token(model, length=length, checkpointing=plan.checkpointing)
    return MeshReport(
        parallel=plan.parallel,
        world_size=mesh.world_size,
        shard_size=mesh.shard_size(plan),
        tensor_size=plan.tensor_parallel,
        parameters=parameters,
        tokens=tokens,
        length=length,
        exchanges=exchanges(model, plan, mesh, tokens=at_once, scored=scored, chunk=chunk),
        held=held(model, plan, mesh, tokens=at_once, scored=min(scored, chunk or scored)),
        compute_seconds=flops / PEAK,
        checkpoint_bytes=float(parameters * (WEIGHT + MOMENTS)),
        nodes=mesh.nodes,
    )


def _skeleton(recipe: Recipe) -> nn.Module:
    """The model of a recipe without values; one from nothing has the vocabulary that its config says."""
    cls = task_class(recipe.task)
    if recipe.model is not None:
        raw = read_config(config_folder(recipe.model))
        kind = str(raw.get("model_type"))
    else:
        kind = model_type(str(recipe.arch), head_for(str(recipe.arch), cls))
        raw = {"model_type": kind, "vocab_size": VOCABULARY, **architecture_for(kind).small}
    architecture = architecture_for(kind)
    check_known(recipe.config, architecture)
    head = reading_head(
        architecture, recipe.options.get("head", head_for(recipe.arch, cls) if recipe.arch else cls.head)
    )
    with torch.device("meta"):
        return skeleton(architecture, architecture.config.from_hf({**raw, **recipe.config}), head)


def _length(recipe: Recipe, model: nn.Module) -> int:
    """Tokens of a text, as the recipe says or the model can read."""
    asked = recipe.options.get("block_size") or recipe.options.get("max_length")
    return int(asked or min(as_model(model).config.max_positions or 512, 4096))


def _scored(recipe: Recipe, model: nn.Module, tokens: float) -> float:
    """Of how many of these tokens all words are scored."""
    if as_model(model).head_name == "fill-mask":
        return tokens * float(recipe.options.get("mask_rate") or as_model(model).config.mask_rate)
    return tokens if as_model(model).head_name in GENERATES else 0.0


def _too_large(report: MeshReport) -> str:
    held, ways = report.held, list[str]()
    if held.activations + held.scores > MEMORY / 3:
        ways.append("more micro-batches (accumulate), checkpointing = true, scores a chunk at a time (chunk = 2048)")
    if report.parallel == "ddp":
        ways.append("parallel = fsdp")
    elif report.shard_size < report.world_size:
        ways.append("parallel = fsdp, or a larger shard_size")
    else:
        ways.append("more machines, tensor_parallel" + ("" if held.offloaded else ", or offload = true"))
    return f"memory: it does not fit by {_bytes(held.total - MEMORY)}; {'; '.join(ways)}"


def _bytes(count: float) -> str:
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if count >= unit:
            return f"{count / unit:.3g} {name}"
    return f"{count / 1e3:.3g} kB"
