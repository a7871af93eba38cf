"""Laws of the RNN encoder-decoder, for every attention: padding is invisible and stepping equals reading."""

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from glassformer.blocks.point import any_hooked
from glassformer.inspect.record import record
from glassformer.models.seq2seq import Seq2Seq, Seq2SeqConfig

KINDS = ["rnn", "gru", "lstm"]
ATTENTIONS = [None, "additive", "dot", "general", "concat", "scaled_dot"]
V, OUT = 9, 7

every_kind = pytest.mark.parametrize("kind", KINDS)
every_attention = pytest.mark.parametrize("attention", ATTENTIONS)
attending = pytest.mark.parametrize("attention", ATTENTIONS[1:])


def build(attention="additive", *, seed=0, **settings_):
    torch.manual_seed(seed)
    both = attention not in ("dot", "scaled_dot")  # those need a memory as wide as the decoder
    defaults = {
        "vocab_size": V,
        "decoder_vocab_size": OUT,
        "embedding_size": 5,
        "hidden_size": 6,
        "num_layers": 2,
    }
    defaults |= {"initializer_range": 1.0, "bidirectional": both}
    model = Seq2Seq(Seq2SeqConfig(**{**defaults, "attention": attention, **settings_})).eval()
    for weight in model.parameters():
        weight.data *= 3  # far from linear, so that every mistake shows
    return model


def pairs(batch=3, source=5, target=4):
    return torch.randint(0, V, (batch, source)), torch.randint(0, OUT, (batch, target))


@st.composite
def masks(draw):
    batch, length = draw(st.integers(1, 3)), draw(st.integers(1, 6))
    flat = draw(st.lists(st.booleans(), min_size=batch * length, max_size=batch * length))
    return torch.tensor(flat).view(batch, length)


@every_kind
@every_attention
def test_outputs_have_their_shapes(kind, attention):
    model = build(attention, kind=kind)
    source, target = pairs()
    out = model(source, decoder_input_ids=target)
    assert out.logits.shape == (3, 4, OUT)
    assert out.encoder_last_hidden_state.shape == (3, 5, 12 if model.config.bidirectional else 6)
    assert model.head_name == "text2text-generation"
    assert model.config.is_encoder_decoder is True


@every_kind
@every_attention
@settings(deadline=None, max_examples=15)
@given(keep=masks(), seed=st.integers(0, 99))
def test_source_padding_is_invisible(kind, attention, keep, seed):
    model = build(attention, kind=kind, seed=seed)
    source, target = pairs(*keep.shape)
    together = model(source, keep, target)
    hidden = together.encoder_last_hidden_state
    assert_close(hidden[~keep], torch.zeros_like(hidden[~keep]))
    for row, kept in enumerate(keep):
        alone = model(source[row, kept][None], None, target[row][None])
        assert_close(together.logits[row][None], alone.logits, atol=1e-5, rtol=1e-5)


@every_kind
@every_attention
@settings(deadline=None, max_examples=15)
@given(keep=masks())
def test_target_padding_is_invisible(kind, attention, keep):
    model = build(attention, kind=kind)
    source, target = pairs(len(keep), 4, keep.shape[1])
    together = model(source, None, target, keep).logits
    for row, kept in enumerate(keep):
        if kept.any():
            alone = model(source[row][None], None, target[row, kept][None]).logits
            assert_close(together[row, kept][None], alone, atol=1e-5, rtol=1e-5)


@every_kind
@every_attention
def test_a_later_target_never_changes_an_earlier_position(kind, attention):
    model = build(attention, kind=kind)
    source, target = pairs()
    other = target.clone()
    other[:, 2:] = (other[:, 2:] + 1) % OUT
    before, after = (model(source, None, ids).logits for ids in (target, other))
    assert_close(after[:, :2], before[:, :2], atol=1e-6, rtol=1e-5)
    assert (after[:, 2] - before[:, 2]).abs().max() > 1e-4


@every_kind
@every_attention
@pytest.mark.parametrize("cuts", [[], [1, 2, 3], [3]])
def test_stepping_in_any_chunks_equals_the_full_forward(kind, attention, cuts):
    model = build(attention, kind=kind)
    source, target = pairs()
    mask = torch.tensor([[1, 1, 1, 1, 1], [0, 0, 1, 1, 1], [1, 0, 1, 0, 0]])
    state, parts = model.start(source, mask, length=4), []
    for chunk in target.tensor_split(cuts, dim=1):
        logits, state = model.step(chunk, state)
        parts.append(logits)
    assert_close(torch.cat(parts, dim=1), model(source, mask, target).logits, atol=1e-5, rtol=1e-5)


@every_kind
@every_attention
@pytest.mark.parametrize("masked", [False, True])
def test_selecting_rows_of_the_state_is_reordering_the_batch(kind, attention, masked):
    model, rows = build(attention, kind=kind), torch.tensor([2, 0, 0, 1])
    source, target = pairs()
    mask = torch.tensor([[1, 1, 1, 1, 1], [0, 0, 1, 1, 1], [1, 0, 1, 0, 0]]) if masked else None
    _, state = model.step(target, model.start(source, mask, length=9))
    again = model.start(source[rows], None if mask is None else mask[rows], length=9)
    _, expected = model.step(target[rows], again)
    more = torch.randint(0, OUT, (4, 2))
    assert_close(model.step(more, state.select(rows))[0], model.step(more, expected)[0], atol=1e-5, rtol=1e-5)


@every_kind
@attending
def test_the_pattern_is_recorded_over_the_whole_target(kind, attention):
    model = build(attention, kind=kind)
    source, target = pairs()
    mask = torch.tensor([[1, 1, 1, 1, 1], [0, 0, 1, 1, 1], [1, 0, 1, 0, 0]])
    before = model(source, mask, target).logits
    with record(model, "*attention.pattern") as seen:
        during = model(source, mask, target).logits
    pattern = seen["decoder.attention.pattern"]
    assert pattern.shape == (3, 4, 5)
    assert_close(seen.attentions, [pattern])
    assert_close(pattern.sum(-1), torch.ones(3, 4))
    assert_close(pattern * (1 - mask[:, None]), torch.zeros(3, 4, 5))
    assert (pattern[0, 0] - pattern[0, 1]).abs().max() > 1e-4  # every target token looks in its own way
    assert_close(during, before, atol=1e-5, rtol=1e-5)
    assert not any_hooked(model)


def test_bahdanau_attends_with_the_state_before_the_token():
    model = build("additive", kind="gru")
    source, target = pairs()
    with record(model, ["*attention.pattern", "decoder.*.hidden"]) as seen:
        model(source, None, target)
    start = model.start(source, length=4)
    hidden = seen["decoder.recurrent.layers.1.left_to_right.hidden"]
    before = torch.cat([start.recurrent.hidden[-1][:, None], hidden[:, :-1]], dim=1)  # (B, T, W)
    scores = model.decoder.attention.scorer(before, start.keys)
    assert_close(seen["decoder.attention.pattern"], scores.softmax(-1), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("attention", ["dot", "general", "concat", "scaled_dot"])
def test_luong_attends_with_the_state_after_the_token(attention):
    model = build(attention, kind="gru", num_layers=1)
    source, target = pairs()
    with record(model, ["*attention.pattern", "decoder.*.hidden", "decoder.combine"]) as seen:
        logits = model(source, None, target).logits
    start = model.start(source, length=4)
    hidden = seen["decoder.recurrent.layers.0.left_to_right.hidden"]
    pattern = model.decoder.attention.scorer(hidden, start.keys).softmax(-1)
    assert_close(seen["decoder.attention.pattern"], pattern, atol=1e-5, rtol=1e-5)
    both = torch.cat([pattern @ start.memory, hidden], dim=-1)
    assert_close(logits, model.head(model.decoder.combine(both).tanh()), atol=1e-5, rtol=1e-5)


def test_without_attention_only_the_state_crosses():
    model = build(None, bidirectional=False)
    source, target = pairs()
    state = model.start(source, length=4)
    blind = state._replace(memory=torch.zeros_like(state.memory))
    assert_close(model.step(target, blind)[0], model(source, None, target).logits)
    assert_close(state.recurrent.hidden, model.encoder(source, None)[1].hidden)  # one way: passed on as it is


@every_kind
def test_the_bridge_joins_both_directions_of_every_layer(kind):
    model = build(kind=kind)
    source, _ = pairs()
    _, final = model.encoder(source, None)
    joined = model.start(source, length=1).recurrent
    for layer in range(2):
        both = torch.cat([final.hidden[2 * layer], final.hidden[2 * layer + 1]], dim=-1)
        assert_close(joined.hidden[layer], model.bridge.hidden[layer](both).tanh())
        if kind == "lstm":
            both = torch.cat([final.cell[2 * layer], final.cell[2 * layer + 1]], dim=-1)
            assert_close(joined.cell[layer], model.bridge.cell[layer](both))


@attending
def test_an_edited_pattern_changes_the_logits(attention):
    model = build(attention)
    source, target = pairs()
    before = model(source, None, target).logits
    with record(model, edit={"*attention.pattern": torch.zeros_like}):
        edited = model(source, None, target).logits
    assert (edited - before).abs().max() > 1e-4
    assert_close(model(source, None, target).logits, before, atol=0, rtol=0)


@every_kind
@every_attention
def test_an_empty_source_is_defined_and_trains(kind, attention):
    model = build(attention, kind=kind)
    source, target = pairs(2)
    out = model(source, torch.tensor([[0, 0, 0, 0, 0], [1, 1, 0, 0, 0]]), target)
    other = model((source + 1) % V, torch.tensor([[0, 0, 0, 0, 0], [1, 1, 0, 0, 0]]), target)
    assert_close(out.logits[0], other.logits[0])
    assert (out.logits[1] - other.logits[1]).abs().max() > 1e-4
    out.logits.square().sum().backward()
    for name, weight in model.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.isfinite().all(), name


def test_weights_are_shared_where_asked():
    model = build(decoder_vocab_size=None, share_embeddings=True, tie_word_embeddings=True, embedding_size=6)
    assert model.decoder.embeddings.token.weight is model.encoder.embeddings.token.weight
    assert model.head.weight is model.decoder.embeddings.token.weight
    assert model.head.out_features == V
    apart = build(decoder_vocab_size=None, embedding_size=6)
    assert apart.decoder.embeddings.token.weight is not apart.encoder.embeddings.token.weight
    assert apart.head.weight is not apart.decoder.embeddings.token.weight


@every_kind
@every_attention
def test_builds_without_memory(kind, attention):
    with torch.device("meta"):
        model = build(attention, kind=kind)
    assert all(weight.is_meta for weight in model.parameters())
    real = build(attention, kind=kind, seed=1)
    model.load_state_dict(real.state_dict(), assign=True)
    source, target = pairs()
    assert_close(model(source, None, target).logits, real(source, None, target).logits)


@pytest.mark.parametrize(
    "config",
    [
        Seq2SeqConfig(vocab_size=V),
        Seq2SeqConfig(vocab_size=V, kind="lstm", attention=None, decoder_vocab_size=OUT, decoder_start_token_id=1),
        Seq2SeqConfig(vocab_size=V, kind="rnn", attention="scaled_dot", share_embeddings=True, dropout=0.2),
    ],
)
def test_config_survives_its_json(config):
    raw = json.loads(json.dumps({**config.to_hf(), "model_type": "glassformer-seq2seq"}))
    assert config.to_hf()["model_type"] == config.model_type
    assert Seq2SeqConfig.from_hf(raw) == config
    assert Seq2SeqConfig.from_hf({"vocab_size": V}) == Seq2SeqConfig(vocab_size=V)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"kind": "mlp"}, "'mlp'.*gru"),
        ({"attention": "cosine"}, "'cosine'.*additive"),
        ({"attention": "dot", "bidirectional": True}, "query of 6 and a memory of 12; use 'general'"),
        ({"share_embeddings": True}, "9 source and 7 target"),
        ({"tie_word_embeddings": True}, "embedding_size=5 and hidden_size=6"),
    ],
)
def test_wrong_settings_are_named(wrong, message):
    with pytest.raises(ValueError, match=message):
        build(**{"attention": "additive", **wrong})


def test_an_unsupported_setting_of_a_folder_is_named():
    with pytest.raises(ValueError, match=r"attention = 'cosine'.*'general'"):
        Seq2SeqConfig.from_hf({"vocab_size": V, "attention": "cosine"})
    with pytest.raises(ValueError, match=r"kind = 'mlp'.*'lstm'"):
        Seq2SeqConfig.from_hf({"vocab_size": V, "kind": "mlp"})


def test_wrong_uses_are_named():
    source, target = pairs()
    with pytest.raises(ValueError, match=r"decoder_input_ids is missing.*shifted right"):
        build()(source)
    with pytest.raises(ValueError, match=r"\(3, 4\).*\(3, 5\)"):
        build()(source, torch.ones(3, 4), target)
    with pytest.raises(ValueError, match=r"\(3, 5\).*\(3, 4\)"):
        build()(source, None, target, torch.ones(3, 5))
    with pytest.raises(ValueError, match=r"'text-generation'.*'text2text-generation'"):
        Seq2Seq(Seq2SeqConfig(vocab_size=V), "text-generation")
