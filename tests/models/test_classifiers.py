"""The plain text classifiers: a convolution is torch's, a bag of words is logistic regression on counts."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

import glassformer as gf
from families import VOCABULARY, pad, random_model, sequences


def test_a_convolution_is_torchs_over_real_tokens():
    """Kim's equations by torch's own kernel, one text at a time."""
    model = random_model("glassformer-cnn", "text-classification", {"vocab_size": VOCABULARY, "embedding_size": 6})
    ids, mask = pad(texts := sequences(), model, side="left")
    found = model(input_ids=ids, attention_mask=mask).logits
    for row, text in enumerate(texts):
        x = model.embeddings.token(torch.tensor([text])).mT  # (1, D, T)
        largest = []
        for filters in model.convolution.filters:
            weight = filters.linear.weight.unflatten(1, (filters.width, 6)).mT  # (F, D, width)
            padded = F.pad(x, ((filters.width - 1) // 2, filters.width // 2))
            largest.append(F.conv1d(padded, weight, filters.linear.bias).relu().amax(-1))
        assert_close(found[row], model.head(torch.cat(largest, dim=-1))[0])


def test_padding_in_between_is_invisible_to_a_convolution():
    model = random_model("glassformer-cnn", "text-classification", {"vocab_size": VOCABULARY, "embedding_size": 6})
    ids = torch.tensor([[5, 0, 9, 11, 0, 7]])
    mask = torch.tensor([[1, 0, 1, 1, 0, 1]])
    alone = model.hidden(ids[mask.bool()][None])
    found = model.hidden(ids, mask)
    assert_close(found[mask.bool()], alone[0])
    assert not found[~mask.bool()].any()


def test_a_convolution_without_filters_is_refused():
    with pytest.raises(ValueError, match="filter_widths is empty; give at least one width"):
        gf.build("glassformer-cnn", "text-classification", vocab_size=9, filter_widths=[])


def test_a_bag_of_words_is_logistic_regression_on_counts():
    model = random_model("glassformer-bow", "text-classification", {"vocab_size": VOCABULARY, "num_labels": 3})
    ids, mask = pad(texts := sequences(), model)
    counts = torch.stack([torch.bincount(torch.tensor(text), minlength=VOCABULARY) for text in texts]).float()
    weight, bias = model.embeddings.token.weight.T, model.head.bias
    assert_close(model(input_ids=ids, attention_mask=mask).logits, F.linear(counts, weight, bias))


def test_a_new_bag_of_words_prefers_no_class():
    model = gf.build("glassformer-bow", "text-classification", vocab_size=9)
    assert_close(model(input_ids=torch.tensor([[3, 4, 3]])).logits, torch.zeros(1, 2))
