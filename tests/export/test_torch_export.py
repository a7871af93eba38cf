"""torch.export: the graph, read back, says what the model says, also of other lengths than it was made of."""

import pytest
import torch

import glassformer as gf
from export.sources import small, source_of
from glassformer.export import to_torch_export
from glassformer.export.formats import EXACT

OTHERS = [("mistral", "text-generation"), ("bart", "text2text-generation")]


def exported(source, folder):
    to_torch_export.write(source, folder)
    return to_torch_export.compare(source, folder)


def test_a_graph_of_torch_says_the_same(tmp_path):
    """Also of one text of one token, and alone: without this package."""
    source = source_of(small("bert", "text-classification"))
    exported(source, tmp_path).require(EXACT, exact=True)
    graph, one = torch.export.load(tmp_path / "model.pt2").module(), torch.tensor([[7]])
    found = graph(input_ids=one, attention_mask=torch.ones_like(one), token_type_ids=torch.zeros_like(one))
    torch.testing.assert_close(found["logits"], source.model(one).logits)


@pytest.mark.slow
@pytest.mark.parametrize(("model_type", "head"), OTHERS)
def test_other_families_as_graphs_of_torch(model_type, head, tmp_path):
    exported(source_of(small(model_type, head)), tmp_path).require(EXACT, exact=True)


@pytest.mark.slow
def test_the_vector_of_a_text_is_in_the_graph(minilm, tmp_path):
    """A folder of Sentence-Transformers says by itself how its texts become vectors."""
    report = gf.export(minilm, tmp_path / "out", to="torch-export")
    assert report["compared"]["errors"].keys() == {"last_hidden_state", "sentence_embedding"}
    batch = gf.load_tokenizer(minilm)(["A cat sat.", "Two dogs ran away."], padding=True, return_tensors="pt")
    found = torch.export.load(tmp_path / "out" / "model.pt2").module()(**batch)["sentence_embedding"]
    expected = gf.embed(["A cat sat.", "Two dogs ran away."], minilm, convert_to_tensor=True)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
