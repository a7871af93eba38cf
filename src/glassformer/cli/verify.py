"""`glassformer verify`: the laws, on the user's own model; or, with a text, every step of its forward pass."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from .output import Device, Json, Name, echo, print_json, print_table
from .recompute import Shown, TypedText, verify_text
from .typed import tokenizer_of

if TYPE_CHECKING:
    from torch import nn

TEXTS = (
    "The cat sat on the mat.",
    "A longer sentence, with a few more words in it, shows what padding does to a short one.",
    "Yes!",
    "你好，世界。",
)


def verify(
    name: Name,
    text: Annotated[
        str | None, typer.Argument(help="Recompute the forward pass of this text; without a tokenizer, of ids.")
    ] = None,
    pair: Annotated[str | None, typer.Option(help="A second text, for models that read two.")] = None,
    target: Annotated[str | None, typer.Option(help="What an encoder-decoder writes; else its own choice.")] = None,
    label: Annotated[str | None, typer.Option(help="For a loss: a class, the masked word, or an answer's 5,7.")] = None,
    layer: Annotated[int | None, typer.Option(help="Only the steps of this layer.")] = None,
    head: Annotated[int | None, typer.Option(help="Only the steps of this head, one by one.")] = None,
    full: Annotated[bool, typer.Option("--full", help="A row for every head and every time step.")] = False,
    step: Annotated[str | None, typer.Option(help="The operands of one step, e.g. layers.3.attention.head.5.")] = None,
    cell: Annotated[
        str | None, typer.Option(help="One number of the step: query and key, time and unit, e.g. 4,2.")
    ] = None,
    tolerance: Annotated[float, typer.Option(help="The largest error that passes.")] = 1e-4,
    device: Device = None,
    json: Json = False,
) -> None:
    """Check the laws that apply to a model, on texts through its own tokenizer, in float32.

    Where `transformers` is installed and knows the model, its outputs are compared too. Exit code 1 on a breach.
    With a text, every step of its forward pass is recomputed from the weights in float64 and compared.

    Example: glassformer verify ./my-model "A cat sat." --step layers.0.attention.head.2
    """
    import torch

    import glassformer as gf

    torch.backends.cudnn.allow_tf32 = False  # float32 means float32, in recurrent kernels too
    given = {"pair": pair, "target": target, "label": label}
    shown: dict[str, Any] = {"layer": layer, "head": head, "full": full or None, "step": step, "cell": cell}
    if text is None and (wrong := [option for option, value in {**given, **shown}.items() if value is not None]):
        raise ValueError(f'--{wrong[0]} is for one text: glassformer verify {name} "a text" --{wrong[0]} …')
    if cell is not None and step is None:
        raise ValueError(f"--cell {cell} is a place in a step; say in which: --step layers.0.attention.head.0")
    model = gf.load(name, dtype="float32", device=device)
    if text is None:
        _verify_laws(name, model, tolerance, json)
    else:
        verify_text(name, model, TypedText(text, **given), Shown(**shown), tolerance=tolerance, json=json)


def _verify_laws(name: str, model: "nn.Module", tolerance: float, json: bool) -> None:
    from rich.progress import Progress

    from glassformer.jobs.laws import LAWS

    sequences, described = _sequences(name, model)
    applying = [law for law in LAWS if law.applies(model)]
    rows: list[dict[str, Any]] = []
    with Progress(transient=True, disable=json) as progress:
        for law in progress.track(applying, description="checking"):
            rows.append({"law": law.name, "error": law.check(model, sequences)})
        rows += [_parity(name, model, sequences)]
    for row in rows:
        row["verdict"] = row.get("verdict") or ("holds" if row["error"] <= tolerance else "BREACH")
    broken = [row["law"] for row in rows if row["verdict"] == "BREACH"]
    if json:
        print_json({"model": name, "tolerance": tolerance, "laws": rows, "holds": not broken})
    else:
        echo(f"{name}: {described}\n")
        print_table(
            ("law", "largest error", "verdict"),
            [(row["law"], "-" if row["error"] is None else f"{row['error']:.1e}", row["verdict"]) for row in rows],
        )
    if broken:
        echo(f"broken: {', '.join(broken)}", err=True)
        raise typer.Exit(1)


def _sequences(name: str, model: "nn.Module") -> tuple[list[list[int]], str]:
    """Token sequences from the model's tokenizer, or made up where it has none."""
    from glassformer.models.contract import as_model
    from glassformer.text.folder import NO_LIMIT

    config = as_model(model).config
    limit = config.max_positions or 512
    capacity = limit - 4  # padding takes some
    if capacity < 2:
        raise ValueError(f"a model of {limit} positions is too short for the laws; at least 6 are needed")
    if (tokenizer := tokenizer_of(name)) is not None:
        tokenizer.model_max_length = NO_LIMIT  # the cut below is ours, and nothing to be told of
        found = [ids for text in TEXTS if (ids := tokenizer.encode(text)[:capacity])]
        if (top := max(map(max, found))) >= config.vocab_size:
            raise ValueError(f"the tokenizer gives id {top}, but the model knows {config.vocab_size} tokens")
        return found, f"{len(found)} texts through its own tokenizer"
    lengths = [min(length, capacity) for length in (5, 17, 2, 9)]
    made = [[(11 * row + 7 * place + 3) % config.vocab_size for place in range(n)] for row, n in enumerate(lengths)]
    return made, "it has no tokenizer: made-up ids"


def _parity(name: str, model: "nn.Module", sequences: list[list[int]]) -> dict[str, Any]:
    """The same model in `transformers`, on a right-padded batch."""
    row: dict[str, Any] = {"law": "parity with transformers", "error": None}
    try:
        import transformers
    except ImportError:
        return {**row, "verdict": "transformers is not installed"}
    from glassformer.hub.fetch import model_folder
    from glassformer.hub.registry import architecture_for
    from glassformer.hub.tensors import is_adapter
    from glassformer.inspect.laws import error, pad, run, some_target
    from glassformer.models.contract import as_model

    if is_adapter(model_folder(name)):
        return {**row, "verdict": "it is an adapter: save it merged (gf.save), and verify that"}
    config, head = as_model(model).config, as_model(model).head_name
    peer_class = getattr(transformers, architecture_for(config.model_type).heads[head].hf_class, None)
    if peer_class is None:
        return {**row, "verdict": "transformers does not know this model"}
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    import torch

    peer = peer_class.from_pretrained(model_folder(name), dtype=torch.float32).eval()
    ids, mask = pad(sequences, model)
    more = {"decoder_input_ids": some_target(model, len(ids))} if config.is_encoder_decoder else {}
    with torch.inference_mode():
        theirs = peer(input_ids=ids, attention_mask=mask, **more)
    worst = 0.0
    for field, value in run(model, ids, mask).items():
        other = theirs[field]
        if value.shape[:2] == mask.shape and not (more and field == "logits"):  # padding has no meaning
            value, other = value[mask.bool()], other[mask.bool()]
        worst = max(worst, error(value, other))
    return {**row, "error": worst}
