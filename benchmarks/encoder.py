"""Encoder inference on texts of realistic lengths: ours against transformers (sdpa) and, on a CPU, CTranslate2."""

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

import glassformer as gf
from glassformer.engine.prepare import prepared_reader

from .measure import Row, interleaved, row

SHAPES = {
    "MiniLM": {
        "hidden_size": 384,
        "num_hidden_layers": 6,
        "num_attention_heads": 12,
        "intermediate_size": 1536,
    },
    "BERT-base": {},
}
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
PEERS = {
    **{name: transformers.BertConfig(**sizes) for name, sizes in SHAPES.items()},
    "DeBERTa-v3-small": transformers.DebertaV2Config(
        hidden_size=768,
        num_hidden_layers=6,
        num_attention_heads=12,
        intermediate_size=3072,
        relative_attention=True,
        position_buckets=256,
        norm_rel_ebd="layer_norm",
        share_att_key=True,
        pos_att_type=["p2c", "c2p"],
        position_biased_input=False,
    ),
    "ModernBERT-base": transformers.ModernBertConfig(**SPECIAL),
}
KINDS = {"fp32": "float32", "int8": "int8"}  # as CTranslate2 calls them
Batch = dict[str, torch.Tensor]


def lengths(texts: int, seed: int = 0) -> np.ndarray:
    """Lognormal lengths with mean 40 and at most 256 tokens."""
    drawn = np.random.default_rng(seed).lognormal(3.4, 0.76, texts).astype(int)
    return np.clip(drawn, 4, 256)


def batches(sizes: np.ndarray, batch: int, device: str, mask_device: str | None = None) -> list[Batch]:
    """Padded batches of random ids in the order given; the mask may stay on the CPU."""

    def make() -> Iterator[Batch]:
        generator = torch.Generator().manual_seed(0)
        for start in range(0, len(sizes), batch):
            part = torch.from_numpy(sizes[start : start + batch])
            mask = (torch.arange(int(part.max())) < part[:, None]).long()
            ids = torch.randint(1000, 30000, mask.shape, generator=generator) * mask
            yield {"input_ids": ids.to(device), "attention_mask": mask.to(mask_device or device)}

    return list(make())


def over(model: torch.nn.Module, work: list[Batch]) -> Callable[[], None]:
    def run() -> None:
        with torch.inference_mode():
            for inputs in work:
                model(**inputs)

    return run


def models(shape: str, device: str, dtype: torch.dtype, folder: Path) -> tuple[torch.nn.Module, torch.nn.Module]:
    """The same random weights in transformers and here."""
    peer = transformers.AutoModel.from_config(PEERS[shape]).eval()  # with sdpa, where it has that
    peer.save_pretrained(folder)
    return peer.to(device, dtype), gf.load(folder, device=device, dtype=dtype)


def ctranslate2_encoder(folder: Path, kind: str) -> Any:
    """CTranslate2's encoder with the same weights in fp32 or int8, where it is installed."""
    try:
        import ctranslate2
    except ImportError:
        return None
    vocabulary = [f"w{number}" for number in range(30522)]
    for number, token in {0: "[PAD]", 100: "[UNK]", 101: "[CLS]", 102: "[SEP]", 103: "[MASK]"}.items():
        vocabulary[number] = token
    (folder / "vocab.txt").write_text("\n".join(vocabulary))
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "position_embedding_type": "absolute"}))
    target = str(folder / "ct2")
    ctranslate2.converters.TransformersConverter(str(folder)).convert(target, force=True)
    return ctranslate2.Encoder(target, intra_threads=torch.get_num_threads(), compute_type=KINDS[kind])


def over_rows(encoder: Any, work: list[Batch]) -> Callable[[], None]:
    """The same ids, as the lists of real tokens that CTranslate2 takes."""
    rows = [
        [ids[mask.bool()].tolist() for ids, mask in zip(b["input_ids"], b["attention_mask"], strict=True)] for b in work
    ]

    def run() -> None:
        for batch in rows:
            np.asarray(encoder.forward_batch(batch).last_hidden_state)

    return run


def cpu(shape: str, texts: int = 128) -> list[Row]:
    """Batches of 32 on this machine's threads, ours as a pipeline runs it over many texts."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as name:
        peer, ours = models(shape, "cpu", torch.float32, Path(name))
        is_bert = PEERS[shape].model_type == "bert"
        third = {kind: ctranslate2_encoder(Path(name), kind) if is_bert else None for kind in KINDS}
        mine = {"fp32": ours, "int8": gf.load(name, quant="int8")}
        orders = {
            "arrival order": lengths(texts),
            "sorted by length": np.sort(lengths(texts)),
            "equal lengths": np.full(texts, 40),
        }
        for order, sizes in orders.items():
            work = batches(sizes, 32, "cpu")
            contestants = {"transformers": over(peer, work)}
            contestants |= {f"ours, {kind}": over(prepared_reader(mine[kind]), work) for kind in KINDS}
            contestants |= {f"CTranslate2, {kind}": over_rows(third[kind], work) for kind in KINDS if third[kind]}
            seconds = interleaved(contestants, rounds=5)
            for kind in KINDS:
                others = [one for one in contestants if one == "transformers" or one == f"CTranslate2, {kind}"]
                time = seconds[f"ours, {kind}"]
                rows += [row(f"encoder {shape}, {kind}, {order}", time, seconds[other], other) for other in others]
    return rows


def cuda(texts: int = 8192, tokens: int = 32768) -> list[Row]:
    """BERT-base in bf16, real tokens a second."""
    rows: list[Row] = []
    sizes = lengths(texts)
    real = int(sizes.sum())
    with tempfile.TemporaryDirectory() as name:
        peer, ours = models("BERT-base", "cuda", torch.bfloat16, Path(name))
        compiled = gf.load(name, device="cuda", dtype=torch.bfloat16)
        for layer in compiled.layers:
            layer.compile(dynamic=True)
        many = tokens // int(sizes.mean())
        seconds = interleaved(
            {
                "transformers, arrival order, 256 texts": over(peer, batches(sizes, 256, "cuda")),
                "transformers, sorted, 256 texts": over(peer, batches(np.sort(sizes), 256, "cuda")),
                "ours, arrival order, 256 texts": over(ours, batches(sizes, 256, "cuda")),
                "ours, arrival order, 32k tokens": over(ours, batches(sizes, many, "cuda")),
                "ours compiled, arrival order, 32k tokens": over(compiled, batches(sizes, many, "cuda")),
                "ours compiled, 32k tokens, mask on the CPU": over(compiled, batches(sizes, many, "cuda", "cpu")),
                "ours compiled, 128k tokens, mask on the CPU": over(compiled, batches(sizes, 4 * many, "cuda", "cpu")),
            },
            rounds=7,
        )
    best_peer = seconds["transformers, sorted, 256 texts"]
    for label, value in seconds.items():
        print(f"{label:45} {real / value / 1e6:6.3f} M real tokens/s")
        if label.startswith("ours"):
            rows.append(row(f"BERT-base bf16, {label}", value, best_peer, "transformers sorted"))
    return rows


def run() -> list[Row]:
    small = ("BERT-base", "DeBERTa-v3-small", "ModernBERT-base")
    return [*cpu("MiniLM"), *(line for shape in small for line in cpu(shape, texts=64))]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    for line in cuda() if parser.parse_args().device == "cuda" else run():
        print(line)
