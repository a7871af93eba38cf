"""Models as torch.compile takes them: a batch without padding is one graph."""

import pytest
import torch
from torch.testing import assert_close

from boards import SIZES
from families import VOCABULARY, random_model

OTHERS = ("gpt2", "llama", "mistral", "t5", "bart")


@pytest.mark.parametrize("model_type", ["bert", *(pytest.param(one, marks=pytest.mark.slow) for one in OTHERS)])
def test_a_batch_without_padding_is_one_graph(model_type):
    head = {"bert": "fill-mask", "t5": "text2text-generation", "bart": "text2text-generation"}
    model = random_model(model_type, head.get(model_type, "text-generation"), SIZES | {"sliding_window": 3})
    inputs = {"input_ids": torch.randint(4, VOCABULARY, (2, 9))}
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = inputs["input_ids"][:, :5]
    compiled = torch.compile(model, backend="eager", fullgraph=True)  # which refuses a break
    assert_close(compiled(**inputs).logits, model(**inputs).logits)
