"""Low-bit states of pieces, for every optimizer that can store them."""

from __future__ import annotations

import functools
from collections.abc import Callable

import fallline
from tests.distributed.cases.sharded import steps_as_the_whole

CASES: dict[str, Callable[[], None]] = {
    f"{name} {format}": functools.partial(steps_as_the_whole, name, format)
    for format in ("int8", "int4")
    for name in fallline.list_optimizers()
    if format in fallline.info(name).formats
}
