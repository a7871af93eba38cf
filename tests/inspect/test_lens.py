"""Lenses: the last layer says what the model says, and each layer what its output layer makes of it."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

import glassformer as gf
from families import SMALL_BERT, SMALL_GPT, random_model
from glassformer.inspect.lens import head_layers, prefix_lens, scores
from inspect_cases import hooked, inputs_of, small

MASK = 4


@pytest.mark.parametrize("model_type", ["gpt2", "marian", "bart", "glassformer-transformer"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_the_last_layer_says_what_the_model_says(model_type, side):
    head = "text-generation" if model_type == "gpt2" else "text2text-generation"
    model = small(model_type, head)
    inputs = inputs_of(model, side=side)
    lens = gf.logit_lens(model, inputs)
    with torch.no_grad():
        logits = model(**inputs).logits
    keep = (
        inputs["attention_mask"].bool() if model_type == "gpt2" else torch.ones_like(inputs["decoder_input_ids"]).bool()
    )
    assert_close(lens.logits[-1][keep], logits[keep], atol=1e-5, rtol=1e-5)
    assert not hooked(model)


def test_gpts_layers_by_hand():
    model = random_model("gpt2", "text-generation", SMALL_GPT)
    inputs = inputs_of(model, lengths=(5,))
    lens = gf.logit_lens(model, inputs)
    with torch.no_grad(), gf.record(model, "layers.0") as seen:
        model(**inputs)
        norm = model.final_norm
        x = F.layer_norm(seen["layers.0"], (12,), norm.weight, norm.bias, norm.eps)
    assert lens.names == ["embeddings", "layers.0", "layers.1"]
    assert_close(lens.logits[1], x @ model.head.weight.T)
    probabilities, words = lens.top(3)
    assert_close(probabilities[1, 0, 2], lens.logits[1, 0, 2].softmax(-1).sort(descending=True).values[:3])
    assert_close(lens.rank(words[-1, :, :, 1])[-1], torch.ones(1, 5, dtype=torch.long))


def test_bert_is_asked_at_its_masks():
    model = random_model("bert", "fill-mask", SMALL_BERT)
    ids = torch.tensor([[5, MASK, 7, 8], [MASK, 9, 10, 11]])
    lens = gf.logit_lens(model, {"input_ids": ids}, mask_id=MASK)
    with torch.no_grad():
        logits = model(input_ids=ids).logits
    assert lens.places.tolist() == [[1], [0]]
    assert_close(lens.logits[-1, :, 0], torch.stack([logits[0, 1], logits[1, 0]]))
    with pytest.raises(ValueError, match="they hold \\[0\\]"):
        gf.logit_lens(model, {"input_ids": ids[:, 2:][:1]}, mask_id=MASK)
    with pytest.raises(ValueError, match="give mask_id"):
        gf.logit_lens(model, {"input_ids": ids})


@pytest.mark.parametrize("model_type", ["marian", "bart", "glassformer-transformer"])
def test_the_decoder_lens_ends_with_the_model_itself(model_type):
    model = small(model_type, "text2text-generation", encoder_layers=2)
    inputs = inputs_of(model)
    lens = gf.decoder_lens(model, inputs)
    with torch.no_grad():
        assert_close(lens.logits[-1], model(**inputs).logits, atol=1e-5, rtol=1e-5)
    assert len(lens.names) == 3
    assert (lens.logits[1] - lens.logits[2]).abs().max() > 1e-4


def test_a_decoder_that_reads_an_earlier_layer_equals_a_shallower_encoder():
    deep = small("marian", "text2text-generation", encoder_layers=2)
    inputs = inputs_of(deep)
    lens = gf.decoder_lens(deep, inputs)
    deep.encoder.layers = deep.encoder.layers[:1]
    with torch.no_grad():
        assert_close(lens.logits[1], deep(**inputs).logits, atol=1e-5, rtol=1e-5)


def test_models_that_have_no_words():
    for model_type, head in (("bert", "text-classification"), ("glassformer-rnn", "text-generation")):
        model = small(model_type, head)
        with pytest.raises(ValueError, match="load"):
            gf.logit_lens(model, inputs_of(model), mask_id=MASK)
    with pytest.raises(ValueError, match="use logit_lens"):
        gf.decoder_lens(small("gpt2", "text-generation"), {})


ENCODERS = [(name, head) for name in ("bert", "roberta", "distilbert") for head in (
    "text-classification", "token-classification", "question-answering", "fill-mask"
)]  # fmt: skip


@pytest.mark.parametrize(("model_type", "head"), ENCODERS)
@pytest.mark.parametrize("side", ["left", "right"])
def test_the_head_on_the_last_layer_says_what_the_model_says(model_type, head, side):
    model = small(model_type, head, num_hidden_layers=2) if model_type != "distilbert" else small(model_type, head)
    inputs = inputs_of(model, side=side)
    lens = head_layers(model, inputs).together()
    with torch.no_grad():
        outputs = model(**inputs)
    last, said = lens.logits[-1], scores(model, outputs)
    if head in ("token-classification", "fill-mask"):
        keep = inputs["attention_mask"].bool()
        last, said = last[keep], said[keep]
    elif head == "question-answering":
        keep = inputs["attention_mask"].bool()[:, None].expand(-1, 2, -1)
        last, said = last[keep], said[keep]
    assert_close(last, said, atol=1e-5, rtol=1e-5)
    assert (lens.logits[0] - lens.logits[-1]).abs().max() > 1e-4
    assert not hooked(model)


def test_an_answer_has_two_ends_and_a_class_is_said_once():
    answers, classes = small("bert", "question-answering"), small("bert", "text-classification")
    inputs = inputs_of(answers, lengths=(6,))
    assert head_layers(answers, inputs).together().logits.shape[1:] == (1, 2, 6)
    assert head_layers(classes, inputs).together().logits.shape[1:3] == (1, 1)
    with pytest.raises(ValueError, match="use logit_lens"):
        head_layers(small("gpt2", "text-generation"), {})


@pytest.mark.parametrize("pooling", ["last", "mean", "max"])
def test_every_beginning_of_a_text_is_judged(pooling):
    model = small("glassformer-rnn", "text-classification", bidirectional=True, pooling=pooling)
    ids = torch.randint(1, 40, (1, 7), generator=torch.Generator().manual_seed(0))
    found = prefix_lens(model, {"input_ids": ids}, rows=3)
    with torch.no_grad():
        alone = torch.cat([model(input_ids=ids[:, :end]).logits for end in range(1, 8)])
    assert_close(found, alone, atol=1e-5, rtol=1e-5)
