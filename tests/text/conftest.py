"""Small tokenizer folders of every kind, trained here, and the same read by transformers."""

import json
import os
from pathlib import Path

import pytest
from tokenizers import Tokenizer as Rust

from glassformer.text.train import train

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

CORPUS = """\
The quick brown fox jumps over the lazy dog, and the dog doesn't mind: it's a warm day in June.
We, the readers of long books, can't say whether 1,234 pages are many or few; they're enough.
Best-selling albums sold 124443 copies (unheard of!) while nobody was listening to the radio.
Un petit café près de la forêt; l'été, les élèves y déjeunent. Ça va très bien, naïve Zoë.
Der größte Fluß heißt Über-See: Mädchen schwimmen dort früh am Morgen.
今天天气很好，我们去公园散步。他说：“明天也许会下雨。” 你好 世界
Что ты читаешь? Я читаю книгу о море. Привет, мир! 😀 ½ ² ﬁ
"""


def write(folder: Path, **files: str | dict) -> Path:
    """A folder with these files; names have _ for the dot, and values that are no strings become JSON."""
    folder.mkdir(parents=True)
    for name, content in files.items():
        stem, _, suffix = name.rpartition("_")
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / f"{stem}.{suffix}").write_text(text, encoding="utf-8")
    return folder


def vocab_lines(rust: Rust) -> str:
    vocab = rust.get_vocab()
    return "\n".join(sorted(vocab, key=vocab.__getitem__)) + "\n"


def merge_lines(rust: Rust) -> str:
    merges = json.loads(rust.to_str())["model"]["merges"]
    return "#version: 0.2\n" + "\n".join(" ".join(pair) for pair in merges) + "\n"


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
    roberta = {token: len(vocab) + i for i, token in enumerate(["<s>", "<pad>", "</s>", "<unk>", "<mask>"])} | vocab
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


@pytest.fixture(scope="session")
def data() -> Path:
    """The shared data, or a skip."""
    folder = Path(os.environ.get("GLASSFORMER_DATA", Path(__file__).parents[3] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip("no real data: put it in ../shared/data or name its folder in $GLASSFORMER_DATA")
    return folder
