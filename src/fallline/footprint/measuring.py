"""Trains a few steps here, in a process of its own, and says what they took: tensors by category, and the process.

``python -m fallline.footprint.measuring '{…}'`` is that process. Tensors are followed by
:class:`~fallline.memory.live.LiveBytes`, which shares no code with the prediction.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import time
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from fallline.footprint.prediction import optimizer_for
from fallline.footprint.setting import Setting
from fallline.footprint.trace import TraineeTask, cast, prepare
from fallline.footprint.trainees import Trainee, trainee
from fallline.measure.memory import peak_resident, reset_peak_resident, resident, trim_malloc
from fallline.memory.live import LiveBytes, held_by, held_by_states
from fallline.optim.registry import create
from fallline.training.loop import Loop
from fallline.training.scheduled_optimizer import ScheduledOptimizer

FIXED_THRESHOLD = {"MALLOC_MMAP_THRESHOLD_": str(128 << 10)}
"""Makes the GNU C library return the memory of every large tensor when it is freed, as it does in a new process. It
would otherwise raise its threshold to 32 MiB by and by, and keep what is freed below that: up to as much again."""
STEPS = 2
"""Steps that are measured, after one that makes the states."""


class NotMeasured(Exception):
    """Raised if the measuring process ended early, most likely for want of memory; it says how."""


@dataclasses.dataclass(frozen=True)
class Measured:
    """Bytes."""

    parameters: int
    gradients: int
    states: int
    peak: int
    """The most bytes of tensors at a time from the second step on."""
    libraries: int | None
    """The process before it has a model: interpreter, torch, threads, and the data of a workload."""
    resident: int | None
    """The most memory of the process from the second step on."""
    steps: int = STEPS
    seconds: float | None = None
    """The shortest time of a forward and backward pass, with all batches of a step; None if it was not asked for."""

    @property
    def allocator(self) -> int | None:
        """The memory of the process that is neither tensors nor libraries: what the C library keeps, and scratch memory
        of kernels."""
        if self.resident is None or self.libraries is None:
            return None
        return self.resident - self.libraries - self.peak


def measure(
    spec: str, setting: Setting, threads: int | None = None, *, fixed: bool = True, timed: bool = False
) -> Measured:
    """Measures in another process, so that memory of this one does not count and none of the other stays.

    ``fixed`` fixes the threshold of the C library, so that the memory of the process is that of its tensors. ``timed``
    takes further steps, because tensors that are followed take time.
    """
    threads = threads or torch.get_num_threads()
    asked = {"spec": spec, "setting": dataclasses.asdict(setting), "threads": threads, "timed": timed}
    command = [sys.executable, "-m", "fallline.footprint.measuring", json.dumps(asked)]
    environment = {**os.environ, **(FIXED_THRESHOLD if fixed else {})}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or [f"the process was ended by signal {-done.returncode}"]
        raise NotMeasured(f"{spec}: could not be measured here: {last[0]}")
    return Measured(**json.loads(done.stdout.splitlines()[-1]))


def measured_here(model: Trainee, setting: Setting, *, timed: bool = False) -> Measured:
    """Trains in this process."""
    assert setting.batch is not None
    real_inputs = model.inputs(setting.batch, setting.sequence)
    _warm_up()
    trim_malloc()
    libraries = resident()
    with LiveBytes() as live:
        net = model.build()
        prepare(net, setting)
        inputs = cast(_copied(real_inputs), setting)
        del real_inputs
        optimizer = optimizer_for(net, setting)
        loop = Loop(_Accumulating(model, setting, inputs), net, ScheduledOptimizer(optimizer))
        gradients, backward_done = 0, 0.0

        def count(*_: Any) -> None:
            nonlocal gradients, backward_done
            backward_done = time.perf_counter()
            gradients = held_by([param.grad for param in net.parameters()])

        optimizer.register_step_pre_hook(count)
        loop.step()
        trim_malloc()
        live.reset_peak()
        has_peak = reset_peak_resident()
        for _ in range(STEPS):
            loop.step()
        peak = live.peak
    most = peak_resident() if has_peak else None
    seconds = []
    for _ in range(STEPS if timed else 0):
        begun = time.perf_counter()
        loop.step()
        seconds.append(backward_done - begun)
    return Measured(
        parameters=held_by(list(net.parameters())),
        gradients=gradients,
        states=held_by_states(optimizer),
        peak=peak,
        libraries=libraries,
        resident=most,
        seconds=min(seconds, default=None),
    )


class _Accumulating(TraineeTask):
    """Takes the further batches of an accumulation before the last one, which the loop takes."""

    def __init__(self, model: Trainee, setting: Setting, inputs: Any):
        super().__init__(model, setting, inputs)
        self._before = setting.accumulation - 1

    def loss(self, model: nn.Module, batch: Any, step: int) -> Tensor:
        for _ in range(self._before):
            super().loss(model, batch, step).backward()
        return super().loss(model, batch, step)


def _copied(inputs: Any) -> Any:
    """Tensors made inside of a counter, which it then knows."""
    return tree_map(lambda leaf: leaf.clone() if isinstance(leaf, Tensor) else leaf, inputs)


def _warm_up() -> None:
    """Loads what torch loads at first use: threads, and the kernels of matrix products and convolutions."""
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 8))
    optimizer = create("adamw", net)
    net(torch.ones(16, 3, 8, 8)).sum().backward()
    optimizer.step()


def _main() -> None:
    asked = json.loads(sys.argv[1])
    torch.set_num_threads(asked["threads"])
    found = measured_here(trainee(asked["spec"]), Setting(**asked["setting"]), timed=asked["timed"])
    print(json.dumps(dataclasses.asdict(found)))


if __name__ == "__main__":
    _main()
