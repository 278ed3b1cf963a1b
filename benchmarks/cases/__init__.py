"""The claims that must hold, one file per case.  ``CASES``: name → a function from settings to rows and raw samples."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.cases import (
    bandwidth,
    build,
    compiled_peers,
    every_rule,
    first_step,
    groups,
    large,
    low_bit_peers,
    matrix,
    memory,
    rule_peers,
    small,
    training_loop,
)
from benchmarks.rows import Result
from benchmarks.settings import Settings

CASES: dict[str, Callable[[Settings], Result]] = {
    "small": small.run,
    "large": large.run,
    "low_bit_peers": low_bit_peers.run,
    "groups": groups.run,
    "bandwidth": bandwidth.run,
    "every_rule": every_rule.run,
    "rule_peers": rule_peers.run,
    "matrix": matrix.run,
    "compiled_peers": compiled_peers.run,
    "memory": memory.run,
    "first_step": first_step.run,
    "build": build.run,
    "training_loop": training_loop.run,
}
