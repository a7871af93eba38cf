"""Bad input on the command line: exit code 1, and one line on stderr that names the value and the fix."""

import json
import re
import sys

import pytest

from microworld_files import write_examples
from tasks.cases import SMALL

FEW = ("--steps", 1, "--batch-size", 4, "--device", "cpu")
LSTM = (
    "--arch",
    "lstm",
    *(word for name, size in SMALL["glassformer-rnn"].items() for word in ("--set", f"config.{name}={size}")),
)
BERT = (
    "--arch",
    "bert",
    *(word for name, size in SMALL["bert"].items() for word in ("--set", f"config.{name}={size}")),
)
SEQ2SEQ = ("--arch", "gru", "--set", "config.hidden_size=12", "--set", "config.embedding_size=12")
SHORT = ("--set", "config.n_positions=8")
CSV = "text,label\n" + "".join(f"text number {n},{'good' if n % 2 else 'bad'}\n" for n in range(30))


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Some files to train on, in the folder where the command is typed."""
    monkeypatch.chdir(tmp_path)
    written = {
        "good.csv": CSV,
        "empty.csv": "",
        "header.csv": "text,label\n",
        "one-class.csv": "text,label\n" + "".join(f"text {n},good\n" for n in range(9)),
        "other-label.csv": "text,label\na text,neither\n",
        "columns.csv": CSV.replace("text,label", "size,weight"),
        "nan.csv": "sentence1,sentence2,score\n" + "".join(f"a {n},b,nan\n" for n in range(9)),
        "pairs.tsv": "".join(f"a first text {n}\tand a second {n}\t{n % 5}.5\n" for n in range(30)),
        "lines.txt": "".join(f"{'yes' if n % 2 else 'no'} it is number {n}\n" for n in range(30)),
        "asked.csv": "ask,passage,reply\n" + "".join(f"Who?,King {n} reads.,King {n}\n" for n in range(30)),
        "a.en": "one\ntwo\nthree\n",
        "a.de": "eins\nzwei\n",
        "tags.conll": "Paul B-PER\nis O\n\n" * 9,
        "other-tags.conll": "Rome B-LOC\nis O\n",
        "questions.json": json.dumps({"data": [{"paragraphs": [{"context": "here", "qas": []}]}]}),
        "bad.toml": "task = text",
    }
    for name, text in written.items():
        (tmp_path / name).write_text(text)
    return tmp_path


CASES = {
    "texts longer than the model reads": (
        ["text-generation", "--arch", "gpt2", "--data", "lines.txt", *SHORT, "--set", "block_size=9"],
        "block_size is 9; this model reads 8 tokens at most",
    ),
    "an empty file": (
        ["text-classification", *LSTM, "--data", "empty.csv"],
        "empty.csv is empty: give a file with text in it",
    ),
    "nothing but a header": (
        ["text-classification", *LSTM, "--data", "header.csv"],
        "header.csv: no example to use: there are no rows",
    ),
    "one class only": (
        ["text-classification", *LSTM, "--data", "one-class.csv"],
        "the training data has only the label 'good'; a classifier needs two classes or more",
    ),
    "a label that is missing in train": (
        ["text-classification", *LSTM, "--data", "good.csv", "--dev", "other-label.csv"],
        "label 'neither' is not one of the model's (bad, good); it is missing in the training data, "
        "or the wrong column was taken",
    ),
    "a tag that is missing in train": (
        ["token-classification", *LSTM, "--data", "tags.conll", "--dev", "other-tags.conll"],
        "tag 'B-LOC' is not one of the model's",
    ),
    "a text column that is absent": (
        ["text-classification", *LSTM, "--data", "good.csv", "--columns", "text=review"],
        "good.csv has no column 'review': give --columns text=NAME, one of 'text', 'label'",
    ),
    "a role that there is not": (
        ["text-classification", *LSTM, "--data", "good.csv", "--columns", "txt=text"],
        "columns: there is no role 'txt': use text, pair, label",
    ),
    "scores that are none": (
        ["sentence-similarity", *LSTM, "--data", "nan.csv"],
        "nan.csv: no example to use: skipped 9: a score that is not a finite number (first: nan.csv, line 2)",
    ),
    "parallel files of unequal length": (
        ["translation", *SEQ2SEQ, "--data", "a.en", "--data", "a.de"],
        "a.en has 3 lines and a.de has 2: give files in which each line translates the other's",
    ),
    "questions that are none": (["question-answering", *BERT, "--data", "questions.json"], "questions.json"),
    "a file that there is not": (
        ["text-classification", *LSTM, "--data", "nowhere.csv"],
        "there is no file 'nowhere.csv'",
    ),
    "a text without its pair": (
        ["sentence-similarity", *LSTM, "--data", "pairs.tsv", "--columns", "text=0", "--columns", "label=2"],
        "is learnt from pairs, and the training data has no second text: give --columns pair=NAME",
    ),
    "a task that is like none": (
        ["qqq", *LSTM, "--data", "good.csv"],
        "there is no task 'qqq'; there are: text-classification, token-classification, ",
    ),
    "a task that there is not": (
        ["text-clasification", *LSTM, "--data", "good.csv"],
        "there is no task 'text-clasification'; did you mean 'text-classification'?",
    ),
    "a recipe that there is not": (
        ["nowhere.toml"],
        "nowhere.toml is not there; give a recipe file or the name of a task",
    ),
    "a recipe that is none": (["bad.toml"], "bad.toml is not TOML: "),
    "a kind of model that there is not": (
        ["text-classification", "--arch", "bertt", "--data", "good.csv"],
        "transformer, bert, roberta, distilbert, ",
    ),
    "a column without a role": (
        ["text-classification", *LSTM, "--data", "good.csv", "--columns", "text"],
        "--columns 'text' does not say what a column is; write ROLE=NAME, as in text=text",
    ),
    "a file of names that there is not": (
        ["text-classification", *LSTM, "--data", "good.csv", "--labels", "names.txt"],
        "labels: there is no file 'names.txt'; give one with a name on each line, or negative,positive",
    ),
    "a class without a name": (
        ["text-classification", *LSTM, "--data", "good.csv", "--labels", "no,yes"],
        "label 'bad' has no name: --labels says 0=no, 1=yes; add bad=NAME",
    ),
    "one name for two classes": (
        ["text-classification", *LSTM, "--data", "good.csv", "--labels", "bad=no,good=no"],
        "labels: two names or more, all different, are wanted, as negative,positive, not 'bad=no, good=no'",
    ),
    "a kind of model that cannot": (
        ["question-answering", "--arch", "lstm", "--data", "microworld", "--set", "limit=9"],
        "arch 'lstm' cannot do question-answering; what can: transformer, bert, roberta, distilbert",
    ),
    "a setting that there is not": (
        ["text-classification", *LSTM, "--data", "good.csv", "--set", "batchsize=3"],
        "text-classification has no setting 'batchsize'; near it: batch_size",
    ),
    "a size that there is not": (
        ["text-classification", *LSTM, "--data", "good.csv", "--set", "config.hiden_size=3"],
        "glassformer-rnn has no setting 'hiden_size'; it has: ",
    ),
    "a rate that is a word": (
        ["text-classification", *LSTM, "--data", "good.csv", "--set", "lr=high"],
        "lr is 'high'; it must be a number above 0",
    ),
    "a rate below nothing": (
        ["text-classification", *LSTM, "--data", "good.csv", "--lr", -1],
        "lr is -1.0; it must be a number above 0",
    ),
    "a problem that there is not": (
        ["text-classification", *LSTM, "--data", "good.csv", "--set", "problem_type=regresion"],
        "problem_type is 'regresion'; it must be 'single_label_classification' or 'multi_label_classification' or",
    ),
    "yes for true": (
        ["text-classification", *LSTM, "--data", "good.csv", "--set", "lowercase=yes"],
        "lowercase is 'yes'; it must be true or false",
    ),
    "a number with a letter": (
        ["text-classification", *LSTM, "--data", "good.csv", "--set", "vocab_size=8k"],
        "vocab_size is '8k'; it must be a whole number",
    ),
    "a model beyond this machine": (
        ["text-classification", *LSTM, "--data", "good.csv", "--set", "config.hidden_size=5000000"],
        "parameters, 800,0",
    ),
    "a schedule that there is not": (
        ["text-classification", *LSTM, "--data", "good.csv", "--set", "schedule=cosin"],
        "schedule is 'cosin'; it must be 'linear' or 'cosine' or 'inverse_sqrt' or 'constant' or 'plateau'",
    ),
    "a metric that there is not": (
        ["text-classification", *LSTM, "--data", "good.csv", "--set", "metric=acc"],
        "there is no metric 'acc' to judge by; this task has: loss, accuracy",
    ),
    "a part that there is not": (
        ["text-classification", *BERT, "--data", "good.csv", "--freeze", "embedings"],
        "no part of the model is called 'embedings'; near it: embeddings",
    ),
    "a device that there is not": (
        ["text-classification", *LSTM, "--data", "good.csv", "--device", "tpu"],
        "device 'tpu' cannot be used",
    ),
    "a vocabulary that is too small": (
        ["text-classification", *LSTM, "--data", "good.csv", "--set", "vocab_size=3"],
        "vocab_size=3 is too small",
    ),
    "a model that there is not": (
        ["text-classification", "--model", "./nowhere", "--data", "good.csv"],
        "there is no folder './nowhere'",
    ),
    "a variable that is not set": (
        ["text-classification", *LSTM, "--data", "$NO_SUCH_PLACE/train.csv"],
        "set the environment variable $NO_SUCH_PLACE to the folder of the data",
    ),
    "a setting that sets nothing": (
        ["text-classification", *LSTM, "--data", "good.csv", "--set", "lr"],
        "'lr' does not set anything; write name=value, e.g. lr=1e-4",
    ),
    "no model at all": (
        ["text-classification", "--data", "good.csv"],
        "say what to train: model (a folder or name) or arch (a fresh one), one of the two",
    ),
    "neither words nor masks": (
        ["fill-mask", "--arch", "bert", "--set", "tokenizer=bpe", "--data", "microworld", "--set", "limit=9"],
        "has no mask token: take a BERT vocabulary",
    ),
}


HINTS = {  # what is tried first, the hint that it is answered with, and what must come of it
    "first words": (
        ["text-classification", *LSTM, "--data", "lines.txt"],
        ["--set", "file_format=first-word"],
    ),
    "a pair": (
        ["sentence-similarity", *LSTM, "--data", "pairs.tsv"],
        ["--columns", "text=0", "--columns", "pair=1", "--columns", "label=2"],
    ),
    "a score of pairs": (
        ["text-classification", *LSTM, "--set", "problem_type=regression", "--data", "pairs.tsv"],
        ["--columns", "text=0", "--columns", "pair=1", "--columns", "label=2"],
    ),
    "names of columns": (
        ["text-classification", *LSTM, "--data", "columns.csv"],
        ["--columns", "text=size", "--columns", "label=weight"],
    ),
    "a file": (["text-classification", *LSTM, "--data", "god.csv"], ["good.csv"]),
}


@pytest.mark.parametrize("what", HINTS)
def test_a_hint_leads_somewhere(glassformer, files, what):
    words, hint = HINTS[what]
    code, _, err = glassformer("train", *words, *FEW, "--out", "run")
    assert code == 1
    assert " ".join(hint) in err
    words = [*words[:-1], *hint] if what == "a file" else [*words, *hint]
    code, _, err = glassformer("train", *words, *FEW, "--out", "run")
    assert code == 0, err


def test_the_columns_of_questions_can_be_named(glassformer, files):
    words = ["train", "question-answering", *BERT, *FEW, "--data", "asked.csv", "--out", "run"]
    code, _, err = glassformer(*words)
    assert code == 1
    assert "give --columns question=NAME, one of 'ask', 'passage', 'reply'" in err
    roles = {"question": "ask", "context": "passage", "answers": "reply"}
    named = [word for role, column in roles.items() for word in ("--columns", f"{role}={column}")]
    code, out, err = glassformer(*words, *named)
    assert code == 0, err
    assert "30 questions have an answer" in out
    code, out, err = glassformer("predict", "run", "--file", "asked.csv", *named, "--json")
    assert code == 0, err
    assert len(out.splitlines()) == 30


@pytest.mark.parametrize("command", ["predict", "eval", "heads"])
def test_a_hint_about_reading_holds_for_every_command_that_reads(glassformer, files, trained, command):
    (files / "bare.csv").write_text("".join(f"{'positive' if n % 2 else 'negative'},some text {n}\n" for n in range(9)))
    words = [command, trained("text-classification/bert"), "--file" if command == "predict" else "--data", "bare.csv"]
    code, _, err = glassformer(*words, "--set", "header=true", "--json")
    assert code == 1
    assert "if its first row is no header, --set header=false" in err
    code, _, err = glassformer(*words, "--set", "header=false", "--json")
    assert code == 0, err


@pytest.mark.parametrize("what", CASES)
def test_one_line_says_what_is_wrong(glassformer, files, what):
    words, message = CASES[what]
    given = words if words[0].endswith(".toml") else [*words[:1], *FEW, *words[1:], "--out", "run"]
    code, _, err = glassformer("train", *given)
    assert code == 1
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err
    assert "unforeseen" not in err
    assert not (files / "run" / "checkpoints").exists()


def test_odd_labels(glassformer, files):
    (files / "long.csv").write_text("text,label\na text," + "x" * 3000 + "\n")
    out = ("--out", "runs/x", *FEW)
    code, _, err = glassformer("train", "text-classification", *LSTM, "--data", "good.csv", "--dev", "long.csv", *out)
    assert (code, err.count("\n")) == (1, 1)
    assert "label 'xxx" in err
    assert "x…" in err
    assert len(err) < 300
    (files / "digits.csv").write_text("text,label\n" + "a text,²\nother text,1\n" * 9)
    assert glassformer("train", "text-classification", *LSTM, "--data", "digits.csv", *out)[0] == 0


def test_a_run_is_not_written_over(glassformer, files):
    words = ["train", "text-classification", *LSTM, *FEW, "--data", "good.csv", "--out", "run"]
    code, out, _ = glassformer(*words)
    assert code == 0
    assert "the model is in run" in out
    before = (files / "run" / "model.safetensors").read_bytes()
    code, _, err = glassformer(*words)
    assert (code, err) == (1, "error: run holds a run: go on with --resume, or choose another --out\n")
    code, _, err = glassformer(*words, "--lr", 0.5, "--resume")
    assert code == 1
    going_on = "glassformer train run/recipe.toml --resume"
    assert err == f"error: run/recipe.toml is another recipe than this one; resume with: {going_on}\n"
    assert (files / "run" / "model.safetensors").read_bytes() == before
    for again in ("run/recipe.toml", "run"):
        code, out, _ = glassformer("train", again, "--resume", "--json")
        assert code == 0
        assert json.loads(out)["steps"] == 1
    code, out, _ = glassformer("train", "run", "--help")
    assert code == 0
    assert "train text-classification [OPTIONS]" in out


def test_a_model_is_not_written_over(glassformer, files, trained):
    base = trained("text-classification/bert")
    words = ["train", "text-classification", *FEW, "--model", base, "--data", "good.csv"]
    code, _, err = glassformer(*words, "--out", base)
    assert code == 1
    assert err == f"error: {base} holds a run: go on with --resume, or choose another --out\n"
    (files / "model").mkdir()
    (files / "model" / "config.json").write_text("{}")
    code, _, err = glassformer(*words, "--out", "model")
    assert (code, err) == (1, "error: model holds a model that would be written over: choose another --out\n")
    code, _, err = glassformer(*words, "--out", "model", "--resume")
    assert code == 1


def test_a_model_of_another_architecture(glassformer, files, trained):
    words = ["train", "question-answering", *FEW, "--data", "microworld", "--set", "limit=9", "--out", "run"]
    code, _, err = glassformer(*words, "--model", trained("text-classification/gru"))
    assert code == 1
    assert "is a glassformer-rnn, which cannot do question-answering; what can: bert, roberta, xlm-roberta, " in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("command", ["train", "predict", "eval"])
def test_a_language_model_given_words_to_mask(glassformer, files, trained, command):
    gpt = trained("text-generation/gpt2")
    words = {
        "train": ["train", "fill-mask", "--model", gpt, "--data", "good.csv", "--out", "run"],
        "predict": ["predict", gpt, "a text", "--task", "fill-mask"],
        "eval": ["eval", gpt, "--data", "good.csv", "--task", "fill-mask"],
    }
    code, _, err = glassformer(*words[command])
    assert code == 1
    assert err.startswith(f"error: {gpt} is a gpt2, which cannot do fill-mask; what can: bert, roberta, xlm-roberta, ")
    assert err.count("\n") == 1
    assert not (files / "run").exists()


def test_two_ways_to_say_how_long(glassformer, files):
    words = ["train", "text-classification", *LSTM, "--data", "good.csv", "--out", "run"]
    code, _, err = glassformer(*words, "--epochs", 1, "--steps", 2)
    assert code == 1
    assert "--epochs and --steps" in err


@pytest.mark.parametrize("arch", [LSTM, BERT])
def test_a_line_of_a_megabyte_is_cut_and_it_is_said(glassformer, files, arch):
    (files / "long.csv").write_text(CSV + "word " * 200_000 + ",good\n")
    code, out, err = glassformer("train", "text-classification", *arch, *FEW, "--data", "long.csv", "--out", "run")
    assert code == 0, err
    (said,) = [line for line in out.splitlines() if "cut off by max_length" in line]
    assert re.match(r"mind: (99\.\d|100) % of the training tokens are cut off", said)


def test_some_scores_that_are_none_are_skipped_and_counted(glassformer, files):
    (path,) = write_examples(files, "scored", 30)
    path.write_text(path.read_text() + "a,b,nan\nc,d,inf\ne,f,\n")
    words = ["train", "sentence-similarity", *LSTM, *FEW, "--data", path, "--out", "run"]
    code, out, err = glassformer(*words)
    assert code == 0, err
    assert "train: skipped 3: a score that is not a finite number (first: " in out
    assert json.loads((files / "run" / "run.json").read_text())["data"]["train"]["skipped"]


TO_BOARD = ["train", "text-classification", *LSTM, *FEW, "--data", "good.csv", "--out", "run", "--tensorboard"]


def test_tensorboard_that_is_not_installed(glassformer, files, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    code, _, err = glassformer(*TO_BOARD)
    assert (code, err) == (1, "error: tensorboard is not installed: pip install tensorboard\n")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of TensorBoard's own making
def test_tensorboard_reads_the_metrics_of_a_run(glassformer, files):
    assert glassformer(*TO_BOARD)[0] == 0
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    board = accumulator.EventAccumulator(str(files / "run" / "tensorboard")).Reload()
    rows = [json.loads(line) for line in (files / "run" / "metrics.jsonl").read_text().splitlines()]
    losses = {row["step"]: row["loss"] for row in rows if "loss" in row}
    assert losses
    assert {one.step: one.value for one in board.Scalars("loss")} == pytest.approx(losses, rel=1e-6)
