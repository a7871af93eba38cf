"""The commands, as a person types them: what they print, their exit codes, their errors in one line."""

import json
import subprocess
import sys

import pytest

import glassformer as gf
from families import SMALL_BERT, SMALL_GPT, random_model
from glassformer.cli.main import main
from glassformer.data.examples import Document
from glassformer.tasks.text_generation import TextGeneration
from glassformer.text.train import train
from glassformer.view.labels import escaped
from tasks.language import learn, small_gpt, tokenizer_of


@pytest.fixture
def folder(tmp_path):
    return gf.save(random_model("bert", "fill-mask", SMALL_BERT), tmp_path / "model")


def test_bert_base_has_the_published_parameters(glassformer, tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "bert", "architectures": ["BertModel"]}')
    code, out, _ = glassformer("show", tmp_path)
    assert code == 0
    for words in ("109,482,240", "21.77%", "77.69%", "0.54%", "0-11: Layer", "query: Linear 768 × 768"):
        assert words in out
    _, out, _ = glassformer("show", tmp_path, "--json")
    shown = json.loads(out)
    assert shown["parameters"] == shown["trainable"] == 109_482_240
    assert [part["name"] for part in shown["components"]] == ["embeddings", "encoder", "pooler"]


@pytest.mark.few(2)
@pytest.mark.parametrize("model_type", ["gpt2", "distilbert", "roberta", "marian", "bart"])
def test_show_counts_as_transformers_does(glassformer, tmp_path, model_type):
    import torch
    import transformers

    from glassformer.hub.registry import ARCHITECTURES

    config = transformers.AutoConfig.for_model(model_type)
    head = next(name for name in ARCHITECTURES[model_type].heads if name)
    cls = getattr(transformers, ARCHITECTURES[model_type].heads[head].hf_class)
    with torch.device("meta"):
        peer = cls(config)
    config.architectures = [cls.__name__]
    config.save_pretrained(tmp_path)
    _, out, _ = glassformer("show", tmp_path, "--json")
    fixed = sum(p.numel() for name, p in peer.named_parameters() if not p.requires_grad)
    assert json.loads(out)["parameters"] == peer.num_parameters() - fixed


def test_verify_holds_on_a_sound_model(glassformer, folder):
    code, out, _ = glassformer("verify", folder)
    assert code == 0
    assert "parity with transformers" in out
    assert "BREACH" not in out
    code, out, _ = glassformer("verify", folder, "--json")
    report = json.loads(out)
    assert report["holds"]
    assert {row["law"] for row in report["laws"]} >= {
        "padding is invisible",
        "fused = readable",
        "saved and loaded again",
    }
    assert all(row["error"] < 1e-5 for row in report["laws"])


def test_verify_says_which_law_is_broken(glassformer, folder):
    code, out, err = glassformer("verify", folder, "--tolerance", "1e-30")
    assert code == 1
    assert "BREACH" in out
    assert "broken: padding is invisible" in err


def test_verify_runs_on_every_kind_of_model(glassformer, tmp_path):
    model = gf.build("glassformer-rnn", "text-generation", vocab_size=30, kind="gru", hidden_size=16, embedding_size=8)
    code, out, _ = glassformer("verify", gf.save(model, tmp_path))
    assert code == 0
    assert "stepwise = fused" in out
    assert "prepared = model" in out
    assert "transformers does not know this model" in out


@pytest.fixture
def speaker(tmp_path):
    """A small language model that can be talked to."""
    (tmp_path / "corpus.txt").write_text("the cat sat on the mat. 猫坐在垫子上。\n" * 20, encoding="utf-8")
    tokenizer = train([tmp_path / "corpus.txt"], kind="bpe", vocab_size=300)
    model = random_model("gpt2", "text-generation", SMALL_GPT | {"vocab_size": 300})
    return gf.save(model, tmp_path / "speaker", tokenizer=tokenizer)


def test_generate_streams_the_whole_text(glassformer, speaker):
    code, out, _ = glassformer("generate", speaker, "the cat", "--max-new-tokens", 8)
    model, tokenizer = gf.load(speaker), gf.load_tokenizer(speaker)
    assert code == 0
    assert out == gf.generate(model, tokenizer, "the cat", max_new_tokens=8) + "\n"


def test_generate_several_texts_from_a_file_as_json(glassformer, speaker, tmp_path):
    (tmp_path / "prompts.txt").write_text("the cat\n猫\n", encoding="utf-8")
    words = ("--n", 2, "--max-new-tokens", 5, "--file", tmp_path / "prompts.txt", "--json")
    for strategy in (("--strategy", "beam"), ("--strategy", "sample", "--top-p", 0.9, "--seed", 1)):
        code, out, _ = glassformer("generate", speaker, *words, *strategy)
        rows = [json.loads(line) for line in out.splitlines()]
        assert code == 0
        assert [row["prompt"] for row in rows] == ["the cat", "猫"]
        assert all(len(row["texts"]) == 2 and row["texts"][0].startswith(row["prompt"]) for row in rows)


PROMPTS = ["the cat sat", "the", "猫", "the cat sat on the mat. " * 4, "the mat", "on the mat"]


@pytest.mark.parametrize("way", [(), ("--strategy", "beam"), ("--n", 2, "--strategy", "beam")])
def test_prompts_of_a_file_are_answered_together_as_each_would_be_alone(glassformer, speaker, tmp_path, way):
    """Also one that leaves less than fifty tokens of the model's positions."""
    model = random_model("gpt2", "text-generation", SMALL_GPT | {"vocab_size": 300, "n_positions": 70})
    gf.save(model, speaker)
    (tmp_path / "prompts.txt").write_text("\n".join(PROMPTS), encoding="utf-8")
    together = [glassformer("generate", speaker, "--file", tmp_path / "prompts.txt", *way, "--batch-size", 4)]
    alone = [glassformer("generate", speaker, text, *way) for text in PROMPTS]
    assert {code for code, _, _ in (*together, *alone)} == {0}
    assert together[0][1] == "".join(out for _, out, _ in alone)


def test_prompts_of_a_file_have_their_own_scores_and_steps(glassformer, speaker, tmp_path):
    (tmp_path / "prompts.txt").write_text("\n".join(PROMPTS[:3]), encoding="utf-8")
    words = ("--json", "--logprobs", 2, "--max-new-tokens", 6)
    _, out, _ = glassformer("generate", speaker, "--file", tmp_path / "prompts.txt", *words)
    for line, text in zip(out.splitlines(), PROMPTS, strict=False):
        together, alone = json.loads(line), json.loads(glassformer("generate", speaker, text, *words)[1])
        assert together["prompt"] == text
        assert together["texts"] == alone["texts"]
        assert together["scores"] == pytest.approx(alone["scores"], abs=1e-4)
        assert [one["id"] for one in together["steps"][0]] == [one["id"] for one in alone["steps"][0]]


STRATEGIES = {
    "greedy": ({}, []),
    "sample": ({"top_p": 0.9, "seed": 1}, ["--top-p", 0.9, "--seed", 1]),
    "beam": ({"num_beams": 3, "length_penalty": 2.0}, ["--num-beams", 3, "--length-penalty", 2]),
    "diverse": ({"num_beams": 4, "num_beam_groups": 4, "diversity_penalty": 2.0},
                ["--num-beam-groups", 4, "--diversity-penalty", 2]),
    "contrastive": ({"penalty_alpha": 0.5, "top_k": 6}, ["--penalty-alpha", 0.5, "--top-k", 6]),
    "speculative": ({"prompt_lookup_num_tokens": 10}, []),
}  # fmt: skip


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_generate_has_every_strategy(glassformer, speaker, strategy):
    request, words = STRATEGIES[strategy]
    code, out, _ = glassformer("generate", speaker, "the cat", "--strategy", strategy, *words, "--max-new-tokens", 8)
    model, tokenizer = gf.load(speaker), gf.load_tokenizer(speaker)
    assert code == 0
    written = gf.generate(model, tokenizer, "the cat", max_new_tokens=8, **request)
    assert out == escaped(written, keep="\n\t") + "\n"


def test_generate_writes_the_words_it_must(glassformer, speaker):
    words = ("--strategy", "constrained", "--must", "mat", "--must", "猫", "--max-new-tokens", 12)
    code, out, _ = glassformer("generate", speaker, "the cat", *words)
    assert code == 0
    assert "mat" in out
    assert "猫" in out


def test_generate_is_greedy_where_the_folder_wishes_for_beams(glassformer, speaker):
    plain = glassformer("generate", speaker, "the cat", "--max-new-tokens", 9)
    (speaker / "generation_config.json").write_text('{"num_beams": 4}')
    assert glassformer("generate", speaker, "the cat", "--max-new-tokens", 9) == plain


def test_generate_writes_texts_of_a_kind(glassformer, tmp_path):
    """A model that has learnt its labels by heart says what belongs to each; the label itself is never shown."""
    documents = [Document("a day in May", label="good"), Document("a day in bed", label="bad")] * 16
    task = TextGeneration.for_data(tokenizer_of([one.text for one in documents], "bpe"), documents, packing=False)
    model = small_gpt(len(task.tokenizer), **task.settings())
    learn(model, task, task.encode(documents), steps=80, lr=1e-2, rows=8)
    folder = gf.save(model, tmp_path / "speaker", tokenizer=task.tokenizer)
    words = ("generate", folder, "a day", "--max-new-tokens", 8)
    for label, text in (("good", "a day in May"), ("bad", "a day in bed")):
        assert glassformer(*words, "--condition", label)[1] == text + "\n"
        assert json.loads(glassformer(*words, "--condition", label, "--json")[1])["texts"] == [text]
        two = glassformer(*words, "--condition", label, "--strategy", "beam", "--n", 2)[1]
        assert two.startswith(f"{text}\n---\n")
    code, _, err = glassformer(*words, "--condition", "odd")
    assert code == 1
    assert err == "error: the model knows no condition 'odd'; it knows bad, good\n"


def test_generate_knows_no_kinds_where_none_were_learnt(glassformer, speaker):
    code, out, err = glassformer("generate", speaker, "the", "--condition", "good")
    assert (code, out) == (1, "")
    assert "it knows none: train it on labelled texts" in err


def test_generate_with_a_draft_writes_the_same(glassformer, speaker):
    plain = glassformer("generate", speaker, "the cat", "--max-new-tokens", 9)
    assert (
        glassformer(
            "generate", speaker, "the cat", "--max-new-tokens", 9, "--strategy", "speculative", "--draft", speaker
        )
        == plain
    )


def test_generate_stops_and_tells_its_reasons(glassformer, speaker):
    free = glassformer("generate", speaker, "the cat", "--max-new-tokens", 20)[1]
    stop = next(letter for letter in free[len("the cat") :] if letter.isascii() and letter.isprintable())
    words = ("generate", speaker, "the cat", "--max-new-tokens", 20, "--stop", stop)
    stopped = glassformer(*words)[1]
    assert len(stopped) < len(free)
    _, out, _ = glassformer(*words, "--logprobs", 2, "--json")
    told = json.loads(out)
    assert told["texts"] == [stopped.removesuffix("\n")]
    assert told["scores"][0] == pytest.approx(sum(step["logprob"] for step in told["steps"][0]), abs=1e-4)
    assert all(len(step["top"]) == 2 for step in told["steps"][0])
    _, out, _ = glassformer(*words, "--logprobs", 2)
    assert out.startswith(stopped)
    assert f"{told['steps'][0][0]['logprob']:.3f}" in out
    assert glassformer("generate", speaker, "the", "--max-time", 1e-9)[1] != ""


def test_generate_explains_what_it_cannot_do(glassformer, speaker, folder):
    assert "add --strategy sample" in glassformer("generate", speaker, "the", "--top-p", 0.9)[2]
    assert "add --strategy constrained" in glassformer("generate", speaker, "the", "--must", "cat")[2]
    assert "add --must WORD" in glassformer("generate", speaker, "the", "--strategy", "constrained")[2]
    assert "not both" in glassformer("generate", speaker, "the", "--file", "x")[2]
    assert "max_new_tokens=" in glassformer("generate", speaker, "the", "--max-new-tokens", 999)[2]
    assert "there is no file 'nowhere'" in glassformer("generate", speaker, "--file", "nowhere")[2]
    gf.load_tokenizer(speaker).save(folder)
    code, out, err = glassformer("generate", folder, "the")
    assert (code, out) == (1, "")  # the prompt is not begun
    assert "a model with head 'fill-mask' does not generate" in err


def test_models_lists_local_folders(glassformer, folder):
    code, out, _ = glassformer("models", folder.parent, "--json")
    assert code == 0
    found = [model for model in json.loads(out) if model["where"] == "local"]
    assert [(model["model_type"], model["head"]) for model in found] == [("bert", "BertForMaskedLM")]
    assert found[0]["bytes"] > 1000
    assert str(folder) in glassformer("models", folder.parent)[1]


def test_doctor_tells_the_settings(glassformer, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_ENDPOINT", "https://mirror.example")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    (tmp_path / "file").write_bytes(b"x" * 2500)
    code, out, _ = glassformer("doctor", "--json")
    facts = json.loads(out)
    assert code == 0
    assert facts["endpoint"].startswith("https://mirror.example")
    assert facts["cache_size"] == "2.5 KB"
    assert facts["token"] == "set"
    assert "hf_secret" not in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["show", "./nowhere"], "there is no folder './nowhere'"),
        (["verify", "some/name"], "HF_HUB_OFFLINE is set"),
        (["models", "./nowhere"], "there is no folder 'nowhere'"),
    ],
)
def test_what_goes_wrong_is_one_line(glassformer, words, message):
    code, out, err = glassformer(*words)
    assert code == 1
    assert message in err
    assert err.startswith("error: ")
    assert len(err.strip().splitlines()) == 1
    assert out == ""


def test_debug_shows_the_traceback(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["glassformer", "show", "./nowhere", "--debug"])
    with pytest.raises(ValueError, match="there is no folder"):
        main()


def test_unknown_words_exit_with_2(glassformer):
    assert glassformer("frobnicate")[0] == 2
    assert glassformer("show")[0] == 2


@pytest.mark.parametrize("command", ["generate", "translate", "inspect", "heads", "show", "verify", "models", "doctor"])
def test_every_command_has_an_example(glassformer, command):
    code, out, _ = glassformer(command, "--help")
    assert code == 0
    assert f"Example: glassformer {command}" in " ".join(out.replace("│", " ").split())


def test_help_and_import_do_not_load_torch():
    code = "import sys, glassformer.cli.main; print(sorted({'torch', 'numpy', 'tokenizers'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    done = subprocess.run(
        [sys.executable, "-m", "glassformer", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == f"glassformer {gf.__version__}"
