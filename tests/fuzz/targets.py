"""What is fuzzed: folders that are right, and what a user does with each of them."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch

import glassformer as gf
from families import SMALL_BERT, SMALL_GPT
from glassformer.hub.describe import describe
from glassformer.jobs.models import check_config
from glassformer.jobs.recipe import Recipe
from glassformer.jobs.tasks import task_class
from glassformer.jobs.train import assemble
from text.sentencepiece_folders import FAMILIES, write_family

WORDS = [*("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"), *"abcdefghijklmnopqrstuvwxyz0123456789"]
TEXT = "a cab did go"
SMALL_TRANSFORMER = {"vocab_size": 41, "d_model": 12, "encoder_layers": 1, "decoder_layers": 1}
SMALL_TRANSFORMER |= {"encoder_attention_heads": 3, "decoder_attention_heads": 3, "encoder_ffn_dim": 16}
SMALL_TRANSFORMER |= {"decoder_ffn_dim": 16, "max_position_embeddings": 40, "eos_token_id": 3, "pad_token_id": 0}
SMALL_TRANSFORMER |= {"decoder_start_token_id": 2, "forced_eos_token_id": None}
SMALL_RNN = {"vocab_size": 41, "embedding_size": 6, "hidden_size": 8}
SIZES: dict[str, dict[str, Any]] = {
    "bert": SMALL_BERT,
    "roberta": SMALL_BERT,
    "distilbert": {"vocab_size": 41, "dim": 12, "n_heads": 3, "n_layers": 1, "hidden_dim": 16}
    | {"max_position_embeddings": 40},
    "gpt2": SMALL_GPT | {"bos_token_id": 2, "eos_token_id": 3},
    "glassformer-transformer": SMALL_TRANSFORMER,
    "bart": SMALL_TRANSFORMER,
    "marian": SMALL_TRANSFORMER,
    "glassformer-rnn": SMALL_RNN,
    "glassformer-seq2seq": SMALL_RNN | {"bos_token_id": 2, "eos_token_id": 3, "decoder_start_token_id": 2},
}
MODELS = (
    *(("bert", "text-classification"), ("bert", "fill-mask"), ("roberta", "token-classification")),
    *(("distilbert", "question-answering"), ("gpt2", "text-generation"), ("bart", "text2text-generation")),
    *(("marian", "text2text-generation"), ("glassformer-transformer", "text2text-generation")),
    *(("glassformer-rnn", "text-classification"), ("glassformer-rnn", "text-generation")),
    ("glassformer-seq2seq", "text2text-generation"),
)
TASKS = {"text2text-generation": "translation"}


@dataclass(frozen=True)
class Target:
    """A folder, which files of it are changed, and what is then done with it."""

    name: str
    make: Callable[[Path], object]
    files: tuple[str, ...]
    use: Callable[[Path], object]


@cache
def _tokenizer() -> Any:
    import tempfile

    from glassformer.text.backend import RustBackend
    from glassformer.text.folder import Folder, ModelFacts, load
    from glassformer.text.tokenizer import Tokenizer

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "vocab.txt").write_text("\n".join(WORDS) + "\n")
        rust, settings = load(Folder.read(Path(folder)), ModelFacts())
        return Tokenizer(RustBackend(rust), settings)


def _model(kind: str, head: str) -> Callable[[Path], object]:
    def make(folder: Path) -> None:
        torch.manual_seed(0)
        gf.save(gf.build(kind, head, **SIZES[kind]), folder, tokenizer=_tokenizer())
        if head.endswith("generation"):
            settings = {"max_new_tokens": 3, "num_beams": 2, "pad_token_id": 0, "temperature": 0.9, "top_k": 5}
            settings |= {"bad_words_ids": [[5]], "early_stopping": True, "no_repeat_ngram_size": 2}
            (folder / "generation_config.json").write_text(json.dumps(settings))

    return make


def _use_model(head: str) -> Callable[[Path], object]:
    def use(folder: Path) -> None:
        describe(folder)
        pipe = gf.pipeline(TASKS.get(head, head), folder)
        if head == "question-answering":
            pipe(question="a b", context=TEXT)
        elif head == "fill-mask":
            pipe("a [MASK] c")
        elif head.endswith("generation"):
            gf.generate(pipe.model, pipe.task.tokenizer, TEXT, max_time=3.0)
        else:
            pipe([TEXT, "x"])

    return use


def _use_tokenizer(folder: Path) -> None:
    tokenizer = gf.load_tokenizer(folder)
    batch = tokenizer([TEXT, "Ａ é 中 <s> [MASK]"], ["b", "c"], padding=tokenizer.pad_token is not None)
    tokenizer.batch_decode(batch["input_ids"], skip_special_tokens=True)
    tokenizer.save(folder / "again")


def _old_bert(folder: Path) -> None:
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    (folder / "tokenizer_config.json").write_text(
        json.dumps(
            {"do_lower_case": True, "model_max_length": 64, "tokenizer_class": "BertTokenizer"}
            | {
                "added_tokens_decoder": {"41": {"content": "<x>", "lstrip": False, "special": True}},
                "strip_accents": None,
            }
        )
    )
    special = {
        "unk_token": "[UNK]",
        "mask_token": {"content": "[MASK]", "lstrip": True},
        "additional_special_tokens": ["<x>"],
    }
    (folder / "special_tokens_map.json").write_text(json.dumps(special))


def _old_gpt2(folder: Path) -> None:
    vocab = {token: index for index, token in enumerate([*"abcdefgĠ", "ab", "Ġa", "<|endoftext|>"])}
    (folder / "vocab.json").write_text(json.dumps(vocab))
    (folder / "merges.txt").write_text("#version: 0.2\na b\nĠ a\n")
    (folder / "added_tokens.json").write_text(json.dumps({"<y>": 11}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"add_prefix_space": False, "model_max_length": 1024}))
    (folder / "config.json").write_text(json.dumps({"model_type": "gpt2", "n_positions": 64}))


def _sharded(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    _model("bert", "text-classification")(folder)
    tensors = load_file(folder / "model.safetensors")
    names = sorted(tensors)
    parts = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, some in parts.items():
        save_file({name: tensors[name] for name in some}, folder / file, metadata={"format": "pt"})
    (folder / "model.safetensors").unlink()
    index = {"metadata": {"total_size": 1}, "weight_map": {name: file for file, some in parts.items() for name in some}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def _pickled(folder: Path) -> None:
    from safetensors.torch import load_file

    _model("gpt2", "text-generation")(folder)
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def _vectors(folder: Path) -> None:
    gf.save(gf.build("bert", None, **SMALL_BERT), folder, tokenizer=_tokenizer())
    from glassformer.tasks.pooling import PoolingOptions, write_pooling

    write_pooling(folder, PoolingOptions(max_length=20))


def _use_vectors(folder: Path) -> None:
    gf.pipeline("feature-extraction", folder)(TEXT)


CSV = "text,label\n" + "".join(
    f"{'good' if n % 2 else 'bad'} film {n},{'pos' if n % 2 else 'neg'}\n" for n in range(24)
)
CONLL = "".join(f"Anna{n} B-PER\nsaw O\nRome B-LOC\n\n" for n in range(12))
SQUAD = {
    "version": "1.1",
    "data": [
        {
            "title": "t",
            "paragraphs": [
                {
                    "context": f"the cat {n} sat on a mat",
                    "qas": [
                        {
                            "id": str(n),
                            "question": "who sat",
                            "answers": [{"text": f"cat {n}", "answer_start": 4}],
                            "is_impossible": False,
                        }
                    ],
                }
                for n in range(10)
            ],
        }
    ],
}
PAIRS = "sentence1,sentence2,score\n" + "".join(f"a {n},b {n},{n / 20}\n" for n in range(16))
ROWS = [{"text": f"film {n}", "label": str(n % 3)} for n in range(24)]
DATA: dict[str, tuple[str, str, str, dict[str, Any]]] = {  # name: task, file, content, settings
    "csv": ("text-classification", "d.csv", CSV, {}),
    "tsv": ("text-classification", "d.tsv", CSV.replace(",", "\t"), {}),
    "scores": (
        "text-classification",
        "d.csv",
        "text,label\n" + "a b,0.5\nc d,1.5\ne,2\n" * 6,
        {"problem_type": "regression"},
    ),
    "several": (
        "text-classification",
        "d.csv",
        "text,label\n" + "a b,x;y\nc d,y\ne,\nf,x\n" * 5,
        {"problem_type": "multi_label_classification"},
    ),
    "jsonl": ("text-classification", "d.jsonl", "\n".join(map(json.dumps, ROWS)) + "\n", {}),
    "json": ("text-classification", "d.json", json.dumps(ROWS), {}),
    "conll": ("token-classification", "d.conll", CONLL, {}),
    "squad": ("question-answering", "d.json", json.dumps(SQUAD), {}),
    "lines": ("text-generation", "d.txt", "the cat sat on the mat\n\nand the dog too\n" * 9, {"block_size": 16}),
    "labelled": ("text-generation", "d.csv", CSV, {"block_size": 16}),
    "masked": ("fill-mask", "d.txt", "the cat sat on the mat\n\nand the dog too\n" * 9, {}),
    "documents": ("pretraining", "d.txt", "the cat sat\non the mat\nand so on\n\nthe dog too\nsaw it\n\n" * 8, {}),
    "parallel": ("translation", "d.tsv", "".join(f"the cat {n}\tdie Katze {n}\n" for n in range(20)), {}),
    "pairs": (
        "sentence-similarity",
        "d.csv",
        PAIRS,
        {},
    ),
}
ARCHS = {"text-generation": "gpt2", "translation": "seq2seq", "question-answering": "bert", "fill-mask": "bert"}
ARCHS |= {"pretraining": "bert", "sentence-similarity": "bert"}
TINY: dict[str, dict[str, Any]] = {
    "gpt2": {"n_embd": 12, "n_layer": 1, "n_head": 3, "n_positions": 64},
    "bert": {"hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 3, "intermediate_size": 16}
    | {"max_position_embeddings": 64},
    "seq2seq": {"embedding_size": 6, "hidden_size": 8},
    "lstm": {"embedding_size": 6, "hidden_size": 8},
}


def _recipe(task: str, file: str, settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    arch = ARCHS.get(task, "lstm")
    kind = "wordpiece" if arch == "bert" else "character"
    return {"task": task, "out": str(folder / "out"), "data": str(folder / file), "arch": arch, "steps": 1} | {
        "tokenizer": kind,
        "vocab_size": 90,
        "batch_size": 4,
        "config": TINY[arch],
        "device": "cpu",
        **settings,
    }


def _data(name: str) -> Target:
    task, file, content, settings = DATA[name]

    def use(folder: Path) -> None:
        splits, made, *_ = assemble(Recipe.of(_recipe(task, file, settings, folder)), torch.device("cpu"))
        made.encode(splits.train)

    return Target(f"data-{name}", lambda folder: (folder / file).write_text(content), (file,), use)


def _recipe_file(name: str) -> Target:
    from glassformer.jobs.recipe import write_toml

    task, file, content, settings = DATA[name]
    more = {"lr": 1e-3, "seed": 3, "warmup": 0.1, "schedule": "linear", "lowercase": True, "limit": 20, "clip": 1.0}
    if task in ("text-classification", "token-classification"):
        more |= {"max_length": 20, "label_smoothing": 0.1}

    def make(folder: Path) -> None:
        (folder / file).write_text(content)
        (folder / "r.toml").write_text(write_toml(_recipe(task, file, settings, folder) | more))

    def use(folder: Path) -> None:
        recipe = Recipe.from_toml(folder / "r.toml", {"out": str(folder / "out"), "device": "cpu"})
        check_config(recipe, task_class(recipe.task))
        splits, made, *_ = assemble(recipe, torch.device("cpu"))
        made.encode(splits.train)

    return Target(f"recipe-{name}", make, ("r.toml",), use)


def _requests() -> Target:
    settings = {"max_new_tokens": 3, "num_beams": 2, "num_return_sequences": 1, "length_penalty": 1.0, "top_k": None}
    settings |= {"top_p": None, "temperature": None, "repetition_penalty": 1.2, "seed": 1, "stop_strings": ["z"]}
    settings |= {"eos_token_id": 3, "bad_words_ids": [[5, 6]], "suppress_tokens": [7], "forced_eos_token_id": 3}
    settings |= {
        "min_length": 1,
        "penalty_alpha": None,
        "num_beam_groups": 1,
        "force_words_ids": None,
        "do_sample": False,
    }
    settings |= {"sequence_bias": [[[4], 0.5]], "no_repeat_ngram_size": 2, "max_time": 10.0, "top_logprobs": 0}
    settings |= {"prompt_lookup_num_tokens": None, "min_p": None, "typical_p": None, "diversity_penalty": 0.0}

    def make(folder: Path) -> None:
        _model("gpt2", "text-generation")(folder)
        (folder / "request.json").write_text(json.dumps(settings))

    def use(folder: Path) -> None:
        request = json.loads((folder / "request.json").read_text())
        if isinstance(request, dict):
            gf.generate(_served(), _tokenizer(), TEXT, **request)

    return Target("request", make, ("request.json",), use)


@cache
def _served() -> Any:
    torch.manual_seed(0)
    return gf.build("gpt2", "text-generation", **SIZES["gpt2"])


def _runs() -> Target:
    from glassformer.jobs.recipe import write_toml

    def make(folder: Path) -> None:
        run = folder / "a"
        _model("bert", "text-classification")(run)
        (run / "recipe.toml").write_text(write_toml(_recipe("text-classification", "d.csv", {}, folder)))
        rows = [{"step": n, "epoch": 0, "loss": 1.0 / n, "lr": 0.1, "dev_accuracy": 0.5} for n in range(1, 9)]
        (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        result = {"scores": {"dev": {"accuracy": 0.5}}, "progress": {"step": 8, "seconds": 1.0}, "plan": {"lr": 0.1}}
        (run / "run.json").write_text(json.dumps(result))

    def use(folder: Path) -> None:
        from glassformer.studio.runs import entry

        entry("a", folder / "a")
        gf.pipeline("text-classification", folder / "a")(TEXT)

    return Target("runs", make, ("a/run.json", "a/metrics.jsonl", "a/recipe.toml"), use)


MODEL_FILES = ("config.json", "config.json", "config.json", "tokenizer_config.json", "special_tokens_map.json")
TARGETS = {
    target.name: target
    for target in (
        *(
            Target(
                f"{kind}-{head}",
                _model(kind, head),
                (*MODEL_FILES, "tokenizer.json", "model.safetensors")
                + (("generation_config.json",) * 3 if head.endswith("generation") else ()),
                _use_model(head),
            )
            for kind, head in MODELS
        ),
        Target(
            "tokenizer-bert",
            _old_bert,
            ("vocab.txt", "tokenizer_config.json", "special_tokens_map.json"),
            _use_tokenizer,
        ),
        Target(
            "tokenizer-gpt2",
            _old_gpt2,
            ("vocab.json", "merges.txt", "added_tokens.json", "tokenizer_config.json", "config.json"),
            _use_tokenizer,
        ),
        *(
            Target(
                f"tokenizer-{family}",
                partial(write_family, family),
                (*(FAMILIES[family][0],) * 3, "tokenizer_config.json", "config.json"),
                _use_tokenizer,
            )
            for family in ("t5", "albert", "nllb", "llama")
        ),
        Target(
            "sharded", _sharded, ("model.safetensors.index.json", "a.safetensors"), _use_model("text-classification")
        ),
        Target("pickled", _pickled, ("pytorch_model.bin",), _use_model("text-generation")),
        Target(
            "vectors", _vectors, ("modules.json", "sentence_bert_config.json", "1_Pooling/config.json"), _use_vectors
        ),
        *map(_data, DATA),
        *map(_recipe_file, ("csv", "conll", "squad", "lines", "parallel", "pairs", "masked", "documents")),
        _requests(),
        _runs(),
    )
}
