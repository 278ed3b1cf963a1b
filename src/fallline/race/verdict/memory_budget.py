"""A limit of the memory that states may take: how it is written, and who does not fit."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from fallline.document.numbers import byte_unit
from fallline.race.clock.calibrated import Calibrated

UNITS = {
    "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
}  # fmt: skip


def read_size(text: str) -> int:
    """A number with its unit, in bytes.

    >>> read_size("2GB"), read_size("1.5 MiB"), read_size("500kb")
    (2000000000, 1572864, 500000)
    >>> read_size("2")
    Traceback (most recent call last):
    ValueError: must be a size > 0 with its unit, such as 2GB or 500MB, got '2'
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?|\.\d+)\s*([A-Za-z]+)\s*", text, re.ASCII)
    by_name = {name.lower(): factor for name, factor in UNITS.items()}
    size = float(found[1]) * by_name.get(found[2].lower(), 0) if found else 0.0
    if not 1.0 <= size < math.inf:
        raise ValueError(f"must be a size > 0 with its unit, such as 2GB or 500MB, got {text!r}")
    return round(size)


def most_bytes(calibration: Mapping[tuple[str, str], Calibrated]) -> dict[str, int]:
    """Contestant → the bytes of its states on the workload where it holds most."""
    largest: dict[str, int] = {}
    for (_, name), cost in calibration.items():
        largest[name] = max(cost.state_bytes, largest.get(name, 0))
    return largest


def too_large(budget: int | None, sizes: Mapping[str, int]) -> dict[str, str]:
    """Contestant → why it does not fit; ``sizes`` are the bytes of states."""
    if budget is None:
        return {}
    return {
        name: f"its states take {_written(size)}, the memory budget is {_written(budget)}"
        for name, size in sizes.items()
        if size > budget
    }


def nobody_fits(budget: int | None, sizes: Mapping[str, int]) -> str | None:
    """A line that says so; None if somebody does, or if no sizes are known."""
    if budget is None or not sizes or min(sizes.values()) <= budget:
        return None
    least = min(sizes, key=lambda name: sizes[name])
    return (
        f"no contestant fits into --memory-budget {_written(budget)}: {least}, which holds least, has "
        f"{_written(sizes[least])} of states; give a larger one"
    )


def _written(size: int) -> str:
    unit, name = (1e9, "GB") if size >= 1e9 else byte_unit(size)
    return f"{size / unit:.3g} {name}"
