"""Small tokenizer folders of every kind, trained here."""

from pathlib import Path

import pytest
from text_folders import CORPUS, merge_lines, vocab_lines, write

from glassformer.text.train import train


@pytest.fixture(scope="session")
def corpus(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "corpus.txt"
    path.write_text(CORPUS * 3, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def folders(tmp_path_factory, corpus) -> dict[str, Path]:
    """Folders in the old formats, by kind."""
    root = tmp_path_factory.mktemp("folders")
    pieces = vocab_lines(train([corpus], kind="wordpiece", vocab_size=500, lowercase=True).backend.rust)
    cased = vocab_lines(train([corpus], kind="wordpiece", vocab_size=500).backend.rust)
    bytes_ = train([corpus], kind="bpe", vocab_size=500).backend.rust
    merges, vocab = merge_lines(bytes_), bytes_.get_vocab()
    fresh = [token for token in ("<s>", "<pad>", "</s>", "<unk>", "<mask>") if token not in vocab]
    roberta = {token: len(vocab) + i for i, token in enumerate(fresh)} | vocab
    return {
        "bert": write(root / "bert", vocab_txt=pieces, config_json={"model_type": "bert"}),
        "cased": write(
            root / "cased",
            vocab_txt=cased,
            tokenizer_config_json={"do_lower_case": False, "model_max_length": 64},
            config_json={"model_type": "bert"},
        ),
        "distilbert": write(
            root / "distilbert",
            vocab_txt=pieces,
            tokenizer_config_json={"tokenizer_class": "DistilBertTokenizer", "strip_accents": False},
            config_json={"model_type": "distilbert"},
        ),
        "gpt2": write(root / "gpt2", vocab_json=vocab, merges_txt=merges, config_json={"model_type": "gpt2"}),
        "roberta": write(
            root / "roberta",
            vocab_json=roberta,
            merges_txt=merges,
            tokenizer_config_json={"tokenizer_class": "RobertaTokenizer", "add_prefix_space": True},
            special_tokens_map_json={"mask_token": {"content": "<mask>", "lstrip": True, "normalized": False}},
            config_json={"model_type": "roberta"},
        ),
    }
