"""Prompts begin with BOS where the tokenizer puts one; conversations are answered by the chat template."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
import transformers
from typer.testing import CliRunner

import glassformer as gf
from chats import CHATML, LLAMA_2, LLAMA_3, llama_folder, tokenizer_folder
from glassformer.cli.main import app
from glassformer.data.examples import Document
from glassformer.data.shard_writer import tokenise_to_shards
from glassformer.jobs.reading import reading
from glassformer.tasks.text_generation import TextGeneration

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
SHORT = {"max_new_tokens": 8}
ASKED = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello there"}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return llama_folder(tmp_path_factory.mktemp("llama"), chat_template=LLAMA_3)


@pytest.fixture(scope="module")
def peer(folder):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.LlamaForCausalLM.from_pretrained(folder).eval()
    return transformers.pipeline("text-generation", model=model, tokenizer=tokenizer, **SHORT, do_sample=False)


# BOS.


@pytest.mark.parametrize(("bos", "eos"), [(True, False), (True, True), (False, False), (False, True)])
def test_a_prompt_has_the_bos_of_its_tokenizer_and_no_end(bos, eos, tmp_path):
    tok = gf.load_tokenizer(tokenizer_folder(tmp_path, bos=bos, eos=eos))
    first = [tok.bos_token_id] if bos else []
    plain = tok("ab", add_special_tokens=False)["input_ids"]
    assert tok.bos_ids == first
    assert tok.encode_prompts(["ab", "<s>ab", ""]) == [first + plain, [tok.bos_token_id, *plain], first]


def test_what_is_before_a_text_and_no_bos_is_left_out(tmp_path):
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ncat\n")
    assert gf.load_tokenizer(tmp_path).encode_prompts(["cat"]) == [[5]]


def test_texts_go_on_as_in_transformers(folder, peer):
    model, tok = gf.load(folder), gf.load_tokenizer(folder)
    prompts = ["Once upon", "A much longer prompt, so that"]
    for prompt in prompts:
        (theirs,) = peer(prompt)
        assert peer.tokenizer(prompt)["input_ids"][0] == tok.bos_token_id
        ids = torch.tensor([peer.tokenizer(prompt)["input_ids"]])
        expected = gf.generate(model, None, ids, **SHORT)[0]
        assert tok.decode(expected, skip_special_tokens=True) == theirs["generated_text"]
        assert gf.generate(model, tok, prompt, **SHORT) == theirs["generated_text"]
        assert prompt + "".join(gf.stream(model, tok, prompt, **SHORT)) == theirs["generated_text"]
        assert gf.pipeline("text-generation", folder)(prompt, **SHORT) == [theirs]
        assert gf.generate(model, tok, "<s>" + prompt, **SHORT) == theirs["generated_text"]
    assert gf.pipeline("text-generation", folder)(prompts, **SHORT) == peer(prompts)
    without = gf.generate(model, tok, prompts[0], add_special_tokens=False, **SHORT)
    expected = gf.generate(model, None, torch.tensor([tok(prompts[0], add_special_tokens=False)["input_ids"]]), **SHORT)
    assert without == tok.decode(expected[0], skip_special_tokens=True)
    assert without != gf.generate(model, tok, prompts[0], **SHORT)


def test_a_trace_reads_what_generation_reads(folder):
    model, tok = gf.load(folder), gf.load_tokenizer(folder)
    read = reading(model, tok, "ab")
    assert read.inputs["input_ids"].tolist() == tok.encode_prompts(["ab"])
    assert read.tokens["read"].texts == ["<s>", "a", "b"]


def test_documents_are_learnt_after_bos(folder, tmp_path):
    tok = gf.load_tokenizer(folder)
    documents = [Document("ab"), Document("c")]
    bos, end = tok.bos_token_id, tok.eos_token_id
    a, b, c = tok("abc", add_special_tokens=False)["input_ids"]
    stream = [bos, a, b, end, bos, c, end]
    task = TextGeneration(tok, block_size=6)
    assert task.encode(documents).windows.ids.tolist() == stream
    shards = tokenise_to_shards(documents, tok, tmp_path, **task.frame._asdict())
    assert task.encode(shards).windows.ids[:].tolist() == stream
    rows = TextGeneration(tok, block_size=6, packing=False)
    items = rows.encode(documents)
    for seed in (None, 0, 1, 2, 3):
        batch = rows.batch(items, np.array([0, 1]), seed)
        assert batch.inputs["input_ids"].tolist() == [[bos, a, b], [bos, c, end]]
        assert batch.targets["labels"].tolist() == [[a, b, end], [c, end, -100]]
    assert TextGeneration.model_settings(tok, task.spec)["bos_token_id"] == bos
    kinds = TextGeneration(tok.adapted(special_tokens=["<|glad|>"]), conditions=["glad"])
    assert kinds.condition_prefix("glad") == "<s><|glad|>"


# Conversations.


@pytest.mark.parametrize("template", [LLAMA_3, LLAMA_2, CHATML])
def test_a_pipeline_answers_as_that_of_transformers(template, folder, peer):
    pipe = gf.pipeline("text-generation", folder)
    pipe.task.tokenizer.chat_template = peer.tokenizer.chat_template = template
    assert pipe(ASKED, **SHORT) == peer(ASKED)
    (found,) = pipe(ASKED, **SHORT)
    assert found["generated_text"][:-1] == ASKED
    assert found["generated_text"][-1]["role"] == "assistant"
    begun = [*ASKED, {"role": "assistant", "content": "I am"}]
    assert pipe(begun, **SHORT) == peer(begun)
    assert pipe(begun, **SHORT)[0]["generated_text"][-1]["content"].startswith("I am")
    assert pipe([ASKED, begun], **SHORT) == peer([ASKED, begun])
    assert pipe(ASKED, return_full_text=False, **SHORT) == peer(ASKED, return_full_text=False)


def test_conversations_and_prompts_are_not_mixed(folder):
    pipe = gf.pipeline("text-generation", folder)
    with pytest.raises(ValueError, match="without prompts of another kind"):
        pipe([ASKED, "a prompt"], **SHORT)


def run(folder, *options, lines=None):
    found = CliRunner().invoke(app, ["generate", str(folder), "--chat", *options], input=lines)
    assert found.exit_code == 0, found.output
    return found.stdout


def test_the_command_keeps_the_conversation_until_reset(folder):
    pipe = gf.pipeline("text-generation", folder)
    messages, expected = [ASKED[0]], []
    for line in ("Hello", "and then"):
        messages = pipe([*messages, {"role": "user", "content": line}], **SHORT)[0]["generated_text"]
        expected.append(messages[-1])
    options = ("--max-new-tokens", "8", "--system", ASKED[0]["content"])
    said = run(folder, *options, "--json", lines="Hello\n\nand then\n/reset\nHello\n")
    answers = [json.loads(line) for line in said.splitlines()]
    assert answers == [*expected, expected[0]]
    assert expected[1] != expected[0]
    assert json.loads(run(folder, *options, "Hello", "--json")) == expected[0]


@pytest.mark.slow
def test_the_command_answers_in_a_pipe(folder):
    call = [sys.executable, "-m", "glassformer", "generate", str(folder), "--chat", "--max-new-tokens", "3"]
    with subprocess.Popen(call, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        for line in ("Hello", "and then"):  # each is answered before the next is asked
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
            assert process.stdout.readline().endswith("\n")
        process.stdin.close()
    assert process.returncode == 0


def test_a_model_without_a_template_says_so(tmp_path):
    folder = llama_folder(tmp_path)
    found = CliRunner().invoke(app, ["generate", str(folder), "--chat"], input="Hello\n")
    assert found.exit_code != 0
    assert "no chat template" in str(found.exception) + found.output
    with pytest.raises(ValueError, match="no chat template"):
        gf.pipeline("text-generation", folder)(ASKED)


def test_a_conversation_that_is_too_long_says_how_to_begin_anew(folder):
    found = CliRunner().invoke(app, ["generate", str(folder), "--chat"], input="Hello\n" + "long " * 60 + "\n")
    assert found.exit_code != 0
    assert "/reset on a line of its own begins a new conversation" in str(found.exception) + found.output
