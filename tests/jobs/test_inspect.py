"""gf.inspect and its command: boards hold what was recorded, for every family, and wrong requests are explained."""

import json
from fnmatch import fnmatchcase
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import glassformer as gf
from boards import IDS, MODELS, TARGET, inspected, model_of
from families import SMALL_BERT, SMALL_GPT, random_model
from glassformer.text.train import train


@pytest.mark.parametrize("name", MODELS)
def test_boards_hold_what_their_python_gives(name):
    """`sources` is Python: run over a recording of everything, it gives the very matrix that is shown."""
    model, inspection = model_of(name), inspected(name)
    inputs = {"input_ids": torch.tensor([IDS])}
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = torch.tensor([[model.config.decoder_start_token_id, *TARGET[:-1]]])
    with torch.inference_mode(), gf.record(model, "*") as seen:
        model(**inputs)
    assert [board.name for board in inspection.boards] == MODELS[name][3]
    for board in inspection.boards:
        shown = board.values.reshape(-1, *board.values.shape[-2:])
        assert len(board.sources) == len(shown)
        for source, matrix in zip(board.sources, shown, strict=True):
            np.testing.assert_allclose(matrix, eval(str(source), {"seen": seen}).numpy(), atol=1e-6)


def test_statistics_of_attention_are_those_of_its_heads():
    """A page has the numbers that gf.attention_statistics gives, under the same names."""
    for name in ("bert", "gpt2", "bart"):
        model = model_of(name)
        inputs = {"input_ids": torch.tensor([IDS])}
        if model.config.is_encoder_decoder:
            inputs["decoder_input_ids"] = torch.tensor([[2, *TARGET[:-1]]])
        expected = gf.attention_statistics(model, inputs)
        for board in inspected(name).boards:
            part = {"cross": "decoder.layers.*.cross_attention", "attention": "layers.*.attention"}
            wanted = part.get(board.name, f"{board.name}.layers.*.attention")
            heads = [one for one in expected if fnmatchcase(one.attention, wanted)]
            assert {"entropy", "first", "sink"} <= board.statistics.keys()
            assert ("distance" in board.statistics) == (board.name != "cross")
            for kind, values in board.statistics.items():
                np.testing.assert_allclose(values.ravel(), [getattr(one, kind) for one in heads], atol=1e-6)


def test_statistics_of_states():
    (board,) = inspected("lstm").boards
    values, found = board.values.astype(float), board.statistics
    np.testing.assert_allclose(found["mean size"], np.abs(values).mean((-1, -2)))
    steps = [np.abs(values[..., now, :] - (values[..., now - 1, :] if now else 0)) for now in range(values.shape[-2])]
    np.testing.assert_allclose(found["change"], np.mean(steps, axis=(0, -1)))


def test_both_sides_of_an_encoder_decoder_have_their_tokens():
    encoder, decoder, cross = inspected("bart").boards
    assert list(encoder.down.ids) == list(encoder.across.ids) == list(cross.across.ids) == IDS
    assert list(decoder.down.ids) == [2, *TARGET[:-1]]  # what it is fed, from the start token on
    assert list(cross.down.ids) == TARGET  # what it writes at each of these steps


def test_without_a_target_a_model_writes_what_it_wants():
    model = model_of("bart")
    written = gf.generate(model, None, torch.tensor([IDS]))[0].tolist()
    _, decoder, cross = gf.inspect(model, None, IDS).boards
    assert list(decoder.down.ids) == written[:-1]
    assert list(cross.down.ids) == written[1:]


def test_what_was_seen_says_what_it_is():
    assert (
        repr(inspected("bart"))
        == "Inspection('Transformer': encoder 2 × 3 × 7 × 7, decoder 1 × 2 × 4 × 4, cross 1 × 2 × 4 × 7)"
    )


def test_looking_leaves_the_model_as_it_was():
    model = model_of("bart").train()
    model.encoder.embeddings.eval()  # as a part that is frozen
    before = [part.training for part in model.modules()]
    learning, resting = (gf.inspect(each, None, IDS).boards for each in (model, model_of("bart")))
    assert [part.training for part in model.modules()] == before
    assert not any(part._forward_hooks for part in model.modules())
    for one, other in zip(learning, resting, strict=True):  # no dropout, neither in writing nor in reading
        np.testing.assert_allclose(one.values, other.values, rtol=1e-5, atol=1e-6)


def test_a_compiled_model_is_looked_into_as_well():
    model = model_of("bert")
    (plain,), (compiled,) = (
        gf.inspect(each, None, IDS).boards for each in (model, torch.compile(model, backend="eager"))
    )
    np.testing.assert_allclose(compiled.values, plain.values, rtol=1e-5, atol=1e-6)


@pytest.fixture
def folders(tmp_path):
    """A BERT with a tokenizer, a GPT-2 with one that knows no words of its own, and a BERT without any."""
    (tmp_path / "corpus.txt").write_text("the cat sat on the mat. 猫坐在垫子上。\n" * 20, encoding="utf-8")
    made = {}
    for name, kind, family, sizes in (("bert", "wordpiece", "bert", SMALL_BERT), ("gpt2", "bpe", "gpt2", SMALL_GPT)):
        tokenizer = train([tmp_path / "corpus.txt"], kind=kind, vocab_size=300)
        model = random_model(family, None, sizes | {"vocab_size": 300})
        made[name] = gf.save(model, tmp_path / name, tokenizer=tokenizer)
    made["bare"] = gf.save(random_model("bert", "fill-mask", SMALL_BERT), tmp_path / "bare")
    return made


def test_tokens_are_as_a_person_reads_them(folders):
    for name, words in (("gpt2", ["the", " cat", " sat"]), ("bert", ["[CLS]", "the", "cat", "sat", "[SEP]"])):
        tokenizer = gf.load_tokenizer(folders[name])
        (board,) = gf.inspect(gf.load(folders[name]), tokenizer, "the cat sat").boards
        assert board.down.texts == words
    (board,) = gf.inspect(gf.load(folders["gpt2"]), tokenizer := gf.load_tokenizer(folders["gpt2"]), "ü").boards
    assert board.down.texts == tokenizer.convert_ids_to_tokens(board.down.ids)  # halves of a character have names only
    assert "\ufffd" not in "".join(board.down.texts)


def test_the_command_writes_pages_and_pictures(glassformer, folders, tmp_path):
    words = ("inspect", folders["bert"], "the cat sat.", "--pair", "on the mat", "--out")
    for suffix, begins in (("html", b"<!doctype html>"), ("svg", b"<svg"), ("png", b"\x89PNG")):
        if suffix == "png":
            pytest.importorskip("matplotlib")
        path = tmp_path / "new" / f"page.{suffix}"
        code, out, _ = glassformer(*words, path, "--layer", 1, "--head", 2)
        assert code == 0
        assert path.read_bytes().startswith(begins)
        assert out.startswith(f"{path}: ")
    code, out, _ = glassformer(*words, tmp_path / "page.html", "--json")
    report = json.loads(out)
    assert report["parts"] == [{"name": "attention", "shape": [2, 3, 10, 10]}]
    assert report["bytes"] == (tmp_path / "page.html").stat().st_size


def test_the_terminal_is_plain_where_nobody_looks(glassformer, folders):
    code, out, _ = glassformer("inspect", folders["bert"], "the cat sat.", "--terminal", "--layer", 0, "--head", 1)
    assert code == 0
    assert "\x1b" not in out
    lines = out.splitlines()
    assert lines[0] == "attention, layer 0, head 1"
    assert [line.split()[:2] for line in lines[2:]] == [
        [token, str(place)] for place, token in enumerate(["[CLS]", "the", "cat", "sat", ".", "[SEP]"])
    ]


def test_a_model_without_a_tokenizer_reads_ids(glassformer, folders, tmp_path):
    code, _, _ = glassformer("inspect", folders["bare"], "5, 6 7", "--out", tmp_path / "x.svg")
    assert code == 0
    _, _, err = glassformer("inspect", folders["bare"], "the cat", "--terminal")
    assert "has no tokenizer: give ids, such as '5 17 3', not 'the cat'" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["the cat"], "say where to: --out page.html (or .svg, .png), or --terminal"),
        (["the cat", "--out", "x.pdf"], "'x.pdf' is not a .html, .svg or .png file"),
        (["the cat", "--terminal", "--layer", "9"], "has no layer 9; it has 0, 1"),
        (["the cat", "--terminal", "--head", "forget"], "has no head 'forget'; it has 0, 1, 2"),
        (["the cat", "--terminal", "--part", "cross"], "there is no part 'cross'; this model has 'attention'"),
        (["the cat", "--terminal", "--target", "mat"], "a target is for an encoder-decoder"),
        (["the cat " * 40, "--terminal"], "positions"),
    ],
)
def test_what_goes_wrong_is_one_line(glassformer, folders, words, message):
    code, _, err = glassformer("inspect", folders["bert"], *words)
    assert code == 1
    assert message in err.splitlines()[-1]
    assert err.splitlines()[-1].startswith("error: ")


def test_what_cannot_be_looked_at_is_explained():
    with pytest.raises(ValueError, match="without a tokenizer, give one list of ids"):
        gf.inspect(model_of("bert"), None, "a text")
    with pytest.raises(ValueError, match="id 41 is not in the vocabulary, whose ids go from 0 to 40"):
        gf.inspect(model_of("bert"), None, [3, 41])
    opaque = torch.nn.Linear(2, 2)
    opaque.config, opaque.head_name = SimpleNamespace(vocab_size=50, is_encoder_decoder=False), None
    with pytest.raises(ValueError, match="a Linear has no attention, states or features to show"):
        gf.inspect(opaque, None, IDS)


def test_empty_text_is_refused(folders):
    with pytest.raises(ValueError, match="give a text that is not empty"):
        gf.inspect(gf.load(folders["gpt2"]), gf.load_tokenizer(folders["gpt2"]), "")
