"""Optimizers whose parameters hold other weights for evaluation than for training (Schedule-Free).

A rule that has the entries ``train`` and ``eval`` has two modes.  Which one it is in stands in every group,
so that checkpoints know what the weights saved with them are.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fallline.optim.group_reader import MODE

if TYPE_CHECKING:
    from fallline.optim.optimizer import RuleOptimizer


def methods() -> dict[str, Callable[..., None]]:
    def train(self: RuleOptimizer) -> None:
        """Puts the weights to train into the parameters; does nothing if they are there."""
        _switch(self, "train")

    def eval(self: RuleOptimizer) -> None:
        """Puts the average, the weights to evaluate and to keep, into the parameters."""
        _switch(self, "eval")

    return {"train": train, "eval": eval}


def in_train_mode(optimizer: RuleOptimizer) -> bool:
    return all(group.get(MODE, True) for group in optimizer.param_groups)


def _switch(optimizer: RuleOptimizer, mode: str) -> None:
    if in_train_mode(optimizer) == (mode == "train"):
        return
    optimizer.run_entry(mode)
    for group in optimizer.param_groups:
        if MODE in group:
            group[MODE] = mode == "train"


def refuse_step(optimizer: RuleOptimizer) -> None:
    if not in_train_mode(optimizer):
        raise RuntimeError(
            f"{type(optimizer).__name__} is in eval mode: its parameters are the averaged weights, not those "
            "to train; call optimizer.train() before step()"
        )


def warn_of_saving(optimizer: RuleOptimizer) -> None:
    """Once per optimizer: what is saved is right, but only together with the averaged weights."""
    saved: Any = optimizer
    if not in_train_mode(optimizer) and not getattr(saved, "_warned_of_saving", False):
        saved._warned_of_saving = True
        warnings.warn(
            f"this checkpoint of {type(optimizer).__name__} is in eval mode: it belongs to the averaged "
            "weights that the parameters hold now; to save one to train on from, call optimizer.train() "
            "before saving the model and the optimizer",
            stacklevel=3,
        )
