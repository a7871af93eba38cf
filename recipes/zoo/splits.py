"""The data of the zoo's recipes: read from $GLASSFORMER_DATA, without doubles, parted by hash, written under OUT.

A sentence is held out by the hash of its own text, so that the same ones are whatever else the data holds.
"""

import json
import random
import re
import tarfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import topics

from glassformer.data import microworld
from glassformer.data.examples import SquadExample

Row = Sequence[object]
Splits = dict[str, list[Row]]
AUTHORS = 150  # poems that an author must have in training to be a condition
NOBODY = ("其他", "不詳", "無名氏", "佚名")  # in the place of an author
KINDS = {"encyclopedia": "article", "sentence": "sentence"}  # of the stories; the others are reviews
UNTOLD = 4  # one text in so many is learnt without its condition
LONGEST = 60  # words of a pair that is translated
FEW = 400  # texts that masked words are guessed in
COUNTS = {"train": 12000, "dev": 400, "test": 1000}  # of the micro-world
TITLE = re.compile(r" = [^=;]+ = ")  # of an article; in tables some have semicolons
CHOICES = 500  # texts that come with labels to choose from


def bucket(text: str, count: int, salt: str = "") -> int:
    """A number below `count` that a text always has, whatever its capitals."""
    return int.from_bytes(sha256(f"{salt}{text.strip().lower()}".encode()).digest()[:8]) % count


def split_of(text: str, *, test: int, dev: int) -> str:
    """One in `test` is held out; of the rest one in `dev` is for choosing."""
    if bucket(text, test) == 0:
        return "test"
    return "dev" if bucket(text, dev, "dev") == 0 else "train"


def parted(rows: Iterable[Row], key: Callable[[Row], str], *, test: int, dev: int) -> Splits:
    found: Splits = {"train": [], "dev": [], "test": []}
    for row in rows:
        found[split_of(key(row), test=test, dev=dev)].append(row)
    return found


def lines(path: Path) -> list[str]:
    return path.read_text("utf-8").split("\n")


def write_tsv(out: Path, splits: Splits, header: Row) -> None:
    for name, rows in splits.items():
        text = "".join("\t".join(str(cell) for cell in row) + "\n" for row in [header, *rows])
        (out / f"{name}.tsv").write_text(text, "utf-8")


def write_jsonl(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")


# --- what the recipes read ------------------------------------------------------------------------------------------


def reviews(data: Path, out: Path) -> None:
    """Sentences of film reviews, negative or positive: a tenth is held out. One that is both is in none."""
    labels: dict[str, set[str]] = defaultdict(set)
    for ending, label in (("neg", "negative"), ("pos", "positive")):
        for line in lines(data / "rt-polarity" / f"rt-polarity.{ending}"):
            if text := " ".join(line.split()):
                labels[text].add(label)
    rows = [(text, *found) for text, found in labels.items() if len(found) == 1]
    write_tsv(out, parted(rows, lambda row: str(row[0]), test=10, dev=15), ("text", "label"))


def pairs(data: Path, language: str) -> Splits:
    """English sentences and their translations; a hundredth of the English ones is held out, with all that they share.

    No sentence of test or dev, of either language, is in training, and of an English one that is held out the first
    translation is kept.
    """
    rows = dict.fromkeys(tuple(line.split("\t")[:2]) for line in lines(data / "tatoeba" / f"{language}.txt") if line)
    rows = [row for row in rows if max(len(side.split()) for side in row) <= LONGEST]
    found = parted(rows, lambda row: str(row[0]), test=100, dev=100)
    for name in ("test", "dev"):
        found[name] = list({row[0]: row for row in reversed(found[name])}.values())[::-1]
    held = {row[1] for name in ("test", "dev") for row in found[name]}
    found["train"] = [row for row in found["train"] if row[1] not in held]
    random.Random(0).shuffle(found["train"])  # the file is sorted by length
    return found


def translations(language: str, code: str) -> Callable[[Path, Path], None]:
    def make(data: Path, out: Path) -> None:
        write_tsv(out, pairs(data, language), ("en", code))

    return make


def wikitext(source: Iterable[str]) -> list[str]:
    """Paragraphs of WikiText as they are written: marks back at their words, and no sentence with a word left out."""
    found = []
    for line in source:
        if not line.strip() or line.lstrip().startswith("="):
            continue
        kept = [one for one in re.split(r"(?<= [.?!]) ", line.strip()) if "<unk>" not in one]
        text = re.sub(r" @(.)@ ", r"\1", " ".join(kept))
        text = re.sub(r" ([.,;:?!%)\]]|'s\b|n't\b|'\w+)", r"\1", re.sub(r"([(\[$£]) ", r"\1", text))
        text = re.sub(r'" ([^"]*?) "', r'"\1"', text)
        if len(text.split()) >= 5:
            found.append(text)
    return found


def english(data: Path, out: Path) -> None:
    """Running English for pretraining: Wikipedia, SQuAD's training paragraphs, Tatoeba, reviews and the micro-world.

    Nothing that a model on top of it is scored by is in it.
    """
    parts = {name: wikitext(lines(data / "wikitext2" / f"{name}.txt")) for name in ("train", "valid", "test")}
    squad = json.loads((data / "squad" / "train-subset.json").read_text("utf-8"))["data"]
    sentences = list(dict.fromkeys(str(row[0]) for row in pairs(data, "fra")["train"]))
    reviewed = [row.split("\t")[0] for row in lines(out.parent / "reviews" / "train.tsv")[1:] if row]
    paragraphs = [one["context"] for article in squad for one in article["paragraphs"]]
    blocks = [" ".join(some[at : at + 8]) for some in (sentences, reviewed) for at in range(0, len(some), 8)]
    made = [one.text for one in microworld.examples("documents", COUNTS["train"] // 2)]
    train = [*parts["train"], *dict.fromkeys(paragraphs), *blocks, *made]
    random.Random(0).shuffle(train)
    for name, texts in (("train", train), ("dev", parts["valid"][:FEW]), ("test", parts["test"][:FEW])):
        (out / f"{name}.txt").write_text("\n\n".join(" ".join(one.split()) for one in texts) + "\n", "utf-8")


def stories(data: Path, out: Path) -> None:
    """English with its kind as a condition: Wikipedia, plain sentences, film reviews."""
    fra, kinds = pairs(data, "fra"), {"train": "train", "dev": "valid", "test": "test"}
    for name, part in kinds.items():
        rows = [{"text": text, "label": "encyclopedia"} for text in wikitext(lines(data / "wikitext2" / f"{part}.txt"))]
        rows += [{"text": text, "label": "sentence"} for text in dict.fromkeys(str(row[0]) for row in fra[name])]
        for line in lines(out.parent / "reviews" / f"{name}.tsv")[1:]:
            if line:
                text, label = line.split("\t")
                rows.append({"text": text, "label": f"{label} review"})
        random.Random(0).shuffle(rows)
        write_jsonl(out / f"{name}.jsonl", rows)


def paraphrases(data: Path, out: Path) -> None:
    """English sentences that were translated by the same French one; those of a held-out French one are held out."""
    groups: dict[str, list[str]] = defaultdict(list)
    train = {str(row[0]) for row in pairs(data, "fra")["train"]}  # not what translation is scored by
    for line in lines(data / "tatoeba" / "fra.txt"):
        if line and (row := line.split("\t"))[0] in train:
            groups[row[1]].append(row[0])
    held = {text for french, some in groups.items() if split_of(french, test=10, dev=30) != "train" for text in some}
    found: Splits = {"train": [], "dev": [], "test": []}
    for french, some in groups.items():
        name = split_of(french, test=10, dev=30)
        different = list({re.sub(r"\W+", " ", one.lower()): one for one in some}.values())
        for first, second in pairwise(different):
            if name != "train" or not {first, second} & held:
                found[name].append((first, second))
    random.Random(0).shuffle(found["train"])
    write_tsv(out, found, ("sentence1", "sentence2"))


def poems(data: Path, out: Path) -> None:
    """Tang poems with their authors as conditions; a fiftieth is held out by author and title."""
    rows, seen = [], set()
    for line in lines(data / "chinese_poetry" / "tang.jsonl"):
        if not line:
            continue
        poem = json.loads(line)
        text = "".join(poem["paragraphs"])
        text = re.sub(r"[（(].*?[）)]|[{}〖〗《》\[\]]", "", text)  # remarks of editors
        if 10 <= len(text) <= 250 and "□" not in text and text not in seen:
            seen.add(text)
            rows.append((text, poem["author"], poem["title"]))
    found = parted(rows, lambda row: f"{row[1]} {row[2]}", test=50, dev=50)
    count = Counter(row[1] for row in found["train"])
    for name, some in found.items():
        random.Random(0).shuffle(some)
        written = ({"text": row[0], "label": row[1] if count[row[1]] >= AUTHORS else "其他"} for row in some)
        write_jsonl(out / f"{name}.jsonl", written)


def poets(_: Path, out: Path) -> None:
    """Those of the poems that have a known author, who is their condition."""
    for name in ("train", "dev", "test"):
        rows = [json.loads(line) for line in lines(out.parent / "poems" / f"{name}.jsonl") if line]
        write_jsonl(out / f"{name}.jsonl", [row for row in rows if row["label"] not in NOBODY])


def kinds(_: Path, out: Path) -> None:
    """English with its kind as a condition, article, sentence or review, as much of each as there are reviews.

    Of articles, which are long, a third of that. In training one in UNTOLD is without, so that a text can still be
    asked for of no kind in particular.
    """
    for name in ("train", "dev", "test"):
        rows = [json.loads(line) for line in lines(out.parent / "stories" / f"{name}.jsonl") if line]
        of: dict[str, list[dict[str, str | None]]] = defaultdict(list)
        for row in rows:
            kind = KINDS.get(row["label"], "review")
            of[kind].append({"text": row["text"], "label": kind})
        most = len(of["review"])
        some = [*of["article"][: most // 3], *of["sentence"][:most], *of["review"]]
        random.Random(0).shuffle(some)
        for row in some if name == "train" else ():
            row["label"] = row["label"] if bucket(row["text"], UNTOLD) else None
        write_jsonl(out / f"{name}.jsonl", some)


def chinese(_: Path, out: Path) -> None:
    """Running Chinese for pretraining: Tang poems, Tatoeba's sentences and the micro-world."""
    for seed, name in enumerate(("train", "dev", "test")):
        texts = [json.loads(line)["text"] for line in lines(out.parent / "poems" / f"{name}.jsonl") if line]
        rows = [line.split("\t") for line in lines(out.parent / "en-zh" / f"{name}.tsv")[1:] if line]
        texts += list(dict.fromkeys(row[1] for row in rows))
        texts += [one.text for one in microworld.examples("documents", COUNTS[name] // 2, seed=seed, language="zh")]
        random.Random(0).shuffle(texts)
        texts = texts if name == "train" else texts[:FEW]
        (out / f"{name}.txt").write_text("\n\n".join(" ".join(one.split()) for one in texts) + "\n", "utf-8")


def questions(data: Path, out: Path) -> None:
    """Questions of the micro-world, in training also those 4,000 of SQuAD; scored by each alone."""
    squad = json.loads((data / "squad" / "train-subset.json").read_text("utf-8"))["data"]
    for seed, name in enumerate(("train", "dev", "test")):
        made = microworld.examples("asked", COUNTS[name], seed=seed)
        articles = [{"title": "micro-world", "paragraphs": [_asked(number, one) for number, one in enumerate(made)]}]
        content = {"version": "1.1", "data": articles + (squad if name == "train" else [])}
        (out / f"{name}.json").write_text(json.dumps(content, ensure_ascii=False), "utf-8")


def _asked(number: int, one: SquadExample) -> dict[str, object]:
    answers = [{"text": answer.text, "answer_start": answer.start} for answer in one.answers]
    return {"context": one.context, "qas": [{"id": f"m{number}", "question": one.question, "answers": answers}]}


def imdb(data: Path, out: Path) -> None:
    """2,000 reviews of IMDB's test set, drawn by hash, to see what a model of sentences is worth elsewhere."""
    with tarfile.open(data / "imdb.tar.xz") as archive:
        rows = [
            line.split("\t") for line in archive.extractfile("imdb/test.tsv").read().decode().split("\n")[1:] if line
        ]
    kinds, chosen = {"neg": "negative", "pos": "positive"}, sorted(rows, key=lambda row: bucket(row[3], 2**60))[:2000]
    found = [(row[3].replace("<br />", " "), kinds[row[2]]) for row in chosen]
    write_tsv(out, {"test": found}, ("text", "label"))


def sts(data: Path, out: Path) -> None:
    """Pairs of sentences and how alike people find them, from 0 to 5: STS-B's test set."""
    rows = [line.split("\t") for line in lines(data / "glue" / "STS-B" / "sts-test-labelled.tsv") if line]
    write_tsv(out, {"test": [(row[5], row[6], row[4]) for row in rows]}, ("sentence1", "sentence2", "score"))


def shop_reviews(data: Path, out: Path) -> None:
    """Chinese reviews of hotels, books and laptops: ChnSentiCorp's test set."""
    rows = [line.split("\t", 1) for line in lines(data / "chnsenticorp" / "test.tsv")[1:] if line]
    write_tsv(out, {"test": [(row[1], ("negative", "positive")[int(row[0])]) for row in rows]}, ("text", "label"))


def labels(data: Path, out: Path) -> None:
    """Texts with labels to choose from: topics of Wikipedia's articles, titles of others, the tone of reviews."""
    rng = random.Random(0)
    articles: list[list[str]] = [[]]
    for line in lines(data / "wikitext2" / "test.txt"):
        articles += [[]] if TITLE.fullmatch(line) else []
        articles[-1].append(line)
    told = [paragraphs for paragraphs in map(wikitext, articles) if paragraphs]
    write_jsonl(out / "topics.jsonl", topics.choices(told, CHOICES, rng))
    squad = json.loads((data / "squad" / "dev-v1.1.json").read_text("utf-8"))["data"]
    titled = {one["title"].replace("_", " "): [part["context"] for part in one["paragraphs"]] for one in squad}
    rows = []
    for title in rng.choices(list(titled), k=CHOICES):
        others = rng.sample([one for one in titled if one != title], topics.CANDIDATES - 1)
        some = rng.sample([title, *others], topics.CANDIDATES)
        rows.append({"text": rng.choice(titled[title]), "label": title, "labels": some})
    write_jsonl(out / "titles.jsonl", rows)
    reviewed = [line.split("\t") for line in lines(out.parent / "reviews" / "test.tsv")[1:] if line]
    rows = [{"text": text, "label": tone, "labels": ["negative", "positive"]} for text, tone in reviewed]
    write_jsonl(out / "tones.jsonl", rng.sample(rows, CHOICES))


SETS: dict[str, Callable[[Path, Path], None]] = {  # a later one may read an earlier one
    "reviews": reviews,
    "en-fr": translations("fra", "fr"),
    "en-zh": translations("cmn", "zh"),
    "english": english,
    "stories": stories,
    "paraphrases": paraphrases,
    "poems": poems,
    "poets": poets,
    "kinds": kinds,
    "chinese": chinese,
    "questions": questions,
    "imdb": imdb,  # these are never learnt from
    "sts": sts,
    "shop-reviews": shop_reviews,
    "labels": labels,
}


NEEDS = {  # sets that a set reads
    "english": ("reviews",),
    "stories": ("reviews",),
    "poets": ("poems",),
    "kinds": ("stories", "reviews"),
    "chinese": ("poems", "en-zh"),
    "labels": ("reviews",),
}


def prepare(data: Path, out: Path, names: Iterable[str]) -> None:
    """Write what is not there of these sets, and of those that they read."""
    wanted = {one for name in names for one in (name, *NEEDS.get(name, ()))}
    for name in SETS:
        if name in wanted and not (out / name / "done").exists():
            (out / name).mkdir(parents=True, exist_ok=True)
            SETS[name](data, out / name)
            (out / name / "done").write_text("")
