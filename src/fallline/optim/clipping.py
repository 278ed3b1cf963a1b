"""The factor of all gradients: unscaling, and clipping by their norm.  The norm is a reduction as rules have them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fallline.distributed.dtensors import local_of
from fallline.lower.coupled import Joiner, run_coupled
from fallline.lower.executor import Partial, Passes, StepScalars
from fallline.lower.item import real_view
from fallline.optim.options import check_optimizer_options
from fallline.optim.plan import Bucket
from fallline.rules.gradients import gradient_norm
from fallline.rules.trace import Trace

if TYPE_CHECKING:
    from fallline.optim.optimizer import RuleOptimizer

NORM = gradient_norm.program(Trace())


def gradient_factor(optimizer: RuleOptimizer, buckets: Sequence[Bucket], sparse: Sequence[Tensor]) -> float | None:
    """The factor of this step's gradients; None if the step is to be skipped."""
    scale = getattr(optimizer, "grad_scale", None)
    unscale = 1.0 if scale is None else 1.0 / float(scale)
    if optimizer.clip_norm is None and not optimizer.skip_nonfinite:
        return unscale
    check_optimizer_options({"clip_norm": optimizer.clip_norm, "skip_nonfinite": optimizer.skip_nonfinite})
    if optimizer.joiner is not None:
        optimizer.joiner.begin(NORM.name)
    norm = _norm(buckets, sparse, optimizer.joiner) * unscale
    optimizer.grad_norm = torch.tensor(norm, dtype=torch.float32, device="cpu")
    if optimizer.skip_nonfinite and not math.isfinite(norm):
        unscale_gradients(optimizer)
        return None
    if optimizer.clip_norm is None:
        return unscale
    # As torch.nn.utils.clip_grad_norm_: the same constant, and a norm that is not finite goes through.
    return unscale * min(1.0, optimizer.clip_norm / (norm + 1e-6)) if not math.isnan(norm) else math.nan


def note_overflow(optimizer: RuleOptimizer) -> None:
    """Sets the norm of a step that a GradScaler skips; the last step's would look like one of this."""
    unscale_gradients(optimizer)
    if optimizer.clip_norm is not None or optimizer.skip_nonfinite:
        optimizer.grad_norm = torch.tensor(math.inf, dtype=torch.float32, device="cpu")


@torch.no_grad()
def unscale_gradients(optimizer: RuleOptimizer) -> None:
    """Leaves the gradients as a GradScaler does, so that norms which are logged are those of the step.

    A pass of its own, which reads and writes every gradient, but only after a step that unscaled by itself.
    """
    scale = getattr(optimizer, "grad_scale", None)
    if scale is None:
        return
    grads = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    torch._foreach_mul_([grad._values() if grad.is_sparse else local_of(grad) for grad in grads], 1.0 / float(scale))


def _norm(buckets: Sequence[Bucket], sparse: Sequence[Tensor], joiner: Joiner | None) -> float:
    taking_part = [bucket.companion(NORM) for bucket in buckets if bucket.executor.present]
    numbers = [StepScalars([()], [0] * len(bucket.items)) for bucket in taking_part]
    if len(taking_part) == 1 and not sparse and joiner is None:
        executor = taking_part[0].executor
        return executor.run(numbers[0])["norm"][executor.present[0]]
    runs = [bucket.executor.passes(scalars) for bucket, scalars in zip(taking_part, numbers, strict=True)]
    with torch.no_grad():
        deferred = run_coupled([*runs, _sum_of_squares(sparse)], joiner)
    return deferred[-1]["norm"][0]


def _sum_of_squares(sparse: Sequence[Tensor]) -> Passes:
    """The part of gradients that no executor has."""
    values = torch.zeros((), dtype=torch.float64, device="cpu")
    for grad in sparse:
        values += real_view(grad.values()).double().square().sum().cpu()
    yield [Partial((NORM.name, 0), "sum", values, over_all=True)]
    return {"norm": [math.sqrt(float(values))]}
