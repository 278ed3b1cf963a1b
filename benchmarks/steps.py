"""AdamW's step in several implementations on the same tensors, with the bandwidth probe as one more arm."""

from __future__ import annotations

import dataclasses
import gc
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from torch.nn import Parameter

import fallline
from benchmarks.arms import LOW_BIT, OURS, NotInstalled, adamw, tensors
from benchmarks.rows import Row, milliseconds
from benchmarks.settings import Settings
from benchmarks.timing import Arm, Samples, interleave
from fallline.measure.bandwidth import Sweep
from fallline.measure.traffic import passes

PROBE = "probe"


@dataclasses.dataclass
class Steps:
    """What a comparison of steps measured."""

    shape: str
    elements: int
    samples: Samples
    missing: dict[str, str]
    """Arm → why it is not there."""
    ahead: int
    """The probe's prefetch distance."""

    def row(self, case: str, ours: str, peer: str, bar: float) -> Row:
        what = f"AdamW {self.shape}, {'int8 states' if ours in LOW_BIT else 'float32'}"
        if peer in self.missing:
            return Row(case, what, peer, bar, note=self.missing[peer])
        return Row(
            case,
            what,
            peer,
            bar,
            value=self.samples.ratio(peer, ours),
            ours=f"{milliseconds(self.samples.median(ours))}, {self.fraction_text(ours)}",
            theirs=milliseconds(self.samples.median(peer)),
        )

    def fraction(self, arm: str) -> float:
        """Bytes per second against the probe's with AdamW's float32 streams and the same number of elements."""
        moved = fallline.info("adamw").bytes_moved
        share = moved["int8" if arm in LOW_BIT else "float32"] / moved["float32"]
        return self.samples.ratio(PROBE, arm).value * share

    def fraction_text(self, arm: str) -> str:
        found = self.fraction(arm)
        # More than the limit is no result: the probe was disturbed, or is not the limit for this working set.
        return f"{found:.2f} of the probe" + (" (above the limit: suspect)" if found > 1.1 else "")

    def as_json(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "elements": self.elements,
            "ahead": self.ahead,
            "missing": self.missing,
            **self.samples.as_json(),
        }


def compare(
    count: int, elements: int, names: Sequence[str], pairs: Iterable[tuple[str, str]], settings: Settings
) -> Steps:
    """Times ``count`` tensors of ``elements`` each."""
    params = tensors([(elements,)] * count, settings.seed)
    shape = f"{count} × {elements:,}"
    arms, missing = build_arms(names, params)
    stream = passes("adamw")[0]
    sweep = Sweep(stream.reads, stream.writes, count * elements, settings.threads)
    ahead = sweep.best_distance(seed=settings.seed)
    arms[PROBE] = lambda: sweep.run(ahead)
    wanted = [(a, b) for a, b in pairs if a in arms and b in arms]
    note(f"AdamW {shape}: {', '.join(arms)}")
    samples = interleave(arms, settings, [*wanted, *([(PROBE, OURS)] if OURS in arms else [])])
    note(f"  {samples.rounds} rounds, {samples.stopped}, spread {samples.noise:.1%}")
    arms.clear()
    gc.collect()
    return Steps(shape, count * elements, samples, missing, ahead)


def build_arms(names: Iterable[str], params: Sequence[Parameter]) -> tuple[dict[str, Arm], dict[str, str]]:
    arms: dict[str, Arm] = {}
    missing: dict[str, str] = {}
    for name in names:
        try:
            arms[name] = adamw(name, params).step
        except NotInstalled as reason:
            missing[name] = str(reason)
            note(f"  {reason}")
    return arms, missing


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
