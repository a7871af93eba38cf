"""Every trained tensor is in exactly one group, decayed if it is a matrix, at the rate of its depth."""

import copy
from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

import glassformer as gf
from families import CASES, SMALL_BERT, SMALL_GPT, random_model, settings_of
from glassformer.train.optimiser import OptimiserName, build_optimiser, distances_from_the_top
from glassformer.train.plan import Plan
from tasks.cases import case

TRANSFORMER = {
    "vocab_size": 41,
    "d_model": 12,
    "encoder_layers": 3,
    "decoder_layers": 2,
    "encoder_attention_heads": 3,
    "decoder_attention_heads": 3,
    "encoder_ffn_dim": 7,
    "decoder_ffn_dim": 7,
}


def names_of(model):
    """Every name of every tensor, by the tensor."""
    names = {}
    for name, tensor in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(tensor), []).append(name)
    return names


@pytest.mark.parametrize(("model_type", "head"), CASES)
@settings(max_examples=5)
@given(data=st.data())
def test_each_trained_tensor_is_in_one_group(model_type, head, data):
    model = random_model(model_type, head, data.draw(settings_of(model_type)))
    frozen = data.draw(st.sets(st.sampled_from([name for name, _ in model.named_parameters()][:-1]), max_size=5))
    for name in frozen:
        model.get_parameter(name).requires_grad_(False)
    optimiser = build_optimiser(model, 1e-3, weight_decay=0.1, layer_decay=data.draw(st.sampled_from([1.0, 0.7])))
    found = [id(tensor) for group in optimiser.param_groups for tensor in group["params"]]
    assert len(found) == len(set(found))
    assert set(found) == {id(tensor) for tensor in model.parameters() if tensor.requires_grad}
    for group in optimiser.param_groups:
        assert {tensor.dim() > 1 for tensor in group["params"]} == {group["weight_decay"] == 0.1}
        assert group["weight_decay"] in (0.0, 0.1)


@pytest.mark.parametrize(("model_type", "head"), CASES)
@settings(max_examples=5)
@given(data=st.data())
def test_biases_and_norms_are_not_decayed_and_embeddings_are(model_type, head, data):
    model = random_model(model_type, head, data.draw(settings_of(model_type)))
    names = names_of(model)
    embeddings = {id(part.weight) for part in model.modules() if isinstance(part, nn.Embedding)}
    norms = {id(tensor) for part in model.modules() if isinstance(part, nn.LayerNorm) for tensor in part.parameters()}
    for group in build_optimiser(model, 1e-3).param_groups:
        here = {id(tensor) for tensor in group["params"]}
        if group["weight_decay"]:
            assert not here & norms
            assert not [name for tensor in here for name in names[tensor] if name.rpartition(".")[2].startswith("bias")]
        else:
            assert not here & embeddings


@pytest.mark.parametrize(("model_type", "head"), CASES)
@settings(max_examples=5)
@given(data=st.data())
def test_the_head_learns_fastest_and_the_embeddings_slowest(model_type, head, data):
    model = random_model(model_type, head, data.draw(settings_of(model_type)))
    rates, names = {}, names_of(model)
    for group in build_optimiser(model, 1.0, layer_decay=0.5).param_groups:
        rates |= {id(tensor): group["lr"] for tensor in group["params"]}
    for tensor, tied in names.items():
        if any("embeddings" in name for name in tied):
            assert rates[tensor] == min(rates.values())
        elif tied[0].startswith(("head", "pooler")):
            assert rates[tensor] == 1.0
    above = {name: rates[tensor] for tensor, tied in names.items() for name in tied}
    shared = {name for tied in names.values() for name in tied if len(tied) > 1}  # by layers, which have one rate then
    for name, rate in above.items():  # the same tensor one layer up learns twice as fast
        for mark in ("layers.", "_l"):
            before, found, after = name.rpartition(mark)
            number = after.partition("_" if mark == "_l" else ".")[0]
            if found and number.isdigit() and name not in shared:
                layer = before + mark + str(int(number) + 1)
                higher = layer + after.removeprefix(number)
                if higher in above or not any(one.startswith(f"{layer}.") for one in above):  # DeBERTa's first has more
                    assert above.get(higher, 1.0) == 2 * rate, name


@pytest.mark.parametrize(
    ("model_type", "head", "chosen", "expected"),
    [
        ("bert", "text-classification", SMALL_BERT, {"embeddings.norm.bias": 3, "layers.0.attention.query.weight": 2}),
        ("bert", "text-classification", SMALL_BERT, {"layers.1.feed_forward.up.bias": 1, "pooler.dense.bias": 0}),
        ("gpt2", "text-generation", SMALL_GPT, {"embeddings.token.weight": 3, "final_norm.weight": 0}),
        (
            "glassformer-transformer",
            "text2text-generation",
            TRANSFORMER,
            {"shared.weight": 4, "encoder.layers.0.attention.key.bias": 3, "decoder.layers.0.attention.key.bias": 2},
        ),
        (
            "glassformer-rnn",
            "token-classification",
            {"vocab_size": 41, "num_layers": 2, "bidirectional": True},
            {
                "embeddings.token.weight": 3,
                "recurrent.kernel.weight_ih_l0": 2,
                "recurrent.kernel.bias_hh_l1_reverse": 1,
                "head.weight": 0,
            },
        ),
        (
            "glassformer-seq2seq",
            "text2text-generation",
            {"vocab_size": 41, "num_layers": 2, "bidirectional": True},
            {
                "encoder.recurrent.kernel.weight_hh_l0_reverse": 2,
                "decoder.combine.weight": 0,
                "bridge.hidden.0.bias": 0,
            },
        ),
    ],
)
def test_distances_by_name(model_type, head, chosen, expected):
    found = distances_from_the_top(gf.build(model_type, head, **chosen))
    assert {name: found[name] for name in expected} == expected


@settings(max_examples=10)
@given(st.floats(1e-5, 1e-1), st.sampled_from([0.0, 0.1]), st.sampled_from([1.0, 0.5]))
def test_an_update_is_the_textbooks(lr, weight_decay, layer_decay):
    """θ ← θ - rate · (m̂ / (√v̂ + ε) + λ θ), with the rate of its layer and λ only for matrices; three times."""
    model = random_model("bert", "text-classification", SMALL_BERT).double()
    beta1, beta2, eps = 0.9, 0.95, 1e-8
    optimiser = build_optimiser(
        model, lr, weight_decay=weight_decay, betas=(beta1, beta2), eps=eps, layer_decay=layer_decay
    )
    wanted = {name: tensor.detach().clone() for name, tensor in model.named_parameters()}
    first, second = ({name: torch.zeros_like(value) for name, value in wanted.items()} for _ in range(2))
    distances = distances_from_the_top(model)
    for step in range(1, 4):
        for name, tensor in model.named_parameters():
            tensor.grad = torch.randn(tensor.shape, generator=torch.Generator().manual_seed(step)).double()
            rate = lr * layer_decay ** distances[name]
            first[name] = beta1 * first[name] + (1 - beta1) * tensor.grad
            second[name] = beta2 * second[name] + (1 - beta2) * tensor.grad**2
            mean, scale = first[name] / (1 - beta1**step), (second[name] / (1 - beta2**step)).sqrt() + eps
            decay = weight_decay if tensor.dim() > 1 else 0.0
            wanted[name] = wanted[name] - rate * (mean / scale + decay * wanted[name])
        optimiser.step()
    assert_close(dict(model.named_parameters()), wanted, atol=1e-8, rtol=1e-6)


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"lr": 0.0}, "lr must be above 0, not 0.0"),
        ({"lr": float("nan")}, "lr must be above 0, not nan"),
        ({"weight_decay": -0.1}, "weight_decay.*-0.1"),
        ({"layer_decay": 0.0}, "layer_decay.*0.0"),
        ({"layer_decay": 1.1}, "layer_decay.*1.1"),
    ],
)
def test_a_wrong_setting_is_named(chosen, message):
    with pytest.raises(ValueError, match=message):
        build_optimiser(nn.Linear(2, 2), **{"lr": 1e-3, **chosen})


def test_a_model_that_is_all_frozen_cannot_learn():
    with pytest.raises(ValueError, match="no parameter is trained"):
        build_optimiser(nn.Linear(2, 2).requires_grad_(False), 1e-3)


OPTIMISERS = get_args(OptimiserName)


@pytest.mark.parametrize("name", OPTIMISERS)
@pytest.mark.parametrize("task", ["text-classification/cnn", "text-generation/gpt2"])
def test_every_optimiser_lowers_the_loss(name, task):
    """Of the micro-world, by thirty steps on one batch."""
    one = case(task)
    batch = one.task.batch(one.items, np.arange(min(16, len(one.items.lengths))))
    optimiser = build_optimiser(one.model.eval(), {"sgd": 0.3, "adafactor": 0.3}.get(name, 1e-2), name=name)
    losses = []
    for _ in range(30):
        loss = one.task.loss(one.model, batch) / batch.count
        losses.append(loss.item())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert losses[-1] < 0.8 * losses[0]


@pytest.mark.parametrize("name", OPTIMISERS)
def test_every_optimiser_has_the_same_groups_of_parameters(name):
    """Matrices decayed, the rest not, at the rates of their layers, whichever steps them."""
    model = random_model("bert", "text-classification", SMALL_BERT)
    rates = {}
    for group in build_optimiser(model, 1.0, name=name, weight_decay=0.1, layer_decay=0.5).param_groups:
        rates |= {id(tensor): (group["lr"], group["weight_decay"]) for tensor in group["params"]}
    distances = distances_from_the_top(model)
    assert rates == {
        id(tensor): (0.5 ** distances[at], 0.1 if tensor.dim() > 1 else 0.0) for at, tensor in model.named_parameters()
    }


def test_muon_steps_hidden_matrices_and_adamw_the_rest():
    model = random_model("gpt2", "text-generation", {**SMALL_GPT, "tie_word_embeddings": False})
    rest, hidden = build_optimiser(model, 1e-3, name="muon").parts
    assert (type(rest), type(hidden)) == (torch.optim.AdamW, torch.optim.Muon)
    names = names_of(model)
    found = {names[id(tensor)][0] for group in hidden.param_groups for tensor in group["params"]}
    assert found == {name for name, tensor in model.named_parameters() if "layers." in name and tensor.dim() == 2}


def test_muon_of_a_model_without_hidden_matrices_is_adamw():
    model = random_model("glassformer-bow", "text-classification", {"vocab_size": 9})
    (only,) = build_optimiser(model, 1e-3, name="muon").parts
    assert type(only) is torch.optim.AdamW


@pytest.mark.parametrize("name", OPTIMISERS)
def test_a_state_that_is_put_back_goes_on_alike(name):
    """Also at another rate: the schedule reaches the groups that were made anew."""
    one, other = (random_model("gpt2", "text-generation", SMALL_GPT) for _ in range(2))
    ids = torch.arange(8)[None] + 4
    first = build_optimiser(one, 1e-2, name=name)

    def step(model, optimiser):
        for group in optimiser.param_groups:
            group["lr"] = 5e-3
        model(input_ids=ids).logits.square().mean().backward()
        optimiser.step()
        optimiser.zero_grad()

    step(one, first)
    step(one, first)
    other.load_state_dict(one.state_dict())
    second = build_optimiser(other, 1e-2, name=name)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    step(one, first)
    step(other, second)
    assert_close(dict(one.named_parameters()), dict(other.named_parameters()), rtol=0, atol=0)


def test_an_optimiser_that_there_is_not_is_refused():
    with pytest.raises(ValueError, match=r"optimiser.*'lion'.*adamw") as told:
        Plan(steps=1, batch_size=1, optimiser="lion")
    assert "\n" not in str(told.value)
