"""`glassformer generate --chat`: a conversation, a line for each turn, the answers streamed as they are written."""

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .output import echo, print_json

if TYPE_CHECKING:
    from torch import nn

    from glassformer.text.tokenizer import Tokenizer

LONGEST_ANSWER = 512  # tokens, where nobody says how many and as many fit
RESET = "/reset"


def converse(
    model: "nn.Module",
    tokenizer: "Tokenizer",
    lines: Iterable[str],
    request: dict[str, Any],
    *,
    system: str | None,
    json: bool,
) -> None:
    """Answer each line in view of all that was said before it; /reset begins anew, the system's message stays."""
    first = [] if system is None else [{"role": "system", "content": system}]
    messages = list(first)
    _invite()
    for line in lines:
        if line.strip() == RESET:
            messages = list(first)
        elif line.strip():
            asked = [*messages, {"role": "user", "content": line}]
            try:
                answer = _answer(model, tokenizer, asked, request, shown=not json)
            except ValueError as error:
                if not messages or not sys.stdin.isatty():
                    raise ValueError(f"{error} ({RESET} on a line of its own begins a new conversation)") from None
                echo(f"{error} ({RESET} begins a new conversation)", err=True)
            else:
                messages = [*asked, {"role": "assistant", "content": answer}]
                if json:
                    print_json(messages[-1])
        _invite()


def _invite() -> None:
    if sys.stdin.isatty():
        echo("> ", nl=False, err=True)


def _answer(
    model: "nn.Module", tokenizer: "Tokenizer", messages: list[dict[str, str]], request: dict[str, Any], *, shown: bool
) -> str:
    """The next message of a conversation, said as it is written."""
    import glassformer as gf
    from glassformer.models.contract import as_model

    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    limit = as_model(model).config.max_positions
    if request["max_new_tokens"] is None:
        used = len(tokenizer(prompt, add_special_tokens=False)["input_ids"])
        most = LONGEST_ANSWER if limit is None else max(1, min(LONGEST_ANSWER, limit - used))
        request = {**request, "max_new_tokens": most}
    answer = ""
    for piece in gf.stream(model, tokenizer, prompt, add_special_tokens=False, **request):
        answer += piece
        if shown:
            echo(piece, nl=False)
            sys.stdout.flush()
    if shown:
        echo()
    return answer
