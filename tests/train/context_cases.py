"""Run under torchrun: random decoders whose texts are dealt out to the processes, beside the same ones that read alone.

    torchrun --nproc-per-node 2 -m train.context_cases OUT.json

Every process does both, in double precision. OUT.json gets for each decoder the largest difference of its loss and of
its gradients over all examples, or the words of what was raised; what autograd keeps of a longer text, as a share of
what it keeps when it reads alone, without checkpointing and with it; and what each process draws.
"""

import json
import sys
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace

import torch
import torch.distributed as dist
from hypothesis import HealthCheck, given, settings
from torch import nn

import glassformer as gf
from families import random_model, settings_of
from glassformer.inspect.laws import error
from glassformer.tasks.batch import Batch
from glassformer.tasks.text_generation import TextGeneration
from glassformer.tasks.words import NO_TARGET
from glassformer.text.train import train
from glassformer.train.context_parallel import ContextObjective, context_mesh
from glassformer.train.layout import Objective
from glassformer.train.memory import measured
from glassformer.train.transforms import recomputing

DECODERS = ["glassformer-decoder", "gpt2", "llama", "mistral", "qwen2", "qwen3"]
EXAMPLES, ROWS, LONG = 3, 3, 512
HARD = {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}, "positions": "relative"}
SIZES = {
    "gpt2": {"n_embd": 64, "n_layer": 4, "n_head": 4, "n_positions": LONG},
    "llama": {"hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 4, "max_position_embeddings": LONG}
    | {"num_attention_heads": 4, "num_key_value_heads": 2},
}


def batch_of(length, vocabulary, *, ragged=False):
    generator = torch.Generator().manual_seed(length)
    ids = torch.randint(vocabulary, (ROWS, length + 1), generator=generator)
    inputs, labels = {"input_ids": ids[:, :-1]}, ids[:, 1:].clone()
    if ragged:
        real = torch.arange(length) < torch.tensor([[length], [length // 2], [1]])
        inputs["attention_mask"], labels[~real] = real.long(), NO_TARGET
    return Batch(inputs, {"labels": labels}, count=int((labels != NO_TARGET).sum()))


def learnt(objective, batch):
    """The loss of one pass, and the mean of the processes' gradients."""
    loss, _ = objective(batch, ())
    loss.backward()
    gradients = {name: one.grad for name, one in objective.named_parameters() if one.grad is not None}
    for one in gradients.values():
        dist.all_reduce(one)
    return loss.detach(), {name: one / dist.get_world_size() for name, one in gradients.items()}


def worst_of(name, task, mesh):
    """Of random settings, and of the same with positions that ask for the whole text, where a family has them."""
    found = {}

    @settings(
        max_examples=EXAMPLES, derandomize=True, deadline=None, database=None, suppress_health_check=[*HealthCheck]
    )
    @given(drawn=settings_of(name))
    def look(drawn):
        hard = {key: value for key, value in HARD.items() if key in drawn}
        for chosen in (drawn, drawn | hard):
            plain = random_model(name, "text-generation", chosen).double().eval()
            length = 37 if isinstance(plain.embeddings.position, nn.Module) else 45  # beyond what rotary ones know
            for ragged in (False, True):
                batch = batch_of(length, plain.config.vocab_size, ragged=ragged)
                try:
                    values = compared(plain, task, mesh, batch, again=ragged)
                except Exception as problem:  # all of a torchrun would end with it
                    found.setdefault("error", f"{type(problem).__name__}: {problem}"[:500])
                    return
                found.update({key: max(value, found.get(key, 0.0)) for key, value in values.items()})

    look()
    return found


def compared(plain, task, mesh, batch, *, again):
    """The largest differences a target, with layers that are computed `again` or not."""
    ours, theirs = (ContextObjective(deepcopy(plain), task, mesh), Objective(deepcopy(plain), task))
    if again:
        recomputing(ours.model)
    (loss, gradients), (their_loss, expected) = learnt(ours, batch), learnt(theirs, batch)
    assert gradients.keys() == expected.keys()
    worst = max(error(gradients[key], expected[key]) for key in expected)
    return {"loss": error(loss, their_loss) / batch.count, "gradients": worst / batch.count}


def share_kept(name, task, mesh, *, again):
    """What autograd keeps of a text here, as a share of what it keeps of all of it."""
    model = gf.build(name, "text-generation", vocab_size=64, **SIZES[name])
    model = recomputing(model) if again else model
    batch = batch_of(LONG, 64)
    kept = [
        measured(model, lambda *_, one=objective: one(batch, ())[0], ROWS, LONG).total
        for objective in (ContextObjective(model, task, mesh), Objective(model, task))
    ]
    return kept[0] / kept[1]


def draws(task, mesh):
    """What each process draws while it reads, and after it."""
    model = gf.build("gpt2", "text-generation", vocab_size=64, **SIZES["gpt2"])
    inside = []
    model.embeddings.register_forward_hook(lambda *_: inside.append(float(torch.rand(()))))
    torch.manual_seed(0)
    ContextObjective(model, task, mesh)(batch_of(8, 64), ())
    found = [None] * dist.get_world_size()
    dist.all_gather_object(found, (*inside, float(torch.rand(()))))
    return SimpleNamespace(inside=[one for one, _ in found], after=[one for _, one in found])


def main():
    out = Path(sys.argv[1])
    dist.init_process_group("gloo")
    text = out.with_suffix(f".{dist.get_rank()}.txt")
    text.write_text("a b c")
    task = TextGeneration(train([text], kind="bpe", vocab_size=300), block_size=LONG)
    mesh = context_mesh(torch.device("cpu"), dist.get_world_size(), 1)
    found = {name: worst_of(name, task, mesh) for name in DECODERS}
    kept = {name: [share_kept(name, task, mesh, again=again) for again in (False, True)] for name in SIZES}
    drawn = draws(task, mesh)
    if dist.get_rank() == 0:
        out.write_text(json.dumps({"decoders": found, "kept": kept, "draws": vars(drawn)}))
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
