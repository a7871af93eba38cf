"""What commands of the README and docs name: files of the micro-world and small models, made where they are needed."""

import json
import shutil
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import glassformer as gf
from chats import CHATML, llama_folder
from glassformer.data import microworld
from glassformer.text.train import train
from microworld_files import file_texts
from tasks.cases import BERT, SMALL

ROOT = Path(__file__).parents[1]
Maker = Callable[[Path], object]
VOCABULARY = 400
HEADS = BERT | {"hidden_size": 24, "num_hidden_layers": 4, "num_attention_heads": 6}  # the docs look at layer 3, head 5
SIDES = {f"{side}_{name}": 2 for side in ("encoder", "decoder") for name in ("layers", "attention_heads")}
SIDES |= {"d_model": 16, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "max_position_embeddings": 128}
WRITER = SMALL["gpt2"] | {"n_positions": 128}


def examples(path: Path, kind: str, count: int = 40, **settings: Any) -> None:
    """One file of the micro-world; of a translation the side that the file's ending names."""
    sides = microworld.sides("en", None, None)
    made = file_texts(kind, microworld.examples(kind, count, **settings), sides)
    text = made[f"parallel{path.suffix}"] if kind == "parallel" else next(iter(made.values()))
    path.write_text(text, "utf-8")


def lines(path: Path, texts: Iterable[str]) -> None:
    path.write_text("".join(f"{text}\n" for text in texts), "utf-8")


def tabbed(path: Path, seed: int = 0) -> None:
    """Labelled sentences, as SST-2 has them."""
    found = microworld.examples("labelled", 40, seed=seed)
    lines(path, ["sentence\tlabel", *(f"{one.text}\t{int(one.label == 'positive')}" for one in found)])


def two_sided(path: Path) -> None:
    """Reviews that praise or blame, as a model of these two labels takes them."""
    found = microworld.examples("labelled", 40)
    lines(path, ["text,label", *(f'"{one.text}",{one.label}' for one in found if one.label != "neutral")])


def beside(path: Path, make: Maker, name: str) -> None:
    """A file that a pattern finds."""
    make(path.with_name(name))


def parquet(path: Path) -> None:
    found = microworld.examples("labelled", 20)
    pq.write_table(pa.table({"text": [one.text for one in found]}), path)


def bodies(path: Path) -> None:
    lines(path, (json.dumps({"body": one.text}) for one in microworld.examples("labelled", 20)))


def news(path: Path, seed: int = 0) -> None:
    """Articles and their summaries as a table."""
    found = microworld.examples("summaries", 20, seed=seed)
    lines(path, ["article,summary", *(f'"{one.source}","{one.target}"' for one in found)])


def inferred(path: Path) -> None:
    """Pairs as files of inference have them."""
    found, kinds = microworld.examples("labelled", 20), ("entailment", "neutral", "contradiction")
    rows = ({"premise": one.text, "hypothesis": one.text, "label": kinds[n % 3]} for n, one in enumerate(found))
    lines(path, map(json.dumps, rows))


def similar(path: Path) -> None:
    """STS-B's columns, of which the last three are used."""
    pairs = microworld.examples("scored", 30)
    lines(path, ("\t".join(["-"] * 4 + [f"{5 * one.label:.1f}", one.text, one.pair]) for one in pairs))


def words(kind: str) -> Any:
    """A small vocabulary of English and German."""
    texts = [text for one in microworld.examples("parallel", 60) for text in (one.source, one.target)]
    file = Path("vocabulary.txt")
    lines(file, texts)
    return train([str(file)], kind=kind, vocab_size=VOCABULARY)


def model(path: Path, model_type: str, head: str | None, *, vocabulary: str = "wordpiece", **sizes: Any) -> None:
    """A random model beside its tokenizer."""
    tok = words(vocabulary)
    marks = {name: getattr(tok, name) for name in ("pad_token_id", "bos_token_id", "eos_token_id")}
    if model_type == "bart":
        marks |= {"decoder_start_token_id": tok.eos_token_id, "forced_eos_token_id": tok.eos_token_id}
    known = {name: value for name, value in marks.items() if value is not None and model_type != "glassformer-rnn"}
    gf.save(gf.build(model_type, head, vocab_size=len(tok), **known, **sizes), path, tokenizer=tok)


def run(path: Path, task: str, arch: str, data: str | list[str] = "microworld:short", **settings: Any) -> None:
    """A run of two steps."""
    config = SMALL[{"lstm": "glassformer-rnn", "seq2seq": "glassformer-seq2seq"}.get(arch, arch)]
    few = {"limit": 40} if data == "microworld:short" else {}
    gf.train(
        **{"task": task, "arch": arch, "data": data, "out": str(path), "steps": 2, "config": config, **few, **settings},
        log=lambda _: None,
    )


def cached(path: Path) -> None:
    """A model by its name on the hub, as huggingface_hub keeps it, in the folder cache, which HF_HUB_CACHE names."""
    folder = path.parent / "cache" / f"models--{path.name}"
    model(folder / "snapshots" / ("0" * 40), "bert", "fill-mask", **HEADS)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("0" * 40)


def sst2_recipe(path: Path) -> None:
    """The recipe as it is, and its data, in the folder data, which GLASSFORMER_DATA names."""
    shutil.copy(ROOT / "recipes" / path.name, path)
    folder = path.parents[1] / "data" / "glue" / "SST-2"
    folder.mkdir(parents=True)
    for seed, name in enumerate(("train", "dev")):
        tabbed(folder / f"{name}.tsv", seed)


def of_two_kinds(path: Path) -> None:
    """A language model that has learnt texts of two kinds."""
    files = {kind: path.with_name(f"{kind}.txt") for kind in ("positive", "negative")}
    for file in files.values():
        text(file)
    run(path, "text-generation", "gpt2", [f"{kind}={file}" for kind, file in files.items()])


labelled, parallel, tagged = (partial(examples, kind=kind) for kind in ("labelled", "parallel", "tagged"))
text = partial(examples, kind="documents")
sentences = partial(lines, texts=["Once upon a time", "The old king"])
bert = partial(model, model_type="bert", head="fill-mask", **HEADS)
gpt2 = partial(model, model_type="gpt2", head="text-generation", vocabulary="bpe", **WRITER)
bart = partial(model, model_type="bart", head="text2text-generation", vocabulary="bpe", **SIDES)
classifier = partial(run, task="text-classification", arch="bert")
translator = partial(run, task="translation", arch="seq2seq", data="microworld:short", vocab_size=200)

EVERYWHERE: dict[str, Maker] = {
    "minilm": partial(model, model_type="bert", head=None, **HEADS),
    "my-model": bert,
    "my-bert": bert,
    "my-lstm": partial(model, model_type="glassformer-rnn", head="text-classification", **SMALL["glassformer-rnn"]),
    "my-gpt2": gpt2,
    "my-small-gpt2": gpt2,
    "my-llama": partial(llama_folder, chat_template=CHATML),
    "my-bart": bart,
    "bart": bart,
    "reviews.csv": labelled,
    "train.csv": labelled,
    "dev.csv": partial(labelled, seed=1),
    "test.csv": partial(labelled, seed=2),
    "new.csv": partial(labelled, seed=3),
    "news.csv": news,
    "reviews.tsv": tabbed,
    "sts-test.tsv": similar,
    "crawl/*.txt": partial(
        beside, make=partial(lines, texts=["The king of the country was there.", "Menu"]), name="1.txt"
    ),
    "reviews/*.parquet": partial(beside, make=parquet, name="1.parquet"),
    "in/*.parquet": partial(beside, make=parquet, name="1.parquet"),
    "news/**/*.jsonl": partial(beside, make=bodies, name="1.jsonl"),
    "mnli.jsonl": inferred,
    "train.conll": tagged,
    "dev.conll": partial(tagged, seed=1),
    "eng.train": tagged,
    "eng.testa": partial(tagged, seed=1),
    "sst2/train.tsv": tabbed,
    "sst2/dev.tsv": partial(tabbed, seed=1),
    "prompts.txt": sentences,
    "report.txt": sentences,
    "corpus.txt": text,
    "text.txt": text,
    "train.txt": text,
    "valid.txt": partial(text, seed=1),
    "wiki.train.txt": text,
    "wiki.valid.txt": partial(text, seed=1),
    "wiki.test.txt": partial(text, seed=2),
    "runs/reviews": classifier,
    "runs/bert": classifier,
    "runs/lstm": partial(classifier, arch="lstm"),
    "runs/en-de": translator,
    "runs/qa": partial(run, task="question-answering", arch="bert"),
    "recipe.toml": partial(
        lines, texts=['task = "parity"', 'arch = "gru"', 'out = "runs/parity"', "steps = 2", "limit = 40"]
    ),
    "long.toml": partial(
        lines,
        texts=['task = "text-generation"', 'arch = "gpt2"', 'data = "corpus.txt"', "block_size = 64", "steps = 2"],
    ),
    "recipes/sst2-lstm.toml": sst2_recipe,
    "bert-base-uncased": cached,
}
for split, number in {"train": 0, "val": 1, "test": 2}.items():
    EVERYWHERE |= {f"{split}.{side}": partial(parallel, seed=number) for side in ("en", "de")}
shallow = partial(model, model_type="bert", head=None, **BERT | {"num_hidden_layers": 1})
ELSEWHERE: dict[str, dict[str, Maker]] = {  # by page: what has another meaning there
    "pipelines.md": {"test.csv": partial(news, seed=2), "new.csv": partial(news, seed=3)},
    "comparing.md": {"minilm": shallow},
    "scale.md": {"crawl/*.txt": partial(beside, make=text, name="1.txt")},
    "generating.md": {"runs/reviews": of_two_kinds},
    "exporting.md": {"reviews.csv": two_sided},
}
