"""`glassformer doctor`: what this installation has and how it is set."""

from typing import Any

from .output import Json, print_json, print_table, size

PACKAGES = ("torch", "numpy", "tokenizers", "safetensors", "huggingface_hub", "transformers", "sentencepiece")


def doctor(json: Json = False) -> None:
    """Show versions, devices, threads, offline and mirror settings, and the size of the cache.

    Example: glassformer doctor
    """
    facts = {**_versions(), **_devices(), **_hub()}
    if json:
        print_json(facts)
    else:
        print_table(("what", "is"), [(name.replace("_", " "), value) for name, value in facts.items()])


def _versions() -> dict[str, Any]:
    import platform
    from importlib.metadata import PackageNotFoundError, version

    from glassformer import __version__

    found = {"glassformer": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def _devices() -> dict[str, Any]:
    import torch

    from glassformer.engine import native

    devices = ["cpu"]
    devices += [f"cuda:{n} {torch.cuda.get_device_name(n)}" for n in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        devices.append("mps")
    return {
        "devices": ", ".join(devices),
        "threads": torch.get_num_threads(),
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "cpu_kernels": "ours" if native.why_not() is None else f"torch's alone: {native.why_not()}",
    }


def _hub() -> dict[str, Any]:
    import os

    from glassformer.hub import fetch

    cache = fetch.cache_folder()
    bytes_used = sum(path.stat().st_size for path in cache.rglob("*") if path.is_file() and not path.is_symlink())
    return {
        "endpoint": fetch.endpoint() + ("" if fetch.endpoint() == fetch.OFFICIAL else " (a mirror: no token is sent)"),
        "offline": "yes (HF_HUB_OFFLINE)" if fetch.offline() else "no",
        "token": "set" if os.environ.get("HF_TOKEN") else "not set",
        "cache": str(cache),
        "cache_size": size(bytes_used),
    }
