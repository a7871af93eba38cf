"""A conversation as text generation reads it: messages in, messages and the answer out."""

from dataclasses import dataclass
from typing import Any, Self

from glassformer.text.chat import is_chat
from glassformer.text.tokenizer import Tokenizer

ASSISTANT = "assistant"


@dataclass(frozen=True)
class Conversation:
    """Messages, dicts with role and content; a last one of the assistant's is to be continued."""

    messages: list[dict[str, Any]]

    @classmethod
    def of(cls, given: object) -> Self | None:
        """A conversation, or a list of messages, as one; None for anything else."""
        if isinstance(given, cls):
            return given
        return cls(given) if is_chat(given) else None  # type: ignore[arg-type]

    @property
    def is_begun(self) -> bool:
        """Whether the assistant's answer is there in part."""
        return bool(self.messages[-1]["role"] == ASSISTANT)

    def prompt(self, tokenizer: Tokenizer) -> str:
        """The text to go on from, by the tokenizer's chat template."""
        begun = self.is_begun
        return tokenizer.apply_chat_template(  # type: ignore[no-any-return]
            self.messages, tokenize=False, add_generation_prompt=not begun, continue_final_message=begun
        )

    def answered(self, text: str) -> list[dict[str, Any]]:
        """All messages, with what was written."""
        *before, last = self.messages
        if self.is_begun:
            return [*before, {**last, "content": last["content"] + text}]
        return [*self.messages, {"role": ASSISTANT, "content": text}]
