"""The memory estimate stays near what autograd really keeps, leaves no trace, and knows what a machine has left."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from families import CASES, SMALL_BERT, random_model, settings_of
from glassformer.blocks.memory import free_on_this_machine
from glassformer.train.freeze import freeze
from glassformer.train.memory import Memory, estimate, made_up_loss, measured, scaled_up
from glassformer.train.optimiser import build_optimiser

LONG = {"max_position_embeddings": 300, "n_positions": 300}
BODY = {"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 256}
SHAPES = {  # BERT-small, GPT-2-small and an LSTM tagger, at an eighth of their width
    "bert": ("text-classification", {**LONG, **BODY, "vocab_size": 3000}),
    "gpt2": ("text-generation", {**LONG, "n_embd": 96, "n_head": 12, "n_layer": 6, "vocab_size": 3000}),
    "glassformer-rnn": (
        "token-classification",
        {"kind": "lstm", "num_layers": 2, "bidirectional": True, "vocab_size": 3000, "embedding_size": 32}
        | {"hidden_size": 64, "dropout": 0.1},
    ),
}


def near(model, rows, length):
    """The estimate against the truth, in share of the truth."""
    found = scaled_up(model, rows, length=length).total
    really = measured(model.train(), made_up_loss(model), rows, length).total
    assert_close(float(found), float(really), atol=1024, rtol=0.25)  # bytes: of next to nothing, no share is asked


@pytest.mark.parametrize("name", SHAPES)
@settings(max_examples=3)
@given(rows=st.integers(1, 5), length=st.integers(65, 280))
def test_real_shapes_are_estimated_within_a_quarter(name, rows, length):
    head, chosen = SHAPES[name]
    near(random_model(name, head, chosen), rows, length)


@pytest.mark.parametrize(("model_type", "head"), CASES)
@settings(max_examples=2)
@given(data=st.data(), rows=st.integers(1, 5), length=st.integers(8, 200))
def test_every_family_is_estimated_within_a_quarter(model_type, head, data, rows, length):
    near(random_model(model_type, head, {**data.draw(settings_of(model_type)), **LONG}), rows, length)


def test_what_autograd_keeps_is_counted_by_hand():
    """x → a = x A → b = a B → b² → masked: kept are x, a, b and the mask; B too, but that is the model's own."""
    model = torch.nn.Sequential(torch.nn.Linear(5, 11, bias=False), torch.nn.Linear(11, 7, bias=False))

    def loss(rows, length):
        mask = torch.ones(rows, length, 1, dtype=torch.bool).expand(-1, -1, 100).contiguous()
        return (model(torch.ones(rows, length, 5)).square().sum(-1, keepdim=True)[..., :1] * mask).sum()

    assert measured(model, loss, 2, 3) == (2 * 3 * (4 * (5 + 11 + 7) + 100), 2 * 3 * 4 * 11)


@given(rows=st.integers(1, 9), length=st.integers(1, 99))
def test_what_grows_with_nothing_with_tokens_and_with_their_square_is_scaled_exactly(rows, length):
    """Weights that are cast are kept once; vectors grow with the tokens, and their products with the square."""
    model = torch.nn.Linear(5, 7, bias=False)

    def loss(rows, length):
        vectors = torch.nn.functional.linear(torch.ones(rows, length, 5).double(), model.weight.double())
        return (vectors @ vectors.mT).square().sum() + model.weight.double().square().sum()

    assert scaled_up(model, rows, length=length, loss=loss).total == measured(model, loss, rows, length).total


@pytest.mark.parametrize(("model_type", "head"), CASES)
@settings(max_examples=2)
@given(data=st.data())
def test_weights_gradients_and_optimiser_are_counted_exactly(model_type, head, data):
    model = random_model(model_type, head, data.draw(settings_of(model_type)))
    freeze(model, data.draw(st.sampled_from([name for name, _ in model.named_parameters()])))
    found = estimate(model, 2, length=6)
    tensors = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    assert found.parameters == sum(tensor.nbytes for tensor in tensors.values())
    optimiser = build_optimiser(model, 1e-3)
    for group in optimiser.param_groups:
        for tensor in group["params"]:
            tensor.grad = torch.zeros_like(tensor)
    optimiser.step()
    assert found.gradients == sum(tensor.grad.nbytes for tensor in model.parameters() if tensor.grad is not None)
    moments = [value for state in optimiser.state.values() for value in state.values() if value.dim()]
    assert found.optimiser == sum(moment.nbytes for moment in moments)
    assert found.needed == sum((found.parameters, found.gradients, found.optimiser, found.activations, found.passing))


@pytest.mark.parametrize("training", [False, True])
def test_an_estimate_leaves_no_trace(training):
    model = random_model("bert", "text-classification", SMALL_BERT).train(training)
    model.layers[0].eval()
    modes = [part.training for part in model.modules()]
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    with torch.no_grad():
        estimate(model, 3, length=9)
    assert_close(torch.rand(3), expected, atol=0, rtol=0)
    assert_close(dict(model.state_dict()), weights, atol=0, rtol=0)
    assert [part.training for part in model.modules()] == modes
    assert all(tensor.grad is None for tensor in model.parameters())


def test_a_loss_of_ones_own_is_measured():
    model = random_model("bert", "fill-mask", SMALL_BERT)

    def first_token(rows, length):
        return model(input_ids=torch.zeros(rows, length, dtype=torch.long)).logits[:, 0].sum()

    assert scaled_up(model, 4, length=30, loss=first_token).total < scaled_up(model, 4, length=30).total


STAT = "anon 7\ninactive_file 300\n"


@pytest.mark.parametrize(
    ("cgroup", "files", "free"),
    [
        ("0::/\n", {}, 8_192_000_000),
        ("0::/\n", {"memory.max": "max\n", "memory.current": "5\n", "memory.stat": STAT}, 8_192_000_000),
        ("0::/\n", {"memory.max": "3000\n", "memory.current": "1000\n", "memory.stat": STAT}, 2300),
        ("0::/a/b\n", {"a/memory.max": "600\n", "a/memory.current": "1000\n", "a/memory.stat": STAT}, 0),
        (
            "4:memory:/job\n1:cpu:/\n",
            {
                "memory/job/memory.limit_in_bytes": "700\n",
                "memory/job/memory.usage_in_bytes": "500\n",
                "memory/job/memory.stat": STAT + "total_inactive_file 40\n",
                "memory.max": "1",  # of a group this process is not in
            },
            240,
        ),
    ],
)
def test_the_smallest_limit_counts(cgroup, files, free, tmp_path):
    """Of a machine with 8 GB free, whose process lives in control groups of either version."""
    proc, groups = tmp_path / "proc", tmp_path / "groups"
    texts = {proc / "meminfo": "MemTotal:  16000000 kB\nMemAvailable:    8000000 kB\nHugePages_Free: 0\n"}
    texts |= {proc / "self" / "cgroup": cgroup} | {groups / name: text for name, text in files.items()}
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert free_on_this_machine(proc, groups) == free


def test_this_machine_has_some_memory():
    assert 0 < free_on_this_machine() < 2**50


@pytest.mark.parametrize(
    ("sizes", "line"),
    [
        ((1_000_000_000, 1_000_000_000, 1_000_000_000, 100_000_000, 0, 22_400_000_000), "3.1 GB of 22 GB"),
        ((40_000_000, 0, 0, 0, 999_600, 999_600_000), "41 MB of 1 GB"),
        ((2_000, 0, 0, 0, 0, 4_040_000), "2 kB of 4 MB"),
    ],
)
def test_the_line(sizes, line):
    names = ("parameters", "gradients", "optimiser", "activations", "passing", "available")
    assert str(Memory(**dict(zip(names, sizes, strict=True)))) == f"needs about {line}"
