"""Two published profiles, their tables, and each of their claims answered from this machine's samples."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

from fallline.document.blocks import Table
from fallline.document.cells import Cell, Column, Missing, Number, Text
from fallline.profile.estimate import CLOSE, CellEstimate
from fallline.profile.quantities import percent
from fallline.profile.sweep import cliffs, gaps, trend
from fallline.step.published.claims import Answer

ROUND1, ADAMW_8BIT = "round1", "adamw-8bit"
PRESETS = (ROUND1, ADAMW_8BIT)

PUBLISHED_TITLE = "As published, one run each; every other number here is from this machine"
NOISE = 0.05
"""The upper end of the noise band that the first one assumes, ±1 to 5 %."""


@dataclasses.dataclass(frozen=True)
class Published:
    """A row: tokens per second, and peak memory of the accelerator in MB."""

    rate: float
    peak: float


ROUND1_ROWS: Mapping[str, Published] = {
    "adafactor": Published(13431.83, 4128.947),
    "adamw": Published(14275.71, 5118.267),
    "adamp": Published(12943.14, 5116.956),
    "qhm": Published(14921.94, 4620.790),
    "sophiag": Published(13938.94, 5116.956),
    "adam8bit": Published(14918.52, 4385.736),
    "lion8bit": Published(15179.05, 4253.546),
    "fusedadam": Published(12932.0, 5100.075),
}
"""A GPT-2 on a card of 6 GB, one run each. The row of fusedadam is not in the published raw data, which have 15,130."""
BATCHES = (16, 24, 32, 48, 64, 96, 128)
ADAMW_8BIT_ROWS: Mapping[int, tuple[float, float]] = {
    16: (32324.16, 29870.22),
    24: (32997.69, 31973.56),
    32: (32978.47, 32260.48),
    48: (33866.15, 33592.35),
    64: (33982.72, 33738.47),
    96: (34004.93, 33810.79),
    128: (19677.57, 19575.64),
}
"""Batch → tokens per second of AdamW and of bitsandbytes' 8-bit AdamW, on a card of 4 GB."""


def round1_table() -> Table:
    """The published figures, as differences to AdamW."""
    base = ROUND1_ROWS["adamw"]
    columns = [
        Column("", name="optimizer", align="left", key=True),
        Column("tokens/s", digits="thousands"),
        Column("Δ tokens/s", name="delta"),
        Column("Δ peak", name="delta peak"),
    ]
    rows: list[list[Cell]] = [
        [
            Text(name),
            Number(row.rate),
            Text(f"{100 * (row.rate / base.rate - 1):+.1f} %") if row is not base else Missing("the baseline"),
            Text(f"{100 * (row.peak / base.peak - 1):+.1f} %") if row is not base else Missing("the baseline"),
        ]
        for name, row in ROUND1_ROWS.items()
    ]
    return Table(PUBLISHED_TITLE, columns, rows, detail=True)


def adamw_8bit_table() -> Table:
    columns = [
        Column("batch", digits="whole", key=True),
        Column("AdamW tokens/s", digits="thousands"),
        Column("8-bit tokens/s", digits="thousands"),
        Column("difference"),
    ]
    rows: list[list[Cell]] = [
        [Number(batch), Number(full), Number(eight), Text(f"{100 * (eight / full - 1):+.2f} %")]
        for batch, (full, eight) in ADAMW_8BIT_ROWS.items()
    ]
    return Table(PUBLISHED_TITLE, columns, rows, detail=True)


# ------------------------------------------------------------------ claims of the first


def round1_claims(cell: CellEstimate) -> list[Answer]:
    """Each printed claim, with the number from here."""
    return [
        _fastest(cell),
        _gain(cell, "qhm", "QHM: almost the same gain of speed (+4.5 %), without another package", 0.045),
        _adafactor(cell),
        _memory(cell, "lion8bit", "Lion-8bit saves 17 % of the memory", 0.169),
        _gain(cell, "fusedadam", "FusedAdam is 9.4 % slower than AdamW", -0.094),
        _epochs(cell),
        _band(cell),
        _warm_up(cell),
    ]


def _fastest(cell: CellEstimate) -> Answer:
    claim = "Lion-8bit is the fastest, about 6 % more tokens per second than AdamW"
    lion = cell.arms.get("lion8bit")
    if lion is None or lion.delta is None:
        return Answer(claim, None, "it has no steps here")
    others = {label: arm.delta.value for label, arm in cell.arms.items() if arm.delta is not None}
    leader = max(others, key=others.__getitem__)
    holds = leader == "lion8bit" and lion.delta.low <= 0.06 <= lion.delta.high
    return Answer(claim, holds, f"here {leader} leads; Lion-8bit is at {percent(lion.delta.value, lion.delta)}")


def _gain(cell: CellEstimate, label: str, claim: str, published: float) -> Answer:
    arm = cell.arms.get(label)
    if arm is None or arm.delta is None:
        return Answer(claim, None, "it has no steps here")
    near = arm.delta.low - CLOSE <= published <= arm.delta.high + CLOSE
    return Answer(claim, near, f"here {percent(arm.delta.value, arm.delta)}")


def _saved(cell: CellEstimate, label: str) -> tuple[float, float, float] | None:
    """The share of AdamW's peak that is saved, the bytes, and the difference of states in bytes."""
    own, base = (cell.record.arms.get(one) for one in (label, cell.record.plan.baseline))
    if own is None or base is None or not own.facts.get("peak_bytes") or not base.facts.get("peak_bytes"):
        return None
    saved = base.facts["peak_bytes"] - own.facts["peak_bytes"]
    return saved / base.facts["peak_bytes"], saved, base.facts["state_bytes"] - own.facts["state_bytes"]


def _memory(cell: CellEstimate, label: str, claim: str, published: float) -> Answer:
    found = _saved(cell, label)
    if found is None:
        return Answer(claim, None, "it has no peak here")
    share, saved, states = found
    number = (
        f"here {100 * share:.1f} % of the peak in tensors, {saved / 1e6:.3g} MB, of which {states / 1e6:.3g} MB are "
        "states; the share depends on the activations, the MB do not"
    )
    return Answer(claim, abs(share - published) <= 0.02, number)


def _adafactor(cell: CellEstimate) -> Answer:
    claim = "Adafactor saves the most memory (19 %) and loses about 6 % of the speed"
    found, arm = _saved(cell, "adafactor"), cell.arms.get("adafactor")
    if found is None or arm is None or arm.delta is None:
        return Answer(claim, None, "it has no steps here")
    saved = {label: one[1] for label in cell.arms if (one := _saved(cell, label)) is not None}
    most = max(saved, key=saved.__getitem__)
    holds = most == "adafactor" and arm.delta.low - CLOSE <= -0.06 <= arm.delta.high + CLOSE
    return Answer(
        claim,
        holds,
        f"here {most} saves most, Adafactor {100 * found[0]:.1f} % of the peak, and its throughput is at "
        f"{percent(arm.delta.value, arm.delta)}",
    )


def _epochs(cell: CellEstimate) -> Answer:
    claim = "Sophia-G and AdamP reach the same loss in 60 to 70 % of AdamW's steps"
    shares = []
    for label in ("sophiag", "adamp"):
        arm = cell.arms.get(label)
        if arm is not None and arm.loss_delta is not None:
            ends = "lower" if arm.loss_delta.high < 0 else "higher" if arm.loss_delta.low > 0 else "alike"
            shares.append(f"{label} ends {ends} ({arm.loss_delta.value:+.2g} after as many steps)")
    steps = 0 if cell.record.counts is None else cell.record.counts.steps
    number = f"{'; '.join(shares) or 'no losses here'}; {steps} steps are too few to say more: `--to-loss` answers it"
    return Answer(claim, None, number)


def _band(cell: CellEstimate) -> Answer:
    claim = "a win is real if its mean over three seeds beats AdamW by more than the noise band of 1 to 5 %"
    deltas = [arm.delta for arm in cell.arms.values() if arm.delta is not None]
    widths = [delta.high - delta.value for delta in deltas if math.isfinite(delta.high)]
    if not widths:
        return Answer(claim, None, "there are no intervals")
    beyond = [label for label, arm in cell.arms.items() if arm.delta is not None and arm.delta.low > NOISE]
    told = ", ".join(beyond) or "nobody"
    return Answer(
        claim, bool(beyond), f"here differences are known to ±{100 * max(widths):.1f} %; {told} is beyond 5 %"
    )


def _warm_up(cell: CellEstimate) -> Answer:
    claim = "AdamW loses to some only through the warm-up of the compiler"
    seconds = {label: facts.facts.get("warm_up_seconds") for label, facts in cell.record.arms.items()}
    known = {label: value for label, value in seconds.items() if value is not None}
    if not known or cell.baseline is None:
        return Answer(claim, None, "no warm-up was measured")
    ends = f"{min(known.values()):.2g} to {max(known.values()):.2g} s"
    faster = [label for label, arm in cell.arms.items() if arm.delta is not None and arm.delta.low > 0]
    return Answer(
        claim,
        not faster,
        f"warm-up ({ends}) is in no rate here, and faster than AdamW are {', '.join(faster) or 'none'}",
    )


# ------------------------------------------------------------------ claims of the second


def adamw_8bit_claims(cells: Sequence[CellEstimate]) -> list[Answer]:
    both = [cell for cell in cells if {"adamw", "adamw8bit"} <= set(cell.arms)]
    deltas = [arm.delta for cell in both if (arm := cell.arms["adamw8bit"]).delta is not None]
    if not deltas:
        return []
    slower = sum(delta.high < 0 for delta in deltas)
    lows = min(delta.low for delta in deltas)
    found = trend(gaps(both, "adamw8bit"))
    ms = [1e3 * (cell.arms["adamw8bit"].seconds - cell.arms["adamw"].seconds) for cell in both]
    fell = [cliff for cliff in cliffs(cells) if cliff.after == "batch 128"]
    saved = {round(one[1] / 1e6, 2) for cell in both if (one := _saved(cell, "adamw8bit")) is not None}
    losses = [arm.loss_delta for cell in both if (arm := cell.arms["adamw8bit"]).loss_delta is not None]
    level = min((abs(value) for cell in both for value in cell.arms["adamw"].values), default=1.0)
    narrows = None if found is None else not found.is_constant and found.slope * found.mean < 0
    constant = found is not None and found.is_constant
    why = ", without a trend: the share shrinks because steps grow" if constant else ""
    falls = f"here it falls by {100 * max(c.fall for c in fell):.0f} %" if fell else "here no arm loses 10 % there"
    return [
        Answer(
            "standard AdamW outperforms 8-bit AdamW at every batch size",
            slower == len(deltas),
            f"here 8-bit is slower in {slower} of {len(deltas)} sizes; the lowest end of its intervals is "
            f"{100 * lows:+.2f} % throughput",
        ),
        Answer(
            "the gap narrows as batches grow, by better use of memory",
            narrows,
            f"in ms per step it goes from {ms[0]:+.2g} to {ms[-1]:+.2g}{why}",
        ),
        Answer(
            "throughput falls by about 42 % from batch 96 to 128",
            bool(fell),
            falls,
        ),
        Answer(
            "both have similar loss trends",
            all(abs(loss.value) <= CLOSE * level for loss in losses) if losses else None,
            f"the final losses differ by {min(x.value for x in losses):+.2g} to {max(x.value for x in losses):+.2g}"
            if losses
            else "no losses were stored",
        ),
        Answer(
            "the primary advantage of 8 bits is memory rather than throughput",
            bool(saved) and max(delta.high for delta in deltas) < CLOSE,
            f"it saves {' to '.join(f'{size:g}' for size in sorted({min(saved), max(saved)}))} MB at every batch size"
            if saved
            else "no peak was measured",
        ),
        Answer(
            "8 bits cost 0.5 to 1 % of the throughput at large batches",
            all(delta.high < -0.005 for delta in deltas[-3:]),
            f"at the largest batch here {percent(deltas[-1].value, deltas[-1])}",
        ),
    ]
