"""Languages in a real browser: a model that knows several is asked from which to which it shall translate."""

import json
from functools import partial

import pytest

import glassformer as gf
from glassformer.studio.app import create_app
from glassformer.studio.app_state import ModelStore, Studio
from glassformer.studio.traces import Traces
from multilingual import nllb_folder
from studio.cases import http, serving, visited, watched

TEXT = "the cat sat."


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return nllb_folder(tmp_path_factory.mktemp("studio") / "nllb")


@pytest.fixture(scope="module")
def studio_url(folder, tmp_path_factory):
    with serving(create_app(Studio(ModelStore([str(folder)]), Traces(), runs=tmp_path_factory.mktemp("runs")))) as url:
        yield url


def asked(url, **options):
    body = {
        "model": "nllb",
        "inputs": TEXT,
        "options": {"strategy": "beam", "num_beams": 2, "max_new_tokens": 6} | options,
    }
    return http.post(f"{url}/api/v1/results", json=body)


def best(answer):
    assert answer.status_code == 200, answer.text
    return json.loads(answer.text.splitlines()[-2])["texts"][0]["text"]


def test_the_answer_is_that_of_the_pipeline(studio_url, folder):
    pipe = gf.pipeline("translation", folder)
    for languages in ({"tgt_lang": "deu_Latn"}, {"src_lang": "fra_Latn", "tgt_lang": "zho_Hans"}):
        wanted = pipe(TEXT, num_beams=2, max_new_tokens=6, **languages)[0]["translation_text"]
        answer = asked(studio_url, **languages)
        assert best(answer) == wanted
        first = next(line for line in map(json.loads, answer.text.splitlines()) if line["kind"] == "step")
        assert first["nodes"][0]["token"] == languages["tgt_lang"]
    refused = asked(studio_url, src_lang="eng", tgt_lang="deu_Latn")
    assert refused.status_code == 422
    assert "knows no language 'eng'" in refused.json()["detail"]


def test_languages_are_chosen_from_lists(browser, studio_url):
    with watched(browser, studio_url) as page:
        visit = partial(visited, page, "run", model="nllb", text=TEXT, num_beams=2, max_new_tokens=6)
        visit()
        lists = page.locator(".options select")
        assert lists.count() == 2
        assert [lists.nth(place).input_value() for place in (0, 1)] == ["eng_Latn", "ace_Arab"]
        assert lists.first.locator("option").count() == 202
        with page.expect_request("**/api/v1/results") as request:
            lists.nth(1).select_option("deu_Latn")
        assert request.value.post_data_json["options"]["tgt_lang"] == "deu_Latn"
        assert "tgt_lang=deu_Latn" in page.url
        page.locator(".answer tbody tr").first.wait_for()
        visit(src_lang="fra_Latn", tgt_lang="deu_Latn", lang="zh")
        assert page.locator(".options select").first.input_value() == "fra_Latn"
        assert "源语言" in page.locator(".options").inner_text()
