"""Masks: ranked as transformers' pipeline does, filled one by one as told, and texts chosen by a judge."""

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

import glassformer as gf
from families import SMALL_BERT, SMALL_GPT, random_model
from glassformer import fill_mask, infill, rerank
from glassformer.text.train import train

CORPUS = "the cat sat on the mat. a dog ran over the hill. 猫坐在垫子上。 naïve café\n" * 20
FAMILIES = {
    "bert": ("wordpiece", "fill-mask"),
    "roberta": ("bpe", "fill-mask"),
    "pretraining": ("wordpiece", "pretraining"),
}


@pytest.fixture(scope="module", params=FAMILIES)
def filler(request, tmp_path_factory):
    """A masked language model with its tokenizer, and the folder of both."""
    folder = tmp_path_factory.mktemp("filler")
    (folder / "corpus.txt").write_text(CORPUS, encoding="utf-8")
    kind, head = FAMILIES[request.param]
    tokenizer = train([folder / "corpus.txt"], kind=kind, vocab_size=320)
    if tokenizer.mask_token_id is None:
        tokenizer.add_tokens(["<mask>"], special_tokens=True)
        tokenizer.mask_token = "<mask>"
    chosen = SMALL_BERT | {"vocab_size": len(tokenizer), "max_position_embeddings": 60}
    name = request.param if request.param in ("bert", "roberta") else "bert"
    model = random_model(name, head, chosen | ({"pad_token_id": 1} if name == "roberta" else {}))
    gf.save(model, folder / "model", tokenizer=tokenizer)
    return model, tokenizer, folder / "model"


def test_it_is_the_pipeline_of_transformers(filler):
    model, tokenizer, folder = filler
    if model.head_name != "fill-mask":
        pytest.skip("transformers' pipeline takes one head")
    peer = transformers.AutoModelForMaskedLM.from_pretrained(folder)
    pipe = transformers.pipeline("fill-mask", model=peer, tokenizer=transformers.AutoTokenizer.from_pretrained(folder))
    mask = tokenizer.mask_token
    texts = [f"the {mask} sat", f"{mask} cat {mask} on the {mask}.", f"猫 {mask}"]
    words = [tokenizer.convert_ids_to_tokens(n) for n in (20, 30, 40, 50)]
    for options in ({}, {"top_k": 3}, {"targets": words}, {"targets": words[:1]}, {"targets": words, "top_k": 2}):
        same(fill_mask(model, tokenizer, texts, **options), pipe(texts, **options))
        same(fill_mask(model, tokenizer, texts[1], **options), pipe(texts[1], **options))


def same(found, expected):
    if isinstance(expected, list):
        assert len(found) == len(expected)
        for mine, theirs in zip(found, expected, strict=True):
            same(mine, theirs)
        return
    assert found["score"] == pytest.approx(expected["score"], abs=1e-5)
    assert {**found, "score": 0} == {**expected, "score": 0}


def step_by_step(model, tokenizer, text, order):
    """Masks filled one at a time by the plain forward."""
    ids, special = tokenizer(text)["input_ids"], set(tokenizer.all_special_ids)
    while tokenizer.mask_token_id in ids:
        with torch.no_grad():
            out = model(input_ids=torch.tensor([ids]))
        logits = (out.logits if hasattr(out, "logits") else out.prediction_logits)[0].clone()
        logits[:, list(special)] = -torch.inf
        chances = logits.softmax(-1)
        open_ = [place for place, id_ in enumerate(ids) if id_ == tokenizer.mask_token_id]
        place = open_[0] if order == "left-to-right" else max(open_, key=lambda place: float(chances[place].max()))
        ids[place] = int(chances[place].argmax())
    return tokenizer.decode(ids, skip_special_tokens=True)


@settings(max_examples=10)
@given(data=st.data())
def test_masks_are_filled_in_the_order_asked_for(filler, data):
    model, tokenizer, _ = filler
    words = st.sampled_from(["the", "cat", "sat", tokenizer.mask_token, "mat"])
    some = st.lists(words, min_size=2, max_size=8).filter(lambda text: tokenizer.mask_token in text)
    texts = [" ".join(text) for text in data.draw(st.lists(some, min_size=1, max_size=3))]
    for order in ("left-to-right", "most-confident"):
        expected = [step_by_step(model, tokenizer, text, order) for text in texts]
        assert infill(model, tokenizer, texts, order=order) == expected
        assert infill(model, tokenizer, texts[0], order=order) == expected[0]


def test_drawn_words_are_seeded(filler):
    model, tokenizer, _ = filler
    text = " ".join([tokenizer.mask_token] * 5)
    drawn = [infill(model, tokenizer, text, temperature=2.0, seed=seed) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert infill(model, tokenizer, text, top_k=1) == infill(model, tokenizer, text)


def test_wrong_uses_of_masks_are_named(filler):
    model, tokenizer, _ = filler
    mask = tokenizer.mask_token
    for call, message in (
        (lambda: fill_mask(model, tokenizer, "the cat"), f"there is no {mask} in 'the cat'"),
        (lambda: infill(model, tokenizer, "the cat"), f"there is no {mask} in 'the cat'"),
        (lambda: infill(model, tokenizer, mask, order="random"), "there is no order 'random'"),
        (lambda: fill_mask(model, tokenizer, mask, top_k=0), "top_k must be at least 1, not 0"),
        (lambda: fill_mask(model, tokenizer, mask, targets=[]), "targets is empty"),
        (lambda: fill_mask(random_model("bert", None, SMALL_BERT), tokenizer, mask), "head None fills no masks"),
    ):
        with pytest.raises(ValueError, match=message.replace("[", r"\[")):
            call()


def test_the_judge_decides(tmp_path):
    (tmp_path / "corpus.txt").write_text(CORPUS, encoding="utf-8")
    tokenizer = train([tmp_path / "corpus.txt"], kind="bpe", vocab_size=300)
    model = random_model("gpt2", "text-generation", SMALL_GPT | {"vocab_size": 300, "bos_token_id": 0})
    request = {"n": 6, "max_new_tokens": 6, "seed": 4}
    vowels = lambda texts: [sum(letter in "aeiou" for letter in text) for text in texts]  # noqa: E731
    groups = rerank(model, tokenizer, ["the", "a dog"], vowels, **request)
    drawn = gf.generate(
        model, tokenizer, ["the", "a dog"], num_return_sequences=6, do_sample=True, max_new_tokens=6, seed=4
    )
    for ranked, texts in zip(groups, drawn, strict=True):
        assert sorted(row.text for row in ranked) == sorted(texts)
        assert [row.score for row in ranked] == sorted(vowels(texts), reverse=True)
        assert [row.judged for row in ranked] == vowels([row.text for row in ranked])
    fluent = rerank(model, tokenizer, "the", lambda texts: [0.0] * len(texts), fluency=1.0, **request)
    assert [row.score for row in fluent] == sorted((row.logprob for row in fluent), reverse=True)
    beams = rerank(model, tokenizer, "the", vowels, n=3, num_beams=3, max_new_tokens=6)
    expected = gf.generate(model, tokenizer, "the", num_beams=3, num_return_sequences=3, max_new_tokens=6)
    assert sorted(row.text for row in beams) == sorted(expected)
    with pytest.raises(ValueError, match="gave 1 scores for 6 texts"):
        rerank(model, tokenizer, "the", lambda _texts: [1.0], **request)
