"""gf.embed: one vector for each text, as Sentence-Transformers' `encode` gives it.

N texts, D width.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from glassformer.files.arguments import unknown_argument
from glassformer.files.schema import Size
from glassformer.tasks.pooling import Mode
from glassformer.tasks.sentence_similarity import SentenceEmbedding
from glassformer.text.options import as_batch
from glassformer.text.tokenizer import Tokenizer

from .predict import pipeline

Vectors = NDArray[np.float32]


class EmbedOptions(TypedDict, total=False):
    """What gf.embed can be told. None: as the folder says, or as it is best."""

    tokenizer: Tokenizer | str | Path | None  # a model that is loaded already needs one
    pooling: Mode | None
    normalize: bool | None  # to length 1
    max_length: Size | None  # tokens of a text that are read
    batch_size: Size | None
    device: str | int | torch.device | None
    dtype: str | torch.dtype | None


@overload
def embed(
    texts: str | Sequence[str],
    model: str | Path | nn.Module | None = None,
    *,
    convert_to_tensor: Literal[False] = False,
    **options: Unpack[EmbedOptions],
) -> Vectors: ...


@overload
def embed(
    texts: str | Sequence[str],
    model: str | Path | nn.Module | None = None,
    *,
    convert_to_tensor: Literal[True],
    **options: Unpack[EmbedOptions],
) -> Tensor: ...


def embed(
    texts: str | Sequence[str],
    model: str | Path | nn.Module | None = None,
    *,
    convert_to_tensor: bool = False,
    **options: Unpack[EmbedOptions],
) -> Vectors | Tensor:
    """The vector (D,) of a text, or those (N, D) of a list, in float32: a numpy array, or a tensor on the CPU.

    `pooling` is mean, cls or max, and `normalize` makes every vector of length 1; what is not given is as the files of
    Sentence-Transformers in the model's folder say, else mean and normalised. A model that is loaded already needs its
    `tokenizer`; without a model the built-in one is taken. Texts are read in batches of like length, and given back in
    their order.
    """
    listed, single = as_batch(texts, "texts", split=False)
    known = [*EmbedOptions.__annotations__, "convert_to_tensor"]
    if unknown := [name for name in options if name not in known]:
        raise TypeError(unknown_argument("embed", unknown[0], known))
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    vectors: list[Tensor] = pipeline(SentenceEmbedding.name, model, **given)(listed or [""], return_tensors=True)
    stacked = torch.stack(vectors)[: len(listed)]  # also of no text, and of one: a model's own tensors take no gradient
    found = stacked[0] if single else stacked
    return found if convert_to_tensor else found.numpy()
