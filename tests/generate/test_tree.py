"""The beam tree: every step's best candidates by the slow way to count, and a path to the text that is found."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import glassformer as gf
from families import SMALL_GPT, random_model, settings_of
from generators import GENERATING, begun, next_logs, sharp, unforced
from glassformer.generate.tree import beam_tree

END, NEW = 3, 5
REQUEST = {"max_new_tokens": NEW, "eos_token_id": END, "pad_token_id": 0, "decoder_start_token_id": 0}


class Ids:
    """A tokenizer of texts that are numbers."""

    def __call__(self, texts, **_):
        return {"input_ids": [list(map(int, text.split())) for text in texts]}

    def encode_prompts(self, texts):
        return self(texts)["input_ids"]

    def decode(self, ids, **_):
        return " ".join(map(str, ids))


@pytest.mark.parametrize(("model_type", "head"), GENERATING)
@settings(max_examples=8)
@given(data=st.data(), seed=st.integers(0, 99), width=st.integers(2, 4))
def test_a_tree_is_the_textbook(model_type, head, data, seed, width):
    model = sharp(unforced(random_model(model_type, head, data.draw(settings_of(model_type)), seed)))
    row = [5, 6, 7]
    tree = beam_tree(model, Ids(), "5 6 7", num_beams=width, **REQUEST)
    live = {None: (0.0, begun(model, row))}
    for number, nodes in enumerate(tree.steps, 1):
        ways = []
        for parent, (score, ids) in live.items():
            logs = next_logs(model, row, ids)
            ways += [(score + float(logs[word]), parent, word, ids) for word in range(len(logs))]
        ways = sorted(ways, key=lambda way: -way[0])[: 2 * width]
        assert [(node.parent, node.token) for node in nodes] == [(parent, word) for _, parent, word, _ in ways]
        assert [node.score for node in nodes] == pytest.approx([score for score, *_ in ways], abs=1e-4)
        over = [word == END or number == NEW for _, _, word, _ in ways]
        going = [place for place, ended in enumerate(over) if not ended][:width]
        fates = ["kept" if place in going else "dropped" for place in range(len(ways))]
        fates[:width] = ["ended" if ended else fate for ended, fate in zip(over[:width], fates[:width], strict=True)]
        assert [node.fate for node in nodes] == fates
        live = {place: (ways[place][0], (*ways[place][3], ways[place][2])) for place in going}
    found = gf.generate(model, None, torch.tensor([row]), num_beams=width, **REQUEST)[0].tolist()
    assert tree.best == found[len(begun(model, row)) :]
    path = tree.path()
    assert [tree.steps[step][place].token for step, place in enumerate(path)] == tree.best
    assert [tree.steps[step + 1][place].parent for step, place in enumerate(path[1:])] == path[:-1]
    assert [tree.steps[step][place].fate for step, place in enumerate(path)] == ["kept"] * (len(path) - 1) + ["ended"]


def test_one_beam_is_no_tree():
    model = random_model(*GENERATING[0], SMALL_GPT)
    with pytest.raises(ValueError, match="give num_beams=4"):
        beam_tree(model, Ids(), "5 6", max_new_tokens=3)
