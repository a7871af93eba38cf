"""Text generation: no token lost or counted twice, ends and conditions learnt, and more than how often words come."""

import math
import pickle
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from language import ROWS, gradients, learn, micro_world, small_gpt, tokenizer_of, unigram_entropy
from torch.testing import assert_close

from glassformer.data.blocks import Windows
from glassformer.data.examples import Document
from glassformer.data.shard_writer import tokenise_to_shards
from glassformer.hub.registry import build
from glassformer.tasks.task import evaluate
from glassformer.tasks.text_generation import TextGeneration
from glassformer.tasks.words import NO_TARGET, judged, summed_cross_entropy
from glassformer.text.tokenizer import Tokenizer
from glassformer.text.train import train

TEXTS = ["the cat sat on the mat.", "naïve café 😀\n\nand\tso on", "猫坐在垫子上。", "a", "the dog saw the cat " * 7]
KINDS = ("character", "bpe", "wordpiece", "unigram")
MODELS = ("gpt2", "rnn", "gru", "lstm")


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request):
    return tokenizer_of(TEXTS, request.param)


@pytest.fixture(scope="module")
def characters():
    return tokenizer_of(TEXTS, "character")


@pytest.fixture(scope="module")
def world():
    return micro_world("bpe")


def model_of(kind, tokenizer, **options):
    if kind == "gpt2":
        return small_gpt(len(tokenizer), **options)
    small = {"kind": kind, "vocab_size": len(tokenizer), "embedding_size": 32, "hidden_size": 32}
    torch.manual_seed(0)
    return build("glassformer-rnn", "text-generation", **small | options)


@given(total=st.integers(2, 200), size=st.integers(1, 40), data=st.data())
def test_every_token_but_the_first_is_a_target_once(total, size, data):
    stride = data.draw(st.none() | st.integers(1, size))
    stream = np.arange(total)
    windows = Windows(stream, size, stride=stride)
    ids, new = windows.take(np.arange(len(windows)))
    assert ids[:, 1:][new].tolist() == list(range(1, total))
    assert ids.shape == (len(windows), min(size, total - 1) + 1)
    if stride and len(windows) > 1:  # context: what stands before a new target in its window
        least = np.where(new, np.arange(windows.size) + 1, total).min(1)[1:]
        assert (least >= windows.size - stride + 1).all()


@given(total=st.integers(2, 60), size=st.integers(1, 60), seed=st.integers(0, 2**63 - 1), data=st.data())
def test_random_windows_depend_on_the_seed_and_the_index_alone(total, size, seed, data):
    windows = Windows(np.arange(total), size)
    indices = np.array(data.draw(st.lists(st.integers(0, 1000), min_size=1, max_size=5)))
    drawn = windows.draw(indices, seed)
    for index, row in zip(indices, drawn, strict=True):
        assert row.tolist() == windows.draw(np.array([index]), seed)[0].tolist()
        assert (np.diff(row) == 1).all()
        assert len(row) == windows.size + 1


def test_random_windows_reach_both_ends():
    windows = Windows(np.arange(10), 4)
    starts = windows.draw(np.arange(200), seed=3)[:, 0]
    assert set(starts.tolist()) == set(range(6))


@pytest.mark.parametrize(("size", "stride"), [(0, 0), (4, 0), (4, 5)])
def test_sizes_that_make_no_sense_are_refused(size, stride):
    with pytest.raises(ValueError, match=f"block_size={size} and stride={stride}"):
        Windows(np.arange(9), size, stride=stride)


@given(
    texts=st.lists(st.text(sorted(set("".join(TEXTS))), min_size=1), min_size=1, max_size=6), size=st.integers(1, 50)
)
def test_a_stream_is_the_documents_between_ends(characters, texts, size):
    task = TextGeneration(characters, block_size=size)
    stream = task.encode([Document(text) for text in texts]).windows.ids.tolist()
    assert "".join("\0" if index == task.end else characters.decode([index]) for index in stream).split("\0") == [
        "",
        *texts,
        "",
    ]


def test_bytes_are_those_of_the_texts(tokenizer):
    """Over a whole split, however it is cut, with every kind of vocabulary."""
    examples = [Document(text) for text in TEXTS]
    size = sum(len(text.encode()) for text in TEXTS)
    for task in (TextGeneration(tokenizer, block_size=9), TextGeneration(tokenizer, block_size=200, packing=False)):
        items = task.encode(examples)
        batches = [task.batch(items, np.array([index])) for index in range(len(items.lengths))]
        assert sum(batch.extra["text_bytes"].sum() for batch in batches) == pytest.approx(size)


def test_texts_of_their_own_are_cut_and_counted(characters):
    task = TextGeneration(characters, block_size=10, packing=False)
    items = task.encode([Document("a" * count) for count in (3, 9, 10, 40)])
    assert items.lengths.tolist() == [4, 10, 10, 10]
    assert items.num_truncated == 1 + 31
    assert items.text_bytes.tolist() == pytest.approx([3, 9, 10 * 10 / 11, 40 * 10 / 41])


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("packing", [True, False])
@settings(max_examples=10)
@given(data=st.data())
def test_parts_of_a_batch_add_up(characters, kind, packing, data):
    """Loss, gradient and count of any split are those of the whole; so are the scores."""
    task = TextGeneration(characters, block_size=16, packing=packing, random_windows=data.draw(st.booleans()))
    model = model_of(kind, characters)
    items = task.encode([Document(text) for text in TEXTS])
    order = np.array(data.draw(st.permutations(range(len(items.lengths)))))
    cut = data.draw(st.integers(1, len(order) - 1))
    seed = data.draw(st.none() | st.integers(0, 99))

    whole = gradients(model, task, items, [order], seed)
    parts = gradients(model, task, items, [order[:cut], order[cut:]], seed)
    assert whole[1] == parts[1]
    assert_close(parts[0], whole[0])
    assert_close(parts[2], whole[2], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("packing", [True, False])
def test_scores_are_the_loss_and_merge(characters, packing):
    task = TextGeneration(characters, block_size=16, packing=packing)
    model = model_of("gpt2", characters).eval()
    items = task.encode([Document(text) for text in TEXTS])
    everything = np.arange(len(items.lengths))
    batch = task.batch(items, everything)
    whole = evaluate(model, task, items, budget=ROWS).compute()
    nats = float(task.loss(model, batch).detach())
    assert whole["loss"] == pytest.approx(nats / batch.count)
    assert whole["perplexity"] == pytest.approx(math.exp(nats / batch.count))
    size = sum(len(text.encode()) for text in TEXTS)
    if packing:  # else the longest text is cut
        assert batch.count == len(items.windows.ids) - 1
        assert whole["bits_per_byte"] == pytest.approx(nats / math.log(2) / size)
    logits = model(**batch.inputs).logits
    real = batch.targets["labels"] != NO_TARGET
    hits = logits.argmax(-1)[real] == batch.targets["labels"][real]
    assert whole["accuracy"] == pytest.approx(float(hits.float().mean()))
    shares = [
        pickle.loads(pickle.dumps(evaluate(model, task, items, budget=ROWS, share=(number, 2)))) for number in (0, 1)
    ]
    shares[0].merge(shares[1])
    assert shares[0].compute() == pytest.approx(whole)


@given(
    rows=st.integers(1, 9),
    width=st.integers(1, 5),
    words=st.integers(2, 7),
    chunk=st.integers(1, 12),
    seed=st.integers(0, 99),
)
def test_the_loss_in_chunks_is_the_loss(rows, width, words, chunk, seed):
    torch.manual_seed(seed)
    hidden, head = torch.randn(2, rows, width, requires_grad=True), torch.nn.Linear(width, words)
    targets = torch.where(torch.rand(2, rows) < 0.3, NO_TARGET, torch.randint(words, (2, rows)))
    losses, right = judged(hidden, head, targets)
    for size in (None, chunk):
        hidden.grad = None
        head.zero_grad()
        loss = summed_cross_entropy(hidden, head, targets, chunk=size)
        loss.backward()
        assert_close(loss, losses.sum())
        found = [hidden.grad, head.weight.grad.clone(), head.bias.grad.clone()]
        if size is None:
            expected = found
    assert_close(found, expected)
    assert_close(right, (head(hidden).argmax(-1) == targets))


def test_a_dropout_before_the_head_is_kept(characters):
    """A recurrent model's forward has one; so must its loss."""
    task = TextGeneration(characters, block_size=16)
    model = model_of("lstm", characters, dropout=0.5).train()
    batch = task.batch(task.encode([Document(TEXTS[0])]), np.array([0]))
    torch.manual_seed(0)
    logits = model(**batch.inputs).logits
    torch.manual_seed(0)
    loss = task.loss(model, batch)
    labels = batch.targets["labels"]
    assert_close(loss, torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", MODELS)
def test_a_model_whose_padding_is_its_end_learns_to_stop(kind):
    """The loss is masked by lengths: every end is a target, and no padding is."""
    words = {"one": "one two", "tea": "tea for two people", "a": "a b c d e f"}
    tokenizer = tokenizer_of(list(words.values()), "character")
    tokenizer.pad_token = tokenizer.eos_token
    task = TextGeneration(tokenizer, packing=False)
    items = task.encode([Document(text) for text in words.values()])
    batch = task.batch(items, np.arange(3))
    ends = batch.targets["labels"] == tokenizer.eos_token_id
    assert ends.sum(1).tolist() == [1, 1, 1]
    model = learn(model_of(kind, tokenizer, **task.settings()), task, items, steps=150, lr=0.01, rows=3)
    for start, text in {**words, "": None}.items():
        (found,) = task.predict(model, [start], max_new_tokens=25)
        assert found[0]["generated_text"] in ([text] if text else words.values())


def test_conditions_are_tokens_of_their_own(tmp_path):
    good, bad = "it is a lovely day", "it is an awful day"
    tokenizer = tokenizer_of([good, bad], "bpe")
    before = len(tokenizer)
    task = TextGeneration.for_data(tokenizer, [Document(bad, "negative"), Document(good, "positive")], packing=False)
    assert task.conditions == ("negative", "positive")
    assert (len(tokenizer), len(task.tokenizer)) == (before, before + 2)  # the one that was given stays as it is
    tokenizer = task.tokenizer
    assert task.condition_prefix("positive") == "<|endoftext|><|positive|>"
    items = task.encode([Document(good, "positive"), Document(bad, "negative"), Document(good)])
    marks = [tokenizer.convert_ids_to_tokens(row[:2].tolist())[1] for row in (items.rows[i] for i in range(3))]
    assert marks[:2] == ["<|positive|>", "<|negative|>"]
    assert marks[2] not in ("<|positive|>", "<|negative|>")
    model = model_of("gru", tokenizer, **task.settings())
    learn(model, task, task.encode([Document(good, "positive"), Document(bad, "negative")]), steps=200, lr=0.01, rows=2)
    tokenizer.save(tmp_path)
    again = TextGeneration.for_model(Tokenizer.from_folder(tmp_path), model)
    assert set(again.conditions) == {"negative", "positive"}
    for label, text in (("positive", good), ("negative", bad)):
        assert again.predict(model, [""], condition=label) == [[{"generated_text": text}]]
    with pytest.raises(ValueError, match="knows no condition 'neutral'; it knows negative, positive"):
        again.predict(model, ["it"], condition="neutral")
    with pytest.raises(ValueError, match="knows no condition 'odd'"):
        again.encode([Document(good, "odd")])


def test_shards_are_read_as_documents_are(characters, tmp_path):
    examples = [Document(text, "odd" if place % 2 else None) for place, text in enumerate(TEXTS)]
    task = TextGeneration.for_data(tokenizer_of(TEXTS, "character"), examples, block_size=12)
    marked = [Document(task.marked(one)) for one in examples]
    shards = tokenise_to_shards(marked, task.tokenizer, tmp_path, end_token_id=task.end, shard_tokens=20)
    items, known = task.encode(shards), task.encode(examples)
    assert items.windows.ids[0 : len(shards) + 1].tolist() == known.windows.ids.tolist()
    indices = np.arange(len(known.lengths))
    assert_close(task.batch(items, indices).inputs, task.batch(known, indices).inputs)
    batches = [task.batch(items, np.array([index])) for index in range(len(items.lengths))]
    conditions = sum(one.label is not None for one in examples)
    assert sum(batch.count for batch in batches) == len(shards) - conditions  # which are read, never guessed
    assert sum(batch.extra["text_bytes"].sum() for batch in batches) == pytest.approx(shards.bytes)
    drawn = TextGeneration(characters, block_size=12, random_windows=True).batch(items, np.arange(3), seed=1)
    assert drawn.count == 36
    with pytest.raises(ValueError, match="shards hold one stream of text"):
        TextGeneration(characters, packing=False).encode(shards)


def test_predictions_are_as_if_alone(characters):
    task, model = TextGeneration(characters), model_of("gpt2", characters, n_positions=64).eval()
    prompts = ["the cat", "猫", "a", "the dog saw the cat"]
    for request in ({}, {"num_beams": 2, "num_return_sequences": 2}, {"temperature": 1.5, "seed": 3}):
        together = task.predict(model, prompts, max_new_tokens=6, **request)
        assert together == [task.predict(model, [prompt], max_new_tokens=6, **request)[0] for prompt in prompts]
        assert all(
            one["generated_text"].startswith(p) for p, some in zip(prompts, together, strict=True) for one in some
        )
    new = task.predict(model, prompts, max_new_tokens=6, return_full_text=False)
    whole = task.predict(model, [{"text": prompt} for prompt in prompts], max_new_tokens=6)
    assert [prompt + one[0]["generated_text"] for prompt, one in zip(prompts, new, strict=True)] == [
        one[0]["generated_text"] for one in whole
    ]


def test_a_prompt_that_is_no_text_is_refused(characters):
    with pytest.raises(ValueError, match="a text or a dict with 'text' is wanted, not 7"):
        TextGeneration(characters).predict(model_of("gpt2", characters), [7])


def test_a_tokenizer_without_an_end_is_refused(characters):
    plain = Tokenizer(characters.backend, type(characters.settings)(names={}))
    with pytest.raises(ValueError, match="has no end token"):
        TextGeneration(plain).encode([Document("the cat")])


@given(st.integers(1, 150), st.integers(1, 40))
def test_few_documents_give_their_last_tenth_and_many_some_of_their_number(count, length):
    examples = [Document(f"{number}:" + "x" * length) for number in range(count)]
    train_, dev = TextGeneration.split(examples)
    assert sum(len(one.text) for one in [*train_, *dev]) == sum(len(one.text) for one in examples)
    if count < 100:
        whole = [first.text + rest.text for first, rest in zip(train_, dev, strict=True)]
        assert whole == [one.text for one in examples]
    else:
        assert {one.text for one in train_} | {one.text for one in dev} == {one.text for one in examples}


@pytest.mark.slow
def test_a_small_gpt_learns_more_than_how_often_words_come(world):
    tokenizer, train_documents, dev_documents = world
    task = TextGeneration(tokenizer, block_size=48)
    items, dev = task.encode(train_documents), task.encode(dev_documents)
    model = learn(small_gpt(len(tokenizer), n_embd=48, n_positions=48), task, items, steps=200, lr=4e-3, rows=8)
    scores = evaluate(model, task, dev, budget=ROWS).compute()
    assert scores["loss"] < 3 < 4.5 < unigram_entropy(dev.windows.ids)


@pytest.mark.slow
def test_the_characters_of_shakespeare_are_all_there(data):
    """Read, tokenised, cut into blocks and put together again, the file is the file."""
    path = data / "tinyshakespeare" / "input.txt"
    if not path.is_file():
        pytest.skip(f"no {path}")
    read = TextGeneration.read([str(path)])
    tokenizer = train([path], kind="character", vocab_size=100)
    task = TextGeneration.for_data(tokenizer, read.examples, block_size=256)
    items = task.encode(read.examples)
    text = path.read_text(encoding="utf-8")
    ids, new = items.windows.take(np.arange(len(items.windows)))
    assert tokenizer.decode(ids[:, 1:][new].tolist(), skip_special_tokens=True) == text
    assert new.sum() == len(text) + 1
    parts = TextGeneration.split(read.examples)
    assert parts[0][0].text + parts[1][0].text == text


@pytest.mark.slow
def test_wikitext_has_its_articles(data):
    path = data / "wikitext2" / "test.txt"
    if not path.is_file():
        pytest.skip(f"no {path}")
    examples = TextGeneration.read([str(path)], unit="article").examples
    tokenizer = train([path], kind="bpe", vocab_size=2000)
    task = TextGeneration.for_data(tokenizer, examples, block_size=128)
    stream = task.encode(examples).windows.ids
    ends = np.flatnonzero(stream == task.end)
    assert len(ends) == len(examples) + 1
    texts = [tokenizer.decode(stream[a + 1 : b]) for a, b in pairwise(ends)]
    assert "".join(texts) == path.read_text(encoding="utf-8")
