"""gf.inspect: a text through a model, and what its attention or its states were, as something to look at.

B = 1 text, H heads, T target length, S source length, W units.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from glassformer.blocks.point import Point
from glassformer.inspect.record import Seen, modules_of, record
from glassformer.inspect.statistics import measured
from glassformer.models.contract import as_model
from glassformer.text.tokenizer import Tokenizer
from glassformer.view.board import AxisTokens, Board, BoardSource
from glassformer.view.colours import GATE, SHARE, ColourScale, signed
from glassformer.view.inspection import Inspection

from .reading import reading

LAYER = re.compile(r"(|encoder\.|decoder\.)layers\.\d+\.((?:cross_)?attention)\.pattern")
STATE = re.compile(r"((?:encoder\.|decoder\.)?recurrent)\.layers\.(\d+)\.(\w+)\.(\w+)")
ALIGNMENT = "decoder.attention.pattern"
FEATURES = "features"  # of every token, which a text's vector is pooled from
PARTS = {  # what a family of patterns is called, and whose tokens look at whose
    ("", "attention"): ("attention", "read", "read"),
    ("encoder.", "attention"): ("encoder", "read", "read"),
    ("decoder.", "attention"): ("decoder", "fed", "fed"),
    ("decoder.", "cross_attention"): ("cross", "written", "read"),
}
WAYS = {"left_to_right": "→", "right_to_left": "←"}
GATES = ("input", "forget", "output", "reset", "update")  # between 0 and 1


def inspect(
    model: nn.Module,
    tokenizer: Tokenizer | None,
    text: str | Sequence[int],
    pair: str | None = None,
    *,
    target: str | Sequence[int] | None = None,
    name: str | None = None,
) -> Inspection:
    """Run the model on one text, or on a pair, and keep every attention pattern and every state.

    Without a tokenizer, texts are lists of ids. An encoder-decoder writes `target`, or else what it wants to itself.
    The result shows itself in a notebook; `.save("page.html")`, `.svg` or `.png` writes it.
    """
    with resting(model):
        read = reading(model, tokenizer, text, pair, target=target)
        seen = _recorded(model, read.inputs)
    title = name or type(model).__name__
    return Inspection(title=title, caption=_caption(model, read.tokens), boards=boards(seen, read.tokens))


def boards(seen: Mapping[str, Tensor], tokens: dict[str, AxisTokens]) -> list[Board]:
    """Every attention pattern and every state among recorded values, in the grids they are looked at in."""
    kinds = (_attentions, _alignments, _states, _features)
    return [board for kind in kinds for board in kind(seen, tokens)]


@contextmanager
def resting(model: nn.Module) -> Iterator[None]:
    """Without dropout; afterwards every part that was learning still is."""
    learning = [part for part in model.modules() if part.training]
    model.eval()
    try:
        yield
    finally:
        for part in learning:
            part.training = True


def _recorded(model: nn.Module, inputs: dict[str, Tensor]) -> Seen:
    points = [name for name, part in modules_of(model).items() if isinstance(part, Point) and _shown(name)]
    if not points:
        raise ValueError(f"a {type(model).__name__} has no attention, states or features to show")
    with torch.inference_mode(), record(model, points) as seen:
        model(**inputs)
    return seen


def _shown(name: str) -> bool:
    return name in (ALIGNMENT, FEATURES) or any(kind.fullmatch(name) for kind in (LAYER, STATE))


def _attentions(seen: Mapping[str, Tensor], tokens: dict[str, AxisTokens]) -> list[Board]:
    found: dict[tuple[str, str], list[str]] = {}
    for name in seen:
        if match := LAYER.fullmatch(name):
            found.setdefault((match[1], match[2]), []).append(name)
    made = []
    for kind, (part, down, across) in PARTS.items():
        if kind in found:
            names = found[kind]
            patterns = torch.cat([seen[name] for name in names])  # (layers, H, T, S)
            heads = range(patterns.shape[1])
            sources = [BoardSource(name, (0, head)) for name in names for head in heads]
            made.append(_board(part, patterns, tokens[down], tokens[across], sources))
    return made


def _alignments(seen: Mapping[str, Tensor], tokens: dict[str, AxisTokens]) -> list[Board]:
    if ALIGNMENT not in seen:
        return []
    pattern = seen[ALIGNMENT][None]  # (1, 1, T, S)
    return [_board("alignment", pattern, tokens["written"], tokens["read"], [BoardSource(ALIGNMENT, (0,))])]


def _board(part: str, patterns: Tensor, down: AxisTokens, across: AxisTokens, sources: list[BoardSource]) -> Board:
    layers, heads = patterns.shape[:2]
    return Board(
        name=part,
        values=_array(patterns),
        scales=[SHARE] * heads,
        down=down,
        across=across,
        axes=("written", "read") if down is not across else ("from", "to"),
        rows=[str(layer) for layer in range(layers)],
        columns=[str(head) for head in range(heads)],
        sources=sources,
        statistics=attention_statistics(patterns, across=down is not across),
    )


def attention_statistics(patterns: Tensor, *, across: bool) -> dict[str, NDArray[np.float64]]:
    """What each head of patterns (layers, H, T, S) looks at, (layers, H) each."""
    _, _, targets, sources = patterns.shape
    real = torch.ones(1, max(targets, sources), dtype=torch.bool)
    found = [measured(one[None].double(), real[:, :targets], real[:, :sources], across=across) for one in patterns]
    return {name: torch.stack([layer[name] for layer in found]).cpu().numpy() for name in found[0]}


def _states(seen: Mapping[str, Tensor], tokens: dict[str, AxisTokens]) -> list[Board]:
    """One board for each recurrent network: layers and directions down, hidden state, cell and gates across."""
    found: dict[str, dict[str, dict[str, str]]] = {}
    for name in seen:
        if match := STATE.fullmatch(name):
            place = f"{match[2]} {WAYS[match[3]]}"
            found.setdefault(match[1], {}).setdefault(place, {})[match[4]] = name
    made = []
    for network, rows in found.items():
        gates = sorted(next(iter(rows.values())), key=lambda gate: (gate != "hidden", gate != "cell"))
        values = np.stack([np.stack([_array(seen[row[gate]][0]) for gate in gates]) for row in rows.values()])
        one_way = len({row.split()[1] for row in rows}) == 1
        made.append(
            Board(
                name=network.replace("recurrent", "states").replace(".", " "),
                values=values,  # (layers · directions, gates, T, W)
                scales=[_scale(gate, values[:, column]) for column, gate in enumerate(gates)],
                down=tokens["fed" if network.startswith("decoder") else "read"],
                across=None,
                axes=("time", "unit"),
                rows=[row.split()[0] if one_way else row for row in rows],
                columns=gates,
                grid=("layer", "state"),
                sources=[BoardSource(row[gate], (0,)) for row in rows.values() for gate in gates],
                statistics=_state_statistics(values.astype(np.float64)),
            )
        )
    return made


def _features(seen: Mapping[str, Tensor], tokens: dict[str, AxisTokens]) -> list[Board]:
    """What a convolution, or a bag of words, makes of each token."""
    if FEATURES not in seen:
        return []
    values = _array(seen[FEATURES][None])  # (1, 1, T, W)
    return [
        Board(
            name=FEATURES,
            values=values,
            scales=[signed(values)],
            down=tokens["read"],
            across=None,
            axes=("time", "unit"),
            rows=["0"],
            columns=[FEATURES],
            grid=("layer", "state"),
            sources=[BoardSource(FEATURES, (0,))],
            statistics=_state_statistics(values.astype(np.float64)),
        )
    ]


def _state_statistics(values: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """The mean size of states, and how much they change from token to token: an RNN starts from zero."""
    with np.errstate(invalid="ignore"):  # ∞ - ∞
        change = np.diff(values, axis=-2, prepend=0.0)
    return {"mean size": np.abs(values).mean((-1, -2)), "change": np.abs(change).mean((-1, -2))}


def _scale(gate: str, values: NDArray[np.float32]) -> ColourScale:
    return GATE if gate in GATES else signed(values)


def _array(value: Tensor) -> NDArray[np.float32]:
    return value.float().cpu().numpy()


def _caption(model: nn.Module, tokens: dict[str, AxisTokens]) -> str:
    read = as_model(model)
    counts = [f"{len(listed.ids)} tokens {what}" for what, listed in tokens.items() if what != "fed"]
    return ", ".join([read.config.model_type, str(read.head_name or "no head"), *counts])
