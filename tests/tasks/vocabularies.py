"""Small tokenizers of every kind, learnt from a few lines in several scripts; and questions in their words."""

import random
from functools import cache

from language import tokenizer_of
from tokenizers import processors

from glassformer.data.examples import SquadAnswer, SquadExample
from glassformer.text.tokenizer import Tokenizer

TEXT = """\
Anna Lindqvist met Mr. O'Neill in New York, near the old harbour; it was 1984-85.
The unbelievably unfriendly Wolfgang re-opened his café in Zürich: "Ça va?"
北京 和 上海 很大。 Что ты читаешь? 😀 naïve Straße
"""
SIZES = {"wordpiece": 160, "bpe": 320, "roberta": 320, "unigram": 90, "character": 120}
ROBERTA = {"bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "</s>", "unk_token": "<unk>"}


@cache
def small_tokenizer(kind: str) -> Tokenizer:
    """roberta is a byte-level BPE that puts <s> A </s></s> B </s> around a pair, and has no segments."""
    learnt = "bpe" if kind == "roberta" else kind
    tokenizer = tokenizer_of(TEXT.splitlines() * 3, learnt, SIZES[kind])
    if kind == "roberta":
        tokenizer.add_tokens(["<s>", "</s>", "<unk>"], special_tokens=True)
        for role, token in ROBERTA.items():
            setattr(tokenizer, role, token)
        ends = [(token, tokenizer.convert_tokens_to_ids(token)) for token in ("</s>", "<s>")]
        tokenizer.backend.rust.post_processor = processors.RobertaProcessing(*ends)
        tokenizer.refresh()
    return tokenizer


def asked(seed, count=6, *, without=0.3):
    """Questions about contexts of very unequal length, some without answer."""
    chance = random.Random(seed)
    words = TEXT.split()
    found = []
    for number in range(count):
        context = " ".join(chance.choices(words, k=chance.choice([1, 4, 30, 60])))
        start = chance.randrange(len(context.split()))
        offset = sum(len(word) + 1 for word in context.split()[:start])
        answer = SquadAnswer(" ".join(context.split()[start : start + chance.choice([1, 2, 3])]), offset)
        answers = () if chance.random() < without else (answer,)
        found.append(
            SquadExample(str(number), " ".join(chance.choices(words, k=chance.choice([1, 5]))), context, answers)
        )
    return found
