"""Activation checkpointing for any model: blocks keep only their inputs, and the backward pass computes them again."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

LEAST_LAYERS = 4
"""Fewer layers of a plain Sequential are not worth two segments."""


class NothingToRecompute(Exception):
    """Raised for a model without repeated blocks and without a sequence of layers."""


def recompute_blocks(model: nn.Module) -> int:
    """Changes the model in place; returns how many pieces it now computes twice.

    The pieces are the members of lists of alike modules, the outermost of them; a plain ``Sequential`` of different
    layers is cut into about as many segments as the root of its length, which keeps least.
    """
    pieces = 0
    for container in list(_containers(model)):
        if _is_repeated(container):
            for block in container.children():
                block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False)
                pieces += 1
        else:
            segments = _segments(list(container.children()))
            container.forward = functools.partial(_run_segments, segments)
            pieces += len(segments)
    if not pieces:
        raise NothingToRecompute("it has neither a list of alike blocks nor a Sequential of 4 layers or more")
    return pieces


def _containers(module: nn.Module) -> Iterator[nn.Module]:
    """The outermost modules whose members can be recomputed."""
    if _is_repeated(module) or _is_sequence(module):
        yield module
        return
    for child in module.children():
        yield from _containers(child)


def _is_repeated(module: nn.Module) -> bool:
    members = list(module.children())
    if len(members) < 2 or len({type(member) for member in members}) > 1:
        return False
    if isinstance(module, nn.ModuleList):
        return any(True for _ in module.parameters())
    # Layers of one type in a row are layers, not blocks of layers.
    return isinstance(module, nn.Sequential) and all(any(True for _ in member.children()) for member in members)


def _is_sequence(module: nn.Module) -> bool:
    return type(module) is nn.Sequential and len(module) >= LEAST_LAYERS and any(True for _ in module.parameters())


def _segments(layers: list[nn.Module]) -> list[list[nn.Module]]:
    length = math.ceil(len(layers) / math.ceil(math.sqrt(len(layers))))
    return [layers[at : at + length] for at in range(0, len(layers), length)]


def _run_segments(segments: list[list[nn.Module]], x: Tensor) -> Any:
    for segment in segments:
        x = checkpoint(_one_after_the_other(segment), x, use_reentrant=False)
    return x


def _one_after_the_other(layers: list[nn.Module]) -> Callable[[Tensor], Tensor]:
    def run(x: Tensor) -> Tensor:
        for layer in layers:
            x = layer(x)
        return x

    return run
