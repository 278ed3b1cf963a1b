"""Writes ``docs/leaderboard.md`` from the tables in ``docs/leaderboard/``: ``python docs/leaderboard_page.py``.

The tables are those of ``fallline results export``, without the single evaluations.  ``--check`` writes nothing and
fails if the page is not current.
"""

from __future__ import annotations

import csv
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leaderboard_ceiling_section import section
from page_writing import write_or_check

from fallline.race.clock.pace import errors_by_workload, errors_of_cells
from fallline.race.clock.step_clock import StepClock
from fallline.race.contestants.presets import PRESETS
from fallline.race.plan import Rules
from fallline.race.results import Calibrated
from fallline.race.verdict.early_stop import late_studies, without_late
from fallline.score.agreement import kendall
from fallline.score.algoperf import PUBLISHED
from fallline.score.leaderboard import Leaderboard, leaderboard
from fallline.score.times import StudyTimes

PAGE = Path(__file__).with_name("leaderboard.md")
TABLES = Path(__file__).with_name("leaderboard")
IN_LOGS = {"shampoo": "shampoo_submission", "caspr": "caspr_adaptive"}
"""Entries that AlgoPerf's logs, and its published scores, have under other names."""
EARLIER = "earlier.json"
"""The entries of the run before this one, and its agreement with AlgoPerf."""

INTRODUCTION = """\
# A leaderboard of AlgoPerf's entries, in miniature

Written by `make leaderboard` from the tables in [leaderboard/](leaderboard); a test keeps it current.

AlgoPerf's rules at a thousandth of its cost: eight workloads that keep its tasks, losses and metrics
([workloads.md](workloads.md)), external tuning with 5 trials a study, 3 studies, the fastest trial of a study, the
median over studies, scores from profiles up to τ = 4, without held-out variants. Unlike AlgoPerf's, every score has an
interval, and entries that cannot be told apart share a letter. `benchmarks/leaderboard.toml` has the entries and the
spaces in which they were tuned.{missing}
"""

REPEAT = """\
## Again

```sh
make leaderboard   # goes on where it was stopped; about two hours on two cores in all
fallline results calibrate benchmarks/results/leaderboard.sqlite   # step times anew, on a quiet machine
```

Steps to target do not depend on how busy the machine is; seconds per step are measured apart, side by side, and can be
measured again without running a trial.
"""


def rows(name: str) -> list[dict[str, str]]:
    with (TABLES / f"leaderboard-{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def times(trials: Sequence[Mapping[str, str]], costs: Mapping[tuple[str, str], Calibrated]) -> StudyTimes:
    """The fastest trial of every study."""
    every = {known["name"]: known["eval_every"] for known in facts()}
    clock = StepClock(Rules(), costs, every)
    cells: dict[tuple[str, str], dict[int, float]] = {}
    for trial in trials:
        contestant, workload, study = trial["contestant"], trial["workload"], trial["study"]
        steps = float(trial["steps_to_target"] or math.inf)
        cell = cells.setdefault((contestant, workload), {})
        cell[int(study)] = min(clock.seconds(workload, contestant, steps), cell.get(int(study), math.inf))
    workloads = tuple(dict.fromkeys(t["workload"] for t in trials))
    contestants = tuple(dict.fromkeys(t["contestant"] for t in trials))
    errors = errors_of_cells(errors_by_workload(contestants, {name: [] for name in workloads}, costs), costs)
    return StudyTimes(contestants, workloads, {}, cells, frozenset(contestants), errors)


def calibrated() -> dict[tuple[str, str], Calibrated]:
    return {
        (row["workload"], row["contestant"]): Calibrated(
            step_seconds=float(row["step_seconds"]),
            low=float(row["low"]),
            high=float(row["high"]),
            switch_seconds=float(row["switch_seconds"]),
            state_bytes=int(row["state_bytes"]),
            parameter_bytes=int(row["parameter_bytes"]),
            peak_bytes=None,
        )
        for row in rows("calibration")
    }


def facts() -> list[dict[str, Any]]:
    return [{"name": row["name"], **json.loads(row["facts"])} for row in rows("workloads")]


def raced_times() -> StudyTimes:
    """The times that are scored."""
    table = times([trial for trial in rows("trials") if trial["kind"] == "race"], calibrated())
    return without_late(table, late_studies(table, Rules.tau_max))


def page() -> str:
    trials = [trial for trial in rows("trials") if trial["kind"] == "race"]
    running = {trial["workload"] for trial in trials if not trial["status"]}
    ended = [trial for trial in trials if trial["workload"] not in running]
    raced = {trial["contestant"] for trial in trials}
    absent = [preset.title for name, preset in PRESETS.items() if name.removeprefix("algoperf_") not in raced]
    missing = f" This run was without {' and '.join(absent)}." if absent else ""
    return "\n".join(
        [
            INTRODUCTION.format(missing=missing),
            progress(trials, ended),
            *(results(ended) if ended else ()),
            section(TABLES, markdown, len(raced)),
            "## What it cost\n",
            cost(trials),
            REPEAT,
        ]
    )


def results(trials: Sequence[Mapping[str, str]]) -> list[str]:
    table = times(trials, calibrated())
    board = leaderboard(without_late(table, late_studies(table, Rules.tau_max)))
    return [
        scores(board),
        f"{board.verdict}\n",
        correlation(board),
        "## Seconds to target\n",
        "Medians over studies; – where most studies missed the target.\n",
        seconds(board),
    ]


def progress(trials: Sequence[Mapping[str, str]], ended: Sequence[Mapping[str, str]]) -> str:
    left = sum(not trial["status"] for trial in trials)
    if not left:
        return f"All {len(trials)} trials have ended.\n"
    counted = {trial["workload"]: None for trial in ended}
    waiting = {trial["workload"]: None for trial in trials if trial["workload"] not in counted}
    return (
        f"**Not finished**: {len(trials) - left} of {len(trials)} trials have ended. Scores are over the workloads "
        f"that are complete ({', '.join(counted) or 'none'}); {', '.join(waiting)} will change them.\n"
    )


def published(entry: str) -> float:
    return PUBLISHED[IN_LOGS.get(entry, entry)]


def scores(board: Leaderboard) -> str:
    head = ("rank", "entry", "score", "95 % interval", "group", "workloads reached", "AlgoPerf's score")
    body = [
        (
            str(row.rank),
            f"`{row.contestant}`",
            f"{row.score:.2f}",
            f"{row.low:.2f} – {row.high:.2f}",
            row.groups,
            f"{row.reached} of {len(board.workloads)}",
            f"{published(row.contestant):.4f}",
        )
        for row in board.rows
    ]
    return markdown(head, body)


def correlation(board: Leaderboard) -> str:
    ours = [row.score for row in board.rows]
    tau, agree, disagree = kendall(ours, [published(row.contestant) for row in board.rows])
    return (
        f"Rank correlation with AlgoPerf's published order of these {len(ours)} entries: Kendall's τ = {tau:.2f}"
        f" ({agree} pairs in the same order, {disagree} in the other, of {len(ours) * (len(ours) - 1) // 2})."
        f"{before(board)}\n"
    )


def before(board: Leaderboard) -> str:
    """The earlier run beside this one, over the entries of both; empty while the tables are those of that run."""
    if not (TABLES / EARLIER).exists():
        return ""
    earlier = json.loads((TABLES / EARLIER).read_text(encoding="utf-8"))
    shared = [row for row in board.rows if row.contestant in earlier["entries"]]
    if len(shared) == len(board.rows):
        return ""
    tau, _, _ = kendall([row.score for row in shared], [published(row.contestant) for row in shared])
    return (
        f" An earlier run, on another machine and with {len(earlier['entries'])} of them, gave {earlier['tau']:.2f};"
        f" the same {len(shared)} give {tau:.2f} among those of today."
    )


def seconds(board: Leaderboard) -> str:
    body = []
    for row in board.rows:
        found = [row.times[name] for name in board.workloads]
        body.append((f"`{row.contestant}`", *("–" if math.isinf(t) else f"{t:.3g}" for t in found)))
    return markdown(("entry", *(f"`{name}`" for name in board.workloads)), body)


def cost(trials: Sequence[Mapping[str, str]]) -> str:
    training, evaluation = (
        sum(float(trial[name] or 0.0) for trial in trials) / 3600 for name in ("training_seconds", "evaluation_seconds")
    )
    ends = Counter(trial["status"] or "to run" for trial in trials)
    machines = {_machine(json.loads(row["machine"])) for row in rows("calibration")}
    return (
        f"{training:.1f} hours of training and {evaluation:.1f} of evaluation, by the clock on the wall of a machine"
        f" that did other work too: {'; '.join(sorted(machines))}. Trials: "
        + ", ".join(f"{count} {status}" for status, count in ends.most_common())
        + ". A trial is censored when its study already has a faster one, or past 4 times the fastest entry."
        + f"{_commits()}\n"
    )


def _commits() -> str:
    """Says so where the program was not the same for all workloads: the trials of one do not depend on the others."""
    raced: dict[str, list[str]] = {}
    for row in rows("calibration"):
        commit = str(json.loads(row["machine"]).get("commit"))
        if row["workload"] not in raced.setdefault(commit, []):
            raced[commit].append(row["workload"])
    if len(raced) < 2:
        return ""
    return (
        " Step times were measured by "
        + "; ".join(f"{commit}: {', '.join(names)}" for commit, names in raced.items())
        + "."
    )


def _machine(known: Mapping[str, Any]) -> str:
    return f"{known['cpu']}, {known['cores']} cores, torch {known['versions']['torch']}"


def markdown(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, ["---"] * len(head), *body))


if __name__ == "__main__":
    write_or_check(PAGE, page, __doc__, "make leaderboard")
