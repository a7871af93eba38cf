"""Texts to look at: some for each task, and a built-in model's own."""

import pytest

import glassformer as gf
from glassformer.studio.app_state import ModelStore
from glassformer.studio.example_inputs import EXAMPLE_INPUTS, built_in_inputs, example_inputs
from glassformer.text.train import train


def test_examples_suit_their_tasks():
    assert all(one["inputs"] for task in EXAMPLE_INPUTS for one in example_inputs(task))
    assert "<mask>" in example_inputs("fill-mask", "<mask>")[0]["inputs"]
    assert all(one["pair"] for one in example_inputs("question-answering"))
    assert example_inputs("feature-extraction") == example_inputs(None) == []


@pytest.mark.parametrize("mask", ["<mask>", "[MASK]", "<gap>"])
@pytest.mark.parametrize("kind", ["bert", "xlm-roberta", "modernbert"])
def test_a_mask_is_the_tokenizers_own(kind, mask, tmp_path):
    (text := tmp_path / "text.txt").write_text("\n".join(one["inputs"] for one in EXAMPLE_INPUTS["fill-mask"]))
    tokenizer = train([text], kind="wordpiece", vocab_size=60, special={"mask_token": mask})
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    model = gf.build(kind, "fill-mask", vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id, **sizes)
    gf.save(model, tmp_path / "model", tokenizer=tokenizer)
    (entry,) = ModelStore([str(tmp_path / "model")]).entries
    for example in entry["examples"]:
        assert gf.fill_mask(model, tokenizer, example["inputs"])
    assert len(entry["examples"]) == 3


@pytest.mark.parametrize("name", [card["name"] for card in gf.zoo()])
def test_a_built_in_model_has_texts_that_it_knows_the_tokens_of(name):
    (card,) = (one for one in gf.zoo() if one["name"] == name)
    rows, tokenizer = built_in_inputs(card), gf.load_tokenizer(f"zoo:{name}")
    assert len(rows) >= 3
    for row in rows:
        ids = tokenizer(row["inputs"], row.get("pair"))["input_ids"]
        assert tokenizer.unk_token_id not in ids
        if card["task"] == "fill-mask":
            assert tokenizer.mask_token_id in ids
        if row["inputs"].startswith("<|"):  # a condition is one token
            assert tokenizer.convert_ids_to_tokens(ids[0]) == row["inputs"].partition("|>")[0] + "|>"


def test_a_condition_stands_before_its_text():
    card = {**gf.zoo()[0], "examples": [{"inputs": "The film", "condition": "positive review"}, {"inputs": "I"}]}
    assert built_in_inputs(card) == [{"inputs": "<|positive review|>The film"}, {"inputs": "I"}]
    assert card["examples"][0]["condition"] == "positive review"
