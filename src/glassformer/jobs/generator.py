"""What a task trains beside its model, and where that lies: of ELECTRA, the generator, in a folder within the run's."""

from pathlib import Path

from torch import nn

from glassformer.hub.load import load
from glassformer.models.electra import build_generator, share_embeddings, with_generator
from glassformer.models.encoder import Encoder
from glassformer.tasks.replaced_tokens import ReplacedTokens
from glassformer.tasks.task import AnyTask

FOLDER = "generator"


def complete(task: AnyTask, model: nn.Module, folder: Path | None, *, new: bool = False) -> nn.Module:
    """The model with what its task needs beside it, as it lies in the model's folder; `new`: made where there is none.

    The model itself stays as it is; what is given shares its modules.
    """
    if not isinstance(task, ReplacedTokens):
        return model
    assert isinstance(model, Encoder), f"a {type(model).__name__} has no generator"
    if folder is not None and (folder / FOLDER).is_dir():
        first = next(model.parameters())
        generator = load(folder / FOLDER, head="fill-mask", device=first.device, dtype=first.dtype)
        assert isinstance(generator, Encoder)
        return with_generator(model, share_embeddings(generator, model))
    return with_generator(model, build_generator(model, task.generator_size)) if new else model


def apart(model: nn.Module) -> dict[str, nn.Module]:
    """The models of a run by the folders within it that are to hold them: its own, and what stands beside it."""
    generator = dict(model.named_children()).get(FOLDER)
    if generator is None:
        return {".": model}
    assert isinstance(model, Encoder)
    return {".": with_generator(model, None), FOLDER: generator}
