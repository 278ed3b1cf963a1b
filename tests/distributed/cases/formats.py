"""Low-bit states of pieces, for every optimizer that can store them.

In torch operations a block that is cut is computed like any other, so that pieces of elementwise rules agree with the
whole bit for bit.  Native kernels for 8 bits add and multiply at once in whole stages of 1,024 elements, and one after
the other in a stage that is cut, so that a code there may differ by one.  The same holds for sums that are added in
another order.  Rules that step by signs make much of such a code.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import fallline
from tests.distributed.cases.sharded import steps_as_the_whole

A_CODE = {"int8": 5e-3, "int4": 5e-2}
"""The difference that codes apart by one may make in 20 steps, relative to the largest weight."""
CUT_ALIKE = {("int8", "foreach"), ("int4", "foreach"), ("int4", "fastest")}
"""Where a block that is cut is computed as one that is not."""
LOWERINGS: dict[str, dict[str, bool]] = {"foreach": {"foreach": True, "fused": False}, "fastest": {}}


def low_bit_steps(name: str, format: str, lowering: str) -> None:
    steps_as_the_whole(name, format, A_CODE[format], (format, lowering) in CUT_ALIKE, **LOWERINGS[lowering])


CASES: dict[str, Callable[[], None]] = {
    f"{name} {format} {lowering}": functools.partial(low_bit_steps, name, format, lowering)
    for name in fallline.list_optimizers()
    for format in ("int8", "int4")
    for lowering in LOWERINGS
    if format in fallline.info(name).formats
}
