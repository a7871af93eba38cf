"""Names to folders: a local folder, the cache, or a hub; cached means no socket is opened.

The environment is read when called, not when imported: HF_ENDPOINT, HF_HUB_OFFLINE, HF_HUB_CACHE, HF_HOME.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from glassformer.files import read_json

from .folder import CONFIG, GENERATION, INDEX, WEIGHT_FILES

OFFICIAL = "https://huggingface.co"
TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "vocab.json", "source.spm")
TOKENIZER_EXTRAS = (
    *("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "merges.txt"),
    *("target.spm", "target_vocab.json", CONFIG),
)


def model_folder(name: str | Path, *, revision: str | None = None) -> Path:
    """The folder with the config and weights of a model, fetched if need be."""
    if (local := _local(name)) is not None:
        return _with_config(local)
    hub = _Hub(str(name), revision)
    cached = hub.cached((CONFIG,))
    if cached is not None and _has_weights(cached):
        return cached
    config = hub.config()
    hub.fetch(GENERATION)
    for weights in WEIGHT_FILES:
        if (found := hub.fetch(weights)) is not None:
            for shard in _shards(found):
                hub.fetch(shard)
            return config.parent
    raise ValueError(f"{name} at {hub.endpoint} has no weights; looked for {', '.join(WEIGHT_FILES)}")


def config_folder(name: str | Path, *, revision: str | None = None) -> Path:
    """The folder with a model's config.json; its weights are not fetched."""
    if (local := _local(name)) is not None:
        return _with_config(local)
    hub = _Hub(str(name), revision)
    if (cached := hub.cached((CONFIG,))) is not None:
        return cached
    return hub.config().parent


def has_tokenizer(name: str | Path) -> bool:
    """Whether there are files of a tokenizer; a model without one is given ids."""
    return any((tokenizer_folder(name) / file).is_file() for file in TOKENIZER_FILES)


def tokenizer_folder(name: str | Path, *, revision: str | None = None) -> Path:
    """The folder with the tokenizer's files, fetched if need be."""
    if (local := _local(name)) is not None:
        return local
    hub = _Hub(str(name), revision)
    if (cached := hub.cached(TOKENIZER_FILES)) is not None:
        return cached
    for file in TOKENIZER_EXTRAS:  # before the files that count as having the tokenizer
        hub.fetch(file)
    found = [path for file in TOKENIZER_FILES if (path := hub.fetch(file)) is not None]
    if not found:
        raise ValueError(f"{name} at {hub.endpoint} has no tokenizer; looked for {', '.join(TOKENIZER_FILES)}")
    return found[0].parent


def endpoint() -> str:
    return os.environ.get("HF_ENDPOINT", "").rstrip("/") or OFFICIAL


def offline() -> bool:
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")


def cache_folder() -> Path:
    """Where huggingface_hub keeps what it fetched."""
    if where := os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE"):
        return Path(where).expanduser()
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    return Path(home).expanduser() / "hub"


def _local(name: str | Path) -> Path | None:
    """The folder of this name, if there is one; an error if the name can only have meant a folder."""
    path = Path(name).expanduser()
    if path.is_dir():
        return path
    text = str(name)
    if path.is_file():
        raise ValueError(f"{text} is a file; give the folder that holds it")
    if isinstance(name, Path) or text.startswith(("/", ".", "~")) or text.count("/") > 1 or not text.strip():
        raise ValueError(f"there is no folder {text!r}")
    return None


def _with_config(folder: Path) -> Path:
    if not (folder / CONFIG).is_file():
        raise ValueError(f"{folder} has no {CONFIG}; give the folder that holds it")
    return folder


def _shards(weights: Path) -> list[str]:
    """The files that an index names; none where the weights are one file."""
    if not weights.name.endswith(INDEX):
        return []
    return sorted(set(read_json(weights).get("weight_map", {}).values()))


def _has_weights(folder: Path) -> bool:
    found = next((folder / name for name in WEIGHT_FILES if (folder / name).is_file()), None)
    return found is not None and all((folder / shard).is_file() for shard in _shards(found))


class _Hub:
    """One repository at one revision, in the cache and on a hub."""

    def __init__(self, name: str, revision: str | None) -> None:
        self.name = name
        self.revision = revision or "main"
        self.endpoint = endpoint()
        self.cache = cache_folder()

    def cached(self, files: Sequence[str]) -> Path | None:
        """The cached folder that holds one of these files; no network is used."""
        from huggingface_hub import try_to_load_from_cache
        from huggingface_hub.errors import HFValidationError

        try:
            for file in files:
                found = try_to_load_from_cache(self.name, file, cache_dir=self.cache, revision=self.revision)
                if isinstance(found, str):
                    return Path(found).parent
        except HFValidationError:
            raise ValueError(f"there is no folder {self.name!r}, and no hub name looks like that") from None
        return None

    def config(self) -> Path:
        if (found := self.fetch(CONFIG)) is None:
            raise ValueError(f"{self.name} at {self.endpoint} has no {CONFIG}; it is not a model for this project")
        return found

    def fetch(self, file: str) -> Path | None:
        """One file, downloaded into the cache; None where the repository does not have it."""
        if offline():
            raise ValueError(f"{self.name} is neither a folder nor whole in the cache, and HF_HUB_OFFLINE is set")
        import huggingface_hub
        from huggingface_hub import errors

        huggingface_hub.constants.HF_HUB_OFFLINE = False  # it remembers what was set when it was imported
        try:
            path = huggingface_hub.hf_hub_download(
                self.name,
                file,
                revision=self.revision,
                cache_dir=self.cache,
                endpoint=self.endpoint,
                token=None if self.endpoint == OFFICIAL else False,  # a token is for the official hub alone
            )
        except errors.LocalEntryNotFoundError:
            raise ValueError(
                f"{self.name} is not a folder and not in the cache, and {self.endpoint} cannot be reached"
            ) from None
        except errors.EntryNotFoundError:
            return None
        except errors.GatedRepoError:
            raise ValueError(f"{self.name} asks for an agreement at {self.endpoint}; then set HF_TOKEN") from None
        except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError):
            raise ValueError(
                f"there is no folder {self.name!r}, and {self.endpoint} has no such repository "
                f"(revision {self.revision}); a private one needs HF_TOKEN"
            ) from None
        self.revision = Path(path).parent.name  # the commit: the files that follow are of the same one
        return Path(path)
