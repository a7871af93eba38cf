"""Tokenizers as llama.cpp has them: byte-level BPE with a known way to cut words, and BPE of SentencePiece."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from glassformer.text.backend import RustBackend
from glassformer.text.tokenizer import Tokenizer

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6  # ggml's kinds of tokens
WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+|"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
ENDINGS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
SPLITS = {  # how words are cut before they are merged, and what llama.cpp calls that
    ENDINGS + WORDS + r"\p{N}{1,3}" + REST: "llama-bpe",
    ENDINGS + WORDS + r"\p{N}" + REST: "qwen2",
}


@dataclass(frozen=True)
class GgufVocabulary:
    """The tokenizer of a GGUF file: its kind, and all that a file says of it."""

    model: str  # gpt2: byte-level BPE; llama: SentencePiece
    pre: str
    tokens: list[str]
    types: list[int]
    special: Mapping[str, int]  # bos, eos, unk, pad
    add_bos: bool
    add_eos: bool
    merges: list[str] | None = None
    scores: list[float] | None = None
    add_space_prefix: bool = False
    chat_template: str | None = None


def vocabulary_of(tokenizer: Tokenizer, size: int) -> GgufVocabulary:
    """A tokenizer as llama.cpp reads it, with unused tokens up to the model's `size`; refused where it has no such."""
    if not isinstance(tokenizer.backend, RustBackend):
        raise _refused("Marian's two SentencePiece models")
    raw = json.loads(tokenizer.backend.rust.to_str())
    model, before = raw["model"], _parts(raw["pre_tokenizer"], "pretokenizers")
    if model["type"] != "BPE":
        raise _refused(model["type"])
    if "ByteLevel" in [part["type"] for part in before]:
        return _byte_level(tokenizer, raw, before, size)
    if model["byte_fallback"]:
        return _sentencepiece(tokenizer, raw, before, size)
    raise _refused("BPE without bytes")


def _refused(kind: str) -> ValueError:
    return ValueError(
        f"gguf: llama.cpp has no tokenizer of this kind ({kind}); it has byte-level BPE and BPE of SentencePiece"
    )


def _byte_level(
    tokenizer: Tokenizer, raw: Mapping[str, Any], before: list[dict[str, Any]], size: int
) -> GgufVocabulary:
    if (
        raw["normalizer"] is not None and raw["normalizer"]["type"] != "NFC"
    ):  # as Qwen's, which llama.cpp leaves out too
        raise _refused(f"byte-level BPE after {raw['normalizer']['type']}")
    last = before[-1]
    split = [part.get("pattern", {}).get("Regex", "") for part in before if part["type"] == "Split"]
    pre = "gpt-2" if len(before) == 1 and last["use_regex"] else SPLITS.get("".join(split))
    if pre is None or last["add_prefix_space"]:
        raise _refused("byte-level BPE with its own way to cut words")
    merges = [one if isinstance(one, str) else " ".join(one) for one in raw["model"]["merges"]]
    return GgufVocabulary("gpt2", pre, *_tokens(raw, size), **_common(tokenizer), merges=merges)


def _sentencepiece(
    tokenizer: Tokenizer, raw: Mapping[str, Any], before: list[dict[str, Any]], size: int
) -> GgufVocabulary:
    """Tokens are merged by their scores, the highest first: that of a merged token is the place of its merge."""
    steps = [*_parts(raw["normalizer"], "normalizers"), *before]
    if not all(part["type"] in ("Prepend", "Replace", "Metaspace") for part in steps):
        raise _refused("BPE of SentencePiece after other steps")
    prefix = any(part["type"] == "Prepend" or part.get("prepend_scheme") in ("first", "always") for part in steps)
    tokens, types = _tokens(raw, size)
    merged = ["".join(one.split(" ", 1) if isinstance(one, str) else one) for one in raw["model"]["merges"]]
    places = {token: place for place, token in reversed(list(enumerate(merged)))}  # the first, where there are two
    scores = [-float(places.get(token, len(merged))) for token in tokens]
    return GgufVocabulary(
        "llama", "default", tokens, types, **_common(tokenizer), scores=scores, add_space_prefix=prefix
    )


def _common(tokenizer: Tokenizer) -> dict[str, Any]:
    """What every vocabulary says: special tokens, and which of them surround a text."""
    roles = {role: getattr(tokenizer, f"{role}_token_id") for role in ("bos", "eos", "unk", "pad")}
    ids = tokenizer("a")["input_ids"]
    template = tokenizer.chat_template
    return {
        "special": {role: number for role, number in roles.items() if number is not None},
        "add_bos": bool(tokenizer.bos_ids),
        "add_eos": roles["eos"] is not None and ids[-1:] == [roles["eos"]],
        "chat_template": template if isinstance(template, str) else None,
    }


def _tokens(raw: Mapping[str, Any], size: int) -> tuple[list[str], list[int]]:
    """Every token and its kind, in the order of their ids."""
    tokens, types = [f"[UNUSED{number}]" for number in range(size)], [UNUSED] * size
    unknown = raw["model"].get("unk_token")
    for token, number in raw["model"]["vocab"].items():
        tokens[number] = token
        is_byte = raw["model"]["byte_fallback"] and len(token) == 6 and token.startswith("<0x")
        types[number] = BYTE if is_byte else UNKNOWN if token == unknown else NORMAL
    for added in raw["added_tokens"]:
        tokens[added["id"]] = added["content"]
        if types[added["id"]] != UNKNOWN:
            types[added["id"]] = CONTROL if added["special"] else USER_DEFINED
    return tokens, types


def _parts(raw: dict[str, Any] | None, inside: str) -> list[dict[str, Any]]:
    """The steps of a sequence, or the one that there is."""
    if raw is None:
        return []
    return list(raw[inside]) if raw["type"] == "Sequence" else [raw]
