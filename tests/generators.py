"""What the tests of generation share: every family that generates, tiny ones, and the slow way to ask a model."""

import torch

from families import CASES, random_model, settings_of

GENERATING = [(name, head) for name, head in CASES if str(head).endswith("generation")]
SPECIAL = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id", "forced_eos_token_id")


def tiny(model_type, head, data, words, seed=0):
    """A random model over very few words."""
    chosen = data.draw(settings_of(model_type)) | {"vocab_size": words}
    chosen |= {name: 0 for name in SPECIAL if name in chosen}
    chosen |= {"decoder_vocab_size": words} if "decoder_vocab_size" in chosen else {}
    return unforced(random_model(model_type, head, chosen, seed))


def unforced(model):
    """Without the end that its config may force."""
    if getattr(model.config, "forced_eos_token_id", None) is not None:
        object.__setattr__(model.config, "forced_eos_token_id", None)
    return model


@torch.no_grad()
def sharp(model, by=4):
    """The same model, surer of itself: a random one finds all words about as likely."""
    for weight in model.head.parameters():
        weight *= by
    return model


def padded_left(rows):
    longest = max(map(len, rows))
    ids = torch.tensor([[0] * (longest - len(row)) + row for row in rows])
    mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows])
    return ids, mask


def begun(model, row):
    """What a text begins with: the prompt, or an encoder-decoder's first token (0)."""
    return (0,) if model.config.is_encoder_decoder else tuple(row)


@torch.no_grad()
def logits(model, row, ids):
    """The scores after each token of a text, by the whole model at once; `row` is the prompt or the source."""
    given = {"input_ids": torch.tensor([ids])}
    if model.config.is_encoder_decoder:
        given = {"input_ids": torch.tensor([row]), "decoder_input_ids": torch.tensor([ids])}
    return model(**given).logits[0]


def next_logs(model, row, ids):
    return logits(model, row, ids)[-1].log_softmax(-1)
