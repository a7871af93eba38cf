"""Chat templates: a conversation as the text that a model was trained on, by the Jinja template of its folder.

A template may come from anyone, so it runs in jinja2's sandbox and is shown plain JSON values alone. That keeps it from
files and from Python; it does not keep it from taking long.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Required, TypedDict

from glassformer.files import conform, has_file, read_text

if TYPE_CHECKING:
    import jinja2

DEFAULT, WITH_TOOLS = "default", "tool_use"  # names of templates, where a folder has several
TEMPLATE_FILE, TEMPLATE_FOLDER = "chat_template.jinja", "additional_chat_templates"
MARK = "<CONTINUE HERE> "  # after what is to be continued; a template that trims a message takes its space
Templates = str | dict[str, str]


class NamedTemplate(TypedDict, total=False):
    """One of several templates of a tokenizer_config.json."""

    name: Required[str]
    template: Required[str]


class Message(TypedDict, total=False):
    """A turn of a conversation."""

    role: Required[str]
    content: str | list[dict[str, Any]] | None


def read_templates(path: Path, config: Mapping[str, Any]) -> Templates | None:
    """A folder's templates: chat_template.jinja and additional_chat_templates/, else tokenizer_config.json's."""
    found = {}
    if has_file(path / TEMPLATE_FILE):
        found[DEFAULT] = read_text(path / TEMPLATE_FILE)
    if (path / TEMPLATE_FOLDER).is_dir():
        found |= {file.stem: read_text(file) for file in sorted((path / TEMPLATE_FOLDER).glob("*.jinja"))}
    if not found:
        stated: str | list[NamedTemplate] | None = config.get("chat_template")
        if stated is None or isinstance(stated, str):
            return stated
        found = {one["name"]: one["template"] for one in stated}
    return found[DEFAULT] if list(found) == [DEFAULT] else found


def written_templates(templates: Templates | None) -> dict[str, Any]:
    """Templates as tokenizer_config.json has them."""
    if templates is None or isinstance(templates, str):
        return {"chat_template": templates} if templates else {}
    return {"chat_template": [{"name": name, "template": text} for name, text in templates.items()]}


def chosen(templates: Templates | None, asked: str | None, *, tools: bool) -> str:
    """The template to use: the text or the name that is asked for, or the default of those there are."""
    named = templates if isinstance(templates, dict) else {DEFAULT: templates} if templates else {}
    if asked is not None:
        return named.get(asked, asked)
    for name in ([WITH_TOOLS] if tools else []) + [DEFAULT]:
        if name in named:
            return named[name]
    if named:
        raise ValueError(f"the tokenizer has no default chat template; give chat_template=NAME: {', '.join(named)}")
    raise ValueError("the tokenizer has no chat template: it is not of a chat model; give one as chat_template=TEXT")


def rendered(
    template: str,
    messages: Sequence[Mapping[str, Any]],
    *,
    add_generation_prompt: bool = False,
    continue_final_message: bool = False,
    **variables: Any,
) -> str:
    """A conversation as one text.

    add_generation_prompt: with the words that an answer begins with. continue_final_message: it stops inside the last
    message, which is to be continued. `variables` are what else the template may ask for: tools, documents, and tokens.
    """
    if continue_final_message and add_generation_prompt:
        raise ValueError("add_generation_prompt begins a new message and continue_final_message an old one: give one")
    turns, variables = _plain(messages, "the conversation"), _plain(variables, "a variable of the chat template")
    conform(turns, list[Message], "the conversation")
    if not turns:
        raise ValueError("the conversation is empty: give at least one message")
    last = turns[-1].get("content")
    if continue_final_message:
        if not isinstance(last, str):
            raise ValueError("continue_final_message needs a last message whose content is a text")
        turns[-1]["content"] = last + MARK
    text = _rendered(template, messages=turns, add_generation_prompt=add_generation_prompt, **variables)
    return _before_mark(text) if continue_final_message else text


def _before_mark(text: str) -> str:
    before, mark, after = text.rpartition(MARK.strip())
    if not mark:
        raise ValueError("the chat template leaves out the end of the last message, so it cannot be continued")
    return before if after.startswith(" ") else before.rstrip()  # else the template trims its messages


def _plain(value: Any, what: str) -> Any:
    """A copy in JSON's own types, none of which has methods that could do harm."""
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{what} must be of JSON values alone: {error}") from None


def _rendered(template: str, **values: Any) -> str:
    compiled = _compiled(template)
    try:
        return compiled.render(**values)
    except Exception as error:  # whatever the template does
        line = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"the chat template cannot write this conversation: {line}") from None


@lru_cache(maxsize=16)
def _compiled(template: str) -> "jinja2.Template":
    """A template with what `transformers` gives it: two functions, tojson without HTML, break and continue."""
    try:
        import jinja2
        from jinja2.ext import Extension, loopcontrols
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError:
        raise ValueError("a chat template needs jinja2: pip install 'glassformer[chat]'") from None

    class Generation(Extension):
        """{% generation %} … {% endgeneration %} marks what an assistant said, and leaves it as it is."""

        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: "jinja2.parser.Parser") -> list["jinja2.nodes.Node"]:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    def raise_exception(message: str) -> None:
        raise jinja2.TemplateError(message)

    def tojson(value: Any, ensure_ascii: bool = False, **how: Any) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, **how)

    def strftime_now(form: str) -> str:
        return datetime.now().strftime(form)

    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    made.filters["tojson"] = tojson
    made.globals |= {"raise_exception": raise_exception, "strftime_now": strftime_now}
    try:
        return made.from_string(template)
    except jinja2.TemplateSyntaxError as error:
        raise ValueError(f"the chat template cannot be read, line {error.lineno}: {error.message}") from None


def is_chat(value: object) -> bool:
    """Whether a value is one conversation: messages with roles."""
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) and "role" in one for one in value)
