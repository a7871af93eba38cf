"""Questions about contexts, whose answers are spans of them: SQuAD's json, version 1 or 2, or rows of the same.

An answer that is not where it is said to be is put right if its text occurs in the context exactly once, and left
out otherwise; a question of which no answer is left is skipped. A question with an empty list of answers has none,
as version 2 has it.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Required, TypedDict

from glassformer.data.examples import SquadAnswer, SquadExample
from glassformer.data.report import Place, Read, ReadReport
from glassformer.data.roles import Columns, are_numbers, check_roles, find, missing, named_column, names_given
from glassformer.data.rows import EXTENSIONS, DataTable, TableOptions, json_format, open_table, parse_json
from glassformer.data.source import DataSource, Sources, peeked, resolve
from glassformer.files import conform


class Paragraph(TypedDict, total=False):
    """A paragraph of SQuAD's json."""

    context: Any
    qas: list[dict[str, Any]]


class Article(TypedDict):
    """An article of SQuAD's json."""

    paragraphs: Required[list[Paragraph]]


ROLES = ("question", "context", "answers")


class SquadQuestion(NamedTuple):
    """A question as it is written; `answers` is None where the file does not speak of any."""

    place: Place
    fields: Mapping[str, Any]
    context: Any
    answers: Any


def read_asked(sources: Sources, columns: Columns | None = None, *, require_target: bool = True) -> Read[SquadExample]:
    """Questions with their contexts and answers; without `require_target`, questions of any kind are kept.

    `columns` are those of tables; SQuAD's json calls things by names of its own.
    """
    named = check_roles(columns, ROLES)
    report = ReadReport()
    examples: list[SquadExample] = []
    for source in resolve(sources):
        report.rows.setdefault(source.name, 0)
        found = [checked(question, report, required=require_target) for question in questions(source, named, report)]
        valid = [example for example in found if example is not None]
        answered = sum(bool(example.answers) for example in valid)
        report.take(source.name, f"{answered} questions have an answer, {len(valid) - answered} have none")
        examples += valid
    return report.finished(examples)


def questions(source: DataSource, named: Mapping[str, str], report: ReadReport) -> Iterator[SquadQuestion]:
    """Every question of a source."""
    extension = EXTENSIONS.get(source.extension)
    if source.hub or extension in ("parquet", "csv", "tsv"):
        known = frozenset(ROLES) | names_given(named)
        reading = TableOptions(known=known, by_position=are_numbers(named))
        return row_questions(open_table(source, report, reading), named)
    sample, lines = peeked(source.lines(report))
    found = json_format([text for _, text in sample], extension or "json")
    if found == "json":
        text = list(lines)
        value = parse_json(source, "".join(part for _, part in text))
        if isinstance(value, dict) and is_squad(value.get("data")):
            return squad_questions(source, value["data"], report)
        lines = iter(text)
    return row_questions(open_table(source, report, TableOptions(file_format=found), lines), named)


def is_squad(articles: object) -> bool:
    """Whether a value is SQuAD's list of articles."""
    return isinstance(articles, list) and all(isinstance(one, dict) and "paragraphs" in one for one in articles)


def squad_questions(source: DataSource, articles: list[Article], report: ReadReport) -> Iterator[SquadQuestion]:
    """The questions of SQuAD's nested form."""
    conform(articles, list[Article], source.name, "data")
    paragraphs = (paragraph for article in articles for paragraph in article["paragraphs"])
    pairs = ((paragraph.get("context"), one) for paragraph in paragraphs for one in paragraph.get("qas") or ())
    for number, (context, one) in enumerate(pairs, 1):
        report.count(source.name)
        answers = [] if one.get("is_impossible") else listed(one.get("answers"))
        yield SquadQuestion(Place(source.name, number, "question"), one, context, answers)


def row_questions(table: DataTable, named: Mapping[str, str]) -> Iterator[SquadQuestion]:
    """The questions of rows, whose answers are lists of texts and of starts, or one text."""
    columns = {role: named_column(table, named, role) or find(table, [role]) for role in ROLES}
    for role in ("question", "context"):
        if columns[role] is None:
            raise missing(table, role)
    for place, row in table.rows:
        cells = {role: row.get(column) for role, column in columns.items() if column is not None}
        answers = [] if row.get("is_impossible") else listed(cells.get("answers"))
        yield SquadQuestion(place, {**row, **cells}, cells["context"], answers)


def listed(answers: object) -> list[Any] | None:
    """Answers one by one: a list of them, a list of texts beside a list of starts, or one text; None: not told."""
    if isinstance(answers, dict):
        texts, starts = answers.get("text"), answers.get("answer_start")
        if not isinstance(texts, list) or not isinstance(starts, list):
            return [answers]
        return [{"text": text, "answer_start": start} for text, start in zip(texts, starts, strict=False)]
    if isinstance(answers, str):
        return [{"text": answers.strip()}] if answers.strip() else []
    return answers if answers is None or isinstance(answers, list) else [answers]


def checked(question: SquadQuestion, report: ReadReport, *, required: bool) -> SquadExample | None:
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
    return SquadExample(str(fields.get("id") or f"{place.file}:{place.number}"), text, context, found)


def holding(answer: object, context: str, place: Place, report: ReadReport) -> SquadAnswer | None:
    """An answer that is in the context where it says, or that can only be meant elsewhere in it."""
    text, start = (answer.get("text"), answer.get("answer_start")) if isinstance(answer, dict) else (None, None)
    if not isinstance(text, str) or not text:
        return None
    if isinstance(start, int) and start >= 0 and context.startswith(text, start):
        return SquadAnswer(text, start)
    first = context.find(text)
    if first < 0 or context.find(text, first + 1) >= 0:
        return None
    if start is not None:
        report.note("an answer that begins elsewhere in its context: put right", place)
    return SquadAnswer(text, first)
