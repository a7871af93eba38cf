"""Pretraining on one GPU: tokens a second of our compiled steps, beside a plain GPT and transformers, compiled.

B batch, T length, D model width, H heads, V vocabulary.
"""

import gc
import itertools
import json
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import glassformer as gf
from glassformer.data.batches import Prefetch, Schedule
from glassformer.data.blocks import Blocks, Windows
from glassformer.tasks.fill_mask import FillMask, MaskedTexts
from glassformer.tasks.task import Task
from glassformer.tasks.text_generation import PackedStream, TextGeneration
from glassformer.text.tokenizer import Tokenizer
from glassformer.train.layout import lay_out
from glassformer.train.optimiser import build_optimiser
from glassformer.train.plan import Plan, Precision
from glassformer.train.processes import Processes
from glassformer.train.transforms import compiled
from glassformer.train.update import OptimizerStep, updates

from .measure import Row, in_turns, row_of_rates

Step = Callable[[], object]
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
DTYPES: dict[str, Precision] = {"cuda": "bf16", "cpu": "fp32"}  # half precision is no CPU's strength
RATE, BETAS, DECAY, CLIP = 6e-4, (0.9, 0.95), 0.1, 1.0


@dataclass(frozen=True)
class Size:
    """Of a batch, of the models, and of the vocabularies: GPT-2's, the same rounded up, and BERT's."""

    gpt_batch: int = 32
    gpt_length: int = 1024
    bert_batch: int = 256
    bert_length: int = 128
    width: int = 768
    layers: int = 12
    heads: int = 12
    vocabulary: int = 50257
    rounded: int = 50304  # to a multiple of 64, as nanoGPT does
    bert_vocabulary: int = 30522
    steps: int = 20  # in one turn


TINY = Size(2, 64, 4, 32, 32, 2, 4, 301, 320, 200, 2)


class PlainBlock(nn.Module):
    """A pre-norm layer with one matrix for queries, keys and values."""

    def __init__(self, width: int, heads: int, *, bias: bool) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width, bias=bias), nn.LayerNorm(width, bias=bias)
        self.qkv = nn.Linear(width, 3 * width, bias=bias)
        self.out = nn.Linear(width, width, bias=bias)
        self.up = nn.Linear(width, 4 * width, bias=bias)
        self.down = nn.Linear(4 * width, width, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)  # (B, H, T, K)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class PlainGpt(nn.Module):
    """GPT-2 in plain PyTorch, without dropout; with its biases, or without, as nanoGPT trains it unless told."""

    def __init__(self, size: Size, *, bias: bool) -> None:
        super().__init__()
        self.token = nn.Embedding(size.rounded, size.width)
        self.place = nn.Embedding(size.gpt_length, size.width)
        self.blocks = nn.ModuleList(PlainBlock(size.width, size.heads, bias=bias) for _ in range(size.layers))
        self.norm = nn.LayerNorm(size.width, bias=bias)
        for weight in self.parameters():
            if weight.dim() > 1:
                nn.init.normal_(weight, std=0.02)

    def forward(self, ids: Tensor, targets: Tensor) -> Tensor:
        x = self.token(ids) + self.place(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        scores = F.linear(self.norm(x), self.token.weight)
        return F.cross_entropy(scores.flatten(0, 1).float(), targets.flatten())


def training_step(model: nn.Module, task: Task[Any, Any], items: Any, **settings: Any) -> tuple[Step, Prefetch[Any]]:
    """One step as our loop takes it, by a plan of these settings: a batch made in the background, the gradient clipped,
    AdamW."""
    device = next(model.parameters()).device.type
    plan = Plan(steps=1, lr=RATE, precision=DTYPES[device], clip=CLIP, **settings)
    if not plan.checkpointing:  # whose layers are compiled already
        compiled(model)
    task.compile()
    layout = lay_out(model.train(), task, plan, Processes())
    optimiser = build_optimiser(model, RATE, weight_decay=DECAY, betas=BETAS)
    stepper = OptimizerStep(layout, plan, optimiser)
    schedule = Schedule(items.lengths, plan.budget, seed=0)
    feed = Prefetch(updates(task, items, schedule, plan, after=0, processes=Processes()))

    def step() -> object:
        update = next(feed)
        return stepper(update, update.count, 1.0)

    return step, feed


def peer_step(model: nn.Module, loss: Callable[..., Tensor], batches: Iterable[tuple[Tensor, Tensor]]) -> Step:
    """One step as a careful user would write it; its batches wait on the device."""
    weights = list(model.parameters())
    groups: list[dict[str, Any]] = [
        {"params": [weight for weight in weights if weight.dim() > 1], "weight_decay": DECAY},
        {"params": [weight for weight in weights if weight.dim() < 2], "weight_decay": 0.0},
    ]
    optimiser = torch.optim.AdamW(groups, lr=RATE, betas=BETAS, fused=True)
    feed, device = itertools.cycle(batches), weights[0].device.type
    model.train()

    def step() -> object:
        with torch.autocast(device, torch.bfloat16, enabled=DTYPES[device] == "bf16"):
            value = loss(*next(feed))
        value.backward()
        nn.utils.clip_grad_norm_(weights, CLIP)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        return value

    return step


def turn(step: Step, steps: int, device: str) -> Callable[[], float]:
    """So many steps, and the seconds each took."""

    def run() -> float:
        wait(device)
        start = time.perf_counter()
        for _ in range(steps):
            step()
        wait(device)
        return (time.perf_counter() - start) / steps

    return run


def wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def toy_tokenizer(size: int) -> Tokenizer:
    """BERT's special tokens and made-up words."""
    with tempfile.TemporaryDirectory() as folder:
        words = [*SPECIAL, *(f"w{number}" for number in range(size - len(SPECIAL)))]
        (Path(folder) / "vocab.txt").write_text("\n".join(words))
        (Path(folder) / "config.json").write_text('{"model_type": "bert"}')
        return Tokenizer.from_folder(folder)


def random_ids(count: int, vocabulary: int) -> np.ndarray:
    return np.random.default_rng(0).integers(len(SPECIAL), vocabulary, count).astype(np.int32)


def gpt_shape(size: Size) -> dict[str, Any]:
    shape = {"n_embd": size.width, "n_layer": size.layers, "n_head": size.heads, "n_positions": size.gpt_length}
    still = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    return {**shape, **still, "bos_token_id": 0, "eos_token_id": 0}


def our_gpt(size: Size, vocabulary: int, device: str) -> tuple[Step, Prefetch[Any]]:
    model = gf.build("gpt2", "text-generation", vocab_size=vocabulary, **gpt_shape(size)).to(device)
    task = TextGeneration(toy_tokenizer(200), block_size=size.gpt_length)
    ids = random_ids(size.gpt_batch * size.gpt_length * 8 + 1, size.vocabulary)
    items = PackedStream(Windows(ids, size.gpt_length), bytes_per_token=4.0)
    return training_step(model, task, items, batch_size=size.gpt_batch)


def gpt_batches(size: Size, device: str) -> list[tuple[Tensor, Tensor]]:
    """Ids and the tokens after them, (B, T) each."""
    ids = torch.from_numpy(random_ids(8 * size.gpt_batch * (size.gpt_length + 1), size.vocabulary)).long().to(device)
    return [(rows[:, :-1], rows[:, 1:]) for rows in ids.view(8, size.gpt_batch, size.gpt_length + 1)]


def plain_gpt(size: Size, device: str, *, bias: bool) -> Step:
    model = PlainGpt(size, bias=bias).to(device)
    return peer_step(model, torch.compile(model), gpt_batches(size, device))


def transformers_gpt(size: Size, device: str) -> Step:
    import transformers

    config = transformers.GPT2Config(vocab_size=size.vocabulary, use_cache=False, **gpt_shape(size))
    model = transformers.GPT2LMHeadModel(config).to(device)
    fast = torch.compile(model)
    batches = gpt_batches(size, device)
    return peer_step(model, lambda ids, _: fast(input_ids=ids, labels=ids).loss, batches)


def bert_task(size: Size) -> tuple[FillMask, MaskedTexts]:
    task = FillMask(toy_tokenizer(size.bert_vocabulary), max_length=size.bert_length)
    stream = random_ids(8 * size.bert_batch * (size.bert_length - 2), size.bert_vocabulary)
    first, last = (np.array([SPECIAL.index(token)]) for token in ("[CLS]", "[SEP]"))
    return task, MaskedTexts(Blocks(stream, size.bert_length - 2, before=first, after=last), num_truncated=0)


def bert_shape(size: Size) -> dict[str, int]:
    shape = {"hidden_size": size.width, "num_hidden_layers": size.layers, "num_attention_heads": size.heads}
    return {**shape, "intermediate_size": 4 * size.width, "vocab_size": size.bert_vocabulary}


def our_bert(size: Size, device: str) -> tuple[Step, Prefetch[Any]]:
    model = gf.build("bert", "fill-mask", **bert_shape(size)).to(device)
    return training_step(model, *bert_task(size), batch_size=size.bert_batch)


def transformers_bert(size: Size, device: str) -> Step:
    """It scores every place; where nothing is masked the label is -100."""
    import transformers

    model = transformers.BertForMaskedLM(transformers.BertConfig(**bert_shape(size))).to(device)
    fast = torch.compile(model)

    def batches() -> Iterator[tuple[Tensor, Tensor]]:
        task, items = bert_task(size)
        for rows in np.arange(8 * size.bert_batch).reshape(8, -1):
            batch = task.batch(items, rows)
            ids = batch.inputs["input_ids"]
            labels = torch.full((ids.numel(),), -100).index_copy(0, batch.targets["places"], batch.targets["words"])
            yield ids.to(device), labels.view_as(ids).to(device)

    return peer_step(model, lambda ids, labels: fast(input_ids=ids, labels=labels).loss, list(batches()))


def speeds(work: str, steps: dict[str, Step], size: Size, tokens: int, rounds: int, device: str) -> dict[str, float]:
    """Tokens a second of each; the first steps, in which it is compiled, are told apart."""
    for name, step in steps.items():
        tell(work, name, first_5_steps_s=round(5 * turn(step, 5, device)(), 2))
    seconds = in_turns({name: turn(step, size.steps, device) for name, step in steps.items()}, rounds)
    for name, value in seconds.items():
        tell(work, name, tokens_per_s=round(tokens / value), step_ms=round(1000 * value, 2))
    return {name: tokens / value for name, value in seconds.items()}


def tell(work: str, who: str, **found: float) -> None:
    print(json.dumps({"work": work, "who": who, **found}, ensure_ascii=False), flush=True)


def gpt(size: Size, rounds: int, device: str) -> list[Row]:
    """Our two vocabularies beside three peers."""
    work = f"GPT-2 {size.gpt_batch}×{size.gpt_length}, {DTYPES[device]}"
    ours = {f"ours, {words} words": our_gpt(size, words, device) for words in (size.rounded, size.vocabulary)}
    peers = {
        f"a plain GPT without biases, {size.rounded} words": plain_gpt(size, device, bias=False),
        f"a plain GPT, {size.rounded} words": plain_gpt(size, device, bias=True),
        f"transformers, {size.vocabulary} words": transformers_gpt(size, device),
    }
    steps = {name: step for name, (step, _) in ours.items()} | peers
    try:
        speed = speeds(work, steps, size, size.gpt_batch * size.gpt_length, rounds, device)
    finally:
        for _, feed in ours.values():
            feed.close()
    return [
        row_of_rates(f"{work}, {mine}", speed[mine], speed[peer], peer, "tokens/s") for mine in ours for peer in peers
    ]


def bert(size: Size, rounds: int, device: str) -> list[Row]:
    """Ours scores the masked places only."""
    work = f"BERT-base, masked words, {size.bert_batch}×{size.bert_length}, {DTYPES[device]}"
    step, feed = our_bert(size, device)
    try:
        steps = {"ours": step, "transformers": transformers_bert(size, device)}
        speed = speeds(work, steps, size, size.bert_batch * size.bert_length, rounds, device)
    finally:
        feed.close()
    return [row_of_rates(work, speed["ours"], speed["transformers"], "transformers", "tokens/s")]


PARTS = {"gpt": gpt, "bert": bert}


def run(rounds: int = 5, *, tiny: bool = False, parts: Sequence[str] = tuple(PARTS)) -> list[Row]:
    """Everyone compiled, and everyone's steps in turns; on a CPU only tiny models."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and not tiny:
        raise SystemExit("there is no GPU here: add --tiny to try the code out")
    torch.set_float32_matmul_precision("high")
    rows = []
    for part in parts:
        rows += PARTS[part](TINY if tiny else Size(), rounds, device)
        gc.collect()  # models and optimisers of the part before
        torch.compiler.reset()
        if device == "cuda":
            torch.cuda.empty_cache()
    return rows
