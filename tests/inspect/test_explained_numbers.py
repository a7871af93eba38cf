"""One number of a pass, explained: its operands make it, by hand."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

import glassformer as gf
from families import SMALL_BERT, SMALL_GPT, random_model
from glassformer.inspect.explain import explained
from glassformer.inspect.recompute import recompute
from inspect_cases import WITHIN, inputs_of, small


def test_explain_gives_operands_that_make_the_value():
    model = random_model("bert", "fill-mask", SMALL_BERT)
    inputs = inputs_of(model)
    explanation = gf.explain(model, inputs, "layers.1.feed_forward.up")
    x, weight, bias = (explanation.operands[symbol] for symbol in ("x", "W", "b"))
    assert explanation.names["x"] == "layers.1.attention_norm"
    assert_close(explanation.value, x @ weight.T + bias)
    assert explanation.latex == r"x W^\top + b"
    assert explanation.error < WITHIN
    assert explanation.value.dtype == torch.float64
    with torch.no_grad(), gf.record(model, "layers.1.feed_forward.up") as seen:
        model(**inputs)
    assert_close(explanation.seen, seen["layers.1.feed_forward.up"])


def test_a_cell_of_a_head_by_hand():
    model = random_model("gpt2", "text-generation", SMALL_GPT)
    inputs = inputs_of(model, lengths=(6,))
    explanation = gf.explain(model, inputs, "layers.1.attention.head.2", cell=(4, 1))
    with torch.no_grad(), gf.record(model, "*") as seen:
        model(**inputs)
    query, key = (seen[f"layers.1.attention.{part}"][0].unflatten(-1, (3, 4))[:, 2] for part in ("query", "key"))
    scores = (query @ key.T / 2)[4, :5]
    operands = {symbol: value.float() for symbol, value in explanation.operands.items()}
    assert_close(operands["q"], query[4])
    assert_close(operands["k"], key[1])
    assert_close(operands["q · k"], query[4] @ key[1])
    assert_close(operands["score"], scores[1])
    assert_close(operands["Σ exp"], scores.exp().sum(), rtol=1e-5, atol=1e-5)
    assert_close(explanation.value.float(), scores.softmax(-1)[1])
    assert_close(explanation.seen, seen["layers.1.attention.pattern"][0, 2, 4, 1])
    hidden = gf.explain(model, inputs, "layers.1.attention.head.2", cell=(1, 4))
    assert hidden.value == 0
    assert not hidden.operands["mask"]
    with pytest.raises(ValueError, match="the cell 6,0 is outside this head's 6 queries and 6 keys"):
        gf.explain(model, inputs, "layers.1.attention.head.2", cell=(6, 0))


def test_names_of_blocks_and_wrong_names():
    model = random_model("bert", None, SMALL_BERT)
    found = recompute(model, inputs_of(model))
    assert explained(found, "layers.0").step == "layers.0.feed_forward_norm"
    assert explained(found, "layers.0.attention").step == "layers.0.attention.output"
    with pytest.raises(ValueError, match=r"there is no step 'layers.0.atention'; near it: layers.0.attention"):
        found.step("layers.0.atention")
    with pytest.warns(DeprecationWarning, match="layers.0.attention.head.1.context now"):
        assert explained(found, "layers.0.attention.head.1.mixed").step == "layers.0.attention.head.1.context"
    with pytest.raises(ValueError, match="is not explained number by number; leave the cell out"):
        explained(found, "layers.0.attention.mask", (0, 0))


def hand_made(explanation):
    """The value that the operands of one number make, by the words of its formula."""
    of = {symbol.split("[")[0]: float(value) for symbol, value in explanation.operands.items() if value.dim() == 0}
    sigmoid = lambda x: 1 / (1 + math.exp(-x))  # noqa: E731
    made = {
        "x Wᵀ + b": lambda: of["x · W"] + of["b"],
        "x W_hᵀ + b_h": lambda: of["x · W"] + of["b"],
        "x + y": lambda: of["x"] + of["y"],
        "x": lambda: of["x"],
        "x, 0 at padding": lambda: of["x"] * of["keep"],
        "tanh(x)": lambda: math.tanh(of["x"]),
        "gelu(x)": lambda: of["x"] * 0.5 * (1 + math.erf(of["x"] / math.sqrt(2))),
        "(x − mean) / √(variance + ε) · γ + β": lambda: (
            (of["x"] - of["mean"]) / math.sqrt(of["variance"] + 1e-12) * of["γ"] + of["β"]
        ),
        "(1 − z) · n + z · h": lambda: (1 - of["z"]) * of["n"] + of["z"] * of["h"],
        "f · c + i · g": lambda: of["f"] * of["c"] + of["i"] * of["g"],
        "o · tanh(c)": lambda: of["o"] * math.tanh(of["c"]),
        "tanh(x W_nᵀ + b_n + r · (h U_nᵀ + c_n))": lambda: math.tanh(
            of["x · W"] + of["b"] + of["r"] * (of["h · U"] + of["c"])
        ),
    }
    if explanation.formula in made:
        return made[explanation.formula]()
    squash = math.tanh if explanation.formula.startswith("tanh") else sigmoid
    return squash(of["x · W"] + of["b"] + of["h · U"] + of["c"])


@pytest.mark.parametrize(
    ("model_type", "head", "more"),
    [
        ("bert", "fill-mask", {"hidden_act": "gelu", "layer_norm_eps": 1e-12}),
        ("glassformer-rnn", "text-generation", {"kind": "lstm", "num_layers": 2}),
        ("glassformer-rnn", "text-classification", {"kind": "gru", "bidirectional": True}),
        ("glassformer-rnn", "text-classification", {"kind": "rnn"}),
    ],
)
def test_every_number_is_made_from_its_operands(model_type, head, more):
    model = small(model_type, head, **more)
    found = recompute(model, inputs_of(model, lengths=(4,)))
    count = 0
    for step in found.walk.steps:
        if step.formula.number is not None:
            value = found.scratch[step.name]
            place = (0 if value.dim() == 2 else 3, value.shape[-1] - 1)
            number = explained(found, step.name, place)
            assert_close(hand_made(number), float(number.value), rtol=1e-9, atol=1e-12)
            assert number.value == value[0][place if value.dim() == 3 else place[1]]
            count += 1
    assert count > len(found.walk.steps) / 3


def test_a_gate_at_a_time_and_a_unit():
    model = small("glassformer-rnn", "text-generation", kind="lstm", num_layers=2)
    found = recompute(model, inputs_of(model, lengths=(5,)))
    explanation = explained(found, "recurrent.layers.1.left_to_right.forget", (3, 2))
    below, before = (
        found.scratch[f"recurrent.layers.{place}"][0]
        for place in ("0.left_to_right.hidden.step.3", "1.left_to_right.hidden.step.2")
    )
    width, kernel = model.recurrent.width, model.recurrent.kernel
    assert_close(explanation.operands["x"], below)
    assert_close(explanation.operands["h"], before)
    row = width + 2  # the second of four gates
    assert_close(explanation.operands[f"W[{row}]"].float(), kernel.weight_ih_l1[row].detach())
    assert explanation.names[f"U[{row}]"] == f"recurrent.kernel.weight_hh_l1[{row}]"
    assert explanation.names["h"] == "recurrent.layers.1.left_to_right.hidden.step.2"
    total = below @ kernel.weight_ih_l1[row].double() + before @ kernel.weight_hh_l1[row].double()
    total = total + kernel.bias_ih_l1[row].double() + kernel.bias_hh_l1[row].double()
    assert_close(explanation.value, total.detach().sigmoid())
    assert explanation.error < WITHIN
    with pytest.raises(ValueError, match="the time 5 of .* is not one of its 5 steps, 0 to 4"):
        explained(found, "recurrent.layers.1.left_to_right.forget", (5, 2))
    with pytest.raises(ValueError, match=f"the cell 0,{width} is outside the step .*: 1 rows and {width} units"):
        explained(found, "recurrent.layers.1.left_to_right.forget", (3, width))


@pytest.mark.parametrize("kind", ["additive", "dot", "general", "concat", "scaled_dot"])
def test_a_weight_of_an_alignment_by_hand(kind):
    model = small("glassformer-seq2seq", "text2text-generation", attention=kind)
    inputs = inputs_of(model, lengths=(6,))
    explanation = explained(recompute(model, inputs), "decoder.attention", (2, 4))
    with torch.no_grad(), gf.record(model, ["decoder.attention.pattern", "decoder.attention.scores"]) as seen:
        model(**inputs)
    operands = explanation.operands
    assert_close(explanation.seen, seen["decoder.attention.pattern"][0, 2, 4])
    assert_close(operands["score"].float(), seen["decoder.attention.scores"][0, 2, 4], rtol=1e-4, atol=1e-5)
    assert_close(explanation.value, operands["exp(score)"] / operands["Σ exp"])
    if "v" in operands:
        met = (operands["q Wᵀ"] + operands["k[4]"]).tanh()
        assert_close(operands["score"], met @ operands["v"])
    else:
        scale = 12**-0.5 if kind == "scaled_dot" else 1.0
        assert_close(operands["score"], operands["q"] @ operands["m[4]"] * scale)
    with pytest.raises(ValueError, match="outside this alignment's 4 tokens written and 6 tokens read"):
        explained(recompute(model, inputs), "decoder.attention", (4, 0))


def test_the_loss_of_each_kind_of_label():
    gpt = random_model("gpt2", "text-generation", SMALL_GPT)
    ids = inputs_of(gpt, lengths=(6,))["input_ids"]
    explanation = gf.explain(gpt, {"input_ids": ids, "labels": ids}, "loss")
    with torch.no_grad():
        logits = gpt(input_ids=ids).logits
    assert_close(explanation.value.float(), F.cross_entropy(logits[0, :-1], ids[0, 1:]))
    assert explanation.error < WITHIN

    classes = random_model("bert", "text-classification", SMALL_BERT | {"num_labels": 3})
    inputs = inputs_of(classes)
    with torch.no_grad():
        logits = classes(**inputs).logits
    for labels, expected in (
        (torch.tensor([2, 0, 1]), F.cross_entropy(logits, torch.tensor([2, 0, 1]))),
        (torch.eye(3), F.binary_cross_entropy_with_logits(logits, torch.eye(3))),
    ):
        assert_close(gf.explain(classes, {**inputs, "labels": labels}, "loss").value.float(), expected)

    spans = random_model("bert", "question-answering", SMALL_BERT)
    inputs, ends = inputs_of(spans), torch.tensor([1, 2, 0])
    with torch.no_grad():
        out = spans(**inputs)
    explanation = gf.explain(spans, {**inputs, "start_positions": ends, "end_positions": ends}, "loss")
    expected = (F.cross_entropy(out.start_logits, ends) + F.cross_entropy(out.end_logits, ends)) / 2
    assert_close(explanation.value.float(), expected)


def test_labels_of_a_tagger_are_those_of_its_own_tokens():
    tagger = small("glassformer-rnn", "token-classification")
    ids = inputs_of(tagger, lengths=(6,))["input_ids"]
    labels = torch.arange(6)[None] % len(tagger.config.id2label)
    with torch.no_grad():
        expected = F.cross_entropy(tagger(input_ids=ids).logits[0], labels[0])
    assert_close(gf.explain(tagger, {"input_ids": ids, "labels": labels}, "loss").value.float(), expected)
