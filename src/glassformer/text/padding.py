"""Rows that were encoded before, given one length: what `tok.pad` does."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.text.assemble import Side
from glassformer.text.options import Options, shown

Rows = dict[str, list[Any]]
FILLS = {
    "input_ids": 0,
    "token_type_ids": 0,
    "attention_mask": 0,
    "special_tokens_mask": 1,
}  # of the first, pad_token_id


def gathered(encodings: Any) -> tuple[Rows, bool]:
    """A list of encodings, or one that holds many, as lists of rows by name; and whether it was a single row."""
    if isinstance(encodings, Sequence) and all(isinstance(one, Mapping) for one in encodings):
        names = list(encodings[0]) if encodings else []
        for number, one in enumerate(encodings):
            if wrong := set(names) ^ set(one):
                raise ValueError(
                    f"encoding {number} and the first differ in {', '.join(sorted(wrong))}: give all alike"
                )
        rows = {name: [_plain(one[name]) for one in encodings] for name in names}
    elif isinstance(encodings, Mapping):
        rows = {name: _plain(value) for name, value in encodings.items()}
    else:
        raise ValueError(f"{shown(encodings)} cannot be padded: give encodings, or a list of them")
    if encodings and "input_ids" not in rows:
        raise ValueError(f"there are no input_ids to pad, only {', '.join(rows)}: give what tok(texts) gives")
    single = isinstance(encodings, Mapping) and _is_row(rows.get("input_ids")) and bool(rows["input_ids"])
    rows = {name: [value] for name, value in rows.items()} if single else rows
    for row in rows.get("input_ids", []):
        if not _is_row(row):
            raise ValueError(f"a row of input_ids is {shown(row)}: give ids, as tok(text) does without return_tensors")
    return rows, single


def padded(rows: Rows, options: Options, *, pad_id: int, width: int | None, side: Side, mask: bool) -> Rows:
    """Rows of one length: of `width` or the longest, rounded up. With `mask`, they have an attention_mask.

    What is no input of a model, as labels, stays as it is.
    """
    lengths = [len(row) for row in rows["input_ids"]]
    if mask and "attention_mask" not in rows:
        rows = {**rows, "attention_mask": [[1] * length for length in lengths]}
    if options.pads == "do_not_pad":
        return rows
    longest, multiple = max(lengths, default=0), options.pad_to_multiple_of or 1
    if width is not None and longest > width:
        raise ValueError(f"a row has {longest} tokens, over max_length={width}: encode with truncation=True")
    width = -(-(width or longest) // multiple) * multiple
    fills = FILLS | {"input_ids": pad_id}

    def filled(row: list[int], fill: int) -> list[int]:
        missing = [fill] * (width - len(row))
        return [*missing, *row] if side == "left" else [*row, *missing]

    return {name: [filled(row, fills[name]) for row in many] if name in fills else many for name, many in rows.items()}


def finished(inputs: Mapping[str, Any], tensors: str | None, *, flat: bool = False) -> dict[str, Any]:
    """Inputs as tensors, arrays or lists; `flat`: of one row, without the batch. Refused: tensors of ragged rows."""
    rows = {name: value[0] for name, value in inputs.items()} if flat else inputs
    if tensors is None:
        return {name: _plain(value) for name, value in rows.items()}
    found = {name: _array(name, value) for name, value in rows.items()}
    if tensors == "np":
        return found
    import torch  # only those who want tensors need it

    return {name: torch.from_numpy(value) for name, value in found.items()}


def _array(name: str, rows: Any) -> NDArray[Any]:
    try:
        array = np.asarray(rows)
    except ValueError:
        hint = "pass padding=True" if name in FILLS else "tok.pad fills up what a model reads; pad these yourself"
        raise ValueError(f"the rows of {name!r} are of several lengths, and cannot be one tensor: {hint}") from None
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name!r} holds what is no number, and cannot be a tensor: leave it out, or return_tensors")
    floats = array.dtype.kind == "f" and array.size > 0  # what is empty is floats to numpy
    return array.astype(np.float32 if floats else np.int64, copy=False)


def _is_row(value: Any) -> bool:
    """Whether it is a row of ids, by the first of them."""
    return isinstance(value, list | tuple) and all(isinstance(one, int | np.integer) for one in value[:1])


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value
