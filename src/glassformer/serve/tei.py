"""The face of text-embeddings-inference: /embed, /predict, /similarity, /tokenize and their kin.

That server has one model; here each is of the first model that is for it, unless the request names another.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from pydantic import Field

from .fields import Count, Direction, Flag, Ids, Reply, Strict, Text, check_inputs, check_prompt_name, side_of
from .huggingface import SimilarityInputs, json_response, shortened
from .messages import Call
from .openai import rows_of
from .service import EMBEDDING, Service
from .streaming import unless_gone

CLASSES, SIMILARITY = "text-classification", "sentence-similarity"
Pair = Annotated[list[Text], Field(min_length=1, max_length=2)]  # a text, or two that are read together


class TeiRequest(Strict):
    model: Text | None = Field(None, description="a model of /v1/models; by default the first that is for this")


class Cut(Strict):
    """What becomes of a text that is too long."""

    truncate: Flag | None = Field(None, description="cut it; else it is refused")
    truncation_direction: Direction | None = Field(None, description="where it is cut; by default at its end")

    @property
    def cutting(self) -> dict[str, Any]:
        """Options of a worker."""
        return {"truncate": bool(self.truncate), **side_of(self.truncation_direction)}


class PromptedCut(Cut):
    prompt_name: Text | None = Field(None, description="refused, but for null")

    @property
    def cutting(self) -> dict[str, Any]:
        check_prompt_name(self.prompt_name)
        return super().cutting


class EmbedRequest(TeiRequest, PromptedCut):
    inputs: Text | list[Text] | Ids | list[Ids]
    normalize: Flag = True
    dimensions: Count | None = None


class EmbedAllRequest(TeiRequest, PromptedCut):
    inputs: Text | list[Text]


class PredictRequest(TeiRequest, Cut):
    inputs: Text | Pair | list[Pair]
    raw_scores: Flag = False


class SimilarityRequest(TeiRequest):
    inputs: SimilarityInputs
    parameters: PromptedCut | None = None


class TokenizeRequest(TeiRequest):
    inputs: Text | list[Text]
    add_special_tokens: Flag = True
    prompt_name: Text | None = Field(None, description="refused, but for null")


class DecodeRequest(TeiRequest):
    ids: Ids | list[Ids]
    skip_special_tokens: Flag = True


class TeiPrediction(Reply):
    label: str
    score: float


class TokenReply(Reply):
    id: int
    text: str
    special: bool
    start: int
    stop: int


def _gives(model: object) -> dict[int | str, dict[str, Any]]:
    return {200: {"model": model}}


def router(service: Service) -> APIRouter:
    routes = APIRouter(tags=["text-embeddings-inference"], default_response_class=Response)

    async def ask(request: Request, task: str, model: str | None, call: Call) -> list[Any]:
        check_inputs(service.limits, call.inputs, param="inputs")
        found, _ = await unless_gone(request, service.model_for(task, model).run(call))
        return found

    @routes.post("/embed", responses=_gives(list[list[float]]))
    async def embed(body: EmbedRequest, request: Request) -> Response:
        """A vector for each text."""
        inputs, ids = rows_of(body.inputs)
        options = {"ids": ids, "normalize": body.normalize, **body.cutting}
        found = await ask(request, EMBEDDING, body.model, Call("embed", EMBEDDING, inputs, options))
        return json_response([shortened(one, body.dimensions, normalize=body.normalize) for one in found])

    @routes.post("/embed_all", responses=_gives(list[list[list[float]]]))
    async def embed_all(body: EmbedAllRequest, request: Request) -> Response:
        """A vector for each token of each text, not pooled."""
        inputs, _ = rows_of(body.inputs)
        call = Call("embed", EMBEDDING, inputs, {"pooled": False, **body.cutting})
        return json_response(await ask(request, EMBEDDING, body.model, call))

    @routes.post("/predict", responses=_gives(list[TeiPrediction] | list[list[TeiPrediction]]))
    async def predict(body: PredictRequest, request: Request) -> Response:
        """The classes of a text, of a pair of texts, or of each of several such lists."""
        several = isinstance(body.inputs, list) and not (body.inputs and isinstance(body.inputs[0], str))
        given: list[Any] = list(body.inputs) if several else [body.inputs]
        inputs = [one if isinstance(one, str) else _joined(one) for one in given]
        options: dict[str, Any] = {"top_k": None, **body.cutting}
        if body.raw_scores:
            options["function_to_apply"] = "none"
        found = await ask(request, CLASSES, body.model, Call("predict", CLASSES, inputs, options))
        return json_response(found if several else found[0])

    @routes.post("/similarity", responses=_gives(list[float]))
    async def similarity(body: SimilarityRequest, request: Request) -> Response:
        """How near each of some sentences is to one."""
        check_inputs(service.limits, body.inputs.sentences, param="sentences")
        cutting = {} if body.parameters is None else body.parameters.cutting
        call = Call("predict", SIMILARITY, [body.inputs.model_dump()], cutting)
        return json_response((await ask(request, SIMILARITY, body.model, call))[0])

    @routes.post("/tokenize", responses=_gives(list[list[TokenReply]]))
    async def tokenize(body: TokenizeRequest, request: Request) -> Response:
        """The tokens of each text, by the first model or the one that is named."""
        check_prompt_name(body.prompt_name)
        inputs, _ = rows_of(body.inputs)
        call = Call("tokenize", "", inputs, {"add_special_tokens": body.add_special_tokens})
        return json_response(await _of_any(service, request, body.model, call))

    @routes.post("/decode", responses=_gives(list[str]))
    async def decode(body: DecodeRequest, request: Request) -> Response:
        """The text of each row of ids."""
        inputs, _ = rows_of(body.ids)
        call = Call("decode", "", inputs, {"skip_special_tokens": body.skip_special_tokens})
        return json_response(await _of_any(service, request, body.model, call))

    return routes


def _joined(texts: list[str]) -> Any:
    return texts[0] if len(texts) == 1 else {"text": texts[0], "text_pair": texts[1]}


async def _of_any(service: Service, request: Request, name: str | None, call: Call) -> list[Any]:
    """The answer of any model, for every one has a tokenizer."""
    check_inputs(service.limits, call.inputs, param="inputs")
    model = next(iter(service.models.values())) if name is None else service.model(name)
    if not model.ready:
        raise model.unready()
    found, _ = await unless_gone(request, model.run(call))
    return found
