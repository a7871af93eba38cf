"""A text that a classifier cannot read whole is cut, and that is said."""

import logging

import pytest

import glassformer as gf

LONG = "Anna was happy. " * 400


def test_what_is_cut_of_a_text_is_said(trained, caplog):
    classify = gf.pipeline("text-classification", trained("text-classification/bert"))
    reads = classify.model.config.max_positions
    with caplog.at_level(logging.WARNING, "glassformer"):
        classify("Anna was happy.")
        classify(LONG, max_length=8)  # who gives a length knows
        assert caplog.messages == []
        classify(LONG)
    lost = len(classify.tokenizer(LONG, truncation=False)["input_ids"]) - reads
    assert caplog.messages[0] == f"{lost} tokens of the texts were cut: the model reads {reads} a text"
    with pytest.raises(ValueError, match=f"{lost} tokens of the texts do not fit: give truncation=True"):
        classify(LONG, truncation=False)
