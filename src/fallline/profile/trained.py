"""One arm in training: it takes a step and says what the step cost, or why it could not be taken."""

from __future__ import annotations

import contextlib
import importlib.util
import math
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from fallline.measure.machine import available_memory
from fallline.profile.arms import Arm
from fallline.profile.plan import Plan
from fallline.step.implementations import Missing
from fallline.training.device import wait_for_model
from fallline.training.phases import TwoClocks
from fallline.training.precision import Precision
from fallline.training.training import Training
from fallline.workloads import Workload

HAS_RESOURCE = importlib.util.find_spec("resource") is not None
"""False on Windows."""
WHOLE = "whole"
"""A step from its beginning to its end, by a reading of the clock apart from that of the phases."""
MINOR, MAJOR = "minor faults", "major faults"
LIMITED_TO = 0.9
"""The part of the available memory that a profile may take before torch reports that there is none left."""
NO_ROOM = re.compile(r"can't allocate memory|out of memory|not enough memory|Cannot allocate", re.IGNORECASE)


class Ended(Exception):
    """An arm that has no further steps; the message is its row: ``diverged at step 12``."""


class TrainedArm:
    """The training of one arm in one repeat, its phases read apart."""

    def __init__(self, plan: Plan, arm: Arm, workload: Workload, seed: int, total_steps: int, compiled: bool) -> None:
        self.arm = arm
        self.clock = TwoClocks()
        with ended_at(0):
            self.training = Training(
                workload,
                seed,
                lambda model: arm.prepare(model, total_steps),
                self.clock,
                device=None if plan.device == "cpu" else plan.device,
                compiled=compiled,
                precision=Precision.named(plan.precision, plan.device),
            )
        self.clock._wait = wait_for_model(self.training.model)
        self._tokens = workload.tokens

    @property
    def done(self) -> int:
        return self.training.done

    def step(self) -> tuple[float, dict[str, float]]:
        """The loss before the step, and what the step cost; :class:`Ended` where it cannot be taken."""
        loop = self.training.loop
        with ended_at(self.done + 1):
            before = _faults()
            start = time.perf_counter()
            loss = loop.step() if hasattr(loop, "batch") else loop.advance(loop.done + 1)
            self.clock._wait()
            whole = time.perf_counter() - start
            after = _faults()
        value = float(loss.detach()) if isinstance(loss, torch.Tensor) else float(loss or math.nan)
        cost = {WHOLE: whole, **self.clock.take()}
        cost |= {f"cpu.{phase}": seconds for phase, seconds in self.clock.take_cpu().items()}
        cost |= {MINOR: after[0] - before[0], MAJOR: after[1] - before[1]}
        cost |= self._counted(getattr(loop, "batch", None))
        if (math.isnan(value) or math.isinf(value)) and getattr(loop, "batch", None) is not None:
            raise Ended(f"diverged at step {self.done}")
        return value, cost

    def _counted(self, batch: Any) -> dict[str, float]:
        """Tokens and all positions of a batch, or its samples where the workload has no tokens."""
        if self._tokens is not None and batch is not None:
            tokens, positions = self._tokens(batch)
            return {"tokens": tokens, "positions": positions}
        return {"samples": samples} if (samples := samples_of(batch)) else {}

    @property
    def skipped(self) -> int:
        return 0 if self.training.precision is None else self.training.precision.skipped

    def evaluate(self) -> float:
        with ended_at(self.done):
            return self.training.evaluate()

    def advance(self, until: int) -> None:
        """Takes steps without reading anything, to where an earlier run stopped."""
        while self.done < until:
            self.step()

    def checkpoint(self) -> Mapping[str, Any]:
        return self.training.checkpoint()

    def restore(self, saved: Mapping[str, Any]) -> None:
        with ended_at(int(saved["step"])):
            self.training.restore(saved)


def samples_of(batch: Any) -> int:
    """The length of the first tensor in a batch; 0 where there is none."""
    for value in torch.utils._pytree.tree_iter(batch):
        if isinstance(value, torch.Tensor) and value.ndim:
            return len(value)
    return 0


@contextlib.contextmanager
def ended_at(step: int) -> Iterator[None]:
    """Turns whatever one arm raises into its row, so that the others go on."""
    try:
        yield
    except (Ended, KeyboardInterrupt):
        raise
    except MemoryError:
        raise Ended("out of memory") from None
    except Missing as reason:
        raise Ended(str(reason)) from None
    except Exception as error:
        first = str(error).strip().partition("\n")[0]
        if NO_ROOM.search(str(error)):
            raise Ended("out of memory") from None
        where = f"raised at step {step}" if step else "could not be made"
        raise Ended(f"{where}: {type(error).__name__}: {first}"[:300]) from error


def _faults() -> tuple[int, int]:
    """Page faults of the process so far, without and with reading from a disk."""
    if not HAS_RESOURCE:
        return 0, 0
    import resource

    found = resource.getrusage(resource.RUSAGE_SELF)
    return found.ru_minflt, found.ru_majflt


@contextlib.contextmanager
def memory_limited() -> Iterator[None]:
    """Makes torch raise an error where memory ends, in place of the system, which would kill the process."""
    free = available_memory()
    if not HAS_RESOURCE or free is None:
        yield
        return
    import resource

    before = resource.getrlimit(resource.RLIMIT_DATA)
    limit = _data_bytes() + int(LIMITED_TO * free)
    with contextlib.suppress(ValueError, OSError):
        most = limit if before[1] == resource.RLIM_INFINITY else min(limit, before[1])
        resource.setrlimit(resource.RLIMIT_DATA, (most, before[1]))
    try:
        yield
    finally:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_DATA, before)


def _data_bytes() -> int:
    try:
        with open("/proc/self/status", encoding="ascii") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmData:"))
    except (OSError, StopIteration):
        return 0
