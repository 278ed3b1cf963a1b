"""Where a model is: how to wait for its device, and how batches get there.

Tested with stand-ins for a device; it has not been run on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from fallline.measure.clock import Wait, wait_for


def device_of(model: nn.Module) -> torch.device:
    """The device of the model's first parameter; the CPU for a model without one."""
    first = next(model.parameters(), None)
    return torch.device("cpu") if first is None else first.device


def wait_for_model(model: nn.Module) -> Wait:
    """A function that returns when the model's device has done all its work; on a CPU there is nothing to wait for."""
    return wait_for(str(device_of(model)))


def mover(device: torch.device) -> Callable[[Any], Any] | None:
    """A function that moves the tensors of a batch, however nested, to the device; None on a CPU, where batches are.

    >>> move = mover(torch.device("meta"))
    >>> move({"x": [torch.ones(2)], "name": "text"})["x"][0].device.type
    'meta'
    """
    if device.type == "cpu":
        return None

    def move(value: Any) -> Any:
        return value.to(device, non_blocking=True) if isinstance(value, Tensor) else value

    return lambda batch: tree_map(move, batch)
