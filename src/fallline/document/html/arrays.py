"""Numbers for a page's figures, as the plotting library reads arrays: eight bytes each, in base64."""

from __future__ import annotations

import array
import base64
import sys
from collections.abc import Sequence


def packed(values: Sequence[float]) -> dict[str, str]:
    """An array of float64: exact, a third shorter than digits, and read without parsing."""
    numbers = array.array("d", values)
    if sys.byteorder == "big":
        numbers.byteswap()
    return {"dtype": "f8", "bdata": base64.b64encode(numbers.tobytes()).decode("ascii")}
