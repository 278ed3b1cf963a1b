"""A first step of rate 0 over gradients of zeros, by which torch.distributed.checkpoint asks for the states.

The states are made, and nothing else happens: a counter, or an estimate, that has moved would be saved, and a training
that begins after saving would not be the one that begins without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from fallline.distributed.dtensors import local_of
from fallline.optim.roster import all_params

if TYPE_CHECKING:
    from fallline.optim.optimizer import RuleOptimizer


def only_makes_states(optimizer: RuleOptimizer) -> bool:
    groups = optimizer.param_groups
    if any(optimizer.state.values()) or not all("lr" in group and _is_zero(group["lr"]) for group in groups):
        return False
    grads = [local_of(param.grad) for param in all_params(groups) if param.grad is not None]
    moves = any(bool((grad._values() if grad.is_sparse else grad).any()) for grad in grads)
    if optimizer._team is not None:
        found = torch.tensor([float(moves)], device=optimizer._team.ranks.device)
        optimizer._team.ranks.max(found)
        moves = bool(found)
    return not moves


def _is_zero(lr: object) -> bool:
    return lr is not None and float(lr) == 0.0  # type: ignore[arg-type]
