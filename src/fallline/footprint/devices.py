"""Devices by their size, and whether a training fits on one."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence

from fallline.footprint.caching_allocator import DoesNotFit
from fallline.footprint.prediction import Prediction, Predictor
from fallline.footprint.setting import Setting

UNITS = {"kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
USUAL = "6GB,8GB,24GB,32GB,40GB,80GB"
MOST = 1 << 20
"""The largest batch or sequence that is looked for."""


class NoSize(ValueError):
    """A text that is no size."""


@dataclasses.dataclass(frozen=True)
class Device:
    name: str
    size: int
    """Bytes; a GB is 10⁹, a GiB 2³⁰."""


@dataclasses.dataclass(frozen=True)
class Verdict:
    device: Device
    needs: int
    """The peak of tensors."""
    failed: DoesNotFit | None = None
    """The allocation that failed although the tensors would fit."""

    @property
    def fits(self) -> bool:
        return self.needs <= self.device.size and self.failed is None

    @property
    def sentence(self) -> str:
        if self.needs > self.device.size:
            return f"lacks {gb(self.needs - self.device.size)}"
        if self.failed is not None:
            share = self.failed.free / self.failed.capacity
            return f"{gb(self.failed.asked)} cannot be had in one piece although {share:.0%} is free"
        return f"fits, {gb(self.device.size - self.needs)} to spare"


def devices_of(text: str) -> list[Device]:
    """Sizes with units, separated by commas.

    >>> [device.size for device in devices_of("6GB, 0.5 TB,8GiB")]
    [6000000000, 500000000000, 8589934592]
    """
    return [_device(part.strip()) for part in text.split(",")]


def _device(text: str) -> Device:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", text)
    if found is None:
        raise NoSize(f"{text!r} is no size; write a number and a unit, as in 24GB")
    number, unit = found.groups()
    if not unit:
        raise NoSize(f"{text}: the unit is missing; write {text}GB (10⁹ bytes) or {text}GiB (2³⁰)")
    if unit.lower() not in UNITS:
        raise NoSize(f"{text}: there is no unit {unit!r}; there are MB, GB, TB, MiB, GiB, TiB")
    size = round(float(number) * UNITS[unit.lower()])
    if size < 1:
        raise NoSize(f"{text}: a device has at least one byte")
    return Device(f"{number} {unit}", size)


def gb(size: float) -> str:
    """Bytes for a sentence.

    >>> gb(1.5576e9), gb(41e9), gb(2_500_000), gb(1200)
    ('1.56 GB', '41.0 GB', '2.50 MB', '1.20 kB')
    """
    from fallline.document.numbers import significant

    for unit, name in ((1e9, "GB"), (1e6, "MB")):
        if size >= 0.9995 * unit:
            return f"{significant(size / unit, 3)} {name}"
    return f"{significant(size / 1e3, 3)} kB"


def verdict(prediction: Prediction, device: Device, before: Sequence[Prediction] = ()) -> Verdict:
    """Tensors must fit, and the allocator must find room for each of them."""
    needs = max(one.peak for one in (*before, prediction))
    if needs > device.size:
        return Verdict(device, needs)
    try:
        prediction.replayed_after(before, device.size)
    except DoesNotFit as failed:
        return Verdict(device, needs, failed)
    return Verdict(device, needs)


def largest(fits: Callable[[int], bool], start: int = 1, most: int = MOST) -> int:
    """The largest number that fits, 0 if none does; what does not fit does not fit with more either.

    >>> largest(lambda n: n * n <= 1000), largest(lambda n: False), largest(lambda n: True, most=77)
    (31, 0, 77)
    """
    if not fits(1):
        return 0
    low, high = 1, max(2, start)
    while high < most and fits(high):
        low, high = high, 2 * high
    if high >= most:
        if fits(most):
            return most
        high = most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def largest_batch(predictor: Predictor, setting: Setting, device: Device) -> int:
    """The largest batch that trains on a device."""
    start = predictor.completed(setting).batch or 1
    return _confirmed(
        largest(lambda n: predictor.at_batch(setting, n).peak <= device.size, start),
        lambda n: verdict(predictor.at_batch(setting, n), device).fits,
    )


def largest_sequence(predictor: Predictor, setting: Setting, device: Device) -> int:
    """The longest sequence that trains on a device, as far as the model takes it."""
    most = predictor.model.most_sequence or MOST
    start = predictor.completed(setting).sequence or 1
    return _confirmed(
        largest(lambda n: predictor.at_sequence(setting, n).peak <= device.size, start, most),
        lambda n: verdict(predictor.at_sequence(setting, n), device).fits,
    )


def _confirmed(found: int, fits: Callable[[int], bool]) -> int:
    """Less than what fits by its bytes, where the allocator cannot place it: in steps of 2 % at least."""
    while found > 0 and not fits(found):
        found -= max(1, found // 50)
    return found
