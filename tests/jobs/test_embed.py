"""gf.embed and pipeline("sentence-embedding"): the vectors that sentence-transformers gives, from the same folder."""

import json
import shutil

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import glassformer as gf

TEXTS = ["A cat sat on the mat.", "Hello!", "", "One of the longest of these texts, " * 12, "今天天气很好。"]


@pytest.fixture(scope="module")
def peer(minilm):
    return pytest.importorskip("sentence_transformers").SentenceTransformer(str(minilm), device="cpu")


@pytest.mark.few(1)
@pytest.mark.filterwarnings("ignore")  # not ours to mend
def test_vectors_are_those_of_sentence_transformers(minilm, peer):
    expected = peer.encode(TEXTS)
    found = gf.embed(TEXTS, minilm)
    assert isinstance(found, np.ndarray)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-5)
    np.testing.assert_allclose(gf.embed(TEXTS, minilm, batch_size=2), expected, atol=1e-5)
    one = gf.embed(TEXTS[0], minilm)
    assert one.shape == expected[0].shape
    np.testing.assert_allclose(one, expected[0], atol=1e-5)
    np.testing.assert_allclose(gf.pipeline("sentence-embedding", minilm)(TEXTS), expected, atol=1e-5)


def test_a_list_comes_back_in_its_order(minilm):
    model, tok = gf.load(minilm), gf.load_tokenizer(minilm)
    texts = [f"number {n} " * (1 + 7 * n % 11) for n in range(40)]
    together = gf.embed(texts, model, tokenizer=tok, convert_to_tensor=True)
    for place in (0, 13, 39):
        assert_close(
            together[place], gf.embed(texts[place], model, tokenizer=tok, convert_to_tensor=True), atol=1e-5, rtol=0
        )


def test_pooling_is_the_folders_unless_it_is_given(minilm, tmp_path):
    folder = shutil.copytree(minilm, tmp_path / "folder")
    flags = json.loads((folder / "1_Pooling" / "config.json").read_text())
    flags = {name: value == "x" if name.startswith("pooling_mode") else value for name, value in flags.items()}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(flags | {"pooling_mode_cls_token": True}))
    text, states = TEXTS[0], torch.tensor(gf.pipeline("feature-extraction", minilm)(TEXTS[0]))[0]
    unit = torch.nn.functional.normalize
    assert_close(gf.embed(text, folder, convert_to_tensor=True), unit(states[0], dim=0), atol=1e-5, rtol=0)
    asked = {"max": states.amax(0), "mean": states.mean(0), "cls": states[0]}
    for pooling, expected in asked.items():
        found = gf.embed(text, folder, pooling=pooling, normalize=False, convert_to_tensor=True)
        assert_close(found, expected, atol=1e-5, rtol=1e-4)
        assert_close(
            torch.tensor(gf.pipeline("sentence-embedding", folder, pooling=pooling)(text)),
            unit(expected, dim=0),
            atol=1e-5,
            rtol=0,
        )


def test_a_folder_of_sentence_transformers_needs_no_task(minilm):
    assert len(gf.pipeline(model=minilm)(TEXTS[0])) == 384


def test_no_text_is_no_vector(minilm):
    assert gf.embed([], minilm).shape == (0, 384)


@pytest.mark.parametrize("arch", ["lstm", "gpt2"])
@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_a_text_without_a_token_is_nothing(trained, arch, pooling):
    """Where a tokenizer puts no special tokens around a text."""
    folder = trained(f"text-generation/{arch}")
    for normalize in (True, False):
        found = gf.embed(["", "Paul is glad ."], folder, pooling=pooling, normalize=normalize)
        np.testing.assert_array_equal(found[0], 0)
        assert np.abs(found[1]).max() > 0
        np.testing.assert_array_equal(gf.embed("", folder, pooling=pooling, normalize=normalize), 0)


def test_vectors_may_be_learnt_from(minilm):
    model, tok = gf.load(minilm), gf.load_tokenizer(minilm)
    for texts in (TEXTS[0], TEXTS[:2]):
        vectors = gf.embed(texts, model, tokenizer=tok, convert_to_tensor=True)
        weights = torch.ones_like(vectors, requires_grad=True)
        (weights * vectors).sum().backward()
        assert_close(weights.grad, vectors)


def test_a_name_of_sentence_transformers_is_answered_with_ours(minilm):
    for theirs, ours in {"normalize_embeddings": "normalize", "convert_to_numpy": "convert_to_tensor"}.items():
        with pytest.raises(TypeError, match=f"embed takes no '{theirs}'; near it: .*{ours}"):
            gf.embed("a", minilm, **{theirs: True})
    with pytest.raises(TypeError, match="embed takes no 'show_progress_bar'; it takes: tokenizer, pooling, normalize"):
        gf.embed("a", minilm, show_progress_bar=True)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda folder: gf.embed(["a", 3], folder), r"texts\[1\] is 3 \(int\), not a string"),
        (lambda folder: gf.embed(None, folder), r"texts is None \(NoneType\): give a string or a list of strings"),
        (lambda folder: gf.embed("a", folder, pooling="last"), "pooling must be one of mean, cls, max, not 'last'"),
        (lambda folder: gf.embed("a", folder, batch_size=0), "batch_size is 0; it must be a whole number from 1"),
        (lambda folder: gf.embed("a", gf.load(folder)), "needs its tokenizer"),
        (
            lambda folder: gf.embed("a", gf.load(folder, head="fill-mask"), tokenizer=gf.load_tokenizer(folder)),
            "reads a bare model, not one with the head 'fill-mask'",
        ),
    ],
)
def test_what_cannot_be_embedded_is_refused_in_one_line(minilm, ask, message):
    with pytest.raises(ValueError, match=message):
        ask(minilm)
