"""Gates of a built-in model while it reads a text."""

import numpy as np
import torch
from numpy.typing import NDArray

import glassformer as gf


def gate(model_name: str, point: str, text: str, units: int) -> tuple[NDArray[np.float64], list[str], list[str]]:
    """The units of a gate that move most over a text: (units, tokens) rounded, their names, the tokens."""
    model, tokenizer = gf.load(model_name), gf.load_tokenizer(model_name)
    batch = tokenizer([text], return_tensors="pt")
    start = {"decoder_input_ids": torch.zeros(1, 1, dtype=torch.long)} if model.config.is_encoder_decoder else {}
    with torch.no_grad(), gf.record(model, point) as seen:
        model(**batch, **start)
    values = next(iter(seen.values()))[0].double()  # (T, units)
    most = values.std(0).topk(units).indices
    tokens = [token.removeprefix("Ġ") for token in tokenizer.convert_ids_to_tokens(batch["input_ids"][0].tolist())]
    return values[:, most].T.numpy().round(2), [f"unit {unit}" for unit in most.tolist()], tokens
