"""Examples that need no file: every task has its own, and the name of the data says which."""

import pytest

from glassformer.data import microworld
from glassformer.jobs.built_in import COUNTS, KINDS, built_in_examples, is_built_in
from glassformer.jobs.data import read_examples
from glassformer.jobs.models import check_config
from glassformer.jobs.recipe import Recipe
from glassformer.jobs.tasks import TASKS, task_class
from glassformer.tasks.teaching import Teaching
from glassformer.tasks.teaching import examples as digits


def test_every_task_has_examples():
    for name in TASKS:
        assert issubclass(task_class(name), Teaching) or KINDS[task_class(name).name] in microworld.KINDS


@pytest.mark.parametrize(
    ("source", "settings"),
    [
        ("microworld", {}),
        ("microworld:de", {"language": "de"}),
        ("microworld:short", {"short": True}),
        ("microworld:zh:short", {"language": "zh", "short": True}),
    ],
)
def test_the_name_says_which(source, settings):
    found = built_in_examples(source, "dev", task_class("text-classification"), limit=30)
    assert found == microworld.examples("labelled", 30, seed=1, **settings)
    assert is_built_in([source])
    assert not is_built_in(["microworld.csv"])


def test_a_limit_says_how_many_there_are_to_learn_from(monkeypatch):
    monkeypatch.setitem(COUNTS, "train", 20)
    monkeypatch.setitem(COUNTS, "dev", 10)
    copy = task_class("copy")
    assert built_in_examples("microworld", "train", copy) == digits("copy", 20, seed=0)
    assert len(built_in_examples("microworld", "train", copy, limit=50)) == 50
    assert len(built_in_examples("microworld", "dev", copy, limit=50)) == 10


def test_a_lesson_is_as_long_as_one_asks():
    """Also at an evaluation, where another length may be asked for than was trained."""
    parity = task_class("parity")
    assert built_in_examples("microworld", "dev", parity, limit=9, length=31) == digits("parity", 9, seed=1, length=31)
    read = read_examples(parity, ["microworld"], split="test", options={"length": 33})
    assert {len(one.source) for one in read.examples} == {34}


def test_a_language_that_is_not_spoken_is_refused():
    with pytest.raises(ValueError, match="language='long' is not spoken in the micro-world: use one of en, de, zh"):
        built_in_examples("microworld:long", "dev", task_class("text-classification"))


def test_a_lesson_put_another_way_has_the_settings_of_that_model():
    """Parity is a GRU's class by default; as text to text the same GRU has an attention to set."""
    settings = {"task": "parity", "arch": "gru", "out": "runs/x", "config": {"attention": None}}
    check_config(Recipe.of({**settings, "head": "text2text-generation"}), task_class("parity"))
    with pytest.raises(ValueError, match="glassformer-rnn has no setting 'attention'"):
        check_config(Recipe.of(settings), task_class("parity"))
