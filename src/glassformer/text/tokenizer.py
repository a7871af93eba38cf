"""The tokenizer: texts to model inputs and back, with the names and results of Hugging Face's."""

import logging
from collections.abc import Sequence
from copy import copy, deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import AddedToken

from glassformer.files.arguments import answers
from glassformer.text.assemble import Ids, RowLayout, Side, Template, TruncationPlan, special_count
from glassformer.text.backend import Pieces, RustBackend
from glassformer.text.chat import chosen, is_chat, rendered
from glassformer.text.encoding import Encoding, Words
from glassformer.text.folder import NO_LIMIT, Folder, ModelFacts, TokenizerSettings, load
from glassformer.text.languages import Language
from glassformer.text.marian import MarianBackend, is_marian, load_marian
from glassformer.text.options import Options, as_batch
from glassformer.text.padding import finished, gathered, padded
from glassformer.text.rust import rust_border
from glassformer.text.saving import save
from glassformer.text.vocabulary import Vocabulary, content_of

LOG = logging.getLogger("glassformer")
CALLED = {"return_length": "len(row) of input_ids", "verbose": "what is logged is logged as `glassformer`"}
NO_PAD_TOKEN = "padding needs a pad token and this tokenizer has none: tok.pad_token = tok.eos_token"


class Tokenizer(Vocabulary):
    """A tokenizer read from a folder or made by training.

    `src_lang` and `tgt_lang` are the codes that a multilingual one puts beside texts and, with text_target, targets.
    """

    src_lang, tgt_lang = Language(), Language()

    def __init__(self, backend: RustBackend | MarianBackend, settings: TokenizerSettings) -> None:
        self.backend = backend
        self.settings = settings
        self.model_max_length = settings.model_max_length
        self.padding_side: Side = settings.config.get("padding_side", "right")
        self.truncation_side: Side = settings.config.get("truncation_side", "right")
        self.chat_template = settings.chat_template
        self.languages_of_sides: dict[str, str | None] = {}
        if settings.languages is not None:
            self.src_lang = settings.config.get("src_lang") or settings.languages.default
            self.tgt_lang = settings.config.get("tgt_lang")

    @classmethod
    def from_folder(cls, path: str | Path, model: ModelFacts | None = None) -> "Tokenizer":
        """Read tokenizer.json, or the older vocab.txt, or vocab.json with merges.txt, or Marian's files.

        `model`: what is known of the model beside it; gf.load_tokenizer finds it out.
        """
        folder, model = Folder.read(Path(path)), model or ModelFacts()
        if is_marian(folder):
            return cls(*load_marian(folder))
        with rust_border(str(path)):
            rust, settings = load(folder, model)
            return cls(RustBackend(rust), settings)

    def save(self, folder: str | Path, *, segments: bool | None = None) -> None:
        """Write a folder that this class and transformers read with the same ids.

        `segments` says whether the model beside it takes token_type_ids; by default as this tokenizer gives them.
        """
        save(self, Path(folder), self.settings.segments if segments is None else segments)

    save_pretrained = save  # as transformers calls it

    def adapted(
        self,
        *,
        special_tokens: Sequence[str | AddedToken] = (),
        segments: bool = True,
        model_max_length: int | None = None,
        src_lang: str | None = None,
        tgt_lang: str | None = None,
    ) -> "Tokenizer":
        """A tokenizer of the same vocabulary for another model; this one stays as it is.

        It has further special tokens, gives no token_type_ids where the model has no segments, no more than
        model_max_length tokens, and has other languages of sources and targets.
        """
        twin = deepcopy(self) if special_tokens else copy(self)
        twin.settings = replace(twin.settings, segments=self.settings.segments and segments)
        if special_tokens:
            new = [token for token in special_tokens if content_of(token) not in twin.settings.extra]
            twin.add_tokens(new, special_tokens=True)
        if model_max_length is not None:
            twin.model_max_length = min(self.model_max_length, model_max_length)
        if src_lang is not None:
            twin.src_lang = src_lang
        if tgt_lang is not None:
            twin.tgt_lang = tgt_lang
        return twin

    @answers(CALLED)
    def __call__(
        self,
        texts: Any = None,
        pairs: Any = None,
        *,
        text_target: Any = None,
        padding: bool | str | None = False,
        truncation: bool | str | None = None,
        max_length: int | None = None,
        stride: int = 0,
        return_tensors: str | None = None,
        return_offsets_mapping: bool = False,
        return_overflowing_tokens: bool = False,
        return_special_tokens_mask: bool = False,
        return_token_type_ids: bool | None = None,
        return_attention_mask: bool | None = None,
        add_special_tokens: bool = True,
        padding_side: Side | None = None,
        pad_to_multiple_of: int | None = None,
        is_split_into_words: bool = False,
        text: Any = None,
        text_pair: Any = None,
    ) -> Encoding:
        """Model inputs of one text or a list of texts, each with its pair if given.

        `text` and `text_pair` are transformers' names of `texts` and `pairs`.
        `text_target` holds texts of the other language (it matters to Marian): alone it gives their inputs,
        beside `texts` it gives their ids as "labels". A max_length without a word on truncation truncates.
        """
        options = Options(
            padding=padding,
            truncation=truncation,
            max_length=max_length,
            stride=stride,
            return_tensors=return_tensors,
            return_offsets_mapping=return_offsets_mapping,
            return_overflowing_tokens=return_overflowing_tokens,
            return_special_tokens_mask=return_special_tokens_mask,
            return_token_type_ids=return_token_type_ids,
            return_attention_mask=return_attention_mask,
            add_special_tokens=add_special_tokens,
            padding_side=padding_side,
            pad_to_multiple_of=pad_to_multiple_of,
            is_split_into_words=is_split_into_words,
        )
        texts, pairs = text if texts is None else texts, text_pair if pairs is None else pairs
        if text_target is None:
            return self._call(texts, pairs, options, target=False)
        targets = self._call(text_target, None, options, target=True)
        if texts is None:
            return targets
        encoding = self._call(texts, pairs, options, target=False)
        encoding["labels"] = targets["input_ids"]
        return encoding

    def _call(self, texts: Any, pairs: Any, options: Options, *, target: bool) -> Encoding:
        """One side of a call: ids, then rows, then tables."""
        split = options.is_split_into_words
        first, single = as_batch(texts, "texts", split)
        sides = [first]
        if pairs is not None:
            second, _ = as_batch(pairs, "pairs", split)
            if len(second) != len(first):
                raise ValueError(f"{len(first)} texts but {len(second)} pairs: give one pair for each text")
            sides.append(second)

        ids, pieces = self._tokenised(sides, options, target=target)
        batch, num_truncated = self._lay_out(ids, options, target=target)

        inputs: dict[str, Any] = {"input_ids": batch.table(batch.ids(ids), self.pad_token_id or 0)}
        wanted = options.return_token_type_ids
        if self.settings.segments if wanted is None else wanted:
            inputs["token_type_ids"] = batch.table(batch.types(), 0)
        if options.return_attention_mask is not False:
            inputs["attention_mask"] = batch.table(np.ones(int(batch.lengths.sum()), np.int64), 0)
        if options.return_special_tokens_mask:
            inputs["special_tokens_mask"] = batch.table(batch.special(), 1)
        if pieces:
            offsets = [[one.offsets for one in side] for side in pieces]
            rows = range(len(batch.samples))
            inputs["offset_mapping"] = [batch.row(row, offsets, (0, 0), (0, 0)) for row in rows]
        if options.return_overflowing_tokens:
            inputs["overflow_to_sample_mapping"] = batch.samples
        flat = single and options.return_tensors is None and not options.return_overflowing_tokens

        def words() -> Words:
            found = pieces or [self.backend.pieces(side, split=split, target=target) for side in sides]
            return [[one.words for one in side] for side in found]

        return Encoding(
            finished(inputs, options.return_tensors, flat=flat),
            batch=batch,
            words=words,
            to_tokens=self.convert_ids_to_tokens,
            num_truncated=num_truncated,
        )

    def _tokenised(
        self, sides: list[list[Any]], options: Options, *, target: bool
    ) -> tuple[list[list[NDArray[np.int64]]], list[list[Pieces]]]:
        """The ids of each text of each side, without special tokens; its pieces where offsets are asked for."""
        split = options.is_split_into_words
        try:
            if not options.return_offsets_mapping:
                return [self.backend.rows(side, split=split, target=target) for side in sides], []
            pieces = [self.backend.pieces(side, split=split, target=target) for side in sides]
            return [[np.array(one.ids, np.int64) for one in side] for side in pieces], pieces
        except TypeError:  # the one thing Rust takes for no string at all
            raise ValueError(
                "a text holds half a character (a lone surrogate): read its file with errors='replace'"
            ) from None

    def template(self, *, pair: bool = False, special: bool = True, target: bool = False) -> Template:
        """Where special tokens go beside a text, or a text and its pair; `target`: a text of the other language."""
        languages, code = self.settings.languages, self.tgt_lang if target and self.tgt_lang else self.src_lang
        if languages is None or code is None or not special:
            return self.backend.template(pair=pair, special=special)
        marks = self.convert_tokens_to_ids([languages.token(code), str(self.eos_token)])
        return languages.template(*marks, pair=pair)

    @property
    def bos_ids(self) -> list[int]:
        """[BOS] of a tokenizer that puts it before a single text (Llama's does, GPT-2's does not); else nothing."""
        first, bos = self.template()[0], self.bos_token_id
        return [] if bos is None or first.text is not None or first.ids.tolist() != [bos] else [bos]

    def encode_prompts(self, texts: Sequence[str], **options: Any) -> list[list[int]]:
        """The ids of texts that a language model goes on from: without an end, and after BOS where the tokenizer puts
        one before a text, unless the text begins with it."""
        bos, rows = self.bos_ids, self(list(texts), add_special_tokens=False, **options)["input_ids"]
        return [row if row[:1] == bos else bos + row for row in rows]

    def _lay_out(self, ids: list[list[Ids]], options: Options, *, target: bool) -> tuple[RowLayout, list[int]]:
        """Truncate and pad: which tokens go to which row, and how many each text lost."""
        template = self.template(pair=len(ids) > 1, special=options.add_special_tokens, target=target)
        limit = self._limit(options)
        capacity = None if limit is None else limit - special_count(template)
        if capacity is not None and capacity < 0:
            raise ValueError(f"max_length={limit} is under the {special_count(template)} special tokens: raise it")
        plan = TruncationPlan(
            capacity=capacity,
            strategy=options.truncates,
            stride=options.stride,
            side=self.truncation_side,
            windows=options.return_overflowing_tokens,
        )
        sizes = list(zip(*(map(len, side) for side in ids), strict=True))
        rows = [plan.rows(size) for size in sizes]
        batch = RowLayout(
            template,
            samples=[sample for sample, found in enumerate(rows) for _ in found],
            spans=[spans for found in rows for spans in found],
        )
        num_truncated = [0] * len(rows)
        if capacity is not None and not plan.windows:
            num_truncated = [
                sum(size) - sum(b - a for a, b in found[0]) for size, found in zip(sizes, rows, strict=True)
            ]
        self._report(num_truncated, limit, batch)
        self._pad(batch, options)
        return batch, num_truncated

    def _limit(self, options: Options) -> int | None:
        """How many tokens a row may have, None for any number."""
        if options.truncates == "do_not_truncate":
            return None
        limit = self.model_max_length if options.max_length is None else options.max_length
        return None if limit >= NO_LIMIT else limit

    def _report(self, num_truncated: list[int], limit: int | None, batch: RowLayout) -> None:
        """Say what truncation took, or that a row is longer than the model reads."""
        hit = sum(map(bool, num_truncated))
        if hit:
            LOG.warning(
                "truncation to %s tokens cut %s tokens from %s of %s texts: raise max_length, or keep "
                "them as further rows with return_overflowing_tokens=True",
                *(limit, sum(num_truncated), hit, len(num_truncated)),
            )
        longest = int(batch.lengths.max(initial=0))
        if limit is None and longest > self.model_max_length:
            LOG.warning(
                "a text has %s tokens but the model reads %s: pass truncation=True",
                longest,
                self.model_max_length,
            )

    def _pad(self, batch: RowLayout, options: Options) -> None:
        """Give rows one width where padding is asked for, or where tensors need it."""
        side = options.padding_side or self.padding_side
        if options.pads == "do_not_pad":
            lengths = sorted(set(batch.lengths.tolist()))
            if options.return_tensors and len(lengths) > 1:
                raise ValueError(
                    f"rows of {lengths[0]} to {lengths[-1]} tokens cannot be one tensor: pass padding=True"
                )
            if options.return_tensors:
                batch.pad(None, None, side)
            return
        if self.pad_token_id is None:
            raise ValueError(NO_PAD_TOKEN)
        width = None
        if options.pads == "max_length":
            width = self._width(options)
            longest = int(batch.lengths.max(initial=0))
            if longest > width:
                raise ValueError(f"a text has {longest} tokens, over max_length={width}: pass truncation=True")
        batch.pad(width, options.pad_to_multiple_of, side)

    def _width(self, options: Options) -> int:
        """How many tokens padding="max_length" gives a row."""
        width = self.model_max_length if options.max_length is None else options.max_length
        if width >= NO_LIMIT:
            raise ValueError("padding='max_length' needs a max_length: this tokenizer states no model_max_length")
        return width

    @answers(CALLED)
    def pad(
        self,
        encodings: Any,
        *,
        padding: bool | str = True,
        max_length: int | None = None,
        pad_to_multiple_of: int | None = None,
        padding_side: Side | None = None,
        return_attention_mask: bool = True,
        return_tensors: str | None = None,
    ) -> Encoding:
        """Encodings of one length: a list of dicts as `tok(text)` gives them, or one dict of many rows.

        Ids, masks and segments are filled up; what else stands there, as labels, is kept as it is.
        """
        options = Options(
            padding=padding,
            max_length=max_length,
            pad_to_multiple_of=pad_to_multiple_of,
            padding_side=padding_side,
            return_tensors=return_tensors,
        )
        rows, single = gathered(encodings)
        if not rows:
            return Encoding({})
        if self.pad_token_id is None and options.pads != "do_not_pad":
            raise ValueError(NO_PAD_TOKEN)
        side = padding_side or self.padding_side
        width = self._width(options) if options.pads == "max_length" else None
        many = padded(rows, options, pad_id=self.pad_token_id or 0, width=width, side=side, mask=return_attention_mask)
        return Encoding(finished(many, return_tensors, flat=single))

    def apply_chat_template(
        self,
        conversation: Any,
        *,
        chat_template: str | None = None,
        tools: Sequence[Any] | None = None,
        tokenize: bool = True,
        return_dict: bool = True,
        padding: bool | str = False,
        truncation: bool = False,
        max_length: int | None = None,
        return_tensors: str | None = None,
        **options: Any,
    ) -> Any:
        """A conversation, or a list of them, as model inputs; its ids, without return_dict; its text, without tokenize.

        Messages are dicts with role and content. `options`: add_generation_prompt, continue_final_message, documents,
        and whatever else the template asks for. `chat_template`: another template, or the name of one of several;
        `tools` are JSON schemas.
        """
        template = chosen(self.chat_template, chat_template, tools=tools is not None)
        named = {name: token for name, token in self.settings.names.items() if token is not None}
        options = {**named, "tools": tools, "documents": None, **options}
        many = isinstance(conversation, list) and bool(conversation) and all(map(is_chat, conversation))
        texts = [rendered(template, one, **options) for one in (conversation if many else [conversation])]
        text = texts if many else texts[0]
        if not tokenize:
            return text
        how = {"padding": padding, "truncation": truncation, "max_length": max_length, "return_tensors": return_tensors}
        found = self(text, add_special_tokens=False, **how)  # type: ignore[arg-type]
        return found if return_dict else found["input_ids"]

    def encode(self, text: Any, pair: Any = None, **options: Any) -> Any:
        """The ids of one text, with special tokens unless add_special_tokens=False."""
        return self(text, pair, **options)["input_ids"]

    def tokenize(self, text: str, pair: str | None = None, *, add_special_tokens: bool = False) -> list[str]:
        """The tokens of one text."""
        ids = self._call(text, pair, Options(add_special_tokens=add_special_tokens), target=False)["input_ids"]
        return [str(self.backend.id_to_token(index)) for index in ids]

    def num_special_tokens_to_add(self, pair: bool = False) -> int:
        """How many special tokens a text, or a pair, is given."""
        return special_count(self.template(pair=pair))

    @property
    def model_input_names(self) -> list[str]:
        """What a call gives a model, by default."""
        return ["input_ids", *(["token_type_ids"] if self.settings.segments else []), "attention_mask"]

    def __repr__(self) -> str:
        return f"Tokenizer({len(self)} tokens, {self.special_tokens_map})"
