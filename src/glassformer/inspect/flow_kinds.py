"""What a node of the flow is, in one word, by the class of its module or by its formula: how it is drawn."""

from torch import nn

from glassformer.blocks.alignment import Alignment
from glassformer.blocks.attention import MultiHeadAttention
from glassformer.blocks.convolution import Convolution, WindowFilters
from glassformer.blocks.convolved import TextConvolution
from glassformer.blocks.embeddings import Embeddings, TokenEmbeddings
from glassformer.blocks.point import StepPoint
from glassformer.blocks.recurrent import GruGates, LstmGates, Recurrent, RnnGates
from glassformer.blocks.transformer import FeedForward, GatedFeedForward, Layer

from .formulas import RESIDUAL, Formula

KINDS: dict[type[nn.Module], str] = {
    Layer: "layer",
    MultiHeadAttention: "attention",
    Alignment: "attention",
    FeedForward: "feed_forward",
    GatedFeedForward: "feed_forward",
    Recurrent: "stack",
    RnnGates: "recurrent",
    GruGates: "recurrent",
    LstmGates: "recurrent",
    StepPoint: "gate",
    Convolution: "convolution",
    WindowFilters: "convolution",
    TextConvolution: "convolution",
    Embeddings: "embedding",
    TokenEmbeddings: "embedding",
    nn.Embedding: "embedding",
    nn.LayerNorm: "norm",
    nn.RMSNorm: "norm",
    nn.Linear: "linear",
}
SIDES = ("encoder", "decoder")


def kind_of(name: str, part: nn.Module | None, formula: Formula | None, *, is_output: bool = False) -> str:
    """A module by its class or the nearest known parent of it, a value by its formula."""
    if name == "head":
        return "head"
    if name in SIDES:
        return "side"
    if is_output:
        return "output"
    if formula is not None and name.endswith((".scores", ".pattern")):
        return "weights"
    if part is not None and (formula is None or not isinstance(part, nn.Identity)):
        found = next((KINDS[one] for one in type(part).__mro__ if one in KINDS), None)
        if found is not None:
            return found
    if formula is RESIDUAL:
        return "residual"
    return "block" if formula is None else "operation"
