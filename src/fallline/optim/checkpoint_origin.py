"""Which class of ``torch.optim`` wrote a checkpoint: each class keeps other options in its groups."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Mapping
from typing import Any

import torch

from fallline.optim.options import SCHEDULER_KEYS


def torch_writers(group: Mapping[str, Any]) -> list[str]:
    """Names of the classes that keep exactly these options in a group, the likeliest first; none if it is of somebody
    else, or of a torch with other options."""
    keys = frozenset(map(str, group)) - {"params", "param_names", *SCHEDULER_KEYS}
    found = [name for name, options in _options().items() if options == keys]
    # Adam and AdamW keep the same ones: Adam with this flag is AdamW. Before torch 2.7 nothing tells them apart.
    if "AdamW" in found and "decoupled_weight_decay" in group:
        found = ["AdamW", "Adam"] if group["decoupled_weight_decay"] else ["Adam"]
    return found


@functools.cache
def _options() -> dict[str, frozenset[str]]:
    found = {}
    for name, value in vars(torch.optim).items():
        if isinstance(value, type) and issubclass(value, torch.optim.Optimizer) and value is not torch.optim.Optimizer:
            # A class that needs more than parameters, such as one that somebody has put there, keeps none that we know.
            with contextlib.suppress(Exception):
                found[name] = frozenset(value([torch.zeros(1, 1)]).defaults)  # type: ignore[call-arg]
    return found
