"""Law 11: a pipeline says of each of many inputs what it says of that one alone, whatever stands beside it."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from families import shake
from glassformer.jobs.predict import Pipeline
from tasks.cases import NAMES, Case, case

OPTIONS: dict[str, list[dict[str, Any]]] = {
    "text-classification": [{}, {"top_k": None}],
    "token-classification": [{"aggregation_strategy": name} for name in ("none", "simple", "first", "average", "max")],
    "question-answering": [{}, {"top_k": 3, "handle_impossible_answer": True}],
    "fill-mask": [{"top_k": 3}],
    "text-generation": [{"max_new_tokens": 6}, {"max_new_tokens": 4, "num_beams": 3, "num_return_sequences": 2}],
    "span-corruption": [{"max_new_tokens": 8}, {"max_new_tokens": 5, "num_beams": 3, "num_return_sequences": 2}],
    "translation": [{"max_new_tokens": 8}, {"max_new_tokens": 5, "num_beams": 3}],
    "summarization": [{"max_new_tokens": 8}, {"max_new_tokens": 5, "num_beams": 3}],
    "zero-shot-classification": [
        {"candidate_labels": ["glad", "sad", "old"]},
        {"candidate_labels": "glad,sad", "multi_label": True, "hypothesis_template": "Somebody was {} ."},
    ],
    "feature-extraction": [{}, {"pooled": False}],
}


def inputs_for(one: Case) -> list[Any]:
    """What users would give, long and short."""
    examples, name = one.splits.dev, one.task.name
    if name == "token-classification":
        return [given for example in examples[:4] for given in (" ".join(example.words), example.words)]
    if name in ("fill-mask", "pretraining", "sentence-order-prediction"):
        sentences = [example.text.split(".")[0].split() for example in examples[:7]]
        return [" ".join([*words[:4], one.task.tokenizer.mask_token, *words[5:9]]) for words in sentences]
    if name == "span-corruption":
        sentences = [example.text.split(".")[0].split() for example in examples[:7]]
        return [{"text": " ".join([*words[:3], "<extra_id_0>", *words[4:7]])} for words in sentences]
    if name == "text-generation":
        return [" ".join(example.text.split()[: 1 + place % 4]) for place, example in enumerate(examples[:7])]
    if name == "sentence-similarity":
        first, second, *rest = examples[:7]
        some = {"source_sentence": first.text, "sentences": [first.pair, second.text, second.pair]}
        return [some, *((example.text, example.pair) for example in rest)]
    return list(examples[:7])


def same(found: Any, wanted: Any) -> bool:
    """Equal, and numbers nearly so."""
    if isinstance(wanted, float):
        return bool(found == pytest.approx(wanted, rel=1e-5, abs=1e-6))
    if isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(same(found[key], wanted[key]) for key in wanted)
    if isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(same, found, wanted))
    return bool(found == wanted)


@pytest.mark.few(20)
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=2)
@given(data=st.data())
def test_many_at_once_are_each_alone(name, data):
    one = case(name)
    pipe = Pipeline(shake(one.model).double().eval(), one.task)
    inputs = data.draw(st.permutations(inputs_for(one)))[:5]
    for options in OPTIONS.get(one.task.name, [{}]):
        together = pipe(inputs, **options)
        for given_input, found in zip(inputs, together, strict=True):
            alone = pipe(given_input, **options)
            assert same(found, alone), f"{given_input!r} with {options}: {found!r} in a list, {alone!r} alone"
