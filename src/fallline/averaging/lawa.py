r"""LAWA, latest weight averaging: evaluate with the mean of a few recent snapshots of the weights.

Use it with a schedule that keeps the rate high: the average then has the effect of a decay to zero at the
end, and gives good weights at any time.  ``LawaQueue`` keeps the last k snapshots and takes their plain mean;
``LawaEma`` keeps one exponential average of snapshots, a tenth of the queue's memory.

.. math::
    \text{after update } s = 0, 1, …: \quad & \text{if } s \ge \text{start and }
        (s - \text{start}) \bmod \text{interval} = 0: \\
    \text{queue:} \quad & \text{append } \theta, \text{ keep the last } k; \qquad
        a = \tfrac{1}{k} \textstyle\sum_i \theta_i \;\text{once there are } k \\
    \text{EMA:} \quad & a \leftarrow \theta \;\text{(first snapshot)}, \quad
        a \leftarrow \beta a + (1-\beta)\,\theta

Arguments:
    optimizer: any optimizer of torch or fallline; ``avg.step()`` steps it.
    start: the first snapshot is taken after update s = start, counted from 0.
    interval: the number of updates from one snapshot to the next.
    k: length of the queue.
    beta: β, the weight of the old average.

``for_steps(optimizer, T)`` sets start and interval as AlgoPerf's entries do, from the length T of the
training: start ⌈0.02 T⌉, interval ⌈0.002 T⌉ (queue) or ⌈0.005 T⌉ (EMA).

Example:
    >>> import torch, fallline
    >>> w = torch.nn.Parameter(torch.tensor([4.0]))
    >>> avg = fallline.LawaQueue(fallline.SGD([w], lr=0.25), start=0, interval=1, k=2)
    >>> for _ in range(2):
    ...     avg.zero_grad()
    ...     w.square().sum().backward()
    ...     avg.step()
    >>> w.item()
    1.0
    >>> with avg.averaged():
    ...     w.item()
    1.5

The queue's mean needs memory of its own: ``eval()`` keeps the raw weights aside, one copy beside the k
snapshots, until ``train()``.  Batch-norm statistics are not averaged; they stay those of the raw weights.

Deviation: AlgoPerf's LAWA EMA casts its β = 0.2 to an integer, 0, so that it evaluated the latest snapshot;
here β is a float, and ``beta=0`` gives the same as AlgoPerf.  The caller chooses when to evaluate with the
average.

References:
    Kaddour 2022, Stop wasting my time! Saving days of ImageNet and BERT training with latest weight averaging
    (arXiv 2209.14981); Sanyal et al. 2023, Early weight averaging meets high learning rates (arXiv
    2306.03241); AlgoPerf v0.5 ``lawa_queue/submission.py``, ``lawa_ema/submission.py``.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor

from fallline.averaging.ema import ExponentialAverage
from fallline.averaging.swap import write_mean
from fallline.averaging.wrapper import Averaging, count, positive_count
from fallline.rules.annotations import fraction


def _start_and_interval(total_steps: int, start: float, interval: float) -> tuple[int, int]:
    positive_count.check("total_steps", total_steps)
    return math.ceil(start * total_steps), math.ceil(interval * total_steps)


def _due(updates: int, start: int, interval: int) -> bool:
    return updates >= start and (updates - start) % interval == 0


class LawaQueue(Averaging):
    __doc__ = __doc__
    kind = "lawa_queue"
    settings: ClassVar = {"start": count, "interval": positive_count, "k": positive_count}
    start: int
    interval: int
    k: int

    def __init__(self, optimizer: torch.optim.Optimizer, start: int, interval: int, k: int = 10):
        super().__init__(optimizer, start=start, interval=interval, k=k)
        self._queues: dict[Tensor, list[Tensor]] = {}

    @classmethod
    def for_steps(
        cls,
        optimizer: torch.optim.Optimizer,
        total_steps: int,
        *,
        start_fraction: float = 0.02,
        interval_fraction: float = 0.002,
        k: int = 10,
    ) -> LawaQueue:
        """Start and interval as fractions of the training's length; the defaults are AlgoPerf's."""
        return cls(optimizer, *_start_and_interval(total_steps, start_fraction, interval_fraction), k)

    @property
    def ready(self) -> bool:
        """Whether the queue is full; before that, ``eval()`` leaves the raw weights."""
        return any(len(queue) == self.k for queue in self._queues.values())

    def _update(self) -> None:
        if not _due(self.updates, self.start, self.interval):
            return
        for param in self.params():
            queue = self._queues.setdefault(param, [])
            # The newest snapshot takes the memory of the oldest.
            oldest = queue.pop(0) if len(queue) == self.k else torch.empty_like(param, requires_grad=False)
            queue.append(oldest.copy_(param.detach()))

    def _swap_in(self, param: Tensor) -> Tensor | None:
        queue = self._queues.get(param, [])
        if len(queue) < self.k:
            return None
        raw = param.detach().clone()
        write_mean(param, queue)
        return raw

    def _swap_out(self, param: Tensor, raw: Tensor) -> None:
        param.detach().copy_(raw)

    def _kept(self) -> dict[Tensor, list[Tensor]]:
        return self._queues

    def _keep(self, kept: dict[Tensor, list[Tensor]]) -> None:
        self._queues = kept

    def _check_loaded(self, settings: dict[str, Any], kept: dict[Tensor, list[Tensor]]) -> None:
        if settings["k"] != self.k:
            raise ValueError(
                f"the checkpoint has a queue of length {settings['k']}, this LawaQueue one of length "
                f"{self.k}; make it with k={settings['k']}, or load the checkpoint into .optimizer and begin "
                "a new queue"
            )
        longest = max(map(len, kept.values()), default=0)
        if longest > self.k:
            raise ValueError(f"the checkpoint has {longest} snapshots in a queue of length {self.k}")


class LawaEma(ExponentialAverage):
    __doc__ = __doc__
    kind = "lawa_ema"
    settings: ClassVar = {"start": count, "interval": positive_count, "beta": fraction}
    start: int
    interval: int
    beta: float

    def __init__(self, optimizer: torch.optim.Optimizer, start: int, interval: int, beta: float = 0.2):
        super().__init__(optimizer, start=start, interval=interval, beta=beta)

    @classmethod
    def for_steps(
        cls,
        optimizer: torch.optim.Optimizer,
        total_steps: int,
        *,
        start_fraction: float = 0.02,
        interval_fraction: float = 0.005,
        beta: float = 0.2,
    ) -> LawaEma:
        """Start and interval as fractions of the training's length; the defaults are AlgoPerf's."""
        return cls(optimizer, *_start_and_interval(total_steps, start_fraction, interval_fraction), beta)

    def _update(self) -> None:
        if _due(self.updates, self.start, self.interval):
            self._take(self.beta)
