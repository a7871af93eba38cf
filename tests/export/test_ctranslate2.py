"""CTranslate2: hidden states, logits, probabilities and written tokens are the model's, in every family it knows."""

import copy
import json

import pytest
from torch.testing import assert_close

from export.sources import small, source_of
from glassformer.export import to_ctranslate2
from glassformer.export.formats import CTRANSLATE2, EXACT

pytest.importorskip("ctranslate2")
LLAMA = {"hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "intermediate_size": 64}
LLAMA |= {"sliding_window": None, "use_sliding_window": False}
WRITER = {"activation_function": "gelu", "decoder_start_token_id": 2, "initializer_factor": 0.2}
LINEAR = {"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0}
SETTINGS = {"gpt2": {}, "llama": LLAMA, "mistral": LLAMA, "qwen2": LLAMA, "qwen3": LLAMA}
CASES = [(kind, head, SETTINGS.get(kind, WRITER)) for kind, head in CTRANSLATE2.items()]
CASES += [
    ("bert", None, {"add_pooling_layer": False}),
    ("gpt2", "text-generation", {"scale_attn_weights": False, "scale_attn_by_inverse_layer_idx": True}),
    ("llama", "text-generation", LLAMA | {"rope_parameters": LINEAR, "attention_bias": True, "head_dim": 6}),
    ("mistral", "text-generation", LLAMA | {"sliding_window": 300}),
    (
        "t5",
        "text2text-generation",
        WRITER | {"feed_forward_proj": "gated-gelu", "d_kv": 4, "scale_decoder_outputs": False},
    ),
    ("marian", "text2text-generation", WRITER | {"encoder_attention_heads": 4, "encoder_layers": 3}),
]


@pytest.mark.parametrize(("model_type", "head", "settings"), CASES)
def test_ctranslate2_says_the_same(model_type, head, settings, tmp_path):
    source = source_of(small(model_type, head, **settings))
    to_ctranslate2.write(source, tmp_path)
    found = to_ctranslate2.compare(source, tmp_path)
    assert found.inputs == 32
    assert found.prompts == (0 if head is None else 8)
    found.require(EXACT, exact=True)


def test_eight_bits_leave_the_model_as_it_is(tmp_path):
    """The quantiser of CTranslate2 works on the tensors that it is given."""
    model = small("llama", "text-generation", **LLAMA)
    before = copy.deepcopy(model.state_dict())
    source = source_of(model, "int8")
    to_ctranslate2.write(source, tmp_path)
    found = to_ctranslate2.compare(source, tmp_path)
    assert 1e-4 < found.largest < 0.5
    for name, tensor in model.state_dict().items():
        assert_close(tensor, before[name], rtol=0, atol=0)


def test_the_folder_is_of_its_own_kind(glassformer, tmp_path):
    """Its config.json is CTranslate2's, and the tokenizer stands beside it."""
    code, out, err = glassformer("export", "zoo:en-de", tmp_path / "out", "--to", "ctranslate2")
    assert code == 0, err
    assert "8 of 8 texts are the same" in out
    config = json.loads((tmp_path / "out" / "config.json").read_text("utf-8"))
    assert "decoder_start_token" in config
    assert (tmp_path / "out" / "tokenizer.json").is_file()


@pytest.mark.parametrize(
    ("model_type", "settings", "said"),
    [
        ("llama", LLAMA | {"hidden_act": "relu2"}, "has no activation 'relu2'"),
        ("llama", LLAMA | {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}}, "Dynamic"),
        ("mistral", LLAMA | {"sliding_window": 3}, "windows of 3 tokens"),
        ("qwen2", LLAMA | {"sliding_window": 3, "use_sliding_window": True, "max_window_layers": 1}, "one window"),
    ],
)
def test_what_ctranslate2_does_not_have_is_refused(model_type, settings, said, tmp_path):
    with pytest.raises(ValueError, match=said):
        to_ctranslate2.write(source_of(small(model_type, "text-generation", **settings)), tmp_path)
    assert not list(tmp_path.iterdir())
