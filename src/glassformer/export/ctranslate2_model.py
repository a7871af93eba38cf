"""A folder of CTranslate2, asked what its model was asked: hidden states, logits, probabilities and texts.

B batch, S length, T target length, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.models.contract import as_generative, as_model
from glassformer.models.encoder import Encoder
from glassformer.models.encoder_decoder import Transformer

from .check import ExportComparison, ExportSource, compare_outputs, greedy_steps
from .samples import NEW_TOKENS, Batch

Names = Sequence[str]


def compare_ctranslate2(source: ExportSource, folder: Path, names: Names) -> ExportComparison:
    """How far the folder is from the model; `names` are the tokens by their ids."""
    import ctranslate2

    threads = {"inter_threads": 1, "intra_threads": torch.get_num_threads()}
    if isinstance(model := source.model, Encoder):
        encoder = ctranslate2.Encoder(str(folder), **threads)
        return compare_outputs(replace(source, pooling=None), lambda batch: _states(encoder, batch, model))
    if isinstance(source.model, Transformer):
        return _compare_translator(source, ctranslate2.Translator(str(folder), **threads), names)
    generator = ctranslate2.Generator(str(folder), **threads)
    found = compare_outputs(source, lambda batch: {"logits": _padded(generator.forward_batch(_rows(batch)), batch)})
    found.add_texts(greedy_steps(as_generative(source.model), source.prompts), _written(generator, source, names))
    return found


def _written(generator: Any, source: ExportSource, names: Names) -> Tensor:
    """(B, T): what follows each prompt, one by one: of several, what some have more of than others is written anew."""
    ends = as_model(source.model).config.eos_token_id
    settings: dict[str, Any] = {"max_length": NEW_TOKENS, "include_prompt_in_result": False, "return_end_token": True}
    settings["end_token"] = [ends] if isinstance(ends, int) else ends
    prompts = [[[names[number] for number in row]] for row in _rows(source.prompts)]
    return _stacked([generator.generate_batch(prompt, **settings)[0].sequences_ids[0] for prompt in prompts])


def _states(encoder: Any, batch: Batch, model: Encoder) -> dict[str, Tensor]:
    given = {"token_type_ids": torch.zeros_like(batch["input_ids"]), **batch}
    segments = None if model.embeddings.segment is None else _rows(given, "token_type_ids")
    found = encoder.forward_batch(_rows(batch), token_type_ids=segments)
    states = {"last_hidden_state": _padded(found.last_hidden_state, batch)}
    return states if model.pooler is None else states | {"pooler_output": _tensor(found.pooler_output)}


def _compare_translator(source: ExportSource, translator: Any, names: Names) -> ExportComparison:
    """The probabilities of a target, token by token, and what is written."""
    index, config = {name: number for number, name in enumerate(names)}, as_model(source.model).config
    eos = config.eos_token_id[0] if isinstance(config.eos_token_id, list) else config.eos_token_id
    found = ExportComparison()
    for batch in source.samples.batches:
        target = batch["decoder_input_ids"]
        with torch.inference_mode():
            scores = source.model(**batch).logits.log_softmax(-1)
        wanted = torch.cat([target[:, 1:], torch.full_like(target[:, :1], eos or 0)], 1)
        expected = scores.gather(2, wanted[..., None])[..., 0]
        sources = [[names[number] for number in row] for row in _rows(batch)]
        targets = [[names[number] for number in row[1:]] for row in target.tolist()]
        scored = torch.tensor([one.log_probs for one in translator.score_batch(sources, targets)])
        found.add({"log_probs": expected}, {"log_probs": scored}, batch["attention_mask"])
    sources = [[names[number] for number in row] for row in _rows(source.prompts)]
    settings: dict[str, Any] = {"beam_size": 1, "max_decoding_length": NEW_TOKENS, "return_end_token": True}
    results = translator.translate_batch(sources, **settings)
    written = _stacked([[index[token] for token in one.hypotheses[0]] for one in results])
    found.add_texts(greedy_steps(as_generative(source.model), source.prompts), written)
    return found


def _rows(batch: Batch, name: str = "input_ids") -> list[list[int]]:
    """The real tokens of each text."""
    keep = batch["attention_mask"].bool()
    return [row[real].tolist() for row, real in zip(batch[name], keep, strict=True)]


def _padded(view: Any, batch: Batch) -> Tensor:
    """What stands at real tokens, at the places where the batch has them; zero elsewhere."""
    rows, keep = _tensor(view), batch["attention_mask"].bool()
    found = rows.new_zeros(*keep.shape, rows.shape[-1])
    for row, real in enumerate(keep):
        found[row, real] = rows[row, : int(real.sum())]
    return found


def _tensor(view: Any) -> Tensor:
    return torch.from_numpy(np.array(view)).float()


def _stacked(rows: list[list[int]]) -> Tensor:
    """(B, T), -1 behind what is shorter."""
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=-1)
