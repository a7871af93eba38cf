"""Every file in recipes/ is a run: small versions of them, on the micro-world, in seconds."""

import json
from functools import cache
from pathlib import Path

import pytest

import glassformer as gf
from glassformer.jobs.recipe import Recipe, changed, read_recipe
from glassformer.jobs.tasks import task_class
from glassformer.jobs.train import run
from tasks.cases import VOCABULARY, case

HOME = Path(__file__).parents[2] / "recipes"
RECIPES = sorted(path for path in HOME.rglob("*.toml") if path.name != "cards.toml")
SMALL = {  # sizes by what a setting's name ends in
    "hidden_size": 16,
    "embedding_size": 16,
    "d_model": 16,
    "n_embd": 16,
    "layers": 1,
    "n_layer": 1,
    "heads": 2,
    "n_head": 2,
    "ffn_dim": 24,
    "intermediate_size": 24,
}


@pytest.fixture(scope="module")
def small_model(tmp_path_factory):
    """By task: what stands in the place of every model and tokenizer that a recipe names."""

    @cache
    def folder(writes: bool) -> Path:
        sizes = {"n_positions": 512} if writes else {}
        one = case("text-generation/gpt2" if writes else "fill-mask/bert", lowercase=True, config=sizes)
        return gf.save(one.model, tmp_path_factory.mktemp("model"), tokenizer=one.task.tokenizer)

    return lambda task: folder(task == "text-generation")


def shrunk(recipe: dict[str, object], model: Path, out: Path) -> dict[str, object]:
    """The same run with less of everything."""
    fewer = {"data": "microworld", "out": str(out), "limit": 16, "steps": 2, "batch_size": 4, "device": "cpu"}
    fewer |= {name: None for name in ("dev", "compile", "precision") if name in recipe}
    fewer |= {"test": "microworld"} if "test" in recipe else {}
    fewer |= {name: str(model) for name in ("model", "tokenizer") if recipe.get(name) not in (None, *VOCABULARY)}
    if "vocab_size" in recipe:
        fewer["vocab_size"] = VOCABULARY["bpe"]
    for name in recipe.get("config", {}):
        for ending, size in SMALL.items():
            if name.endswith(ending):
                fewer[f"config.{name}"] = size
    return changed(recipe, fewer)


@pytest.mark.slow
@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_trains(path, small_model, tmp_path):
    written = read_recipe(path)
    recipe = Recipe.of(shrunk(written, small_model(written["task"]), tmp_path / "run"))
    ended = run(recipe, log=lambda _: None)
    assert ended.outcome.progress.step == 2
    found = json.loads((ended.folder / "run.json").read_text())
    assert found["scores"].keys() == ({"dev", "test"} if "test" in written else {"dev"})
    assert all(isinstance(value, float) for scores in found["scores"].values() for value in scores.values())
    assert Recipe.from_toml(ended.folder / "recipe.toml", {}) == recipe
    assert gf.load(ended.folder).head_name == task_class(recipe.task).head


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_is_right_as_it_stands(path):
    """Every setting is known, and the run folder has the recipe's name."""
    recipe = Recipe.from_toml(path, {})
    assert recipe.out == f"runs/{path.relative_to(HOME).with_suffix('').as_posix()}"
    assert recipe.plan
    assert path.read_text().startswith("# ")
