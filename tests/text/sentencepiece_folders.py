"""Folders that hold a SentencePiece model alone, one of each family, trained on the small corpus."""

import json
from pathlib import Path
from typing import Any

import sentencepiece

from glassformer.text import sentencepiece_folder
from text.text_folders import CORPUS

T5 = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
ALBERT = {"pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1, "control_symbols": ["[CLS]", "[SEP]", "[MASK]"]}
DEBERTA = {"pad_id": 0, "pad_piece": "[PAD]", "bos_id": 1, "bos_piece": "[CLS]"}
DEBERTA |= {"eos_id": 2, "eos_piece": "[SEP]", "unk_id": 3, "unk_piece": "[UNK]"}
LLAMA = {"model_type": "bpe", "byte_fallback": True, "vocab_size": 600, "normalization_rule_name": "identity"}
LLAMA |= {"remove_extra_whitespaces": False, "split_digits": True, "allow_whitespace_only_pieces": True}
CODES = sentencepiece_folder.M2M_100_CODES.split()
LANGUAGES = {"additional_special_tokens": ["ace_Arab", "deu_Latn", "eng_Latn"]}
# The file, how it is trained, the model's type, and what tokenizer_config.json says.
FAMILIES: dict[str, tuple[str, dict[str, Any], str, dict[str, Any]]] = {
    "t5": ("spiece.model", T5, "t5", {}),
    "byte-t5": ("spiece.model", T5 | {"byte_fallback": True, "vocab_size": 500}, "mt5", {"extra_ids": 0}),
    "albert": ("spiece.model", ALBERT | {"user_defined_symbols": ["(", ")", "-"]}, "albert", {}),
    "deberta": ("spm.model", DEBERTA, "deberta-v2", {"do_lower_case": False, "vocab_type": "spm"}),
    "xlm-roberta": ("sentencepiece.bpe.model", {}, "xlm-roberta", {}),
    "mbart": ("sentencepiece.bpe.model", {}, "mbart", {"tokenizer_class": "MBartTokenizer"}),
    "mbart50": ("sentencepiece.bpe.model", {}, "mbart", {"tokenizer_class": "MBart50Tokenizer"}),
    "nllb": (
        "sentencepiece.bpe.model",
        {"model_type": "bpe", "vocab_size": 400},
        "m2m_100",
        {"tokenizer_class": "NllbTokenizer", **LANGUAGES},
    ),
    "m2m_100": (
        "sentencepiece.bpe.model",
        {"model_type": "bpe", "vocab_size": 400},
        "m2m_100",
        {"tokenizer_class": "M2M100Tokenizer", "additional_special_tokens": [f"__{code}__" for code in CODES]},
    ),
    "pegasus": ("spiece.model", T5, "pegasus", {}),
    "llama": ("tokenizer.model", LLAMA, "llama", {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True}),
    "words together": ("spiece.model", T5 | {"split_by_whitespace": False}, "t5", {}),
}


def learn(path: Path, **options: Any) -> None:
    """Train a SentencePiece model."""
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS.splitlines() * 3),
        model_prefix=str(path.with_suffix("")),
        minloglevel=2,
        **{"vocab_size": 300, "hard_vocab_limit": False, **options},
    )
    path.with_suffix(".vocab").unlink()


def write_family(name: str, folder: Path) -> Path:
    """The folder of a family, with its SentencePiece model and two small files."""
    file, options, kind, config = FAMILIES[name]
    folder.mkdir(parents=True, exist_ok=True)
    learn(folder / file, **options)
    if name == "m2m_100":
        pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / file))
        texts = [pieces.id_to_piece(index) for index in range(3, len(pieces))]
        tokens = ["<s>", "<pad>", "</s>", "<unk>", *reversed(texts), "madeupword0000"]
        (folder / "vocab.json").write_text(json.dumps({token: index for index, token in enumerate(tokens)}))
    (folder / "config.json").write_text(json.dumps({"model_type": kind}))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder / file
