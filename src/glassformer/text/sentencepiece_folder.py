"""Tokenizers of folders that hold a SentencePiece model alone, as older ones of T5, ALBERT, XLM-R or Llama do.

The pieces are cut as SentencePiece cuts them. What a family has besides stands in its row here: in which order its ids
stand (M2M-100's in a vocab.json), its special tokens, and what is put around a text.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors

from glassformer.text.rust import first_line, panics_unseen, read_vocabulary, rust_border
from glassformer.text.sentencepiece_model import ModelType, PieceType, SentencePiece, SentencePieceModel, read_model
from glassformer.text.special import ALBERT, BERT, MARIAN, ROBERTA

SENTENCEPIECE_FILES = ("spiece.model", "spm.model", "sentencepiece.bpe.model", "tokenizer.model")
SPACE = "▁"
UNKNOWN_PENALTY = 10  # by which an unknown character is worse than the worst piece, in the library
MBART_CODES = "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV my_MM"
MBART_CODES += " ne_NP nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN"
MBART_50_CODES = f"{MBART_CODES} af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL"
MBART_50_CODES += " ps_AF pt_XX sv_SE sw_KE ta_IN te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI"
M2M_100_CODES = "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi"
M2M_100_CODES += (
    " hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc"
)
M2M_100_CODES += " or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu"
WMT21_CODES = "en ha is ja cs ru zh de"
PEGASUS_MARKS = ("<mask_1>", "<mask_2>", *(f"<unk_{number}>" for number in range(2, 103)))


@dataclass(frozen=True, kw_only=True)
class Family:
    """What a family of models has besides its SentencePiece model."""

    names: Mapping[str, str]  # special tokens
    first: Sequence[str] = ()  # the tokens of the first ids, instead of …
    skipped: int = 0  # … so many pieces of the file
    last: Sequence[str] = ()  # the tokens of the last ids
    has_vocabulary: bool = False  # a vocab.json beside the model says which id each piece has
    single: str = "$A"
    pair: str = "$A $B"


XLM = Family(
    names=ROBERTA,
    first=("<s>", "<pad>", "</s>", "<unk>"),
    skipped=3,
    last=("<mask>",),
    single="<s> $A </s>",
    pair="<s> $A </s> </s> $B </s>",
)
M2M_100 = Family(
    names=MARIAN | {"bos_token": "<s>", "sep_token": "</s>"},
    last=[f"__{code}__" for code in M2M_100_CODES.split()],
    has_vocabulary=True,
    single="__en__ $A </s>",
    pair="__en__ $A $B </s>",
)
LIKE_BERT = Family(names=ALBERT, single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1")
FAMILIES = {  # by a part of the tokenizer's class, or of the model's type
    "mbart50": replace(XLM, last=(*MBART_50_CODES.split(), "<mask>"), single="en_XX $A </s>", pair="en_XX $A $B </s>"),
    "mbart": replace(XLM, last=(*MBART_CODES.split(), "<mask>"), single="$A </s> en_XX", pair="$A $B </s> en_XX"),
    "nllb": replace(XLM, last=(), single="$A </s>", pair="$A $B </s>"),  # its folders list their languages
    "m2m": M2M_100,
    "xlm": XLM,
    "t5": Family(names=MARIAN, single="$A </s>", pair="$A </s> $B </s>"),
    "albert": LIKE_BERT,
    "deberta": replace(LIKE_BERT, names=BERT | {"bos_token": "[CLS]", "eos_token": "[SEP]"}),
    "pegasus": Family(
        names=MARIAN | {"mask_token": "<mask_2>"},
        first=("<pad>", "</s>", *PEGASUS_MARKS),
        skipped=2,
        single="$A </s>",
        pair="$A $B </s>",
    ),
    "llama": Family(names={"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}),
}
FAMILIES["mistral"] = FAMILIES["llama"]


@dataclass(frozen=True)
class Asked:
    """What the files beside a SentencePiece model say."""

    kind: str  # the tokenizer's class or the model's type, in lower case
    config: Mapping[str, Any]
    special: Mapping[str, Any]  # special tokens by their names
    extra: Sequence[str]  # further ones


def family_of(kind: str) -> Family | None:
    """The family of a tokenizer's class or a model's type, in lower case."""
    return next((family for part, family in FAMILIES.items() if part in kind), None)


def from_sentencepiece(path: Path, asked: Asked) -> tuple[tokenizers.Tokenizer, Mapping[str, str]]:
    """The Rust tokenizer of a SentencePiece model, by the family that the folder names, and its special tokens."""
    family = family_of(asked.kind)
    if family is None:
        raise ValueError(
            f"{path} is not read for {asked.kind or 'a folder that names no model'}, but for {', '.join(FAMILIES)}: "
            "name one of their tokenizers as tokenizer_class in tokenizer_config.json, or add a tokenizer.json"
        )
    if family is FAMILIES["nllb"] and not asked.extra:
        raise ValueError(f"{path.parent / 'tokenizer_config.json'} lists no languages as additional_special_tokens")
    if family.has_vocabulary and asked.config.get("language_codes") == "wmt21":
        family = replace(family, last=[f"__{code}__" for code in WMT21_CODES.split()])
    model = read_model(path)
    pieces = (_by_vocabulary if family.has_vocabulary else _ordered)(model, family, path)
    try:
        with rust_border(str(path)), panics_unseen():
            rust = _tokenizer(pieces, model, family, asked)
            rust.encode("a word, Ａ é 中", add_special_tokens=False)  # what is damaged may show only in use
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(f"{path} cannot be used ({first_line(error)}): download it again") from None
    return rust, family.names


def _ordered(model: SentencePieceModel, family: Family, path: Path) -> list[SentencePiece]:
    """The pieces in the order of the family's ids."""
    skipped, kept = model.pieces[: family.skipped], model.pieces[family.skipped :]
    known = {piece.text for piece in kept}
    lost = any(piece.type is PieceType.NORMAL for piece in skipped) or model.unknown not in known | {*family.first}
    if lost or known & {*family.first}:
        raise ValueError(f"{path} does not begin with {family.skipped} special tokens, as this tokenizer_class has it")
    types = {piece.text: piece.type for piece in skipped}
    first, last = (
        [SentencePiece(text, 0.0, types.get(text, PieceType.CONTROL)) for text in some if text not in known]
        for some in (family.first, family.last)
    )
    return [*first, *kept, *last]


def _by_vocabulary(model: SentencePieceModel, family: Family, path: Path) -> list[SentencePiece]:
    """The pieces in the order of a vocab.json; those that it does not have are cut further, and are <unk> elsewhere."""
    file = path.parent / "vocab.json"
    if not file.is_file():
        raise ValueError(f"{file} is missing, which says which id each piece of {path.name} has: fetch it as well")
    if model.model_type is not ModelType.BPE:
        raise ValueError(f"{path} is no BPE model, as this tokenizer_class has it: download it again")
    vocab = read_vocabulary(file)
    tokens = sorted(vocab, key=vocab.__getitem__)
    if [vocab[token] for token in tokens] != list(range(len(tokens))):
        raise ValueError(f"{file} does not give each id from 0 to {len(tokens) - 1} once: download it again")
    if missing := [token for token in {*family.names.values(), model.unknown} if token not in vocab]:
        raise ValueError(f"{file} lacks {missing[0]!r}: download it again")
    known = {piece.text: piece for piece in model.pieces}
    control = {*family.names.values()} - {model.unknown}
    return [
        *(
            SentencePiece(token, 0.0, PieceType.CONTROL)
            if token in control
            else known.get(token, SentencePiece(token, 0.0, PieceType.UNKNOWN))
            for token in tokens
        ),
        *(SentencePiece(token, 0.0, PieceType.CONTROL) for token in family.last if token not in vocab),
    ]


def _tokenizer(
    pieces: Sequence[SentencePiece], model: SentencePieceModel, family: Family, asked: Asked
) -> tokenizers.Tokenizer:
    """The whole pipeline."""
    is_unigram = model.model_type is ModelType.UNIGRAM
    rust = tokenizers.Tokenizer(_unigram(pieces, model, asked) if is_unigram else _bpe(pieces, model))
    prefix = model.add_dummy_prefix and asked.config.get("add_prefix_space") is not False
    once = prefix and asked.config.get("legacy") is False and family is FAMILIES["llama"]  # not after special tokens
    rust.normalizer = normalizers.Sequence([*_habits(asked), *_normalizers(model, prefix=prefix and not once)])
    rust.pre_tokenizer = _splitter(pieces, asked, "first" if once else "never")
    rust.decoder = _decoder(model, prefix=prefix)
    rust.add_special_tokens([_special(piece.text) for piece in pieces if piece.type is PieceType.CONTROL])
    if not is_unigram:
        uncut = (piece.text for piece in pieces if piece.type is PieceType.USER_DEFINED)
        rust.add_tokens([AddedToken(text, normalized=False) for text in uncut])
    codes = asked.extra if family is FAMILIES["nllb"] else ()
    rust.add_special_tokens([_special(token) for token in (*codes, *family.names.values())])
    _put_around(rust, family, asked)
    return rust


def _special(token: str) -> AddedToken:
    return AddedToken(token, lstrip=token == ROBERTA["mask_token"], normalized=False, special=True)


def _unigram(pieces: Sequence[SentencePiece], model: SentencePieceModel, asked: Asked) -> models.Unigram:
    """The most likely pieces; what SentencePiece never finds in a text is less likely than its characters are."""
    scores = [piece.score for piece in pieces if piece.type is PieceType.NORMAL] or [0.0]
    worst, best = min(scores) - UNKNOWN_PENALTY, max(scores)
    scored: list[tuple[str, float]] = []
    for text, score, kind in pieces:
        if kind is PieceType.USER_DEFINED:
            score = len(text.encode()) * best - 0.1
        elif kind is not PieceType.NORMAL:
            score = len(text) * worst - 1
        elif "albert" in asked.kind and text[-1] == "," and text[-2:-1].isdigit():
            score -= 100  # ALBERT cuts the comma off a number
        scored.append((text, score))
    unknown = [piece.text for piece in pieces].index(model.unknown)
    return models.Unigram(scored, unk_id=unknown, byte_fallback=model.byte_fallback)


def _bpe(pieces: Sequence[SentencePiece], model: SentencePieceModel) -> models.BPE:
    """Merges of two pieces wherever they make a third, the best one first."""
    vocab = {piece.text: index for index, piece in enumerate(pieces)}
    merged = [piece for piece in pieces if piece.type in (PieceType.NORMAL, PieceType.UNUSED)]
    parts = {piece.text for piece in merged}
    return models.BPE(
        vocab,
        [
            (piece.text[:cut], piece.text[cut:])
            for piece in sorted(merged, key=lambda piece: -piece.score)
            for cut in range(1, len(piece.text))
            if piece.text[:cut] in parts and piece.text[cut:] in parts
        ],
        unk_token=model.unknown,
        fuse_unk=True,
        byte_fallback=model.byte_fallback,
    )


def _habits(asked: Asked) -> Iterator[normalizers.Normalizer]:
    """What a family does with a text before SentencePiece sees it."""
    is_albert = "albert" in asked.kind
    if is_albert:
        yield from (normalizers.Replace(marks, '"') for marks in ("``", "''"))
        if not asked.config.get("keep_accents", False):
            yield from (normalizers.NFKD(), normalizers.StripAccents())
    if (is_albert or "deberta" in asked.kind) and asked.config.get("do_lower_case", is_albert):
        yield normalizers.Lowercase()


def _normalizers(model: SentencePieceModel, *, prefix: bool) -> Iterator[normalizers.Normalizer]:
    """What SentencePiece does with a text."""
    if model.charsmap:
        yield normalizers.Precompiled(model.charsmap)
    if model.remove_extra_whitespaces:
        yield normalizers.Replace(Regex("^ +| +$"), "")
        yield normalizers.Replace(Regex(" {2,}"), " ")
    if prefix:
        yield normalizers.Prepend(SPACE)
    yield normalizers.Replace(" ", SPACE)


def _splitter(pieces: Sequence[SentencePiece], asked: Asked, prepend: str) -> pre_tokenizers.PreTokenizer:
    """Words, which are quicker; whole texts where a piece may reach over the border of two words."""
    texts = [piece.text for piece in pieces]
    apart = SPACE in texts and not any(SPACE in text[1:] for text in texts)
    space = pre_tokenizers.Metaspace(SPACE, prepend_scheme=prepend, split=apart)
    if "deberta" in asked.kind and asked.config.get("split_by_punct"):
        return pre_tokenizers.Sequence([pre_tokenizers.Punctuation("isolated"), space])
    return space


def _decoder(model: SentencePieceModel, *, prefix: bool) -> decoders.Decoder:
    """Pieces to text."""
    if not model.byte_fallback:
        return decoders.Metaspace(SPACE, prepend_scheme="always" if prefix else "never")
    steps = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    return decoders.Sequence([*steps, decoders.Strip(" ", left=1)] if prefix else steps)


def _put_around(rust: tokenizers.Tokenizer, family: Family, asked: Asked) -> None:
    """The special tokens around a text."""
    single, pair = family.single.split(), family.pair.split()
    if family is FAMILIES["llama"]:
        before = _stated("bos_token", family, asked) if asked.config.get("add_bos_token", True) else []
        after = _stated("eos_token", family, asked) if asked.config.get("add_eos_token", False) else []
        rust.add_special_tokens([_special(token) for token in before + after])
        single = [*before, "$A", *after]
        pair = [*single, *(f"{one}:1" for one in (*before, "$B", *after))]
    tokens = {token.removesuffix(":1") for token in (*single, *pair) if not token.startswith("$")}
    if tokens:
        rust.post_processor = processors.TemplateProcessing(
            single=single, pair=pair, special_tokens=[(token, rust.token_to_id(token)) for token in tokens]
        )


def _stated(name: str, family: Family, asked: Asked) -> list[str]:
    """A special token as the folder or the family has it; nothing where the folder says none."""
    token = asked.special.get(name, family.names[name])
    text = token["content"] if isinstance(token, dict) else token
    if text is not None and (not text or text.startswith("$") or set(text) & {*" :"}):
        raise ValueError(f"{name} is {text!r}, which cannot be put around a text: give it without spaces, : and $")
    return [] if text is None else [str(text)]
