"""A forward pass from scratch: equal for every family, whatever its config."""

import pytest
import torch
import torch.nn.functional as F
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

import glassformer as gf
from families import CASES, SMALL_BERT, random_model, settings_of
from glassformer.blocks.lora import LoraLinear
from glassformer.engine.linear import quantised, supports_int8
from glassformer.inspect.explain import explained
from glassformer.inspect.recompute import folded, recompute, recompute_attention
from glassformer.train.lora import add_lora
from inspect_cases import WITHIN, hooked, inputs_of, small


def worst(found):
    return max(row.error for row in found.rows() if row.error is not None)


@pytest.mark.parametrize(("model_type", "head"), CASES)
@settings(max_examples=5)
@given(data=st.data())
def test_every_family_equals_the_textbook(model_type, head, data):
    model = random_model(model_type, head, data.draw(settings_of(model_type)), data.draw(st.integers(0, 3)))
    inputs = inputs_of(model, side=data.draw(st.sampled_from(["left", "right"])), seed=data.draw(st.integers(0, 3)))
    found = recompute(model, inputs)
    assert worst(found) <= WITHIN, [row for row in found.rows(WITHIN) if row.verdict not in ("holds", "-")]
    assert set(model(**inputs)._asdict()) <= set(found.names)
    idle = {"head.bias", "head.words.bias"}  # an untied BERT names its output bias twice, and uses one of them
    assert set(found.unused) <= idle
    assert not hooked(model)


@pytest.mark.parametrize(("model_type", "head", "more"), [
    ("bert", "text-classification", {}),
    ("gpt2", "text-generation", {}),
    ("glassformer-transformer", "text2text-generation", {}),
    *(("glassformer-seq2seq", "text2text-generation", {"attention": one}) for one in ("additive", "general", "concat")),
])  # fmt: skip
def test_adapters_are_part_of_the_formulas(model_type, head, more):
    model = small(model_type, head, **more)
    add_lora(model, "*", rank=2, alpha=3.0)
    adapted = {name: part for name, part in model.named_modules() if isinstance(part, LoraLinear)}
    for part in adapted.values():
        nn.init.normal_(part.lora_up, std=0.3)
    found = recompute(model, inputs_of(model))
    assert worst(found) <= WITHIN, [row for row in found.rows(WITHIN) if row.verdict not in ("holds", "-")]
    assert {f"{name}.weight.adapted" for name in adapted} <= set(found.names)
    assert not [name for name in found.unused if "lora" in name]


@pytest.mark.parametrize("lengths", [(6,), (4, 4), (1, 3)])
@pytest.mark.parametrize(
    "model_type", ["bert", "gpt2", "glassformer-transformer", "glassformer-rnn", "glassformer-seq2seq"]
)
def test_alone_without_padding_and_one_token_long(model_type, lengths):
    head = next(head for name, head in CASES if name == model_type and head)
    model = small(model_type, head)
    assert worst(recompute(model, inputs_of(model, lengths=lengths))) <= WITHIN


@pytest.mark.parametrize(
    ("model_type", "more"),
    [("glassformer-transformer", {}), ("glassformer-transformer", {"pre_norm": True}), ("glassformer-seq2seq", {})],
)
def test_targets_of_unequal_length(model_type, more):
    model = small(model_type, "text2text-generation", **more)
    inputs = inputs_of(model)
    inputs["decoder_attention_mask"] = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 0]])
    found = recompute(model, inputs)
    assert {row.verdict for row in found.rows(WITHIN)} <= {"holds", "-"}


@pytest.mark.parametrize("model_type", ["bert", "gpt2", "distilbert", "marian", "bart"])
def test_patterns_from_scratch_are_those_of_transformers(model_type, tmp_path):
    head = "text-generation" if model_type == "gpt2" else None
    model = small(model_type, head)
    folder = gf.save(model, tmp_path)
    transformers.logging.disable_progress_bar()
    peer_class = getattr(transformers, type_name(model_type, head))
    peer = peer_class.from_pretrained(folder, attn_implementation="eager").eval()
    inputs = inputs_of(model, lengths=(6, 6))
    with torch.no_grad():
        theirs = peer(**inputs, output_attentions=True, output_hidden_states=True)
    found = recompute(model, inputs)
    stacks = {"layers.*.attention": "attentions"}
    if model_type in ("marian", "bart"):
        stacks = {
            "encoder.layers.*.attention": "encoder_attentions",
            "decoder.layers.*.attention": "decoder_attentions",
            "decoder.layers.*.cross_attention": "cross_attentions",
        }
    for stack, field in stacks.items():
        for layer, patterns in enumerate(theirs[field]):
            for number in range(patterns.shape[1]):
                name = f"{stack.replace('*', str(layer))}.head.{number}.pattern"
                assert_close(found.scratch[name].float(), patterns[:, number], atol=1e-5, rtol=1e-5)
    hidden = theirs["encoder_last_hidden_state" if "encoder_attentions" in theirs else "hidden_states"]
    last = hidden if isinstance(hidden, torch.Tensor) else hidden[-1]
    ours = "encoder_last_hidden_state" if isinstance(hidden, torch.Tensor) else "last_hidden_state"
    ours = ours if ours in found.names else "final_norm"
    assert_close(found.scratch[ours].float(), last, atol=1e-5, rtol=1e-5)


def type_name(model_type, head):
    from glassformer.hub.registry import ARCHITECTURES

    return ARCHITECTURES[model_type].heads[head].hf_class


def by_hand(kind, kernel, x):
    """One row of text through one layer of torch's weights: every gate of every step."""
    w, u, b, c = kernel.weight_ih_l0, kernel.weight_hh_l0, kernel.bias_ih_l0, kernel.bias_hh_l0
    hidden = cell = torch.zeros(1, kernel.hidden_size)
    for token in x:
        given, recalled = F.linear(token[None], w, b), F.linear(hidden, u, c)
        if kind == "gru":
            (rx, zx, nx), (rh, zh, nh) = given.chunk(3, -1), recalled.chunk(3, -1)
            r, z = torch.sigmoid(rx + rh), torch.sigmoid(zx + zh)
            n = torch.tanh(nx + r * nh)
            hidden = (1 - z) * n + z * hidden
            yield {"reset": r, "update": z, "candidate": n, "hidden": hidden}
        else:
            i, f, g, o = (given + recalled).chunk(4, -1)
            i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
            cell = f * cell + i * g
            hidden = o * cell.tanh()
            yield {"input": i, "forget": f, "candidate": g, "output": o, "cell": cell, "hidden": hidden}


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_every_gate_of_every_step_is_that_of_torch(kind):
    model = small("glassformer-rnn", "text-generation", kind=kind, num_layers=1)
    inputs = inputs_of(model, lengths=(6,))
    found, kernel = recompute(model, inputs), model.recurrent.kernel
    with torch.no_grad():
        x = model.embeddings.token(inputs["input_ids"])[0]
        steps = list(by_hand(kind, kernel, x))
        own = kernel(x[None])[0][0]
    assert len(steps) == 6
    for time, gates in enumerate(steps):
        for gate, value in gates.items():
            name = f"recurrent.layers.0.left_to_right.{gate}.step.{time}"
            assert_close(found.scratch[name].float(), value, atol=1e-6, rtol=1e-5)
            assert_close(found.step(name).seen, value, atol=1e-6, rtol=1e-5)
        assert_close(gates["hidden"][0], own[time], atol=1e-6, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["wrapper", "in place"])
def test_compiled_models(how):
    model = random_model("bert", "fill-mask", SMALL_BERT)
    asked = torch.compile(model, backend="eager") if how == "wrapper" else model
    if how == "in place":
        model.compile(backend="eager")
    assert worst(recompute(asked, inputs_of(model))) <= WITHIN
    assert not hooked(model)


# Faults.


@pytest.mark.parametrize(
    ("model_type", "name"),
    [
        ("bert", "layers.0.attention"),
        ("gpt2", "layers.0.attention"),
        ("glassformer-transformer", "encoder.layers.0.attention"),
        ("glassformer-transformer", "decoder.layers.0.attention"),
        ("glassformer-transformer", "decoder.layers.0.cross_attention"),
    ],
)
def test_one_attention_alone_equals_itself_in_the_whole_pass(model_type, name):
    head = next(head for each, head in CASES if each == model_type and head)
    model = small(model_type, head)
    inputs = inputs_of(model)
    part, whole = recompute_attention(model, inputs, name), recompute(model, inputs)
    assert part.names == [each for each in whole.names if each.startswith(f"{name}.")]
    assert {row.verdict for row in part.rows(WITHIN)} == {"holds"}
    for step in part.names:
        assert_close(part.scratch[step], whole.scratch[step], rtol=1e-4, atol=1e-5)
    one, other = (explained(found, f"{name}.head.0", (1, 1)) for found in (part, whole))
    assert_close(one.seen, other.seen, rtol=1e-4, atol=1e-5)  # of a part by itself, and of a whole pass
    assert not hooked(model)
    with pytest.raises(ValueError, match=r"there is no attention 'layers.9.attention'; near it: .*attention"):
        recompute_attention(model, inputs, "layers.9.attention")


def test_dropout_is_refused():
    model = random_model("bert", None, SMALL_BERT).train()
    with pytest.raises(ValueError, match="call model.eval"):
        recompute(model, inputs_of(model))


@pytest.mark.skipif(not supports_int8(), reason="this CPU has no 8-bit kernels")
def test_8_bit_weights_are_refused():
    model = quantised(random_model("bert", None, SMALL_BERT))
    with pytest.raises(ValueError, match="load it without quant"):
        recompute(model, inputs_of(model))


def test_folded_rows_keep_the_worst():
    model = random_model("bert", None, SMALL_BERT)
    rows = recompute(model, inputs_of(model)).rows()
    few = {row.name: row for row in folded(rows)}
    heads = [
        row.error for row in rows if row.name.startswith("layers.0.attention.head.") and row.name.endswith("scores")
    ]
    assert len(heads) == 3
    assert few["layers.0.attention.head.*.scores"].error == max(heads)


# The loss.
