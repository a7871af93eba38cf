"""RNN, GRU and LSTM: torch's kernel over packed tokens, and the same equations as a readable time loop.

B batch, T length, D input width, W width, L layers, N directions (1 or 2), G gates (1, 3 or 4).
"""

from collections.abc import Callable
from typing import Literal, NamedTuple, cast, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from .dropout import locked_dropout
from .masks import kept_first
from .point import StepPoint, any_hooked
from .pooling import AttentionPooling, largest
from .state import is_identity

Kind = Literal["rnn", "gru", "lstm"]
Nonlinearity = Literal["tanh", "relu"]
Pooling = Literal["last", "mean", "max", "attention"]
Past = tuple[Tensor, ...]  # what one direction of one layer remembers: (hidden,), or (hidden, cell) in an LSTM
Kernel = Callable[[Tensor | PackedSequence, Tensor | Past], tuple[Tensor | PackedSequence, Tensor | Past]]


class RecurrentState(NamedTuple):
    """What a recurrent network remembers, in torch's layout: layer by layer, both directions side by side."""

    hidden: Tensor  # (L·N, B, W)
    cell: Tensor | None = None  # (L·N, B, W), LSTM only

    def select(self, rows: Tensor, *, group_size: int | None = None) -> "RecurrentState":
        """The state of these rows of the batch, in this order."""
        if group_size is None and is_identity(rows, self.hidden.shape[1]):
            return self
        return RecurrentState(*(part.index_select(1, rows) for part in self.parts))

    def unless(self, kept: Tensor, old: "RecurrentState") -> "RecurrentState":
        """This state in the rows that were kept (B,), the old one in the others."""
        pairs = zip(self.parts, old.parts, strict=True)
        return RecurrentState(*(torch.where(kept[:, None], new, past) for new, past in pairs))

    @property
    def parts(self) -> Past:
        return (self.hidden,) if self.cell is None else (self.hidden, self.cell)


class RnnGates(nn.Module):
    """h' = tanh(W x + U h), or relu."""

    def __init__(self, *, reverse: bool, nonlinearity: Nonlinearity) -> None:
        super().__init__()
        self.squash = torch.tanh if nonlinearity == "tanh" else torch.relu
        self.hidden = StepPoint(reverse=reverse)

    def step(self, given: Tensor, recalled: Tensor, past: Past) -> Past:  # noqa: ARG002 - all kinds step alike
        return (self.hidden(self.squash(given + recalled)),)


class GruGates(nn.Module):
    """n = tanh(W x + r · U h), h' = (1 - z) · n + z · h, with the gates reset r and update z."""

    def __init__(self, *, reverse: bool) -> None:
        super().__init__()
        self.reset = StepPoint(reverse=reverse)
        self.update = StepPoint(reverse=reverse)
        self.candidate = StepPoint(reverse=reverse)
        self.hidden = StepPoint(reverse=reverse)

    def step(self, given: Tensor, recalled: Tensor, past: Past) -> Past:
        given_r, given_z, given_n = given.chunk(3, dim=-1)
        recalled_r, recalled_z, recalled_n = recalled.chunk(3, dim=-1)
        reset = self.reset((given_r + recalled_r).sigmoid())
        update = self.update((given_z + recalled_z).sigmoid())
        candidate = self.candidate((given_n + reset * recalled_n).tanh())
        return (self.hidden((1 - update) * candidate + update * past[0]),)


class LstmGates(nn.Module):
    """c' = f · c + i · g, h' = o · tanh(c'), with the gates input i, forget f, output o and candidate g."""

    def __init__(self, *, reverse: bool) -> None:
        super().__init__()
        self.input = StepPoint(reverse=reverse)
        self.forget = StepPoint(reverse=reverse)
        self.candidate = StepPoint(reverse=reverse)
        self.output = StepPoint(reverse=reverse)
        self.cell = StepPoint(reverse=reverse)
        self.hidden = StepPoint(reverse=reverse)

    def step(self, given: Tensor, recalled: Tensor, past: Past) -> Past:
        i, f, g, o = (given + recalled).chunk(4, dim=-1)
        kept = self.forget(f.sigmoid()) * past[1]
        cell = self.cell(kept + self.input(i.sigmoid()) * self.candidate(g.tanh()))
        return self.hidden(self.output(o.sigmoid()) * cell.tanh()), cell


Gates = RnnGates | GruGates | LstmGates


class Recurrent(nn.Module):
    """Layers of one kind of cell in one or both directions; padding (keep = False) neither counts nor costs.

    `kernel` holds the weights. `layers.0.left_to_right.forget` and its like are Points without weights:
    when one of them has hooks, the time loop runs instead of the kernel and every gate passes its Point.
    """

    def __init__(
        self,
        kind: Kind,
        input_width: int,
        width: int,
        *,
        layers: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
        locked_dropout: bool = False,
        weight_dropout: float = 0.0,
        nonlinearity: Nonlinearity = "tanh",
        forget_bias: float | None = 1.0,
    ) -> None:
        """`dropout` acts between layers; `locked_dropout` drops the same places at every token.
        `weight_dropout` drops weights from hidden state to hidden state, anew in every call (Merity et al., 2018).
        `forget_bias`: an LSTM's forget gates begin with it, so that it remembers before it has learnt to
        (Jozefowicz et al., 2015); None leaves torch's random biases."""
        super().__init__()
        _check(kind, nonlinearity, width=width, layers=layers, input_width=input_width)
        self.kind, self.width, self.directions = kind, width, 2 if bidirectional else 1
        self.kernel = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}[kind](
            input_width,
            width,
            layers,
            batch_first=True,
            bidirectional=bidirectional,
            dropout=dropout if layers > 1 else 0.0,  # it acts between layers, and torch warns where there is one
            **({"nonlinearity": nonlinearity} if kind == "rnn" else {}),
        )
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {
                    way: _gates(kind, nonlinearity, reverse=way == "right_to_left")
                    for way in ("left_to_right", "right_to_left")[: self.directions]
                }
            )
            for _ in range(layers)
        )
        self.dropout, self.locked_dropout, self.weight_dropout = dropout, locked_dropout, weight_dropout
        if kind == "lstm" and forget_bias is not None:
            self._set_forget_bias(forget_bias)

    @property
    def output_width(self) -> int:
        return self.width * self.directions

    def start(self, batch: int) -> RecurrentState:
        """The state before the first token: zeros."""
        zeros = self.kernel.weight_hh_l0.new_zeros(len(self.layers) * self.directions, batch, self.width)
        return RecurrentState(zeros, zeros if self.kind == "lstm" else None)

    def state_bytes(self, batch: int) -> int:
        """What the state of so many rows takes."""
        return sum(part.nbytes for part in self.start(1).parts) * batch

    def forward(
        self, x: Tensor, keep: Tensor | None = None, state: RecurrentState | None = None
    ) -> tuple[Tensor, RecurrentState]:
        """Outputs (B, T, W·N), zero at padding, and the state after the last kept token of every row."""
        state = self.start(len(x)) if state is None else state
        if x.shape[1] == 0:
            return x.new_zeros(len(x), 0, self.output_width), state
        if keep is not None and bool(keep.all()):
            keep = None
        outputs, state = (self._readable if any_hooked(self.layers) else self._fused)(x, keep, state)
        return (outputs if keep is None else outputs.masked_fill(~keep[..., None], 0.0)), state

    def _fused(self, x: Tensor, keep: Tensor | None, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        if not (self.training and (self.weight_dropout or self.locked_dropout)):
            return self._run(self.kernel, x, keep, state)
        finals: list[RecurrentState] = []
        for number in range(len(self.layers)):  # torch's kernel of all layers cannot drop in these ways
            x = self._between(x) if number else x
            rows = slice(number * self.directions, (number + 1) * self.directions)
            past = RecurrentState(*(part[rows].contiguous() for part in state.parts))
            x, final = self._run(self._layer_kernel(rows), x, keep, past)
            finals.append(final)
        return x, RecurrentState(*(torch.cat(part) for part in zip(*(one.parts for one in finals), strict=True)))

    def _layer_kernel(self, rows: slice) -> Kernel:
        """Torch's kernel over one layer: the weights in these rows of `all_weights`."""
        weights = [tensor for row in range(rows.start, rows.stop) for tensor in self._weights(row)]
        settings = (weights, True, 1, 0.0, self.training, self.directions == 2)
        function = getattr(torch, self.kernel.mode.lower())  # torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu

        def call(x: Tensor | PackedSequence, past: Tensor | Past) -> tuple[Tensor | PackedSequence, Tensor | Past]:
            if isinstance(x, Tensor):
                outputs, *new = function(x, past, *settings, True)
                return outputs, tuple(new) if len(new) > 1 else new[0]
            data, sizes, order, back = x
            assert order is not None
            assert back is not None
            outputs, *new = function(data, sizes, _theirs(_ours(past).select(order)), *settings)
            return PackedSequence(outputs, sizes, order, back), _theirs(RecurrentState(*new).select(back))

        return call

    def _between(self, x: Tensor) -> Tensor:
        return (locked_dropout if self.locked_dropout else F.dropout)(x, self.dropout, self.training)

    def _weights(self, row: int) -> list[Tensor]:
        """The weights of one direction of one layer, input and hidden, and their biases."""
        given, recalled, *biases = self.kernel.all_weights[row]
        return [given, F.dropout(recalled, self.weight_dropout, self.training), *biases]

    def _run(
        self, kernel: Kernel, x: Tensor, keep: Tensor | None, state: RecurrentState
    ) -> tuple[Tensor, RecurrentState]:
        if keep is None:
            outputs, new = kernel(x, _theirs(state))
            return cast(Tensor, outputs), _ours(new)
        order = kept_first(keep)  # (B, T)
        lengths = keep.sum(dim=1)  # (B,)
        packed = pack_padded_sequence(
            x.take_along_dim(order[..., None], dim=1),
            lengths.clamp(min=1).cpu(),  # an empty row runs one step, which is thrown away below
            batch_first=True,
            enforce_sorted=False,
        )
        results, new = kernel(packed, _theirs(state))
        outputs, _ = pad_packed_sequence(cast(PackedSequence, results), batch_first=True, total_length=x.shape[1])
        outputs = outputs.take_along_dim(order.argsort(dim=1)[..., None], dim=1)  # back to their places
        return outputs, _ours(new).unless(lengths > 0, state)

    def _readable(self, x: Tensor, keep: Tensor | None, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        finals: list[Past] = []
        for number, layer in enumerate(self.layers):
            if number > 0:
                x = self._between(x)
            ways = []
            for gates in cast(nn.ModuleDict, layer).values():
                past = tuple(part[len(finals)] for part in state.parts)  # (B, W) each
                output, final = self._walk(cast(Gates, gates), len(finals), x, keep, past)
                ways.append(output)
                finals.append(final)
            x = torch.cat(ways, dim=-1)  # (B, T, W·N)
        return x, RecurrentState(*(torch.stack(part) for part in zip(*finals, strict=True)))

    def _walk(self, gates: Gates, row: int, x: Tensor, keep: Tensor | None, past: Past) -> tuple[Tensor, Past]:
        """One direction of one layer, a token at a time; at padding the old state stays."""
        input_weight, hidden_weight, input_bias, hidden_bias = self._weights(row)
        given = F.linear(x, input_weight, input_bias)  # (B, T, G·W): does not depend on the past
        times = range(x.shape[1])
        outputs: list[Tensor] = []
        for time in reversed(times) if gates.hidden.reverse else times:
            new = gates.step(given[:, time], F.linear(past[0], hidden_weight, hidden_bias), past)
            if keep is not None:
                new = tuple(torch.where(keep[:, time, None], n, p) for n, p in zip(new, past, strict=True))
            past = new
            outputs.append(past[0])
        return torch.stack(outputs[::-1] if gates.hidden.reverse else outputs, dim=1), past

    @torch.no_grad()
    def _set_forget_bias(self, value: float) -> None:
        """Torch has two biases, b_ih + b_hh, with the gates in the order input, forget, candidate, output."""
        for name, bias in self.kernel.named_parameters():
            if name.startswith("bias"):
                bias[self.width : 2 * self.width].fill_(value if name.startswith("bias_ih") else 0.0)


class RecurrentPooling(nn.Module):
    """One vector a text: the last states ("last"), or the "mean", the "max" or an "attention" over all outputs."""

    def __init__(self, kind: Pooling, recurrent: Recurrent) -> None:
        super().__init__()
        self.kind, self.directions = kind, recurrent.directions
        self.attention = AttentionPooling(recurrent.output_width) if kind == "attention" else None

    def forward(self, outputs: Tensor, state: RecurrentState, keep: Tensor | None = None) -> Tensor:
        """Outputs (B, T, W·N), zero at padding, and the state after them -> (B, W·N), zero for a text without any."""
        match self.kind:
            case "last":  # each direction's state after its last real token
                return state.hidden[-self.directions :].transpose(0, 1).flatten(1)
            case "mean":
                lengths = max(1, outputs.shape[1]) if keep is None else keep.sum(1, keepdim=True).clamp(min=1)
                return outputs.sum(1) / lengths
            case "attention":
                assert self.attention is not None
                return self.attention(outputs, keep)
            case "max":
                return largest(outputs, keep)


def _check(kind: str, nonlinearity: str, **sizes: int) -> None:
    if kind not in get_args(Kind):
        raise ValueError(f"there is no recurrent kind {kind!r}; choose one of {', '.join(get_args(Kind))}")
    if nonlinearity not in get_args(Nonlinearity):
        raise ValueError(f"there is no nonlinearity {nonlinearity!r}; choose tanh or relu")
    if nonlinearity != "tanh" and kind != "rnn":
        raise ValueError(f"nonlinearity {nonlinearity!r} is for kind 'rnn'; a {kind} always uses 'tanh'")
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name} is {size}; it must be at least 1")


def _gates(kind: Kind, nonlinearity: Nonlinearity, *, reverse: bool) -> Gates:
    if kind == "rnn":
        return RnnGates(reverse=reverse, nonlinearity=nonlinearity)
    build: Callable[..., Gates] = GruGates if kind == "gru" else LstmGates
    return build(reverse=reverse)


def _theirs(state: RecurrentState) -> Tensor | Past:
    """The state as torch's kernels take it: a pair for an LSTM, one tensor otherwise."""
    return state.hidden if state.cell is None else (state.hidden, state.cell)


def _ours(state: Tensor | Past) -> RecurrentState:
    return RecurrentState(state) if isinstance(state, Tensor) else RecurrentState(*state)
