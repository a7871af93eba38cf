"""ELECTRA's pretraining: what a generator draws, what counts as replaced, and the loss of the paper."""

import json
import pickle

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from language import ROWS, gradients, learn, small_bert, tokenizer_of
from torch.testing import assert_close

import glassformer as gf
from glassformer.data.examples import Document
from glassformer.jobs.generator import apart, complete
from glassformer.models.electra import build_generator, with_generator
from glassformer.tasks.replaced_tokens import ReplacedTokens, draw_and_judge
from glassformer.tasks.task import evaluate

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
TEXTS = ["the cat sat on the mat. the dog saw the cat.", "a dog barked! the cats ran away.", "one two three four five."]
DOCUMENTS = [Document(text) for text in TEXTS]


@pytest.fixture(scope="module")
def tokenizer():
    return tokenizer_of(TEXTS, "wordpiece")


def small_electra(vocab_size):
    discriminator = small_bert(vocab_size, "replaced-token-detection", "electra", embedding_size=12)
    return with_generator(discriminator, build_generator(discriminator, 0.5))


@pytest.fixture(scope="module")
def lines(tokenizer):
    return ReplacedTokens(tokenizer, max_length=20, packing=False)


def test_a_token_is_drawn_as_often_as_it_is_likely():
    """By hand: chances of 0.2, 0.5 and 0.3 end at 0.2, 0.7 and 1."""
    scores = torch.tensor([0.2, 0.5, 0.3]).log().repeat(6, 1)
    draws = torch.tensor([0.0, 0.19, 0.21, 0.69, 0.71, 0.999])
    found = draw_and_judge(scores, lambda rows: rows, torch.tensor([0, 1, 2, 1, 0, 1]), draws)
    assert found.drawn.tolist() == [0, 0, 1, 1, 2, 2]
    assert found.right.tolist() == [False, True, False, True, False, True]
    assert_close(found.losses, -torch.tensor([0.2, 0.5, 0.3, 0.5, 0.2, 0.5]).log())
    many = draw_and_judge(
        scores[:1].expand(30_000, -1), lambda rows: rows, torch.zeros(30_000).long(), torch.rand(30_000)
    )
    assert_close(many.drawn.bincount() / 30_000, torch.tensor([0.2, 0.5, 0.3]), atol=0.02, rtol=0)


def test_every_chosen_token_is_masked_and_the_loss_is_that_of_transformers(tokenizer, lines, tmp_path):
    """The generator's loss + 50 x the discriminator's, each by the peer's class on the folder that holds it."""
    model = small_electra(len(tokenizer)).eval()
    for place, part in apart(model).items():
        gf.save(part, tmp_path / place, tokenizer=tokenizer)
    generator = transformers.ElectraForMaskedLM.from_pretrained(tmp_path / "generator").eval()
    discriminator = transformers.ElectraForPreTraining.from_pretrained(tmp_path).eval()
    items = lines.encode(DOCUMENTS)
    for index in range(len(items.lengths)):
        batch = lines.batch(items, np.array([index]), seed=3)
        ids, targets = batch.inputs["input_ids"], batch.targets
        masked = ids[0] == tokenizer.mask_token_id
        assert masked.nonzero().flatten().tolist() == targets["places"].tolist()
        labels = torch.full(ids.shape, -100)
        labels[0, masked] = targets["words"]
        with torch.no_grad():
            guessed = generator(input_ids=ids, labels=labels)
        ends = guessed.logits[0, masked].softmax(-1).cumsum(-1)
        drawn = torch.tensor([int((end <= u).sum()) for end, u in zip(ends, targets["draws"], strict=True)])
        corrupted = ids.clone()
        corrupted[0, masked] = drawn
        replaced = torch.zeros_like(ids)
        replaced[0, masked] = (drawn != targets["words"]).long()  # what stood there counts as original
        with torch.no_grad():
            judged = discriminator(input_ids=corrupted, labels=replaced)
        assert_close(lines.loss(model, batch).detach(), guessed.loss + 50 * judged.loss, atol=1e-4, rtol=1e-5)


@settings(max_examples=15)
@given(data=st.data(), seed=st.integers(0, 99))
def test_parts_of_a_batch_add_up(tokenizer, lines, data, seed):
    """Whatever the padding: what is drawn depends on the example alone."""
    model = small_electra(len(tokenizer))
    items = lines.encode(DOCUMENTS)
    order = data.draw(st.permutations(range(len(items.lengths))))
    cut = data.draw(st.integers(1, len(order) - 1))
    whole = gradients(model, lines, items, [order], seed)
    parts = gradients(model, lines, items, [order[:cut], order[cut:]], seed)
    assert whole[1] == parts[1] == len(order)
    assert_close(parts[0], whole[0], atol=1e-3, rtol=1e-5)
    assert_close(parts[2], whole[2], atol=1e-3, rtol=1e-4)


def test_no_gradient_passes_from_the_discriminator_to_the_generators_layers(tokenizer, lines):
    model = small_electra(len(tokenizer))
    items = lines.encode(DOCUMENTS)
    batch = lines.batch(items, np.arange(len(items.lengths)))
    lines.loss(model, batch).backward()
    found = model.generator.layers[0].feed_forward.up.weight.grad.clone()
    model.zero_grad()
    guesses, _, _ = lines.corrupt(model, batch)
    (guesses.losses @ batch.targets["weights"]).backward()
    assert_close(model.generator.layers[0].feed_forward.up.weight.grad, found)


def test_embeddings_are_shared_and_layers_are_not(tokenizer, tmp_path):
    model = small_electra(len(tokenizer))
    mine, its = model.embeddings, model.generator.embeddings
    for name in ("token", "position", "segment", "norm"):
        assert getattr(mine, name).weight is getattr(its, name).weight
    assert model.generator.head.decoder.weight is mine.token.weight
    assert mine.projection.weight is not its.projection.weight
    assert model.generator.config.hidden_size == 16
    assert len(model.generator.layers) == len(model.layers)
    listed = list(model.parameters())
    assert len(listed) == len({id(one) for one in listed})
    for place, part in apart(model).items():
        gf.save(part, tmp_path / place, tokenizer=tokenizer)
    again = complete(ReplacedTokens(tokenizer), gf.load(tmp_path), tmp_path)
    assert again.generator.head.decoder.weight is again.embeddings.token.weight
    assert {name: tuple(one.shape) for name, one in again.state_dict().items()} == {
        name: tuple(one.shape) for name, one in model.state_dict().items()
    }
    for name, tensor in again.state_dict().items():
        assert_close(tensor, model.state_dict()[name], atol=0, rtol=0)


@torch.no_grad()
def test_scores_are_the_loss_and_its_parts_and_merge(tokenizer, lines):
    model = small_electra(len(tokenizer)).eval()
    items = lines.encode(DOCUMENTS)
    batch = lines.batch(items, np.arange(len(items.lengths)))
    guesses, corrupted, replaced = lines.corrupt(model, batch)
    real = corrupted["attention_mask"].bool()
    found = (model(**corrupted).logits > 0)[real]
    gold = replaced[real]
    expected = {
        "loss": lines.loss(model, batch) / batch.count,
        "generator_loss": guesses.losses.mean(),
        "generator_accuracy": guesses.right.float().mean(),
        "detection_accuracy": (found == gold).float().mean(),
        "detection_recall": (found & gold).sum() / gold.sum(),
        "detection_precision": (found & gold).sum() / max(1, int(found.sum())),
    }
    scores = evaluate(model, lines, items, budget=ROWS, keep_examples=True, final=True).compute()
    assert {name: scores[name] for name in expected} == pytest.approx(
        {k: float(v) for k, v in expected.items()}, rel=1e-5
    )
    shares = [pickle.loads(pickle.dumps(evaluate(model, lines, items, budget=ROWS, share=(n, 2)))) for n in (0, 1)]
    shares[0].merge(shares[1])
    assert shares[0].compute() == pytest.approx(scores)


def test_a_model_without_a_generator_judges_and_is_not_scored(tokenizer, lines):
    model = small_bert(len(tokenizer), "replaced-token-detection", "electra").eval()
    (found,) = lines.predict(model, ["the cat sat"])
    assert [one["word"] for one in found] == tokenizer.tokenize("the cat sat")
    encoded = tokenizer("the cat sat", return_tensors="pt")
    with torch.no_grad():
        chances = model(**encoded).logits[0].sigmoid()
    assert_close(torch.tensor([one["score"] for one in found]), chances[1:-1])
    (some,) = lines.predict(model, ["the cat sat"], threshold=0.5)
    assert some == [one for one in found if one["score"] >= 0.5]
    with pytest.raises(ValueError, match="no generator stands beside this model"):
        evaluate(model, lines, lines.encode(DOCUMENTS), budget=ROWS)


@pytest.mark.slow
def test_a_run_goes_on_from_its_folder_with_the_same_generator(tokenizer, tmp_path):
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 20}
    quiet = {"data": "microworld", "limit": 30, "steps": 1, "batch_size": 4, "vocab_size": 200, "log": lambda _: None}
    name = "replaced-token-detection"
    gf.train(task=name, arch="electra", out=str(tmp_path / "one"), config=sizes, **quiet)
    gf.train(task=name, model=str(tmp_path / "one"), out=str(tmp_path / "two"), lr=1e-9, weight_decay=0.0, **quiet)
    for part in ("", "generator"):
        before, after = (gf.load(tmp_path / run / part) for run in ("one", "two"))
        for (key, one), other in zip(before.named_parameters(), after.parameters(), strict=True):
            assert_close(other, one, atol=1e-6, rtol=0, msg=key)
    config = json.loads((tmp_path / "two" / "generator" / "config.json").read_text())
    assert config["architectures"] == ["ElectraForMaskedLM"]
    assert config["hidden_size"] == 8  # a quarter of two heads is one


@pytest.mark.slow
def test_a_small_electra_learns_by_heart_what_is_replaced(tokenizer, lines):
    items = lines.encode(DOCUMENTS)
    every = np.arange(len(items.lengths))

    @torch.no_grad()
    def loss(model):
        """The mean over many masks."""
        return np.mean([float(lines.loss(model, lines.batch(items, every, seed))) / len(every) for seed in range(20)])

    model = small_electra(len(tokenizer)).eval()
    assert loss(model) > 35  # ln V + 50 ln 2 of one that knows nothing
    assert loss(learn(model, lines, items, steps=200, lr=4e-3, rows=16)) < 15
