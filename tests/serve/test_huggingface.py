"""Hugging Face's own client gets from a server what gf.pipeline gives, for every task."""

import inspect
import re
from functools import partial

import numpy as np
import pytest
from docs.generate import ROOT
from huggingface_hub import InferenceClient, constants
from huggingface_hub.errors import HfHubHTTPError, ValidationError
from torch.testing import assert_close

import glassformer as gf
from glassformer.serve.client_options import whole_words

FILM, PEOPLE = "A warm, funny and moving film.", "Anna Stone met Leo in Paris."
CONTEXT = "Anna met Leo in Paris on Monday."


@pytest.fixture(scope="module")
def client(served):
    """Clients by the name of a model; they live as long as their streams."""
    made: dict[str, InferenceClient] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(constants, "HF_HUB_OFFLINE", False)  # it takes this machine for the network
        yield partial(client_of, served.url, made)


def client_of(url, made, name):
    return made.setdefault(name, InferenceClient(f"{url}/models/{name}", provider="hf-inference", token="none"))


def test_classes_of_a_text(client):
    found = client("bert-mini-en-sentiment").text_classification(FILM)
    expected = gf.pipeline("text-classification", "zoo:bert-mini-en-sentiment")(FILM, top_k=None)
    assert [one.label for one in found] == [one["label"] for one in expected]
    assert [one.score for one in found] == pytest.approx([one["score"] for one in expected], abs=1e-5)
    assert len(client("bert-mini-en-sentiment").text_classification(FILM, top_k=1)) == 1


def test_entities(client):
    found = client("bert-mini-en-ner").token_classification(PEOPLE, aggregation_strategy="simple")
    assert [(one.entity_group, PEOPLE[one.start : one.end]) for one in found] == [
        ("PER", "Anna Stone"),
        ("PER", "Leo"),
        ("LOC", "Paris"),
    ]
    single = client("bert-mini-en-ner").token_classification(PEOPLE, aggregation_strategy="none")
    assert all(one.entity for one in single)


def test_answers_to_a_question(client):
    found = client("bert-mini-en-qa").question_answering("Who met Leo?", CONTEXT)
    expected = gf.pipeline("question-answering", "zoo:bert-mini-en-qa")(question="Who met Leo?", context=CONTEXT)
    assert (found.answer, found.start, found.end) == (expected["answer"], expected["start"], expected["end"])
    assert CONTEXT[found.start : found.end] == found.answer
    assert found.score == pytest.approx(expected["score"], abs=1e-5)


def test_words_for_a_mask(client):
    found = client("bert-mini-en").fill_mask("The cat [MASK] on the mat.", top_k=3)
    expected = gf.pipeline("fill-mask", "zoo:bert-mini-en")("The cat [MASK] on the mat.", top_k=3)
    assert [(one.token, one.token_str, one.sequence) for one in found] == [
        (one["token"], one["token_str"], one["sequence"]) for one in expected
    ]
    (only,) = client("bert-mini-en").fill_mask("The cat [MASK] on the mat.", targets=["was"], top_k=1)
    assert only.token_str == "was"


def test_vectors(client):
    one = client("embed-mini-en").feature_extraction("A cat sat.")
    assert_close(one, gf.embed("A cat sat.", "zoo:embed-mini-en"))
    some = client("embed-mini-en").feature_extraction(["A cat sat.", "No."], normalize=False)
    assert_close(some, gf.embed(["A cat sat.", "No."], "zoo:embed-mini-en", normalize=False))
    assert client("embed-mini-en").feature_extraction("A cat sat.", dimensions=5).shape == (5,)


def test_similarity(client):
    found = client("embed-mini-en").sentence_similarity("A cat sat.", ["A dog sat.", "No."])
    first, *rest = gf.embed(["A cat sat.", "A dog sat.", "No."], "zoo:embed-mini-en")
    assert_close(np.array(found, np.float32), np.stack([other @ first for other in rest]), rtol=1e-4, atol=1e-5)


def test_translation(client):
    expected = gf.pipeline("translation", "zoo:en-de")("Oskar helped Daniel in May.")[0]["translation_text"]
    assert client("en-de").translation("Oskar helped Daniel in May.").translation_text == expected
    beams = client("en-de").translation("Oskar helped Daniel in May.", generate_parameters={"num_beams": 2})
    expected = gf.pipeline("translation", "zoo:en-de")("Oskar helped Daniel in May.", num_beams=2)
    assert beams.translation_text == expected[0]["translation_text"]


def test_summaries_come_from_the_same_models(client, served):
    found = client("en-de/pipeline/summarization").summarization("Oskar helped Daniel in May.")
    assert found.summary_text == client("en-de").translation("Oskar helped Daniel in May.").translation_text
    _, body, _ = served.ask("/models/en-de", {"inputs": ["Oskar helped Daniel.", "Mia lost a hat."]})
    assert [list(one) for one in body] == [["translation_text"], ["translation_text"]]


def test_classes_that_nobody_trained(client, served):
    labels = ["sport", "travel"]
    found = client("nli/pipeline/zero-shot-classification").zero_shot_classification(PEOPLE, labels)
    assert {one.label for one in found} == {*labels}
    assert sum(one.score for one in found) == pytest.approx(1)
    best, _ = client("embed-mini-en/pipeline/zero-shot-classification").zero_shot_classification(
        FILM, ["film", "sport"]
    )
    assert best.label == "film"
    status, body, _ = served.ask("/models/bert-mini-en-sentiment/pipeline/zero-shot-classification", {"inputs": "a"})
    assert (status, body["error"]) == (
        400,
        "bert-mini-en-sentiment is for text-classification, not for zero-shot-classification",
    )


def test_text_whole_and_in_details(client):
    settings = {"max_new_tokens": 12, "temperature": 0.8, "seed": 5, "do_sample": True}
    model, tok = gf.load("zoo:gpt-mini-en"), gf.load_tokenizer("zoo:gpt-mini-en")
    whole = gf.generate(model, tok, "The film", **settings)
    one = client("gpt-mini-en")
    assert one.text_generation("The film", return_full_text=True, **settings) == whole
    told = one.text_generation("The film", details=True, top_n_tokens=2, **settings)
    assert "The film" + told.generated_text == whole
    assert told.details.generated_tokens == len(told.details.tokens) == 12
    assert "".join(token.text for token in told.details.tokens if not token.special) == told.generated_text
    assert all(len(top) == 2 and top[0]["logprob"] >= top[1]["logprob"] for top in told.details.top_tokens)


def test_text_token_by_token(client):
    one = client("gpt-mini-en")
    whole = one.text_generation("The film", max_new_tokens=8)
    assert "".join(one.text_generation("The film", max_new_tokens=8, stream=True)) == whole
    *_, last = one.text_generation("The film", max_new_tokens=8, stream=True, details=True)
    assert (last.generated_text, last.details.finish_reason, last.details.generated_tokens) == (whole, "length", 8)
    assert last.token.logprob < 0
    stopped = one.text_generation("The film", max_new_tokens=30, stop=[" United"], details=True)
    assert stopped.details.finish_reason == "stop_sequence"
    assert "United" not in stopped.generated_text


def test_several_texts_and_prompts(served):
    body = {"inputs": ["The film", "A"], "parameters": {"num_return_sequences": 2, "seed": 1, "max_new_tokens": 3}}
    _, found, _ = served.ask("/models/gpt-mini-en", body)
    assert [len(texts) for texts in found] == [2, 2]
    model, tok = gf.load("zoo:gpt-mini-en"), gf.load_tokenizer("zoo:gpt-mini-en")
    expected = gf.generate(model, tok, "A", do_sample=True, num_return_sequences=2, seed=1, max_new_tokens=3)
    assert ["A" + one["generated_text"] for one in found[1]] == expected


def test_health_and_info(client):
    assert client("gpt-mini-en").health_check()
    told = client("gpt-mini-en").get_endpoint_info()
    assert (told["id"], told["task"], told["limits"]["queue"]) == ("gpt-mini-en", "text-generation", 256)
    assert not client("no-such-model").health_check()


def test_chat_at_the_address_of_a_model(client):
    found = client("chat").chat_completion([{"role": "user", "content": "hi"}], max_tokens=4, temperature=0)
    assert found.usage.completion_tokens == 4
    assert found.choices[0].message.role == "assistant"


@pytest.mark.parametrize(
    ("name", "body", "status", "said"),
    [
        ("nowhere", {"inputs": "a"}, 404, "there is no model 'nowhere' here"),
        ("../../etc/passwd", {"inputs": "a"}, 404, "there is no model '../../etc/passwd' here"),
        ("http://example.org", {"inputs": "a"}, 404, "there is no model"),
        ("embed-mini-en/pipeline/nonsense", {"inputs": "a"}, 404, "there is no task 'nonsense'"),
        ("embed-mini-en/pipeline/fill-mask", {"inputs": "a"}, 400, "embed-mini-en is for sentence-embedding"),
        ("bert-mini-en-ner", {"inputs": []}, 422, "inputs is empty"),
        ("bert-mini-en-ner", {"inputs": ["a"] * 2049}, 413, "2,049 inputs, and a request may hold 2,048"),
        ("bert-mini-en-ner", {"inputs": "a", "parameters": {"batch_size": 1}}, 422, "has no parameter 'batch_size'"),
        ("bert-mini-en-ner", {"inputs": "a", "parameters": {"stride": "x"}}, 422, "stride is 'x'"),
        ("bert-mini-en-ner", {"inputs": "a", "stream": True}, 400, "is not written token by token"),
        ("bert-mini-en-ner", {"inputs": "a", "unknown": 1}, 400, "unknown: Extra inputs are not permitted"),
        ("bert-mini-en", {"inputs": "no mask"}, 422, "[MASK]"),
        ("bert-mini-en-qa", {"inputs": "no question"}, 422, "a dict with 'question' and 'context'"),
        ("en-de", {"inputs": "a", "parameters": {"num_beams": 9}}, 422, "num_beams is 9, and this server goes up to 8"),
        ("en-de", {"inputs": "a", "parameters": {"max_new_tokens": 10**9}}, 422, "goes up to 4,096"),
        ("en-de", {"inputs": "a", "parameters": {"assistant_model": "x"}}, 422, "no parameter 'assistant_model'"),
        ("gpt-mini-en", {"inputs": "a", "parameters": {"temperature": float("nan")}}, 400, "finite"),
        ("gpt-mini-en", {"inputs": "a", "parameters": {"top_p": 1.5}}, 422, "less than or equal to 1, and it is 1.5"),
        ("gpt-mini-en", {"inputs": "a", "parameters": {"max_new_tokens": 999}}, 422, "192 positions"),
        ("gpt-mini-en", {"inputs": {"question": "a", "context": "b"}}, 400, "goes on from a text"),
        ("gpt-mini-en", {"inputs": ["a", "b"], "stream": True}, 400, "a stream is one text of one prompt"),
        ("embed-mini-en", {"inputs": "\ud800"}, 422, "half a character"),
    ],
)
def test_what_cannot_be_done_says_why(served, name, body, status, said):
    found, told, headers = served.ask(f"/models/{name}", body)
    assert (found, said in told["error"]) == (status, True), told
    assert headers["x-request-id"]


GENERATES = {"generate_parameters": {"max_new_tokens": 4}, "clean_up_tokenization_spaces": True}
GENERATES |= {"truncation": "longest_first"}
PARAMETERS = {  # of each method of the client: the model's address, what it needs, and values for all it can send
    "text_classification": ("bert-mini-en-sentiment", (FILM,), {"top_k": 2, "function_to_apply": "sigmoid"}),
    "token_classification": (
        "bert-mini-en-ner",
        (PEOPLE,),
        {"aggregation_strategy": "max", "ignore_labels": ["PER"], "stride": 8},
    ),
    "question_answering": (
        "bert-mini-en-qa",
        ("Who met Leo?", CONTEXT),
        {
            "align_to_words": True,
            "doc_stride": 16,
            "handle_impossible_answer": True,
            "max_answer_len": 4,
            "max_question_len": 20,
            "max_seq_len": 64,
            "top_k": 3,
        },
    ),
    "fill_mask": ("bert-mini-en", ("The cat [MASK].",), {"targets": ["was", "is"], "top_k": 2}),
    "feature_extraction": (
        "embed-mini-en",
        (FILM,),
        {
            "normalize": True,
            "truncate": True,
            "truncation_direction": "left",
            "dimensions": 8,
            "encoding_format": "float",
        },
    ),
    "translation": ("en-de", ("Oskar helped Daniel.",), GENERATES),
    "summarization": ("en-de/pipeline/summarization", ("Oskar helped Daniel.",), GENERATES),
    "zero_shot_classification": (
        "nli/pipeline/zero-shot-classification",
        (FILM, ["film", "sport"]),
        {"multi_label": True, "hypothesis_template": "It is {}."},
    ),
    "sentence_similarity": ("embed-mini-en", (FILM, ["A film.", "No."]), {}),
    "text_generation": (
        "gpt-mini-en",
        ("The film",),
        {
            "details": True,
            "do_sample": True,
            "frequency_penalty": 0.5,
            "max_new_tokens": 4,
            "repetition_penalty": 1.1,
            "return_full_text": True,
            "seed": 3,
            "stop": ["xyz"],
            "temperature": 0.7,
            "top_k": 9,
            "top_n_tokens": 2,
            "top_p": 0.9,
            "truncate": 5,
            "typical_p": 0.9,
            "best_of": 1,
            "decoder_input_details": False,
            "watermark": False,
        },
    ),
}
REFUSED = {  # what cannot be honoured here is refused by name, with 422; docs/serving.md has the list
    "feature_extraction": {"prompt_name": "query"},
    "translation": {"src_lang": "en", "tgt_lang": "de"},  # both at once, and of a model of one pair of languages
    "text_generation": {
        "adapter_id": "a/b",
        "best_of": 2,
        "decoder_input_details": True,
        "grammar": {"type": "regex", "value": "a+"},
        "watermark": True,
    },
}


@pytest.mark.parametrize("method", PARAMETERS)
def test_whatever_the_client_can_send_is_taken_or_refused_by_name(client, served, method):
    """Every parameter of its own signature: all that can be honoured at once, then each of the others alone."""
    name, needed, honoured = PARAMETERS[method]
    given = [*inspect.signature(getattr(InferenceClient, method)).parameters.values()]
    optional = {one.name for one in given if one.kind is one.KEYWORD_ONLY} - {"model", "stream"}
    assert optional == honoured.keys() | REFUSED.get(method, {}).keys()
    assert getattr(client(name), method)(*needed, **honoured) is not None
    for parameter, value in honoured.items():
        alone = {"details": True} if parameter in ("top_n_tokens", "decoder_input_details") else {}
        getattr(client(name), method)(*needed, **{**alone, parameter: value})
    for parameter, value in REFUSED.get(method, {}).items():
        more = {"details": True} if parameter == "decoder_input_details" else {}
        more = REFUSED[method] if method == "translation" else more
        body = {"inputs": needed[0], "parameters": {**more, parameter: value}}
        if method == "feature_extraction":
            body = {"inputs": needed[0], parameter: value}
        status, told, _ = served.ask(f"/models/{name}", body)
        assert (status, parameter in told["error"] or "lang" in parameter) == (422, True), told
        with pytest.raises((HfHubHTTPError, ValidationError), match=re.escape(told["error"])):
            getattr(client(name), method)(*needed, **{**more, parameter: value})


def test_the_page_lists_what_is_refused():
    page = (ROOT / "docs" / "serving.md").read_text("utf-8")
    for names in REFUSED.values():
        for name in names:
            assert f"`{name}`" in page, name


def test_answers_are_whole_words_where_that_is_asked_for(client):
    """As transformers has it: what a piece of a word was found for becomes the word."""
    tok, context = gf.load_tokenizer("zoo:bert-mini-en-qa"), "Xylophonists met Leo."
    piece = {"score": 0.5, "start": 2, "end": 5, "answer": context[2:5]}
    found = whole_words(tok, {"context": context}, [piece, {**piece, "start": 0, "end": 0, "answer": ""}])
    assert found[0] == {"score": 0.5, "start": 0, "end": 12, "answer": "Xylophonists"}
    assert found[1]["answer"] == ""
    for asked in (True, False):
        one = client("bert-mini-en-qa").question_answering("Who met Leo?", CONTEXT, align_to_words=asked)
        assert CONTEXT[one.start : one.end] == one.answer


def test_how_texts_are_cut(client, served):
    """do_not_truncate refuses with both numbers, and the last tokens of a prompt are read where truncate says so."""
    body = {"inputs": "word " * 999, "parameters": {"truncation": "do_not_truncate"}}
    status, told, _ = served.ask("/models/en-de", body)
    assert status == 422
    assert re.search(
        r'a text has [\d,]+ tokens and the model reads [\d,]+: .*"truncation": "longest_first"', told["error"]
    )
    assert served.ask("/models/en-de", {"inputs": "a", "parameters": {"truncation": "only_second"}})[0] == 422
    body = {"inputs": "word " * 999, "parameters": {"truncation": False}}
    status, told, _ = served.ask("/models/bert-mini-en-sentiment", body)
    assert (status, "1,001 tokens and the model reads" in told["error"]) == (422, True), told
    one = client("gpt-mini-en")
    assert one.text_generation("No. The film", max_new_tokens=5, truncate=2) == one.text_generation(
        " The film", max_new_tokens=5
    )


def test_the_clients_error_has_the_servers_words(client):
    with pytest.raises(HfHubHTTPError, match="has no parameter|422"):
        client("bert-mini-en").fill_mask("no mask")
