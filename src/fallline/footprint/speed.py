"""From operations and bytes to seconds: how fast a device computes, and how fast its links carry."""

from __future__ import annotations

import dataclasses

from fallline.document.numbers import significant

LINK = 25e9
"""Bytes per second between a device and its host or its neighbours, about what PCIe 4.0 with 16 lanes reaches; it was
not measured here."""
TERA = 1e12


@dataclasses.dataclass(frozen=True)
class Speed:
    """Operations per second that a training reaches."""

    operations: float = 50 * TERA
    """About a third of what current devices promise for matrix products of 16 bits; it was not measured here."""
    measured: bool = False
    """Whether they are those of a training that ran here."""

    def seconds(self, operations: float) -> float:
        return operations / self.operations

    @property
    def words(self) -> str:
        """
        >>> Speed().words, Speed(45.2e9, measured=True).words
        ('50 TFLOP/s', 'the 45.2 GFLOP/s measured here')
        """
        unit, name = (TERA, "TFLOP/s") if self.operations >= TERA else (1e9, "GFLOP/s")
        number = f"{float(significant(self.operations / unit, 3)):g} {name}"
        return f"the {number} measured here" if self.measured else number


def carried(size: float) -> float:
    """The seconds in which a link carries so many bytes."""
    return size / LINK


def lasting(seconds: float) -> str:
    """A duration for a sentence.

    >>> lasting(75.2), lasting(0.4984), lasting(0.0532), lasting(2.6e-6)
    ('75 s', '0.5 s', '53 ms', 'less than 0.1 ms')
    """
    if seconds < 1e-4:
        return "less than 0.1 ms"
    if seconds < 0.0995:
        return f"{float(f'{1e3 * seconds:.2g}'):g} ms"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{float(f'{seconds:.2g}'):g} s"
