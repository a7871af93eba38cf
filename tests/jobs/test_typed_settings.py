"""The keyword arguments that editors complete are those that there are, with the types that are checked at run time."""

from pathlib import Path
from typing import Union, get_args, get_type_hints

import pytest

from glassformer.generate.options import GenerationOptions
from glassformer.generate.settings import GenerationSettings
from glassformer.jobs.recipe import MANY, NOT_FLAT, NOT_SETTINGS, Recipe
from glassformer.jobs.settings import Files, LoopSettings, RunSettings, TaskSettings, TrainSettings
from glassformer.jobs.tasks import TASKS, task_class
from glassformer.train.plan import Plan

PATHS = ("out", "model", "tokenizer")  # which may be a Path as well


def plain(hint):
    """A hint whose order does not matter."""
    return frozenset(get_args(hint)) if type(None) in get_args(hint) else hint


def same(typed, real):
    assert typed.keys() == real.keys()
    assert {name: plain(hint) for name, hint in typed.items()} == {name: plain(hint) for name, hint in real.items()}


def test_generation():
    same(get_type_hints(GenerationOptions), get_type_hints(GenerationSettings))


def test_the_loop():
    same(get_type_hints(LoopSettings), get_type_hints(Plan))


def test_the_run():
    real = {name: hint for name, hint in get_type_hints(Recipe).items() if name not in NOT_FLAT}
    real |= dict.fromkeys(MANY, Files) | {name: Union[real[name], Path] for name in PATHS}  # noqa: UP007
    same(get_type_hints(RunSettings), real)
    assert RunSettings.__required_keys__ == {"task", "out"}


def test_the_tasks():
    """What one of them may be told, it may be told in any of the ways of the tasks that know it."""
    real = {}
    for name in TASKS:
        cls = task_class(name)
        built = get_type_hints(cls.__init__)
        built.pop("labels", None)  # the data's
        for option, hint in {**built, **get_type_hints(cls.read)}.items():
            if option not in NOT_SETTINGS:
                real[option] = Union[real.get(option, hint), hint]  # noqa: UP007
    same(get_type_hints(TaskSettings), real)


def test_no_setting_stands_in_two_places():
    parts = [set(get_type_hints(one)) for one in (RunSettings, LoopSettings, TaskSettings)]
    assert sum(map(len, parts)) == len(get_type_hints(TrainSettings))


USER = """
from typing import reveal_type
import glassformer as gf

model, tok = gf.load("folder"), gf.load_tokenizer("folder")
reveal_type(model.device)
reveal_type(gf.embed("a text", model, tokenizer=tok))
reveal_type(gf.embed("a text", model, tokenizer=tok, convert_to_tensor=True))
gf.train(task="ner", out="runs/ner", model="folder", data="train.conll", epochs=3, lr=1e-4)
gf.generate(model, tok, "Once", max_new_tokens=5, do_sample=True, top_p=0.9)
"""
WRONG = {
    'gf.train(task="ner", out="runs/ner", model="folder", data="train.conll", epoch=3)': '"epoch" for "train"',
    'gf.train(task="ner", model="folder")': 'Missing named argument "out"',
    'gf.train(task="ner", out="runs/ner", epochs="many")': '"str"; expected "float | None"',
    'gf.generate(model, tok, "Once", max_new_token=5)': '"max_new_token" for "generate"',
    'list(gf.stream(model, tok, "Once", topp=0.5))': '"topp" for "stream"',
    'gf.embed("a text", model, pooling="last")': 'No overload variant of "embed"',
}


@pytest.mark.slow
def test_a_type_checker_sees_wrong_names(tmp_path, monkeypatch):
    from mypy import api

    file = tmp_path / "user.py"
    file.write_text(USER + "".join(f"{line}\n" for line in WRONG), encoding="utf-8")
    source = Path(__file__).parents[2] / "src"
    monkeypatch.setenv("MYPYPATH", str(source))
    config = str(source.parent / "pyproject.toml")
    said, _, _ = api.run(["--strict", "--config-file", config, "--cache-dir", str(tmp_path / "cache"), str(file)])
    lines = [line.partition(": ")[2] for line in said.splitlines() if "user.py" in line and "error:" in line]
    assert len(lines) == len(WRONG), said
    for line, message in zip(lines, WRONG.values(), strict=True):
        assert message in line
    for told in ('"torch._C.device"', "torch._tensor.Tensor", "numpy.ndarray["):
        assert told in said
