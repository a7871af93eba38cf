"""The guided tour of a flow: where it stops, and which of the page's texts is true of this model there.

What is said depends on what the graph holds and on its edges, never on the name of an architecture.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn

from glassformer.models.contract import as_model, label_names

from .flow import FlowGraph
from .record import modules_of

VECTORS = (None, "feature-extraction")  # heads that say nothing: a model of vectors
HEADS = {  # what a head's scores are of
    "text-classification": "headText",
    "next-sentence-prediction": "headText",
    "token-classification": "headTags",
    "question-answering": "headSpan",
    "replaced-token-detection": "headReplaced",
    "pretraining": "headPretraining",
}
ANSWERS = {
    "fill-mask": "filled",
    "pretraining": "filled",
    "question-answering": "span",
    "replaced-token-detection": "replaced",
    "text-generation": "next",
    "text2text-generation": "next",
}


@dataclass(frozen=True)
class TourStop:
    """A box to stop at with the modules that are opened for it; `say` is a key of the page's texts."""

    say: str
    at: str
    open: tuple[str, ...]
    values: tuple[int, ...] = ()  # that the text has places for


def tour(graph: FlowGraph, model: nn.Module, *, reads_text: bool = True) -> list[TourStop]:
    """About ten stops. `reads_text` is whether a tokenizer makes the ids; a box that is not there is passed over."""
    return list(_Tour(graph, model).stops(reads_text))


class _Tour:
    def __init__(self, graph: FlowGraph, model: nn.Module) -> None:
        self.graph, self.model, self.parts = graph, as_model(model), modules_of(model)
        self.edges = {(edge.start, edge.end) for edge in graph.edges}
        self.always = [node.name for node in graph.nodes.values() if node.kind in ("side", "stack")]

    def stops(self, reads_text: bool) -> Iterator[TourStop]:
        side = "encoder." if "encoder.input_ids" in self.graph.nodes else ""
        for say, at, *values in self._said(side, reads_text):
            if at in self.graph.nodes:
                around = [name for name in self.graph.groups if at.startswith(f"{name}.")]
                open_ = dict.fromkeys([*self.always, *sorted(around, key=len)])
                yield TourStop(say, at, tuple(open_), tuple(values))

    def _said(self, side: str, reads_text: bool) -> Iterator[tuple[str, str, *tuple[int, ...]]]:
        if reads_text:
            yield "text", f"{side}text"
        yield "tokens" if reads_text else "ids", f"{side}input_ids"
        if not self._crowded(side):
            yield "embed", f"{side}embeddings"
        yield from self._places(side)
        if side and f"{side}recurrent" in self.graph.nodes:
            yield from self._recurrent_sides()
        elif side:
            yield from self._transformer_sides()
        elif "recurrent" in self.graph.nodes:
            yield from self._cell("")
            yield "ways", "recurrent.layers.0.right_to_left"
            both = "recurrent.layers.0.right_to_left" in self.graph.nodes
            yield "statesWays" if both else "states", "recurrent.outputs"
        elif "layers.0" in self.graph.nodes:
            yield from self._layer("layers.0")
        yield from self._features()
        yield "pooled", "summary"
        yield from self._end()

    # --- the parts of a model -----------------------------------------------------------------------------------

    def _crowded(self, side: str) -> bool:
        """Whether so much is to be seen inside a layer that tables of tokens and of places are one stop."""
        attention = f"{side}layers.0.attention"
        more = [f"{attention}.query_turned", f"{attention}.position_scores"]
        placed = f"{side}embeddings.position" in self.graph.nodes
        return placed and (self._hides_later(attention) or any(name in self.graph.nodes for name in more))

    def _places(self, side: str) -> Iterator[tuple[str, str]]:
        if f"{side}embeddings.position" in self.graph.nodes:
            segment = f"{side}embeddings.segment" in self.graph.nodes
            yield "positionSegment" if segment else "position", f"{side}embeddings.sum"

    def _layer(self, layer: str) -> Iterator[tuple[str, str, *tuple[int, ...]]]:
        attention = f"{layer}.attention"
        yield self._layers(layer)
        yield "queries", f"{attention}.query"
        yield from self._scores(attention)
        if self._hides_later(attention):
            yield "later", f"{attention}.mask"
        yield "pattern", f"{attention}.pattern"
        yield "context", f"{attention}.context"
        yield from self._rest(layer, "attention")

    def _layers(self, first: str) -> tuple[str, str, *tuple[int, ...]]:
        """How many layers there are, and how many sets of weights."""
        stem = first.removesuffix("0")
        names = [name for name in self.graph.nodes if name.removeprefix(stem).isdecimal()]
        sets = len({id(next(self.parts[name].parameters())) for name in names})
        if len(names) == 1:
            return "layerOne", first
        if sets == len(names):
            return "layer", first, sets
        return ("layerShared", first, len(names)) if sets == 1 else ("layerGroups", first, len(names), sets)

    def _scores(self, attention: str) -> Iterator[tuple[str, str]]:
        yield "rotary", f"{attention}.query_turned"
        placed = f"{attention}.position_scores" in self.graph.nodes
        added = f"{attention.partition('layers.')[0]}embeddings.position" in self.graph.nodes
        yield "distanceToo" if added else "distance", f"{attention}.position_scores"
        by_root = "√" in self.graph.nodes[f"{attention}.scores"].formula
        yield "scoresSum" if placed else "scores" if by_root else "scoresPlain", f"{attention}.scores"

    def _rest(self, layer: str, block: str) -> Iterator[tuple[str, str]]:
        found, after = f"{layer}.{block}_residual", f"{layer}.feed_forward_residual"
        yield "stream" if (found, after) in self.edges else "residualNorm", found
        gated = f"{layer}.feed_forward.gate" in self.graph.nodes
        yield "feedForwardGated" if gated else "feedForward", f"{layer}.feed_forward"

    def _hides_later(self, attention: str) -> bool:
        """Whether a mask keeps every token from those behind it."""
        mask = self.graph.values.get(f"{attention}.mask")
        return mask is not None and mask.shape[-1] > 1 and not bool(mask.bool().triu(1).any())

    def _cell(self, side: str) -> Iterator[tuple[str, str]]:
        layer = f"{side}recurrent.layers.0.left_to_right"
        remembers, gated = f"{layer}.cell" in self.graph.nodes, f"{layer}.candidate" in self.graph.nodes
        yield "cellTwo" if remembers else "cell", layer
        yield "forget", f"{layer}.forget"
        yield "reset", f"{layer}.reset"
        yield "candidate", f"{layer}.candidate"
        yield "update", f"{layer}.update"
        yield "memoryCell", f"{layer}.cell"
        yield "hidden" if gated else "hiddenPlain", f"{layer}.hidden"

    def _features(self) -> Iterator[tuple[str, str]]:
        yield "window", "convolution.filters.0.windows"
        yield "filters", "convolution.filters.0.linear"
        yield "bent", "convolution.filters.0.result"
        yield "filtersAll" if "convolution" in self.graph.nodes else "words", "features"

    # --- two sides ----------------------------------------------------------------------------------------------

    def _recurrent_sides(self) -> Iterator[tuple[str, str, *tuple[int, ...]]]:
        writer, looks = "decoder.recurrent.layers.0.left_to_right", "decoder.attention" in self.graph.nodes
        reader = list(self._cell("encoder."))
        yield from reader[:1] if looks else reader
        yield "ways", "encoder.recurrent.layers.0.right_to_left"
        if looks:
            yield "memory", "encoder.recurrent.outputs"
        yield ("bridge", "bridge") if "bridge" in self.graph.nodes else ("firstState", writer)
        yield self._fed()
        if not looks:
            yield "bottleneck", "decoder.recurrent.outputs"
        yield "align", "decoder.attention.scores"
        yield "alignment", "decoder.attention.pattern"
        yield "found", "decoder.attention.context"
        yield "combine", "decoder.combine"

    def _transformer_sides(self) -> Iterator[tuple[str, str, *tuple[int, ...]]]:
        layer = "decoder.layers.0"
        yield "reads", "encoder.layers.0"
        yield from list(self._scores("encoder.layers.0.attention"))[:-1]  # where the places are
        yield "memory", "encoder_last_hidden_state"
        yield self._fed()
        if self._hides_later(f"{layer}.attention"):
            yield "later", f"{layer}.attention.mask"
        yield "across", f"{layer}.cross_attention"
        yield "alignment", f"{layer}.cross_attention.pattern"
        yield from self._rest(layer, "cross_attention")

    def _fed(self) -> tuple[str, str]:
        head = self.model.head_name
        writes = head == "text2text-generation"
        return "fed" if writes else "fedTarget" if head in VECTORS else "fedAgain", "decoder.input_ids"

    # --- what is said at last -----------------------------------------------------------------------------------

    def _end(self) -> Iterator[tuple[str, str]]:
        head = self.model.head_name
        if head in VECTORS:
            yield "vectors", "last_hidden_state"
            return
        alone = "classification" in str(head) and len(label_names(self.model.config)) == 1
        adds = self.graph.nodes["head"].weights == ("head.bias",)
        yield "headBias" if adds else "headNumber" if alone else HEADS.get(str(head), "headWords"), "head"
        outputs = [node.name for node in self.graph.nodes.values() if node.kind in ("output", "answer")]
        last = next(name for name in ("answer", "logits", *outputs) if name in self.graph.nodes)
        yield "number" if alone else self._answer(str(head)), last

    def _answer(self, head: str) -> str:
        if "classification" not in head:
            return ANSWERS.get(head, "answer")
        if self.model.config.problem_type == "multi_label_classification":
            return "each"
        return "tags" if head == "token-classification" else "answer"
