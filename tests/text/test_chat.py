"""Chat templates write what they write in transformers, and nothing that they should not."""

import sys

import pytest
import transformers

import glassformer as gf
from chats import CHATML, LLAMA_2, LLAMA_3, TEMPLATES, tokenizer_folder

transformers.logging.set_verbosity_error()
SYSTEM = {"role": "system", "content": "Answer  briefly. "}
TURNS = [
    {"role": "user", "content": " Who are <you> & why?\n"},
    {"role": "assistant", "content": "A model, ich weiß. "},
    {"role": "user", "content": "日本語?"},
]
TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}]


def both(folder):
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    return gf.load_tokenizer(folder), theirs


@pytest.mark.parametrize("messages", [TURNS, [SYSTEM, *TURNS], TURNS[:1]])
@pytest.mark.parametrize("style", TEMPLATES)
def test_templates_write_what_transformers_writes(style, messages, tmp_path):
    ours, theirs = both(tokenizer_folder(tmp_path, chat_template=TEMPLATES[style]))
    for how in ({}, {"add_generation_prompt": True}, {"tools": TOOLS}, {"enable_thinking": False, "date": "2 May"}):
        text = theirs.apply_chat_template(messages, tokenize=False, **how)
        assert ours.apply_chat_template(messages, tokenize=False, **how) == text
        assert dict(ours.apply_chat_template(messages, **how)) == dict(theirs.apply_chat_template(messages, **how))
        ids = ours.apply_chat_template(messages, return_dict=False, **how)
        assert ids == ours(text, add_special_tokens=False)["input_ids"]
    some = [messages, TURNS[:1]]
    batch = ours.apply_chat_template(some, padding=True, return_tensors="pt")
    expected = theirs.apply_chat_template(some, padding=True, return_tensors="pt")
    assert batch["input_ids"].tolist() == expected["input_ids"].tolist()
    assert batch["attention_mask"].tolist() == expected["attention_mask"].tolist()


@pytest.mark.parametrize("content", ["It is", "It is ", " It\n"])
@pytest.mark.parametrize("style", TEMPLATES)
def test_a_last_message_is_continued_as_in_transformers(style, content, tmp_path):
    ours, theirs = both(tokenizer_folder(tmp_path, chat_template=TEMPLATES[style]))
    messages = [*TURNS, {"role": "assistant", "content": content}]
    text = ours.apply_chat_template(messages, tokenize=False, continue_final_message=True)
    assert text == theirs.apply_chat_template(messages, tokenize=False, continue_final_message=True)
    assert text.rstrip().endswith(content.strip())
    assert messages[-1]["content"] == content, "what was given stays as it is"


def test_named_templates_are_found_wherever_they_stand(tmp_path):
    listed = [{"name": "default", "template": CHATML}, {"name": "tool_use", "template": LLAMA_3}]
    in_config = tokenizer_folder(tmp_path / "config", chat_template=listed)
    in_files = tokenizer_folder(tmp_path / "files")
    (in_files / "chat_template.jinja").write_text(CHATML, encoding="utf-8")
    (in_files / "additional_chat_templates").mkdir()
    (in_files / "additional_chat_templates" / "tool_use.jinja").write_text(LLAMA_3, encoding="utf-8")
    for folder in (in_config, in_files):
        ours, theirs = both(folder)
        assert ours.chat_template == theirs.chat_template
        ours.save(tmp_path / "saved")
        for one in (ours, gf.load_tokenizer(tmp_path / "saved"), *both(tmp_path / "saved")):
            for how in ({}, {"tools": TOOLS}, {"chat_template": "tool_use"}, {"chat_template": LLAMA_2}):
                expected = theirs.apply_chat_template(TURNS, tokenize=False, **how)
                assert one.apply_chat_template(TURNS, tokenize=False, **how) == expected


def test_a_file_counts_before_the_config(tmp_path):
    folder = tokenizer_folder(tmp_path, chat_template=LLAMA_2)
    (folder / "chat_template.jinja").write_text(CHATML, encoding="utf-8")
    ours, theirs = both(folder)
    assert ours.chat_template == theirs.chat_template == CHATML


@pytest.mark.parametrize(
    ("template", "messages", "how", "said"),
    [
        (None, TURNS, {}, "no chat template: it is not of a chat model"),
        (LLAMA_2, TURNS[1:], {}, "cannot write this conversation: roles must take turns"),
        ("{% for %}", TURNS, {}, "cannot be read, line 1"),
        (CHATML, [], {}, "the conversation is empty"),
        (CHATML, ["hello"], {}, "the conversation"),
        (CHATML, [{"content": "hello"}], {}, "role"),
        (CHATML, [{"role": "user", "content": object()}], {}, "must be of JSON values alone"),
        (CHATML, [{"role": "user", "content": None}], {}, "cannot write this conversation"),
        (CHATML, TURNS, {"tools": [print]}, "must be of JSON values alone"),
        (CHATML, TURNS, {"add_generation_prompt": True, "continue_final_message": True}, "give one"),
        ("{{ messages[0].content[:2] }}", TURNS, {"continue_final_message": True}, "leaves out the end"),
        ("{{ ''.__class__.__mro__ }}", TURNS, {}, "cannot write this conversation"),
        ("{{ messages.append(1) }}", TURNS, {}, "cannot write this conversation"),
        ("{{ messages.__init__.__globals__ }}", TURNS, {}, "cannot write this conversation"),
    ],
)
def test_what_cannot_be_written_is_said_in_a_line(template, messages, how, said, tmp_path):
    tok = gf.load_tokenizer(tokenizer_folder(tmp_path, **({"chat_template": template} if template else {})))
    with pytest.raises(ValueError, match=said) as error:
        tok.apply_chat_template(messages, tokenize=False, **how)
    assert "\n" not in str(error.value)


def test_without_jinja2_the_message_says_what_to_install(tmp_path, monkeypatch):
    tok = gf.load_tokenizer(tokenizer_folder(tmp_path, chat_template=CHATML + "{# alone #}"))
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ValueError, match=r"needs jinja2: pip install 'glassformer\[chat\]'"):
        tok.apply_chat_template(TURNS)
