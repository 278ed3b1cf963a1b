"""Published claims, each answered from the data: it holds here, or does not hold here, with the number."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from fallline.document.numbers import span
from fallline.measure.stats import ALPHA
from fallline.step.analyse import CellResult, TableResult
from fallline.step.gpt2 import Gpt2
from fallline.step.published.adan_tables import percent
from fallline.step.published.presets import ADAM, ADAM_FUSED, CONFIGURATIONS, FUSED
from fallline.step.published.sources import ADAM_GRID, winner_counts
from fallline.step.sentences import region, wins
from fallline.step.tables import milliseconds

MIB = 2**20


@dataclasses.dataclass(frozen=True)
class Answer:
    claim: str
    holds: bool | None
    """Whether the claim holds; None if the data cannot say."""
    number: str

    def text(self) -> str:
        said = {True: "holds here", False: "does not hold here", None: "cannot be said here"}[self.holds]
        return f"“{self.claim}”: {said}; {self.number}."


def grid_claims(table: TableResult) -> list[Answer]:
    """The claims of the text below the published grid."""
    if not table.decided or not {"compiled", "eager", "fused"} <= set(table.arms):
        return []
    won = wins(table)
    count = len(table.decided)
    few = [row for row in table.decided if row.cell.tensors <= 2 and (row.cell.size or 0) <= 262144]
    large = [row for row in table.decided if (row.cell.size or 0) >= 1048576]
    return [
        Answer(
            "compiled is best at 1 × 16384 and good for few, small tensors",
            _share(few, "compiled") == len(few) if few else None,
            f"of {len(few)} cells with 1 or 2 tensors up to 262144 elements it wins or ties {_share(few, 'compiled')}; "
            f"it wins {region(won['compiled'])}",
        ),
        _deteriorates(table.decided),
        Answer(
            "at 1048576 elements and more compiled is poorer than the loop even with few tensors",
            _slower(large, "compiled", "eager") == len(large) if large else None,
            f"it is slower than eager in {_slower(large, 'compiled', 'eager')} of {len(large)} such cells "
            f"(published: 1 and 2 × 1048576, 1 × 4194304)",
        ),
        Answer(
            "for larger models the versions that are not compiled are better",
            all(row.winner == "fused" for row in large) if large else None,
            f"fused wins {sum(row.winner == 'fused' for row in large)} of {len(large)} cells from 1048576 elements up, "
            f"eager wins {sum(row.winner == 'eager' for row in large)}",
        ),
        Answer(
            "winners: fused 21, compiled 9, loop 0 of 30",
            _as_published({name: len(rows) for name, rows in won.items()}, count),
            f"here fused {len(won['fused'])}, compiled {len(won['compiled'])}, eager {len(won['eager'])}, "
            f"{count - sum(map(len, won.values()))} ties, of {count}",
        ),
    ]


def _deteriorates(rows: Sequence[CellResult]) -> Answer:
    """How far an implementation is behind the fastest with more than 16 tensors and with fewer, size by size."""
    worse, sizes = 0, sorted({row.cell.size or 0 for row in rows})
    both = []
    for size in sizes:
        many, few = (
            _factors([row for row in rows if row.cell.size == size and (row.cell.tensors > 16) == beyond], "compiled")
            for beyond in (True, False)
        )
        if many and few:
            both.append((many, few))
            worse += statistics.median(many) > statistics.median(few)
    number = "cells to compare are missing"
    if both:
        many, few = ([factor for pair in both for factor in pair[at]] for at in (0, 1))
        number = (
            f"with 32 tensors it takes {_range(many)} the time of the fastest, with up to 16 {_range(few)}; "
            f"that is further behind in {worse} of {len(both)} sizes"
        )
    return Answer("compiled deteriorates beyond 16 tensors", worse == len(both) if both else None, number)


def _as_published(won: Mapping[str, int], decided: int) -> bool | None:
    """Whether each implementation wins as often as published; None while missing cells could still decide it."""
    published = winner_counts(ADAM_GRID)
    if any(won[name] > count for name, count in published.items()):
        return False
    return won == published if decided == len(ADAM_GRID) else None


def _share(rows: Sequence[CellResult], name: str) -> int:
    return sum(row.fastest == name or name in row.tied for row in rows)


def _slower(rows: Sequence[CellResult], name: str, other: str) -> int:
    return sum(
        statistics.median(row.arms[name].samples) > statistics.median(row.arms[other].samples)
        and row.p(name, other) <= ALPHA
        for row in rows
        if row.arms[name].counts and row.arms[other].counts
    )


def _factors(rows: Sequence[CellResult], name: str) -> list[float]:
    """Its time as a multiple of the fastest."""
    return [row.medians[name] / min(row.medians.values()) for row in rows if name in row.medians]


def _range(factors: Sequence[float]) -> str:
    return f"{span(factors, 'two')} times"


def adan_claims(table: TableResult, memory: Mapping[str, Mapping[str, Any]]) -> list[Answer]:
    """The claims of the conclusion of the page of Adan's fused kernels."""
    return [*_memory_claims(memory), *_time_claims(table)]


def _memory_claims(memory: Mapping[str, Mapping[str, Any]]) -> list[Answer]:
    per_million = _extra_per_million(memory)
    if len(per_million) < len(CONFIGURATIONS):
        return []
    true, seed_like = (
        [100 * (adan[figure] / adam[figure] - 1) for _, adam, adan in _modelled(memory)]
        for figure in ("true", "seed_like")
    )
    none = sum(delta <= 0.03 for delta in true)
    none_seed = sum(delta <= 0.03 for delta in seed_like)
    return [
        Answer(
            "the extra memory does not grow linearly with the model",
            not max(per_million) < 1.05 * min(per_million),
            f"with states resident it is {span(per_million, 2)} MiB per million parameters "
            f"in all {len(true)} configurations: two more float32 states",
        ),
        Answer(
            "in most cases there is no additional memory",
            none > len(true) / 2,
            f"with states resident {none} of {len(true)} configurations have none; taken as the page took it, "
            f"{none_seed} of {len(true)}",
        ),
        Answer(
            "the additional memory does not exceed 15 %",
            max(true) <= 15,
            f"with states resident up to {max(true):.1f} %; taken as the page took it, up to {max(seed_like):.1f} %",
        ),
    ]


def _modelled(memory: Mapping[str, Mapping[str, Any]]) -> list[tuple[Gpt2, Mapping[str, Any], Mapping[str, Any]]]:
    """The configurations, each with the modelled memory of Adam and of FusedAdan."""
    found = []
    for config in CONFIGURATIONS:
        adam, adan = (memory.get(f"modelled {config.name} {name}") for name in ("Adam", "FusedAdan"))
        if adam is not None and adan is not None:
            found.append((config, adam, adan))
    return found


def _extra_per_million(memory: Mapping[str, Mapping[str, Any]]) -> list[float]:
    return [(adan["true"] - adam["true"]) / MIB / (config.parameters / 1e6) for config, adam, adan in _modelled(memory)]


def _time_claims(table: TableResult) -> list[Answer]:
    found = []
    for base, what in ((ADAM, "torch's default Adam"), (ADAM_FUSED, "Adam as fused as Adan")):
        shares = _percentages(table, base)
        if shares:
            found.append(
                Answer(
                    f"FusedAdan takes only 80 % of Adam's time, against {what}",
                    max(shares) <= 80,
                    f"{span(shares)} % in {len(shares)} measured shape{'s' if len(shares) != 1 else ''}",
                )
            )
    return found


def _percentages(table: TableResult, base: str) -> list[float]:
    """FusedAdan's time in % of another arm's, shape by shape, as in the table, so that sentences agree with it."""
    both = [(row.arms[FUSED], row.arms[base]) for row in table.rows]
    return [
        float(percent(milliseconds(fused), milliseconds(other)))
        for fused, other in both
        if fused.seconds and other.seconds and not fused.wrong and not other.wrong
    ]


def adan_costs(table: TableResult, memory: Mapping[str, Mapping[str, Any]]) -> str | None:
    """The cost of Adan compared with Adam, in time and in memory, in one sentence."""
    alike, default = _percentages(table, ADAM_FUSED), _percentages(table, ADAM)
    if not alike or not default:
        return None
    per_million = _extra_per_million(memory)
    memory_words = f", and {min(per_million):.2f} MiB more per million parameters" if per_million else ""
    return (
        f"A step of Adan takes {span(alike)} % of the time of Adam's, both fused "
        f"({span(default)} % of torch's default Adam){memory_words}."
    )
