"""Low-bit states of pieces, for every optimizer that can store them.

A block that is cut is computed like any other, so that pieces of elementwise rules agree with the whole bit for bit.
Sums of pieces are added in another order, so that a value between two codes may take the other one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import fallline
from tests.distributed.cases.sharded import NEAR, steps_as_the_whole

A_CODE = {"int8": 5e-3, "int4": 5e-2}
"""The difference that codes apart by one may make in 20 steps, relative to the largest weight."""
AT_CODES = {"adafactor", "amos", "mars"}
"""Rules whose sums have been seen to move a value to the other code."""
LOWERINGS: dict[str, dict[str, bool]] = {"foreach": {"foreach": True, "fused": False}, "fastest": {}}


def low_bit_steps(name: str, format: str, lowering: str) -> None:
    near = A_CODE[format] if name in AT_CODES else NEAR
    steps_as_the_whole(name, format, near, **LOWERINGS[lowering])


CASES: dict[str, Callable[[], None]] = {
    f"{name} {format} {lowering}": functools.partial(low_bit_steps, name, format, lowering)
    for name in fallline.list_optimizers()
    for format in ("int8", "int4")
    for lowering in LOWERINGS
    if format in fallline.info(name).formats
}
