"""Models as users of transformers try them: device, dtype, parameters, and an answer to what stands elsewhere."""

import pytest
import torch

import glassformer as gf
from families import CASES, SMALL_BERT, SMALL_GPT, VOCABULARY
from glassformer.hub.registry import ARCHITECTURES, skeleton

IDS = torch.tensor([[5, 6, 7]])


@pytest.fixture
def model():
    return gf.build("bert", "text-classification", **SMALL_BERT)


@pytest.mark.parametrize(("model_type", "head"), CASES)
def test_every_model_says_where_it_is_and_of_what(model_type, head):
    architecture = ARCHITECTURES[model_type]
    model = skeleton(architecture, architecture.config.from_hf({"vocab_size": VOCABULARY, **architecture.small}), head)
    assert (model.device, model.dtype) == (torch.device("meta"), torch.float32)
    assert model.to(torch.bfloat16).dtype == torch.bfloat16
    assert model.num_parameters() == sum(one.numel() for one in model.parameters())


@pytest.mark.parametrize(
    ("theirs", "kind", "settings"), [("BertModel", "bert", SMALL_BERT), ("GPT2LMHeadModel", "gpt2", SMALL_GPT)]
)
@pytest.mark.parametrize("exclude_embeddings", [False, True])
def test_parameters_are_counted_as_transformers_counts_them(theirs, kind, settings, exclude_embeddings):
    import transformers

    cls = getattr(transformers, theirs)
    other = cls(cls.config_class(**settings))
    model = gf.build(kind, "text-generation" if kind == "gpt2" else None, **settings)
    for one in (model, other):
        next(one.parameters()).requires_grad_(False)
    for only_trainable in (False, True):
        asked = {"only_trainable": only_trainable, "exclude_embeddings": exclude_embeddings}
        assert model.num_parameters(**asked) == other.num_parameters(**asked)


@pytest.mark.parametrize(
    ("argument", "answer"),
    [
        ({"output_attentions": True}, r'with gf.record\(model, "\*attention.pattern"\) as seen'),
        ({"output_hidden_states": True}, r'with gf.record\(model, "\*"\) as seen'),
        ({"labels": IDS}, "a loss is a task's"),
        ({"use_cache": True}, r"model.step\(ids, state\)"),
        ({"return_dict": False}, "named tuples"),
    ],
)
def test_what_stands_elsewhere_is_named(model, argument, answer):
    with pytest.raises(ValueError, match=answer) as error:
        model(IDS, **argument)
    assert "\n" not in str(error.value)


def test_the_answers_are_true(model):
    from glassformer.models.pretrained import ANSWERS

    for name in ("output_attentions", "output_hidden_states"):
        block, _, then = ANSWERS[name].partition(" — then ")
        found = {"gf": gf, "model": model, "inputs": {"input_ids": IDS}}
        exec(block, found)
        assert len(eval(then, found)) == SMALL_BERT["num_hidden_layers"] + (name == "output_hidden_states")


def test_an_argument_that_asks_for_nothing_is_taken(model):
    asked = {"output_attentions": False, "output_hidden_states": None, "return_dict": True, "use_cache": False}
    torch.testing.assert_close(model(IDS, **asked).logits, model(IDS).logits)


def test_an_unknown_argument_or_method_is_answered_with_what_there_is(model):
    with pytest.raises(TypeError, match="takes no 'qqq'; it takes: input_ids, attention_mask, token_type_ids"):
        model(IDS, qqq=IDS)
    with pytest.raises(AttributeError, match=r"no save_pretrained; use gf.save\(model, folder, tokenizer=tok\)"):
        model.save_pretrained("folder")
    with pytest.raises(TypeError, match="Encoder takes no 'attention_masks'; near it: attention_mask"):
        model(IDS, attention_masks=IDS)
    with pytest.raises(AttributeError, match="'qqq'"):
        _ = model.qqq


def test_a_config_answers_to_the_names_of_transformers(model):
    assert model.config.num_labels == 2
    assert model.config.label2id == {"LABEL_0": 0, "LABEL_1": 1}
    assert gf.build("bert", "text-classification", **SMALL_BERT | {"id2label": {0: "a", 1: "a"}}).config.num_labels == 2
    assert model.config.to_dict()["hidden_size"] == SMALL_BERT["hidden_size"]


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda folder: gf.load(folder, torch_dtype="float16"), "load takes no torch_dtype: it is called dtype"),
        (lambda folder: gf.load(folder, trust_remote_code=True), "code that a folder brings is never run"),
        (lambda folder: gf.load(folder, num_labels=3), "labels=3 is their number"),
        (lambda folder: gf.load(folder, heads=None), "load takes no 'heads'; near it: head"),
        (lambda folder: gf.load(folder, output_attentions=True), "gf.record"),
        (lambda folder: gf.load_tokenizer(folder, padding_side="left"), 'tok.padding_side = "left"'),
        (lambda folder: gf.load_tokenizer(folder, lang="de"), "load_tokenizer takes no 'lang'; near it: .*src_lang"),
    ],
)
def test_arguments_of_from_pretrained_are_answered(minilm, ask, message):
    with pytest.raises(TypeError, match=message) as error:
        ask(minilm)
    assert "\n" not in str(error.value)


def test_to_ask_for_nothing_is_no_mistake(minilm):
    assert gf.load(minilm, trust_remote_code=False, device_map=None).num_parameters() > 0


@pytest.mark.parametrize(
    ("name", "call"),
    {
        "AutoModelForSequenceClassification": r"gf.load\(folder\)",
        "AutoTokenizer": r"gf.load_tokenizer\(folder\)",
        "SentenceTransformer": r"gf.embed\(texts, folder\)",
        "Trainer": "gf.train",
    }.items(),
)
def test_classes_of_transformers_are_answered_with_the_function(name, call):
    with pytest.raises(AttributeError, match=f"glassformer has no '{name}'; .*{call}"):
        getattr(gf, name)
