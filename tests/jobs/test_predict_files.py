"""Prediction over many files: one output row for each input row, in order, whatever the format and whatever dies."""

import csv
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import glassformer as gf
from glassformer.data.input_rows import RowReport
from glassformer.data.row_files import ERROR
from glassformer.jobs.pools import LocalPool, ProcessPool
from glassformer.jobs.predict_files import Reading, predict_files
from glassformer.jobs.predictor import PredictorSpec
from glassformer.jobs.ray_pool import RayPool
from glassformer.jobs.shard_folder import ShardFolder, input_files
from glassformer.jobs.tasks import task_class

CLASSIFIER = "text-classification/gru"
TEXTS = ["Paul is glad.", 'She said: "no,\tthanks"', "naïve Straße 北京", "", "=1+1"]
SETTINGS = {"model": "a"}


def rows_of(count, start=0):
    return [{"id": start + at, "text": f"{TEXTS[at % len(TEXTS)]} {start + at}"} for at in range(count)]


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    match path.suffix:
        case ".parquet":
            kinds = pa.schema([("id", pa.int16()), ("text", pa.large_string())])
            pq.write_table(pa.Table.from_pylist(rows, kinds), path)
        case ".jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        case ".csv":
            with path.open("w", encoding="utf-8", newline="") as file:
                table = csv.DictWriter(file, ["id", "text"])
                table.writeheader()
                table.writerows(rows)
        case ".tsv":
            lines = [f"{row['id']}\t{row['text']}".replace("\tthanks", " thanks") for row in rows]
            path.write_text("\n".join(["id\ttext", *lines]) + "\n", encoding="utf-8")


def read(path):
    match path.suffix:
        case ".parquet":
            return pq.read_table(path).to_pylist()
        case ".jsonl":
            return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        case ".csv":
            with path.open(encoding="utf-8", newline="") as file:
                return list(csv.DictReader(file))
    lines = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    return [dict(zip(lines[0], line, strict=True)) for line in lines[1:]]


def run(folder, out, pool, *, sources=None, on_progress=lambda _done, _total: None, **options):
    """All files of a folder; the outcome."""
    files = input_files(sources or [f"{folder}/**/*.*"])
    reading = Reading(wanted=task_class("text-classification").input_columns, **options)
    to = ShardFolder(Path(out), SETTINGS)
    with to.claimed():
        return predict_files(files, to, reading, pool, report=RowReport(), on_progress=on_progress)


@pytest.fixture
def spec(trained):
    return PredictorSpec(str(trained(CLASSIFIER)), "text-classification")


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet"])
def test_each_row_stands_in_its_place_with_its_prediction(spec, tmp_path, ending):
    for number in range(3):
        write(
            tmp_path / "in" / f"part-{number}.{ending}", rows_of(300 * number, start=1000 * number)
        )  # one has no rows
    outcome = run(tmp_path / "in", tmp_path / "out", lambda: LocalPool(spec))
    assert (outcome.files, outcome.rows, outcome.errors, outcome.failed) == (3, 900, 0, {})
    pipe = gf.pipeline(spec.task, spec.model)
    for number in range(3):
        given = read(tmp_path / "in" / f"part-{number}.{ending}")
        found = read(tmp_path / "out" / f"part-{number}.{ending}")
        assert [{name: row[name] for name in ("id", "text")} for row in found] == given
        alone = pipe([row["text"] for row in given])
        assert [row["predicted_label"] for row in found] == [one["label"] for one in alone]
        assert [float(row["predicted_score"]) for row in found] == [pytest.approx(one["score"]) for one in alone]
        assert not any(row[ERROR] for row in found)
    if ending == "parquet":
        kinds = [pq.read_schema(path) for path in sorted((tmp_path / "out").glob("*.parquet"))]
        assert kinds[0] == kinds[1] == kinds[2]  # also of the one without rows: the folder is one table
        assert (kinds[0].field("id").type, kinds[0].field("text").type) == (pa.int16(), pa.large_string())
        assert pq.read_table(tmp_path / "out").num_rows == 900


def test_a_row_that_cannot_be_read_or_predicted_is_a_row_with_an_error(trained, tmp_path):
    lines = ['{"text": "a"}', "no json", "", '{"text": ["a"]}', json.dumps({"text": "long " * 3000}), '{"text": "b"}']
    write(tmp_path / "in" / "good.csv", rows_of(2))
    (tmp_path / "in" / "bad.jsonl").write_text("\n".join(lines))
    (tmp_path / "in" / "bad.csv").write_text('id,text\n1,a\n2\n3,"b"\n4,c,d\n')
    spec = PredictorSpec(str(trained(CLASSIFIER)), "text-classification", options={"truncation": False})
    outcome = run(tmp_path / "in", tmp_path / "out", lambda: LocalPool(spec))
    errors = [row[ERROR] for row in read(tmp_path / "out" / "bad.jsonl")]
    assert errors[0] is None
    assert errors[1:3] == ["line 2: not valid JSON", "column 'text' holds no text but list"]
    assert "tokens" in errors[3]  # refused by the model; its neighbours are not
    assert errors[4] is None
    rows = read(tmp_path / "out" / "bad.csv")
    assert [row["id"] for row in rows] == ["1", "", "3", ""]
    assert [bool(row["predicted_label"]) for row in rows] == [True, False, True, False]
    assert rows[1][ERROR] == "line 3: a wrong number of fields"
    assert (outcome.rows, outcome.errors) == (11, 5)


def test_a_run_goes_on_where_it_was_broken_off(spec, tmp_path):
    for number in range(3):
        write(tmp_path / "in" / "day=1" / f"{number}.csv", rows_of(10, start=10 * number))
    folder, out = tmp_path / "in" / "day=1", tmp_path / "out"

    def stop(done, total):
        if done > total / 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(folder, out, lambda: LocalPool(spec), on_progress=stop)
    assert sorted(path.name for path in out.iterdir()) == ["0.csv", "_done", "_predict.json"]  # nothing half
    (out / ".2.csv.1.1.partial").write_text("of a run that was killed")
    before = (out / "0.csv").stat().st_mtime_ns
    outcome = run(folder, out, lambda: LocalPool(spec))
    assert (outcome.files, outcome.kept, outcome.rows) == (3, 1, 30)
    assert (out / "0.csv").stat().st_mtime_ns == before
    assert [row["id"] for number in range(3) for row in read(out / f"{number}.csv")] == [str(at) for at in range(30)]
    assert not list(out.rglob(".*"))
    write(folder / "1.csv", rows_of(5))  # which has changed since, and one is new
    write(folder / "3.csv", rows_of(7))
    assert run(folder, out, lambda: LocalPool(spec)).kept == 2
    assert [len(read(out / f"{number}.csv")) for number in range(4)] == [10, 5, 10, 7]
    assert run(folder, out, lambda: pytest.fail("there is nothing to do")).kept == 4


def test_what_cannot_be_done_is_said_in_one_line(glassformer, trained, tmp_path):
    folder, out = trained(CLASSIFIER), tmp_path / "out"
    for number in range(2):
        write(tmp_path / f"{number}.parquet", rows_of(3))
    (tmp_path / "broken.parquet").write_bytes((tmp_path / "0.parquet").read_bytes()[:-9])
    write(tmp_path / "0.csv", rows_of(3))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    data = ["--data", tmp_path / "0.parquet"]
    cases = [
        (["--data", tmp_path / "no-*.csv", "--out", out], "there is no file"),
        ([*data, "--out", out, "--columns", "text=body"], "has no column 'body'"),
        ([*data, "--out", out, "--columns", "question=text"], "no role 'question': use text, pair, label"),
        (["--data", tmp_path / "broken.parquet", "--out", out], "is not a parquet file"),
        ([*data, "--out", tmp_path / "full"], "holds other files, as mine.txt"),
        ([*data, "--out", tmp_path / "0.csv"], "is a file: name a folder"),
        (data, "give --out as well"),
        (["--out", out], "give --data as well"),
        (["--ray"], "give --data as well"),
        ([*data, "--out", out, "a text"], "give texts or --data, not both"),
        ([*data, "--out", out, "--format", "text"], "use csv, tsv, jsonl, parquet"),
        ([*data, "--out", out, "--set", "qqq=1"], "no option 'qqq'"),
        ([*data, "--data", tmp_path / "0.csv", "--format", "jsonl", "--out", out], "both be written to 0.jsonl"),
        (["--data", "-", "--out", out], "save it to one first"),
        (["--data", "nowhere://a/*.csv", "--out", out], "nowhere://a/*.csv cannot be opened"),
        (["a text", "--format", "parquet"], "is for files"),
    ]
    for words, message in cases:
        code, printed, err = glassformer("predict", folder, *words)
        assert (code, printed, err.count("\n")) == (1, "", 1), words
        assert message in err
        assert not out.exists()  # of what is refused nothing stays, and another try is not in its way
    code, printed, _ = glassformer("predict", folder, "--data", f"file://{tmp_path}/*.parquet", "--out", out, "--json")
    counts = json.loads(printed)
    assert code == 1  # a file failed, and the others were done
    assert {name: counts[name] for name in ("files", "files_failed", "rows")} == {
        "files": 3,
        "files_failed": 1,
        "rows": 6,
    }
    code, _, err = glassformer("predict", folder, *data, "--out", out, "--set", "top_k=2")
    assert code == 1
    assert "holds other predictions (options was {} and is {'top_k': 2}): choose another --out" in err


@pytest.mark.parametrize(
    ("name", "row", "predicted"),
    [
        (
            "question-answering/bert",
            {"question": "Who?", "context": "Paul is glad."},
            ["answer", "end", "score", "start"],
        ),
        ("translation/gru", {"source": "Paul is glad.", "target": "?"}, ["translation_text"]),
        ("token-classification/bert", {"tokens": ["Paul", "is"], "n": 1}, [""]),
        ("sentence-similarity/bert/mean", {"sentence1": "Paul", "sentence2": "Anna", "score": 1.0}, [""]),
        ("feature-extraction/distilbert", {"review": "Paul", "label": "x"}, [""]),
        ("fill-mask/bert", {"body": "Paul is [MASK] ."}, [""]),
    ],
)
def test_every_task_knows_its_columns(glassformer, trained, tmp_path, name, row, predicted):
    (tmp_path / "rows.jsonl").write_text((json.dumps(row) + "\n") * 2)
    words = ["predict", trained(name), "--data", tmp_path / "rows.jsonl"]
    extra = ["--set", "max_new_tokens=3"] if "translation" in name else []
    for form in ("jsonl", "parquet"):
        code, _, err = glassformer(*words, "--out", tmp_path / form, "--format", form, *extra)
        assert code == 0, err
        found = read(tmp_path / form / f"rows.{form}")
        columns = sorted(f"predicted_{field}".rstrip("_") for field in predicted)
        assert sorted(found[1].keys() - row.keys() - {ERROR}) == columns
        assert {name: found[1][name] for name in row} == row
        assert found[1][ERROR] is None


# Workers that die.


class KillOnce:
    """Kills a process when so much is done."""

    def __init__(self, pids, share):
        self.pids, self.share, self.killed = pids, share, False

    def __call__(self, done, total):
        if not self.killed and done >= self.share * total:
            self.killed = True
            os.kill(self.pids()[0], signal.SIGKILL)


def same_rows(one, other):
    assert one.keys() == other.keys()
    for name, rows in one.items():
        assert [{**row, "predicted_score": 0} for row in rows] == [{**row, "predicted_score": 0} for row in other[name]]
        scores = [[row["predicted_score"] for row in found] for found in (rows, other[name])]
        assert scores[0] == pytest.approx(scores[1])


def outputs(out):
    return {path.name: read(path) for path in sorted(out.glob("*.jsonl"))}


@pytest.fixture
def many(tmp_path):
    for number in range(4):
        write(tmp_path / "in" / f"{number}.jsonl", rows_of(1500, start=1500 * number))
    return tmp_path / "in"


@pytest.mark.slow
def test_a_process_that_is_killed_costs_no_row(spec, tmp_path, many):
    run(many, tmp_path / "here", lambda: LocalPool(spec))
    children = lambda: [child.pid for child in multiprocessing.active_children()]  # noqa: E731
    kill = KillOnce(children, 0.2)
    outcome = run(many, tmp_path / "there", lambda: ProcessPool(spec, jobs=2), on_progress=kill)
    assert kill.killed
    assert (outcome.rows, outcome.errors) == (6000, 0)
    same_rows(outputs(tmp_path / "there"), outputs(tmp_path / "here"))


@pytest.fixture(scope="module")
def cluster():
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=100 << 20)
    yield ray
    ray.shutdown()


RAYS_OWN = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning")


@pytest.mark.slow
@RAYS_OWN
def test_an_actor_that_is_killed_costs_no_row(cluster, spec, tmp_path, many):
    run(many, tmp_path / "here", lambda: LocalPool(spec))
    pools = []

    def start():
        pools.append(RayPool(spec, jobs=2))
        return pools[0]

    kill = KillOnce(lambda: pools[0].pids, 0.2)
    outcome = run(many, tmp_path / "there", start, on_progress=kill)
    assert kill.killed
    assert (outcome.rows, outcome.errors) == (6000, 0)
    same_rows(outputs(tmp_path / "there"), outputs(tmp_path / "here"))
    assert cluster.is_initialized()  # which was there before, and stays


@pytest.mark.slow
@RAYS_OWN
def test_what_an_actor_refuses_is_said_in_one_line(cluster, spec, glassformer, tmp_path, many):
    words = ["predict", spec.model, "--data", many / "0.jsonl", "--out", tmp_path / "out", "--ray", "--jobs", 1]
    code, _, err = glassformer(*words, "--set", "qqq=1")
    assert code == 1
    assert "no option 'qqq'" in err.splitlines()[-1]
    assert "Traceback" not in err
    code, out, _ = glassformer(*words, "--json")
    assert (code, json.loads(out)["rows"]) == (0, 1500)


@pytest.mark.slow
def test_a_run_that_is_killed_goes_on(spec, tmp_path, many):
    words = ["predict", spec.model, "--data", f"{many}/*.jsonl", "--out", tmp_path / "out", "--json"]
    command = [sys.executable, "-m", "glassformer", *map(str, words)]
    first = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    while first.poll() is None and not (tmp_path / "out" / "_done" / "1.jsonl.json").exists():
        time.sleep(0.002)
    first.kill()
    first.wait()
    done = len(outputs(tmp_path / "out"))
    assert done >= 2
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    assert json.loads(found.stdout)["rows"] == 6000
    assert json.loads(found.stdout)["files_kept"] >= 2
    run(many, tmp_path / "here", lambda: LocalPool(spec))
    same_rows(outputs(tmp_path / "out"), outputs(tmp_path / "here"))
