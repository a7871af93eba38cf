"""What graphs are traced of says what the model says, whatever the padding: every family, every head."""

import pytest
import torch
from torch.testing import assert_close

from export.sources import TRACED, small, source_of
from glassformer.export.check import compare_outputs
from glassformer.export.formats import EXACT, can_be_traced
from glassformer.export.to_torch_export import traced
from glassformer.export.traced import TracedFirstStep, TracedLaterStep, TracedStep
from glassformer.models.contract import GENERATES
from glassformer.tasks.pooling import PoolingOptions

WRITERS = [case for case in TRACED if case[1] in GENERATES]


def test_every_model_of_attention_layers_can_be_traced():
    kinds = {kind for kind, _ in TRACED}
    assert {"bert", "deberta-v2", "modernbert", "gpt2", "llama", "marian", "t5"} <= kinds
    assert not [kind for kind in kinds if kind in ("glassformer-rnn", "glassformer-seq2seq", "glassformer-cnn")]
    assert not can_be_traced(small("glassformer-rnn", "text-classification"))


@pytest.mark.parametrize(("model_type", "head"), TRACED)
def test_padding_that_stays_changes_nothing(model_type, head):
    source = source_of(small(model_type, head))
    module = traced(source)
    found = compare_outputs(source, lambda batch: module(**batch))
    assert found.inputs == 32
    assert found.padded >= 15
    found.require(EXACT, exact=True)


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_a_bare_encoder_gives_the_vector_of_each_text(pooling):
    source = source_of(small("bert", None), pooling=PoolingOptions(pooling))
    module = traced(source)
    found = compare_outputs(source, lambda batch: module(**batch))
    assert list(found.errors) == ["last_hidden_state", "sentence_embedding"]
    found.require(EXACT, exact=True)


@pytest.mark.parametrize(("model_type", "head"), WRITERS)
@torch.inference_mode()
def test_a_cache_that_comes_in_and_goes_out_is_the_models_own(model_type, head):
    """Two chunks, of texts with padding in front, or over sources with padding."""
    model = small(model_type, head)
    batch = source_of(model).samples.left_padded
    ids, mask = batch["input_ids"], batch["attention_mask"]
    if head == "text2text-generation":
        target = batch["decoder_input_ids"]
        expected, memory = model(**batch)
        first = TracedFirstStep(model)(target[:, :3], memory, mask)
        parts = ("decoder.key", "decoder.value", "encoder.key", "encoder.value")
        past = [tuple(first[f"present.{n}.{part}"] for part in parts) for n in range(len(model.decoder.layers))]
        second = TracedLaterStep(model)(target[:, 3:], mask, past)
        real = torch.ones_like(target, dtype=torch.bool)
    else:
        (heads, width), step = model.cache, TracedStep(model)
        nothing = torch.zeros(len(ids), heads, 0, width)
        first = step(ids[:, :3], mask[:, :3], [(nothing, nothing) for _ in model.layers])
        past = [(first[f"present.{n}.key"], first[f"present.{n}.value"]) for n in range(len(model.layers))]
        second = step(ids[:, 3:], mask, past)
        expected, real = model(ids, mask).logits, mask.bool()
    found = torch.cat([first["logits"], second["logits"]], 1)
    assert_close(found[real], expected[real], atol=EXACT, rtol=EXACT)
