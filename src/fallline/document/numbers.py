"""Numbers as text: their digits and units."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

ABSENT = "–"
"""Stands where there is no number."""
SMALL = 1e-4
"""Smaller numbers are written with an exponent."""
LEAST_SHOWN = 1e-3
"""Smaller numbers are nothing beside others in the same unit."""
BELOW = f"<{LEAST_SHOWN:g}"
"""Stands for such a number."""

Digits = (
    int | Literal["supported", "two", "three", "four", "general", "whole", "thousands", "seconds", "share", "factor"]
)
"""How a number is written: with a number of decimals, or by one of the rules of :func:`written`."""


def written(value: float, digits: Digits = "general", low: float | None = None, high: float | None = None) -> str:
    """A number by one of the rules that tables use.

    ``supported`` shows the digits that the interval from ``low`` to ``high`` supports; ``three`` and ``four`` show this
    number of significant digits including zeros; ``two`` and ``general`` at most two and three without zeros;
    ``seconds`` a duration with its unit; ``share`` two decimals of a fraction, and ``<0.01`` in place of a false zero;
    ``factor`` a ratio such as ``1.20×``.

    >>> written(5.3217, "supported", 5.24, 5.40), written(7.0, "three"), written(2.1, "four"), written(28.0)
    ('5.32', '7.00', '2.100', '28')
    >>> written(1234567, "thousands"), written(12.6, "whole"), written(0.5, 4), written(0.001, "share")
    ('1,234,567', '13', '0.5000', '<0.01')
    >>> written(1800.0, "seconds"), written(1.2, "factor"), written(math.inf, "three")
    ('30 min', '1.20×', '–')
    """
    if not math.isfinite(value):
        return ABSENT
    if isinstance(digits, int):
        return f"{value:.{digits}f}"
    if digits == "supported":
        ends = (value if low is None else low, value if high is None else high)
        return f"{value:.{supported_decimals(value, *ends)}f}"
    return {
        "two": lambda number: f"{number:.2g}",
        "three": lambda number: significant(number, 3),
        "four": lambda number: significant(number, 4),
        "general": lambda number: f"{number:.3g}",
        "whole": lambda number: f"{number:.0f}",
        "thousands": lambda number: f"{number:,.0f}",
        "seconds": seconds,
        "share": lambda number: f"{number:.2f}" if number >= 0.005 else "<0.01",
        "factor": lambda number: f"{number:.2f}×",
    }[digits](value)


def in_unit(
    value: float, unit: str, digits: Digits = "general", low: float | None = None, high: float | None = None
) -> str:
    """A number among others in one unit, in a column or in a figure: 8 bytes are nothing where the unit is a gigabyte.

    >>> in_unit(8e-9, "GB", "three"), in_unit(-8e-9, "MB"), in_unit(0.0, "GB", "three"), in_unit(6.56e-3, "GB", "three")
    ('<0.001', '>-0.001', '0', '0.00656')
    >>> in_unit(3e-5, "", "three"), in_unit(3e-5, "ms", "supported", 2.8e-5, 3.2e-5)
    ('3.00e-05', '0.000030')
    """
    if unit and digits in ("two", "three", "four", "general") and 0.0 < abs(value) < LEAST_SHOWN:
        return BELOW if value > 0.0 else f">-{LEAST_SHOWN:g}"
    return written(value, digits, low, high)


def supported_decimals(value: float, low: float, high: float) -> int:
    """Decimals down to the first digit of half the interval: from one to four significant digits.

    >>> supported_decimals(5.32, 5.24, 5.40), supported_decimals(0.02513, 0.02512, 0.02514)
    (2, 5)
    >>> supported_decimals(88.0, 81.0, 95.0), supported_decimals(0.04, 0.01, 10.0)
    (0, 2)
    """
    if not math.isfinite(value) or value == 0.0:
        return 0
    leading = -math.floor(math.log10(abs(value)))
    half = (high - low) / 2
    wanted = leading + 3 if half <= 0.0 else -math.floor(math.log10(half))
    return max(0, leading, min(wanted, leading + 3))


def significant(value: float, digits: int) -> str:
    """A number with this many significant digits; zeros are kept, so that a column shows as much as is known.

    >>> significant(7.0, 3), significant(43.21, 3), significant(0.0512, 3), significant(9.999, 3)
    ('7.00', '43.2', '0.0512', '10.0')
    >>> significant(-2.1708, 4), significant(12345.6, 4), significant(1.5e-7, 4), significant(0.0, 3)
    ('-2.171', '12346', '1.500e-07', '0')
    """
    if value == 0.0:
        return "0"
    if abs(value) < SMALL:
        return f"{value:.{digits - 1}e}"
    # A value that is rounded up to the next power of ten has one decimal less.
    rounded = float(f"{value:.{digits - 1}e}")
    return f"{value:.{max(0, digits - 1 - math.floor(math.log10(abs(rounded))))}f}"


def seconds(value: float) -> str:
    """A time in the unit that suits it, short enough for a table.

    >>> seconds(0.6401), seconds(43.21), seconds(1800), seconds(54000)
    ('0.640 s', '43.2 s', '30 min', '15.0 h')
    """
    if value < 999.5:
        return f"{significant(value, 3)} s"
    return f"{value / 60:.0f} min" if value < 36e3 else f"{value / 3600:.1f} h"


def duration(hours: float) -> str:
    """Hours in the unit that suits them, for a sentence.

    >>> duration(2.5), duration(0.2), duration(0.004)
    ('2.5 hours', '12.0 minutes', '14 s')
    """
    if hours >= 0.995:
        return f"{hours:.1f} hours"
    return f"{60 * hours:.1f} minutes" if hours >= 1 / 60 else f"{3600 * hours:.0f} s"


def time_left(value: float) -> str:
    """A rough time, with few digits.

    >>> time_left(42.4), time_left(600), time_left(9000)
    ('about 42 s', 'about 10 min', 'about 2.5 h')
    """
    if value > 2 * 3600:
        return f"about {value / 3600:.1f} h"
    return f"about {value / 60:.0f} min" if value > 90 else f"about {value:.0f} s"


def byte_unit(largest: float) -> tuple[float, str]:
    """The unit for a column of byte counts, by the largest of them.

    >>> byte_unit(466_000), byte_unit(34_800)
    ((1000000.0, 'MB'), (1000.0, 'kB'))
    """
    return (1e6, "MB") if largest >= 1e5 else (1e3, "kB")


def span(values: Sequence[float], digits: Digits = "whole") -> str:
    """The range of values, or one number if both ends are written the same.

    >>> span([149.2, 148.9]), span([7.631, 7.64], 2), span([5.24, math.inf], 2)
    ('149', '7.63 to 7.64', '5.24 to –')
    """
    return " to ".join(dict.fromkeys(written(end, digits) for end in (min(values), max(values))))


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun.

    >>> counted(1, "trial"), counted(3, "study", "studies")
    ('1 trial', '3 studies')
    """
    return f"{number} {noun if number == 1 else plural or noun + 's'}"
