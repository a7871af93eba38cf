"""Run under torchrun: random models of every family, dealt out to the processes, beside the same models whole.

    torchrun --nproc-per-node 2 -m train.tensor_cases OUT.json

Every process does both, in double precision. OUT.json gets for each family and head the largest difference of what the
model gives, of its loss and of its gradients over all examples, the largest share of its parameters that was dealt out,
and the words of what was raised, if anything was.
"""

import json
import sys
from copy import deepcopy
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor

from families import CASES, random_model, sequences, settings_of
from glassformer.inspect.laws import error, pad, some_target
from glassformer.models.contract import as_model
from glassformer.train.tensor_parallel import parallelise
from glassformer.train.vocabulary_scores import VocabularyScores

EXAMPLES = 3
EVEN = {"vocab_size": 42, "decoder_vocab_size": 50}


def outputs(model):
    ids, mask = pad(sequences(), model)
    inputs = {"input_ids": ids, "attention_mask": mask}
    if as_model(model).config.is_encoder_decoder:
        inputs["decoder_input_ids"] = some_target(model, len(ids))
    return model(**inputs)._asdict()


def whole(value):
    return value.whole if isinstance(value, VocabularyScores) else value


def rows(value):
    """(B, S, V) as (P, V), still where it is."""
    if isinstance(value, VocabularyScores):
        return VocabularyScores(value._scores.flatten(0, -2))
    return value.flatten(0, -2)


def loss_of(found):
    """Something of every output: its mean, which needs all of it, and of what scores words or classes the
    cross-entropy."""
    total = torch.zeros(())
    for value in found.values():
        total = total + (whole(value) ** 2).mean()
        if value.dim() > 1 and value.shape[-1] > 1:
            targets = torch.arange(value[..., 0].numel()) % value.shape[-1]
            targets[::3] = -100
            total = total + F.cross_entropy(rows(value), targets, reduction="sum", label_smoothing=0.1)
    return total


def learnt(model):
    """What it gives, the loss, and the gradients."""
    found = outputs(model)
    loss = loss_of(found)
    loss.backward()
    gradients = {name: one.grad for name, one in model.named_parameters() if one.grad is not None}
    gathered = {name: one.full_tensor() if isinstance(one, DTensor) else one for name, one in gradients.items()}
    return {name: whole(value).detach() for name, value in found.items()}, loss.detach(), gathered


def compared(plain, mesh):
    ours = deepcopy(plain)
    parallelise(ours, mesh)
    dealt = sum(one.numel() for one in ours.parameters() if isinstance(one, DTensor))
    (given, loss, gradients), (theirs, their_loss, expected) = learnt(ours), learnt(plain)
    assert gradients.keys() == expected.keys()
    assert [*ours.state_dict()] == [*plain.state_dict()]
    return {
        "outputs": max(error(given[name], theirs[name]) for name in theirs),
        "loss": error(loss, their_loss),
        "gradients": max(error(gradients[name], expected[name]) for name in expected),
        "dealt": dealt / sum(one.numel() for one in plain.parameters()),
    }


def worst_of(name, head, mesh):
    found = {}

    @settings(
        max_examples=EXAMPLES, derandomize=True, deadline=None, database=None, suppress_health_check=[*HealthCheck]
    )
    @given(drawn=settings_of(name))
    def look(drawn):
        known = {key: value for key, value in EVEN.items() if key in drawn}
        try:
            one = compared(random_model(name, head, {**drawn, **known}).double().eval(), mesh)
        except Exception as problem:  # all of a torchrun would end with it
            if "come out even" not in str(problem):
                found.setdefault("error", f"{type(problem).__name__}: {problem}"[:500])
            return
        found.update({key: max(value, found.get(key, 0.0)) for key, value in one.items()})

    look()
    return found


def main():
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    found = {f"{name}/{head}": worst_of(name, head, mesh) for name, head in CASES}
    if dist.get_rank() == 0:
        Path(sys.argv[1]).write_text(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
