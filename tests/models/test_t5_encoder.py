"""T5's start, and its encoder alone: a model that reads, from a folder of its own or of the whole."""

import json
import math

import pytest
import torch
import transformers
from torch.testing import assert_close

import glassformer as gf
from families import shake
from glassformer.jobs.predict import task_of
from glassformer.text.train import train

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
TEXTS = ["the cat sat", "on the mat and the dog"]


@pytest.fixture(scope="module", params=["t5", "mt5"])
def folder(request, tmp_path_factory):
    """A whole T5."""
    path = tmp_path_factory.mktemp(request.param)
    (path / "text.txt").write_text("the cat sat on the mat and the dog sat on the cat\n" * 20)
    tok = train([path / "text.txt"], kind="unigram", vocab_size=60)
    sizes = {"d_model": 16, "d_kv": 4, "d_ff": 20, "num_layers": 2, "num_heads": 2, "pad_token_id": tok.pad_token_id}
    model = gf.build(request.param, "text2text-generation", vocab_size=len(tok), **sizes)
    return gf.save(shake(model), path / "whole", tokenizer=tok)


def test_vectors_come_from_the_encoder_of_a_whole_model(folder, tmp_path):
    whole, pipe = gf.load(folder), gf.pipeline("feature-extraction", folder)
    assert not pipe.model.config.is_encoder_decoder
    batch = gf.load_tokenizer(folder)(TEXTS, padding=True, return_tensors="pt")
    with torch.inference_mode():
        memory = whole(**batch, decoder_input_ids=torch.zeros(2, 1, dtype=torch.long)).encoder_last_hidden_state
        assert_close(pipe.model(**batch).last_hidden_state, memory)
    for row, found in enumerate(pipe(TEXTS)):
        assert_close(torch.tensor(found)[0], memory[row, batch["attention_mask"][row].bool()])

    alone = gf.save(pipe.model, tmp_path / "alone", tokenizer=gf.load_tokenizer(folder))
    stated = json.loads((alone / "config.json").read_text())
    assert stated["is_encoder_decoder"] is False
    assert task_of(str(alone)) == "feature-extraction"
    again = gf.load(alone)
    assert again.head_name == "feature-extraction"
    peer = transformers.AutoModelForTextEncoding.from_pretrained(alone).eval()
    assert type(peer).__name__ == stated["architectures"][0]
    keep = batch["attention_mask"].bool()
    with torch.inference_mode():
        assert_close(again(**batch).last_hidden_state, memory)
        assert_close(peer(**batch).last_hidden_state[keep], memory[keep], atol=1e-5, rtol=1e-5)
    assert gf.pipeline("sentence-similarity", alone)(tuple(TEXTS)) == pytest.approx(
        gf.pipeline("sentence-similarity", folder)(tuple(TEXTS))
    )


def test_a_decoder_that_is_not_there_is_missed(folder, tmp_path):
    alone = gf.save(gf.load(folder, head="feature-extraction"), tmp_path / "alone")
    with pytest.raises(ValueError, match=r"missing from the file: decoder\.layers"):
        gf.load(alone, head="text2text-generation")
    with pytest.raises(ValueError, match="has no tokenizer|decoder"):
        gf.pipeline("translation", alone)


def test_it_learns_likeness(tmp_path):
    settings = {"task": "sentence-similarity", "arch": "t5", "data": "microworld", "limit": 20, "vocab_size": 150}
    settings |= {"config": {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 1, "num_heads": 2}}
    run = gf.train(**settings, out=str(tmp_path / "run"), steps=2, batch_size=8, device="cpu", log=lambda _: None)
    assert json.loads((run.folder / "config.json").read_text())["architectures"] == ["T5EncoderModel"]
    assert -1 <= gf.pipeline("sentence-similarity", run.folder)(("a cat", "a dog")) <= 1


@pytest.mark.parametrize("tied", [True, False])
def test_a_fresh_model_is_hardly_surer_than_chance(tied):
    sizes = {"vocab_size": 500, "d_model": 128, "d_ff": 64, "num_layers": 1, "num_heads": 2}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = gf.build("t5", "text2text-generation", **sizes, tie_word_embeddings=tied, scale_decoder_outputs=tied)
        ids = torch.randint(500, (4, 20))
        with torch.inference_mode():
            logits = model(ids, decoder_input_ids=ids).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids.roll(1, 1).flatten())
    assert loss < math.log(500) + 1.5
