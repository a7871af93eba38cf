"""A tour in about a minute: four models learn three tasks, a BERT fills a mask, a GPT-2 writes, and we look inside.

Run it with `make demo`. B batch, S source length, T target length, H heads, V vocabulary.
"""

import argparse
import random
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F
from lessons import (
    DIGITS,
    END,
    FIRST,
    LONGEST,
    PAD,
    SHORTEST,
    START,
    WORDS,
    Batch,
    Digits,
    Lesson,
    Sentences,
    draw,
    encode,
)
from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from torch import Generator, Tensor, nn

import glassformer as gf
from glassformer.view.board import Board, Tokens
from glassformer.view.inspection import Inspection

MODELS = ("GRU", "LSTM", "attention seq2seq", "Transformer")
ATTENTION = {"attention seq2seq": "alignment", "Transformer": "cross"}  # the part that shows where the decoder looks
STEPS, WORD_STEPS = 400, 200  # at most, for every model
TITLE = "What is right of 1000 unseen sequences, written greedily"
NOTE = """
Every model had at most {steps} steps of 64 sequences. The GRU and the LSTM have no attention: one vector must hold
the whole sequence. Parity is taught from short to long; without that curriculum all four stay at chance (50 %).
With it the GRU and the LSTM learn to carry one bit along. The attention seq2seq does so by luck: of the seeds 0, 1
and 2 only 0. A Transformer of two layers does not get there in so few steps from any of them."""


def train(
    model: nn.Module, lesson: Lesson, *, lr: float, steps: int, watch: Callable[[int, float], None] | None = None
) -> int:
    """Adam with a learning rate that falls to zero; the number of steps taken."""
    optimizer = torch.optim.Adam(model.parameters(), lr=lr, fused=True)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=steps)
    model.train()
    for step in range(1, steps + 1):
        batch = lesson.batch()
        labels = batch.pop("labels")  # (B, T)
        logits = model(**batch).logits  # (B, T, V)
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()

        right = (logits.argmax(-1) == labels)[labels != PAD].float().mean().item()
        if watch:
            watch(step, right)
        if lesson.enough(step, right):
            break
    model.eval()
    return step


def build(name: str) -> tuple[nn.Module, float]:
    """A new encoder-decoder and its learning rate."""
    if name == "Transformer":
        side = {"layers": 2, "attention_heads": 2, "ffn_dim": 128}
        model = gf.build(
            "glassformer-transformer",
            "text2text-generation",
            vocab_size=len(DIGITS),
            d_model=64,
            dropout=0.0,
            pre_norm=True,
            decoder_start_token_id=START,
            **{f"encoder_{key}": value for key, value in side.items()},
            **{f"decoder_{key}": value for key, value in side.items()},
        )
        return model, 2e-3
    attends = name in ATTENTION
    model = gf.build(
        "glassformer-seq2seq",
        "text2text-generation",
        vocab_size=len(DIGITS),
        kind="lstm" if name == "LSTM" else "gru",
        attention="general" if attends else None,
        bidirectional=attends,
        embedding_size=32,
        hidden_size=64 if attends else 128,
        decoder_start_token_id=START,
        initializer_range=0.3 if attends else 0.5,
    )
    return model, 5e-3 if attends else 1e-2


def write(model: nn.Module, batch: Batch) -> Tensor:
    """What the model writes when left alone, (B, T): the likeliest token, again and again."""
    source, length = (batch["input_ids"], batch["attention_mask"]), batch["labels"].shape[1]
    request = {"eos_token_id": [], "max_new_tokens": length}
    ids = gf.generate(model, None, source[0], attention_mask=source[1], **request)
    return ids[:, 1:]


def score(model: nn.Module, task: str, chance: Generator) -> tuple[float, float]:
    """The shares of tokens and of whole sequences that are right, on a thousand unseen ones."""
    batch = draw(task, 1000, SHORTEST, LONGEST[task], chance, unseen=True)
    right, asked = write(model, batch) == batch["labels"], batch["labels"] != PAD
    return right[asked].float().mean().item(), (right | ~asked).all(1).float().mean().item()


def look(model: nn.Module, name: str, task: str, chance: Generator) -> Board:
    """Where the decoder looks while it writes one unseen sequence."""
    batch = draw(task, 1, LONGEST[task], LONGEST[task], chance, unseen=True)
    seen = gf.inspect(model, None, batch["input_ids"][0].tolist(), target=write(model, batch)[0].tolist())
    board = seen.chosen(ATTENTION[name], None, None)
    written, read = (
        Tokens(texts=[DIGITS[token] for token in tokens.ids], ids=tokens.ids) for tokens in (board.down, board.across)
    )
    return replace(board, name=f"{task}: {name}", down=written, across=read)


def build_bert() -> nn.Module:
    return gf.build(
        "bert",
        "fill-mask",
        vocab_size=len(WORDS),
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )


def build_gpt2() -> nn.Module:
    sizes = {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 32}
    dropout = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    return gf.build("gpt2", "text-generation", vocab_size=len(WORDS), **sizes, **dropout)


@torch.no_grad()
def fill(model: nn.Module, text: str) -> str:
    """The five likeliest words at [MASK], and how likely each is."""
    words = text.split()
    logits = model(torch.tensor([[START, *encode(words), END]])).logits[0, 1 + words.index("[MASK]")]  # (V,)
    best = logits.softmax(-1).topk(5)
    return ", ".join(f"{WORDS[token]} {chance:.0%}" for chance, token in zip(*map(Tensor.tolist, best), strict=True))


def go_on(model: nn.Module, text: str) -> str:
    """What follows the text, up to the end of the sentence."""
    prompt = torch.tensor([[START, *encode(text.split())]])
    ids = gf.generate(model, None, prompt, max_new_tokens=12, eos_token_id=END)[0, prompt.shape[1] :]
    return " ".join(WORDS[token] for token in ids.tolist() if token >= FIRST)


class Bar:
    """One progress bar, used anew for every model."""

    def __init__(self, console: Console) -> None:
        columns = TextColumn("{task.description:32}"), BarColumn(), TextColumn("{task.fields[right]:>4.0%} right")
        self.progress = Progress(*columns, TimeElapsedColumn(), console=console, transient=True)
        self.task = self.progress.add_task("", right=0.0)

    def __call__(self, label: str, steps: int) -> Callable[[int, float], None]:
        self.progress.reset(self.task, description=label, total=steps)
        return lambda step, right: self.progress.update(self.task, completed=step, right=right)


def digits(bar: Bar, steps: int, seed: int) -> tuple[Table, list[Board]]:
    """Every model on every task: the table, and pictures of those that attend."""
    table, pictures = Table("task", "model", title=TITLE, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0)), []
    for column in ("tokens", "sequences", "parameters", "steps", "seconds"):
        table.add_column(column, justify="right")
    for task in LONGEST:
        for name in MODELS:
            torch.manual_seed(seed)
            model, lr = build(name)
            began = time.perf_counter()
            lesson = Digits(task, Generator().manual_seed(seed))
            taken = train(model, lesson, lr=lr, steps=steps, watch=bar(f"{task} · {name}", steps))
            seconds = time.perf_counter() - began
            tokens, sequences = score(model, task, Generator().manual_seed(seed + 1))
            size = sum(weight.numel() for weight in model.parameters())
            shown = f"{tokens:.1%}", f"{sequences:.1%}", f"{size:,}", str(taken), f"{seconds:.1f}"
            table.add_row(task, name, *shown, end_section=name == MODELS[-1])
            if name in ATTENTION and task != "parity":
                pictures.append(look(model, name, task, Generator().manual_seed(seed + 2)))
    return table, pictures


def main() -> None:
    options = arguments()
    torch.set_num_threads(1)  # models as small as these gain nothing from more
    console, began = Console(), time.perf_counter()
    steps, word_steps = (max(1, round(options.scale * count)) for count in (STEPS, WORD_STEPS))
    bar = Bar(console)
    with bar.progress:
        table, pictures = digits(bar, steps, options.seed)
        torch.manual_seed(options.seed)
        bert, gpt2 = build_bert(), build_gpt2()
        for name, model in {"BERT": bert, "GPT-2": gpt2}.items():
            lesson = Sentences(name == "BERT", random.Random(options.seed))
            train(model, lesson, lr=3e-3, steps=word_steps, watch=bar(f"sentences · {name}", word_steps))
    console.print(table)
    console.print(" ".join(NOTE.format(steps=steps).split()), style="dim", highlight=False)

    masked, prompt = "anna the baker bakes small [MASK] in her kitchen", "omar the sailor"
    console.print(f"\nBERT fills    {masked}\n              {fill(bert, masked)}", markup=False, highlight=False)
    console.print(f"GPT-2 goes on {prompt} … {go_on(gpt2, prompt)}", markup=False, highlight=False)

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
