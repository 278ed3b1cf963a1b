"""Low-bit states of pieces, for every optimizer that can store them.

In torch operations a block that is cut is computed like any other, so that pieces agree with the whole bit for bit.
Native kernels for 8 bits add and multiply at once in whole stages of 1,024 elements, and one after the other in a stage
that is cut, so that a code there may differ by one; a rule that steps by signs makes much of that.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import fallline
from tests.distributed.cases.sharded import NEAR, steps_as_the_whole

A_CODE = 5e-3
"""What codes that differ by one may come to in 20 steps, relative to the largest weight."""

CASES: dict[str, Callable[[], None]] = {
    f"{name} {format} {lowering}": functools.partial(steps_as_the_whole, name, format, near, **options)
    for name in fallline.list_optimizers()
    for format in ("int8", "int4")
    for lowering, options, near in (
        ("foreach", {"foreach": True, "fused": False}, NEAR),
        ("fastest", {}, NEAR if format == "int4" else A_CODE),
    )
    if format in fallline.info(name).formats
}
