"""Gains and bytes in words, with the digits that are worth reading."""

from __future__ import annotations

import math

from fallline.document.numbers import significant
from fallline.measure.student import MeanInterval

MB = 1e6


def percent(value: float, interval: MeanInterval | None = None) -> str:
    """A gain with its sign, and with the digits that its interval supports.

    >>> percent(0.019, MeanInterval(0.019, 0.006, 0.031, 9)), percent(-0.2)
    ('+1.9 % (+0.6 to +3.1)', '-20.0 %')
    """
    if interval is None or not math.isfinite(interval.low):
        return f"{100 * value:+.1f} %"
    places = 1 if interval.high - interval.low >= 0.002 else 2
    low, high = (f"{100 * end:+.{places}f}" for end in (interval.low, interval.high))
    return f"{100 * value:+.{places}f} % ({low} to {high})"


def megabytes(size: float) -> str:
    """With the digits that are worth reading.

    >>> megabytes(744e6), megabytes(3.25e6), megabytes(123_456)
    ('744', '3.25', '0.123')
    """
    return significant(size / MB, 3) if abs(size) < 1000 * MB else f"{size / MB:,.0f}"
