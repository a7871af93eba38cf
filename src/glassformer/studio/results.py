"""What a model's task says of a text: the results of gf.pipeline, line by line as they come."""

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import nullcontext
from itertools import chain
from typing import Any

import torch
from fastapi import APIRouter
from pydantic import BaseModel
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send
from torch.nn.functional import cosine_similarity

from glassformer.files import conform
from glassformer.files.schema import hints_of
from glassformer.generate.settings import GenerationSettings
from glassformer.jobs.predict import LANGUAGES, Pipeline
from glassformer.jobs.reading import EMPTY
from glassformer.models.contract import as_model
from glassformer.tasks.fill_mask import FillMask
from glassformer.tasks.question_answering import QuestionAnswering
from glassformer.tasks.replaced_tokens import ReplacedTokens
from glassformer.tasks.sentence_similarity import FeatureExtraction, SentenceSimilarity
from glassformer.tasks.teaching import ASKED, Teaching
from glassformer.tasks.text_classification import TextClassification
from glassformer.tasks.text_generation import TextGeneration
from glassformer.tasks.token_classification import TokenClassification
from glassformer.tasks.translation import Translation
from glassformer.web.safe import dump, one_line

from .app_state import Busy, Loaded, Studio
from .limits import Deadline, check_length
from .writing import Line, request, written, written_ids

ANSWERS, FILLS = 5, 8  # how many are given where nobody says it
OPTIONS: dict[type, tuple[str, ...]] = {  # what may be asked of each task
    TextClassification: (),
    TokenClassification: ("aggregation_strategy",),
    ReplacedTokens: (),
    QuestionAnswering: ("top_k", "max_answer_length", "handle_impossible_answer"),
    FillMask: ("top_k",),
    FeatureExtraction: (),
    SentenceSimilarity: (),
}
WRITES = {"strategy": str} | {
    name: hints_of(GenerationSettings)[name]
    for name in ("max_new_tokens", "num_beams", "seed", "temperature", "top_k", "top_p")
}


class PredictionRequest(BaseModel):
    """What is asked: of a question-answering model `inputs` is the question, and `pair` the context.

    A model without a tokenizer is asked in ids, if it is one that writes.
    """

    model: str
    inputs: str | list[int]
    pair: str | None = None
    options: dict[str, Any] = {}


class JSONLinesResponse(StreamingResponse):
    """Lines of JSON, sent as they are made; when the reader goes away, no more are made."""

    def __init__(self, lines: Iterator[Line], source: Generator[Line, None, None]) -> None:
        super().__init__((f"{dump(line)}\n" for line in lines), media_type="application/x-ndjson")
        self.source = source

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.source.close()


def router(studio: Studio) -> APIRouter:
    routes = APIRouter()

    @routes.post("/results")
    def results(question: PredictionRequest) -> JSONLinesResponse:
        """A line {"kind": "begin"}, the results, and {"kind": "end"}: a stream that has no such end was dropped."""
        loaded = studio.models[question.model]
        made, words = in_ids(loaded, question) if isinstance(question.inputs, list) else in_words(loaded, question)
        lines = in_turn(studio, loaded, made, writes=isinstance(question.inputs, list) or writes(loaded.pipeline))
        begin = {"kind": "begin", "task": loaded.task, "python": words}
        first = next(lines)  # what is wrong with the question is said before the answer begins
        return JSONLinesResponse(chain([begin, first], _to_the_end(lines)), lines)

    return routes


def in_turn(studio: Studio, loaded: Loaded, lines: Iterator[Line], *, writes: bool) -> Generator[Line, None, None]:
    """Every line is made in a turn of its own, so that a long text keeps nobody waiting; all have one deadline.

    A model that `writes` has a line for every step, and a hook on it would be in the way of what makes it fast.
    """
    deadline: Deadline | None = None
    while True:
        with studio.work() as own, loaded.lock:
            deadline = deadline or own
            deadline.check()
            with nullcontext() if writes else deadline.watching(loaded.model):
                line = next(lines, None)
        if line is None:
            return
        yield line


def writes(pipe: Pipeline) -> bool:
    """Whether a task writes token by token; a lesson does as the task that it is learnt as."""
    task = pipe.task.form if isinstance(pipe.task, Teaching) else pipe.task
    return isinstance(task, TextGeneration | Translation)


def _to_the_end(lines: Iterator[Line]) -> Iterator[Line]:
    try:
        yield from lines
    except (ValueError, Busy) as error:  # the answer has begun, so it is too late for a status
        yield {"kind": "error", "detail": one_line(error)}
    else:
        yield {"kind": "end"}


def in_words(loaded: Loaded, question: PredictionRequest) -> tuple[Iterator[Line], str]:
    """The lines, and the Python for them; a lesson is the task that it is learnt as, asked with an equals sign."""
    pipe, text = loaded.pipeline, str(question.inputs)
    if not text.strip():
        raise ValueError(EMPTY)
    if isinstance(pipe.task, Teaching):
        pipe = Pipeline(pipe.model, pipe.task.form)
        question = question.model_copy(update={"inputs": text.removesuffix(ASKED) + ASKED})
    names = next((names for cls, names in OPTIONS.items() if isinstance(pipe.task, cls)), None)
    known = WRITES if names is None else {name: pipe.task.predict_options()[name] for name in names}
    if isinstance(pipe.task, Translation) and pipe.task.tokenizer.settings.languages is not None:
        known = known | dict.fromkeys(LANGUAGES, str)
    check(pipe.task.name, known, question.options)
    return result_lines(pipe, question), python(loaded, pipe, question)


def in_ids(loaded: Loaded, question: PredictionRequest) -> tuple[Iterator[Line], str]:
    """The same for a model without a tokenizer."""
    if loaded.tokenizer is not None:
        raise ValueError(f"{loaded.name} has a tokenizer: give a text instead of ids")
    check("text-generation", WRITES, question.options)
    ids = list(map(int, question.inputs))
    words = "".join(f", {name}={value!r}" for name, value in request(question.options).items())
    return written_ids(loaded.model, ids, question.options), (
        f"import torch\nimport glassformer as gf\n\nmodel = gf.load({loaded.source!r})\n"
        f"print(gf.generate(model, None, torch.tensor([{ids}]){words}))\n"
    )


def check(task: str, known: Mapping[str, object], options: dict[str, Any]) -> None:
    """Options that the task has, with values that they may have."""
    for name, value in options.items():
        if name not in known:
            raise ValueError(f"{task} has no option {name!r}; it has: {', '.join(known) or 'none'}")
        conform(value, known[name], name)


def result_lines(pipe: Pipeline, question: PredictionRequest) -> Iterator[Line]:
    """All lines of a result."""
    if not writes(pipe):
        if as_model(pipe.model).config.max_positions is None:  # who has some is cut to them, or reads in windows
            check_length(len(pipe.task.tokenizer(str(question.inputs), question.pair)["input_ids"]))
        yield next(result for cls, result in RESULTS.items() if isinstance(pipe.task, cls))(pipe, question)
    elif question.pair is not None:
        raise ValueError(f"{pipe.task.name} reads one text: leave the pair out")
    else:
        yield from written(pipe, str(question.inputs), question.options)


def given(pipe: Pipeline, question: PredictionRequest) -> tuple[Any, dict[str, Any]]:
    """What the pipeline is called with."""
    text, pair = question.inputs, question.pair
    match pipe.task:
        case TextClassification():
            return text if pair is None else {"text": text, "text_pair": pair}, {"top_k": None}
        case QuestionAnswering():
            return {"question": text, "context": _pair(pipe, pair, "a context")}, {"top_k": ANSWERS, **question.options}
        case FeatureExtraction():
            return text if pair is None else [text, pair], {"pooled": True}
        case SentenceSimilarity():
            return (text, _pair(pipe, pair, "a second text")), {}
        case FillMask():
            return text, {"top_k": FILLS, **question.options}
        case ReplacedTokens():
            return text, question.options
        case TokenClassification():
            return text, {"aggregation_strategy": "first", **question.options}
    return text, request(question.options)


def _pair(pipe: Pipeline, pair: str | None, what: str) -> str:
    if pair is None or not pair.strip():
        raise ValueError(f"{pipe.task.name} reads {what} as well: give it as the pair")
    return pair


def _called(pipe: Pipeline, question: PredictionRequest) -> Any:
    inputs, options = given(pipe, question)
    return pipe(inputs, **options)


def _classes(pipe: Pipeline, question: PredictionRequest) -> Line:
    """The classes by probability; `labels` has them in the order of the logits."""
    task = pipe.task
    assert isinstance(task, TextClassification)
    return {"kind": "classes", "problem": task.problem, "labels": task.labels, "classes": _called(pipe, question)}


def _entities(pipe: Pipeline, question: PredictionRequest) -> Line:
    """Entities, and every token by itself with the number of its word."""
    entities, text = _called(pipe, question), str(question.inputs)
    tokens = pipe(text, aggregation_strategy="none", ignore_labels=())
    words = pipe.task.tokenizer(text).word_ids()
    return {
        "kind": "entities",
        "entities": [{"entity_group": one.get("entity"), **one} for one in entities],
        "tokens": [{**one, "number": words[one["index"]]} for one in tokens],
    }


def _replaced(pipe: Pipeline, question: PredictionRequest) -> Line:
    """Tokens that were more likely replaced than not, and all of them with the number of their word."""
    tokens, words = _called(pipe, question), pipe.task.tokenizer(str(question.inputs)).word_ids()
    return {
        "kind": "entities",
        "entities": [{"entity_group": one["entity"], **one} for one in tokens if one["score"] > 0.5],
        "tokens": [{**one, "number": words[one["index"]]} for one in tokens],
    }


def _answers(pipe: Pipeline, question: PredictionRequest) -> Line:
    found = _called(pipe, question)
    return {"kind": "answers", "answers": found if isinstance(found, list) else [found]}


def _fills(pipe: Pipeline, question: PredictionRequest) -> Line:
    found = _called(pipe, question)
    return {"kind": "fills", "masks": found if isinstance(found[0], list) else [found]}


def _vector(pipe: Pipeline, question: PredictionRequest) -> Line:
    """The vector of a text, or how near those of two texts are."""
    found = _called(pipe, question)
    if question.pair is None:
        return {"kind": "vector", "values": found}
    first, second = torch.tensor(found)
    return {"kind": "likeness", "cosine": float(cosine_similarity(first, second, dim=0))}


def _likeness(pipe: Pipeline, question: PredictionRequest) -> Line:
    return {"kind": "likeness", "cosine": _called(pipe, question)}


RESULTS: dict[type, Callable[[Pipeline, PredictionRequest], Line]] = {
    TextClassification: _classes,
    TokenClassification: _entities,
    ReplacedTokens: _replaced,
    QuestionAnswering: _answers,
    FillMask: _fills,
    FeatureExtraction: _vector,
    SentenceSimilarity: _likeness,
}


def python(loaded: Loaded, pipe: Pipeline, question: PredictionRequest) -> str:
    """The lines that give the same result in Python."""
    inputs, options = given(pipe, question)
    if isinstance(loaded.pipeline.task, Teaching):  # which gives its best answer, and that alone
        options = {name: options[name] for name in options if name not in ("top_k", "num_return_sequences")}
    elif isinstance(pipe.task, Translation) and options["num_beams"] > 1:
        options = {**options, "return_dict_in_generate": True}
    words = "".join(f", {name}={value!r}" for name, value in options.items())
    return (
        "import glassformer as gf\n\n"
        f"pipe = gf.pipeline({loaded.task!r}, {loaded.source!r})\n"
        f"print(pipe({inputs!r}{words}))\n"
    )
