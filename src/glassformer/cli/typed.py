"""What is typed on the command line, as a model takes it: a text or ids, and a label."""

from typing import TYPE_CHECKING, overload

if TYPE_CHECKING:
    from torch import Tensor

    from glassformer.jobs.reading import TokenizedInputs
    from glassformer.models.contract import Model, ModelConfig
    from glassformer.text.tokenizer import Tokenizer

WRITERS = ("text-generation", "text2text-generation")


def tokenizer_of(name: str) -> "Tokenizer | None":
    """A folder's tokenizer; None where it has none, so that ids are typed."""
    import glassformer as gf
    from glassformer.hub.fetch import has_tokenizer

    return gf.load_tokenizer(name) if has_tokenizer(name) else None


@overload
def typed(name: str, tokenizer: "Tokenizer | None", words: str) -> str | list[int]: ...


@overload
def typed(name: str, tokenizer: "Tokenizer | None", words: str | None) -> str | list[int] | None: ...


def typed(name: str, tokenizer: "Tokenizer | None", words: str | None) -> str | list[int] | None:
    """The words as they are or, where there is no tokenizer, the ids that they spell."""
    if words is None or tokenizer is not None:
        return words
    try:
        return [int(word) for word in words.replace(",", " ").split()]
    except ValueError:
        raise ValueError(f"{name} has no tokenizer: give ids, such as '5 17 3', not {words!r}") from None


def labels_of(
    model: "Model", tokenizer: "Tokenizer | None", read: "TokenizedInputs", label: str | None
) -> dict[str, "Tensor"]:
    """What the loss is measured against: a class, the masked word, an answer's ends.

    A language model and an encoder-decoder are measured by their own text, and need no label.
    """
    import torch

    ids = read.inputs["input_ids"]
    if label is not None and model.head_name in WRITERS:
        raise ValueError("--label is for classifiers, masked words and answers; what this model writes is its label")
    if "written" in read.tokens:
        return {"labels": torch.tensor([read.tokens["written"].ids], device=ids.device)}
    if model.head_name == "text-generation":
        return {"labels": ids} if ids.shape[1] > 1 else {}
    if label is None:
        return {}
    match model.head_name:
        case "text-classification":
            return {"labels": torch.tensor([_class_label(model.config, label)], device=ids.device)}
        case "fill-mask":
            if tokenizer is None or (mask := tokenizer.mask_token_id) is None:
                raise ValueError(f"--label {label!r} is a masked word, and there is no mask token: leave --label out")
            word = tokenizer(label, add_special_tokens=False)["input_ids"]
            masked = ids == mask
            if len(word) != 1 or not bool(masked.any()):
                raise ValueError(f"--label {label!r} must be one token, and the text must hold {tokenizer.mask_token}")
            return {"labels": torch.where(masked, word[0], -100)}
        case "question-answering":
            ends = [int(part) for part in label.split(",") if part.strip().isdigit()]
            if len(ends) != 2 or max(ends) >= ids.shape[1]:
                raise ValueError(f"--label {label!r} must be an answer's first and last token, e.g. 5,7")
            first, last = (torch.tensor([end], device=ids.device) for end in ends)
            return {"start_positions": first, "end_positions": last}
        case head:
            raise ValueError(f"--label is for classifiers, masked words and answers, not for the head {head!r}")


def _class_label(config: "ModelConfig", label: str) -> int | float | list[float]:
    """The number of a class; of a model that grades, the grade; of one with several classes at once, 1 for each."""
    from glassformer.models.contract import label_names

    problem, names = config.problem_type, label_names(config)
    if problem == "regression":
        try:
            return float(label)
        except ValueError:
            raise ValueError(f"the model gives a number, so --label must be one, not {label!r}") from None
    several = problem == "multi_label_classification"
    wanted = [one.strip() for one in label.split(",")] if several else [label]
    if wrong := [one for one in wanted if one not in names]:
        raise ValueError(f"the model has no label {wrong[0]!r}; it has: {', '.join(names)}")
    return [float(one in wanted) for one in names] if several else names.index(label)
