"""gf.inspect: a text through a model, and what its attention or its states were, as something to look at.

B = 1 text, H heads, T target length, S source length, W units.
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from glassformer.blocks.point import Point
from glassformer.generate.api import generate
from glassformer.inspect.record import Seen, record
from glassformer.view.board import Board, Tokens
from glassformer.view.colours import GATE, SHARE, Scale, signed
from glassformer.view.inspection import Inspection

LAYER = re.compile(r"(|encoder\.|decoder\.)layers\.\d+\.((?:cross_)?attention)\.pattern")
STATE = re.compile(r"((?:encoder\.|decoder\.)?recurrent)\.layers\.(\d+)\.(\w+)\.(\w+)")
ALIGNMENT = "decoder.attention.pattern"
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
    tokenizer: Any | None,
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
    inputs, sides = _inputs(model, tokenizer, text, pair)
    tokens = {"read": _tokens(tokenizer, inputs["input_ids"], sides)}
    if getattr(model.config, "is_encoder_decoder", False):
        written = _target(model, tokenizer, inputs, target)  # (1, T + 1), from the start token on
        inputs["decoder_input_ids"] = written[:, :-1]
        tokens |= {"fed": _tokens(tokenizer, written[:, :-1]), "written": _tokens(tokenizer, written[:, 1:])}
    elif target is not None:
        raise ValueError("a target is for an encoder-decoder; this model only reads: leave it out")
    seen = _recorded(model, inputs)
    boards = [*_attentions(seen, tokens), *_alignments(seen, tokens), *_states(seen, tokens)]
    return Inspection(title=name or type(model).__name__, caption=_caption(model, tokens), boards=boards)


def _inputs(
    model: nn.Module, tokenizer: Any | None, text: str | Sequence[int], pair: str | None
) -> tuple[dict[str, Tensor], list[int | None]]:
    device = next(model.parameters()).device
    if tokenizer is None:
        if isinstance(text, str) or pair is not None:
            raise ValueError("without a tokenizer, give one list of ids instead of texts")
        config: Any = model.config
        if wrong := [token for token in text if not 0 <= int(token) < config.vocab_size]:
            raise ValueError(f"id {wrong[0]} is not in the vocabulary, whose ids go from 0 to {config.vocab_size - 1}")
        return {"input_ids": torch.tensor([list(text)], device=device)}, []
    encoding = tokenizer(text, pair, return_tensors="pt")
    if encoding["input_ids"].shape[1] == 0:
        raise ValueError("there is nothing to look at: give a text that is not empty")
    inputs = {part: value.to(device) for part, value in encoding.items() if part != "attention_mask"}
    return inputs, encoding.sequence_ids() if pair is not None else []


def _target(
    model: nn.Module, tokenizer: Any | None, inputs: dict[str, Tensor], target: str | Sequence[int] | None
) -> Tensor:
    """What the decoder writes, behind its first token."""
    if target is None:
        return generate(model, None, inputs["input_ids"])  # type: ignore[no-any-return]
    if tokenizer is None:
        ids = list(map(int, target))
    elif isinstance(target, str):
        ids = tokenizer(text_target=target)["input_ids"]
    else:
        raise ValueError("with a tokenizer, give the target as a text")
    config: Any = model.config
    first = config.decoder_start_token_id if config.decoder_start_token_id is not None else config.bos_token_id
    if first is None:
        raise ValueError("the model's config has no decoder_start_token_id, so its decoder cannot begin")
    return torch.tensor([[first, *ids]], device=inputs["input_ids"].device)


def _recorded(model: nn.Module, inputs: dict[str, Tensor]) -> Seen:
    named = ((name.replace("_orig_mod.", ""), part) for name, part in model.named_modules())  # compiled or not
    points = [name for name, part in named if isinstance(part, Point) and _shown(name)]
    if not points:
        raise ValueError(f"a {type(model).__name__} has no attention and no states to show")
    trains = model.training
    model.eval()
    try:
        with torch.inference_mode(), record(model, points) as seen:
            model(**inputs)
    finally:
        model.train(trains)
    return seen


def _tokens(tokenizer: Any | None, ids: Tensor, sides: Sequence[int | None] = ()) -> Tokens:
    listed = ids[0].tolist()
    return Tokens(texts=[_text(tokenizer, token) for token in listed], ids=listed, sides=list(sides))


def _text(tokenizer: Any | None, token: int) -> str:
    """A token as a person reads it: its text, or its name where it is only a part of a character."""
    if tokenizer is None:
        return str(token)
    name = str(tokenizer.convert_ids_to_tokens(token))
    if name.startswith("▁"):
        return " " + name[1:]
    text = str(tokenizer.decode([token]))
    return name if not text or "\ufffd" in text else text


def _shown(name: str) -> bool:
    return name == ALIGNMENT or any(kind.fullmatch(name) for kind in (LAYER, STATE))


def _attentions(seen: Seen, tokens: dict[str, Tokens]) -> list[Board]:
    found: dict[tuple[str, str], list[str]] = {}
    for name in seen:
        if match := LAYER.fullmatch(name):
            found.setdefault((match[1], match[2]), []).append(name)
    boards = []
    for kind, (part, down, across) in PARTS.items():
        if kind in found:
            names = found[kind]
            values = np.stack([_array(seen[name][0]) for name in names])  # (layers, H, T, S)
            heads = range(values.shape[1])
            sources = [f'seen["{name}"][0, {head}]' for name in names for head in heads]
            boards.append(_board(part, values, tokens[down], tokens[across], sources))
    return boards


def _alignments(seen: Seen, tokens: dict[str, Tokens]) -> list[Board]:
    if ALIGNMENT not in seen:
        return []
    values = _array(seen[ALIGNMENT])[None]  # (1, 1, T, S)
    return [_board("alignment", values, tokens["written"], tokens["read"], [f'seen["{ALIGNMENT}"][0]'])]


def _board(part: str, values: NDArray[np.float32], down: Tokens, across: Tokens, sources: list[str]) -> Board:
    layers, heads = values.shape[:2]
    return Board(
        name=part,
        values=values,
        scales=[SHARE] * heads,
        down=down,
        across=across,
        axes=("written", "read") if down is not across else ("from", "to"),
        rows=[str(layer) for layer in range(layers)],
        columns=[str(head) for head in range(heads)],
        sources=sources,
    )


def _states(seen: Seen, tokens: dict[str, Tokens]) -> list[Board]:
    """One board for each recurrent network: layers and directions down, hidden state, cell and gates across."""
    found: dict[str, dict[str, dict[str, str]]] = {}
    for name in seen:
        if match := STATE.fullmatch(name):
            place = f"{match[2]} {WAYS[match[3]]}"
            found.setdefault(match[1], {}).setdefault(place, {})[match[4]] = name
    boards = []
    for network, rows in found.items():
        gates = sorted(next(iter(rows.values())), key=lambda gate: (gate != "hidden", gate != "cell"))
        values = np.stack([np.stack([_array(seen[row[gate]][0]) for gate in gates]) for row in rows.values()])
        one_way = len({row.split()[1] for row in rows}) == 1
        boards.append(
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
                sources=[f'seen["{row[gate]}"][0]' for row in rows.values() for gate in gates],
            )
        )
    return boards


def _scale(gate: str, values: NDArray[np.float32]) -> Scale:
    return GATE if gate in GATES else signed(values)


def _array(value: Tensor) -> NDArray[np.float32]:
    return value.float().cpu().numpy()


def _caption(model: nn.Module, tokens: dict[str, Tokens]) -> str:
    config: Any = model.config
    counts = [f"{len(listed.ids)} tokens {what}" for what, listed in tokens.items() if what != "fed"]
    return ", ".join([config.model_type, str(model.head_name or "no head"), *counts])
