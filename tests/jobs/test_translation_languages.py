"""Translation from a language to another that are named: NLLB's way, held to transformers."""

import json

import pytest
import torch
import transformers
from typer.testing import CliRunner

import glassformer as gf
from glassformer.cli.main import app
from multilingual import nllb_folder

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
TEXTS = ["the cat sat on the mat.", "a dog, the cat"]
SHORT = {"max_new_tokens": 6, "num_beams": 2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A random model that writes something, and not the same in two languages: most do, but not each."""
    for seed in range(17, 37):  # the first of which does
        folder = nllb_folder(tmp_path_factory.mktemp("nllb"), seed=seed)
        (_, french), (_, german) = expected(folder, "eng_Latn", "fra_Latn"), expected(folder, "fra_Latn", "deu_Latn")
        if all(french) and all(german) and french != german:
            return folder
    raise AssertionError("none of twenty random models writes")


def expected(folder, source, target):
    """What transformers writes, as its translation pipeline did."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, src_lang=source)
    model = transformers.M2M100ForConditionalGeneration.from_pretrained(folder).eval()
    first = tokenizer.convert_tokens_to_ids(target)
    batch = tokenizer(TEXTS, return_tensors="pt", padding=True)
    with torch.inference_mode():
        ids = model.generate(**batch, forced_bos_token_id=first, **SHORT)
    assert (ids[:, 1] == first).all()
    return ids, tokenizer.batch_decode(ids, skip_special_tokens=True)


@pytest.mark.few(1)
def test_a_pipeline_writes_what_transformers_writes(folder):
    _, french = expected(folder, "eng_Latn", "fra_Latn")
    _, german = expected(folder, "fra_Latn", "deu_Latn")
    pipe = gf.pipeline("translation", folder, src_lang="eng_Latn", tgt_lang="fra_Latn")
    assert [one["translation_text"] for one in pipe(TEXTS, **SHORT)] == french
    told = pipe(TEXTS, src_lang="fra_Latn", tgt_lang="deu_Latn", **SHORT)
    assert [one["translation_text"] for one in told] == german
    assert [one["translation_text"] for one in pipe(TEXTS, **SHORT)] == french, "a call leaves a pipeline as it was"
    named = gf.pipeline("translation_eng_Latn_to_fra_Latn", folder)
    assert [one["translation_text"] for one in named(TEXTS, **SHORT)] == french


def test_generate_takes_the_first_token(folder):
    ids, _ = expected(folder, "eng_Latn", "fra_Latn")
    model, tok = gf.load(folder), gf.load_tokenizer(folder)
    batch = tok(TEXTS, return_tensors="pt", padding=True)
    first = tok.convert_tokens_to_ids("fra_Latn")
    ours = gf.generate(model, None, **{"prompts": batch.pop("input_ids"), **batch}, forced_bos_token_id=first, **SHORT)
    assert ours.tolist() == ids.tolist()


def test_without_a_language_to_write_in_a_pipeline_asks_for_one(folder):
    with pytest.raises(ValueError, match="say which language to translate to: tgt_lang=CODE"):
        gf.pipeline("translation", folder)(TEXTS[0])
    with pytest.raises(ValueError, match="knows no language 'fr'; near it: fra_Latn"):
        gf.pipeline("translation", folder, tgt_lang="fr")


def test_the_command_takes_languages(folder):
    _, french = expected(folder, "eng_Latn", "fra_Latn")
    call = ["translate", str(folder), TEXTS[0], "--tgt-lang", "fra_Latn", "--max-new-tokens", "6", "--num-beams", "2"]
    result = CliRunner().invoke(app, [*call, "--src-lang", "eng_Latn"])
    assert result.exit_code == 0, result.output
    assert result.stdout.strip("\n") == french[0].strip("\n")


def test_a_run_learns_the_language_as_the_first_token(folder, tmp_path):
    (tmp_path / "pairs.tsv").write_text("source\ttarget\n" + "the cat\ta cat\na dog\tthe dog\n" * 4)
    out = tmp_path / "run"
    gf.train(
        task="translation",
        model=str(folder),
        data=str(tmp_path / "pairs.tsv"),
        dev=str(tmp_path / "pairs.tsv"),
        out=str(out),
        steps=2,
        src_lang="eng_Latn",
        tgt_lang="deu_Latn",
        max_length=16,
    )
    tok = gf.load_tokenizer(out)
    german = tok.convert_tokens_to_ids("deu_Latn")
    assert (tok.src_lang, tok.tgt_lang) == ("eng_Latn", "deu_Latn")
    assert json.loads((out / "generation_config.json").read_text())["forced_bos_token_id"] == german
    pipe = gf.pipeline("translation", out)
    items = pipe.task.encode(pipe.read([str(tmp_path / "pairs.tsv")]).examples[:1])
    assert items.targets[0].tolist() == tok(text_target="a cat")["input_ids"]
    assert items.sources[0].tolist() == tok("the cat")["input_ids"]
    batch = pipe.task.batch(items, torch.tensor([0]).numpy())
    assert batch.inputs["decoder_input_ids"][0, :2].tolist() == [tok.eos_token_id, german]
    again = transformers.M2M100ForConditionalGeneration.from_pretrained(out)
    assert again.generate(**tok(["the cat"], return_tensors="pt"), max_new_tokens=2)[0, 1] == german
