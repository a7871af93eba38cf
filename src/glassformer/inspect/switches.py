"""The names that `inspect/ablation.py` had until now, for one version more."""

import warnings

from . import ablation

RENAMED = {
    "off": "ablate",
    "switches": "ablation_targets",
    "Switch": "AblationTarget",
    "gathered": "select_targets",
    "python_of": "python_of",
}


def __getattr__(name: str) -> object:
    if name not in RENAMED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    now = RENAMED[name]
    warnings.warn(
        f"glassformer.inspect.switches.{name} is now glassformer.inspect.ablation.{now}",
        DeprecationWarning,
        stacklevel=2,
    )
    return getattr(ablation, now)
