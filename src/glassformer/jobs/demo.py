"""What the demo shows: every built-in model on its examples, where one of them looks, and a small one that learns."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from glassformer.hub.load import load, load_tokenizer
from glassformer.view.heatmap import heatmap
from glassformer.view.inspection import Inspection
from glassformer.view.tour import ModelAnswers, Picture
from glassformer.zoo import PREFIX, Card, score_of

from .inspect import inspect
from .predict import Pipeline, pipeline
from .run_folder import CURVES
from .train import Run, train

SHOWN = 2  # examples of a model, of all that its card has
WRITTEN = {"do_sample": True, "temperature": 0.8, "top_p": 0.9, "seed": 0, "max_new_tokens": 40}
ALIGNER, ALIGNED = "zoo:gru-attention-en-de", "Sophie repaired a chair in the garden."

# What a model of a hundred thousand weights learns in seconds needs weights that are not near zero at first.
SIZES = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
SIZES |= {"max_position_embeddings": 64}
START = {"initializer_range": 0.1, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
LEARNER: dict[str, Any] = {"task": "text-classification", "arch": "bert", "data": "microworld", "device": "cpu"}
LEARNER |= {"batch_size": 32, "lr": 2e-3, "config": {**SIZES, **START}}  # settings of gf.train
UNSEEN = ("Simon was not worried but content.", "The concert was not at all pleasing.")
SCORED, LOGGED = 6, 60  # times in a run


def answered(card: Card) -> ModelAnswers:
    """A built-in model on the first of its examples."""
    name = PREFIX + card["name"]
    pipe = pipeline(model=name)
    rows = [(_asked(one), _answer(pipe, one)) for one in card.get("examples", [])[:SHOWN]]
    return ModelAnswers(name=name, task=card["task"], about=card["about"], score=score_of(card), answers=rows)


def _asked(example: Mapping[str, str]) -> str:
    kind = f" ({example['condition']})" if "condition" in example else ""
    return example["inputs"] + kind + (f"\n{example['pair']}" if "pair" in example else "")


def _answer(pipe: Pipeline, example: Mapping[str, str]) -> str:
    """What a model says, in words."""
    text, pair = example["inputs"], example.get("pair")
    match pipe.task.name:
        case "text-classification":
            return ", ".join(f"{one['label']} {one['score']:.0%}" for one in pipe(text))
        case "token-classification":
            found = pipe(text, aggregation_strategy="first")
            return " · ".join(f"{text[one['start'] : one['end']]} {one['entity_group']}" for one in found)
        case "question-answering":
            found = pipe(question=text, context=pair)
            return f"{found['answer']} {found['score']:.0%}"
        case "fill-mask":
            return " · ".join(f"{one['token_str']} {one['score']:.0%}" for one in pipe(text, top_k=3))
        case "translation":
            return str(pipe(text)[0]["translation_text"])
        case "summarization":
            return str(pipe(text)[0]["summary_text"])
        case "text-generation":
            options = {**WRITTEN, "condition": example["condition"]} if "condition" in example else WRITTEN
            return " ".join(str(pipe(text, **options)[0]["generated_text"]).split())
        case "sentence-embedding":
            return f"cosine {pipeline('sentence-similarity', pipe.folder)((text, pair)):.2f}"
    return str(pipe(text))


def alignment() -> Inspection:
    """Which words of the source a translator looks at while it writes."""
    return inspect(load(ALIGNER), load_tokenizer(ALIGNER), ALIGNED, name=ALIGNER)


def alignment_picture(seen: Inspection) -> Picture:
    board = seen.boards[0]
    drawn = heatmap(
        board.values[0, 0],
        rows=board.down.texts,
        columns=board.columns_of_cells(),
        title=f"{ALIGNER}: {ALIGNED}",
        axes=("written", "read"),
        form=".2f",
    )
    text = "A recurrent network that translates, and looks back at the source before each token that it writes."
    return Picture(title="Where a model looks", text=text, svg=drawn, caption="Each row sums to one.")


def learn(runs: Path, *, steps: int, log: Callable[[str], None]) -> Run:
    """Train a small BERT from nothing to tell the tone of a sentence, in a new run folder."""
    scored, logged = (max(1, steps // times) for times in (SCORED, LOGGED))
    plan: dict[str, Any] = {"steps": steps, "eval_every": scored, "log_every": logged, "save_every": steps}
    return train(**LEARNER, **plan, out=free_folder(runs), log=log)


def free_folder(runs: Path) -> Path:
    """runs/demo, or the first of runs/demo-2, runs/demo-3 … that is not there."""
    number = 1
    while (found := runs / ("demo" if number == 1 else f"demo-{number}")).exists():
        number += 1
    return found


def learnt_answers(run: Run) -> ModelAnswers:
    """What the new model makes of sentences that it has not seen."""
    pipe, done = pipeline(model=run.folder), run.outcome.progress
    return ModelAnswers(
        name=str(run.folder),
        task="learnt just now",
        about=f"A small BERT from nothing: {done.step:,} steps, {done.tokens:,} tokens, {done.seconds:.0f} s.",
        score=f"accuracy {run.scores['dev']['accuracy']:.4g}",
        answers=[(text, _answer(pipe, {"inputs": text})) for text in UNSEEN],
    )


def curves_picture(run: Run) -> Picture:
    text = "Loss and scores of the run, which the studio’s screen Train shows as well."
    drawn = (run.folder / CURVES).read_text("utf-8")
    return Picture(title="How it learnt", text=text, svg=drawn, caption=f"{run.folder}: recipe, curves, model")
