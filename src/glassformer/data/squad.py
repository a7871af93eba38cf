"""Questions about contexts, whose answers are spans of them: SQuAD's json, version 1 or 2, or rows of the same.

An answer that is not where it is said to be is put right if its text occurs in the context exactly once, and left
out otherwise; a question of which no answer is left is skipped. A question with an empty list of answers has none,
as version 2 has it.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from glassformer.data.examples import Answer, Asked
from glassformer.data.report import Place, Read, Report
from glassformer.data.roles import Columns, are_numbers, asked, check_roles, find, missing, names_given
from glassformer.data.rows import EXTENSIONS, Reading, Table, json_format, open_table, parse_json
from glassformer.data.source import Source, Sources, peeked, resolve

ROLES = ("question", "context", "answers")


class Question(NamedTuple):
    """A question as it is written; `answers` is None where the file does not speak of any."""

    place: Place
    fields: Mapping[str, Any]
    context: Any
    answers: Any


def read_asked(sources: Sources, columns: Columns | None = None, *, require_target: bool = True) -> Read[Asked]:
    """Questions with their contexts and answers; without `require_target`, questions of any kind are kept.

    `columns` are those of tables; SQuAD's json calls things by names of its own.
    """
    named = check_roles(columns, ROLES)
    report = Report()
    examples: list[Asked] = []
    for source in resolve(sources):
        report.rows.setdefault(source.name, 0)
        found = [checked(question, report, required=require_target) for question in questions(source, named, report)]
        asked = [example for example in found if example is not None]
        answered = sum(bool(example.answers) for example in asked)
        report.take(source.name, f"{answered} questions have an answer, {len(asked) - answered} have none")
        examples += asked
    return report.finished(examples)


def questions(source: Source, named: Mapping[str, str], report: Report) -> Iterator[Question]:
    """Every question of a source."""
    extension = EXTENSIONS.get(source.extension)
    if source.hub or extension in ("parquet", "csv", "tsv"):
        known = frozenset(ROLES) | names_given(named)
        reading = Reading(known=known, by_position=are_numbers(named))
        return row_questions(open_table(source, report, reading), named)
    sample, lines = peeked(source.lines(report))
    found = json_format([text for _, text in sample], extension or "json")
    if found == "json":
        text = list(lines)
        value = parse_json(source, "".join(part for _, part in text))
        if isinstance(value, dict) and is_squad(value.get("data")):
            return squad_questions(source, value["data"], report)
        lines = iter(text)
    return row_questions(open_table(source, report, Reading(file_format=found), lines), named)


def is_squad(articles: Any) -> bool:
    """Whether a value is SQuAD's list of articles."""
    return isinstance(articles, list) and all(
        isinstance(one, dict) and isinstance(one.get("paragraphs"), list) for one in articles
    )


def squad_questions(source: Source, articles: list[Any], report: Report) -> Iterator[Question]:
    """The questions of SQuAD's nested form."""
    paragraphs = (as_object(paragraph) for article in articles for paragraph in article["paragraphs"])
    pairs = ((paragraph.get("context"), as_object(one)) for paragraph in paragraphs for one in listed(paragraph, "qas"))
    for number, (context, one) in enumerate(pairs, 1):
        report.count(source.name)
        answers = [] if one.get("is_impossible") else one.get("answers")
        yield Question(Place(source.name, number, "question"), one, context, answers)


def as_object(value: Any) -> Mapping[str, Any]:
    """A JSON object; what is none has nothing in it."""
    return value if isinstance(value, dict) else {}


def listed(value: Mapping[str, Any], name: str) -> list[Any]:
    found = value.get(name)
    return found if isinstance(found, list) else []


def row_questions(table: Table, named: Mapping[str, str]) -> Iterator[Question]:
    """The questions of rows, whose answers are lists of texts and of starts, or one text."""
    columns = {role: asked(table, named, role) or find(table, [role]) for role in ROLES}
    for role in ("question", "context"):
        if columns[role] is None:
            raise missing(table, role)
    for place, row in table.rows:
        cells = {role: row.get(column) for role, column in columns.items() if column is not None}
        given = cells.get("answers")
        if isinstance(given, dict):
            pairs = zip(listed(given, "text"), listed(given, "answer_start"), strict=False)
            given = [{"text": text, "answer_start": start} for text, start in pairs]
        elif isinstance(given, str):
            given = [{"text": given.strip()}] if given.strip() else []
        yield Question(place, {**row, **cells}, cells["context"], [] if row.get("is_impossible") else given)


def checked(question: Question, report: Report, *, required: bool) -> Asked | None:
    """A question with the answers that hold; None, and counted, where it cannot be used."""
    place, fields, context = question.place, question.fields, question.context
    text = fields.get("question")
    if not isinstance(text, str) or not text.strip() or not isinstance(context, str) or not context.strip():
        report.skip("no question, or no context", place)
        return None
    if not isinstance(question.answers, list) and required:
        report.skip("a question with neither answers nor an empty list of them", place)
        return None
    given = question.answers if isinstance(question.answers, list) else []
    answers = [holding(answer, context, place, report) for answer in given]
    found = tuple(answer for answer in answers if answer is not None)
    if answers and not found and required:
        report.skip("no answer is in the context", place)
        return None
    if len(found) < len(answers):
        report.note("an answer that is not in the context: left out", place)
    return Asked(str(fields.get("id") or f"{place.file}:{place.number}"), text, context, found)


def holding(answer: Any, context: str, place: Place, report: Report) -> Answer | None:
    """An answer that is in the context where it says, or that can only be meant elsewhere in it."""
    text, start = (answer.get("text"), answer.get("answer_start")) if isinstance(answer, dict) else (None, None)
    if not isinstance(text, str) or not text:
        return None
    if isinstance(start, int) and start >= 0 and context.startswith(text, start):
        return Answer(text, start)
    first = context.find(text)
    if first < 0 or context.find(text, first + 1) >= 0:
        return None
    if start is not None:
        report.note("an answer that begins elsewhere in its context: put right", place)
    return Answer(text, first)
