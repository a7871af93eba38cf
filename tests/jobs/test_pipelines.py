"""gf.pipeline: results of every task in the shapes of Hugging Face, and its very numbers where it has a pipeline."""

from contextlib import closing
from typing import Any

import pytest

import glassformer as gf
from tasks.cases import case, recipe_of

TEXTS = ["Paul is glad .", "Anna , who is sad , was in the old house ."]
SCORED = {"label": str, "score": float}
TOKEN = {"entity": str, "score": float, "index": int, "word": str, "start": int, "end": int}
ENTITY = {"entity_group": str, "score": float, "word": str, "start": int, "end": int}
TOKEN = {"entity": str, "score": float, "index": int, "word": str, "start": int, "end": int}
ANSWER = {"score": float, "start": int, "end": int, "answer": str}
FILLED = {"score": float, "token": int, "token_str": str, "sequence": str}
RANKED = {"sequence": str, "labels": [str], "scores": [float]}
ASKED = [{"question": "Who is glad?", "context": text} for text in TEXTS]
PAIRS = [(TEXTS[0], TEXTS[1]), (TEXTS[0], TEXTS[0])]
CASES: dict[str, tuple[str, list[Any], dict[str, Any], Any]] = {  # inputs, options, and the shape of one result
    "classes": ("text-classification/gru", TEXTS, {}, SCORED),
    "all classes": ("text-classification/bert", TEXTS, {"top_k": None}, [SCORED]),
    "pairs": ("text-classification/bert/regression", [{"text": a, "text_pair": b} for a, b in PAIRS], {}, SCORED),
    "several classes": ("text-classification/gru/multi-label", TEXTS, {"top_k": None}, [SCORED]),
    "tokens": ("token-classification/bert", TEXTS, {"ignore_labels": []}, [TOKEN]),
    "entities": ("token-classification/bert", TEXTS, {"ignore_labels": [], "grouped_entities": True}, [ENTITY]),
    "answers": ("question-answering/bert", ASKED, {}, ANSWER),
    "several answers": ("question-answering/bert", ASKED, {"top_k": 2}, [ANSWER]),
    "masks": ("fill-mask/bert", ["Paul is [MASK] .", "[MASK] is here ."], {}, [FILLED]),
    "pretrained masks": ("pretraining/bert", ["Paul is [MASK] ."], {}, [FILLED]),
    "masks of an albert": ("sentence-order-prediction/albert", ["Paul is [MASK] ."], {}, [FILLED]),
    "replaced tokens": ("replaced-token-detection/electra", TEXTS, {}, [TOKEN]),
    "gaps": ("span-corruption/t5", ["Paul <extra_id_0> ."], {"max_new_tokens": 3}, {"generated_text": str}),
    "texts": ("text-generation/gpt2", TEXTS, {"max_new_tokens": 3}, [{"generated_text": str}]),
    "translations": ("translation/gru", TEXTS, {"max_new_tokens": 3}, {"translation_text": str}),
    "summaries": ("summarization/gru", TEXTS, {"max_new_tokens": 3}, {"summary_text": str}),
    "texts of texts": ("text2text-generation/transformer", TEXTS, {"max_new_tokens": 3}, {"generated_text": str}),
    "labels": ("zero-shot-classification/bert", TEXTS, {"candidate_labels": "joy, grief"}, RANKED),
    "likeness": ("sentence-similarity/bert/mean", PAIRS, {}, float),
    "vectors": ("feature-extraction/distilbert", TEXTS, {"pooled": True}, [float]),
    "vectors of tokens": ("feature-extraction/distilbert", TEXTS, {}, [[[float]]]),
    "vectors of texts": ("sentence-embedding/bert", TEXTS, {}, [float]),
    "digits": ("copy/gru", ["123=", "45"], {}, {"answer": str}),
    "parity": ("parity/bert", ["123=", "45"], {}, {"answer": str}),
    "sums": ("adding/bert/long", ["1*23*4=", "*4*5"], {}, {"answer": str}),
}


def has_shape(value: Any, shape: Any) -> bool:
    if isinstance(shape, dict):
        return value.keys() == shape.keys() and all(has_shape(value[name], shape[name]) for name in shape)
    if isinstance(shape, list):
        return isinstance(value, list) and len(value) > 0 and all(has_shape(one, shape[0]) for one in value)
    return type(value) is shape


@pytest.mark.few(8)
@pytest.mark.parametrize("what", CASES)
def test_results_have_the_shapes_of_hugging_face(trained, what):
    name, inputs, options, shape = CASES[what]
    pipe = gf.pipeline(name.split("/")[0], trained(name))
    found = pipe(inputs, **options)
    assert len(found) == len(inputs)
    assert all(has_shape(one, shape) for one in found)


@pytest.mark.parametrize("what", CASES)
def test_the_size_of_a_batch_changes_nothing(trained, what):
    name, inputs, options, _ = CASES[what]
    pipe = gf.pipeline(name.split("/")[0], trained(name))
    assert same(pipe(inputs, batch_size=1, **options), pipe(inputs, **options))
    with pytest.raises(ValueError, match="batch_size is 0; it must be a whole number from 1"):
        pipe(inputs, batch_size=0, **options)


@pytest.mark.parametrize("what", CASES)
def test_an_option_that_there_is_not_is_answered_with_those_that_there_are(trained, what):
    name, inputs, options, _ = CASES[what]
    pipe = gf.pipeline(name.split("/")[0], trained(name))
    with pytest.raises(
        ValueError, match=r"has no (option|setting) 'qqq'; (a call can be told|it has:?) .*\w+, \w+"
    ) as error:
        pipe(inputs, qqq=1, **options)
    assert "\n" not in str(error.value)


def test_every_task_is_among_them():
    from glassformer.jobs.tasks import TASKS

    assert {name.split("/")[0] for name, *_ in CASES.values()} >= set(TASKS) - {"reverse"}


THEIRS = {
    "classes": ("text-classification/bert", TEXTS, {}),
    "all classes": ("text-classification/bert", TEXTS, {"top_k": None}),
    "several classes": ("text-classification/bert/multi-label", TEXTS, {"top_k": None}),
    "entities": ("token-classification/bert", TEXTS, {"aggregation_strategy": "simple"}),
    "tokens": ("token-classification/bert", TEXTS, {"aggregation_strategy": "none"}),
    "masks": ("fill-mask/bert", ["Paul is [MASK] .", "[MASK] is here ."], {"top_k": 3}),
    "texts": ("text-generation/gpt2", TEXTS, {"max_new_tokens": 4, "do_sample": False}),
    "vectors of tokens": ("feature-extraction/distilbert", TEXTS, {}),
}


@pytest.mark.few(4)
@pytest.mark.parametrize("what", THEIRS)
def test_results_are_those_of_transformers(trained, what):
    transformers = pytest.importorskip("transformers")
    transformers.logging.set_verbosity_error()
    name, inputs, options = THEIRS[what]
    task, folder = name.split("/")[0], trained(name)
    theirs, ours = transformers.pipeline(task, model=str(folder), device="cpu"), gf.pipeline(task, folder)
    for given in (inputs, inputs[0]):
        assert same(ours(given, **options), theirs(given, **options)), what


def same(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(same(found[name], wanted[name]) for name in wanted)
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(same, found, wanted))
    if isinstance(wanted, str | int | None):
        return bool(found == wanted)
    return bool(found == pytest.approx(float(wanted), rel=1e-3, abs=1e-5))


def test_one_input_is_answered_as_hugging_face_answers_one(trained):
    """A class comes in a list, an answer or a translation does not; questions may be given by name."""
    (one,) = gf.pipeline("text-classification", trained("text-classification/gru"))(TEXTS[0])
    assert has_shape(one, SCORED)
    pipe = gf.pipeline("question-answering", trained("question-answering/bert"))
    assert pipe(**ASKED[0]) == pipe(ASKED[0])
    assert same(pipe(ASKED[0]), pipe(ASKED)[0])


def test_a_model_in_hand_needs_its_tokenizer():
    one = case("text-classification/gru")
    assert has_shape(gf.pipeline("text-classification", one.model, one.task.tokenizer)(TEXTS), [SCORED])
    with pytest.raises(ValueError, match="needs its tokenizer as well"):
        gf.pipeline("text-classification", one.model)


def test_a_run_whose_recipe_names_a_vocabulary_is_used_like_any_other(tmp_path):
    recipe = recipe_of("translation/gru", out=str(tmp_path / "run"), steps=1, batch_size=4, batch_tokens=None)
    gf.train(**{**recipe, "tokenizer": "bpe", "vocab_size": 300}, log=lambda _: None)
    assert has_shape(
        gf.pipeline("translation", tmp_path / "run")(TEXTS[:1], max_new_tokens=3), [{"translation_text": str}]
    )


def test_what_a_task_cannot_read_is_named(trained):
    pipe = gf.pipeline("question-answering", trained("question-answering/bert"))
    with pytest.raises(ValueError, match="a dict with 'question' and 'context', .* is wanted, not 'Who\\?'"):
        pipe("Who?")
    with pytest.raises(ValueError, match="there is no \\[MASK\\] in 'Paul'; write it where a word is missing"):
        gf.pipeline("fill-mask", trained("fill-mask/bert"))("Paul")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"top_k": "abc"}, "top_k is 'abc'; it must be a whole number from 1"),
        ({"top_k": 0}, "top_k is 0; it must be a whole number from 1"),
        ({"batch_size": "2"}, "batch_size is '2'; it must be a whole number from 1"),
        ({"batch_tokens": 1.5}, "batch_tokens is 1.5; it must be a whole number from 1"),
    ],
)
def test_options_of_a_call_have_their_kinds(trained, options, message):
    with pytest.raises(ValueError, match=message):
        gf.pipeline("text-classification", trained("text-classification/gru"))(TEXTS, **options)


def test_a_tokenizer_that_is_given_stays_as_it_is(trained):
    """A model without segments is not told of any, and neither tokenizer nor model is rewritten for it."""
    folder = trained("feature-extraction/distilbert")
    model, tokenizer = gf.load(folder), gf.load_tokenizer(folder)
    tokenizer.settings.segments = True
    pipe = gf.pipeline("feature-extraction", model, tokenizer)
    assert "token_type_ids" not in pipe.task.tokenizer("a text")
    assert "token_type_ids" in tokenizer("a text")
    assert len(pipe(TEXTS)) == len(TEXTS)


OPTIONS = {
    "one class": ("text-classification/bert", {"top_k": 1}),
    "logits": ("text-classification/bert", {"function_to_apply": "none", "top_k": None}),
    "chances": ("text-classification/bert", {"function_to_apply": "sigmoid", "top_k": 2}),
    "short": ("text-classification/bert", {"truncation": True, "max_length": 5, "padding": True}),
    "tokens by default": ("token-classification/bert", {}),
    **{
        strategy: ("token-classification/bert", {"aggregation_strategy": strategy})
        for strategy in ("simple", "first", "average", "max")
    },
}


@pytest.mark.parametrize("what", OPTIONS)
def test_options_mean_what_they_mean_in_transformers(trained, what):
    """Given in the call or with the pipeline, for one text and for several."""
    transformers = pytest.importorskip("transformers")
    transformers.logging.set_verbosity_error()
    name, options = OPTIONS[what]
    task, folder = name.split("/")[0], trained(name)
    theirs, ours = transformers.pipeline(task, model=str(folder), device=-1), gf.pipeline(task, folder, device=-1)
    for given in (TEXTS, TEXTS[1]):
        assert same(ours(given, **options), theirs(given, **options)), what
    if "max_length" not in options:  # which transformers' own constructor takes for something else
        ours, theirs = gf.pipeline(task, folder, **options), transformers.pipeline(task, model=str(folder), **options)
        for given in (TEXTS, TEXTS[1]):
            assert same(ours(given), theirs(given)), what


def test_old_names_of_options_still_work(trained):
    tagger = gf.pipeline("ner", trained("token-classification/bert"), ignore_labels=[])
    for old, new in (
        ({"grouped_entities": True}, "simple"),
        ({"grouped_entities": True, "ignore_subwords": True}, "first"),
        ({"grouped_entities": False}, "none"),
    ):
        assert tagger(TEXTS, **old) == tagger(TEXTS, aggregation_strategy=new)
    classifier = gf.pipeline("sentiment-analysis", trained("text-classification/bert"))
    (every,) = classifier(TEXTS[0], return_all_scores=True)
    assert [one["label"] for one in every] == classifier.task.labels
    asked = gf.pipeline("question-answering", trained("question-answering/bert"))
    wanted = asked(**ASKED[1], max_answer_length=1)
    assert asked(**ASKED[1], max_answer_len=1) == wanted == asked(*ASKED[1].values(), max_answer_len=1)
    long = {"question": "Who is glad?", "context": " ".join(TEXTS * 5)}
    narrow = gf.pipeline("question-answering", trained("question-answering/bert"), max_length=24, doc_stride=2)
    assert asked(long, max_seq_len=24, doc_stride=2) == narrow(long) != asked(long)


def test_questions_may_share_a_context(trained):
    pipe = gf.pipeline("question-answering", trained("question-answering/bert"))
    questions, context = ["Who is glad?", "Who was there?"], TEXTS[1]
    wanted = pipe([{"question": one, "context": context} for one in questions])
    assert same(pipe(question=questions, context=context), wanted)
    assert same(pipe(question=questions, context=[context, context]), wanted)
    with pytest.raises(ValueError, match="2 questions need one context or as many, not 3"):
        pipe(question=questions, context=[context] * 3)


def test_an_iterator_is_answered_as_it_comes(trained):
    pipe, drawn = gf.pipeline("text-classification", trained("text-classification/gru")), []

    def texts():
        for number in range(70):
            drawn.append(number)
            yield TEXTS[number % 2]

    found = pipe(texts())
    assert drawn == []
    first = next(found)
    assert 0 < len(drawn) < 70
    assert [first, *found] == [pipe(TEXTS)[number % 2] for number in range(70)]


@pytest.mark.parametrize(
    ("task", "name"),
    [
        ("ner", "token-classification/bert"),
        ("sentiment-analysis", "text-classification/bert"),
        ("translation_en_to_de", "translation/gru"),
        ("translation_zh-cn_to_en", "translation/gru"),
        (None, "summarization/gru"),
        (None, "text2text-generation/transformer"),
        (None, "question-answering/bert"),
    ],
)
def test_every_name_of_hugging_face_leads_to_its_task(trained, task, name):
    assert gf.pipeline(task, str(trained(name))).task.name == name.split("/")[0]


def test_languages_may_be_given_apart(trained):
    folder = trained("translation/gru")
    assert has_shape(
        gf.pipeline("translation", folder, src_lang="en", tgt_lang="de")(TEXTS[0]), [{"translation_text": str}]
    )
    with pytest.raises(ValueError, match="give src_lang and tgt_lang, not 'en'"):
        gf.pipeline("translation", folder, src_lang="en")


def test_several_texts_are_drawn_and_a_length_counts_the_prompt_of_each(trained):
    pipe = gf.pipeline("text-generation", trained("text-generation/gpt2"))
    assert len(pipe("Paul is", num_return_sequences=3, max_length=12)) == 3
    prompts = ["Paul", "Anna , who is sad , was in the"]
    assert pipe(prompts, max_length=20) == [pipe(prompt, max_length=20) for prompt in prompts]
    (plain,), (led,) = pipe("is", max_new_tokens=4), pipe("is", prefix="Paul ", max_new_tokens=4)
    assert plain["generated_text"].startswith("is")
    assert led["generated_text"].startswith("is")
    (whole,) = pipe("Paul is", max_new_tokens=4)
    assert "Paul " + led["generated_text"] == whole["generated_text"]


def test_ids_come_in_the_place_of_texts(trained):
    pipe = gf.pipeline("summarization", trained("summarization/gru"))
    (text,), (ids,) = pipe(TEXTS[0], max_new_tokens=4), pipe(TEXTS[0], max_new_tokens=4, return_tensors=True)
    assert pipe.task.tokenizer.decode(ids["summary_token_ids"][1:], skip_special_tokens=True) == text["summary_text"]
    vectors = gf.pipeline("feature-extraction", trained("feature-extraction/distilbert"))
    assert vectors(TEXTS[0], return_tensors=True).tolist() == vectors(TEXTS[0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: gf.pipeline(), "name a task, a model folder, or both"),
        (lambda: gf.pipeline("summarisation"), "there is no task 'summarisation'; did you mean 'summarization'?"),
        (lambda: gf.pipeline("translation_en_de"), "there is no task 'translation_en_de'"),
        (lambda: gf.pipeline("pretraining"), "no built-in model for pretraining: name a folder"),
        (lambda: gf.pipeline("ner", "x", grouped=True), "ner has no option 'grouped'; it has: .*grouped_entities"),
    ],
)
def test_a_pipeline_that_cannot_be_is_refused_in_one_line(make, message):
    with pytest.raises(ValueError, match=message) as error:
        make()
    assert "\n" not in str(error.value)


def test_one_text_is_one_argument(trained):
    with pytest.raises(ValueError, match="takes one input or a list of them, and 'another' stands beside it"):
        gf.pipeline("text-classification", trained("text-classification/gru"))("a text", "another")


def test_a_generator_is_read_as_results_are_asked_for(trained):
    pipe = gf.pipeline("text-classification", trained("text-classification/gru"))
    read = []

    def source():
        for number in range(1000):
            read.append(number)
            yield f"Paul is glad {number} ."

    results = pipe(source())
    assert read == []
    first = next(results)
    assert len(read) == 1
    assert same(first, pipe("Paul is glad 0 .")[0])
    assert same([next(results) for _ in range(70)], pipe([f"Paul is glad {number} ." for number in range(1, 71)]))
    assert len(read) <= 71 + 32
    read.clear()
    with closing(pipe(source(), batch_size=5)) as results:
        next(results)
    assert len(read) == 5
    with pytest.raises(StopIteration):
        next(results)


def test_arrays_and_columns_are_lists_of_texts(trained):
    import numpy as np
    import pandas as pd
    from datasets import Dataset

    pipe = gf.pipeline("text-classification", trained("text-classification/gru"))
    assert same(pipe(np.array(TEXTS)), pipe(TEXTS))
    assert same(pipe(Dataset.from_dict({"text": TEXTS})["text"]), pipe(TEXTS))
    assert same(pipe(pd.Series(TEXTS)), pipe(TEXTS))
    assert same(pipe(np.array(TEXTS[0])), pipe(TEXTS[0]))


def test_what_came_before_an_error_is_answered(trained):
    pipe = gf.pipeline("text-classification", trained("text-classification/gru"))

    def source():
        yield from TEXTS[:2] * 3
        raise OSError("the disk is gone")

    results = pipe(source())
    assert same([next(results) for _ in range(6)], pipe(TEXTS[:2] * 3))
    with pytest.raises(OSError, match="the disk is gone"):
        next(results)


def test_a_pipeline_has_its_parts(trained):
    pipe = gf.pipeline("text-classification", trained("text-classification/bert"))
    assert pipe.tokenizer.decode(pipe.tokenizer("Paul")["input_ids"], skip_special_tokens=True) == "Paul"
    assert pipe.device == pipe.model.device


@pytest.mark.parametrize("what", ["classes", "texts", "translations"])
def test_attention_is_recorded_and_a_pipeline_says_how(trained, what):
    name, inputs, options, _ = CASES[what]
    pipe = gf.pipeline(name.split("/")[0], trained(name))
    assert same(pipe(inputs, output_attentions=False, **options), pipe(inputs, **options))
    for asked, (pattern, seen) in {
        "output_attentions": ("*attention.pattern", "attentions"),
        "output_hidden_states": ("*", "hidden_states"),
    }.items():
        with pytest.raises(ValueError, match=f"takes no {asked}: with gf.record") as error:
            pipe(inputs, **{asked: True}, **options)
        assert f'gf.record(pipe.model, "{pattern}")' in str(error.value)
        assert f"seen.{seen}" in str(error.value)
