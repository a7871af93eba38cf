"""Sentences of tagged words: CoNLL columns, or rows with a list of words and a list of tags; always IOB2 at the end.

A CoNLL file has a word on a line, its columns between tabs or else blanks, and an empty line after a sentence.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from glassformer.data.delimited import Record, usual_width
from glassformer.data.examples import Tagged
from glassformer.data.iob import detect, split_tag, to_iob2
from glassformer.data.labels import as_class
from glassformer.data.report import Place, Read, ReadReport
from glassformer.data.roles import TAGS, WORDS, Columns, check_roles, find, missing, named_column
from glassformer.data.rows import EXTENSIONS, DataTable, TableOptions, json_format, open_table
from glassformer.data.source import DataSource, Line, Sources, checked_lines, peeked, resolve

COMMENT = re.compile(r"# *(id|sent_id|text|newdoc|newpar|global\.columns)\b")
BORDER = "-DOCSTART-"
MENDED = "a tag that goes on where no entity is open: made to begin one"


@dataclass
class Sentence:
    """Words and tags as they are written, the number of each line, and what is wrong with them and where."""

    words: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    unit: str = "line"
    fault: tuple[str, Place] | None = None

    def place(self, source: DataSource, at: int) -> Place:
        """Where a word stands."""
        return Place(source.name, self.numbers[at], self.unit)


def read_tagged(
    sources: Sources,
    column: int = -1,
    *,
    word_column: int = 0,
    columns: Columns | None = None,
    require_target: bool = True,
) -> Read[Tagged]:
    """Sentences with a tag for each word; `column` and `word_column` are CoNLL's, `columns` those of other tables."""
    named = check_roles(columns, ("words", "tags"))
    report = ReadReport()
    examples: list[Tagged] = []
    for source in resolve(sources):
        report.rows.setdefault(source.name, 0)
        table = table_in(source, report)
        if isinstance(table, DataTable):
            sentences = list(row_sentences(table, named, report, required=require_target))
        else:
            sentences = conll_sentences(
                source, checked_lines(table, source.name), column, word_column, report, required=require_target
            )
        examples += finished(source, sentences, report)
    return report.finished(examples)


def table_in(source: DataSource, report: ReadReport) -> DataTable | Iterator[Line]:
    """The table in a source of rows; the lines of any other."""
    if source.hub or EXTENSIONS.get(source.extension) in ("json", "jsonl", "parquet"):
        return open_table(source, report, TableOptions())
    sample, lines = peeked(source.lines(report))
    found = json_format([text for _, text in sample], "")
    return open_table(source, report, TableOptions(file_format=found), lines) if found else lines


def finished(source: DataSource, sentences: Sequence[Sentence], report: ReadReport) -> list[Tagged]:
    """Sentences with their tags in IOB2, without those that are broken."""
    scheme = detect(sentence.tags for sentence in sentences)
    if any(sentence.tags for sentence in sentences):
        report.take(source.name, "tags: plain" if scheme == "plain" else f"tags: {scheme}, given as IOB2")
    examples: list[Tagged] = []
    for sentence in sentences:
        odd = [at for at, tag in enumerate(sentence.tags) if tag != "O" and not split_tag(tag)]
        if sentence.fault:
            report.skip(*sentence.fault)
        elif odd and scheme != "plain":
            report.skip(f"a tag that {scheme} does not have", sentence.place(source, odd[0]))
        else:
            tags, mended = to_iob2(sentence.tags, scheme)
            for at in mended:
                report.note(MENDED, sentence.place(source, at))
            examples.append(Tagged(tuple(sentence.words), tuple(tags) or None))
    return examples


def conll_sentences(
    source: DataSource, lines: Iterator[Line], column: int, word_column: int, report: ReadReport, *, required: bool
) -> list[Sentence]:
    """The sentences of a CoNLL file."""
    records = list(conll_records(source, lines, report))
    width = usual_width(fields for _, fields in records if fields)
    report.require(width, source.name)
    for name, index in (("column", column), ("word_column", word_column)):
        if not -width <= index < width:
            raise ValueError(f"{name}={index}: {source.name} has {width} columns, 0 to {width - 1}, or -1 for the last")
    tagged = column % width != word_column % width
    if required and not tagged:
        raise ValueError(f"{source.name} has words and no tags: give a file with a column of tags")
    report.take(source.name, f"words: column {word_column % width}" + f"; tags: column {column % width}" * tagged)
    sentences = [Sentence()]
    for number, fields in records:
        here = sentences[-1]
        if not fields:
            sentences.append(Sentence())
        elif len(fields) == width:
            here.words.append(fields[word_column])
            here.tags += [fields[column]] * tagged
            here.numbers.append(number)
        elif fields[0].startswith("#") and not here.words:
            report.note("a comment passed over", Place(source.name, number))
        else:
            here.fault = here.fault or ("a line with a wrong number of columns", Place(source.name, number))
    found = [sentence for sentence in sentences if sentence.words or sentence.fault]
    report.rows[source.name] += len(found)
    return found


def conll_records(source: DataSource, lines: Iterator[Line], report: ReadReport) -> Iterator[Record]:
    """The fields of each line; none where a sentence ends, at an empty line or at the border of a document."""
    for number, line in lines:
        text = line.rstrip("\r\n\t ")
        if text.startswith(BORDER):
            report.note(f"{BORDER}, the border of a document", Place(source.name, number))
            yield number, []
        elif text.startswith("#") and COMMENT.match(text):
            report.note("a comment passed over", Place(source.name, number))
        elif "\t" in text:
            yield number, text.split("\t")
        else:
            yield number, [part for part in text.split(" ") if part]


def row_sentences(
    table: DataTable, named: Mapping[str, str], report: ReadReport, *, required: bool
) -> Iterator[Sentence]:
    """The sentences of rows that have a list of words and a list of tags."""
    words_in = named_column(table, named, "words") or find(table, WORDS)
    tags_in = named_column(table, named, "tags") or find(table, TAGS)
    if words_in is None:
        raise missing(table, "words")
    if tags_in is None and required:
        raise missing(table, "tags")
    report.take(table.source.name, f"words: column {words_in!r}" + (f"; tags: column {tags_in!r}" if tags_in else ""))
    for place, cells in table.rows:
        words, tags = cells.get(words_in), cells.get(tags_in) if tags_in else None
        if not isinstance(words, list) or not all(isinstance(word, str) and word.strip() for word in words):
            yield Sentence(fault=("the words are not a list of words", place))
        elif not words:
            yield Sentence(fault=("no words", place))
        elif tags is None:
            yield Sentence(words=words, fault=("no tags", place) if required else None)
        elif not isinstance(tags, list) or len(tags) != len(words) or None in map(as_class, tags):
            yield Sentence(fault=("not as many tags as words", place))
        else:
            yield Sentence(words, [as_class(tag) or "" for tag in tags], [place.number] * len(words), place.unit)
