"""The decoder whose positions can be chosen: GPT-2 with learned ones, no order of its own without any."""

import torch
from torch.testing import assert_close

import glassformer as gf

SIZES = {"vocab_size": 20, "n_embd": 16, "n_head": 2, "n_layer": 2, "n_positions": 12}
IDS = torch.randint(20, (2, 12), generator=torch.Generator().manual_seed(0))


def decoder(positions):
    torch.manual_seed(0)
    return gf.build("glassformer-decoder", "text-generation", positions=positions, **SIZES)


def test_with_learned_positions_it_is_a_gpt2():
    one, other = decoder("learned"), gf.build("gpt2", "text-generation", **SIZES)
    other.load_state_dict(one.state_dict())
    assert_close(one(IDS).logits, other(IDS).logits)


def test_without_positions_places_do_not_matter_and_texts_may_be_of_any_length():
    model = decoder(None)
    assert_close(model(IDS, position_ids=IDS * 0).logits, model(IDS).logits)
    assert model.config.max_positions is None
    assert model(IDS.repeat(1, 9)).logits.shape == (2, 108, 20)


def test_sinusoids_are_added_to_larger_token_vectors():
    model = decoder("sinusoidal")
    place = torch.arange(12)[:, None] / 10000 ** (torch.arange(0, 16, 2) / 16)
    expected = 4 * model.embeddings.token.weight[IDS] + torch.cat([place.sin(), place.cos()], dim=1)
    assert_close(model.embeddings(IDS, torch.arange(12)), expected)


def test_it_is_saved_and_loaded(tmp_path):
    for positions in ("sinusoidal", "learned", None):
        model = decoder(positions)
        gf.save(model, tmp_path / str(positions))
        loaded = gf.load(tmp_path / str(positions))
        assert loaded.config.positions == positions
        assert_close(loaded(IDS).logits, model(IDS).logits)
