"""Adam on shards is Adam: the same steps of what each process holds, and moments that fit any number of processes."""

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.testing import assert_close

from glassformer.hub.registry import build
from glassformer.train.sharded_adam import ShardedAdam, ShardedAdamW
from glassformer.train.sharding import units_of


@pytest.fixture
def mesh(tmp_path):
    """A group of this process alone."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    dist.destroy_process_group()


@pytest.mark.parametrize("how", [{}, {"fused": True}, {"foreach": True}, {"fused": False, "foreach": False}], ids=str)
@pytest.mark.parametrize(
    ("plain", "sharded"), [(torch.optim.Adam, ShardedAdam), (torch.optim.AdamW, ShardedAdamW)], ids=["adam", "adamw"]
)
def test_steps_are_those_of_torch(mesh, plain, sharded, how):
    values, gradients = torch.randn(6, 4), [torch.randn(6, 4) for _ in range(3)]
    whole = torch.nn.Parameter(values.clone())
    shards = torch.nn.Parameter(distribute_tensor(values.clone(), mesh, [Shard(0)]))
    one, other = (
        kind([tensor], lr=0.1, weight_decay=0.1, **how) for kind, tensor in ((plain, whole), (sharded, shards))
    )
    for gradient in gradients:
        whole.grad, shards.grad = gradient.clone(), distribute_tensor(gradient.clone(), mesh, [Shard(0)])
        one.step()
        other.step()
        assert_close(shards.full_tensor(), whole)
    state = other.state[shards]
    assert isinstance(state["exp_avg"], DTensor)
    assert isinstance(state["exp_avg_sq"], DTensor)
    assert_close(state["exp_avg_sq"].full_tensor(), one.state[whole]["exp_avg_sq"])


def test_layers_are_joined_within_their_stack_until_they_are_large_enough():
    sizes = {"d_model": 16, "encoder_layers": 3, "decoder_layers": 4, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    model = build("glassformer-transformer", "text2text-generation", vocab_size=30, **sizes, **heads)
    names = {module: name for name, module in model.named_modules()}

    def units(least):
        return [[names[layer] for layer in unit] for unit in units_of(model, least)]

    encoder, decoder = (
        [f"{side}.layers.{n}" for n in range(count)] for side, count in (("encoder", 3), ("decoder", 4))
    )
    assert units(0) == [[one] for one in encoder + decoder]
    assert units(2**40) == [encoder, decoder]
    layer = sum(one.numel() for one in model.get_submodule(encoder[0]).parameters())
    assert units(layer + 1)[:2] == [encoder[:2], encoder[2:]]


def test_layers_of_one_set_of_weights_are_one_unit():
    sizes = {"hidden_size": 16, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 24}
    model = build("albert", None, vocab_size=30, embedding_size=8, **sizes)
    assert [len(unit) for unit in units_of(model)] == [len(model.layers)]
