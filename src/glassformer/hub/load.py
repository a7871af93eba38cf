"""load, save and load_tokenizer: between Hugging Face folders and our modules."""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from glassformer.engine.linear import Int8Linear, quantised
from glassformer.files import JsonFile, has_file, read_json, write_atomically, write_json
from glassformer.files.arguments import answers
from glassformer.models.architecture import Architecture
from glassformer.models.contract import as_model, generation_config
from glassformer.models.init import fill_tables, start
from glassformer.models.pretrained import RECORDED, PreTrainedModel, how_to_record
from glassformer.text.folder import Folder, ModelFacts
from glassformer.text.saving import files_of
from glassformer.text.tokenizer import Tokenizer
from glassformer.zoo import is_built_in

from . import fetch
from .adapters import read_adapter_config
from .folder import CONFIG, GENERATION, SAFETENSORS, is_of_a_model, read_config, settings_of
from .registry import ARCHITECTURES, architecture_for, check_head, check_known, head_for, skeleton
from .tensors import AdaptedWeights, WeightFiles, is_adapter, short
from .weights import LoadPlan, WeightEntry, check_same, plan_load, tensors_of, their_tensors

log = logging.getLogger("glassformer")
ELSEWHERE = {  # what transformers' from_pretrained takes, and what it is here
    "torch_dtype": "it is called dtype",
    "device_map": 'one device takes all of it: device="cuda", or "auto"',
    "num_labels": 'labels=3 is their number, labels=["bad", "good"] their names',
    "trust_remote_code": "code that a folder brings is never run; leave it out",
    "padding_side": 'tok.padding_side = "left", once it is loaded',
    "use_fast": "there is one kind of tokenizer; leave it out",
    "low_cpu_mem_usage": "files are mapped, not copied, in any case; leave it out",
    "attn_implementation": "the fused kernel runs, and the textbook equation while gf.record listens; leave it out",
    **{name: how_to_record(name) for name in RECORDED},
}
FROM_CONFIG = "from config"  # a head no architecture has


@answers(ELSEWHERE)
def load(
    name: str | Path,
    *,
    head: str | None = FROM_CONFIG,
    labels: Sequence[str] | int | None = None,
    dtype: torch.dtype | str | None = None,
    device: torch.device | str | None = None,
    quant: str | None = None,
    config: Mapping[str, Any] | None = None,
    revision: str | None = None,
) -> PreTrainedModel:
    """A model from a folder or hub name, in eval mode; its `load_report` says what was read.

    The head is the one config.json names. With `head=` (and `labels=`, names or a number) another one is put on,
    fresh where the file does not hold it; `head=None` takes the bare model. `dtype` defaults to the file's, and for
    a built-in model (`zoo:NAME`) to float32: its file has 16 bits a weight to be small.
    With `quant="int8"` the linear layers have 8-bit weights: faster on a CPU, and for inference alone. `config`
    changes settings of config.json, as {"hidden_dropout_prob": 0.2}.
    """
    where, kind = usable(device), _dtype("float32" if dtype is None and is_built_in(name) else dtype)
    _check_quant(quant, where)
    folder = fetch.model_folder(name, revision=revision)
    changes = config or {}
    raw = {**read_config(folder), **changes}
    architecture = architecture_for(raw.get("model_type"))
    check_known(changes, architecture)
    chosen = head != FROM_CONFIG
    head = head if chosen else head_for(architecture, raw.get("architectures"))
    check_head(architecture, head)
    files = weight_files(folder)
    settings = settings_of(architecture, _with_labels(raw, labels, head), folder)
    settings = architecture.fit_config(settings, head, set(files.shapes))
    fresh_head = chosen or labels is not None
    model, plan = _planned(architecture, settings, head, files, fresh_head=fresh_head, folder=folder)
    if any(not torch.equal(files.mapped(copy), files.mapped(first)) for copy, first in plan.copies):
        log.warning("%s: its output layer is not its embeddings, as config.json says, and is taken as its own", name)
        settings = replace(settings, tie_word_embeddings=False)
        model, plan = _planned(architecture, settings, head, files, fresh_head=fresh_head, folder=folder)
    kind = _one_dtype(name, files.dtypes(entry.theirs for entry in plan.reads), kind)
    empty = set(tensors_of(model).values())
    _fill(model, plan.reads, files, dtype=kind, device=where)
    _finish(model, architecture, empty, std=settings.initializer_range, device=where)
    model.load_report = plan.report  # type: ignore[assignment]
    if plan.report.new:
        log.warning("%s: %s", name, plan.report)
    if has_file(folder / GENERATION):
        model.generation_config = JsonFile(folder / GENERATION)  # type: ignore[assignment]
    return (model if quant is None else quantised(model.float())).eval()


def weight_files(folder: Path) -> WeightFiles:
    """The tensors of a model's folder; of a LoRA adapter, those of its base with the adapter merged."""
    if not is_adapter(folder):
        return WeightFiles(folder)
    base = fetch.model_folder(read_adapter_config(folder)["base_model_name_or_path"])
    if is_adapter(base):
        raise ValueError(f"{folder} corrects {base}, which is an adapter itself: merge that one first")
    return AdaptedWeights(folder, WeightFiles(base))


def _planned(
    architecture: Architecture, settings: Any, head: str | None, files: WeightFiles, *, fresh_head: bool, folder: Path
) -> tuple[PreTrainedModel, LoadPlan]:
    """A model without values, and what is to be read into it."""
    model = skeleton(architecture, settings, head)
    try:
        return model, plan_load(architecture, model, head, files.shapes, fresh_head=fresh_head)
    except ValueError as error:
        raise ValueError(f"{folder}: {error}") from None


def save(model: nn.Module, folder: str | Path, *, tokenizer: Tokenizer | None = None) -> Path:
    """Write config.json, model.safetensors and the tokenizer's files, as `transformers` reads them."""
    model = getattr(model, "_orig_mod", model)  # inside torch.compile's wrapper
    config: Any = getattr(model, "config", None)
    if config is None:
        raise ValueError(f"a {type(model).__name__} has no config; save a model that gf.load or gf.build gave")
    head: str | None = model.head_name  # type: ignore[assignment]
    architecture = architecture_for(config.model_type)
    if any(isinstance(module, Int8Linear) for module in model.modules()):
        raise ValueError("a model in 8 bits cannot be saved: load it without quant, and save that")
    check_same(model, skeleton(architecture, config, head))
    tensors = {name: t.cpu() for name, t in their_tensors(architecture, model, head).items()}
    generation = generation_config(as_model(model))
    written = [CONFIG, SAFETENSORS, *([GENERATION] if generation else []), *(files_of(tokenizer) if tokenizer else [])]
    folder = _room_for_a_model(folder, written)
    write_json(folder / CONFIG, hf_config(model))
    write_atomically(folder / SAFETENSORS, lambda partial: save_file(tensors, partial, metadata={"format": "pt"}))
    if generation:
        write_json(folder / GENERATION, generation)
    if tokenizer is not None:
        tokenizer.save(folder, segments=tokenizer.settings.segments and config.has_segments)
    return folder


def hf_config(model: nn.Module) -> dict[str, Any]:
    """The config.json of a model, as `transformers` reads it."""
    made = as_model(model)
    config, head = made.config, made.head_name
    raw = {
        **config.to_hf(),
        "model_type": config.model_type,
        "architectures": [architecture_for(config.model_type).heads[head].hf_class],
        "dtype": short(next(model.parameters()).dtype),
    }
    if head in ("question-answering", "pretraining"):  # two outputs of their own, whatever labels there were
        raw |= {"id2label": {"0": "LABEL_0", "1": "LABEL_1"}, "label2id": {"LABEL_0": 0, "LABEL_1": 1}}
    return dict(sorted(raw.items()))


def _room_for_a_model(folder: str | Path, names: Sequence[str]) -> Path:
    """The folder, made if it is new. A model in it may be written over, but no file of another program."""
    if not str(folder).strip():
        raise ValueError("the name of the folder is empty: name the folder to save to")
    folder = Path(folder)
    for name in names:
        if has_file(folder / name) and not is_of_a_model(folder / name):
            raise ValueError(f"{folder / name} is not a model's, and would be lost: choose another folder")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@answers(ELSEWHERE)
def load_tokenizer(
    name: str | Path, *, src_lang: str | None = None, tgt_lang: str | None = None, revision: str | None = None
) -> Tokenizer:
    """The tokenizer of a folder or hub name; a multilingual one may be told the languages of sources and targets."""
    folder = fetch.tokenizer_folder(name, revision=revision)
    return Tokenizer.from_folder(folder, model_facts(folder)).adapted(src_lang=src_lang, tgt_lang=tgt_lang)


def model_facts(folder: Path) -> ModelFacts:
    """What the model of a folder says of its tokenizer's work: by its config.json, else by the tokenizer's class."""
    files = Folder.read(folder)
    raw: dict[str, Any] = {**read_json(folder / CONFIG)} if has_file(folder / CONFIG) else {}
    kind = raw.get("model_type")
    if kind is None:  # a tokenizer alone: its class is called after its model, DistilBertTokenizerFast
        names = {one.replace("-", ""): one for one in ARCHITECTURES}
        kind = names.get(files.kind.removesuffix("fast").removesuffix("tokenizer"))
    architecture = ARCHITECTURES.get(str(kind))
    if architecture is None:
        stated = raw.get("max_position_embeddings") or raw.get("n_positions")
        return ModelFacts(None, stated if isinstance(stated, int) else None)
    try:
        config = architecture.config.from_hf(raw)
    except ValueError:  # which is told when the model is loaded
        always = architecture.config.has_segments  # unless a config decides it
        return ModelFacts(always if isinstance(always, bool) else None)
    stated = raw.keys() - {"model_type"}  # a config.json that has nothing else is there for the tokenizer alone
    return ModelFacts(config.has_segments, config.max_positions if stated else None)


def _with_labels(raw: dict[str, Any], labels: Sequence[str] | int | None, head: str | None) -> dict[str, Any]:
    if labels is None:
        return raw
    if head not in ("text-classification", "token-classification"):
        raise ValueError(f"labels are for classification heads, not for {head!r}; leave them out")
    names = [f"LABEL_{number}" for number in range(labels)] if isinstance(labels, int) else list(labels)
    if isinstance(labels, str) or not names or len(set(names)) < len(names):
        raise ValueError(f"labels must be some different names, or how many there are, not {labels!r}")
    return {**raw, "id2label": dict(enumerate(names)), "label2id": None}


def _dtype(dtype: torch.dtype | str | None) -> torch.dtype | None:
    if dtype is None:
        return None
    found = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if not isinstance(found, torch.dtype) or not found.is_floating_point:
        raise ValueError(f"dtype {dtype!r} is not one of float32, bfloat16, float16, float64")
    return found


def _check_quant(quant: str | None, device: torch.device) -> None:
    if quant not in (None, "int8"):
        raise ValueError(f"quant is int8 or nothing, not {quant!r}")
    if quant and device.type != "cpu":
        raise ValueError(f"quant=int8 is for CPUs, not for {device.type}: load with dtype=bfloat16 there")


def _one_dtype(name: str | Path, found: set[torch.dtype], dtype: torch.dtype | None) -> torch.dtype | None:
    """The dtype to load as where a file mixes several and none was asked for; None: as the file has it."""
    if dtype is not None or len(found) < 2:
        return dtype
    widest = reduce(torch.promote_types, found)
    log.warning("%s mixes %s: all of it is loaded as %s", name, ", ".join(sorted(map(short, found))), short(widest))
    return widest


def usable(device: torch.device | str | None) -> torch.device:
    """A device, once something could be put on it; "auto" is a GPU where there is one, None the CPU."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return torch.empty(0, device=device or "cpu").device
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device {str(device)!r} cannot be used: {str(error).splitlines()[0]}") from None


def _fill(
    model: nn.Module,
    reads: Sequence[WeightEntry],
    files: WeightFiles,
    *,
    dtype: torch.dtype | None,
    device: torch.device,
) -> None:
    """Put the file's tensors in the place of the model's, tied copies in all of their places.

    What needs no change stays in the mapped file.
    """
    places = _places(model)
    for entry in reads:
        changed = len(entry.ours) > 1 or entry.op is not None
        copied = changed or dtype is not None or device.type != "cpu"
        tensor = files.passing(entry.theirs) if copied else files.mapped(entry.theirs)
        for name, part in zip(entry.ours, entry.split(tensor), strict=True):
            kind = dtype if dtype is not None and part.is_floating_point() else part.dtype
            _put(places[name], part.to(device, kind, copy=changed, memory_format=torch.contiguous_format))


def _places(model: nn.Module) -> Mapping[str, list[tuple[nn.Module, str]]]:
    """For each tensor's name, every (module, attribute) that holds that same tensor."""
    tensors = tensors_of(model)
    holders: dict[int, list[tuple[nn.Module, str]]] = {}
    for name, tensor in tensors.items():
        path, _, attribute = name.rpartition(".")
        holders.setdefault(id(tensor), []).append((model.get_submodule(path), attribute))
    return {name: holders[id(tensor)] for name, tensor in tensors.items()}


def _put(places: Sequence[tuple[nn.Module, str]], tensor: Tensor) -> None:
    first, attribute = places[0]
    if attribute in first._parameters:
        old = first._parameters[attribute]
        assert old is not None
        tensor = nn.Parameter(tensor, requires_grad=old.requires_grad and tensor.is_floating_point())
    for module, attribute in places:
        setattr(module, attribute, tensor)


def _finish(
    model: nn.Module, architecture: Architecture, empty: Collection[Tensor], *, std: float, device: torch.device
) -> None:
    """Give values to what is still empty, since the file does not hold it: fresh heads, fixed tables, tensors that are
    zero when absent."""
    kind = next((tensor.dtype for tensor in model.parameters() if tensor not in empty), torch.float32)
    places = _places(model)
    for name in places:
        module, attribute = places[name][0]
        tensor = getattr(module, attribute)
        if tensor in empty:
            value = torch.zeros(tensor.shape, device=device, dtype=kind)
            if name not in architecture.zero_if_absent:
                start(module, attribute, value, std)
            _put(places[name], value)
    fill_tables(model, device, kind)
    for module in model.modules():
        if isinstance(module, nn.RNNBase):
            module.flatten_parameters()  # a GPU's kernels want them in one piece
