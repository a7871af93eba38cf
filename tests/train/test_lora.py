"""LoRA: nothing changes at the start, only adapters and the head learn, and what is merged is the plain model."""

import copy

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

import glassformer as gf
from families import CASES, SMALL_BERT, SMALL_GPT, random_model, same_outputs, sequences, settings_of
from glassformer.blocks.lora import LoraLinear
from glassformer.inspect.laws import pad, run, some_target
from glassformer.train.freeze import freeze
from glassformer.train.lora import add_lora, merge, train_new_tokens

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
UNATTENDING = [f"glassformer-{name}" for name in ("rnn", "seq2seq", "cnn", "bow")]
ATTENDING = [(name, head) for name, head in CASES if name not in UNATTENDING]
SEQ2SEQ = {"vocab_size": 41, "embedding_size": 10, "hidden_size": 12, "decoder_start_token_id": 1}


def loss(model):
    ids, mask = pad(sequences(), model)
    target = {"decoder_input_ids": some_target(model, len(ids))} if model.config.is_encoder_decoder else {}
    outputs = model(input_ids=ids, attention_mask=mask, **target)
    return sum((value.tanh() * torch.linspace(-1, 2, value.shape[-1])).sum() for value in outputs)


def learn(model, steps=3, lr=0.03):
    adam = torch.optim.Adam([tensor for tensor in model.parameters() if tensor.requires_grad], lr=lr)
    for _ in range(steps):
        adam.zero_grad()
        loss(model).backward()
        adam.step()
    return model


def adapted(model):
    return [name for name, part in model.named_modules() if isinstance(part, LoraLinear)]


@pytest.mark.parametrize(("model_type", "head"), ATTENDING)
@settings(max_examples=4)
@given(data=st.data())
def test_at_the_start_nothing_is_changed(model_type, head, data):
    model = random_model(model_type, head, data.draw(settings_of(model_type)))
    plain = copy.deepcopy(model)
    names = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    add_lora(model, rank=data.draw(st.integers(1, 4)), dropout=data.draw(st.sampled_from([0.0, 0.5])))
    parts = {name: part for name, part in plain.named_modules() if isinstance(part, nn.Linear)}
    named = {id(part.weight) for name, part in parts.items() if name.endswith(("attention.query", "attention.value"))}
    assert set(adapted(model)) == {name for name, part in parts.items() if id(part.weight) in named}
    added = {name for name, _ in model.named_parameters(remove_duplicate=False)} - names
    assert added == {f"{name}.lora_{way}" for name in adapted(model) for way in ("down", "up")}
    same_outputs(model, plain)


@pytest.mark.few(5)
@pytest.mark.parametrize(("model_type", "head"), ATTENDING)
@settings(max_examples=4)
@given(data=st.data())
def test_only_adapters_and_the_head_learn_and_merging_gives_the_plain_model(model_type, head, data):
    chosen = data.draw(settings_of(model_type))
    model = random_model(model_type, head, chosen)
    plain = copy.deepcopy(model)
    targets = data.draw(st.sampled_from(["*attention.query,*attention.value", "*", "*feed_forward"]))
    counted = add_lora(model, targets, rank=2, alpha=data.draw(st.sampled_from([1.0, 8.0])))
    assert counted.trainable == sum(tensor.numel() for tensor in model.parameters() if tensor.requires_grad)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    learn(model.train()).eval()
    body = {id(t) for n, t in model.named_parameters(remove_duplicate=False) if not n.startswith(("head", "pooler"))}
    for name, tensor in model.named_parameters():
        whole = id(tensor) not in body and tensor.grad is not None
        if ".lora_" in name or (whole and bool(tensor.grad.any())):
            assert not torch.equal(tensor, before[name]), name
        else:
            assert_close(tensor.detach(), before[name], atol=0, rtol=0)
    ids, mask = pad(sequences(), model)
    expected = run(model, ids, mask)
    merged = merge(model)
    assert merged is model
    assert not adapted(merged)
    assert [(n, type(p)) for n, p in merged.named_modules()] == [(n, type(p)) for n, p in plain.named_modules()]
    assert list(merged.state_dict()) == list(plain.state_dict())
    assert all(tensor.requires_grad for tensor in merged.parameters())
    for name, value in run(merged, ids, mask).items():
        scale = max(1.0, float(expected[name].abs().max()))
        assert_close(value / scale, expected[name] / scale, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("model_type", "head"), ATTENDING)
@settings(max_examples=2)
@given(data=st.data())
def test_of_the_tokens_only_the_new_ones_learn(model_type, head, data):
    model = random_model(model_type, head, data.draw(settings_of(model_type)))
    plain, new = copy.deepcopy(model), range(5, 38)
    tables = [name for name, _ in model.named_parameters() if name.endswith("embeddings.token.weight")]
    add_lora(model, rank=2) if data.draw(st.booleans()) else freeze(model, "*")
    counted = train_new_tokens(model, new)
    assert counted.trainable == sum(tensor.numel() for tensor in model.parameters() if tensor.requires_grad) > 0
    same_outputs(model, plain)
    learn(model.train()).eval()
    learnt = merge(copy.deepcopy(model))
    same_outputs(learnt, model)
    assert learnt.state_dict().keys() == plain.state_dict().keys()
    learn(model, steps=1)  # which the copy left as it was
    for name in tables:
        before, after = plain.get_parameter(name), learnt.get_parameter(name)
        old = [row for row in range(len(before)) if row not in new]
        assert_close(after[old], before[old], rtol=0, atol=0)
        assert not torch.equal(after[list(new)], before[list(new)]), name


@pytest.mark.parametrize("attention", ["additive", "general", "concat"])
def test_seq2seq_takes_adapters_where_they_have_an_effect(attention):
    model = random_model("glassformer-seq2seq", "text2text-generation", {**SEQ2SEQ, "attention": attention})
    add_lora(model, "*", rank=2)
    assert "decoder.combine" in adapted(model)
    assert "decoder.attention.scorer.both" not in adapted(model)  # its weight is read past the layer
    loss(model).backward()
    assert all(
        tensor.grad is not None and tensor.grad.any() for name, tensor in model.named_parameters() if ".lora_up" in name
    )


@settings(max_examples=20)
@given(
    rank=st.integers(1, 5),
    alpha=st.floats(0.5, 32),
    bias=st.booleans(),
    sizes=st.tuples(st.integers(1, 7), st.integers(1, 7)),
    seed=st.integers(0, 99),
)
def test_one_update_is_the_papers(rank, alpha, bias, sizes, seed):
    """h = W x + α/r · B A x; with G = ∂/∂h, ∂/∂B = α/r · Gᵀ (x Aᵀ) and ∂/∂A = α/r · (G B)ᵀ x."""
    torch.manual_seed(seed)
    layer = torch.nn.Sequential(torch.nn.Linear(*sizes, bias=bias)).double()
    weight, x, pull = (
        layer[0].weight.detach().clone(),
        torch.randn(3, sizes[0]).double(),
        torch.randn(3, sizes[1]).double(),
    )
    add_lora(layer, "0", rank=rank, alpha=alpha)
    with torch.no_grad():
        layer[0].lora_up.copy_(torch.randn(sizes[1], rank))
    a, b = layer[0].lora_down.detach().clone(), layer[0].lora_up.detach().clone()
    shift = layer[0].bias.detach() if bias else 0.0
    assert_close(layer(x), x @ weight.T + shift + alpha / rank * x @ a.T @ b.T)
    step = torch.optim.SGD([tensor for tensor in layer.parameters() if tensor.requires_grad], lr=0.1)
    (layer(x) * pull).sum().backward()
    step.step()
    new_b = b - 0.1 * alpha / rank * pull.T @ (x @ a.T)
    new_a = a - 0.1 * alpha / rank * (pull @ b).T @ x
    assert_close(layer[0].lora_up.detach(), new_b)
    assert_close(layer[0].lora_down.detach(), new_a)
    merge(layer)
    assert_close(layer[0].weight.detach(), weight + alpha / rank * new_b @ new_a)


@pytest.mark.parametrize("model_type", ["bert", "gpt2"])
def test_the_merged_model_loads_in_transformers(model_type, tmp_path):
    head, small = ("text-classification", SMALL_BERT) if model_type == "bert" else ("text-generation", SMALL_GPT)
    model = random_model(model_type, head, small)
    add_lora(model, rank=2)
    learn(model)
    with pytest.raises(ValueError, match="lora_down is extra"):
        gf.save(model, tmp_path)
    ids, mask = pad(sequences(), model)
    expected = run(model, ids, mask)["logits"]
    folder = gf.save(merge(model), tmp_path / "merged")
    assert_close(run(gf.load(folder), ids, mask)["logits"], expected, atol=1e-5, rtol=1e-5)
    build = transformers.BertForSequenceClassification if model_type == "bert" else transformers.GPT2LMHeadModel
    with torch.no_grad():
        theirs = build.from_pretrained(folder)(input_ids=ids, attention_mask=mask).logits
    real = mask.bool() if model_type == "gpt2" else slice(None)
    assert_close(theirs[real], expected[real], atol=1e-4, rtol=1e-4)


def test_dropout_acts_on_the_correction_alone():
    layer = torch.nn.Sequential(torch.nn.Linear(6, 4))
    add_lora(layer, "0", rank=2, dropout=0.5)
    x = torch.randn(5, 6)
    assert_close(layer.train()(x), layer.eval()(x))
    with torch.no_grad():
        layer[0].lora_up.normal_()
    torch.manual_seed(0)
    kept = torch.nn.functional.dropout(x, 0.5)
    torch.manual_seed(0)
    found = layer.train()(x)
    plain = torch.nn.functional.linear(x, layer[0].weight, layer[0].bias)
    assert_close(found - plain, 8.0 * kept @ layer[0].lora_down.T @ layer[0].lora_up.T, atol=1e-5, rtol=1e-5)


def test_tied_weights_are_left_alone():
    model = random_model("gpt2", "text-generation", SMALL_GPT)
    add_lora(model, "*", rank=2)
    assert not [name for name in adapted(model) if name.startswith("head")]
    assert not model.head.weight.requires_grad
    assert merge(model).head.weight is model.embeddings.token.weight
    twins = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    twins[2].weight = twins[0].weight
    twins[1].weight = torch.nn.Parameter(torch.randn(3, 3))
    add_lora(twins, "0", rank=1)
    assert adapted(twins) == ["0", "2"]  # what merging would change has the adapter too
    assert twins[0].lora_up is twins[2].lora_up


def test_what_was_frozen_before_stays_frozen():
    model = random_model("bert", "text-classification", SMALL_BERT)
    freeze(model, "pooler,embeddings")
    add_lora(model, rank=2)
    learning = {name for name, tensor in model.named_parameters() if tensor.requires_grad and ".lora_" not in name}
    assert learning == {"head.output.weight", "head.output.bias"}


def test_what_is_trained_whole_can_be_chosen():
    model = random_model("bert", "text-classification", SMALL_BERT)
    add_lora(model, "layers.1.attention", rank=2, whole="embeddings.norm")
    assert adapted(model) == [f"layers.1.attention.{name}" for name in ("query", "key", "value", "output")]
    learning = {name for name, tensor in model.named_parameters() if tensor.requires_grad and ".lora_" not in name}
    assert learning == {"embeddings.norm.weight", "embeddings.norm.bias"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rank": 0}, "rank must be at least 1, not 0"),
        ({"alpha": 0.0}, "alpha must be above 0, not 0.0"),
        ({"dropout": 1.0}, "dropout.*1.0"),
        ({"targets": "*.querry"}, "called '\\*.querry'; near it: .*query"),
        ({"targets": "head"}, "called 'head'"),
        ({"targets": "embeddings.token"}, "called 'embeddings.token'"),
        ({"whole": "hed"}, "called 'hed'"),
    ],
)
def test_a_wrong_setting_is_named_and_changes_nothing(settings, message):
    model = random_model("bert", "text-classification", SMALL_BERT)
    with pytest.raises(ValueError, match=message):
        add_lora(model, **settings)
    assert not adapted(model)
    assert all(tensor.requires_grad for tensor in model.parameters())


def test_adapters_that_do_not_fit_are_refused():
    model = random_model("bert", "text-classification", SMALL_BERT)
    add_lora(model, rank=2)
    with pytest.raises(ValueError, match="has adapters already; merge them first"):
        add_lora(model)
    with pytest.raises(ValueError, match="no linear layer for an adapter"):
        add_lora(gf.build("glassformer-rnn", "text-classification", vocab_size=41))
