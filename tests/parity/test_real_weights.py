"""Real checkpoints: all-MiniLM-L6-v2, and small ones of other families."""

import json
import os
from pathlib import Path

import pytest
import torch
import transformers
from torch.testing import assert_close

import glassformer as gf
from glassformer.inspect.recompute import recompute

pytestmark = pytest.mark.slow

transformers.logging.set_verbosity_error()
TEXTS = [
    "A man is playing a guitar.",
    "Someone plays an instrument on a stage in front of several hundred people.",
    "Yes.",
    "北京是中国的首都。",
]


def test_minilm_equals_transformers(minilm):
    peer = transformers.AutoModel.from_pretrained(minilm, attn_implementation="eager").eval()
    model, tokenizer = gf.load(minilm), gf.load_tokenizer(minilm)
    inputs = tokenizer(TEXTS, padding=True, return_tensors="pt")
    theirs = transformers.AutoTokenizer.from_pretrained(minilm)(TEXTS, padding=True, return_tensors="pt")
    for name in theirs:
        assert_close(inputs[name], theirs[name], atol=0, rtol=0)
    mask = inputs["attention_mask"].bool()
    with torch.no_grad():
        expected = peer(**theirs, output_attentions=True, output_hidden_states=True)
        out = model(**inputs)
        with gf.record(model, "*") as seen:
            model(**inputs)
    assert_close(out.last_hidden_state[mask], expected.last_hidden_state[mask], atol=1e-5, rtol=1e-5)
    assert_close(out.pooler_output, expected.pooler_output, atol=1e-5, rtol=1e-5)
    for ours, other in zip(seen.hidden_states, expected.hidden_states, strict=True):
        assert_close(ours[mask], other[mask], atol=1e-4, rtol=1e-4)
    rows = mask[:, None, :, None]
    for ours, other in zip(seen.attentions, expected.attentions, strict=True):
        assert_close(ours * rows, other * rows, atol=1e-5, rtol=1e-4)


@pytest.fixture
def weights() -> Path:
    folder = Path(os.environ.get("GLASSFORMER_WEIGHTS", Path(__file__).parents[3] / "shared" / "weights"))
    if not folder.is_dir():
        pytest.skip(f"no checkpoints in {folder}; set GLASSFORMER_WEIGHTS to their folder")
    return folder


def test_a_gpt2_that_sorts_letters(weights):
    """minGPT's lesson: six letters in, the same six in order out."""
    model = gf.load(weights / "gpt-nano-sort")
    letters = torch.tensor([[2, 0, 1, 1, 0, 2], [1, 1, 0, 2, 2, 0], [0, 0, 0, 1, 2, 2]])
    state = model.start(letters, length=11)
    ids, found = letters, []
    with torch.inference_mode():
        for _ in range(6):
            logits, state = model.step(ids, state)
            ids = logits[:, -1:].argmax(-1)
            found.append(ids)
    assert_close(torch.cat(found, dim=1), letters.sort(dim=1).values)


def test_a_bart_that_spells_sounds(weights):
    """Graphemes to phonemes with a real encoder-decoder, token for token as transformers generates."""
    folder = weights / "bart-g2p-en-us"
    model = gf.load(folder)
    peer = transformers.BartForConditionalGeneration.from_pretrained(folder).eval()
    spelled = json.loads((folder / "config.json").read_text())
    ids = torch.tensor([[1, *(spelled["grapheme_chars"].index(letter) for letter in "hello"), 2]])
    expected = peer.generate(ids, num_beams=1, do_sample=False, max_new_tokens=20)[0, 1:].tolist()
    state, token, found = model.start(ids, length=30), torch.tensor([[1]]), []
    with torch.inference_mode():
        while len(found) < 20 and (not found or found[-1] != 2):
            logits, state = model.step(token, state)
            token = logits[:, -1:].argmax(-1)
            found.append(int(token))
    assert found == expected
    assert "".join(spelled["phoneme_chars"][number] for number in found).strip("_") == "hˈɛlO"


@pytest.mark.parametrize(("name", "target"), [("gpt-nano-sort", None), ("bart-g2p-en-us", [[2, 11, 12, 13]])])
def test_every_step_of_real_weights_is_the_textbooks(weights, name, target):
    inputs = {"input_ids": torch.tensor([[0, 2, 1, 1, 0]])}
    if target is not None:
        inputs["decoder_input_ids"] = torch.tensor(target)
    rows = recompute(gf.load(weights / name), inputs).rows()
    assert len(rows) > 50
    assert max(row.error for row in rows if row.error is not None) < 1e-5
