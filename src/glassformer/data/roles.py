"""Which column is the text, which the label: by its name, or as the user says."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from shlex import quote

from glassformer.data.delimited import is_number
from glassformer.data.rows import EXTENSIONS, DataTable

Columns = Mapping[str, str | int]
"""A role to its column, by name or by number from 0; a label may have several, as in "toxic+obscene"."""

PAIRS = (
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("text1", "text2"),
    ("text_a", "text_b"),
    ("premise", "hypothesis"),
    ("sentence_a", "sentence_b"),
    ("#1 string", "#2 string"),
    ("question", "sentence"),
    ("question", "passage"),
    ("query", "passage"),
    ("anchor", "positive"),
)
TEXTS = (
    *("text", "sentence", "text_a", "review", "content", "comment_text", "comment", "tweet", "body", "document"),
    *("article", "message", "post", "question", "query", "utterance", "sentence1", "review_body", "input", "title"),
)
LABELS = (
    *("gold_label", "label", "labels", "class", "category", "sentiment", "target", "polarity", "intent", "topic"),
    *("emotion", "emotions", "is_duplicate", "quality", "stars", "rating", "tag", "tags", "output", "y"),
)
SCORES = ("score", "scores", "similarity", "similarity_score", "relatedness_score")
SOURCES = ("source", "src")
TARGETS = ("target", "tgt", "trg")
ARTICLES = (
    *("article", "document", "dialogue", "dialog", "text", "content", "body", "story", "report", "maintext"),
    *("passage", "transcript", "review", "news"),
)
ABSTRACTS = ("summary", "highlights", "abstract", "tldr", "tl;dr", "headline", "title")  # of an article
LANGUAGES = (
    *("en", "de", "fr", "es", "it", "pt", "nl", "sv", "da", "no", "fi", "is", "pl", "cs", "sk", "hu", "ro", "bg"),
    *("ru", "uk", "el", "tr", "ar", "he", "fa", "hi", "ja", "ko", "zh", "vi", "th", "english", "german", "french"),
)
MOST_GUESSED = 1000  # columns among which a text and a label are looked for by their cells
NAMED = 20  # columns that an error lists
TAGS = ("ner_tags", "tags", "labels", "ner", "pos_tags", "tag", "label")
WORDS = ("tokens", "words")


def check_roles(columns: Columns | None, roles: Sequence[str]) -> dict[str, str]:
    """The columns that the user names, refused for a role that there is not."""
    for role in columns or {}:
        if role not in roles:
            raise ValueError(f"columns: there is no role {role!r}: use {', '.join(roles)}")
    return {role: str(column) for role, column in (columns or {}).items()}


def are_numbers(columns: Mapping[str, str]) -> bool:
    """Whether columns are given, all by number."""
    return bool(columns) and all(column.isdecimal() for column in columns.values())


def names_given(columns: Mapping[str, str]) -> frozenset[str]:
    """The names that the user gives, in lower case: where the first row has one, it is a header."""
    names = {name.casefold() for column in columns.values() for name in (column, *column.split("+"))}
    return frozenset(name for name in names if not name.isdecimal())


def by_name(table: DataTable, but: Collection[str]) -> dict[str, str]:
    """The columns that are not taken already by their names in lower case, the first of those with the same."""
    taken = frozenset(but)
    return {column.casefold(): column for column in reversed(table.columns) if column not in taken}


def find(table: DataTable, names: Iterable[str], *, but: Collection[str] = ()) -> str | None:
    """The first of these names that a column has, whatever its case, of columns that are not taken already."""
    there = by_name(table, but)
    return next((there[name] for name in names if name in there), None)


def find_pair(table: DataTable, *, but: Collection[str] = ()) -> tuple[str, str] | None:
    """Two columns whose names go together."""
    there = by_name(table, but)
    return next(((there[one], there[other]) for one, other in PAIRS if one in there and other in there), None)


def named_column(table: DataTable, columns: Mapping[str, str], role: str) -> str | None:
    """The column that the user names for a role; None where none is named."""
    return column_of(table, columns[role], role) if role in columns else None


def column_of(table: DataTable, wanted: str, role: str) -> str:
    """A column by its name, or else by its number."""
    if wanted in table.columns:
        return wanted
    if wanted.isdecimal() and int(wanted) < len(table.columns):
        return table.columns[int(wanted)]
    raise ValueError(f"{table.source.name} has no column {wanted!r}: give --columns {role}=NAME, {listed(table)}")


def missing(table: DataTable, role: str, *, hint: str = "") -> ValueError:
    """The error for a column that is needed and was not found; without a header the first row shows what there is."""
    message = f"{table.source.name}: no column is known to be the {role}: give --columns {role}=NAME, {listed(table)}"
    if not table.headed:
        first = [str(cell)[:60] for cell in islice(table.sample[0].values(), NAMED)]
        message += f"; the first row is {first}"
    return ValueError((message if len(message) < 400 else message[:400] + "…") + hint)


def listed(table: DataTable) -> str:
    """The names of the columns, the first of many."""
    more = f" and {len(table.columns) - NAMED} more" if len(table.columns) > NAMED else ""
    return f"one of {', '.join(map(repr, table.columns[:NAMED]))}{more}"


def longest(table: DataTable) -> str:
    """The column with the longest cells."""
    return max(table.columns, key=lambda column: sum(len(str(row.get(column))) for row in table.sample))


def could_be_label(table: DataTable, column: str, *, score: bool) -> bool:
    """Whether the cells of a column look like labels: numbers for scores, else values that come again."""
    cells = [str(row.get(column)).strip() for row in table.sample]
    if score:
        return all(map(is_number, cells))
    return all(cells) and len(set(cells)) <= max(10, len(cells) // 2)


def suggestion(table: DataTable, text: str | None = None, pair: str | None = None, *, score: bool) -> str:
    """What the columns of a file might be, as far as they are not known, to be offered and not taken."""
    if len(table.columns) > MOST_GUESSED:
        return ""
    known = [text, pair]
    first = text or longest(table)
    labels = [one for one in table.columns if one not in (first, pair) and could_be_label(table, one, score=score)]
    label = min(labels, key=lambda one: len({str(row.get(one)) for row in table.sample}), default=None)
    second = pair if text is not None else like(table, first, but=label)
    if second is not None and text is None:
        first, second = sorted((first, second), key=table.columns.index)
    found = {"text": first, "pair": second, "label": label}
    offered = [f"--columns {role}={quote(one)}" for role, one in found.items() if one is not None and one not in known]
    delimited = EXTENSIONS.get(table.source.extension) in ("csv", "tsv")
    denied = "; if its first row is no header, --set header=false" if table.headed and delimited else ""
    return (f"; perhaps {' '.join(offered)}" if offered else "") + denied


def like(table: DataTable, text: str, *, but: str | None) -> str | None:
    """A column with cells of several words, nearly as long as those of a text; None where there is none."""

    def size(column: str) -> int:
        return sum(len(str(row.get(column))) for row in table.sample)

    others = [one for one in table.columns if one not in (text, but)]
    second = max(others, key=size, default=None)
    if second is None or 2 * size(second) < size(text):
        return None
    return second if all(" " in str(row.get(second)).strip() for row in table.sample) else None
