"""`glassformer translate`: lines in their order whatever the batch, n-best lists, alignments, and clear refusals."""

import io
import json
import shutil
import sys

import pytest
import torch

import glassformer as gf
from families import SMALL_BERT, SMALL_GPT, random_model, shake
from glassformer.tasks.translation import Translation
from tasks.language import tokenizer_of

LINES = [
    "Anna met Mr. O'Neill near the old harbour, and they had tea with milk until it was dark.",
    "",
    "a",
    "   ",
    "北京 is far",
    "the old harbour is far, far away; Anna met them there and they had tea",
    "they had tea",
]
REAL = [line for line in LINES if line.strip()]
SIZES = {f"{side}_{key}": value for side in ("encoder", "decoder") for key, value in
         {"layers": 2, "attention_heads": 2, "ffn_dim": 24}.items()}  # fmt: skip
TRANSFORMER = {**SIZES, "d_model": 16, "init_std": 0.5, "max_position_embeddings": 128}
RNN = {"embedding_size": 12, "hidden_size": 32, "initializer_range": 1.0}
FAMILIES = {
    "transformer": ("glassformer-transformer", TRANSFORMER),
    "marian": ("marian", TRANSFORMER),
    "bart": ("bart", TRANSFORMER),
    "additive": ("glassformer-seq2seq", {**RNN, "attention": "additive"}),
    "general": ("glassformer-seq2seq", {**RNN, "attention": "general", "bidirectional": True}),
    "plain": ("glassformer-seq2seq", {**RNN, "attention": None}),
}


@pytest.fixture(scope="session")
def translators(tmp_path_factory):
    """A folder of each family, with a vocabulary of its own."""
    tokenizer, folders = tokenizer_of(LINES * 3, "wordpiece"), {}
    for name, (model_type, sizes) in FAMILIES.items():
        torch.manual_seed(3)
        settings = {**Translation.for_data(tokenizer, []).settings(), **sizes}
        model = shake(gf.build(model_type, "text2text-generation", **settings), seed=3)
        model.generation_config = {"max_new_tokens": 12}  # of themselves they hardly end
        folders[name] = gf.save(model, tmp_path_factory.mktemp("translators") / name, tokenizer=tokenizer)
    return folders


@pytest.fixture
def file(tmp_path):
    (tmp_path / "in.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return tmp_path / "in.txt"


@pytest.mark.few(3)
@pytest.mark.parametrize("family", FAMILIES)
def test_lines_keep_their_places_whatever_the_batch(glassformer, translators, file, family):
    folder = translators[family]
    pipe = gf.pipeline("translation", folder)
    alone = [pipe(line, num_beams=4)[0]["translation_text"] if line.strip() else "" for line in LINES]
    assert len(set(alone)) >= 5
    for size in (1, 64):
        code, out, err = glassformer("translate", folder, "--file", file, "--batch-size", size)
        assert code == 0
        assert out.split("\n") == [*alone, ""]
        assert "5 sentences in " in err
        assert "sentences/s" in err


def test_a_text_a_file_stdin_and_out_say_the_same(glassformer, translators, file, tmp_path, monkeypatch):
    folder = translators["marian"]
    _, out, err = glassformer("translate", folder, LINES[0])
    assert err == ""
    _, from_file, _ = glassformer("translate", folder, "--file", file)
    assert from_file.startswith(out)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(file.read_bytes())))
    assert glassformer("translate", folder)[1] == from_file
    code, out, _ = glassformer("translate", folder, "--file", file, "--out", tmp_path / "out.txt")
    assert (code, out) == (0, "")
    assert (tmp_path / "out.txt").read_text(encoding="utf-8") == from_file


def test_a_line_that_is_typed_is_answered_before_the_next(glassformer, translators, monkeypatch):
    class Typed(io.StringIO):
        """A terminal; what stands on stdout at each line is kept."""

        def isatty(self):
            return True

        def __next__(self):
            answered.append(sys.stdout.getvalue())
            return super().__next__()

    folder, answered = translators["bart"], []
    monkeypatch.setattr(sys, "stdin", Typed("a\nthey had tea\n"))
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    glassformer("translate", folder, "--max-new-tokens", 5)
    assert [text.count("\n") for text in answered] == [0, 1, 2]


def test_beams_are_the_folders_own_wish_or_four(glassformer, translators, file, tmp_path):
    folder = gf.save(gf.load(translators["bart"]), tmp_path / "own", tokenizer=gf.load_tokenizer(translators["bart"]))
    plain = glassformer("translate", folder, "--file", file)[1]
    assert plain == glassformer("translate", folder, "--file", file, "--num-beams", 4)[1]
    greedy = glassformer("translate", folder, "--file", file, "--num-beams", 1)[1]
    assert plain != greedy
    (folder / "generation_config.json").write_text('{"num_beams": 1, "max_new_tokens": 12}')
    assert glassformer("translate", folder, "--file", file)[1] == greedy


def test_a_wish_for_beams_that_is_no_number_names_the_file(glassformer, translators, file, tmp_path):
    folder = shutil.copytree(translators["transformer"], tmp_path / "model")
    (folder / "generation_config.json").write_text(json.dumps({"num_beams": "many"}))
    code, _, told = glassformer("translate", folder, "--file", file)
    assert code == 1
    assert told.startswith(f"error: {folder / 'generation_config.json'}: num_beams is 'many'; it must be a whole")


def test_the_n_best_of_each_line(glassformer, translators, file):
    folder = translators["transformer"]
    words = ("--file", file, "--n", 3, "--length-penalty", 0.5, "--max-new-tokens", 12)
    _, out, _ = glassformer("translate", folder, *words)
    rows = [line.split("\t") for line in out.split("\n")]
    assert [row[0] for row in rows] == [*"111", "", *"333", "", *"555666777", ""]
    _, out, _ = glassformer("translate", folder, *words, "--json")
    told = [json.loads(line) for line in out.splitlines()]
    assert [one["source"] for one in told] == LINES
    shown = [row[1:] for row in rows if len(row) == 3]
    listed = [
        [f"{score:.4f}", text] for one in told for score, text in zip(one["scores"], one["translations"], strict=True)
    ]
    assert listed == shown
    for one in told:
        assert one["scores"] == sorted(one["scores"], reverse=True)
    found = gf.pipeline("translation", folder)(
        LINES[0], num_beams=4, num_return_sequences=3, length_penalty=0.5, max_new_tokens=12
    )
    assert [one["translation_text"] for one in found] == told[0]["translations"]


@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "plain"])
def test_alignments_are_shown_and_told(glassformer, translators, file, family):
    words = ("--file", file, "--align", "--max-new-tokens", 9)
    _, out, _ = glassformer("translate", translators[family], *words, "--json", "--n", 2)
    told = [json.loads(line) for line in out.splitlines()]
    for one in told:
        assert len(one["alignments"]) == len(one["translations"])
        for text, aligned in zip(one["translations"], one["alignments"], strict=True):
            assert "".join(aligned["source"]) == "".join(one["source"].split())
            assert "".join(aligned["target"]) == "".join(text.split())
            assert all(len(row) == len(aligned["source"]) and 0 < sum(row) < 1.001 for row in aligned["weights"])
            assert [link["target"] for link in aligned["links"]] == aligned["target"]
            assert all(
                link["weight"] == max(row) for link, row in zip(aligned["links"], aligned["weights"], strict=True)
            )
    _, out, _ = glassformer("translate", translators[family], *words)
    first = told[0]["alignments"][0]
    rows = out.split("\n")
    assert rows[0] == told[0]["translations"][0]
    assert rows[1].split()[:2] == [first["target"][0], first["links"][0]["source"]]
    assert f"{first['links'][0]['weight']:.2f}" in rows[1]


def test_what_cannot_be_translated_is_said_in_one_line(glassformer, translators, file, tmp_path):
    tokenizer = gf.load_tokenizer(translators["plain"])
    speaker = random_model("gpt2", "text-generation", SMALL_GPT | {"vocab_size": len(tokenizer)})
    reader = random_model("bert", "fill-mask", SMALL_BERT | {"vocab_size": len(tokenizer)})
    for words, message in {
        (gf.save(speaker, tmp_path / "gpt", tokenizer=tokenizer), "a"): "use glassformer generate",
        (gf.save(reader, tmp_path / "bert", tokenizer=tokenizer), "a"): "use glassformer predict",
        (translators["plain"], "a", "--align"): "no attention from target to source",
        (translators["plain"], "a", "--file", file): "not both",
        (translators["plain"], " "): "give a text that is not empty",
        (translators["plain"], "--file", "./nowhere"): "there is no file './nowhere'",
        (translators["plain"], "a", "--num-beams", 2, "--n", 3): "num_beams=3",
    }.items():
        code, out, err = glassformer("translate", *words)
        assert (code, out) == (1, "")
        assert message in err
        assert len(err.splitlines()) == 1
