"""Performance profiles and the score against τ_max: of AlgoPerf's logs, or of our miniature where there are none."""

from __future__ import annotations

import math
from typing import Any

from fallline.gallery.exhibit import Exhibit, NoExhibit, Wishes
from fallline.gallery.stored import stored
from fallline.score.figures import figures
from fallline.score.leaderboard import Leaderboard, leaderboard
from fallline.score.logs import NoLogs, read
from fallline.score.times import StudyTimes, from_logs

MINIATURE = "leaderboard"
"""The stored seconds to target of docs/leaderboard.md; `make leaderboard` measures them."""


def exhibit(wishes: Wishes) -> Exhibit:
    if wishes.logs is None:
        known = stored(MINIATURE)
        table = from_json(known)
        source = f"stored: {known['what']}, not AlgoPerf's own results, for which --logs takes the archive"
    else:
        try:
            table = from_logs(read(wishes.logs).trials)
        except NoLogs as error:
            raise NoExhibit(str(error)) from None
        if not table.workloads:
            raise NoExhibit(f"{wishes.logs}: nothing to score, because its logs are of variants alone")
        source = f"computed here from the logs in {wishes.logs.name}, by the rules of v0.5"
    board = leaderboard(table)
    return Exhibit(figures(board), caption(board), numbers(board), source)


def from_json(known: Any) -> StudyTimes:
    """JSON has no infinity: a study that missed the target is null there."""
    cells = {
        (contestant, workload): {
            study: math.inf if seconds is None else seconds for study, seconds in enumerate(by_study)
        }
        for contestant, by_workload in known["seconds"].items()
        for workload, by_study in by_workload.items()
    }
    errors = {
        (contestant, workload): error
        for contestant, by_workload in known["pace_errors"].items()
        for workload, error in by_workload.items()
    }
    contestants = tuple(known["seconds"])
    return StudyTimes(contestants, tuple(known["workloads"]), {}, cells, frozenset(contestants), errors)


def caption(board: Leaderboard) -> str:
    first, last = board.rows[0], board.rows[-1]
    share = sum(ratio == 1.0 for ratio in first.ratios.values())
    return (
        f"{len(board.rows)} submissions on {len(board.workloads)} workloads, {board.studies} studies each. A profile "
        f"says on which share of the workloads a submission is within τ times the fastest one's time; the score is the "
        f"area under it up to τ = {board.tau_max:g}. {first.contestant} scores {first.score:.4f} ({first.interval}), "
        f"and is the fastest on {share} of {len(board.workloads)}; {last.contestant} scores {last.score:.4f}. "
        f"{board.verdict}"
    )


def numbers(board: Leaderboard) -> dict[str, Any]:
    return {
        "scores": {row.contestant: row.score for row in board.rows},
        "intervals": {row.contestant: [row.low, row.high] for row in board.rows},
        "workloads": list(board.workloads),
        "verdict": board.verdict,
    }
