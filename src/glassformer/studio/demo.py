"""The studio's own models: one small model of each family, trained on the micro-world at first start and then kept."""

import json
import os
import queue
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from multiprocessing import get_context, parent_process
from multiprocessing.process import BaseProcess
from multiprocessing.queues import Queue
from pathlib import Path
from threading import Thread
from typing import Any, TypeAlias

from filelock import FileLock, Timeout

from glassformer.data.corpus import cache_home
from glassformer.files import read_json
from glassformer.jobs.progress import shown
from glassformer.jobs.recipe import RECIPE

from .runs import last_step

Models = Mapping[str, Mapping[str, Any]]
Log = Callable[[str], None]
Wanted: TypeAlias = "Queue[tuple[str, Mapping[str, Any]] | None]"  # a name and its settings; None: no more
Made: TypeAlias = "Queue[tuple[str, float, str | None]]"  # a name, seconds, and what went wrong

# What a model of a few tens of thousands of weights learns in seconds needs weights that are not near zero at first,
# and no dropout.
Sizes = dict[str, Any]
SPREAD: Sizes = {"initializer_range": 0.1}
RECURRENT = {"embedding_size": 64, "hidden_size": 64, "dropout": 0.0, "initializer_range": 1.0}
BERT: Sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
BERT |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "max_position_embeddings": 64, **SPREAD}
TRANSFORMER = {"d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128}
GPT: Sizes = {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128}
GPT |= {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
STORIES = {"task": "text-generation", "data": "microworld", "limit": 2000, "block_size": 64}
TRANSLATION = {"task": "translation", "data": "microworld:short", "tokenizer": "bpe", "schedule": "linear"}

MODELS: Models = {  # folder -> the settings of gf.train
    "lstm": {"task": "text-classification", "data": "microworld", "arch": "lstm", "steps": 750, "batch_size": 32}
    | {"lr": 5e-3, "config": {**RECURRENT, "initializer_range": 0.1}},
    "gru": {**STORIES, "arch": "gru", "steps": 200, "batch_tokens": 2048, "lr": 1e-2}
    | {"config": {**RECURRENT, "hidden_size": 128}},
    "seq2seq": {**TRANSLATION, "arch": "gru", "steps": 550, "batch_tokens": 512, "lr": 1e-2, "ema": 0.99}
    | {"config": {**RECURRENT, "hidden_size": 80}},
    "transformer": {**TRANSLATION, "arch": "transformer", "steps": 550, "batch_tokens": 512, "lr": 5e-3}
    | {"average": 1, "config": {**TRANSFORMER, "dropout": 0.0}},
    "bert": {"task": "text-classification", "data": "microworld", "arch": "bert", "steps": 700, "batch_size": 24}
    | {"lr": 2e-3, "config": BERT},
    "bert-mask": {"task": "fill-mask", "data": "microworld:short", "arch": "bert", "packing": False, "limit": 6000}
    | {"steps": 1000, "batch_tokens": 512, "lr": 3e-3, "config": BERT},
    "bert-entities": {"task": "token-classification", "data": "microworld", "arch": "bert", "steps": 300}
    | {"batch_size": 32, "lr": 2e-3, "config": BERT},
    "bert-answers": {"task": "question-answering", "data": "microworld:short", "limit": 8000, "arch": "bert"}
    | {"steps": 700, "batch_size": 32, "lr": 3e-3, "config": BERT},
    "gpt": {**STORIES, "arch": "gpt2", "steps": 320, "batch_tokens": 1024, "lr": 4e-3, "config": GPT},
}


def demo_models(models: Models = MODELS, *, log: Log = print, home: Path | None = None) -> list[Path]:
    """The folders of these models; those that are missing are trained first, several at a time.

    They are kept under a name made from the recipes, so that others are trained anew. One studio trains while another
    that wants the same models waits; what is not whole when training is broken off is removed.
    """
    home = (home or cache_home() / "studio") / recipes_hash(models)
    if _missing(home, models):
        home.mkdir(parents=True, exist_ok=True)
        with _alone(home, log):
            _train(home, _missing(home, models), log)
    return [home / name for name in models]


def recipes_hash(models: Models) -> str:
    """A name for the models that these recipes make with this version."""
    from glassformer import __version__

    return f"{__version__}-{blake2b(json.dumps(models).encode(), digest_size=4).hexdigest()}"


def _missing(home: Path, models: Models) -> Models:
    return {name: settings for name, settings in models.items() if not (home / name).is_dir()}


@contextmanager
def _alone(home: Path, log: Log) -> Iterator[None]:
    """While this studio trains, others wait."""
    lock = FileLock(home / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        log("another studio is training its models: waiting for it")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


# --- training, in processes of one thread each: small models gain little from more ----------------------------------


def _train(home: Path, models: Models, log: Log) -> None:
    """Train them all; `home` is locked."""
    making = home / ".making"
    shutil.rmtree(making, ignore_errors=True)  # of a studio that was killed
    context = get_context("spawn")
    wanted, made = context.Queue(), context.Queue()
    for name in sorted(models, key=lambda name: -models[name]["steps"]):
        wanted.put((name, models[name]))
    workers = [
        context.Process(target=_work, args=(making, home, wanted, made), daemon=True)
        for _ in range(min(len(models), os.cpu_count() or 1))
    ]
    try:
        with _deaf_to_ctrl_c():
            for worker in workers:
                wanted.put(None)
                worker.start()
        if models:
            log(f"training {len(models)} small models for the studio, this once: {', '.join(models)}")
        with shown("training") as on_progress:
            _follow(making, models, workers, made, log, on_progress)
    finally:
        for worker in workers:
            worker.terminate()
            worker.join()
        shutil.rmtree(making, ignore_errors=True)


def _follow(
    making: Path,
    models: Models,
    workers: Sequence[BaseProcess],
    made: Made,
    log: Log,
    on_progress: Callable[[int, int], None],
) -> None:
    """Tell how far the workers are, until all models are made."""
    total, done = sum(settings["steps"] for settings in models.values()), set[str]()
    while len(done) < len(models):
        try:
            name, seconds, error = made.get(timeout=0.5)
            if error:
                raise ValueError(f"the model {name!r} could not be trained: {error}")
            done.add(name)
            log(f"{name}: {score_of(making.parent / name)} ({seconds:.0f} s)")
        except queue.Empty:
            if not all(worker.is_alive() or worker.exitcode == 0 for worker in workers):
                raise ValueError("training was killed; is there enough memory? Start again to go on with it") from None
        steps = {name: last_step(making / name) for name in models if name not in done}
        on_progress(sum(models[name]["steps"] for name in done) + sum(steps.values()), total)


def score_of(folder: Path) -> str:
    """The score of a run that says most, in words."""
    scores = read_json(folder / "run.json")["scores"]["dev"]
    return next(f"{name} {scores[name]:.3g}" for name in ("bleu", "perplexity", "f1", "loss") if name in scores)


@contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """Processes that are started here do not hear Ctrl-C; the studio ends them itself."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _work(making: Path, home: Path, wanted: Wanted, made: Made) -> None:
    """Train one model after another; runs in a process of its own."""
    import torch

    torch.set_num_threads(1)
    Thread(target=_end_with, args=(parent_process(),), daemon=True).start()
    sys.stderr = sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # the studio tells of the progress
    while (order := wanted.get()) is not None:
        name, settings = order
        began = time.perf_counter()
        try:
            make(making / name, home / name, settings)
        except Exception as error:
            made.put((name, 0.0, str(error) or type(error).__name__))
            return
        made.put((name, time.perf_counter() - began, None))


def _end_with(studio: BaseProcess) -> None:
    """Nobody is left to work for once the studio was killed."""
    studio.join()
    os._exit(1)


def make(making: Path, place: Path, settings: Mapping[str, Any]) -> None:
    """Train one model beside its place, and put it there when it is whole."""
    from glassformer.jobs.train import train

    steps = settings["steps"]
    run = train(
        **{"eval_every": max(1, steps // 4), "save_every": steps, **settings},
        out=str(making),
        device="cpu",
        log=lambda _: None,
    )
    if run.outcome.stopped:  # Ctrl-C in a terminal is heard here too
        raise ValueError("it was stopped")
    shutil.rmtree(making / "checkpoints")
    recipe = making / RECIPE
    recipe.write_text(recipe.read_text("utf-8").replace(str(making), str(place)), "utf-8")
    making.rename(place)
