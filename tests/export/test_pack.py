"""pack and unpack: the same model comes out, and nothing does of an archive that was damaged, made up or moved."""

import hashlib
import shutil
import stat
import zipfile
from io import BytesIO
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

import glassformer as gf
from export.sources import small
from families import same_outputs
from glassformer.export.archive import EPOCH, extract, write_archive
from glassformer.export.pack import pack, unpack
from glassformer.zoo import folder_of


@pytest.fixture(scope="module")
def packed(tmp_path_factory) -> Path:
    """An archive of a model with all that may stand beside it."""
    root = tmp_path_factory.mktemp("packed")
    pack("zoo:embed-mini-en", root / "model.gfz")
    return root / "model.gfz"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    """A small archive, of a model without a tokenizer."""
    root = tmp_path_factory.mktemp("tiny")
    pack(gf.save(small("gpt2", "text-generation"), root / "model"), root / "model.gfz")
    return root / "model.gfz"


def test_what_was_packed_comes_out(packed, tmp_path):
    found = unpack(packed, tmp_path / "model")
    assert {"card.toml", "recipe.toml", "tokenizer.json", "golden.safetensors"} <= set(found["files"])
    assert "1_Pooling/config.json" in found["files"]
    assert found["error"] <= 1e-5
    text = "A cat sat on the mat."
    torch.testing.assert_close(gf.embed(text, tmp_path / "model"), gf.embed(text, "zoo:embed-mini-en"))
    same_outputs(gf.load(tmp_path / "model"), gf.load("zoo:embed-mini-en"))


def test_a_folder_that_is_there_is_left_alone(tiny, glassformer, tmp_path):
    """It advises nothing that the command does not have."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    code, _, err = glassformer("unpack", tiny, tmp_path / "out")
    assert (code, err.count("\n")) == (1, 1)
    assert "is there already: choose another folder" in err
    assert "--force" not in err
    assert [one.name for one in (tmp_path / "out").iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("kind", ["zoo:lstm-sentiment", "zoo:gru-attention-en-de", "zoo:bert-mini-zh"])
def test_every_kind_of_model_can_be_packed(kind, glassformer, tmp_path):
    """Also those that no other runtime takes: recurrent ones."""
    code, out, _ = glassformer("pack", kind, tmp_path / "a.gfz")
    assert code == 0
    assert "sha256" in out
    code, out, _ = glassformer("unpack", tmp_path / "a.gfz", tmp_path / "out")
    assert code == 0
    assert "answers as when it was packed" in out


def test_the_same_model_gives_the_same_bytes(packed, tmp_path):
    """Wherever it lies and whenever it was written."""
    shutil.copytree(folder_of("zoo:embed-mini-en"), tmp_path / "elsewhere")
    pack(tmp_path / "elsewhere", tmp_path / "again.gfz")
    assert (tmp_path / "again.gfz").read_bytes() == packed.read_bytes()


@given(place=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
def test_no_byte_can_change_unseen(tiny, tmp_path_factory, place, flip):
    content = bytearray(tiny.read_bytes())
    content[int(place * len(content))] ^= flip
    refused(bytes(content), tmp_path_factory.mktemp("damaged"))


@given(share=st.floats(0, 1, exclude_max=True))
def test_an_archive_cut_short_is_refused(tiny, tmp_path_factory, share):
    content = tiny.read_bytes()
    refused(content[: int(share * len(content))], tmp_path_factory.mktemp("cut"))


def refused(content: bytes, root: Path, match: str | None = None) -> None:
    """An archive of this content is refused in one line, and nothing is left of it."""
    (root / "bad.gfz").write_bytes(content)
    with pytest.raises(ValueError, match=match) as caught:
        unpack(root / "bad.gfz", root / "out" / "model")
    assert "\n" not in str(caught.value)
    assert list((root / "out").iterdir()) == []
    assert sorted(path.name for path in root.iterdir()) == ["bad.gfz", "out"]


def sealed(members: dict[str, bytes], *, mode: int = stat.S_IFREG | 0o644, method: int = zipfile.ZIP_STORED) -> bytes:
    """A zip of any members with a digest that is right, as someone with bad intentions would make it."""
    target = BytesIO()
    with zipfile.ZipFile(target, "w", method) as made:
        for name, content in members.items():
            member = zipfile.ZipInfo(name, EPOCH)
            member.external_attr, member.compress_type = mode << 16, method
            made.writestr(member, content)
        made.comment = b"0" * 64
    body = target.getvalue()[:-64]
    return body + hashlib.sha256(body).hexdigest().encode()


NEEDED = ("archive.json", "config.json", "golden.safetensors", "model.safetensors")
OTHER = b'{"format": "other", "version": 2, "tolerance": 1.0}'
OUTSIDE = ["../a.json", "/a.json", "a/../../b.json", "a\\..\\b.json", "C:a.json", "./a.json", "a//b.json", "a\nb.json"]


@pytest.mark.parametrize("name", OUTSIDE)
def test_no_name_leads_out_of_the_folder(name, tmp_path):
    refused(sealed({name: b"{}"}), tmp_path, "leads out of its folder")


@pytest.mark.parametrize("name", ["model.bin", "modeling.py", "a.json/", "weights.pt", "run"])
def test_nothing_that_could_be_run_is_taken_out(name, tmp_path):
    refused(sealed({name: b"x"}), tmp_path, "no file of a model|leads out")


def test_links_bombs_and_twins_are_refused(tmp_path):
    for number, (content, said) in enumerate(
        [
            (sealed({"a.json": b"/etc/passwd"}, mode=stat.S_IFLNK | 0o777), "no file of a model"),
            (sealed({"a.json": b"0" * 10**6}, method=zipfile.ZIP_DEFLATED), "compressed"),
            (sealed({"a.json": b"{}", "A.json": b"{}"}), "two files of one name"),
            (sealed({f"{n}.json": b"{}" for n in range(65)}), "65 files"),
            (sealed({"a.json": b"{}"}), "holds no archive.json"),
            (sealed(dict.fromkeys(NEEDED, b"{}")), "lacks format, tolerance, version"),
            (sealed(dict.fromkeys(NEEDED, OTHER)), "is a other 2; this program reads"),
            (b"no zip at all", "no archive"),
        ]
    ):
        (tmp_path / str(number)).mkdir()
        refused(content, tmp_path / str(number), said)


def test_a_model_that_answers_otherwise_is_refused(tiny, tmp_path):
    """Its weights were changed, and the digest was made right again."""
    (tmp_path / "model").mkdir()
    extract(tiny, tmp_path / "model")
    weights = load_file(tmp_path / "model" / "model.safetensors")
    weights["transformer.ln_f.bias"] += 0.1
    save_file(weights, tmp_path / "model" / "model.safetensors")
    write_archive(tmp_path / "model", tmp_path / "changed.gfz")
    (tmp_path / "new").mkdir()
    refused((tmp_path / "changed.gfz").read_bytes(), tmp_path / "new", "answers otherwise")


def test_what_is_there_is_not_written_over(tiny, glassformer, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    code, _, err = glassformer("unpack", tiny, tmp_path / "mine")
    assert (code, err.count("\n")) == (1, 1)
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["notes.txt"]
    code, _, err = glassformer("pack", "zoo:lstm-sentiment", tiny)
    assert (code, err.count("\n")) == (1, 1)
    assert "--force" in err
    code, _, err = glassformer("unpack", tmp_path / "none.gfz", tmp_path / "out")
    assert (code, err.count("\n")) == (1, 1)
    assert "there is no file" in err
