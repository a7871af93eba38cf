"""Alignment: words are the text's own, and their weights are the attention of their tokens."""

import numpy as np
import pytest
import sentencepiece
import torch
from hypothesis import given
from hypothesis import strategies as st

import glassformer as gf
from glassformer.data.examples import Parallel
from glassformer.inspect.crossing import crossing, crossing_names
from glassformer.jobs.align import align, words_of
from glassformer.jobs.predict import Pipeline
from glassformer.tasks.translation import Translation
from glassformer.text.tokenizer import Tokenizer
from tasks.language import tokenizer_of

TEXTS = ["Anna met  Mr. O'Neill near the old harbour.", "北京 和 上海 很大。", "unbelievably naïve 😀", "a b c d"]
KINDS = ("wordpiece", "bpe", "unigram", "character")
LAYERS = {"encoder_layers": 3, "decoder_layers": 3, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
SIZES = {**LAYERS, "d_model": 16, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "max_position_embeddings": 90}
ATTENTIONS = ("transformer", "additive", "general")
words = st.lists(st.sampled_from(["Anna", "met", "unbelievably", "北京", "😀", "d"]), min_size=1, max_size=6).map(
    " ".join
)


def pipe_of(name, kind="wordpiece"):
    tokenizer = tokenizer_of(TEXTS * 3, kind)
    settings = Translation.for_data(tokenizer, []).settings()
    torch.manual_seed(0)
    if name == "transformer":
        model = gf.build("glassformer-transformer", "text2text-generation", **settings, **SIZES, init_std=0.5)
    else:
        sizes = {"embedding_size": 12, "hidden_size": 16, "initializer_range": 1.0, "attention": name}
        model = gf.build("glassformer-seq2seq", "text2text-generation", **settings, **sizes)
    return Pipeline(model.eval(), Translation.for_model(tokenizer, model))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", TEXTS)
def test_words_are_the_texts_own(kind, text):
    tokenizer = tokenizer_of(TEXTS * 3, kind)
    found = words_of(tokenizer, text, target=False)
    assert "".join(found.words) == "".join(text.split())
    assert len(found.owners) == len(tokenizer(text, add_special_tokens=False)["input_ids"])
    assert set(found.owners.tolist()) - {-1} == set(range(len(found.words)))
    spaced = text.split()
    assert all(any(word in part for part in spaced) for word in found.words)  # none goes over a space


def test_words_of_a_tokenizer_that_knows_no_words():
    """Of one that takes a whole text at a time, what stands between spaces."""
    tokenizer = tokenizer_of(TEXTS * 3, "unigram")
    tokenizer.backend.rust.pre_tokenizer = None
    tokenizer.refresh()
    assert words_of(tokenizer, "a b  Anna", target=False).words == ["a", "b", "Anna"]


def test_words_of_marian(tmp_path):
    for side in ("source", "target"):
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(TEXTS * 3), model_prefix=str(tmp_path / side), vocab_size=70,
            hard_vocab_limit=False, minloglevel=2,
        )  # fmt: skip
        (tmp_path / f"{side}.model").rename(tmp_path / f"{side}.spm")
    (tmp_path / "vocab.json").write_text('{"</s>": 0, "<unk>": 1, "<pad>": 2}')
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "MarianTokenizer"}')
    found = words_of(Tokenizer.from_folder(tmp_path), ">>de<< Anna met  Mr. O'Neill", target=False)
    assert found.words == [">>de<<", "Anna", "met", "Mr.", "O'Neill"]


@pytest.mark.parametrize("name", ATTENTIONS)
@given(pairs=st.lists(st.tuples(words, words), min_size=1, max_size=4))
def test_a_word_looks_as_its_tokens_do(name, pairs):
    """In a batch as if alone: the mean over its tokens, the sum over those of the source word."""
    pipe = pipe_of(name)
    task, tokenizer = pipe.task, pipe.task.tokenizer
    for (source, target), found in zip(pairs, align(pipe, pairs, batch_size=2), strict=True):
        batch = task.batch(task.encode([Parallel(source, target)]), np.array([0]))
        looks = crossing(pipe.model, batch.inputs)[0].numpy()
        read, written = words_of(tokenizer, source, target=False), words_of(tokenizer, target, target=True)
        assert (found.source, found.target) == (read.words, written.words)
        first = tokenizer(source).sequence_ids().index(0)  # behind [CLS]
        for row in range(len(written.words)):
            for column in range(len(read.words)):
                mine = [place for place, owner in enumerate(written.owners) if owner == row]
                theirs = [first + place for place, owner in enumerate(read.owners) if owner == column]
                expected = np.mean([sum(looks[one, other] for other in theirs) for one in mine])
                assert found.weights[row, column] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("name", ATTENTIONS)
def test_planted_looks_are_found(name):
    """A model that is made to look at the n-th source token while it writes the n-th links words one to one."""
    pipe = pipe_of(name)
    text = "Anna met the old harbour"

    def straight(pattern):
        steps = torch.zeros_like(pattern)
        if pattern.dim() == 2:  # one step of a loop at a time
            place, straight.step = straight.step + 1, straight.step + 1
            steps[:, min(place, pattern.shape[1] - 1)] = 1
            return steps
        for place in range(pattern.shape[-2]):
            steps[..., place, min(place + 1, pattern.shape[-1] - 1)] = 1  # a source begins with [CLS]
        return steps

    straight.step = 0
    with gf.record(pipe.model, edit=dict.fromkeys(crossing_names(pipe.model), straight)):
        (found,) = align(pipe, [(text, text)])
    assert [(link.target, link.source) for link in found.links()] == [(n, n) for n in range(len(text.split()))]
    assert found.weights.diagonal() == pytest.approx(1.0)


def test_of_three_layers_the_last_two_are_read():
    pipe = pipe_of("transformer")
    batch = pipe.task.batch(pipe.task.encode([Parallel("Anna met", "a b c")]), np.array([0]))
    with gf.record(pipe.model, "decoder.layers.*.cross_attention.pattern") as seen, torch.inference_mode():
        pipe.model(**batch.inputs)
    expected = torch.stack(seen.attentions[1:]).mean((0, 2))  # over layers and heads
    torch.testing.assert_close(crossing(pipe.model, batch.inputs), expected)


def test_a_text_without_words_has_no_links():
    pipe = pipe_of("transformer")
    for source, target in (("", "Anna"), ("Anna", "")):
        (found,) = align(pipe, [(source, target)])
        assert found.links() == []


def test_a_source_that_was_cut_is_aligned_as_far_as_it_was_read():
    pipe = pipe_of("transformer")
    pipe.task.max_length = 6
    (found,) = align(pipe, [("Anna met the old harbour near Anna", "Anna")])
    assert found.weights.shape == (1, 7)
    assert found.weights[0, 0] > 0
    assert found.weights[0, -1] == 0
