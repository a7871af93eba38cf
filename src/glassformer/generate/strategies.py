"""Strategies by name: the settings that each of them stands for, where nothing else is asked."""

from typing import Any

DEFAULT_NEW = 50  # new tokens, where no number is asked for
STRATEGIES: dict[str, dict[str, Any]] = {
    "greedy": {},
    "beam": {"num_beams": 4},
    "diverse": {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 1.0},
    "sample": {"do_sample": True},
    "top-k": {"do_sample": True, "top_k": 50},
    "top-p": {"do_sample": True, "top_p": 0.95},
    "typical": {"do_sample": True, "typical_p": 0.2},
    "contrastive": {"penalty_alpha": 0.6, "top_k": 4},
    "speculative": {"prompt_lookup_num_tokens": 10},
}
