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
from fallline.measure.stats import Estimate
from fallline.measure.traffic import passes

PROBE = "probe"


@dataclasses.dataclass
class Steps:
    """The result of a comparison of steps."""

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

    def bytes_moved(self, arm: str) -> float:
        """The bytes that a step has to move."""
        return fallline.info("adamw").bytes_moved["int8" if arm in LOW_BIT else "float32"] * self.elements

    def gb_per_s(self, arm: str) -> Estimate:
        seconds, giga = self.samples.median(arm), self.bytes_moved(arm) / 1e9
        return Estimate(giga / seconds.value, giga / seconds.high, giga / seconds.low, seconds.count)

    def fraction(self, arm: str) -> Estimate:
        """Bytes per second, against those of the probe with AdamW's float32 streams over as many elements."""
        ratio, share = self.samples.ratio(PROBE, arm), self.bytes_moved(arm) / self.bytes_moved(PROBE)
        return Estimate(ratio.value * share, ratio.low * share, ratio.high * share, ratio.count)

    def fraction_text(self, arm: str) -> str:
        found = self.fraction(arm)
        # More than the limit is no result: the probe was disturbed, or is not the limit for this working set.
        return found.short(" of the probe") + (" (above the limit: suspect)" if found.low > 1.05 else "")

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
    """The steps of these implementations over the same parameters, gradients and, in float32, states."""
    made: dict[str, Any] = {}
    missing: dict[str, str] = {}
    for name in names:
        try:
            made[name] = adamw(name, params)
        except NotInstalled as reason:
            missing[name] = str(reason)
            note(f"  {reason}")
    share_states([optimizer for name, optimizer in made.items() if name not in LOW_BIT], params)
    return {name: optimizer.step for name, optimizer in made.items()}, missing


def share_states(optimizers: Sequence[Any], params: Sequence[Parameter]) -> None:
    """The same memory for all arms: where states lie relative to parameters can cost half the bandwidth."""
    for other in optimizers[1:]:
        for param in params:
            for key in ("exp_avg", "exp_avg_sq"):
                other.state[param][key] = optimizers[0].state[param][key]


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
