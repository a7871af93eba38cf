"""`glassformer predict` and `eval`: from text, file or stdin to text, csv or jsonl, and scores that agree."""

import csv
import io
import json
import re
import sys

import pytest

import glassformer as gf
from microworld_files import write_examples
from tasks.cases import SMALL, case, recipe_of

CLASSIFIER = "text-classification/gru"
TEXTS = ["Paul is glad.", 'She said: "no, thanks"', "naïve Straße 北京"]


@pytest.fixture
def stdin(monkeypatch):
    def give(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    return give


@pytest.fixture
def classes(trained):
    return gf.pipeline("text-classification", trained(CLASSIFIER))(TEXTS)


def from_words(tmp_path, stdin):
    return TEXTS


def from_text_file(tmp_path, stdin):
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    return ["--file", tmp_path / "texts.txt"]


def from_csv(tmp_path, stdin):
    with (tmp_path / "texts.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["number", "text"], *enumerate(TEXTS)])
    return ["--file", tmp_path / "texts.csv"]


def from_jsonl(tmp_path, stdin):
    rows = "".join(json.dumps({"review": text, "stars": 3}) + "\n" for text in TEXTS)
    (tmp_path / "texts.jsonl").write_text(rows)
    return ["--file", tmp_path / "texts.jsonl", "--columns", "text=review"]


def from_stdin(tmp_path, stdin):
    stdin("\n".join(TEXTS) + "\n")
    return []


def from_dash(tmp_path, stdin):
    stdin("\n".join(TEXTS))  # without a newline at the end
    return ["--file", "-"]


@pytest.mark.parametrize("source", [from_words, from_text_file, from_csv, from_jsonl, from_stdin, from_dash])
def test_whatever_the_source_the_answers_are_the_same(glassformer, trained, tmp_path, stdin, classes, source):
    code, out, _ = glassformer("predict", trained(CLASSIFIER), *source(tmp_path, stdin), "--format", "jsonl")
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [row["input"] for row in rows] == TEXTS
    assert [row["output"]["label"] for row in rows] == [found["label"] for found in classes]
    assert [row["output"]["score"] for row in rows] == [pytest.approx(found["score"]) for found in classes]


def test_results_as_a_table(glassformer, trained, classes):
    code, out, _ = glassformer("predict", trained(CLASSIFIER), *TEXTS, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert code == 0
    assert [row["input"] for row in rows] == TEXTS
    assert [row["label"] for row in rows] == [found["label"] for found in classes]
    assert [float(row["score"]) for row in rows] == [pytest.approx(found["score"]) for found in classes]


def test_results_as_text(glassformer, trained, classes):
    code, out, _ = glassformer("predict", trained(CLASSIFIER), *TEXTS)
    assert code == 0
    wanted = [f"{found['label']}  {found['score']:.4f}  | {text}" for found, text in zip(classes, TEXTS, strict=True)]
    assert out.splitlines() == wanted
    _, out, _ = glassformer("predict", trained(CLASSIFIER), TEXTS[0], "--set", "top_k=2")
    assert out.count(";") == 1


def test_a_long_text_is_shortened_beside_its_label(glassformer, trained):
    _, out, _ = glassformer("predict", trained(CLASSIFIER), "word\nand  word " * 30)
    shown = out.rstrip("\n").partition("  | ")[2]
    assert shown.startswith("word and word word and word")
    assert shown.endswith("…")
    assert len(shown) == 60


def test_one_label_for_everything_is_remarked_on(glassformer, trained):
    folder = trained(CLASSIFIER)
    _, _, err = glassformer("predict", folder, *["the same text"] * 10)
    assert err.startswith("mind: all 10 texts were given the label '")
    _, _, err = glassformer("predict", folder, *["the same text"] * 9)  # too few to say so
    assert err == ""


def test_entities_are_in_the_words_of_the_text(glassformer, tmp_path):
    settings = recipe_of("token-classification/bert", out=str(tmp_path / "run"), lowercase=True)
    gf.train(**settings, steps=1, log=lambda _: None)
    text = "PAUL met Anna-Maria."
    assert gf.pipeline("token-classification", tmp_path / "run")(text, ignore_labels=[])[0]["word"].islower()
    code, out, _ = glassformer("predict", tmp_path / "run", text, "--set", "ignore_labels=[]", "--json")
    assert code == 0
    for entity in json.loads(out)["output"]:
        assert entity["word"] == text[entity["start"] : entity["end"]]
    _, out, _ = glassformer("predict", tmp_path / "run", "", text)
    assert out.splitlines()[0] == "no entities  | "


# Questions.


def test_a_question_is_typed_with_its_context(glassformer, trained):
    folder, context = trained("question-answering/bert"), "Paul is glad. Anna is sad."
    code, out, _ = glassformer("predict", folder, "--question", "Who is glad?", "--context", context, "--json")
    assert code == 0
    found = json.loads(out)
    assert found["input"] == {"question": "Who is glad?", "context": context}
    assert found["output"]["answer"] in context
    _, again, _ = glassformer(
        "predict", folder, "--set", "question=Who is glad?", "--set", f"context={context}", "--json"
    )
    assert again == out
    _, out, _ = glassformer("predict", folder, json.dumps(found["input"]))
    assert out.endswith("  | Who is glad?\n")


@pytest.mark.parametrize(
    ("name", "words", "message"),
    [
        (
            "question-answering/bert",
            ["a text"],
            "answers questions: give --question and --context, not the text 'a text'",
        ),
        (
            "question-answering/bert",
            ["--question", "Who?"],
            "a question is asked about a context: give --context as well",
        ),
        ("question-answering/bert", ["--context", "Paul."], "give --question as well"),
        (
            "question-answering/bert",
            ["x", "--question", "Who?", "--context", "Paul."],
            "not both: there is 'x' as well",
        ),
        (CLASSIFIER, ["--question", "Who?", "--context", "Paul."], "does text-classification"),
        (
            CLASSIFIER,
            ["a text", "--set", "qqq=1"],
            "no option 'qqq'; a call can be told top_k, batch_size, batch_tokens",
        ),
    ],
)
def test_what_cannot_be_asked_is_said_in_one_line(glassformer, trained, name, words, message):
    code, out, err = glassformer("predict", trained(name), *words)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert message in err


# What data does to a terminal and to a spreadsheet.

NASTY = "\x1b[31mred\x07\r\n\x9b2J\u202eevil\x7f"


@pytest.fixture
def nasty(tmp_path):
    """A run whose classes have names that a terminal would obey, and the file that it was trained on."""
    rows = [(f"{NASTY} number {number}", ("yes" + NASTY, "no|<b>`no`</b>\n# no")[number % 2]) for number in range(30)]
    with (tmp_path / "nasty.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    settings = recipe_of(CLASSIFIER, out=str(tmp_path / "run"), data=str(tmp_path / "nasty.csv"))
    gf.train(**settings, steps=1, log=lambda _: None)
    return tmp_path


def is_tame(text: str) -> bool:
    return not any(char in text for char in set(NASTY) - set("[31mred\n2Jevil")) and "no\n# no" not in text


def test_no_control_character_of_the_data_reaches_the_terminal(glassformer, nasty):
    folder, file = nasty / "run", nasty / "nasty.csv"
    train = ["train", "text-classification", "--arch", "gru", "--data", file, "--out", nasty / "other", "--check"]
    said = [
        glassformer("predict", folder, NASTY, f"{NASTY} again"),
        glassformer("predict", folder, "--file", file),
        glassformer("predict", folder, "--file", file, "--json"),
        glassformer("eval", folder, "--data", file),
        glassformer(*train, *[f"--set=config.{name}={size}" for name, size in SMALL["glassformer-rnn"].items()]),
        glassformer("predict", folder, "a", "--set", f"{NASTY}=1"),
        glassformer("predict", folder, "--file", nasty / NASTY),
        glassformer("tokenizer", "encode", folder, NASTY),
        glassformer("tokenizer", "encode", folder, NASTY, "--json"),
        glassformer("show", nasty / NASTY),
    ]
    assert [code for code, _, _ in said] == [0, 0, 0, 0, 0, 1, 1, 0, 0, 1]
    assert all(is_tame(out) and is_tame(err) for _, out, err in said)
    assert len(said[0][1].splitlines()) == 2  # a result a line, whatever is in it
    assert "\\x1b[31mred" in said[0][1]
    assert json.loads(said[2][1].splitlines()[0])["input"] == f"{NASTY} number 0"  # and a machine gets all of it


def test_the_card_of_a_run_is_no_markup_of_the_datas_making(nasty):
    card = (nasty / "run" / "README.md").read_text(encoding="utf-8")
    assert is_tame(card)
    assert "| no\\|\\<b\\>\\`no\\`\\</b\\>\\\\n# no |" in card
    rows = [line for line in card.splitlines() if line.startswith("| ") and "number" not in line]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {4, 6}


def test_a_spreadsheet_runs_nothing_of_a_table(glassformer, trained):
    texts = ["=1+1", "+cmd", "-great film", "@SUM(A1)", "\tx", "-0.5", "plain", "'quoted"]
    words = ("predict", trained(CLASSIFIER), "--format", "csv", "--", *texts)
    _, out, _ = glassformer(*words)
    cells = [row["input"] for row in csv.DictReader(io.StringIO(out))]
    assert cells == ["'=1+1", "'+cmd", "'-great film", "'@SUM(A1)", "'\tx", "-0.5", "plain", "'quoted"]
    _, out, _ = glassformer(*words[:2], "--no-guard", *words[2:])
    assert [row["input"] for row in csv.DictReader(io.StringIO(out))] == texts


def test_deep_results_are_cells_of_json(glassformer, trained):
    words = ("predict", trained("token-classification/bert"), "Paul is here", "--format", "csv")
    code, out, _ = glassformer(*words, "--set", "ignore_labels=[]")
    (row,) = csv.DictReader(io.StringIO(out))
    assert code == 0
    assert json.loads(row["output"])[0].keys() == {"entity_group", "score", "word", "start", "end"}


def test_questions_come_as_objects_or_as_squads_file(glassformer, trained, tmp_path, stdin):
    folder = trained("question-answering/bert")
    examples = case("question-answering/bert").splits.dev[:3]
    stdin("".join(json.dumps({"question": one.question, "context": one.context}) + "\n" for one in examples))
    code, piped, _ = glassformer("predict", folder, "--json")
    assert code == 0
    (path,) = write_examples(tmp_path, "asked", 3, seed=1)
    code, read, _ = glassformer("predict", folder, "--file", path, "--json")
    answers = [[json.loads(line)["output"]["answer"] for line in out.splitlines()] for out in (piped, read)]
    assert answers[0] == answers[1]
    assert all(answer in one.context for answer, one in zip(answers[0], examples, strict=True))


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("fill-mask/bert", ["Paul is [MASK] ."]),
        ("text-generation/gpt2", ["Paul", "--set", "max_new_tokens=3"]),
        ("translation/gru", ["Paul is glad.", "--set", "max_new_tokens=3"]),
        ("copy/gru", ["123="]),
        ("parity/bert", ["123="]),
        ("feature-extraction/distilbert", ["Paul", "--set", "pooled=true"]),
    ],
)
def test_a_run_folder_knows_its_task(glassformer, trained, name, words):
    code, out, err = glassformer("predict", trained(name), *words, "--json")
    assert (code, err) == (0, "")
    (line,) = out.splitlines()
    assert json.loads(line)["input"] == words[0]


def test_files_that_are_none(glassformer, trained, tmp_path):
    code, out, err = glassformer("predict", trained(CLASSIFIER), "--file", tmp_path / "nowhere.txt")
    assert (code, out) == (1, "")
    assert err == f"error: there is no file '{tmp_path / 'nowhere.txt'}'\n"
    (tmp_path / "bad.jsonl").write_text('{"text": "a"}\n{"text": \n')
    code, out, err = glassformer("predict", trained(CLASSIFIER), "--file", tmp_path / "bad.jsonl", "--json")
    assert code == 0
    assert len(out.splitlines()) == 1
    assert "skipped 1" in err  # and it is said
    assert "line 2" in err


def test_latin_1_is_read_and_noted(glassformer, trained, tmp_path):
    (tmp_path / "old.txt").write_bytes("schöner Tag\n".encode("latin-1"))
    code, out, err = glassformer("predict", trained(CLASSIFIER), "--file", tmp_path / "old.txt", "--json")
    assert code == 0
    assert json.loads(out)["input"] == "schöner Tag"
    assert "not UTF-8" in err


# Scores.

FILES = {
    "text-classification/gru": "labelled",
    "token-classification/bert": "tagged",
    "question-answering/bert": "asked",
}
FILES |= {"translation/gru": "parallel", "text-generation/gpt2": "documents", "fill-mask/bert": "documents"}
FILES |= {"sentence-similarity/bert/mean": "scored", "text-classification/bert/regression": "scored"}


@pytest.mark.few(4)
@pytest.mark.parametrize("name", FILES)
def test_eval_gives_the_scores_of_the_run(glassformer, trained, tmp_path, name):
    """The test split of the micro-world, written to files, as the run scored it."""
    folder = trained(name)
    paths = write_examples(tmp_path, FILES[name], 40, seed=2)
    words = [word for path in paths for word in ("--data", path)]
    extra = ["--set", "unit=block"] if FILES[name] == "documents" else []
    code, out, err = glassformer("eval", folder, *words, *extra, "--json")
    assert code == 0, err
    scores = json.loads(out.splitlines()[-1])
    ran = json.loads((folder / "run.json").read_text())["scores"]
    if "test" in ran:
        assert scores == pytest.approx(ran["test"], rel=1e-3, abs=1e-4)
    else:
        assert scores.keys() == ran["dev"].keys()
    code, out, _ = glassformer("eval", folder, *words, *extra)
    assert code == 0
    assert all(f"{value:.4f}" in out for value in scores.values())


def test_eval_on_the_micro_world_needs_no_file(glassformer, trained):
    code, out, _ = glassformer("eval", trained(CLASSIFIER), "--data", "microworld", "--json")
    assert code == 0
    assert json.loads(out)["accuracy"] > 0


def test_eval_takes_the_options_of_task_and_reader(glassformer, trained, tmp_path):
    (path,) = write_examples(tmp_path, "tagged", 20, seed=1)
    swapped = tmp_path / "swapped.conll"
    swapped.write_text("\n".join("\t".join(reversed(line.split("\t"))) for line in path.read_text().split("\n")))
    folder = trained("token-classification/bert")
    _, straight, _ = glassformer("eval", folder, "--data", path, "--json")
    options = ("--set", "column=0", "--set", "word_column=1", "--set", "max_length=64")
    code, out, err = glassformer("eval", folder, "--data", swapped, *options, "--json")
    assert code == 0, err
    assert json.loads(out) == pytest.approx(json.loads(straight))
    code, _, err = glassformer("eval", folder, "--data", path, "--set", "colum=0")
    assert code == 1
    assert "token-classification has no option 'colum'" in err


@pytest.mark.slow
def test_a_run_is_scored_as_its_recipe_says(glassformer, tmp_path):
    """Columns, how texts are generated, how files are read: what was said in training need not be said again."""
    rows = [f"{number},text {number},{'ab'[number % 2]}" for number in range(30)]
    (tmp_path / "data.csv").write_text("\n".join(["label,body,kind", *rows]))
    settings = recipe_of("text-classification/gru", out=str(tmp_path / "classes"), data=str(tmp_path / "data.csv"))
    settings |= {"columns": {"text": "body", "label": "kind"}, "max_length": 5}
    gf.train(**settings, steps=1, log=lambda _: None)
    code, _, err = glassformer("eval", tmp_path / "classes", "--data", tmp_path / "data.csv", "--json")
    assert code == 0, err
    assert "text: column 'body'" in err
    assert gf.pipeline("text-classification", tmp_path / "classes").task.max_length == 5
    settings = recipe_of("translation/gru", out=str(tmp_path / "texts"), generate={"num_beams": 3, "max_new_tokens": 4})
    gf.train(**settings, steps=1, log=lambda _: None)
    pipe = gf.pipeline("translation", tmp_path / "texts")
    assert pipe.task.generate == {"num_beams": 3, "max_new_tokens": 4}
    assert gf.pipeline("translation", tmp_path / "texts", generate={}).task.generate == {}
