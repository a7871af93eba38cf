"""A tour in about a minute: four models learn three tasks, a BERT fills a mask, a GPT-2 writes, and we look inside.

Run it with `make demo`. B batch, S source length, T target length, V vocabulary.
"""

import argparse
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from torch import Generator, Tensor, nn

import glassformer as gf
from glassformer.generate.greedy import greedy
from glassformer.view.heatmap import Heatmap, page

PAD, START, END, MASK = 0, 1, 2, 3
FIRST = 4  # the first digit, or the first word
Batch = dict[str, Tensor]


# The loop: any model, any lesson.


class Lesson(Protocol):
    """What a model is taught: batches with "labels" (PAD where nothing is asked), and when it is enough."""

    def batch(self) -> Batch: ...

    def enough(self, step: int, right: float) -> bool: ...


def train(
    model: nn.Module,
    lesson: Lesson,
    *,
    lr: float,
    steps: int,
    watch: Callable[[int, float], None] = lambda step, right: None,
) -> int:
    """Adam, with a rate that falls to zero; returns the steps taken."""
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
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
        watch(step, right)
        if lesson.enough(step, right):
            break
    model.eval()
    return step


# Digits in, digits out: copy them, reverse them, or say whether their sum is odd.

SHORTEST, LONGEST = 4, {"copy": 8, "reverse": 8, "parity": 20}


def draw(
    task: str, count: int, shortest: int, longest: int, chance: Generator, *, unseen: bool = False
) -> Batch:
    """Random digits and what is to be written; one sequence in seven is never trained on: the unseen ones."""
    drawn = 8 * count + 50 if unseen else count
    lengths = torch.randint(shortest, longest + 1, (drawn, 1), generator=chance)
    digits = torch.randint(10, (drawn, longest + 1), generator=chance)  # one more place, for END
    place = torch.arange(longest + 1)
    digits = digits.masked_fill(place >= lengths, 0)
    mark = (digits * (3**place % 7)).sum(1) + lengths[:, 0]  # modulo 7, it tells nothing of the sum's parity
    chosen = (mark % 7 == 0) == unseen
    digits, lengths = digits[chosen][:count], lengths[chosen][:count]

    def ids(rows: Tensor) -> Tensor:
        return (rows + FIRST).masked_fill(place == lengths, END).masked_fill(place > lengths, PAD)

    source = target = ids(digits)  # (B, S)
    if task == "reverse":
        target = ids(digits.gather(1, (lengths - 1 - place).clamp(min=0)))
    if task == "parity":
        target = FIRST + digits.sum(1, keepdim=True) % 2  # (B, 1)
    before = F.pad(target[:, :-1], (1, 0), value=START)  # what the decoder has written before each label
    return {
        "input_ids": source,
        "attention_mask": source != PAD,
        "decoder_input_ids": before,
        "labels": target,
    }


@dataclass
class Digits:
    """A curriculum: one or two digits first, longer sequences once 95 % is right, the end when all is."""

    task: str
    chance: Generator
    longest: int = 2

    def batch(self) -> Batch:
        full = self.longest == LONGEST[self.task]
        return draw(self.task, 128, SHORTEST if full else 1, self.longest, self.chance)

    def enough(self, step: int, right: float) -> bool:
        if step % 20 or right <= 0.95:
            return False
        done = self.longest == LONGEST[self.task] and right == 1.0
        self.longest = min(self.longest + 2, LONGEST[self.task])
        return done


def build(name: str) -> tuple[nn.Module, float]:
    """A new model and its learning rate; the first two have no attention: one vector must hold all."""
    if name == "Transformer":
        sides = {
            f"{side}_{key}": value
            for side in ("encoder", "decoder")
            for key, value in {"layers": 2, "attention_heads": 4, "ffn_dim": 128}.items()
        }
        model = gf.build(
            "glassformer-transformer",
            "text2text-generation",
            vocab_size=FIRST + 10,
            d_model=64,
            dropout=0.0,
            pre_norm=True,
            **sides,
        )
        return model, 1e-3
    attends = name == "Attention seq2seq"
    model = gf.build(
        "glassformer-seq2seq",
        "text2text-generation",
        vocab_size=FIRST + 10,
        kind="lstm" if name == "LSTM" else "gru",
        attention="general" if attends else None,
        bidirectional=attends,
        embedding_size=32,
        hidden_size=64 if attends else 128,
        initializer_range=0.5,
    )
    return model, 5e-3 if attends else 1e-2


def write(model: nn.Module, batch: Batch) -> Tensor:
    """What the model writes by itself, (B, T): the likeliest token, again and again."""
    start, length = batch["decoder_input_ids"][:, :1], batch["labels"].shape[1]
    return greedy(
        model, batch["input_ids"], batch["attention_mask"], start_ids=start, max_new_tokens=length
    )[:, 1:]


def score(model: nn.Module, task: str, chance: Generator) -> tuple[float, float]:
    """The shares of tokens and of whole sequences that are right, on a thousand unseen ones."""
    batch = draw(task, 1000, SHORTEST, LONGEST[task], chance, unseen=True)
    labels = batch["labels"]
    right, asked = write(model, batch) == labels, labels != PAD
    return right[asked].float().mean().item(), (right | ~asked).all(1).float().mean().item()


def look(model: nn.Module, name: str, task: str, chance: Generator) -> Heatmap:
    """Where the decoder looks while it writes one unseen sequence."""
    batch = draw(task, 1, LONGEST[task], LONGEST[task], chance, unseen=True)
    written = write(model, batch)
    point = "decoder.layers.1.cross_attention.pattern" if name == "Transformer" else "decoder.attention.pattern"
    with torch.no_grad(), gf.record(model, point) as seen:
        model(input_ids=batch["input_ids"], decoder_input_ids=F.pad(written[:, :-1], (1, 0), value=START))
    pattern = seen[point][0]  # (T, S), or (H, T, S)
    return Heatmap(
        matrix=(pattern.mean(0) if pattern.dim() == 3 else pattern).numpy(),
        rows=[digit(token) for token in written[0].tolist()],
        columns=[digit(token) for token in batch["input_ids"][0].tolist()],
        title=f"{task.capitalize()}, {name}",
        caption="last layer, mean of its 4 heads" if pattern.dim() == 3 else "Luong's “general” attention",
        row_axis="written",
        column_axis="read",
    )


def digit(token: int) -> str:
    return {PAD: "·", START: "start", END: "end", MASK: "mask"}.get(token, str(token - FIRST))


# Words: a small grammar in which who you are decides what you do, with what, and where.

JOBS = {
    "baker": ("bakes", "bread cakes pies", "kitchen shop"),
    "farmer": ("grows", "corn apples beans", "field garden"),
    "sailor": ("catches", "crabs shrimps eels", "boat harbour"),
    "teacher": ("reads", "books letters poems", "school library"),
    "painter": ("paints", "faces flowers clouds", "studio garden"),
}
PEOPLE = {"anna": "her", "mary": "her", "ruth": "her", "tom": "his", "paul": "his", "omar": "his"}


def sentence(chance: random.Random) -> list[str]:
    name, job = chance.choice(list(PEOPLE)), chance.choice(list(JOBS))
    does, things, places = JOBS[job]
    thing, place = chance.choice(things.split()), chance.choice(places.split())
    return f"{name} the {job} {does} {chance.choice(['small', 'fine'])} {thing} in {PEOPLE[name]} {place}".split()


WORDS = sorted({word for seed in range(2000) for word in sentence(random.Random(seed))})
WORD_ID = {"[MASK]": MASK} | {word: FIRST + number for number, word in enumerate(WORDS)}


def encode(words: list[str]) -> list[int]:
    return [WORD_ID[word] for word in words]


@dataclass
class Sentences:
    """Sentences of the grammar, to fill in (BERT) or to go on with (GPT-2)."""

    masked: bool
    seed: int
    chance: random.Random = field(init=False)
    holes: Generator = field(init=False)

    def __post_init__(self) -> None:
        self.chance, self.holes = random.Random(self.seed), Generator().manual_seed(self.seed)

    def batch(self) -> Batch:
        ids = torch.tensor([[START, *encode(sentence(self.chance)), END] for _ in range(64)])  # (B, T)
        if not self.masked:
            return {"input_ids": ids[:, :-1], "labels": ids[:, 1:]}
        hidden = (torch.rand(ids.shape, generator=self.holes) < 0.2) & (ids >= FIRST)
        return {"input_ids": ids.masked_fill(hidden, MASK), "labels": ids.masked_fill(~hidden, PAD)}

    def enough(self, step: int, right: float) -> bool:
        return False
