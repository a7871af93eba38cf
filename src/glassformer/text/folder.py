"""Read a tokenizer folder: tokenizer.json, or the older vocab.txt, vocab.json with merges.txt, SentencePiece model."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Required, TypedDict

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors

from glassformer.files import has_file, read_json, read_text
from glassformer.files.schema import Bounds
from glassformer.text.chat import NamedTemplate, Templates, read_templates
from glassformer.text.languages import Languages
from glassformer.text.rust import read_tokenizer, read_vocabulary
from glassformer.text.sentencepiece_folder import FAMILIES, SENTENCEPIECE_FILES, Asked, family_of, from_sentencepiece
from glassformer.text.sentinels import NUMBER, sentinel_tokens
from glassformer.text.special import ALBERT, BERT, GPT2, MARIAN, NAMES, ROBERTA

NO_LIMIT = int(1e30)  # what transformers calls the length of a model that states none


class TokenFlags(TypedDict, total=False):
    """A special token written as an object."""

    content: Required[str]
    single_word: bool
    lstrip: bool
    rstrip: bool
    normalized: bool
    special: bool


Token = str | TokenFlags
Side = Literal["left", "right"]


class SpecialTokensMap(TypedDict, total=False):
    """special_tokens_map.json."""

    bos_token: Token
    eos_token: Token
    unk_token: Token
    sep_token: Token
    pad_token: Token
    cls_token: Token
    mask_token: Token
    additional_special_tokens: list[Token]


class TokenizerConfig(SpecialTokensMap, total=False):
    """What is looked at in tokenizer_config.json."""

    tokenizer_class: str
    model_max_length: Annotated[float, Bounds(1)]
    model_input_names: list[str]
    extra_special_tokens: list[Token] | dict[str, Token]
    added_tokens_decoder: dict[str, TokenFlags]
    padding_side: Side
    truncation_side: Side
    do_lower_case: bool
    strip_accents: bool
    tokenize_chinese_chars: bool
    add_prefix_space: bool
    separate_vocabs: bool
    clean_up_tokenization_spaces: bool
    src_lang: str
    tgt_lang: str
    legacy_behaviour: bool
    legacy: bool
    keep_accents: bool
    split_by_punct: bool
    add_bos_token: bool
    add_eos_token: bool
    extra_ids: Annotated[int, Bounds(0, 10_000)]
    chat_template: str | list[NamedTemplate]


class ConfigOfModel(TypedDict, total=False):
    """What a tokenizer looks at in the model's config.json."""

    model_type: str
    tokenizer_class: str


@dataclass(frozen=True)
class ModelFacts:
    """What the model beside a tokenizer says of its inputs; None where nobody knows."""

    segments: bool | None = None  # whether it takes token_type_ids
    max_positions: int | None = None  # tokens of a text at most


@dataclass
class TokenizerSettings:
    """What a folder says of its tokenizer besides the vocabulary."""

    config: dict[str, Any] = field(default_factory=dict)  # tokenizer_config.json as it was read
    names: dict[str, str | None] = field(default_factory=dict)  # special tokens by name: "pad_token" -> "[PAD]"
    extra: list[str] = field(default_factory=list)  # further special tokens
    segments: bool = True  # whether token_type_ids are a model input
    model_max_length: int = NO_LIMIT
    languages: Languages | None = None  # of a tokenizer that marks them
    chat_template: Templates | None = None  # of a chat model; by name where there are several


@dataclass
class Folder:
    """The small json files of a folder, read once."""

    path: Path
    config: dict[str, Any]
    model: dict[str, Any]
    special: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> "Folder":
        """Read what is there of tokenizer_config.json, special_tokens_map.json and config.json."""
        if not path.is_dir():
            raise ValueError(f"{path} is not a folder: give the folder that holds tokenizer.json or vocab.txt")
        config: dict[str, Any] = {**read_json(path / "tokenizer_config.json", TokenizerConfig)}
        special = read_json(path / "special_tokens_map.json", SpecialTokensMap)
        tokens = {name: value for name, value in {**special, **config}.items() if name in NAMES}
        if listed := special.get("additional_special_tokens"):
            config.setdefault("additional_special_tokens", listed)
        return cls(path, config, {**read_json(path / "config.json", ConfigOfModel)}, tokens)

    @property
    def kind(self) -> str:
        """The tokenizer's class, else the kind of model beside it, in lower case; may be empty."""
        name = self.config.get("tokenizer_class") or self.model.get("tokenizer_class") or ""
        generic = name in ("PreTrainedTokenizerFast", "TokenizersBackend", "PreTrainedTokenizer")
        return str(self.model.get("model_type", "") if generic or not name else name).lower()

    @property
    def extra(self) -> list[str]:
        """Special tokens without a name."""
        extra = self.config.get("additional_special_tokens") or self.config.get("extra_special_tokens") or []
        return [str(content(token)) for token in (extra.values() if isinstance(extra, dict) else extra)]

    def has(self, *names: str) -> bool:
        """Whether all these files are there."""
        return all(has_file(self.path / name) for name in names)

    def settings(
        self, defaults: Mapping[str, str], known: Mapping[str, int], *, segments: bool, max_positions: int | None
    ) -> TokenizerSettings:
        """Special tokens and limits: what the files say, else the defaults that the vocabulary knows."""
        names: dict[str, str | None] = {name: token for name, token in defaults.items() if token in known}
        names |= {name: content(token) for name, token in self.special.items()}
        inputs = self.config.get("model_input_names")
        return TokenizerSettings(
            config=self.config,
            names={name: names.get(name) for name in NAMES},
            extra=self.extra,
            segments=segments if inputs is None else "token_type_ids" in inputs,
            model_max_length=int(self.config.get("model_max_length") or max_positions or NO_LIMIT),
            chat_template=read_templates(self.path, self.config),
        )

    def added(self) -> list[AddedToken]:
        """Tokens that the folder adds to the vocabulary, in the order of their ids."""
        listed = self.config.get("added_tokens_decoder") or {}
        if listed:
            if wrong := [index for index in listed if not index.isdecimal()]:
                raise ValueError(
                    f"{self.path / 'tokenizer_config.json'}: added_tokens_decoder has the key {wrong[0]!r}; "
                    "its keys are ids"
                )
            return [added_token(listed[index]) for index in sorted(listed, key=int)]
        path = self.path / "added_tokens.json"
        legacy = read_vocabulary(path) if path.exists() else {}
        return [AddedToken(token, normalized=True) for token in sorted(legacy, key=legacy.__getitem__)]


def content(token: Any) -> str | None:
    """A special token's text, whether it is written as a string or as an object."""
    found: str | None = token["content"] if isinstance(token, dict) else token
    return found


def added_token(token: str | dict[str, Any]) -> AddedToken:
    """A special token with its flags."""
    if isinstance(token, str):
        return AddedToken(token, normalized=False, special=True)
    flags = {
        name: token[name] for name in ("single_word", "lstrip", "rstrip", "normalized") if token.get(name) is not None
    }
    return AddedToken(token["content"], special=bool(token.get("special", True)), **flags)


def load(folder: Folder, model: ModelFacts) -> tuple[tokenizers.Tokenizer, TokenizerSettings]:
    """The Rust tokenizer of a folder, and its settings."""
    alone = ""  # a SentencePiece model without any of the other files
    if folder.has("tokenizer.json"):
        rust, defaults = from_json(folder)
    elif folder.has("vocab.json", "merges.txt"):
        rust, defaults = from_merges(folder)
    elif folder.has("vocab.txt"):
        rust, defaults = from_vocab(folder)
    elif alone := next((name for name in SENTENCEPIECE_FILES if folder.has(name)), ""):
        asked = Asked(folder.kind, folder.config, folder.special, folder.extra)
        rust, defaults = from_sentencepiece(folder.path / alone, asked)
    else:
        found = ", ".join(sorted(path.name for path in folder.path.iterdir())) or "nothing"
        raise ValueError(
            f"{folder.path} holds no tokenizer: expected tokenizer.json, vocab.txt, vocab.json with merges.txt, "
            f"or one of {', '.join(SENTENCEPIECE_FILES)}; found {found}"
        )
    segments = type(rust.model).__name__ == "WordPiece" if model.segments is None else model.segments  # as BERT
    settings = folder.settings(defaults, rust.get_vocab(), segments=segments, max_positions=model.max_positions)
    stated = str(folder.config.get("tokenizer_class"))
    is_t5 = family_of(folder.kind) is FAMILIES["t5"] if alone else stated.startswith("T5")
    if is_t5 and rust.token_to_id("<extra_id_0>") is None:  # as transformers adds them
        sentinels = sentinel_tokens(folder.config.get("extra_ids", NUMBER))
        rust.add_special_tokens(list(sentinels))
        settings.extra = list(dict.fromkeys([*settings.extra, *(token.content for token in sentinels)]))
    name_special_tokens(rust, folder, settings)
    special = [token.content for token in rust.get_added_tokens_decoder().values() if token.special]
    settings.languages = Languages.of(folder.kind, folder.config, special)
    return rust, settings


def name_special_tokens(rust: tokenizers.Tokenizer, folder: Folder, settings: TokenizerSettings) -> None:
    """Make Rust see every special token as one, and give those that are new an id."""
    seen = {token.content: token for token in rust.get_added_tokens_decoder().values()}
    for name in NAMES:
        token = settings.names[name]
        if token is None or (token in seen and seen[token].special):
            continue
        flags = folder.special.get(name) or token
        if name == "mask_token" and flags == ROBERTA[name]:
            flags = {
                "content": token,
                "lstrip": True,
                "normalized": False,
            }  # as RoBERTa was trained: it eats the space
        rust.add_special_tokens([added_token(flags)])
    rust.add_special_tokens([added_token(token) for token in settings.extra if token not in seen])


def from_json(folder: Folder) -> tuple[tokenizers.Tokenizer, Mapping[str, str]]:
    """Read tokenizer.json."""
    rust = read_tokenizer(folder.path / "tokenizer.json")
    vocab = rust.get_vocab()
    if all(token in vocab for token in BERT.values()):
        return rust, BERT
    if all(token in vocab for token in ALBERT.values()):
        return rust, ALBERT
    if "roberta" in folder.kind or {"<s>", "</s>", "<mask>"} <= vocab.keys():
        return rust, ROBERTA
    return rust, GPT2 if "<|endoftext|>" in vocab else MARIAN


def from_vocab(folder: Folder) -> tuple[tokenizers.Tokenizer, Mapping[str, str]]:
    """Build BERT's tokenizer from vocab.txt and the options of tokenizer_config.json."""
    path = folder.path / "vocab.txt"
    vocab = read_vocab(path)
    named = {name: str(content(folder.special.get(name) or token)) for name, token in BERT.items()}
    unknown = named["unk_token"]
    if unknown not in vocab:
        raise ValueError(f"{path} has no {unknown}: add that line, or name another unk_token in tokenizer_config.json")
    rust = tokenizers.Tokenizer(models.WordPiece(vocab, unk_token=unknown))
    rust.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=bool(folder.config.get("tokenize_chinese_chars", True)),
        strip_accents=folder.config.get("strip_accents"),
        lowercase=bool(folder.config.get("do_lower_case", True)),
    )
    rust.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    rust.decoder = decoders.WordPiece(prefix="##")
    rust.add_tokens(folder.added())
    cls, sep = named["cls_token"], named["sep_token"]
    if cls in vocab and sep in vocab:
        rust.post_processor = bert_template((cls, vocab[cls]), (sep, vocab[sep]))
    return rust, BERT


def bert_template(cls: tuple[str, int], sep: tuple[str, int]) -> processors.TemplateProcessing:
    """[CLS] text [SEP], and pair [SEP] as the second segment."""
    return processors.TemplateProcessing(
        single=f"{cls[0]}:0 $A:0 {sep[0]}:0",
        pair=f"{cls[0]}:0 $A:0 {sep[0]}:0 $B:1 {sep[0]}:1",
        special_tokens=[cls, sep],
    )


def from_merges(folder: Folder) -> tuple[tokenizers.Tokenizer, Mapping[str, str]]:
    """Build a byte-level BPE from vocab.json and merges.txt: RoBERTa's template, or GPT-2's none."""
    path = folder.path / "merges.txt"
    vocab = read_vocabulary(folder.path / "vocab.json")
    merges = read_merges(path)
    for left, right in merges:
        missing = next((token for token in (left, right, left + right) if token not in vocab), None)
        if missing is not None:
            raise ValueError(f"{path} does not fit vocab.json: {missing!r} of merge '{left} {right}' is not in it")
    prefix = bool(folder.config.get("add_prefix_space", False))
    rust = tokenizers.Tokenizer(models.BPE(vocab, merges))
    rust.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    rust.decoder = decoders.ByteLevel()
    rust.add_tokens(folder.added())
    if not is_roberta(folder, vocab):
        rust.post_processor = processors.ByteLevel(trim_offsets=False)
        return rust, GPT2
    cls = str(content(folder.special.get("cls_token") or "<s>"))
    sep = str(content(folder.special.get("sep_token") or "</s>"))
    if cls not in vocab or sep not in vocab:
        raise ValueError(f"vocab.json in {folder.path} lacks {cls!r} or {sep!r}, which RoBERTa puts around a text")
    rust.post_processor = processors.RobertaProcessing((sep, vocab[sep]), (cls, vocab[cls]), True, prefix)
    return rust, ROBERTA


def is_roberta(folder: Folder, vocab: Mapping[str, int]) -> bool:
    """Whether a byte-level BPE puts <s> and </s> around a text."""
    if folder.kind:
        return any(name in folder.kind for name in ("roberta", "bart", "longformer"))
    return "<s>" in vocab and "</s>" in vocab and "<|endoftext|>" not in vocab


def read_vocab(path: Path) -> dict[str, int]:
    """A vocab.txt: one token a line, the line number is the id."""
    lines = read_text(path).split("\n")
    vocab = {line.rstrip(): index for index, line in enumerate(lines) if line.rstrip()}
    if not vocab:
        raise ValueError(f"{path} is empty: expected one token a line")
    return vocab


def read_merges(path: Path) -> list[tuple[str, str]]:
    """A merges.txt: two tokens a line, best first."""
    merges = []
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip() or line.startswith("#version"):
            continue
        pair = line.rstrip("\r").split(" ")
        if len(pair) != 2:
            raise ValueError(f"{path} line {number} is {line!r}: expected two tokens with a space between")
        merges.append((pair[0], pair[1]))
    return merges
