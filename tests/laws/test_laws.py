"""Every law, for every family and head of the registry, on random configs and weights."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import glassformer as gf
from families import CASES, random_model, sequences, settings_of
from glassformer.inspect.laws import LAWS, pad, run, some_target


@pytest.mark.parametrize(("model_type", "head"), CASES)
@settings(max_examples=6)
@given(data=st.data())
def test_laws_hold(model_type, head, data):
    chosen = data.draw(settings_of(model_type))
    model = random_model(model_type, head, chosen)
    tokens = sequences(data.draw(st.integers(0, 9)))
    errors = {law.name: law.check(model, tokens) for law in LAWS if law.applies(model)}
    assert {"padding is invisible", "looking changes nothing"} <= errors.keys()
    assert max(errors.values()) <= 1e-5, errors


@pytest.mark.parametrize(("model_type", "head"), CASES)
@settings(max_examples=3)
@given(data=st.data())
def test_gradients_do_not_depend_on_who_listens(model_type, head, data):
    """The packed and fused paths learn what the padded and readable ones learn."""
    model = random_model(model_type, head, data.draw(settings_of(model_type))).double()  # so that no rounding hides
    ids, mask = pad(sequences(), model)
    target = {}
    if getattr(model.config, "is_encoder_decoder", False):
        target["decoder_input_ids"] = some_target(model, len(ids))
        target["decoder_attention_mask"] = torch.ones_like(target["decoder_input_ids"])
        target["decoder_attention_mask"][1:, 4:] = 0

    def gradients():
        model.zero_grad()
        outputs = model(input_ids=ids, attention_mask=mask, **target)
        sum(
            (value.tanh() * torch.linspace(0, 1, value.shape[-1], dtype=value.dtype)).sum() for value in outputs
        ).backward()
        return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}

    plain = gradients()
    with gf.record(model, "*"):
        listened = gradients()
    assert plain.keys() == listened.keys()
    for name, gradient in plain.items():
        scale = max(1.0, float(gradient.abs().max()))
        torch.testing.assert_close(listened[name] / scale, gradient / scale, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("model_type", ["marian", "bart", "m2m_100", "glassformer-transformer", "glassformer-seq2seq"])
@settings(max_examples=6)
@given(data=st.data())
def test_padding_of_the_target_is_invisible(model_type, data):
    model = random_model(model_type, "text2text-generation", data.draw(settings_of(model_type)))
    source, source_mask = pad(sequences(lengths=(4, 6)), model)
    short, long = some_target(model, 1, length=4), some_target(model, 1, length=7)
    alone = run(model, source[:1, :4], target=short)["logits"][0]
    for side in ("right", "left"):
        target, mask = pad([short[0].tolist(), long[0].tolist()], model, side=side)
        with torch.no_grad():
            out = model(source, source_mask, decoder_input_ids=target, decoder_attention_mask=mask)
        torch.testing.assert_close(out.logits[0, mask[0].bool()], alone, atol=1e-5, rtol=1e-5)
        hidden = model.hidden(source, source_mask, decoder_input_ids=target, decoder_attention_mask=mask)
        assert not hidden[~mask.bool()].any(), "hidden states are zero at padding"


@pytest.mark.parametrize("model_type", ["gpt2", "glassformer-rnn"])
def test_a_text_goes_on_after_padding_on_its_right_or_inside(model_type):
    chosen = {"vocab_size": 41, "n_embd": 12, "n_head": 3, "n_layer": 2, "n_positions": 40}
    if model_type == "glassformer-rnn":
        chosen = {"vocab_size": 41, "kind": "gru", "hidden_size": 12, "embedding_size": 12}
    model = random_model(model_type, "text-generation", chosen)
    prompt, more = torch.tensor([[5, 6, 7]]), torch.tensor([[8]])
    padded, mask = torch.tensor([[5, 0, 6, 7, 0, 0]]), torch.tensor([[1, 0, 1, 1, 0, 0]])
    with torch.no_grad():
        expected = model(torch.cat([prompt, more], dim=1)).logits[:, -1]
        _, state = model.step(padded, model.start(padded, mask, length=7))
        logits, _ = model.step(more, state)
    torch.testing.assert_close(logits[:, -1], expected, atol=1e-5, rtol=1e-5)
