"""Translation: the loss sees real target tokens and nothing else, each text is translated as if alone, models learn."""

import json
import logging
import pickle

import numpy as np
import pytest
import sacrebleu
import sentencepiece
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from language import gradients, learn, tokenizer_of
from torch.testing import assert_close
from vocabularies import small_tokenizer

import glassformer as gf
from glassformer.data import microworld
from glassformer.data.batches import Budget
from glassformer.data.examples import Parallel
from glassformer.tasks.task import evaluate
from glassformer.tasks.translation import Translation
from glassformer.text.tokenizer import Tokenizer

ATTENTIONS = (None, "additive", "dot", "general", "concat", "scaled_dot")
MODELS = ("transformer", "pre-norm", "marian", "bart", *ATTENTIONS)
KINDS = ("wordpiece", "bpe", "roberta", "unigram", "character")
PAIRS = [
    Parallel("Anna met Mr. O'Neill near the old harbour.", "Wolfgang re-opened his café"),
    Parallel("a", "the unbelievably unfriendly Wolfgang in New York, near the old harbour; it was 1984-85."),
    Parallel("北京 和 上海 很大。", ""),
    Parallel("", "Ça va?"),
    Parallel("Что ты читаешь? " * 4, "naïve Straße 😀"),
]
SIDE = {"layers": 2, "attention_heads": 2, "ffn_dim": 24}


def model_of(name, task, *, seed=0, **options):
    torch.manual_seed(seed)
    if name in ("transformer", "pre-norm", "marian", "bart"):
        own = {"pre-norm": {"pre_norm": True}, "bart": {"activation_function": "gelu"}}.get(name, {})
        sides = {f"{side}_{key}": value for side in ("encoder", "decoder") for key, value in SIDE.items()}
        kind = name if name in ("marian", "bart") else "glassformer-transformer"
        sizes = {"d_model": 16, "dropout": 0.0, "init_std": 0.5, "max_position_embeddings": 128}
        return gf.build(kind, "text2text-generation", **{**task.settings(), **sides, **sizes, **own, **options})
    both = "dot" not in str(name)  # those need a memory as wide as the decoder
    sizes = {"embedding_size": 12, "hidden_size": 16, "bidirectional": both, "initializer_range": 1.0}
    settings = {**task.settings(), **sizes, "attention": name, **options}
    return gf.build("glassformer-seq2seq", "text2text-generation", **settings)


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request):
    return small_tokenizer(request.param)


# Examples to batches.


def test_the_decoder_reads_what_it_is_to_write_one_step_earlier(tokenizer):
    task = Translation.for_data(tokenizer, PAIRS)
    items, special = task.encode(PAIRS), task.special_ids
    batch = task.batch(items, np.arange(len(PAIRS)))
    assert batch.count == int(items.targets.lengths.sum()) == len(batch.targets["labels"])
    rows = batch.inputs["decoder_input_ids"]
    for row, one in enumerate(PAIRS):
        ids = tokenizer(one.target, add_special_tokens=False)["input_ids"]
        mine = batch.targets["rows"] == row
        assert batch.targets["labels"][mine].tolist() == [*ids, special.ends[0]]
        assert rows[row, : len(ids) + 1].tolist() == [special.start, *ids]
        assert (batch.targets["places"][mine] // rows.shape[1]).unique().tolist() == [row]
        assert (batch.targets["places"][mine] % rows.shape[1]).tolist() == list(range(len(ids) + 1))


@pytest.mark.parametrize("text", ["Anna met Wolfgang", "a", "", "北京"])
def test_training_and_generating_read_the_same(tokenizer, text):
    """A text is read as gf.generate reads it: so is a text that has no token at all."""
    task = Translation.for_data(tokenizer, PAIRS)
    model = model_of("transformer", task)
    (mine,) = task.predict(model, [text], max_new_tokens=12)
    assert mine["translation_text"] == gf.generate(model, tokenizer, text, max_new_tokens=12)
    assert Translation.for_model(tokenizer, model).special_ids == task.special_ids


@given(room=st.integers(4, 40))
def test_what_is_cut_is_counted_and_does_not_end(room):
    tokenizer = small_tokenizer("wordpiece")
    whole = Translation(tokenizer).encode(PAIRS)
    task = Translation(tokenizer, max_length=room)
    items, end = task.encode(PAIRS), task.special_ids.ends[0]
    assert max(items.lengths) <= room
    lost = 0
    for one, all_of_it in ((items.sources, whole.sources), (items.targets, whole.targets)):
        lost += sum(int(all_of_it.lengths[row] - one.lengths[row]) for row in range(len(PAIRS)))
    unended = [row for row in range(len(PAIRS)) if items.targets[row][-1] != end]
    assert items.num_truncated == lost - len(unended)  # the end token of a target that was cut is no token of the text
    assert unended == [row for row in range(len(PAIRS)) if whole.targets.lengths[row] > room]


def test_a_new_model_is_told_how_texts_begin_and_end(tokenizer):
    task = Translation.for_data(tokenizer, PAIRS)
    told = task.settings()
    assert told["vocab_size"] == len(tokenizer)
    assert told["eos_token_id"] == (tokenizer.sep_token_id if tokenizer.eos_token is None else tokenizer.eos_token_id)
    for name, value in told.items():
        assert getattr(model_of("general", task).config, name) == value


def test_a_tokenizer_without_an_end_is_refused():
    tokenizer = tokenizer_of(["some text"], "character")
    tokenizer.eos_token = None
    with pytest.raises(ValueError, match="no end token"):
        Translation(tokenizer)


def test_a_bart_learns_its_first_token_and_a_fresh_model_does_not():
    """As transformers' labels: <s> text </s> after the decoder's </s>; with <s> as the start it need not be written."""
    tokenizer = small_tokenizer("roberta")
    first, end = tokenizer.bos_token_id, tokenizer.eos_token_id
    task = Translation.for_data(tokenizer, PAIRS)
    assert task.encode(PAIRS).targets[0].tolist()[0] != first
    bart = model_of("bart", task, decoder_start_token_id=end)
    task = Translation.for_model(tokenizer, bart)
    assert task.encode(PAIRS).targets[0].tolist() == tokenizer(PAIRS[0].target)["input_ids"]
    assert task.batch(task.encode(PAIRS), np.array([0])).inputs["decoder_input_ids"][0, :2].tolist() == [end, first]


@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
def test_marian_has_two_vocabularies_and_begins_with_padding(tmp_path):
    lines = [word for one in PAIRS for word in (one.source, one.target)] * 2
    for side in ("source", "target"):
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_prefix=str(tmp_path / side),
            vocab_size=90,
            hard_vocab_limit=False,
            minloglevel=2,
        )
        (tmp_path / f"{side}.model").rename(tmp_path / f"{side}.spm")
        pieces = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / f"{side}.spm"))
        listed = [pieces.id_to_piece(number) for number in range(3, len(pieces))]
        tokens = ["</s>", "<unk>", "<pad>", *(listed if side == "source" else [*reversed(listed), "more"])]
        name = "vocab.json" if side == "source" else "target_vocab.json"
        (tmp_path / name).write_text(json.dumps({token: place for place, token in enumerate(dict.fromkeys(tokens))}))
    config = {"tokenizer_class": "MarianTokenizer", "separate_vocabs": True}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    tokenizer = Tokenizer.from_folder(tmp_path)
    task = Translation.for_data(tokenizer, PAIRS)
    apart = {"share_encoder_decoder_embeddings": False, "decoder_start_token_id": tokenizer.pad_token_id}
    model = model_of("marian", task, **apart)
    assert model.config.decoder_vocab_size > model.config.vocab_size
    task = Translation.for_model(tokenizer, model)
    batch = task.batch(task.encode(PAIRS), np.array([0]))
    assert batch.inputs["input_ids"][0].tolist() == tokenizer(PAIRS[0].source)["input_ids"]
    assert batch.targets["labels"].tolist() == tokenizer(text_target=PAIRS[0].target)["input_ids"]
    assert batch.inputs["decoder_input_ids"][0, 0] == tokenizer.pad_token_id
    assert len(task.predict(model, ["Anna met Wolfgang", "a"], num_beams=2)) == 2


# The loss.


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_the_loss_is_the_mean_over_the_vocabulary_mixed_in_at_real_tokens_only(name, smoothing):
    tokenizer = small_tokenizer("unigram")
    task = Translation.for_data(tokenizer, PAIRS, label_smoothing=smoothing)
    model = model_of(name, task)
    items = task.encode(PAIRS)
    total = 0.0
    for row in range(len(PAIRS)):  # one by one there is no padding
        batch = task.batch(items, np.array([row]))
        logs = model(**batch.inputs).logits[0].log_softmax(-1)
        nll = -logs.gather(1, batch.targets["labels"][:, None]).sum()
        total = total + (1 - smoothing) * nll - smoothing * logs.mean(-1).sum()
    together = task.loss(model, task.batch(items, np.arange(len(PAIRS))))
    assert_close(together, total, atol=1e-3, rtol=1e-5)


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=4)
@given(seed=st.integers(0, 99))
def test_micro_batches_have_the_gradient_of_the_whole(name, seed):
    task = Translation.for_data(small_tokenizer("bpe"), PAIRS, label_smoothing=0.1)
    model, items = model_of(name, task), task.encode(PAIRS)
    order = np.random.default_rng(seed).permutation(len(PAIRS))
    whole, count, expected = gradients(model, task, items, [order], seed)
    parts, again, found = gradients(model, task, items, [order[:1], order[1:4], order[4:]], seed)
    assert count == again
    assert_close(parts, whole, rtol=1e-5, atol=1e-4)
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other, rtol=1e-4, atol=1e-4)


def learnt(name, pairs, dev, *, steps=200, kind="wordpiece", size=1000, pad_is_end=False, lr=1e-2, **options):
    """A small model of the pairs, its task, and its scores on the others."""
    tokenizer = tokenizer_of(Translation.texts(pairs), kind, size)
    if pad_is_end:
        tokenizer.pad_token = tokenizer.eos_token
    options = {"label_smoothing": 0.1, "exact_match": True, **options}
    task = Translation.for_data(tokenizer, pairs, **options)
    wide = {"embedding_size": 64, "hidden_size": 64}
    if name == "transformer":
        wide = {"d_model": 64, "init_std": 0.1, **{f"{side}_layers": 1 for side in ("encoder", "decoder")}}
        wide |= {
            f"{side}_{key}": value
            for side in ("encoder", "decoder")
            for key, value in (("ffn_dim", 64), ("attention_heads", 4))
        }
    model = model_of(name, task, **wide)
    task = Translation.for_model(tokenizer, model, **options)
    learn(model, task, task.encode(pairs), steps=steps, lr=lr, rows=16)
    return evaluate(model, task, task.encode(dev), budget=Budget(tokens=2048)).compute(), model, task


@pytest.mark.slow
def test_where_padding_is_the_end_token_a_model_still_learns_to_stop():
    digits = [Parallel(f"{number}", f"{number}"[::-1]) for number in range(200)]
    scores, model, task = learnt(
        "general", digits, digits, kind="character", size=60, pad_is_end=True, steps=150, max_length=16
    )
    assert task.special_ids.pad == task.special_ids.ends[0]
    assert scores["exact_match"] > 0.9
    written = task.predict(model, ["17", "123"], max_new_tokens=15)
    assert [one["translation_text"] for one in written] == ["71", "321"]


# Translations.


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ["transformer", "additive", "general"])
@pytest.mark.parametrize("asked", [{}, {"num_beams": 3}, {"num_beams": 3, "num_return_sequences": 2}])
def test_each_text_is_translated_as_if_alone_and_in_its_place(name, asked):
    task = Translation.for_data(small_tokenizer("unigram"), PAIRS)
    model = model_of(name, task).double()  # so that no tie is broken by rounding
    texts = [one.source for one in PAIRS] + ["near the old harbour " * 3, "a"]
    together = task.predict(model, texts, batch_tokens=200, **asked)
    assert together == [task.predict(model, [text], **asked)[0] for text in texts]
    if "num_return_sequences" in asked:
        assert [len(found) for found in together] == [2] * len(texts)
    else:
        assert [list(found) for found in together] == [["translation_text"]] * len(texts)


def test_a_text_that_is_too_long_is_cut_with_a_word(caplog):
    task = Translation(small_tokenizer("unigram"), max_length=8)
    model = model_of("general", task)
    with caplog.at_level(logging.WARNING, logger="glassformer"):
        task.predict(model, ["near the old harbour " * 9])
    assert "were cut" in caplog.text


def test_a_wrong_setting_and_a_wrong_input_are_named():
    task = Translation(small_tokenizer("unigram"))
    model = model_of("general", task)
    with pytest.raises(ValueError, match="'num_beam'; near it: num_beams"):
        task.predict(model, ["a"], num_beam=3)
    with pytest.raises(ValueError, match="not 3"):
        task.predict(model, [3])


@given(length=st.integers(1, 500))
def test_there_is_room_for_half_as_much_again_and_never_more_than_positions(length):
    task = Translation(small_tokenizer("unigram"))
    recurrent, transformer = model_of("dot", task), model_of("transformer", task)
    assert 1.5 * length + 10 <= task.max_new_tokens(length, recurrent) <= 1.5 * (length + 15) + 10
    assert task.max_new_tokens(length, transformer) == min(127, task.max_new_tokens(length, recurrent))


# Scores.


def test_bleu_of_many_batches_and_processes_is_that_of_the_whole():
    task = Translation.for_data(small_tokenizer("unigram"), PAIRS, bleu_lowercase=True, generate={"num_beams": 2})
    model, items = model_of("general", task), task.encode(PAIRS)
    share = {"budget": Budget(rows=2), "final": True, "keep_examples": True}
    parts = [evaluate(model, task, items, share=(number, 2), **share) for number in range(2)]
    first, second = (pickle.loads(pickle.dumps(part)) for part in parts)
    first.merge(second)
    found = first.compute()
    written = [one["translation_text"] for one in task.predict(model, [one.source for one in PAIRS], num_beams=2)]
    gold = [[one.target for one in PAIRS]]
    for lowercase, suffix in ((True, ""), (False, "_cased")):
        bleu, chrf = sacrebleu.BLEU(lowercase=lowercase), sacrebleu.CHRF(lowercase=lowercase)
        assert found[f"bleu{suffix}"] == pytest.approx(bleu.corpus_score(written, gold).score)
        assert found[f"chrf{suffix}"] == pytest.approx(chrf.corpus_score(written, gold).score)
        assert first.signatures()[f"bleu{suffix}"] == str(bleu.get_signature())
    whole = evaluate(model, task, items, budget=Budget(rows=5)).compute()
    loss = task.loss(model, task.batch(items, np.arange(5))) / items.targets.lengths.sum()
    assert whole["loss"] == pytest.approx(found["loss"]) == pytest.approx(float(loss.detach()))
    assert whole["perplexity"] == pytest.approx(np.exp(found["loss"]))
    assert found["accuracy"] == whole["accuracy"]
    assert set(whole) == {"loss", "perplexity", "accuracy"}  # nothing is written while a model learns, unless asked
    assert set(first.intervals()) == set(found)


@pytest.mark.parametrize(
    ("texts", "tokenizer"), [(["很大。", "北京和上海"], "zh"), (["so it is", "北京 it is"], "13a")]
)
def test_bleu_is_of_the_references_language(texts, tokenizer):
    pairs = [Parallel(text, text) for text in texts]
    task = Translation.for_data(small_tokenizer("character"), pairs, bleu=True)
    assert task.metric == "bleu"
    sheet = evaluate(model_of("dot", task), task, task.encode(pairs), budget=Budget(rows=2))
    assert f"tok:{tokenizer}" in sheet.signatures()["bleu"]


# Learning.


@pytest.fixture(scope="module")
def opinions():
    """Short sentences of the micro-world, English and German; those to be judged by are new."""

    def short(count, seed):
        pairs = microworld.examples("parallel", count, seed=seed)
        return [one for one in pairs if one.source.startswith("The ") and len(one.source.split()) <= 5]

    return short(6000, 0), short(1500, 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["transformer", *ATTENTIONS[1:]])
def test_every_encoder_decoder_translates_new_sentences_of_the_micro_world(name, opinions):
    """About 90 pairs are seen; without attention a model stays below 10 BLEU."""
    train, dev = opinions
    scores, _, _ = learnt(name, train, dev, bleu=True, lr=5e-3 if name == "transformer" else 1e-2)
    assert scores["bleu"] > 60
