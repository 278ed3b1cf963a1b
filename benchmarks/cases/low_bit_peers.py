"""8-bit states against the packages that have them on the CPU."""

from __future__ import annotations

from benchmarks.arms import BITSANDBYTES, OURS_INT8, TORCHAO
from benchmarks.rows import Result
from benchmarks.settings import Settings
from benchmarks.steps import compare

BARS = {BITSANDBYTES: 22.0, TORCHAO: 35.0}


def run(settings: Settings) -> Result:
    names = (OURS_INT8, BITSANDBYTES, TORCHAO)
    steps = compare(32, settings.elements(1048576), names, [(peer, OURS_INT8) for peer in BARS], settings)
    rows = [steps.row("low_bit_peers", OURS_INT8, peer, bar) for peer, bar in BARS.items()]
    return Result(rows, {steps.shape: steps.as_json()})
