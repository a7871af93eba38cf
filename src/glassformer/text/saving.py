"""Write a tokenizer folder that transformers reads with the same ids."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import tokenizers

from glassformer.files import write_json
from glassformer.text.backend import RustBackend, state_of
from glassformer.text.chat import written_templates
from glassformer.text.folder import NO_LIMIT

if TYPE_CHECKING:
    from glassformer.text.tokenizer import Tokenizer

MARIAN_FILES = ("source.spm", "target.spm", "vocab.json", "target_vocab.json")
SMALL_FILES = ("tokenizer_config.json", "special_tokens_map.json")
FILES = ("tokenizer.json", *SMALL_FILES, *MARIAN_FILES)
# What older files say of the vocabulary, which tokenizer.json says now, and what is written anew.
DROPPED = (
    "added_tokens_decoder",
    "extra_special_tokens",
    "special_tokens_map_file",
    "name_or_path",
    "tokenizer_file",
    "chat_template",
)


def save(tokenizer: "Tokenizer", folder: Path, segments: bool) -> None:
    """Write tokenizer.json (Marian: its own files), tokenizer_config.json and special_tokens_map.json."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.backend.save(folder)
    settings = tokenizer.settings
    names = {name: token for name, token in settings.names.items() if token is not None}
    config = {name: value for name, value in settings.config.items() if name not in DROPPED}
    config |= dict.fromkeys((name for name in config if name in settings.names), None)  # unset since it was read
    config |= pipeline(tokenizer) | names
    config["model_max_length"] = min(tokenizer.model_max_length, NO_LIMIT)
    config["model_input_names"] = inputs(segments)
    config["padding_side"] = tokenizer.padding_side
    config["truncation_side"] = tokenizer.truncation_side
    config |= tokenizer.languages_of_sides
    config |= written_templates(tokenizer.chat_template)
    config.setdefault("clean_up_tokenization_spaces", False)
    special: dict[str, Any] = {**names}
    if settings.extra:
        special["additional_special_tokens"] = config["additional_special_tokens"] = settings.extra
    write_json(folder / "special_tokens_map.json", special)
    write_json(folder / "tokenizer_config.json", config)


def files_of(tokenizer: "Tokenizer") -> tuple[str, ...]:
    """The names of the files that `save` writes for a tokenizer."""
    return (*SMALL_FILES, *(("tokenizer.json",) if isinstance(tokenizer.backend, RustBackend) else MARIAN_FILES))


def inputs(segments: bool) -> list[str]:
    """The model's inputs, in transformers' order."""
    return ["input_ids", "token_type_ids", "attention_mask"] if segments else ["input_ids", "attention_mask"]


def pipeline(tokenizer: "Tokenizer") -> dict[str, Any]:
    """The class that rebuilds this pipeline in transformers, with the options it needs.

    Its BERT and GPT-2 classes build their own pipeline from these options and take only the vocabulary from
    tokenizer.json; any other pipeline is left to the class that takes all of it from there.
    """
    backend = tokenizer.backend
    stated = tokenizer.settings.config.get("tokenizer_class")
    if not isinstance(backend, RustBackend):
        return {"tokenizer_class": "MarianTokenizer", "separate_vocabs": backend.separate}
    options = bert_options(backend.rust) or byte_level_options(backend.rust)
    if not options:
        fast = stated != "M2M100Tokenizer"  # which reads a SentencePiece model alone
        return {"tokenizer_class": stated if stated and fast else "PreTrainedTokenizerFast"}
    return options | {"tokenizer_class": stated or options["tokenizer_class"]}


def bert_options(rust: tokenizers.Tokenizer) -> dict[str, Any]:
    """BertTokenizer's options, if that is what it is."""
    normalizer, splitter = state_of(rust.normalizer), state_of(rust.pre_tokenizer)
    if type(rust.model).__name__ != "WordPiece" or splitter.get("type") != "BertPreTokenizer":
        return {}
    if normalizer.get("type") != "BertNormalizer" or not normalizer["clean_text"]:
        return {}
    return {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": normalizer["lowercase"],
        "strip_accents": normalizer["strip_accents"],
        "tokenize_chinese_chars": normalizer["handle_chinese_chars"],
    }


def byte_level_options(rust: tokenizers.Tokenizer) -> dict[str, Any]:
    """What GPT2Tokenizer and RobertaTokenizer need to know, if it is a byte-level BPE."""
    splitter = state_of(rust.pre_tokenizer)
    if type(rust.model).__name__ != "BPE" or splitter.get("type") != "ByteLevel" or rust.normalizer is not None:
        return {}
    processor = state_of(rust.post_processor).get("type")
    name = {"ByteLevel": "GPT2Tokenizer", "RobertaProcessing": "RobertaTokenizer"}.get(processor or "ByteLevel")
    return {
        "tokenizer_class": name or "PreTrainedTokenizerFast",
        "add_prefix_space": splitter["add_prefix_space"],
    }
