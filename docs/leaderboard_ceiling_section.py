"""The section of ``docs/leaderboard.md`` on agreement with AlgoPerf, from ``docs/leaderboard/ceiling.json``."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

FILE = "ceiling.json"
APART = 2
"""So many entries more that miss a target on one side are a reason to move it."""
UNRELIABLE = 0.3
"""Below this τ between halves of its own studies, a workload orders entries by luck."""

Markdown = Callable[[Sequence[str], Sequence[Sequence[str]]], str]


def section(tables: Path, markdown: Markdown, entries: int) -> str:
    """Empty where the job has not run; it says so if it ran on another number of entries than there are now."""
    if not (tables / FILE).exists():
        return ""
    found = json.loads((tables / FILE).read_text(encoding="utf-8"))
    earlier = f"This section is still that of an earlier run, with {found['entries']} entries.\n"
    return "\n".join(
        [
            "## How far could it agree with AlgoPerf?\n",
            *([] if found["entries"] == entries else [earlier]),
            _ceiling(found),
            _misses(found["misses"], markdown),
            _earlier(found["earlier"], found["steps"].values(), markdown),
            _tighter(found["budgets"], found["ours"], markdown),
            _workloads(found["workloads"], found["entries"], markdown),
            _proposals(found),
            "`python -m benchmarks.leaderboard_ceiling LOGS` computes all of this from AlgoPerf's archive of logs.\n",
        ]
    )


def _signed(tau: float) -> str:
    return f"{tau:.2f}".replace("-", "−")


def _range(found: Mapping[str, float]) -> str:
    return f"{found['mean']:.2f} ({found['low']:.2f} to {found['high']:.2f})"


def _ceiling(found: Mapping[str, Any]) -> str:
    theirs, ours = found["ceiling"], found["ours"]
    joint = (theirs["drawn"]["mean"] * ours["itself"]["drawn"]["mean"]) ** 0.5
    left = [_signed(bound(ours["without"].values())) for bound in (min, max)]
    ceiling = (
        "**The ceiling.** AlgoPerf's own studies do not give one order either. Its order of these "
        f"{found['entries']} entries from half of the studies of every cell agrees with that from the other half at τ "
        f"= {_range(theirs['halves'])}, mean and 90 % of {found['resamples']} divisions; two drawings of as many "
        f"studies as there were agree at {_range(theirs['drawn'])}. Nobody can be expected to do better than about "
        "0.8. Held-out variants, which we leave out, matter little: without them AlgoPerf's order agrees with the "
        f"published one at {found['without held-out']:.2f}.\n"
    )
    own = (
        f"**Ours** agrees with itself at {_range(ours['itself']['drawn'])} when its three studies are drawn again, and "
        f"with AlgoPerf's at {_range(ours['drawn'])}. If both measured the same thing with the noise that they have, "
        f"about {joint:.2f} would be found (the root of the product of both agreements with themselves, a rule of "
        "thumb). So noise explains the smaller part of the distance: the miniatures order entries otherwise. No single "
        f"entry is to blame: leaving one out gives {left[0]} to {left[1]}.\n"
    )
    return f"{ceiling}\n{own}"


def _misses(found: Mapping[str, float], markdown: Markdown) -> str:
    rows = [(name, f"{tau:.2f}") for name, tau in found.items()]
    alone, times, mixed = (
        found[name]
        for name in ("equal times, AlgoPerf's misses", "AlgoPerf's times, no misses", "AlgoPerf's times, our misses")
    )
    return (
        "**Misses.** Scores of mixed tables: times from one side, misses from the other. A miss that is taken away is "
        "met when the budget ends.\n\n"
        + markdown(("table", "τ with the published order"), rows)
        + "\nWho misses is most of AlgoPerf's order: its misses alone, with all times equal, give "
        f"{alone:.2f}. Ours fall on other entries: alone they give "
        f"{found['equal times, our misses']:.2f}, and put into AlgoPerf's table they lower it from "
        f"{times:.2f} to {mixed:.2f}. But without any "
        f"misses our times give {found['our times, no misses']:.2f} only: both misses and times differ.\n"
    )


def _earlier(found: Sequence[Mapping[str, float]], steps: Collection[int], markdown: Markdown) -> str:
    rows = [
        (f"{100 * row['share']:.0f} %", f"{row['misses']:.0f}", f"{row['published']:.2f}", f"{row['ours']:.2f}")
        for row in found
    ]
    head = ("target met by the baseline after", "missed cells", "τ with the published order", "τ with ours")
    early = found[0]
    return (
        "**Targets too early?** AlgoPerf's logs hold whole curves, so its table can be scored with earlier targets: "
        "the values that the baseline has after a part of its time to target.\n\n"
        + markdown(head, rows)
        + f"\nTargets at {100 * early['share']:.0f} % of the way give nearly the published order (τ = "
        f"{early['published']:.2f}), and none of these orders is ours. An early target in a long training is not what "
        "lowers our τ. The length of the trainings may be: published tables of optimizers order them otherwise after "
        f"short trainings than after long ones ([ladder.md](ladder.md)), and ours have {min(steps):,} to "
        f"{max(steps):,} steps. The archive cannot tell, because all its trainings are long.\n"
    )


def _tighter(found: Sequence[Mapping[str, float]], ours: Mapping[str, Any], markdown: Markdown) -> str:
    rows = [[f"{row['factor']:g}", f"{row['misses']:.0f}", _signed(row["published"])] for row in found]
    best = max(row["published"] for row in found)
    low, high = (_signed(ours["drawn"][end]) for end in ("low", "high"))
    luck = f"{low} to {high} (90 % when our studies are drawn again)"
    return (
        "**Tighter budgets?** AlgoPerf's budgets are missed more often than ours. The trials that are stored say what "
        "a shorter budget would have done: whoever needed longer has missed. Here it is the same multiple of the "
        "baseline's time on every workload, a rule that looks at nobody's order.\n\n"
        + markdown(["budget over the baseline's time", "missed cells", "τ with the published order"], rows)
        + f"\nBefore it was {_signed(ours['published'])}, afterwards it is at most {_signed(best)}; luck alone moves "
        f"it from {luck}. More misses do not help where they fall on other entries than AlgoPerf's, so no budget was "
        "changed. Longer budgets and other targets need trials that nobody has run.\n"
    )


def _workloads(found: Sequence[Mapping[str, Any]], entries: int, markdown: Markdown) -> str:
    head = (
        "workload",
        "τ with AlgoPerf's",
        "where both reach it",
        "ours with itself",
        "AlgoPerf's with itself",
        "misses, ours / AlgoPerf's",
        "target met after, ours / AlgoPerf's",
    )
    rows = [
        (
            f"`{row['workload']}`",
            _signed(row["tau"]),
            f"{_signed(row['tau where both reach it'])} ({row['both']} of {entries})" if row["both"] > 1 else "–",
            _signed(row["itself"]),
            f"{row['algoperf itself']:.2f}",
            f"{row['misses']} / {row['algoperf misses']}",
            f"{100 * row['share']:.0f} / {100 * row['algoperf share']:.0f} %",
        )
        for row in found
    ]
    return (
        "**By workload.** Orders by the time to target. With itself: between two parts of the studies, 1 and 2 of "
        "ours, 2 and 3 of AlgoPerf's. The last column is a share of the budget, the median of trials (ours) or entries "
        "(AlgoPerf's) that reached it.\n\n" + markdown(head, rows)
    )


def _proposals(found: Mapping[str, Any]) -> str:
    rows = found["workloads"]
    harder = [row for row in rows if row["algoperf misses"] - row["misses"] >= APART]
    easier = [row for row in rows if row["misses"] - row["algoperf misses"] >= APART]
    lucky = [row for row in rows if row["itself"] < UNRELIABLE]

    def counted(chosen: Sequence[Mapping[str, Any]]) -> str:
        return ", ".join(
            f"`{row['workload']}` ({row['misses']} of {found['entries']} miss, AlgoPerf: {row['algoperf misses']})"
            for row in chosen
        )

    luck = ", ".join(f"`{row['workload']}` ({_signed(row['itself'])})" for row in lucky)
    return f"""**Proposals**, none of them tried yet:

1. *Harder targets* where AlgoPerf's are missed and ours are not: {counted(harder)}.
2. *Easier targets, or longer budgets*, where ours are missed and AlgoPerf's are not: {counted(easier)}.
3. *More studies* where parts of our own studies hardly agree: {luck}. Three studies order entries by luck there.
4. *Longer budgets*, if only one thing can be changed: twice the steps on half of the workloads cost half as much again
   as all eight cost now. That length matters is seen in published tables of other optimizers, not in these data.

Moving targets until misses fall on the same entries would copy AlgoPerf's result instead of predicting it: targets
should be moved by what the baselines reach, as `make targets` does, and the agreement looked at once afterwards.
"""
