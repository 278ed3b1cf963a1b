"""Gates: checks that find measurements that cannot be true, before they become results.

Each gate takes plain numbers and returns one line that says what is wrong, or None.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from fallline.measure.ranks import rank_sum_p
from fallline.measure.stats import ALPHA, Estimate

if TYPE_CHECKING:
    from torch import Tensor

ABOVE_LIMIT = 1.05
"""The largest believable fraction of the probe's speed; above 1, because the probe is itself a measurement."""
FALLS = 0.80
"""A larger size is not believed if it takes less than this share of the time of a smaller one. Cells are minutes apart,
and within minutes a shared machine becomes a tenth faster or slower by itself."""
FEW = 5
"""This number of samples is enough if all of them are below all samples of the smaller work, because no test over a
whole table can reach its level with the few samples of an arm that is far behind."""
FLAT = 0.1
"""An axis is said to change nothing if the time grows by no more than the work to this power: 1.15 times for 4 times
the work, 1.7 times for 256 times. The margin covers the changes of the machine from one minute to the next."""
COLD = 1.25
"""First samples that are slower than the rest by this factor are warm-up."""
FIRST = 3
STRAY = 10
"""One in this number of later samples may be as slow as the first ones, because any machine is disturbed sometimes."""


def above_bandwidth(fraction: Estimate) -> str | None:
    """Finds more bytes per second than the memory moves for this working set."""
    if fraction.low > ABOVE_LIMIT:
        return (
            f"moves {fraction.value:.2f}× what the probe does with as much memory: "
            "either it does less than its equations, or the probe was disturbed"
        )
    return None


def falls_with_size(
    times: Sequence[tuple[float, Sequence[float]]], *, family: int = 1, unit: str = "elements"
) -> list[tuple[int, str]]:
    """Finds positions that take less time than the next smaller work; ``times`` are (work, samples) by growing work."""
    found = []
    for at in range(1, len(times)):
        (less, before), (more, after) = times[at - 1], times[at]
        ratio = statistics.median(after) / statistics.median(before)
        apart = min(len(before), len(after)) >= FEW and max(after) < min(before)
        if ratio < FALLS and (apart or rank_sum_p(before, after) * family <= ALPHA):
            found.append((at, f"takes {ratio:.2f}× the time of {less:,.0f} {unit}, with {more:,.0f}"))
    return found


def changes_nothing(axis: str, work: Mapping[int, float], seconds: Mapping[int, float] | None = None) -> str | None:
    """Finds a swept axis along which the work, or the time in spite of the work, stays the same."""
    if len(work) < 2:
        return None
    values = list(work)
    if len(set(work.values())) == 1:
        same = f"{work[values[0]]:,.0f} elements for every value from {values[0]} to {values[-1]}"
        return f"{axis} does not change the work: {same}"
    if seconds is not None:
        least, most = min(work, key=work.__getitem__), max(work, key=work.__getitem__)
        times, grown = work[most] / work[least], seconds[most] / seconds[least]
        if times >= 4 and times**-FLAT <= grown <= times**FLAT:
            return (
                f"{axis} changes the work {times:.0f}-fold and the time {grown:.2f}-fold "
                f"({seconds[least] * 1e3:.4g} and {seconds[most] * 1e3:.4g} ms): is it used?"
            )
    return None


def warm_up_left_in(samples: Sequence[float], beside: Sequence[float] | None = None) -> str | None:
    """Finds first samples that are the slowest, relative to the arms timed ``beside`` them in the same rounds.

    A machine that was slow for all arms is no warm-up, and a later disturbance does not hide one: three first samples
    that are 1.5 times too slow are found in more than four of five cases, with fewer than one false alarm in 1000
    (test_calibration.py).
    """
    if len(samples) < 4 * FIRST:
        return None
    relative = [a / b for a, b in zip(samples, beside, strict=True)] if beside else list(samples)
    first, rest = relative[:FIRST], sorted(relative[FIRST:])
    ratio = statistics.median(first) / statistics.median(rest)
    if ratio > COLD and min(first) > rest[-1 - len(rest) // STRAY]:
        return f"its first {FIRST} samples take {ratio:.2f}× the others: warm-up is among them"
    return None


def invalid_inputs(tensors: Mapping[str, Tensor], nonnegative: Callable[[str], bool]) -> str | None:
    """Finds values that change the arithmetic: NaN, infinity, or a second moment below zero."""
    import torch

    for name, tensor in tensors.items():
        if not tensor.is_floating_point():
            continue
        low, high = (x.item() for x in torch.aminmax(tensor)) if tensor.numel() else (0.0, 0.0)
        if not (abs(low) < float("inf") and abs(high) < float("inf")):  # also false for NaN
            return f"{name} contains NaN or infinity"
        if nonnegative(name) and low < 0:
            return f"{name} is a mean of squares and contains {low:.3g}"
    return None


def wrong_percentages(rows: Sequence[tuple[str, str, str, str]], decimals: int = 1) -> list[str]:
    """Finds printed percentages that do not follow from the printed cells (label, numerator, denominator, percent)."""
    found = []
    for label, numerator, denominator, percent in rows:
        low, high = percent_range(numerator, denominator)
        if not low - _half(percent) <= float(percent) <= high + _half(percent):
            true = 100 * float(numerator) / float(denominator)
            found.append(f"{label}: {numerator} / {denominator} is {true:.{decimals}f} %, printed {percent}")
    return found


def percent_range(numerator: str, denominator: str) -> tuple[float, float]:
    """The bounds of the percentage, given that both numbers were rounded to the digits shown."""
    low = 100 * (float(numerator) - _half(numerator)) / (float(denominator) + _half(denominator))
    return low, 100 * (float(numerator) + _half(numerator)) / max(1e-300, float(denominator) - _half(denominator))


def _half(printed: str) -> float:
    """Half a unit of the last digit shown."""
    _, _, fraction = printed.partition(".")
    return 0.5 * 10.0 ** -len(fraction)
