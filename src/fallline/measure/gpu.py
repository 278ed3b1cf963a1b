"""The use of a GPU as its driver reports it through NVML; nothing of NVML is imported where there is no GPU.

Tested with a stand-in for the reading; it has not been run on a GPU.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable

PERIOD = 1.0
"""Seconds over which a driver may average its use: the first reading comes so long after the work has begun."""
READINGS = 4
APART = 0.25
"""Seconds between readings; some drivers average over a sixth of a second only."""
MOST_WORK = 500
"""Pieces of work after which the readings that there are must do."""


class Unreadable(Exception):
    """There is a GPU whose use cannot be read; one line says why."""


@dataclasses.dataclass(frozen=True)
class Use:
    percent: float
    """The part of the time in which any kernel ran."""
    bytes: int
    """The memory in use on the whole device, that of other processes included."""


def read(device: str) -> Use | None:
    """One reading; None where the device is no GPU, :class:`Unreadable` where its driver does not answer."""
    import torch

    place = torch.device(device)
    if place.type != "cuda" or not torch.cuda.is_available():
        return None
    try:
        free, total = torch.cuda.mem_get_info(place)
        return Use(float(torch.cuda.utilization(place)), total - free)
    except ImportError:
        raise Unreadable("pynvml is not there: pip install nvidia-ml-py") from None
    except Exception as error:  # NVML and the drivers of other makers have errors of their own
        raise Unreadable(f"{type(error).__name__}: {str(error).partition(chr(10))[0]}") from error


def use_during(work: Callable[[], object], device: str) -> Use | None:
    """The use of a GPU while one thing is done again and again, and nothing else; None where there is no GPU.

    Where several trainings take turns step by step, a reading, which is a mean over up to a second, is of all of them.
    """
    if read(device) is None:
        return None
    found: list[Use] = []
    due = time.perf_counter() + PERIOD
    for _ in range(MOST_WORK):
        work()
        if time.perf_counter() >= due:
            found += [use for use in (read(device),) if use is not None]
            due = time.perf_counter() + APART
        if len(found) == READINGS:
            break
    if not found:
        raise Unreadable(f"{MOST_WORK} steps took less than the {PERIOD:g} s over which a driver averages")
    return Use(math.fsum(use.percent for use in found) / len(found), max(use.bytes for use in found))
