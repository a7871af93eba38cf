"""Laws of the RNN models: padding is invisible, the language model is causal, stepping equals reading."""

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from glassformer.blocks.point import any_hooked
from glassformer.inspect.record import record
from glassformer.models.outputs import Hidden, Logits
from glassformer.models.rnn import Rnn, RnnConfig

KINDS = ["rnn", "gru", "lstm"]
HEADS = [None, "text-generation", "text-classification", "token-classification"]
V = 11

every_kind = pytest.mark.parametrize("kind", KINDS)
every_layout = pytest.mark.parametrize(
    ("head", "bidirectional"),
    [(head, both) for head in HEADS for both in (False, True) if not (both and head == "text-generation")],
)


def build(head="text-generation", *, seed=0, **settings_):
    torch.manual_seed(seed)
    defaults = {"vocab_size": V, "embedding_size": 5, "hidden_size": 6, "num_layers": 2}
    labels = {0: "a", 1: "b", 2: "c"}
    return Rnn(RnnConfig(**{**defaults, "id2label": labels, "initializer_range": 1.0, **settings_}), head).eval()


def tokens(*shape):
    return torch.randint(0, V, shape)


def left(lengths, width):
    """(B, T): that many real tokens, at the right end."""
    return torch.arange(width) >= width - torch.tensor(lengths)[:, None]


@st.composite
def masks(draw):
    batch, length = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    flat = draw(st.lists(st.booleans(), min_size=batch * length, max_size=batch * length))
    return torch.tensor(flat).view(batch, length)


@every_kind
@every_layout
def test_outputs_have_their_shape_and_type(kind, head, bidirectional):
    model, width = build(head, kind=kind, bidirectional=bidirectional), 12 if bidirectional else 6
    out = model(tokens(2, 4))
    if head is None:
        assert isinstance(out, Hidden)
        assert out.last_hidden_state.shape == (2, 4, width)
    else:
        shapes = {
            "text-generation": (2, 4, V),
            "text-classification": (2, 3),
            "token-classification": (2, 4, 3),
        }
        assert isinstance(out, Logits)
        assert out.logits.shape == shapes[head]
    assert model.head_name == head
    assert model.config.is_encoder_decoder is False


@every_kind
@every_layout
@settings(deadline=None, max_examples=15)
@given(keep=masks(), seed=st.integers(0, 99))
def test_padding_is_invisible(kind, head, bidirectional, keep, seed):
    model = build(head, kind=kind, bidirectional=bidirectional, seed=seed)
    ids = tokens(*keep.shape)
    together = model(ids, keep)[0]
    for row, kept in enumerate(keep):
        alone = model(ids[row, kept][None])[0]
        mine = together[row] if head == "text-classification" else together[row, kept]
        assert_close(mine[None], alone, atol=1e-5, rtol=1e-5)


@every_kind
@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float32])
def test_a_mask_may_come_in_any_numbers(kind, dtype):
    model, ids, keep = build(kind=kind), tokens(2, 5), left([5, 2], 5)
    assert_close(model(ids, keep.to(dtype)).logits, model(ids, keep).logits)
    assert (model(ids).logits - model(ids, keep.to(dtype)).logits).abs().max() > 1e-3


@every_kind
def test_a_later_token_never_changes_an_earlier_position(kind):
    model, ids = build(kind=kind), tokens(3, 6)
    for cut in range(1, 6):
        other = ids.clone()
        other[:, cut:] = (other[:, cut:] + 1) % V
        assert_close(model(other).logits[:, :cut], model(ids).logits[:, :cut], atol=1e-6, rtol=1e-5)
        assert (model(other).logits[:, cut] - model(ids).logits[:, cut]).abs().max() > 1e-4


@every_kind
@settings(deadline=None, max_examples=15)
@given(cuts=st.lists(st.integers(1, 7), max_size=4), prompt=st.integers(1, 8), keep=masks())
def test_stepping_in_any_chunks_equals_the_full_forward(kind, cuts, prompt, keep):
    model, ids = build(kind=kind), tokens(3, 8)
    mask = torch.ones(3, 8, dtype=torch.bool)
    mask[:, :prompt] = left([prompt, 1, (prompt + 1) // 2], prompt)
    mask[: len(keep), : min(prompt, keep.shape[1])] &= keep[:3, :prompt]  # holes too
    state = model.start(ids[:, :prompt], mask[:, :prompt], length=8)
    parts = []
    for chunk in ids.tensor_split(sorted(set(cuts)), dim=1):
        logits, state = model.step(chunk, state)
        parts.append(logits)
    assert_close(torch.cat(parts, dim=1), model(ids, mask).logits, atol=1e-5, rtol=1e-5)


@every_kind
def test_selecting_rows_of_the_state_is_reordering_the_batch(kind):
    model, ids, rows = build(kind=kind), tokens(3, 6), torch.tensor([2, 0, 0, 1])
    mask = left([6, 2, 4], 6)
    for cut in (2, 6):  # within the prompt, and after it
        _, state = model.step(ids[:, :cut], model.start(ids, mask, length=9))
        _, expected = model.step(ids[rows, :cut], model.start(ids[rows], mask[rows], length=9))
        more = tokens(4, 5)
        assert_close(model.step(more, state.select(rows))[0], model.step(more, expected)[0])


@every_kind
@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_classifier_reads_the_last_real_step_of_each_direction(kind, bidirectional):
    model = build("text-classification", kind=kind, bidirectional=bidirectional)
    ids, mask = tokens(2, 5), torch.tensor([[0, 1, 1, 1, 0], [1, 1, 1, 1, 1]])
    hidden = model.hidden(ids, mask)
    ahead = torch.stack([hidden[0, 3, :6], hidden[1, 4, :6]])
    back = torch.stack([hidden[0, 1, 6:], hidden[1, 0, 6:]])
    assert_close(model(ids, mask).logits, model.head(torch.cat([ahead, back], dim=-1)))


@every_kind
@every_layout
def test_a_text_without_tokens_is_defined_and_trains(kind, head, bidirectional):
    model, ids = build(head, kind=kind, bidirectional=bidirectional), tokens(2, 4)
    out = model(ids, torch.tensor([[0, 0, 0, 0], [1, 1, 0, 1]]))[0]
    empty = torch.zeros(out.shape[1:]) if head is None else model.head.bias.expand(out.shape[1:])
    assert_close(out[0], empty)
    out.square().sum().backward()
    assert all(weight.grad.isfinite().all() for weight in model.parameters() if weight.grad is not None)
    assert model.embeddings.token.weight.grad.abs().max() > 0


@every_kind
@pytest.mark.parametrize("pooling", ["last", "mean", "max", "attention"])
def test_a_text_without_tokens_is_the_same_alone_and_beside_others(kind, pooling):
    model = build("text-classification", kind=kind, pooling=pooling, bidirectional=True)
    beside = model(tokens(2, 4), torch.tensor([[0, 0, 0, 0], [1, 1, 0, 1]])).logits
    assert_close(beside[0], model.head.bias)
    assert_close(model(tokens(1, 4)[:, :0]).logits[0], beside[0])
    assert_close(model(tokens(1, 4)[:, :0], torch.zeros(1, 0, dtype=torch.long)).logits[0], beside[0])


@every_kind
@every_layout
def test_looking_changes_nothing(kind, head, bidirectional):
    model, ids, mask = build(head, kind=kind, bidirectional=bidirectional), tokens(2, 5), left([5, 3], 5)
    before = model(ids, mask)[0]
    with record(model, "*") as seen:
        during = model(ids, mask)[0]
    assert_close(during, before, atol=1e-5, rtol=1e-5)
    assert seen["embeddings"].shape == (2, 5, 5)
    assert seen["recurrent.layers.1.left_to_right.hidden"].shape == (2, 5, 6)
    assert not any_hooked(model)
    assert_close(model(ids, mask)[0], before, atol=0, rtol=0)


def test_gates_are_recorded_over_steps_too():
    model, ids = build(kind="lstm"), tokens(2, 6)
    with record(model, "*.forget") as seen:
        model(ids)
        whole = seen["recurrent.layers.0.left_to_right.forget"]
    with record(model, "*.forget") as seen:
        state = model.start(ids, length=6)
        for token in ids.split(1, dim=1):
            _, state = model.step(token, state)
        assert_close(seen["recurrent.layers.0.left_to_right.forget"], whole)


def test_an_edit_changes_the_logits():
    model, ids = build(kind="gru"), tokens(2, 6)
    with record(model, edit={"recurrent.layers.0.left_to_right.update": torch.ones_like}):
        frozen = model.hidden(ids)  # an update gate of 1 never lets go of the first state
    with record(model, "recurrent.layers.0.left_to_right.hidden", edit={"*.update": torch.ones_like}) as seen:
        model(ids)
    assert_close(seen["recurrent.layers.0.left_to_right.hidden"], torch.zeros(2, 6, 6))
    assert (frozen - model.hidden(ids)).abs().max() > 1e-3


def test_dropout_is_for_training_only():
    model, ids = build(dropout=0.5), tokens(2, 5)
    assert_close(model(ids).logits, model(ids).logits, atol=0, rtol=0)
    model.train()
    assert (model(ids).logits - model(ids).logits).abs().max() > 1e-3


def test_tied_embeddings_are_one_tensor():
    model = build(tie_word_embeddings=True, embedding_size=6)
    assert model.head.weight is model.embeddings.token.weight
    assert build(embedding_size=6).head.weight is not build(embedding_size=6).embeddings.token.weight
    build("text-classification", tie_word_embeddings=True)  # nothing to tie there


@every_kind
@every_layout
def test_builds_without_memory(kind, head, bidirectional):
    with torch.device("meta"):
        model = build(head, kind=kind, bidirectional=bidirectional)
    assert all(weight.is_meta for weight in model.parameters())
    real = build(head, kind=kind, bidirectional=bidirectional, seed=1)
    model.load_state_dict(real.state_dict(), assign=True)
    ids = tokens(2, 3)
    assert_close(model(ids)[0], real(ids)[0])


@pytest.mark.parametrize(
    "config",
    [
        RnnConfig(vocab_size=V),
        RnnConfig(vocab_size=V, kind="rnn", nonlinearity="relu", bidirectional=True, id2label={0: "x"}),
        RnnConfig(vocab_size=V, kind="gru", problem_type="regression", pad_token_id=None, eos_token_id=3),
    ],
)
def test_config_survives_its_json(config):
    raw = json.loads(json.dumps({**config.to_hf(), "model_type": "glassformer-rnn"}))
    assert config.to_hf()["model_type"] == config.model_type
    assert RnnConfig.from_hf(raw) == config


def test_config_defaults_are_filled_in():
    assert RnnConfig.from_hf({"vocab_size": V}) == RnnConfig(vocab_size=V)
    assert RnnConfig.from_hf({"vocab_size": V, "num_labels": 1}).id2label == {0: "LABEL_0"}


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"kind": "mlp"}, "kind = 'mlp'.*'gru'"),
        ({"nonlinearity": "gelu"}, "nonlinearity = 'gelu'.*'relu'"),
        ({"problem_type": "ranking"}, "problem_type is 'ranking'.*'regression'"),
    ],
)
def test_an_unsupported_setting_is_named(raw, message):
    with pytest.raises(ValueError, match=message):
        RnnConfig.from_hf({"vocab_size": V, **raw})


def test_wrong_uses_are_named():
    with pytest.raises(ValueError, match=r"'fill-mask'.*'token-classification'"):
        build("fill-mask")
    with pytest.raises(ValueError, match=r"bidirectional=True.*set bidirectional=False"):
        build(bidirectional=True)
    with pytest.raises(ValueError, match="embedding_size=5 and hidden_size=6"):
        build(tie_word_embeddings=True)
    with pytest.raises(ValueError, match=r"\(2, 3\).*\(2, 4\)"):
        build()(tokens(2, 4), torch.ones(2, 3))
    with pytest.raises(ValueError, match="'text-classification' cannot generate"):
        build("text-classification").start(tokens(2, 4), length=8)


def test_attention_pooling_is_a_weighted_mean_whose_weights_can_be_read_and_edited():
    model = build("text-classification", pooling="attention", bidirectional=True)
    ids, keep = tokens(3, 7), left([7, 4, 1], 7)
    with record(model, "pooling.attention.pattern") as seen:
        found = model(ids, keep).logits
    pattern = seen["pooling.attention.pattern"]  # (B, T)
    states = model.hidden(ids, keep)
    attention = model.pooling.attention
    scores = torch.tanh(states @ attention.dense.weight.T + attention.dense.bias) @ attention.weigh.weight[0]
    assert_close(pattern, scores.masked_fill(~keep, -torch.inf).softmax(-1))
    assert_close(found, model.head((pattern[..., None] * states).sum(1)))
    with record(model, edit={"pooling.attention.pattern": lambda given: torch.eye(7)[-1].expand_as(given)}):
        assert_close(model(ids, keep).logits, model.head(states[:, -1]))


@pytest.mark.parametrize("forget_bias", [1.0, -2.5, 0.0])
def test_forget_gates_begin_with_their_bias(forget_bias):
    """Torch's layout: input, forget, candidate, output; a token and a state of zeros leave the biases alone."""
    model = build(None, kind="lstm", forget_bias=forget_bias, num_layers=1)
    kernel = model.recurrent.kernel
    both = kernel.bias_ih_l0 + kernel.bias_hh_l0
    assert_close(both[6:12], torch.full((6,), forget_bias))
    assert not torch.allclose(both[:6], both[6:12])
    with torch.no_grad():
        model.embeddings.token.weight.zero_()
    with record(model, "*.forget") as seen:
        model(tokens(1, 1))
    gate = seen["recurrent.layers.0.left_to_right.forget"]
    assert_close(gate, torch.full((1, 1, 6), forget_bias).sigmoid())


def test_without_a_forget_bias_the_biases_are_torchs():
    model = build(None, kind="lstm", forget_bias=None, num_layers=1)
    limit = 6**-0.5
    for bias in (model.recurrent.kernel.bias_ih_l0, model.recurrent.kernel.bias_hh_l0):
        assert bias.abs().max() <= limit
        assert len(bias.unique()) == len(bias)
