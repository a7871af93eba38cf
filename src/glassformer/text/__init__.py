"""Tokenizers: the fast one over the Rust library, and the readable WordPiece and BPE that prove it."""

from glassformer.text.encoding import Encoding
from glassformer.text.tokenizer import Tokenizer

__all__ = ["Encoding", "Tokenizer"]
