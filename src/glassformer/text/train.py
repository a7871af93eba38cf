"""Make a vocabulary from text files of any size: WordPiece, byte-level BPE, unigram, words or characters.

Files are streamed: memory grows with the number of different words, never with the length of a file or line.
The same files and options give the same vocabulary.
"""

import io
import json
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Literal, get_args

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors, trainers

from glassformer.text.backend import RustBackend
from glassformer.text.folder import TokenizerSettings, bert_template
from glassformer.text.rust import MOST_TOKENS
from glassformer.text.special import BERT, GPT2, NAMES
from glassformer.text.tokenizer import Tokenizer
from glassformer.text.wordpiece import is_ideograph, is_punctuation

LOG = logging.getLogger("glassformer")

Kind = Literal["wordpiece", "bpe", "unigram", "word", "wordpunct", "character"]
Progress = Callable[[str, int, int], None]  # what is being done, bytes read so far, bytes in all
Lines = Callable[[str], Iterator[str]]  # the lines of the text, told what they are read for
Named = Mapping[str, str]  # special tokens by role

SEQUENCE = {"pad_token": "<pad>", "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
SPECIAL: dict[Kind, dict[str, str]] = {
    "wordpiece": {name: BERT[name] for name in ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")},
    "bpe": {**GPT2, "pad_token": "<pad>"},  # padding with the end token would teach a model never to stop
    "unigram": SEQUENCE,
    "word": SEQUENCE,
    "wordpunct": SEQUENCE,
    "character": SEQUENCE,
}
WORD_OR_SIGN = r"\w+(?:['’-]\w+)*|\.{2,}|-{2,}|[^\w\s]"  # don't, state-of-the-art, …; other punctuation by itself
LONGEST_LINE = 1 << 16  # characters; a longer line is broken at whitespace
LAST_SPACE = re.compile(r"\s(?=\S*\Z)")
MOST_BYTES = 1 << 30  # beyond this, every k-th line stands for all


def train(
    files: Sequence[str | Path],
    *,
    kind: Kind,
    vocab_size: int,
    lowercase: bool = False,
    special: Mapping[str, str] | None = None,
    max_bytes: int = MOST_BYTES,
    progress: Progress | None = None,
) -> Tokenizer:
    """Learn a vocabulary of at most `vocab_size` tokens; `special` renames or adds special tokens by role."""
    if kind not in get_args(Kind):
        raise ValueError(f"kind={kind!r} is not known: use one of {', '.join(get_args(Kind))}")
    named = SPECIAL[kind] | check_special(special or {})
    tokens = list(dict.fromkeys(named.values()))
    least = len(tokens) + (256 if kind == "bpe" else 1)
    if vocab_size < least:
        raise ValueError(f"vocab_size={vocab_size} is too small: {kind} with {tokens} needs at least {least}")
    if vocab_size > MOST_TOKENS:
        raise ValueError(f"vocab_size={vocab_size} is more than any model has: {MOST_TOKENS} at most")
    paths = [Path(file) for file in files]
    step = sampling_step(paths, max_bytes)
    lines = partial(sampled_lines, paths, step, progress or (lambda _what, _done, _total: None))
    if next(lines("reading"), None) is None:
        raise ValueError(f"{', '.join(map(str, paths)) or 'no file'}: there is no text in it to learn from")
    rust = untrained(kind, named, lowercase)
    LEARN[kind](rust, lines, vocab_size, named)
    rust.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in tokens])
    finish(rust, kind, named)
    settings = TokenizerSettings(names={name: named.get(name) for name in NAMES}, segments=kind == "wordpiece")
    return Tokenizer(RustBackend(rust), settings)


def check_special(special: Mapping[str, str]) -> dict[str, str]:
    """Special tokens by role, refused if the role is not known."""
    for name, token in special.items():
        if name not in NAMES or not token:
            raise ValueError(f"special token {name}={token!r}: give one of {', '.join(NAMES)}, and a text for it")
    return dict(special)


def sampling_step(paths: Sequence[Path], max_bytes: int) -> int:
    """One line in how many is used: all of them up to `max_bytes` of text."""
    for path in paths:
        if not path.is_file():
            raise ValueError(f"{path} is not a file: give text files to learn from")
    total = sum(path.stat().st_size for path in paths)
    step = max(1, -(-total // max_bytes))
    if step > 1:
        LOG.warning("the files hold %s bytes, over the cap of %s: one line in %s is used", total, max_bytes, step)
    return step


def sampled_lines(paths: Sequence[Path], step: int, progress: Progress, what: str) -> Iterator[str]:
    """Every `step`-th line of all files, without the empty ones."""
    sizes = [path.stat().st_size for path in paths]

    def every_line() -> Iterator[str]:
        for number, path in enumerate(paths):
            for line, place in read_lines(path):
                yield line
                progress(what, sum(sizes[:number]) + place, sum(sizes))
        progress("learning", sum(sizes), sum(sizes))

    return (line for line in islice(every_line(), 0, None, step) if line.strip())


def read_lines(path: Path) -> Iterator[tuple[str, int]]:
    """Lines with the bytes read so far; a giant line comes in parts, broken at whitespace if it has any."""
    carry = ""
    with path.open("rb") as raw, io.TextIOWrapper(raw, encoding="utf-8") as file:
        try:
            while piece := file.readline(LONGEST_LINE):
                line, carry = carry + piece, ""
                if not piece.endswith("\n") and len(piece) == LONGEST_LINE:
                    space = LAST_SPACE.search(line)
                    line, carry = (line[: space.start()], line[space.start() :]) if space else (line, "")
                yield line, raw.tell()
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{path} is not UTF-8 ({error.reason} {error.object[error.start]:#x}): "
                f"iconv -f latin1 -t utf-8 {path.name} > new.txt"
            ) from None
        if carry:
            yield carry, raw.tell()


def untrained(kind: Kind, named: Mapping[str, str], lowercase: bool) -> tokenizers.Tokenizer:
    """The pipeline of a kind, with an empty vocabulary."""
    lower = normalizers.Lowercase() if lowercase else None
    if kind == "wordpiece":
        rust = tokenizers.Tokenizer(models.WordPiece(unk_token=named["unk_token"]))
        rust.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
        rust.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        rust.decoder = decoders.WordPiece(prefix="##")
    elif kind == "bpe":
        rust = tokenizers.Tokenizer(models.BPE())
        rust.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        rust.decoder = decoders.ByteLevel()
    elif kind == "unigram":
        rust = tokenizers.Tokenizer(models.Unigram())
        rust.normalizer = normalizers.Sequence([normalizers.NFKC(), *([lower] if lower else [])])
        rust.pre_tokenizer = pre_tokenizers.Metaspace()
        rust.decoder = decoders.Metaspace()
    elif kind == "word":
        rust = tokenizers.Tokenizer(models.WordLevel(unk_token=named["unk_token"]))
        blank, line_end = tokenizers.Regex(r"[^\S\n]+"), tokenizers.Regex(r"\n")
        rust.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Split(blank, "removed"), pre_tokenizers.Split(line_end, "isolated")]
        )
    elif kind == "wordpunct":
        rust = tokenizers.Tokenizer(models.WordLevel(unk_token=named["unk_token"]))
        rust.pre_tokenizer = pre_tokenizers.Split(tokenizers.Regex(WORD_OR_SIGN), "removed", invert=True)
    else:
        rust = tokenizers.Tokenizer(models.WordLevel(unk_token=named["unk_token"]))
        rust.pre_tokenizer = pre_tokenizers.Split(tokenizers.Regex(r"[\s\S]"), "isolated")
        rust.decoder = decoders.Fuse()
    if lower and kind in ("bpe", "word", "wordpunct", "character"):
        rust.normalizer = lower
    return rust


def count_characters(rust: tokenizers.Tokenizer, lines: Lines) -> list[str]:
    """The characters of a text after normalisation, the most frequent first."""
    raw: Counter[str] = Counter()
    for line in lines("counting characters"):
        raw.update(line)
    counts: Counter[str] = Counter()
    for char, count in raw.items():
        for part in rust.normalizer.normalize_str(char) if rust.normalizer else char:
            counts[part] += count
    return sorted(counts, key=lambda char: (-counts[char], char))


def learn_characters(rust: tokenizers.Tokenizer, lines: Lines, vocab_size: int, named: Named) -> None:
    """Every character is a token."""
    tokens = dict.fromkeys([*named.values(), *count_characters(rust, lines)])
    vocab = {token: index for index, token in enumerate(islice(tokens, vocab_size))}
    rust.model = models.WordLevel(vocab, unk_token=named["unk_token"])


def learn_words(rust: tokenizers.Tokenizer, lines: Lines, vocab_size: int, named: Named) -> None:
    """Every word that the pre-tokenizer finds is a token; the most frequent come first."""
    rust.train_from_iterator(lines("reading"), trainers.WordLevelTrainer(vocab_size=vocab_size, show_progress=False))
    learnt = rust.get_vocab()
    tokens = dict.fromkeys(
        [*named.values(), *sorted(learnt, key=learnt.__getitem__)]
    )  # <unk> may be a word of the text
    vocab = {token: index for index, token in enumerate(islice(tokens, vocab_size))}
    rust.model = models.WordLevel(vocab, unk_token=named["unk_token"])


def learn_wordpiece(rust: tokenizers.Tokenizer, lines: Lines, vocab_size: int, named: Named) -> None:
    """Pieces by frequency, over an alphabet that takes three quarters of the vocabulary at most.

    The trainer numbers characters inside words in an order that changes from run to run. Naming them
    beforehand, as special tokens, makes it the same each time; in the final vocabulary they are like others.
    """
    special = list(dict.fromkeys(named.values()))
    alphabet: list[str] = []
    inside: list[str] = []
    for char in count_characters(rust, lines):
        if len(special) + len(alphabet) + len(inside) >= vocab_size * 3 // 4:
            break
        if not char.isspace():
            alphabet.append(char)
            inside += [] if is_punctuation(char) or is_ideograph(char) else ["##" + char]
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        special_tokens=special + sorted(inside),
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        show_progress=False,
    )
    scratch = untrained("wordpiece", named, lowercase=False)
    scratch.normalizer = rust.normalizer
    scratch.train_from_iterator(lines("reading"), trainer)
    rust.model = models.WordPiece(scratch.get_vocab(), unk_token=named["unk_token"])


def learn_bpe(rust: tokenizers.Tokenizer, lines: Lines, vocab_size: int, named: Named) -> None:
    """Merges of bytes by frequency."""
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(dict.fromkeys(named.values())),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    rust.train_from_iterator(lines("reading"), trainer)


def learn_unigram(rust: tokenizers.Tokenizer, lines: Lines, vocab_size: int, named: Named) -> None:
    """Pieces by likelihood; those of equal score alphabetically, which the trainer does not see to."""
    special = list(dict.fromkeys(named.values()))
    trainer = trainers.UnigramTrainer(
        vocab_size=vocab_size, special_tokens=special, unk_token=named["unk_token"], show_progress=False
    )
    try:
        rust.train_from_iterator(lines("reading"), trainer)
    except Exception as error:
        if isinstance(error, ValueError):
            raise
        raise ValueError(f"unigram with vocab_size={vocab_size} cannot be learnt from this text: {error}") from None
    pieces = json.loads(rust.to_str())["model"]["vocab"]
    learnt = settled([(token, round(score, 6)) for token, score in pieces if token not in special])
    vocab = [*((token, 0.0) for token in special), *learnt]
    rust.model = models.Unigram(vocab, unk_id=special.index(named["unk_token"]), byte_fallback=False)


def settled(pieces: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """Pieces in one order: by score, then by text.

    Characters that no piece kept are given the lowest score and then a step more each, in an order that
    changes from run to run; here they are given the same scores in alphabetical order. A character that has
    one of these scores by chance takes part, since nothing tells it apart.
    """
    floor = min(score for _, score in pieces)
    single = {token: score for token, score in pieces if len(token) == 1}
    tokens = sorted(token for token, score in single.items() if is_step((score - floor) * 1e4, len(single)))
    dealt = dict(zip(tokens, sorted(single[token] for token in tokens), strict=True))
    return sorted(((token, dealt.get(token, score)) for token, score in pieces), key=lambda one: (-one[1], one[0]))


def is_step(height: float, most: int) -> bool:
    """Whether a number is a whole one below `most`, but for what rounding leaves."""
    return round(height) < most and abs(height - round(height)) < 0.02


LEARN: dict[Kind, Callable[[tokenizers.Tokenizer, Lines, int, Named], None]] = {
    "wordpiece": learn_wordpiece,
    "bpe": learn_bpe,
    "unigram": learn_unigram,
    "word": learn_words,
    "wordpunct": learn_words,
    "character": learn_characters,
}


def finish(rust: tokenizers.Tokenizer, kind: Kind, named: Mapping[str, str]) -> None:
    """Put special tokens around texts: BERT's template, or </s> after a unigram text."""
    vocab = rust.get_vocab()
    if kind == "wordpiece":
        cls, sep = named["cls_token"], named["sep_token"]
        rust.post_processor = bert_template((cls, vocab[cls]), (sep, vocab[sep]))
    elif kind == "bpe":
        rust.post_processor = processors.ByteLevel(trim_offsets=False)
    elif kind == "unigram":
        end = named["eos_token"]
        rust.post_processor = processors.TemplateProcessing(
            single=f"$A {end}", pair=f"$A {end} $B {end}", special_tokens=[(end, vocab[end])]
        )
