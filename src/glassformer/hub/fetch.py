"""Names to folders: a local folder, a built-in model, the cache, or a hub; cached means no socket is opened.

The environment is read when called, not when imported: HF_ENDPOINT, HF_HUB_OFFLINE, HF_HUB_CACHE, HF_HOME.
"""

import os
import socket
import threading
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from glassformer.files import has_file, read_json
from glassformer.text.chat import TEMPLATE_FILE
from glassformer.text.sentencepiece_folder import SENTENCEPIECE_FILES
from glassformer.zoo import PREFIX, folder_of, is_built_in, zoo

from .folder import CONFIG, GENERATION, INDEX, WEIGHT_FILES

OFFICIAL = "https://huggingface.co"
PATIENCE = 2.0  # seconds for a first connection; HF_HUB_ETAG_TIMEOUT, if set, is how long a slow network is given
PORTS = {"https": 443, "socks4": 1080, "socks5": 1080, "socks5h": 1080}
TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "vocab.json", "source.spm", *SENTENCEPIECE_FILES)
TOKENIZER_EXTRAS = (
    *("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "merges.txt"),
    TEMPLATE_FILE,
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
    return any(has_file(tokenizer_folder(name) / file) for file in TOKENIZER_FILES)


def tokenizer_folder(name: str | Path, *, revision: str | None = None) -> Path:
    """The folder with the tokenizer's files, fetched if need be."""
    if (local := _local(name)) is not None:
        return local
    hub = _Hub(str(name), revision)
    if (cached := hub.cached(TOKENIZER_FILES)) is not None:
        return cached
    for file in TOKENIZER_EXTRAS:  # before the files that count as having the tokenizer
        hub.fetch(file)
    found: Path | None = None
    for file in TOKENIZER_FILES:
        if found is None or file not in SENTENCEPIECE_FILES:  # which are read where there is nothing else
            found = hub.fetch(file) or found
    if found is None:
        raise ValueError(f"{name} at {hub.endpoint} has no tokenizer; looked for {', '.join(TOKENIZER_FILES)}")
    return found.parent


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
    """The folder of this name, if there is one; an error if the name can only have meant a folder.

    That is a name that no hub has (two slashes, a leading dot, slash or tilde), and one whose parent folder is here.
    """
    text = str(name)
    if is_built_in(text):
        return folder_of(text)
    path = Path(os.path.expanduser(text))
    if not text.strip():
        raise ValueError(f"there is no folder {text!r}: the name is empty, perhaps a variable that is not set")
    if os.path.isdir(path):
        return path
    if os.path.isfile(path):
        raise ValueError(f"{text} is a file; give the folder that holds it")
    if isinstance(name, Path) or text.startswith(("/", ".", "~")) or text.count("/") > 1:
        raise ValueError(f"there is no folder {text!r}{near_folders(path)}")
    if "/" in text and os.path.isdir(path.parent):
        raise ValueError(
            f"there is no folder {text!r}{near_folders(path)} "
            f"(a folder {str(path.parent)!r} is here, so no hub is asked for it)"
        )
    return None


def near_folders(path: Path) -> str:
    """What a mistyped folder may have meant, as the end of an error: names like it where it would be, or built in."""
    while path != path.parent and not os.path.isdir(path.parent):
        path = path.parent  # the part that is wrong
    try:
        there = [one.name for one in path.parent.iterdir() if one.is_dir()]
    except OSError:
        there = []
    near = [str(path.with_name(one)) for one in get_close_matches(path.name, there)] if path.name else []
    if path.parent == Path():
        near += [PREFIX + card["name"] for card in zoo() if card["name"] == path.name.lower()]
    return f"; near it: {', '.join(near)}" if near else ""


def _with_config(folder: Path) -> Path:
    if not has_file(folder / CONFIG):
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
        self.reached = False

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
            raise ValueError(
                f"{self.name} is neither a folder nor whole in the cache, and HF_HUB_OFFLINE is set"
                f"{near_folders(Path(self.name))}"
            )
        self.reach()
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
            raise self.unreached("did not answer") from None
        except errors.EntryNotFoundError:
            return None
        except errors.GatedRepoError:
            raise ValueError(f"{self.name} asks for an agreement at {self.endpoint}; then set HF_TOKEN") from None
        except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError):
            raise ValueError(
                f"there is no folder {self.name!r}{near_folders(Path(self.name))}, and {self.endpoint} has no such "
                f"repository (revision {self.revision}); a private one needs HF_TOKEN"
            ) from None
        self.revision = Path(path).parent.name  # the commit: the files that follow are of the same one
        return Path(path)

    def reach(self) -> None:
        """Knock once before the first file: huggingface_hub tries for half a minute where there is no network."""
        if self.reached:
            return
        wait = float(os.environ.get("HF_HUB_ETAG_TIMEOUT") or PATIENCE)
        if (problem := knock(*host_and_port(self.endpoint), wait=wait)) is not None:
            raise self.unreached(problem)
        self.reached = True

    def unreached(self, problem: str) -> ValueError:
        return ValueError(
            f"{self.name} is not a folder and not in the cache, and {self.endpoint} cannot be reached ({problem}); "
            f"or is the path mistyped?{near_folders(Path(self.name)).removeprefix(';')}"
        )


def host_and_port(url: str) -> tuple[str, int]:
    """Whom to connect to for a URL: its own host, or the proxy that the environment names."""
    parts = urlsplit(url)
    proxies = {} if proxy_bypass(parts.hostname or "") else getproxies()
    if proxy := proxies.get(parts.scheme) or proxies.get("all"):
        parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    return parts.hostname or "", parts.port or PORTS.get(parts.scheme, 80)


def knock(host: str, port: int, *, wait: float) -> str | None:
    """None if a host takes connections; else what is wrong, found within `wait` seconds, looking up its name included.

    Nothing bounds a look-up but a thread that is not waited for.
    """
    problems: list[str | None] = []

    def connect() -> None:
        try:
            socket.create_connection((host, port), timeout=wait).close()
            problems.append(None)
        except OSError as error:
            problems.append((error.strerror or str(error)).lower())

    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(wait)
    return problems[0] if problems else f"no answer in {wait:g} s; HF_HUB_ETAG_TIMEOUT=30 waits longer"
