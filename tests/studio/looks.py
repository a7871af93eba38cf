"""What the tests of attention screens share: the boards that Python gives for the same text, and pixels of a canvas."""

from base64 import b64decode
from functools import cache
from typing import Any

import numpy as np

import glassformer as gf
from glassformer.view.board import Board
from studio.cases import TEXT

ATTENTIONS = {  # the boards of attention that each family has
    "bert": ["attention"],
    "gpt2": ["attention"],
    "transformer": ["encoder", "decoder", "cross"],
    "seq2seq": ["alignment"],
}
EVERY = [(model, board) for model, boards in ATTENTIONS.items() for board in boards]
PAIR = "Tom read the book ."


@cache
def inspected(folder: Any, pair: str | None = None) -> dict[str, Board]:
    """The boards of a text, by name, recorded afresh."""
    found = gf.inspect(gf.load(folder), gf.load_tokenizer(folder), TEXT, pair)
    return {board.name: board for board in found.boards}


def pixels(page: Any, selector: str) -> np.ndarray:
    """(height, width, 3) of a canvas."""
    high, wide, packed = page.evaluate(
        """(selector) => {
          const canvas = document.querySelector(selector), { width, height } = canvas, parts = [];
          const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
          for (let n = 0; n < data.length; n += 8192) parts.push(String.fromCharCode(...data.subarray(n, n + 8192)));
          return [height, width, btoa(parts.join(""))];
        }""",
        selector,
    )
    return np.frombuffer(b64decode(packed), np.uint8).reshape(high, wide, 4)[..., :3]
