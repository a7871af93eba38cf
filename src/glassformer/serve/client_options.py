"""What clients may ask for beside a task's own options: how a text that is too long is cut, and answers of whole words.

N texts.
"""

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Any, Literal, TypeVar

from glassformer.files import conform
from glassformer.tasks.encoded import quiet
from glassformer.tasks.question_answering import QuestionAnswering
from glassformer.tasks.sentence_similarity import SentenceSimilarity
from glassformer.tasks.task import AnyTask
from glassformer.tasks.text_classification import TextClassification
from glassformer.tasks.translation import Translation
from glassformer.tasks.windows import tokenised
from glassformer.text.tokenizer import Tokenizer

Strategy = Literal["do_not_truncate", "longest_first", "only_first", "only_second"]
CUTS: Mapping[str, Any] = {"truncate": bool, "truncation_side": Literal["left", "right"]}
LEAST_WINDOW = 32  # tokens: many small windows over one text are much work for a small request
T = TypeVar("T", bound=AnyTask)


def client_options(task: AnyTask) -> Mapping[str, Any]:
    """The names that clients know and the task does not, and what each may be."""
    match task:
        case QuestionAnswering():
            return {"align_to_words": bool}
        case Translation():
            return {"truncation": Strategy}
        case TextClassification() | SentenceSimilarity():
            return CUTS
    return {}


def split_options(task: AnyTask, given: Mapping[str, object]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of the task itself, and those of `client_options`; values that these cannot have are refused."""
    known = client_options(task)
    extra = {name: value for name, value in given.items() if name in known}
    for name, value in extra.items():
        conform(value, known[name], name)
    return {name: value for name, value in given.items() if name not in known}, extra


def prepared(task: T, inputs: Sequence[Any], options: Mapping[str, Any], extra: Mapping[str, Any]) -> T:
    """The task as the extra options want it; a text that is too long and may not be cut is refused."""
    if extra.get("truncation") == "only_second":
        raise ValueError("truncation is only_second, and there is no second text here: send longest_first")
    if extra.get("truncation") == "do_not_truncate":
        check_whole(task, inputs, fix='shorten it, or send "truncation": "longest_first"')
    if extra.get("truncate") is False:
        check_whole(task, inputs, fix='shorten it, or send "truncate": true')
    if isinstance(task, TextClassification) and options.get("truncation") is False:
        check_whole(task, inputs, fix='shorten it, or send "truncation": true', longest=options.get("max_length"))
    _check_windows(task, options)
    return cut_on(task, extra.get("truncation_side"))


def cut_on(task: T, side: Literal["left", "right"] | None) -> T:
    """The task with a tokenizer that cuts texts on this side."""
    if side is None or side == task.tokenizer.truncation_side:
        return task
    changed = copy(task)
    changed.tokenizer = copy(task.tokenizer)
    changed.tokenizer.truncation_side = side
    return changed


def check_whole(task: AnyTask, inputs: Sequence[object], *, fix: str, longest: int | None = None) -> None:
    """Refuse a text, or a pair that is read together, that the task would cut."""
    limits = [one for one in (task.max_length, longest) if one is not None]
    alone, pairs = list[str](), list[tuple[str, str]]()
    for one in inputs:
        match one:
            case str():
                alone.append(one)
            case {"source_sentence": str(text), "sentences": [*others]}:
                alone += [text, *others]
            case {"text": str(text), "text_pair": str(pair)} | (str(text), str(pair)):
                pairs.append((text, pair))
            case {"text": str(text)}:
                alone.append(text)
    check_length(lengths_of(task.tokenizer, alone, pairs), min(limits, default=None), fix=fix)


def lengths_of(tokenizer: Tokenizer, texts: Sequence[str], pairs: Sequence[tuple[str, str]] = ()) -> list[int]:
    """The tokens of whole texts, and of pairs, with their special tokens."""
    with quiet():
        found = tokenizer(list(texts), truncation=False)["input_ids"] if texts else []
        if pairs:
            firsts, seconds = zip(*pairs, strict=True)
            found += tokenizer(list(firsts), list(seconds), truncation=False)["input_ids"]
    return list(map(len, found))


def check_length(lengths: Iterable[int], limit: int | None, *, fix: str = "shorten it") -> None:
    """Refuse a text that is too long to be read whole."""
    longest = max(lengths, default=0)
    if limit is not None and longest > limit:
        raise ValueError(f"a text has {longest:,} tokens and the model reads {limit:,}: {fix}")


def _check_windows(task: AnyTask, options: Mapping[str, Any]) -> None:
    """Refuse windows that a text is cut into by the thousand: tiny ones, and those that move on by a token."""
    window, least = options.get("max_seq_len"), min(LEAST_WINDOW, task.max_length or LEAST_WINDOW)
    if window is not None and window < least:
        raise ValueError(f"max_seq_len is {window}, and a window here has {least} tokens or more")
    length = min(one for one in (window, task.max_length, 1 << 30) if one is not None)
    for name in ("doc_stride", "stride"):
        if (shared := options.get(name)) is not None and shared > length // 2:
            raise ValueError(f"{name} is {shared}, and windows of {length} tokens share {length // 2} at most here")


def whole_words(tokenizer: Tokenizer, asked: Mapping[str, str], found: Any) -> Any:
    """Answers to a question that begin and end where words do, as `align_to_words` of Hugging Face has it."""
    (pieces,) = tokenised(tokenizer, [asked["context"]])
    if isinstance(found, list):
        return [_widened(one, asked["context"], pieces.offsets, pieces.words) for one in found]
    return _widened(found, asked["context"], pieces.offsets, pieces.words)


def _widened(
    answer: dict[str, Any], context: str, offsets: Sequence[tuple[int, int]], words: Sequence[int | None]
) -> dict[str, Any]:
    inside = {
        word
        for (start, end), word in zip(offsets, words, strict=True)
        if start < answer["end"] and answer["start"] < end
    }
    spans = [span for span, word in zip(offsets, words, strict=True) if word in inside and word is not None]
    if not spans or answer["start"] == answer["end"]:
        return answer
    start, end = min(answer["start"], *(one[0] for one in spans)), max(answer["end"], *(one[1] for one in spans))
    return {**answer, "start": start, "end": end, "answer": context[start:end]}
