"""Laws of the recurrent block: the kernel, the time loop and torch's cells agree, whatever the padding."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from glassformer.blocks import recurrent as module
from glassformer.blocks.dropout import LockedDropout
from glassformer.blocks.point import Point, any_hooked
from glassformer.blocks.recurrent import Recurrent, RecurrentState
from glassformer.inspect.record import record

KINDS = [("rnn", "tanh"), ("rnn", "relu"), ("gru", "tanh"), ("lstm", "tanh")]
GATES = {
    "rnn": ["hidden"],
    "gru": ["reset", "update", "candidate", "hidden"],
    "lstm": ["input", "forget", "candidate", "output", "cell", "hidden"],
}
CELLS = {"rnn": nn.RNNCell, "gru": nn.GRUCell, "lstm": nn.LSTMCell}
D, W = 3, 4

every_kind = pytest.mark.parametrize(("kind", "nonlinearity"), KINDS)
every_shape = pytest.mark.parametrize("layers", [1, 2])
every_way = pytest.mark.parametrize("bidirectional", [False, True])


@st.composite
def masks(draw):
    """(B, T) booleans: padding left, right, in holes, nowhere or everywhere."""
    batch, length = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    return torch.tensor(draw(st.lists(st.booleans(), min_size=batch * length, max_size=batch * length))).view(
        batch, length
    )


def build(kind, nonlinearity="tanh", *, layers=1, bidirectional=False, seed=0, **more):
    torch.manual_seed(seed)
    return Recurrent(kind, D, W, layers=layers, bidirectional=bidirectional, nonlinearity=nonlinearity, **more).eval()


def random_state(block, batch):
    zeros = block.start(batch)
    return RecurrentState(*(torch.randn_like(part) for part in zeros.parts))


def looked_at(block, *inputs):
    """The readable path: what the block gives while one Point is heard."""
    with record(block, "layers.0.left_to_right.hidden"):
        assert any_hooked(block.layers)
        return block(*inputs)


def by_cells(block, x, state):
    """The oracle: torch's own cells in a plain loop over one unpadded row; x (1, T, D)."""
    hiddens, cells = [], []
    for row, (weights, hidden) in enumerate(zip(block.kernel.all_weights, state.hidden, strict=True)):
        if row % block.directions == 0:
            given, ways = x, []
        options = {"nonlinearity": block.kernel.nonlinearity} if block.kind == "rnn" else {}
        cell = CELLS[block.kind](given.shape[-1], W, **options)
        cell.load_state_dict(dict(zip(["weight_ih", "weight_hh", "bias_ih", "bias_hh"], weights, strict=True)))
        memory = (hidden, state.cell[row]) if block.kind == "lstm" else hidden
        backward = row % block.directions == 1
        steps = []
        for token in given.flip(1).unbind(1) if backward else given.unbind(1):
            memory = cell(token, memory)
            steps.append(memory[0] if block.kind == "lstm" else memory)
        hiddens.append(steps[-1])
        cells.append(memory[1] if block.kind == "lstm" else None)
        ways.append(torch.stack(steps[::-1] if backward else steps, dim=1))
        x = torch.cat(ways, dim=-1)
    return x, RecurrentState(torch.stack(hiddens), torch.stack(cells) if block.kind == "lstm" else None)


@every_kind
@every_shape
@every_way
@settings(deadline=None, max_examples=20)
@given(keep=masks(), seed=st.integers(0, 99))
def test_stepwise_equals_fused_in_outputs_state_and_gradients(kind, nonlinearity, layers, bidirectional, keep, seed):
    block = build(kind, nonlinearity, layers=layers, bidirectional=bidirectional, seed=seed)
    x, state = torch.randn(*keep.shape, D), random_state(block, len(keep))
    results = []
    for run in (block, lambda *inputs: looked_at(block, *inputs)):
        block.zero_grad()
        given_x = x.clone().requires_grad_()
        given_state = RecurrentState(*(part.clone().requires_grad_() for part in state.parts))
        outputs, new = run(given_x, keep, given_state)
        assert outputs.shape == (*keep.shape, block.output_width)
        (outputs.sin().sum() + sum(part.cos().sum() for part in new.parts)).backward()
        gradients = [given_x.grad, *(part.grad for part in given_state.parts)]
        gradients += [weight.grad for weight in block.parameters()]
        results.append([outputs, *new.parts, *gradients])
    assert_close(results[0], results[1], atol=1e-5, rtol=1e-5)


@every_kind
@every_shape
@every_way
@pytest.mark.parametrize("length", [1, 5])
def test_equals_a_plain_loop_of_torch_cells(kind, nonlinearity, layers, bidirectional, length):
    block = build(kind, nonlinearity, layers=layers, bidirectional=bidirectional)
    x, state = torch.randn(1, length, D), random_state(block, 1)
    expected = by_cells(block, x, state)
    for outputs, new in (block(x, None, state), looked_at(block, x, None, state)):
        assert_close(outputs, expected[0], atol=1e-5, rtol=1e-5)
        assert_close(new.parts, expected[1].parts, atol=1e-5, rtol=1e-5)


@every_kind
@every_shape
@every_way
@settings(deadline=None, max_examples=20)
@given(keep=masks(), seed=st.integers(0, 99))
def test_padding_is_invisible(kind, nonlinearity, layers, bidirectional, keep, seed):
    block = build(kind, nonlinearity, layers=layers, bidirectional=bidirectional, seed=seed)
    x, state = torch.randn(*keep.shape, D), random_state(block, len(keep))
    outputs, new = block(x, keep, state)
    assert_close(outputs[~keep], torch.zeros_like(outputs[~keep]))
    for row, kept in enumerate(keep):
        alone, final = block(x[row, kept][None], None, state.select(torch.tensor([row])))
        assert_close(outputs[row, kept][None], alone, atol=1e-6, rtol=1e-5)
        assert_close(new.select(torch.tensor([row])).parts, final.parts, atol=1e-6, rtol=1e-5)


@every_kind
@pytest.mark.parametrize("path", ["fused", "readable"])
def test_a_row_without_tokens_gives_zeros_and_keeps_its_state(kind, nonlinearity, path):
    block = build(kind, nonlinearity, layers=2, bidirectional=True)
    x, state = torch.randn(2, 3, D, requires_grad=True), random_state(block, 2)
    keep = torch.tensor([[False, False, False], [True, False, True]])
    outputs, new = block(x, keep, state) if path == "fused" else looked_at(block, x, keep, state)
    assert_close(outputs[0], torch.zeros(3, 2 * W))
    nothing = torch.tensor([0])
    assert_close(new.select(nothing).parts, state.select(nothing).parts, atol=0, rtol=0)
    outputs.sum().backward()
    assert_close(x.grad[0], torch.zeros(3, D))
    assert x.grad.isfinite().all()
    assert all(weight.grad.isfinite().all() for weight in block.parameters())


@every_kind
def test_no_tokens_at_all_is_defined(kind, nonlinearity):
    block = build(kind, nonlinearity, bidirectional=True)
    state = random_state(block, 2)
    outputs, new = block(torch.randn(2, 0, D), torch.ones(2, 0, dtype=torch.bool), state)
    assert outputs.shape == (2, 0, 2 * W)
    assert_close(new.parts, state.parts)


@every_kind
def test_packing_happens_only_where_there_is_padding(kind, nonlinearity, monkeypatch):
    block, x = build(kind, nonlinearity), torch.randn(2, 3, D)

    def refuse(*_, **__):
        raise AssertionError("packed")

    monkeypatch.setattr(module, "pack_padded_sequence", refuse)
    everything = torch.ones(2, 3, dtype=torch.bool)
    assert_close(block(x)[0], block(x, everything)[0])
    with pytest.raises(AssertionError, match="packed"):
        block(x, everything.tril())


@every_kind
@every_shape
@settings(deadline=None, max_examples=15)
@given(keep=masks(), cut=st.integers(0, 6))
def test_chunks_equal_the_whole(kind, nonlinearity, layers, keep, cut):
    block, x = build(kind, nonlinearity, layers=layers), torch.randn(*keep.shape, D)
    whole, final = block(x, keep)
    first, state = block(x[:, :cut], keep[:, :cut])
    second, state = block(x[:, cut:], keep[:, cut:], state)
    assert_close(torch.cat([first, second], dim=1), whole, atol=1e-6, rtol=1e-5)
    assert_close(state.parts, final.parts, atol=1e-6, rtol=1e-5)


@every_kind
def test_selecting_rows_of_the_state_is_reordering_the_batch(kind, nonlinearity):
    block = build(kind, nonlinearity, layers=2)
    x, rows = torch.randn(3, 4, D), torch.tensor([2, 0, 0, 1])
    _, state = block(x)
    assert_close(state.select(rows).parts, block(x[rows])[1].parts)
    assert state.select(rows).hidden.shape == (2, 4, W)


@every_kind
@every_shape
@every_way
def test_gates_are_recorded_token_by_token(kind, nonlinearity, layers, bidirectional):
    block, x = build(kind, nonlinearity, layers=layers, bidirectional=bidirectional), torch.randn(2, 5, D)
    plain, _ = block(x)
    with record(block, "*") as seen:
        outputs, _ = block(x)
    ways = ["left_to_right", "right_to_left"][: block.directions]
    names = {f"layers.{n}.{way}.{gate}" for n in range(layers) for way in ways for gate in GATES[kind]}
    assert set(seen) == names
    assert {seen[name].shape for name in names} == {(2, 5, W)}
    assert_close(outputs, plain, atol=1e-5, rtol=1e-5)
    top = torch.cat([seen[f"layers.{layers - 1}.{way}.hidden"] for way in ways], dim=-1)
    assert_close(top, outputs)  # so the direction that runs backward lines up with the tokens too


@pytest.mark.parametrize("way", ["left_to_right", "right_to_left"])
def test_recorded_gates_satisfy_the_textbook(way):
    def before(value):  # what the direction knew one token earlier
        rolled = value.roll(1 if way == "left_to_right" else -1, dims=1)
        rolled[:, 0 if way == "left_to_right" else -1] = 0
        return rolled

    x = torch.randn(2, 5, D)
    lstm, gru = build("lstm", bidirectional=True), build("gru", bidirectional=True)
    with record(lstm, f"*{way}*") as seen:
        lstm(x)
    at = {gate: seen[f"layers.0.{way}.{gate}"] for gate in GATES["lstm"]}
    assert_close(at["cell"], at["forget"] * before(at["cell"]) + at["input"] * at["candidate"])
    assert_close(at["hidden"], at["output"] * at["cell"].tanh())
    with record(gru, f"*{way}*") as seen:
        gru(x)
    at = {gate: seen[f"layers.0.{way}.{gate}"] for gate in GATES["gru"]}
    assert_close(at["hidden"], (1 - at["update"]) * at["candidate"] + at["update"] * before(at["hidden"]))
    assert all((at[gate] > 0).all() and (at[gate] < 1).all() for gate in ("reset", "update"))


@pytest.mark.parametrize(("kind", "gate"), [(kind, gate) for kind in GATES for gate in GATES[kind]])
@every_way
def test_an_edited_gate_changes_what_follows_and_nothing_stays(kind, gate, bidirectional):
    block, x = build(kind, layers=2, bidirectional=bidirectional), torch.randn(2, 4, D)
    before, _ = block(x)
    steps = iter(range(4))
    with record(block, edit={f"layers.1.left_to_right.{gate}": lambda v: v * 0 - 1 if next(steps) == 2 else v}):
        edited, _ = block(x)
    assert_close(edited[:, :2], before[:, :2], atol=1e-5, rtol=1e-5)
    changed = (edited - before).abs()
    assert (changed[:, 2:, :W].amax(dim=(0, 2)) > 1e-4).all()
    assert_close(changed[..., W:], torch.zeros_like(changed[..., W:]), atol=1e-5, rtol=0)
    assert not any_hooked(block)
    assert_close(block(x)[0], before, atol=0, rtol=0)


def test_an_lstm_that_may_neither_keep_nor_write_is_silent():
    block, x = build("lstm"), torch.randn(2, 4, D)
    with record(block, edit={"*.forget": torch.zeros_like, "*.input": torch.zeros_like}):
        outputs, state = block(x)
    assert_close(outputs, torch.zeros(2, 4, W))
    assert_close(state.cell, torch.zeros(1, 2, W))


@every_kind
def test_dropout_acts_between_layers_on_both_paths(kind, nonlinearity):
    block = build(kind, nonlinearity, layers=2, dropout=1.0)
    x, keep = torch.randn(2, 4, D), torch.ones(2, 4, dtype=torch.bool).tril(1)
    calm, _ = block(x, keep)
    block.train()
    fused, _ = block(x, keep)  # with everything dropped both paths are certain
    assert (fused - calm).abs().max() > 1e-3
    assert_close(looked_at(block, x, keep)[0], fused, atol=1e-5, rtol=1e-5)
    assert build(kind, nonlinearity, dropout=0.5).kernel.dropout == 0.0  # one layer has nothing in between


@every_way
def test_points_hold_no_weights(bidirectional):
    block = build("lstm", layers=2, bidirectional=bidirectional)
    assert all(name.startswith("kernel.") for name in block.state_dict())
    points = [part for part in block.layers.modules() if isinstance(part, Point)]
    assert len(points) == 2 * block.directions * 6


def test_an_lstm_starts_remembering():
    block = build("lstm", layers=2, bidirectional=True)
    for _, _, input_bias, hidden_bias in block.kernel.all_weights:
        assert_close((input_bias + hidden_bias)[W : 2 * W], torch.ones(W))


@every_kind
def test_builds_without_memory(kind, nonlinearity):
    with torch.device("meta"):
        block = build(kind, nonlinearity, layers=2, bidirectional=True)
    assert all(weight.is_meta for weight in block.parameters())
    block.load_state_dict(build(kind, nonlinearity, layers=2, bidirectional=True, seed=3).state_dict(), assign=True)
    x = torch.randn(2, 3, D)
    expected, _ = build(kind, nonlinearity, layers=2, bidirectional=True, seed=3)(x)
    assert_close(block(x)[0], expected)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("gpu", 3, 4), {}, "'gpu'.*rnn, gru, lstm"),
        (("rnn", 3, 4), {"nonlinearity": "gelu"}, "'gelu'.*tanh or relu"),
        (("gru", 3, 4), {"nonlinearity": "relu"}, "'relu' is for kind 'rnn'"),
        (("lstm", 0, 4), {}, "input_width is 0"),
        (("lstm", 3, -1), {}, "width is -1"),
        (("lstm", 3, 4), {"layers": 0}, "layers is 0"),
        (("lstm", 3, 4), {"layers": 2, "dropout": 1.5}, "dropout"),
    ],
)
def test_wrong_settings_are_named(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        Recurrent(*arguments, **options)


@every_kind
@every_shape
@every_way
@settings(deadline=None, max_examples=8)
@given(keep=masks(), seed=st.integers(0, 99))
def test_layer_by_layer_is_the_kernel_of_all(kind, nonlinearity, layers, bidirectional, keep, seed):
    """What drops in our ways runs one layer after the other; with nothing dropped it is the same."""
    block = build(kind, nonlinearity, layers=layers, bidirectional=bidirectional, seed=seed, locked_dropout=True)
    x, state = torch.randn(*keep.shape, D), random_state(block, len(keep))
    expected = block(x, keep, state)
    assert_close(block.train()(x, keep, state), expected)
    assert_close(block(x, None, state), block.eval()(x, None, state))


@every_kind
@every_way
def test_dropped_weights_are_gone(kind, nonlinearity, bidirectional):
    block = build(kind, nonlinearity, layers=2, bidirectional=bidirectional, weight_dropout=1.0)
    x = torch.randn(2, 5, D)
    dropped = block.train()(x)
    assert_close(looked_at(block, x), dropped)
    with torch.no_grad():
        for name, weight in block.kernel.named_parameters():
            if name.startswith("weight_hh"):
                weight.zero_()
    assert_close(dropped, block.eval()(x))


def test_dropped_weights_are_others_in_every_call_and_learn():
    block = build("lstm", layers=2, weight_dropout=0.5).train()
    x = torch.randn(2, 5, D)
    (one, _), (other, _) = block(x), block(x)
    assert (one - other).abs().max() > 1e-4
    one.sum().backward()
    grads = block.kernel.weight_hh_l1.grad
    assert 0 < int((grads == 0).sum()) < grads.numel()


def test_locked_dropout_is_the_same_at_every_token():
    torch.manual_seed(0)
    dropout = LockedDropout(0.5)
    out = dropout(torch.ones(3, 6, 40))
    assert_close(out, out[:, :1].expand_as(out))
    assert set(out.unique().tolist()) == {0.0, 2.0}
    assert (out[0, 0] != out[1, 0]).any()
    assert dropout(torch.ones(3, 40)).shape == (3, 40)
    assert_close(dropout.eval()(out), out)
