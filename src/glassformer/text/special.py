"""Special tokens as attributes: `tok.pad_token`, `tok.pad_token_id`, and six more such pairs."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from glassformer.text.backend import RustBackend
    from glassformer.text.folder import TokenizerSettings
    from glassformer.text.marian import MarianBackend
    from glassformer.text.vocabulary import Vocabulary

NAMES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
OTHERS = "additional_special_tokens"
BERT = {
    "unk_token": "[UNK]",
    "sep_token": "[SEP]",
    "pad_token": "[PAD]",
    "cls_token": "[CLS]",
    "mask_token": "[MASK]",
}
ROBERTA = {
    "bos_token": "<s>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "sep_token": "</s>",
    "pad_token": "<pad>",
    "cls_token": "<s>",
    "mask_token": "<mask>",
}
ALBERT = BERT | {"bos_token": "[CLS]", "eos_token": "[SEP]", "unk_token": "<unk>", "pad_token": "<pad>"}
GPT2 = dict.fromkeys(("bos_token", "eos_token", "unk_token"), "<|endoftext|>")
MARIAN = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}


class SpecialToken:
    """A special token by its name; None where the tokenizer has none."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, tokenizer: "Vocabulary", owner: type | None = None) -> str | None:
        return tokenizer.settings.names.get(self.name)

    def __set__(self, tokenizer: "Vocabulary", token: str | None) -> None:
        if token is not None and tokenizer.backend.token_to_id(token) is None:
            raise ValueError(
                f"{self.name} = {token!r} is not in the vocabulary: "
                f"first tok.add_tokens([{token!r}], special_tokens=True)"
            )
        tokenizer.settings.names[self.name] = token
        tokenizer.refresh()


class SpecialId:
    """The id of a special token; None where the tokenizer has none."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name.removesuffix("_id")

    def __get__(self, tokenizer: "Vocabulary", owner: type | None = None) -> int | None:
        token = tokenizer.settings.names.get(self.name)
        return None if token is None else tokenizer.backend.token_to_id(token)

    def __set__(self, tokenizer: "Vocabulary", index: int) -> None:
        setattr(tokenizer, self.name, tokenizer.convert_ids_to_tokens(index))


class SpecialTokens:
    """The seven names that transformers knows, and all that are special."""

    settings: "TokenizerSettings"
    backend: "RustBackend | MarianBackend"

    bos_token, bos_token_id = SpecialToken(), SpecialId()
    eos_token, eos_token_id = SpecialToken(), SpecialId()
    unk_token, unk_token_id = SpecialToken(), SpecialId()
    sep_token, sep_token_id = SpecialToken(), SpecialId()
    pad_token, pad_token_id = SpecialToken(), SpecialId()
    cls_token, cls_token_id = SpecialToken(), SpecialId()
    mask_token, mask_token_id = SpecialToken(), SpecialId()

    @property
    def special_tokens_map(self) -> dict[str, str]:
        """The special tokens that there are, by name."""
        return {name: token for name, token in self.settings.names.items() if token}

    @property
    def additional_special_tokens(self) -> list[str]:
        """Those that have none of the names."""
        return [token for token in self.all_special_tokens if token not in self.settings.names.values()]

    @property
    def all_special_tokens(self) -> list[str]:
        """Special tokens, each once."""
        return list(dict.fromkeys([token for token in self.settings.names.values() if token] + self.settings.extra))

    @property
    def all_special_ids(self) -> list[int]:
        """The ids of the special tokens."""
        ids = (self.backend.token_to_id(token) for token in self.all_special_tokens)
        return [index for index in ids if index is not None]
