"""T5's span corruption: what is taken out, what is written, and its loss, by hand and over many texts."""

import math
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st

import glassformer as gf
from glassformer.data.corruption import corrupt, draw_spans, num_spans
from glassformer.data.examples import Document
from glassformer.data.shard_writer import tokenise_to_shards
from glassformer.tasks.span_corruption import SpanCorruption
from glassformer.text.sentinels import sentinel_ids, sentinel_tokens
from glassformer.text.train import train
from tasks.cases import case, recipe_of

X, Y, Z, END = 100, 99, 98, 1
THANKS = ["thank", "you", "for", "inviting", "me", "to", "your", "party", "last", "week"]


def words(ids):
    names = {X: "<X>", Y: "<Y>", Z: "<Z>", END: "</s>"}
    return " ".join(names.get(one) or THANKS[one - 10] for one in ids.tolist())


def test_the_example_of_the_paper():
    ids = np.arange(10, 20)
    found = corrupt(ids, np.array([[2, 4], [8, 9]]), [X, Y, Z], END)
    assert words(found.source) == "thank you <X> me to your party <Y> week </s>"
    assert words(found.target) == "<X> for inviting <Y> last <Z> </s>"


@pytest.mark.parametrize("span", [[0, 2], [8, 10]])
def test_a_stretch_may_stand_at_either_end(span):
    found = corrupt(np.arange(10, 20), np.array([span]), [X, Y, Z], END)
    kept = [one for one in range(10, 20) if not span[0] <= one - 10 < span[1]]
    assert found.source.tolist() == ([X, *kept] if span[0] == 0 else [*kept, X]) + [END]
    assert found.target.tolist() == [X, span[0] + 10, span[0] + 11, Y, END]


def put_back(source, target, sentinels):
    """The text, from what is read and what is written."""
    *parts, end = target.tolist()
    assert end == END
    spans, current = {}, None
    for token in parts:
        if token in sentinels:
            current = spans.setdefault(token, [])
        else:
            current.append(token)
    return [one for token in source.tolist()[:-1] for one in (spans[token] if token in sentinels else [token])]


@given(
    length=st.integers(2, 200),
    rate=st.sampled_from([0.05, 0.15, 0.5, 0.9]),
    mean=st.sampled_from([1.0, 3.0, 10.0]),
    seed=st.integers(0, 99),
)
def test_nothing_is_lost_and_the_share_is_kept(length, rate, mean, seed):
    spans = draw_spans(length, rate=rate, mean_span=mean, chance=np.random.default_rng(seed))
    taken, number = num_spans(length, rate=rate, mean_span=mean)
    assert len(spans) == number
    assert (spans[:, 1] - spans[:, 0]).sum() == taken
    assert abs(taken - length * rate) <= 1
    assert (spans[:, 1] > spans[:, 0]).all()
    assert (spans[1:, 0] > spans[:-1, 1]).all(), "two stretches that touch would be one"
    assert spans[0, 0] >= 0
    assert spans[-1, 1] <= length
    ids = np.arange(1000, 1000 + length)
    sentinels = list(range(500, 500 - number - 1, -1))
    found = corrupt(ids, spans, sentinels, END)
    assert put_back(found.source, found.target, sentinels) == ids.tolist()
    assert len(found.source) == length - taken + number + 1
    assert len(found.target) == taken + number + 2


def test_every_way_to_take_parts_out_is_equally_likely():
    """Of 8 tokens 4 in two stretches: 3 ways to share them out, C(5, 2) places for two that do not touch."""
    chance = np.random.default_rng(0)
    drawn = Counter(str(draw_spans(8, rate=0.5, mean_span=2.0, chance=chance).tolist()) for _ in range(6000))
    ways = 3 * len(list(combinations(range(5), 2)))
    assert len(drawn) == ways
    expected = 6000 / ways
    assert sum((count - expected) ** 2 / expected for count in drawn.values()) < 60  # chi², 29 degrees: 58 at 0.1 %


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("the cat sat on the mat and the dog sat on the cat\n" * 20)
    return train([path], kind="unigram", vocab_size=60).adapted(special_tokens=sentinel_tokens())


def small_t5(tokenizer):
    sizes = {"d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 1, "num_heads": 2}
    return gf.build("t5", "text2text-generation", vocab_size=len(tokenizer), **sizes)


DOCUMENTS = [Document("the cat sat on the mat"), Document("and the dog sat"), Document("on the cat")]


def test_blocks_are_those_of_the_stream_and_the_same_from_shards(tokenizer, tmp_path):
    task = SpanCorruption(tokenizer, block_size=8)
    shards = tokenise_to_shards(DOCUMENTS, tokenizer, tmp_path, **task.frame._asdict())
    stream = [one for text in DOCUMENTS for one in tokenizer(text.text)["input_ids"]]  # each with its end
    for examples in (DOCUMENTS, shards):
        items = task.encode(examples)
        blocks = [items.blocks[place].tolist() for place in range(len(items.lengths))]
        assert [one for block in blocks for one in block] == stream
        assert {len(block) for block in blocks[:-1]} == {8}


def test_batches_depend_on_the_seed_and_the_block_alone(tokenizer):
    task = SpanCorruption(tokenizer, block_size=8)
    items = task.encode(DOCUMENTS)
    together, again, other = (task.batch(items, np.array([0, 1]), seed) for seed in (5, 5, 6))
    alone = task.batch(items, np.array([1]), 5)
    width = alone.inputs["input_ids"].shape[1]
    assert together.inputs["input_ids"].tolist() == again.inputs["input_ids"].tolist()
    assert together.inputs["input_ids"][1, :width].tolist() == alone.inputs["input_ids"][0].tolist()
    seeds = [task.batch(items, np.array([0, 1]), seed).inputs["input_ids"].tolist() for seed in range(6)]
    assert any(seeds[0] != one for one in seeds[1:])
    assert other.count == together.count


def test_the_loss_by_hand(tokenizer):
    """The sum over what is written of minus its log-probability, given the block and all before it."""
    task = SpanCorruption(tokenizer, block_size=8)
    items = task.encode(DOCUMENTS)
    batch = task.batch(items, np.array([0]))
    target = batch.targets["labels"].tolist()
    first, second = task.sentinels[:2]
    assert (target[0], target[-2:]) == (first, [second, task.end])
    (source,) = batch.inputs["input_ids"].tolist()
    assert put_back_ids(source, target, task) == items.blocks[0].tolist()
    size = len(tokenizer)
    model = gf.build(
        "t5", "text2text-generation", vocab_size=size, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2
    )
    fed = [model.config.decoder_start_token_id, *target[:-1]]
    assert batch.inputs["decoder_input_ids"].tolist() == [[task.form.special_ids.start, *target[:-1]]]
    batch.inputs["decoder_input_ids"] = torch.tensor([fed])
    by_hand = 0.0
    for place, token in enumerate(target):
        with torch.no_grad():
            before = model(torch.tensor([source]), decoder_input_ids=torch.tensor([fed[: place + 1]])).logits[0, -1]
        scores = [math.exp(score) for score in before.double().tolist()]
        by_hand -= math.log(scores[token] / sum(scores))
    assert batch.count == len(target)
    torch.testing.assert_close(task.loss(model, batch).item(), by_hand, rtol=1e-5, atol=1e-5)


def put_back_ids(source, target, task):
    spans = task.spans_of(target)
    assert source[-1] == task.end
    return [one for token in source[:-1] for one in (spans[token] if token in task.sentinels else [token])]


def test_transformers_reads_the_same_loss(tokenizer, tmp_path):
    """Labels and inputs are those that T5ForConditionalGeneration is pretrained with."""
    size = len(tokenizer)
    model = gf.build(
        "t5", "text2text-generation", vocab_size=size, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2
    )
    folder = gf.save(model, tmp_path, tokenizer=tokenizer)
    task = SpanCorruption.for_model(tokenizer, model, block_size=8)
    batch = task.batch(task.encode(DOCUMENTS), np.array([0]))
    transformers.logging.disable_progress_bar()
    peer = transformers.T5ForConditionalGeneration.from_pretrained(folder)
    theirs = peer(input_ids=batch.inputs["input_ids"], labels=batch.targets["labels"][None]).loss
    torch.testing.assert_close(task.loss(model, batch) / batch.count, theirs, rtol=1e-5, atol=1e-5)


def test_sentinels_of_a_vocabulary(tokenizer, tmp_path):
    ids = sentinel_ids(tokenizer)
    assert len(ids) == 100
    assert ids == list(range(len(tokenizer) - 1, len(tokenizer) - 101, -1)), "as T5's: the first has the highest id"
    assert {"<extra_id_0>", "<extra_id_12>"} <= set(tokenizer.tokenize("the <extra_id_0> sat <extra_id_12>"))
    tokenizer.save(tmp_path)
    assert sentinel_ids(gf.load_tokenizer(tmp_path)) == ids
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    text = "the cat <extra_id_0> on <extra_id_1> mat"
    assert theirs(text)["input_ids"] == tokenizer(text)["input_ids"]


@pytest.mark.parametrize("extra", [{}, {"extra_ids": 7}])
def test_a_folder_of_t5_has_them_as_in_transformers(extra, tmp_path):
    vocab = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -2.0), *((letter, -3.0) for letter in "abcdef")]
    theirs = transformers.T5Tokenizer(vocab=vocab, **extra)
    theirs.save_pretrained(tmp_path)
    ours = gf.load_tokenizer(tmp_path)
    number = extra.get("extra_ids", 100)
    assert len(sentinel_ids(ours)) == number
    assert sentinel_ids(ours) == theirs.convert_tokens_to_ids([f"<extra_id_{place}>" for place in range(number)])
    text = "abc <extra_id_0> def <extra_id_1>"
    assert ours(text)["input_ids"] == theirs(text)["input_ids"]


def test_blocks_with_more_stretches_than_sentinels_are_refused(tokenizer):
    with pytest.raises(ValueError, match="block_size=4000 needs 201 sentinels and the vocabulary has 100"):
        SpanCorruption(tokenizer, block_size=4000)


def test_gaps_are_filled_where_the_sentinels_stand(tokenizer):
    model = small_t5(tokenizer)
    pipe = gf.pipeline("span-corruption", model, tokenizer)
    (found,) = pipe("the cat <extra_id_0> the mat", max_new_tokens=4)
    assert found["generated_text"].startswith("the cat")
    assert found["generated_text"].endswith("the mat")
    with pytest.raises(ValueError, match="'the cat' has no sentinel to fill"):
        pipe("the cat")
    task, sat = pipe.task, tokenizer("sat", add_special_tokens=False)["input_ids"]
    first, second = task.sentinels[:2]
    row = tokenizer("the cat <extra_id_0> on <extra_id_1>", add_special_tokens=False)["input_ids"]
    written = {"generated_token_ids": torch.tensor([0, first, *sat, second, *sat, *sat, task.end, first])}
    assert task._filled(row, written) == {"generated_text": "the cat sat on sat sat"}


@pytest.mark.slow
def test_a_model_learns_the_micro_world(tmp_path):
    """Better than any guess that looks at nothing: the entropy of what is to be written."""
    settings = recipe_of("span-corruption/t5", out=str(tmp_path / "run"), limit=100)
    settings |= {"steps": 120, "lr": 0.01, "batch_size": 16, "config": {**settings["config"], "dropout_rate": 0.0}}
    run = gf.train(**settings, log=lambda _: None)
    made = case("span-corruption/t5", limit=100)
    items = made.task.encode(made.splits.dev)
    labels = made.task.batch(items, np.arange(len(items.lengths))).targets["labels"]
    shares = labels.bincount().double() / len(labels)
    entropy = torch.special.entr(shares).sum().item()
    assert run.scores["dev"]["loss"] < 0.8 * entropy
