"""A tour in two minutes: four models learn three tasks, a BERT fills a mask, a GPT-2 writes, and we look inside.

Run it with `make demo`. Every model is trained by `gf.train` on built-in examples, which need no file.
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from rich import box
from rich.console import Console
from rich.table import Table

import glassformer as gf
from glassformer.jobs.train import Run
from glassformer.view.board import Board
from glassformer.view.inspection import Inspection

TASKS = ("copy", "reverse", "parity")
STEPS, WORD_STEPS = 400, 300
SOURCE = "31415926"  # eight digits: whether they were trained on tells nothing about where a model looks

# What a model of a few tens of thousands of weights learns in seconds needs weights that are not near zero at first.
NO_ATTENTION = {"attention": None, "bidirectional": False, "embedding_size": 32, "hidden_size": 128}
NO_ATTENTION |= {"dropout": 0.0, "initializer_range": 0.5}
ATTENTION = {"kind": "gru", "attention": "general", "embedding_size": 32, "hidden_size": 64}
ATTENTION |= {"dropout": 0.0, "initializer_range": 0.3}
TRANSFORMER: dict[str, Any] = {"d_model": 64, "dropout": 0.0, "pre_norm": True, "init_std": 0.1}
TRANSFORMER |= {f"{side}_layers": 2 for side in ("encoder", "decoder")}
TRANSFORMER |= {f"{side}_attention_heads": 2 for side in ("encoder", "decoder")}
TRANSFORMER |= {f"{side}_ffn_dim": 128 for side in ("encoder", "decoder")}
MODELS: dict[str, dict[str, Any]] = {  # settings of gf.train
    "GRU": {"arch": "gru", "lr": 1e-2, "config": NO_ATTENTION},
    "LSTM": {"arch": "lstm", "lr": 1e-2, "config": NO_ATTENTION},
    "attention seq2seq": {"arch": "seq2seq", "lr": 5e-3, "config": ATTENTION},
    "Transformer": {"arch": "transformer", "lr": 2e-3, "config": TRANSFORMER},
}
LOOKS = {"attention seq2seq": "alignment", "Transformer": "cross"}  # the part that shows where the decoder looks
BERT = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
BERT |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "initializer_range": 0.1}
GPT2 = {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64, "initializer_range": 0.1}
GPT2 |= {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
SENTENCES: dict[str, dict[str, Any]] = {
    "fill-mask": {"arch": "bert", "lr": 3e-3, "packing": False, "config": BERT},
    "text-generation": {"arch": "gpt2", "lr": 4e-3, "block_size": 64, "config": GPT2},
}
MASKED, PROMPT = "Sophie repaired a chair in the [MASK].", "Oskar helped"
TITLE = "Right of 400 unseen sequences, in every digit"
NOTE = """
Every model had {steps} steps of 64 sequences. The GRU and the LSTM have no attention: one vector must hold the whole
sequence. For parity they need not remember it: they carry one bit along. The attention seq2seq learns that by luck (of
the seeds 0, 1 and 2 from 0 alone), a Transformer of two layers in so few steps from none of them."""


def train(task: str, out: Path, *, seed: int, steps: int, **settings: Any) -> Run:
    """One run on the built-in examples, scored at its end."""
    plan = {"seed": seed, "steps": steps, "eval_every": steps, "save_every": steps}
    return gf.train(task=task, out=out, device="cpu", log=lambda _: None, **plan, **settings)


def learn_digits(task: str, name: str, out: Path, *, steps: int, seed: int) -> Run:
    return train(task, out, steps=steps, seed=seed, batch_size=64, head="text2text-generation", **MODELS[name])


def digits(folder: Path, *, steps: int, seed: int) -> tuple[Table, list[Board]]:
    """Every model on every task: the table, and pictures of those that attend."""
    table, pictures = Table("task", "model", title=TITLE, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0)), []
    for column in ("right", "parameters", "seconds"):
        table.add_column(column, justify="right")
    for task in TASKS:
        for name in MODELS:
            began = time.perf_counter()
            run = learn_digits(task, name, folder / f"{task}-{name}", steps=steps, seed=seed)
            model = run.load()
            size = sum(weight.numel() for weight in model.parameters())
            shown = f"{run.scores['dev']['exact_match']:.1%}", f"{size:,}", f"{time.perf_counter() - began:.1f}"
            table.add_row(task, name, *shown, end_section=name == "Transformer")
            if name in LOOKS and task != "parity":
                target = SOURCE if task == "copy" else SOURCE[::-1]
                seen = gf.inspect(model, gf.load_tokenizer(run.folder), f"{SOURCE}=", target=target)
                pictures.append(replace(seen.chosen(LOOKS[name], None, None), name=f"{task}: {name}"))
    return table, pictures


def sentences(folder: Path, *, steps: int, seed: int) -> tuple[str, str]:
    """What a BERT puts in the place of a mask, and how a GPT-2 goes on."""
    for task, settings in SENTENCES.items():
        plan = {"data": "microworld:short", "batch_tokens": 1024, "seed": seed, "steps": steps}
        train(task, folder / task, **plan, **settings)
    fills = gf.pipeline("fill-mask", folder / "fill-mask")(MASKED)
    (text,) = gf.pipeline("text-generation", folder / "text-generation")(PROMPT, max_new_tokens=12)
    words = ", ".join(f"{one['token_str']} {one['score']:.0%}" for one in fills)
    return words, text["generated_text"].splitlines()[0]


def main() -> None:
    options = arguments()
    torch.set_num_threads(1)  # models as small as these gain nothing from more
    console, began = Console(), time.perf_counter()
    steps, word_steps = (max(1, round(options.scale * count)) for count in (STEPS, WORD_STEPS))
    with TemporaryDirectory() as name:
        folder = Path(name)
        table, pictures = digits(folder, steps=steps, seed=options.seed)
        console.print(table)
        console.print(" ".join(NOTE.format(steps=steps).split()), style="dim", highlight=False)
        fills, text = sentences(folder, steps=word_steps, seed=options.seed)
    console.print(f"\nBERT fills    {MASKED}\n              {fills}", markup=False, highlight=False)
    console.print(f"GPT-2 goes on {PROMPT} … {text.removeprefix(PROMPT).strip()}", markup=False, highlight=False)

    caption = "Each row is a token being written, each column a token of the source."
    Inspection(title="Where the decoder looks", caption=caption, boards=pictures).save(options.out)
    console.print(f"\nCross-attention: {options.out}   ({time.perf_counter() - began:.0f} s in all)", highlight=False)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seed", type=int, default=0, help="of all that is random (default 0)")
    parser.add_argument("--out", type=Path, default=Path("out/demo.html"), help="the page (default out/demo.html)")
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of steps, e.g. 0.01 for a trial")
    return parser.parse_args()


if __name__ == "__main__":
    main()
