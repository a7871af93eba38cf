"""Saving: a folder holds the whole model, or nothing is written."""

import pytest
import torch
import transformers
from torch.testing import assert_close

import glassformer as gf
from families import SMALL_BERT, SMALL_GPT, random_model, same_outputs, sequences
from glassformer.inspect.laws import pad, run
from glassformer.text.train import train

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()


def test_a_bart_shape_that_bart_cannot_hold_is_saved_as_our_own(tmp_path):
    model = gf.build(
        "glassformer-transformer",
        "text2text-generation",
        vocab_size=41,
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        positions="learned",
        position_offset=2,
        norm_embedding=True,
        share_encoder_decoder_embeddings=False,
        decoder_vocab_size=44,
    )
    again = gf.load(gf.save(model, tmp_path))
    assert again.config == model.config
    same_outputs(model, again)


def test_saving_what_could_not_be_loaded_is_refused(tmp_path):
    resized, untied, extended = (gf.build("bert", "fill-mask", **SMALL_BERT) for _ in range(3))
    resized.embeddings.token = torch.nn.Embedding(50, 12)
    untied.head.decoder.weight = torch.nn.Parameter(torch.randn(41, 12))
    extended.extra = torch.nn.Linear(2, 2)
    reasons = {resized: r"by config \[41, 12\]", untied: "no longer tied", extended: "extra.weight is extra"}
    for model, message in reasons.items():
        with pytest.raises(ValueError, match=message):
            gf.save(model, tmp_path)
    with pytest.raises(ValueError, match="a Linear has no config"):
        gf.save(extended.extra, tmp_path)
    assert not any(tmp_path.iterdir())


def test_a_model_with_compiled_parts_is_saved_under_its_own_names(tmp_path):
    model = random_model("bert", None, SMALL_BERT)
    expected = run(model, *pad(sequences(), model))
    model.layers[0] = torch.compile(model.layers[0], backend="eager")
    again = gf.load(gf.save(torch.compile(model, backend="eager"), tmp_path))
    for name, value in run(again, *pad(sequences(), again)).items():
        assert_close(value, expected[name])


def test_question_answering_has_two_outputs_whatever_labels_there_were(tmp_path):
    folder = gf.save(random_model("bert", "text-classification", SMALL_BERT | {"num_labels": 3}), tmp_path / "nli")
    gf.save(gf.load(folder, head="question-answering"), tmp_path / "qa")
    assert transformers.BertForQuestionAnswering.from_pretrained(tmp_path / "qa").config.num_labels == 2


@pytest.mark.parametrize(("model_type", "segments"), [("gpt2", False), ("bert", True)])
def test_a_saved_tokenizer_gives_what_its_model_takes(model_type, segments, tmp_path):
    (tmp_path / "corpus.txt").write_text("the cat sat on the mat\n" * 50)
    tokenizer = train([tmp_path / "corpus.txt"], kind="wordpiece", vocab_size=41)
    model = random_model(model_type, None, SMALL_GPT if model_type == "gpt2" else SMALL_BERT)
    folder = gf.save(model, tmp_path / "model", tokenizer=tokenizer)
    inputs = gf.load_tokenizer(folder)(["the cat", "the"], padding=True, return_tensors="pt")
    assert ("token_type_ids" in inputs) is segments
    assert gf.load(folder)(**inputs).last_hidden_state.shape[0] == 2


@pytest.mark.parametrize(
    ("model_type", "head", "settings"), [("bert", "fill-mask", SMALL_BERT), ("gpt2", "text-generation", SMALL_GPT)]
)
def test_saving_over_the_loaded_folder_and_training_on(model_type, head, settings, tmp_path):
    """The weights are mapped from the file that is being replaced."""
    folder = gf.save(random_model(model_type, head, settings), tmp_path)
    model = gf.load(folder)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    gf.save(model, folder)
    same_outputs(model, gf.load(folder))
    assert not [path for path in folder.iterdir() if "partial" in path.name]
