"""A forward pass from scratch: equal for every family, whatever its config; and a fault is found, and where it is."""

import math

import pytest
import torch
import torch.nn.functional as F
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

import glassformer as gf
from families import CASES, SMALL_BERT, SMALL_GPT, random_model, settings_of
from glassformer.blocks.lora import LoraLinear
from glassformer.blocks.packing import CausalMask, DenseMask, PackedBatch
from glassformer.blocks.recurrent import LstmGates
from glassformer.engine.linear import quantised, supports_int8
from glassformer.inspect.explain import explained
from glassformer.inspect.recompute import folded, recompute, recompute_attention
from glassformer.train.lora import add_lora
from inspect_cases import hooked, inputs_of, small

WITHIN = 1e-5


def verdicts(found):
    return {row.name: row.verdict for row in found.rows(WITHIN)}


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


def break_pooler(model, monkeypatch):
    monkeypatch.setattr(model.pooler, "forward", lambda first: torch.relu(model.pooler.dense(first)))


def break_residual(model, monkeypatch):
    layer = model.layers[0]
    monkeypatch.setattr(layer, "residual", lambda norm, block, x: norm(0.999 * x + block(x)))


def break_norm(model, monkeypatch):
    norm = model.layers[0].attention_norm
    monkeypatch.setattr(norm, "forward", lambda x: F.layer_norm(x, x.shape[-1:], norm.weight, norm.bias, eps=0.01))


def break_output(model, monkeypatch):
    linear = model.layers[1].attention.output
    monkeypatch.setattr(linear, "forward", lambda x: F.linear(x, linear.weight))


def break_neurons(model, _):
    model.layers[0].feed_forward.activation = F.gelu
    model.layers[0].feed_forward.neurons = nn.ReLU()


FAULTS = {
    "layers.0.attention_residual": break_residual,
    "layers.0.attention_norm": break_norm,
    "layers.1.attention.output": break_output,
    "layers.0.feed_forward.neurons": break_neurons,
    "pooler": break_pooler,
}


@pytest.mark.parametrize("place", FAULTS)
def test_a_fault_is_found_where_it_is(place, monkeypatch):
    model = random_model("bert", "text-classification", SMALL_BERT)
    inputs = inputs_of(model)
    assert set(verdicts(recompute(model, inputs)).values()) <= {"holds", "-"}
    FAULTS[place](model, monkeypatch)
    judged = verdicts(recompute(model, inputs))
    breaches = [name for name, verdict in judged.items() if verdict == "BREACH"]
    assert breaches[0] == place
    before = list(judged)[: list(judged).index(place)]
    assert {judged[name] for name in before} <= {"holds", "-"}
    assert judged["logits"] == "carried on"  # it inherits the fault and adds none
    same_kind = {place, place.replace("layers.0.attention", "layers.0.feed_forward")}  # residual() makes both residuals
    assert set(breaches) <= same_kind


def test_a_mask_that_hides_nothing_is_found(monkeypatch):
    model = random_model("gpt2", "text-generation", SMALL_GPT)
    monkeypatch.setattr(CausalMask, "dense", None)
    judged = verdicts(recompute(model, inputs_of(model, lengths=(5,))))
    assert judged["layers.0.attention.mask"] == "BREACH"


@pytest.mark.parametrize(("scope", "lengths"), [(PackedBatch, (5, 7, 2)), (DenseMask, (5,))])
def test_a_fault_of_the_fast_path_alone_is_found(monkeypatch, scope, lengths):
    """What runs when nobody listens is checked as well: packed batches, and the fused kernel."""
    model = random_model("bert", None, SMALL_BERT)
    attend = scope.attend
    monkeypatch.setattr(scope, "attend", lambda *args, **more: 1.01 * attend(*args, **more))
    judged = verdicts(recompute(model, inputs_of(model, lengths=lengths)))
    assert judged.pop("last_hidden_state") == "BREACH"
    assert judged.pop("pooler_output") == "BREACH"
    assert set(judged.values()) <= {"holds", "-"}


def test_a_wrong_gate_is_found(monkeypatch):
    def step(self, given, recalled, past):
        i, f, g, o = (given + recalled).chunk(4, dim=-1)
        cell = self.cell(self.forget(f.sigmoid()) * past[1] + self.input(i.sigmoid()) * self.candidate(g.sigmoid()))
        return self.hidden(self.output(o.sigmoid()) * cell.tanh()), cell

    model = small("glassformer-rnn", "text-generation", kind="lstm", num_layers=1)
    monkeypatch.setattr(LstmGates, "step", step)
    rows = recompute(model, inputs_of(model, lengths=(4,))).rows(WITHIN)
    breaches = [row.name for row in rows if row.verdict == "BREACH"]
    assert breaches[:4] == [f"recurrent.layers.0.left_to_right.candidate.step.{time}" for time in range(4)]


# Explaining.


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
