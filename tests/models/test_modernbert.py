"""ModernBERT beyond the registry's tests: the keys of older folders, texts beyond the window, and what is refused."""

import pytest
import torch
import transformers
from torch.testing import assert_close

import glassformer as gf
from families import VOCABULARY, random_model, sequences
from glassformer.inspect.laws import pad, run
from glassformer.inspect.lens import head_layers
from glassformer.models.modernbert import ModernBertConfig
from hub.changes import edit_config

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
SMALL = {"vocab_size": VOCABULARY, "hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 4}
SMALL |= {"intermediate_size": 12, "max_position_embeddings": 400, "local_attention": 8, "pad_token_id": 0}
GLOBAL, LOCAL = "full_attention", "sliding_attention"


def test_keys_of_before_and_of_now_say_the_same():
    older = {"global_rope_theta": 500.0, "local_rope_theta": 70.0, "global_attn_every_n_layers": 2}
    newer = {"layer_types": [GLOBAL, LOCAL, GLOBAL, LOCAL]} | {
        "rope_parameters": {kind: {"rope_type": "default", "rope_theta": theta} for kind, theta in
                            ((GLOBAL, 500.0), (LOCAL, 70.0))}
    }  # fmt: skip
    one, other = (ModernBertConfig.from_hf({**SMALL, **keys}) for keys in (older, newer))
    assert (one.kinds, one.rope_parameters) == (other.kinds, other.rope_parameters)
    for config in (one, other):
        assert {key: config.to_hf()[key] for key in (*older, *newer)} == {**older, **newer}


def test_a_local_theta_of_null_is_the_global_one():
    config = ModernBertConfig.from_hf({**SMALL, "global_rope_theta": 500.0, "local_rope_theta": None})
    assert [config.rope_parameters[kind]["rope_theta"] for kind in (GLOBAL, LOCAL)] == [500.0, 500.0]
    silent = ModernBertConfig.from_hf(SMALL)
    assert [silent.rope_parameters[kind]["rope_theta"] for kind in (GLOBAL, LOCAL)] == [160_000.0, 10_000.0]


def test_texts_far_longer_than_the_window(tmp_path):
    folder = gf.save(random_model("modernbert", None, SMALL), tmp_path)
    peer = transformers.ModernBertModel.from_pretrained(folder, attn_implementation="eager").eval()
    ids, mask = pad(sequences(lengths=(510, 3, 120, 9)), gf.load(folder))  # and than the 400 of its training
    with torch.no_grad():
        expected = peer(input_ids=ids, attention_mask=mask).last_hidden_state
    found = run(gf.load(folder), ids, mask)["last_hidden_state"]
    assert_close(found[mask.bool()], expected[mask.bool()], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_the_last_layer_of_a_lens_says_what_the_model_says(pooling):
    model = random_model("modernbert", "text-classification", SMALL | {"classifier_pooling": pooling})
    ids, mask = pad(sequences(), model)
    lens = head_layers(model, {"input_ids": ids, "attention_mask": mask})
    assert_close(lens.logits_of(lens.names[-1])[:, 0], run(model, ids, mask)["logits"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"rope_parameters": {GLOBAL: {"rope_type": "longrope", "rope_theta": 5.0}}},
            "rope_type = 'longrope', which is not supported; supported: default, linear",
        ),
        ({"rope_parameters": {GLOBAL: {"rope_type": "yarn"}}}, "rope_parameters of type yarn lack factor"),
        ({"rope_parameters": {"rope_theta": 5.0}}, "rope_parameters"),
        ({"layer_types": [GLOBAL]}, "layer_types names 1 layers, and there are 4"),
        ({"layer_types": [GLOBAL, "chunked_attention"] * 2}, r"layer_types\[1\] is 'chunked_attention'; it must be"),
        ({"classifier_pooling": "max"}, "classifier_pooling is 'max'; it must be 'cls' or 'mean'"),
        ({"num_attention_heads": 3}, "a width of 16 cannot be shared by 3 heads"),
        ({"num_attention_heads": 16}, "a head of width 1 has an odd number"),
    ],
)
def test_a_config_that_cannot_be_carried_out_is_refused(changes, message, tmp_path):
    folder = gf.save(random_model("modernbert", "text-classification", SMALL), tmp_path)
    edit_config(folder, **changes)
    with pytest.raises(ValueError, match=message) as error:
        gf.load(folder)
    assert "\n" not in str(error.value)
