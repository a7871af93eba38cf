"""Folders with a SentencePiece model alone: ids and text as SentencePiece and transformers give them."""

import json
import unicodedata

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st
from sentencepiece_folders import FAMILIES, learn, write_family
from text_folders import CORPUS

import glassformer as gf
from glassformer.text.sentencepiece_model import read_model

NOT_AS_TRANSFORMERS = {  # where it cuts otherwise than the SentencePiece model that the weights were trained with
    "byte-t5": "no bytes of unknown characters",
    "albert": "a space behind the symbols that are never cut",
    "nllb": "<mask> before the languages, where released weights have it behind them",
    "words together": "no piece of two words",
    "m2m_100": "no space behind special tokens",
}
letters = st.sampled_from(sorted({*CORPUS, "\t", "Ａ", "₿", "🜁", "ﬀ", "①", "\u00a0", "\u3000"} - {"\n"}))
texts = st.lists(st.one_of(letters, st.sampled_from([" ", "  ", "the ", "(", "dog"])), max_size=30).map("".join)


@pytest.fixture(scope="module", params=FAMILIES)
def family(request, tmp_path_factory):
    """Its name, the tokenizer of its folder, and SentencePiece itself."""
    path = write_family(request.param, tmp_path_factory.mktemp("family") / "folder")
    return request.param, gf.load_tokenizer(path.parent), sentencepiece.SentencePieceProcessor(model_file=str(path))


def as_albert(text):
    """What ALBERT does with a text before SentencePiece sees it."""
    text = unicodedata.normalize("NFKD", text.replace("``", '"').replace("''", '"'))
    return "".join(char for char in text if not unicodedata.combining(char)).lower()


@settings(deadline=None, max_examples=60)
@given(text=texts)
def test_pieces_and_text_are_those_of_sentencepiece(family, text):
    name, ours, peer = family
    ids = peer.encode(as_albert(text) if name == "albert" else text)
    assert ours.tokenize(text) == [peer.id_to_piece(index) for index in ids]
    if peer.unk_id() not in ids:  # which SentencePiece writes as ⁇
        assert ours.decode(ours.encode(text, add_special_tokens=False)) == peer.decode(ids)


@pytest.mark.parametrize("name", [name for name in FAMILIES if name not in NOT_AS_TRANSFORMERS])
def test_ids_are_those_of_transformers(name, tmp_path):
    from transformers import AutoTokenizer

    folder = write_family(name, tmp_path).parent
    ours, theirs = gf.load_tokenizer(folder), AutoTokenizer.from_pretrained(folder)
    assert ours.get_vocab() == theirs.get_vocab()
    special = [] if name == "llama" else ours.all_special_tokens[:9]  # which puts a space behind them by "legacy"
    plain = [line for line in CORPUS.splitlines() if unicodedata.is_normalized("NFKC", line)]
    known = [*plain, "", "x  y   z", "the₿₿ 🜁", *(f"the{token} dog" for token in special)]
    wanted = {"return_token_type_ids": False}
    assert len(plain) >= 4
    for text in known:
        ids = ours(text, **wanted)["input_ids"]
        assert ids == theirs(text, **wanted)["input_ids"], text
        for skip in (False, True):
            assert ours.decode(ids, skip_special_tokens=skip) == theirs.decode(ids, skip_special_tokens=skip)
    assert ours(known, known, **wanted)["input_ids"] == theirs(known, known, **wanted)["input_ids"]


def test_ids_of_m2m_100_stand_in_its_vocabulary(tmp_path):
    """In any order, with tokens that are no pieces; the languages come behind them."""
    from transformers import AutoTokenizer

    folder = write_family("m2m_100", tmp_path).parent
    ours, theirs = gf.load_tokenizer(folder, tgt_lang="fr"), AutoTokenizer.from_pretrained(folder, tgt_lang="fr")
    assert {token: theirs.convert_tokens_to_ids(token) for token in ours.get_vocab()} == ours.get_vocab()
    plain = [line for line in CORPUS.splitlines() if unicodedata.is_normalized("NFKC", line)]
    for text in [*plain, "", "x  y   z", "the₿₿ 🜁"]:
        assert ours(text)["input_ids"] == theirs(text)["input_ids"]
        assert ours(text, text)["input_ids"] == theirs(text, text)["input_ids"]
        ids = theirs(text_target=text)["input_ids"]
        assert ours(text_target=text)["input_ids"] == ids
        written = [one.decode(ids, skip_special_tokens=True).strip() for one in (ours, theirs)]
        assert written[0] == written[1]
    config = json.loads((folder / "tokenizer_config.json").read_text())
    del config["additional_special_tokens"]
    (folder / "tokenizer_config.json").write_text(json.dumps(config | {"language_codes": "wmt21"}))
    few = gf.load_tokenizer(folder, src_lang="is")
    assert few.get_vocab()["__is__"] == AutoTokenizer.from_pretrained(folder).get_lang_id("is")


@pytest.mark.parametrize(
    ("vocab", "said"),
    [
        (None, "vocab.json is missing, which says which id each piece"),
        ({"<s>": 0, "<pad>": 2}, "does not give each id from 0 to 1 once"),
        ({"<s>": 0, "<pad>": 1, "</s>": 2}, "lacks '<unk>'"),
    ],
)
def test_a_vocabulary_of_m2m_100_that_cannot_be_used(vocab, said, tmp_path):
    folder = write_family("m2m_100", tmp_path).parent
    (folder / "vocab.json").unlink()
    if vocab is not None:
        (folder / "vocab.json").write_text(json.dumps(vocab))
    with pytest.raises(ValueError, match=said):
        gf.load_tokenizer(folder)


def test_a_saved_folder_gives_the_same(family, tmp_path):
    """Here and in transformers, whose class of mBART alone keeps no normalisation."""
    from transformers import AutoTokenizer

    name, ours, _ = family
    ours.save(tmp_path)
    again = gf.load_tokenizer(tmp_path)
    lines = [*CORPUS.splitlines(), "  spaces  and\ttabs ", "Ａ ₿"]
    assert again(lines)["input_ids"] == ours(lines)["input_ids"]
    assert again.batch_decode(again(lines)["input_ids"]) == ours.batch_decode(ours(lines)["input_ids"])
    assert again.all_special_tokens == ours.all_special_tokens
    plain = [line for line in lines[:-2] if name != "mbart" or unicodedata.is_normalized("NFKC", line)]
    (tmp_path / "config.json").write_text(json.dumps({"model_type": FAMILIES[name][2]}))
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    assert [theirs(line)["input_ids"] for line in plain] == ours(plain)["input_ids"]


def test_released_orders_of_special_tokens(tmp_path):
    """The ids that released weights have: T5's sentinels count down, NLLB's languages stand before <mask>."""
    t5 = gf.load_tokenizer(write_family("t5", tmp_path / "t5").parent)
    assert t5.convert_tokens_to_ids(["<pad>", "</s>", "<unk>", "<extra_id_0>"]) == [0, 1, 2, len(t5) - 1]
    nllb = gf.load_tokenizer(write_family("nllb", tmp_path / "nllb").parent, src_lang="deu_Latn")
    last = ["ace_Arab", "deu_Latn", "eng_Latn", "<mask>"]
    assert nllb.convert_tokens_to_ids(last) == [*range(len(nllb) - 4, len(nllb))]
    assert nllb.convert_ids_to_tokens(nllb("the")["input_ids"]) == ["deu_Latn", "▁the", "</s>"]
    pegasus = gf.load_tokenizer(write_family("pegasus", tmp_path / "pegasus").parent)
    assert pegasus.convert_tokens_to_ids(["<mask_1>", "<mask_2>", "<unk_2>", "<unk>"]) == [2, 3, 4, 105]


def test_llama_puts_its_space_as_it_is_told(tmp_path):
    folder = write_family("llama", tmp_path).parent
    both = {}
    for legacy in (True, False):
        (folder / "tokenizer_config.json").write_text(json.dumps({"legacy": legacy, "add_eos_token": True}))
        both[legacy] = gf.load_tokenizer(folder).tokenize("the</s>the", add_special_tokens=True)
    assert both[True] == ["<s>", "▁the", "</s>", "▁the", "</s>"]
    assert both[False] == ["<s>", "▁the", "</s>", "t", "he", "</s>"]


def test_what_cannot_be_read_is_named(tmp_path):
    path = write_family("t5", tmp_path)
    content = path.read_bytes()
    for damaged in (b"", content[:-7], content[:500], b"IQ== 0\nIg== 1\n", b"\x0a" * 40):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="spiece.model is not a SentencePiece model .*download it again"):
            gf.load_tokenizer(tmp_path)
    learn(path, **FAMILIES["t5"][1], model_type="word")
    with pytest.raises(ValueError, match="spiece.model is a SentencePiece model of type WORD; UNIGRAM and BPE are"):
        gf.load_tokenizer(tmp_path)
    learn(path, **FAMILIES["t5"][1], treat_whitespace_as_suffix=True)
    with pytest.raises(ValueError, match="treat_whitespace_as_suffix"):
        gf.load_tokenizer(tmp_path)
    learn(path)
    for kind, told in (("bert", "not read for bert, but for mbart50"), ("pegasus", "does not begin with 2 special")):
        (tmp_path / "config.json").write_text(json.dumps({"model_type": kind}))
        with pytest.raises(ValueError, match=told):
            gf.load_tokenizer(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ValueError, match="a folder that names no model"):
        gf.load_tokenizer(tmp_path)


def test_nllb_without_languages_is_refused(tmp_path):
    folder = write_family("nllb", tmp_path).parent
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "NllbTokenizer"}))
    with pytest.raises(ValueError, match="tokenizer_config.json lists no languages as additional_special_tokens"):
        gf.load_tokenizer(folder)


def test_the_reader_reads_what_sentencepiece_says(family, tmp_path):
    name, _, peer = family
    (tmp_path / "a.model").write_bytes(peer.serialized_model_proto())
    model = read_model(tmp_path / "a.model")
    places = range(len(peer))
    assert [piece.text for piece in model.pieces] == [peer.id_to_piece(index) for index in places]
    assert [piece.score for piece in model.pieces] == [peer.get_score(index) for index in places]
    assert [piece.type.name == "CONTROL" for piece in model.pieces] == [peer.is_control(index) for index in places]
    assert model.byte_fallback == (name in ("byte-t5", "llama"))
    assert bool(model.charsmap) == model.remove_extra_whitespaces == (name != "llama")
