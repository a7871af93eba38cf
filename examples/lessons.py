"""What the demo teaches: digits to copy, to reverse and to add up, and the sentences of a small grammar.

B batch, S source length, T target length.
"""

import random
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

PAD, START, END, MASK = 0, 1, 2, 3
FIRST = 4  # the first digit, or the first word
Batch = dict[str, Tensor]


class Lesson(Protocol):
    """Batches with "labels" (PAD where nothing is asked), and when the model has learnt enough."""

    def batch(self) -> Batch: ...

    def enough(self, step: int, right: float) -> bool: ...


# Digits in, digits out: copy them, reverse them, or say whether their sum is odd.

SHORTEST, LONGEST = 4, {"copy": 8, "reverse": 8, "parity": 20}
DIGITS = ["pad", "start", "end", "mask", *"0123456789"]


def draw(task: str, count: int, shortest: int, longest: int, chance: Generator, *, unseen: bool = False) -> Batch:
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
    mask = (source != PAD).long()
    return {"input_ids": source, "attention_mask": mask, "decoder_input_ids": before, "labels": target}


@dataclass
class Digits:
    """A curriculum: one or two digits first, two more once 95 % is right; enough when all is, twice running."""

    task: str
    chance: Generator
    longest: int = 2
    faultless: int = 0  # checks at full length, one after the other

    def batch(self) -> Batch:
        full = self.longest == LONGEST[self.task]
        return draw(self.task, 64, SHORTEST if full else 1, self.longest, self.chance)

    def enough(self, step: int, right: float) -> bool:
        if step % 20:
            return False
        full = self.longest == LONGEST[self.task]
        self.faultless = self.faultless + 1 if full and right == 1 else 0
        if right > 0.95:
            self.longest = min(self.longest + 2, LONGEST[self.task])
        return self.faultless == 2


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
    """For example: anna the baker bakes small pies in her kitchen."""
    name, job, size = chance.choice([*PEOPLE]), chance.choice([*JOBS]), chance.choice(["small", "fine"])
    does, *choices = JOBS[job]
    thing, place = (chance.choice(words.split()) for words in choices)
    return [name, "the", job, does, size, thing, "in", PEOPLE[name], place]


WORDS = ["[PAD]", "[START]", "[END]", "[MASK]"]
WORDS += sorted({word for seed in range(1000) for word in sentence(random.Random(seed))})


def encode(text: list[str]) -> list[int]:
    return [WORDS.index(word) for word in text]


@dataclass
class Sentences:
    """Sentences of the grammar, to fill in (masked, for BERT) or to go on with (for GPT-2)."""

    masked: bool
    chance: random.Random

    def batch(self) -> Batch:
        ids = torch.tensor([[START, *encode(sentence(self.chance)), END] for _ in range(64)])  # (B, T)
        if not self.masked:
            return {"input_ids": ids[:, :-1], "labels": ids[:, 1:]}
        hidden = torch.tensor([self.chance.random() < 0.2 for _ in range(ids.numel())]).view_as(ids)
        hidden &= ids >= FIRST
        return {"input_ids": ids.masked_fill(hidden, MASK), "labels": ids.masked_fill(~hidden, PAD)}

    def enough(self, step: int, right: float) -> bool:
        del step, right  # a word can often be chosen freely, so there is no "all right"
        return False
