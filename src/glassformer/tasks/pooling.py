"""Pooling: one vector a text from its token vectors, and the files in which Sentence-Transformers keeps how.

B batch, T length, D width.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Required, TypedDict, get_args

import torch.nn.functional as F
from torch import Tensor

from glassformer.blocks.masks import first_kept, send, token_at
from glassformer.files import read_json, write_json
from glassformer.files.schema import Size

Mode = Literal["mean", "cls", "max"]
MODES: tuple[Mode, ...] = get_args(Mode)
FLAGS = {  # how folders named the modes until version 5, which every version reads
    "cls": "pooling_mode_cls_token",
    "mean": "pooling_mode_mean_tokens",
    "max": "pooling_mode_max_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}
WIDTHS = ("hidden_size", "dim", "n_embd", "d_model")  # in the words of BERT, DistilBERT, GPT-2 and T5
MODULES, LENGTH, PLACE = "modules.json", "sentence_bert_config.json", "1_Pooling"
TYPES = "sentence_transformers.models"


class Module(TypedDict):
    """One entry of modules.json."""

    type: Required[str]
    path: Required[str]


class PoolingConfig(TypedDict, total=False):
    """1_Pooling/config.json: the words of version 5, and the flags of those before it."""

    pooling_mode: str | list[str]
    pooling_mode_cls_token: bool
    pooling_mode_mean_tokens: bool
    pooling_mode_max_tokens: bool
    pooling_mode_mean_sqrt_len_tokens: bool
    pooling_mode_weightedmean_tokens: bool
    pooling_mode_lasttoken: bool


class LengthConfig(TypedDict, total=False):
    """sentence_bert_config.json."""

    max_seq_length: Size


@dataclass(frozen=True)
class PoolingOptions:
    """How a text becomes one vector: the options of that name of the tasks that embed."""

    pooling: Mode = "mean"
    normalize: bool = True  # to length 1
    max_length: int | None = None  # tokens of a text that are read

    def __post_init__(self) -> None:
        if self.pooling not in MODES:
            raise ValueError(f"pooling must be one of {', '.join(MODES)}, not {self.pooling!r}")

    def __call__(self, hidden: Tensor, attention_mask: Tensor) -> Tensor:
        """The mean or the maximum over real tokens, or the first of them: (B, T, D) -> (B, D), in float32.

        A text without a token has zeros.
        """
        hidden, keep = hidden.float(), send(attention_mask.bool(), hidden.device)
        if self.pooling == "cls":
            vectors = token_at(hidden, first_kept(keep))
        elif self.pooling == "max":
            vectors = hidden.masked_fill(~keep[..., None], float("-inf")).amax(1)
        else:
            vectors = hidden.masked_fill(~keep[..., None], 0.0).sum(1) / keep.sum(1, keepdim=True)
        vectors = vectors.masked_fill(~keep.any(1, keepdim=True), 0.0)
        return F.normalize(vectors, dim=-1) if self.normalize else vectors


def write_pooling(folder: str | Path, pooling: PoolingOptions) -> None:
    """Write beside a saved model what Sentence-Transformers needs to embed as we do."""
    folder = Path(folder)
    config = read_json(folder / "config.json")
    width = next((config[name] for name in WIDTHS if name in config), None)
    if width is None:
        raise ValueError(f"{folder / 'config.json'} does not say how wide the model is; save the model there first")
    kinds = ["Transformer", "Pooling", *(["Normalize"] if pooling.normalize else [])]
    paths = ["", PLACE, "2_Normalize"]
    (folder / PLACE).mkdir(parents=True, exist_ok=True)
    write_json(
        folder / PLACE / "config.json",
        {"word_embedding_dimension": width, **{flag: mode == pooling.pooling for mode, flag in FLAGS.items()}},
    )
    write_json(folder / LENGTH, {"max_seq_length": pooling.max_length, "do_lower_case": False})
    modules = [
        {"idx": place, "name": str(place), "path": paths[place], "type": f"{TYPES}.{kind}"}
        for place, kind in enumerate(kinds)
    ]
    write_json(folder / MODULES, modules)


def read_pooling(folder: str | Path) -> PoolingOptions | None:
    """How a folder of Sentence-Transformers is to be pooled; None where it does not say."""
    path = Path(folder) / MODULES
    if not path.is_file():
        return None
    modules = {one["type"].rpartition(".")[2]: one["path"] for one in read_json(path, list[Module])}
    if unknown := sorted(set(modules) - {"Transformer", "Pooling", "Normalize"}):
        raise ValueError(f"{path} asks for {', '.join(unknown)}, which is not supported; Pooling and Normalize are")
    config = read_json(path.parent / modules.get("Pooling", PLACE) / "config.json", PoolingConfig)
    limit = read_json(path.parent / modules.get("Transformer", "") / LENGTH, LengthConfig).get("max_seq_length")
    return PoolingOptions(_mode({**config}, path.parent), "Normalize" in modules, limit)


def _mode(config: dict[str, Any], folder: Path) -> Mode:
    """The one mode that is asked for, in the words of old folders or of new ones."""
    named = config.get("pooling_mode") or [mode for mode, flag in FLAGS.items() if config.get(flag)] or "mean"
    modes = [named] if isinstance(named, str) else list(named)
    for mode in MODES:
        if modes == [mode]:
            return mode
    raise ValueError(f"{folder} asks for pooling by {' and '.join(modes)}; supported: one of {', '.join(MODES)}")
