"""OpenAI's own client gets from a server what gf.embed and gf.generate give, whole and as a stream."""

import json

import httpx
import numpy as np
import openai
import pytest
from torch.testing import assert_close

import glassformer as gf


@pytest.fixture(scope="module")
def client(served):
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0) as one:
        yield one


@pytest.fixture(scope="module")
def writer():
    return gf.load("zoo:gpt-mini-en"), gf.load_tokenizer("zoo:gpt-mini-en")


def written(writer, prompt, **settings):
    """What gf.generate adds to a prompt."""
    return gf.generate(*writer, prompt, **settings)[len(prompt) :]


def test_models(client, served):
    listed = client.models.list().data
    assert [one.id for one in listed] == list(served.service.models)
    for name in ("gpt-mini-en", "zoo:gpt-mini-en"):  # its own name, and the one it was served by
        assert client.models.retrieve(name).id == "gpt-mini-en"
    with pytest.raises(openai.NotFoundError, match="there is no model 'gpt-5' here"):
        client.models.retrieve("gpt-5")


def test_embeddings_as_the_client_asks_for_them(client):
    """In base64, since the client says nothing else, and in numbers."""
    texts = ["A cat sat.", "No.", "A dog ran over the hill."]
    expected = gf.embed(texts, "zoo:embed-mini-en")
    for form in ({}, {"encoding_format": "float"}):
        found = client.embeddings.create(model="embed-mini-en", input=texts, **form)
        assert_close(np.array([one.embedding for one in found.data], np.float32), expected, rtol=1e-4, atol=1e-5)
        assert [one.index for one in found.data] == [0, 1, 2]
    tok = gf.load_tokenizer("zoo:embed-mini-en")
    assert found.usage.prompt_tokens == sum(len(row) for row in tok(texts)["input_ids"])
    short = client.embeddings.create(model="embed-mini-en", input="A cat sat.", dimensions=8).data[0].embedding
    assert_close(np.array(short), expected[0][:8].astype(float) / np.linalg.norm(expected[0][:8]), rtol=1e-4, atol=1e-5)


def test_embeddings_of_ids(client):
    ids = gf.load_tokenizer("zoo:embed-mini-en")(["A cat sat.", "No."])["input_ids"]
    texts = client.embeddings.create(model="embed-mini-en", input=["A cat sat.", "No."]).data
    for given, same in (([ids[0]], texts[:1]), (ids[0], texts[:1]), (ids, texts)):
        found = client.embeddings.create(model="embed-mini-en", input=given).data
        assert_close([one.embedding for one in found], [one.embedding for one in same], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("count", [100, pytest.param(2048, marks=pytest.mark.slow)])
def test_many_inputs_come_back_in_their_order(client, count):
    texts = [f"{number} cats sat." for number in range(count)]
    found = client.embeddings.create(model="embed-mini-en", input=texts)
    assert [one.index for one in found.data] == list(range(count))
    for place in (0, 31, 32, 64, count - 1):
        assert_close(
            np.array(found.data[place].embedding, np.float32),
            gf.embed(texts[place], "zoo:embed-mini-en"),
            rtol=1e-4,
            atol=1e-5,
        )


def test_a_completion_is_what_generate_writes(client, writer):
    found = client.completions.create(model="gpt-mini-en", prompt="The film", temperature=0, max_tokens=9)
    assert found.choices[0].text == written(writer, "The film", max_new_tokens=9)
    assert found.choices[0].finish_reason == "length"
    assert (found.usage.prompt_tokens, found.usage.completion_tokens, found.usage.total_tokens) == (2, 9, 11)
    assert found.id.startswith("cmpl-")
    ids = writer[1].encode("The film", add_special_tokens=False)
    by_ids = client.completions.create(model="gpt-mini-en", prompt=ids, temperature=0, max_tokens=9)
    assert by_ids.choices[0].text == found.choices[0].text


def test_settings_are_those_of_generate(client, writer):
    found = client.completions.create(
        model="gpt-mini-en",
        prompt=["The film", "A"],
        n=2,
        seed=11,
        temperature=0.7,
        top_p=0.9,
        frequency_penalty=0.5,
        max_tokens=6,
        logit_bias={"290": -100},
    )
    own = {"num_return_sequences": 2, "seed": 11, "temperature": 0.7, "top_p": 0.9, "frequency_penalty": 0.5}
    more = {"max_new_tokens": 6, "sequence_bias": [([290], -100.0)], "do_sample": True}
    expected = [
        text[len(prompt) :] for prompt in ("The film", "A") for text in gf.generate(*writer, prompt, **own, **more)
    ]
    assert [one.text for one in found.choices] == expected
    assert [one.index for one in found.choices] == [0, 1, 2, 3]


def test_without_a_temperature_texts_are_drawn(client, writer):
    found = client.completions.create(model="gpt-mini-en", prompt="The film", seed=3, max_tokens=12)
    assert found.choices[0].text == written(writer, "The film", do_sample=True, seed=3, max_new_tokens=12)


def test_of_the_best_text_there_are_n_that_are_equal(client, writer):
    settings = {"model": "gpt-mini-en", "prompt": ["The film", "A"], "n": 2, "temperature": 0, "max_tokens": 5}
    expected = [text for prompt in settings["prompt"] for text in [written(writer, prompt, max_new_tokens=5)] * 2]
    whole = client.completions.create(**settings)
    assert [(one.index, one.text) for one in whole.choices] == list(enumerate(expected))
    assert whole.usage.completion_tokens == 20
    texts = [""] * 4
    for chunk in client.completions.create(**settings, stream=True):
        texts[chunk.choices[0].index] += chunk.choices[0].text
    assert texts == expected


def test_a_stream_is_the_same_text(client):
    settings = {"model": "gpt-mini-en", "prompt": ["The film", "A"], "n": 2, "seed": 4, "max_tokens": 7}
    whole = client.completions.create(**settings)
    texts, ends = [""] * 4, [""] * 4
    *chunks, last = client.completions.create(**settings, stream=True, stream_options={"include_usage": True})
    for chunk in chunks:
        assert chunk.usage is None
        (choice,) = chunk.choices
        texts[choice.index] += choice.text
        ends[choice.index] = choice.finish_reason or ends[choice.index]
    assert texts == [one.text for one in whole.choices]
    assert ends == [one.finish_reason for one in whole.choices]
    assert (last.choices, last.usage) == ([], whole.usage)


def test_a_stream_on_the_wire(served):
    body = {"model": "gpt-mini-en", "prompt": "The film", "max_tokens": 3, "temperature": 0, "stream": True}
    answer = httpx.post(f"{served.url}/v1/completions", json=body, timeout=60)
    assert answer.headers["content-type"].startswith("text/event-stream")
    *events, done, rest = answer.text.split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    chunks = [json.loads(one.removeprefix("data: ")) for one in events]
    assert {one["id"] for one in chunks} == {chunks[0]["id"]}
    assert {one["object"] for one in chunks} == {"text_completion"}


def test_log_probabilities(client, writer):
    found = client.completions.create(model="gpt-mini-en", prompt="The film", temperature=0, max_tokens=5, logprobs=3)
    expected = gf.generate(*writer, ["The film"], max_new_tokens=5, return_dict_in_generate=True, top_logprobs=3)
    told = found.choices[0].logprobs
    steps = expected.steps(0, writer[1])
    assert told.tokens == [step["token"] for step in steps]
    assert told.token_logprobs == pytest.approx([step["logprob"] for step in steps], abs=1e-4)
    for top, step in zip(told.top_logprobs, steps, strict=True):
        assert top == pytest.approx({one["token"]: one["logprob"] for one in step["top"]}, abs=1e-4)
    text = found.choices[0].text
    for token, start in zip(told.tokens, told.text_offset, strict=True):
        assert text[start:].startswith(token)


def test_stop_strings_and_echo(client):
    found = client.completions.create(
        model="gpt-mini-en", prompt="The film", temperature=0, max_tokens=30, stop=[" United", "xyz"], echo=True
    )
    assert found.choices[0].finish_reason == "stop"
    assert found.choices[0].text.startswith("The film was released")
    assert not found.choices[0].text.rstrip().endswith("United")
    pieces = client.completions.create(
        model="gpt-mini-en", prompt="The film", temperature=0, max_tokens=30, stop=" United", echo=True, stream=True
    )
    assert "".join(chunk.choices[0].text for chunk in pieces) == found.choices[0].text


def test_chat(client, served):
    messages = [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
    settings = {"model": "chat", "messages": messages, "temperature": 0, "max_tokens": 6}
    found = client.chat.completions.create(**settings, logprobs=True, top_logprobs=2)
    source = {name: alias for alias, name in served.service.aliases.items()}["chat"]
    model, tok = gf.load(source), gf.load_tokenizer(source)
    prompt = "user: hi\nassistant:"
    whole = gf.generate(model, tok, prompt, max_new_tokens=6, add_special_tokens=False)
    assert prompt + found.choices[0].message.content == whole
    scores = found.choices[0].logprobs.content
    assert all(len(one.top_logprobs) == 2 and one.logprob <= one.top_logprobs[0].logprob + 1e-6 for one in scores)
    chunks = list(client.chat.completions.create(**settings, stream=True))
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(one.choices[0].delta.content or "" for one in chunks) == found.choices[0].message.content
    assert chunks[-1].choices[0].finish_reason == found.choices[0].finish_reason


def test_a_chat_without_a_length_goes_on_as_far_as_there_is_room(client):
    found = client.chat.completions.create(model="chat", messages=[{"role": "user", "content": "hi"}], temperature=0)
    assert found.choices[0].finish_reason == "stop" or found.usage.total_tokens == 256 + 1


def test_who_has_no_template_is_told_where_to_ask(client):
    with pytest.raises(openai.BadRequestError, match="has no chat template: ask it at /v1/completions"):
        client.chat.completions.create(model="gpt-mini-en", messages=[{"role": "user", "content": "hi"}])


COMPLETION, CHAT, EMBEDDINGS = "completions", "chat/completions", "embeddings"
TURN = [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize(
    ("route", "body", "status", "param", "said"),
    [
        (COMPLETION, {"model": "nowhere", "prompt": "a"}, 404, "model", "there is no model 'nowhere'"),
        (COMPLETION, {"model": "en-de", "prompt": "a"}, 400, "model", "en-de is for translation"),
        (COMPLETION, {"prompt": "a"}, 400, "model", "Field required"),
        (COMPLETION, {"model": "gpt-mini-en", "prompt": "a", "n": 9}, 422, "n", "n is 9, and this server goes up to 8"),
        (
            COMPLETION,
            {"model": "gpt-mini-en", "prompt": "a", "logit_bias": {f"{id_}": 1 for id_ in range(2049)}},
            413,
            "logit_bias",
            "logit_bias holds 2,049 inputs, and a request may hold 2,048",
        ),
        (COMPLETION, {"model": "gpt-mini-en", "prompt": "a", "logprobs": 21}, 422, "logprobs", "goes up to 20"),
        (COMPLETION, {"model": "gpt-mini-en", "prompt": "a", "stop": ["a"] * 5}, 422, "stop", "stop is 5"),
        (COMPLETION, {"model": "gpt-mini-en", "prompt": "a", "temperature": 2.5}, 422, "temperature", "and it is 2.5"),
        (COMPLETION, {"model": "gpt-mini-en", "prompt": "a", "top_p": float("inf")}, 400, "top_p", "finite number"),
        (COMPLETION, {"model": "gpt-mini-en", "prompt": "a", "suffix": "b"}, 400, "suffix", "not permitted"),
        (
            COMPLETION,
            {"model": "gpt-mini-en", "prompt": "a", "logit_bias": {"x": 1}},
            400,
            "logit_bias",
            "no token's id",
        ),
        (COMPLETION, {"model": "gpt-mini-en", "prompt": "a", "logit_bias": {"9999": 1}}, 422, None, "9999"),
        (COMPLETION, {"model": "gpt-mini-en", "prompt": [99999]}, 422, None, "99999"),
        (COMPLETION, {"model": "gpt-mini-en", "prompt": "a " * 500}, 422, None, "192 positions"),
        (COMPLETION, {"model": "gpt-mini-en", "prompt": [], "max_tokens": 1}, 422, "prompt", "empty"),
        (CHAT, {"model": "chat", "messages": TURN, "tools": []}, 400, "tools", "not permitted"),
        (CHAT, {"model": "chat", "messages": TURN, "top_logprobs": 2}, 400, "top_logprobs", "needs logprobs"),
        (CHAT, {"model": "chat", "messages": []}, 422, "messages", "at least 1"),
        (EMBEDDINGS, {"model": "embed-mini-en", "input": "a", "dimensions": 999}, 422, "dimensions", "192"),
        (EMBEDDINGS, {"model": "embed-mini-en", "input": "word " * 999}, 422, None, "1,001 tokens and the model reads"),
        (EMBEDDINGS, {"model": "embed-mini-en", "input": [[99999]]}, 422, None, "99999 is no token"),
        (EMBEDDINGS, {"model": "gpt-mini-en", "input": "a"}, 400, "model", "gpt-mini-en is for text-generation"),
    ],
)
def test_what_cannot_be_done_says_why(served, route, body, status, param, said):
    found, told, headers = served.ask(f"/v1/{route}", body)
    error = told["error"]
    assert (found, error["param"]) == (status, param), error
    assert said in error["message"]
    assert error["type"] == ("not_found_error" if status == 404 else "invalid_request_error")
    assert headers["x-request-id"]
