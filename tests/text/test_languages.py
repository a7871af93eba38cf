"""Codes of languages beside texts, as transformers' multilingual tokenizers put them."""

import json

import pytest
import tokenizers
import transformers

import glassformer as gf
from multilingual import nllb_tokenizer

TEXTS = ["the cat sat on the mat.", "a dog, the cat"]
transformers.logging.set_verbosity_error()


def same(ours, theirs):
    assert dict(ours(TEXTS)) == dict(theirs(TEXTS))
    assert dict(ours(TEXTS, TEXTS[::-1])) == dict(theirs(TEXTS, TEXTS[::-1]))
    assert dict(ours(TEXTS, text_target=TEXTS)) == dict(theirs(TEXTS, text_target=TEXTS))
    assert dict(ours(TEXTS, truncation=True, max_length=6)) == dict(theirs(TEXTS, truncation=True, max_length=6))


@pytest.mark.parametrize(
    ("make", "codes"),
    [
        (nllb_tokenizer, ("fra_Latn", "deu_Latn")),
        (lambda: nllb_tokenizer(legacy=True), ("fra_Latn", "deu_Latn")),
        (transformers.MBartTokenizer, ("fr_XX", "de_DE")),
        (transformers.MBart50Tokenizer, ("fr_XX", "af_ZA")),
    ],
)
def test_codes_stand_where_transformers_puts_them(make, codes, tmp_path):
    theirs, (source, target) = make(), codes
    theirs.save_pretrained(tmp_path / "theirs")
    ours = gf.load_tokenizer(tmp_path / "theirs")
    assert ours.src_lang == theirs.src_lang
    assert ours.tgt_lang is None
    same(ours, theirs)
    ours.src_lang = theirs.src_lang = source
    ours.tgt_lang = theirs.tgt_lang = target
    same(ours, theirs)
    same(gf.load_tokenizer(tmp_path / "theirs", src_lang=source, tgt_lang=target), theirs)
    ours.save(tmp_path / "ours")
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "ours")
    assert (again.src_lang, again.tgt_lang) == codes
    same(ours, again)
    same(gf.load_tokenizer(tmp_path / "ours"), again)
    ids = ours(TEXTS[0])["input_ids"]
    assert source in ours.decode(ids)
    assert source not in ours.decode(ids, skip_special_tokens=True)


def test_the_codes_of_m2m_100_are_written_with_underlines(tmp_path):
    rust = tokenizers.Tokenizer(tokenizers.models.WordLevel({"</s>": 0, "<unk>": 1, "cat": 2}, unk_token="<unk>"))
    rust.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    rust.add_special_tokens(["</s>", "__en__", "__de__"])
    rust.save(str(tmp_path / "tokenizer.json"))
    stated = {"tokenizer_class": "M2M100Tokenizer", "eos_token": "</s>", "unk_token": "<unk>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(stated))
    tok = gf.load_tokenizer(tmp_path, tgt_lang="de")
    assert tok.src_lang == "en"
    assert tok.convert_ids_to_tokens(tok("cat")["input_ids"]) == ["__en__", "cat", "</s>"]
    assert tok.convert_ids_to_tokens(tok(text_target="cat")["input_ids"]) == ["__de__", "cat", "</s>"]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("eng", "knows no language 'eng'; near it: eng_Latn"),
        ("de", "knows no language 'de'; near it: deu_Latn"),
        ("fra_Lat", "near it: fra_Latn"),
        ("???", r"knows no language '\?\?\?'; it has 202: ace_Arab"),
    ],
)
def test_a_language_that_is_not_known_is_named_with_near_ones(code, said, tmp_path):
    nllb_tokenizer().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=said):
        gf.load_tokenizer(tmp_path, src_lang=code)
    tok = gf.load_tokenizer(tmp_path)
    with pytest.raises(ValueError, match=said):
        tok.tgt_lang = code


def test_a_tokenizer_without_languages_says_so(tmp_path):
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ncat\n")
    tok = gf.load_tokenizer(tmp_path)
    assert tok.src_lang is None
    with pytest.raises(ValueError, match="src_lang = 'eng_Latn', but this tokenizer marks no languages"):
        tok.src_lang = "eng_Latn"
    tok.save(tmp_path / "saved")
    assert "src_lang" not in json.loads((tmp_path / "saved" / "tokenizer_config.json").read_text())
