"""A race's results file as a document for a page: with its pairs, its runs, and the command to repeat it."""

from __future__ import annotations

import dataclasses
import itertools
import math
import shlex
import time
from collections.abc import Sequence
from pathlib import Path

from fallline.document.blocks import Document, Table
from fallline.document.cells import Cell, Column, Missing, Number, Range, Text
from fallline.measure import machine
from fallline.measure.store import StoreError
from fallline.race.ladder.document import document_of
from fallline.race.results import Results
from fallline.race.results.run_tables import Run
from fallline.race.verdict.asking import ask
from fallline.race.verdict.race_look import METRIC, SCORE
from fallline.race.verdict.summary import Summary, summarize
from fallline.score.decision import Standing
from fallline.score.document import pairs_table as exact_pairs

RESULTS = "--results"


def stored_document(path: Path) -> Document:
    """Everything that a race's file says, also while the race runs."""
    with Results(path, writable=False) as results:
        summary = summarize(results)
        made = document_of(summary, path)
        runs = results.runs()
        pairs = pairs_table(results, [row.contestant for row in summary.board.rows])
    if not pairs and summary.board.pairs and summary.tested:
        pairs = [exact_pairs(summary.board)]
    machines = [run.machine for run in runs if run.machine]
    where = dataclasses.replace(
        made.provenance, machine=machine.circumstances(machines) if machines else "", facts=_facts(summary, runs)
    )
    return dataclasses.replace(made, provenance=where, appendix=[*made.appendix, *pairs])


def workloads_of(path: Path) -> list[str]:
    with Results(path, writable=False) as results:
        return list(results.workloads())


def _facts(summary: Summary, runs: Sequence[Run]) -> list[tuple[str, str]]:
    rules = summary.rules
    found = [("workloads", ", ".join(summary.workloads)), ("seed", str(rules.seed))]
    if runs:
        found.append(("started", ", ".join(_day(run.started) for run in runs)))
    if runs and runs[-1].command:
        found.append(("to repeat it", shlex.join(["fallline", *_without_results(runs[-1].command)])))
    return found


def _day(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(moment))


def _without_results(command: Sequence[str]) -> list[str]:
    """The command with no file of results, which is there already."""
    kept = [word for word in command if not word.startswith(f"{RESULTS}=")]
    if RESULTS in kept:
        at = kept.index(RESULTS)
        del kept[at : at + 2]
    return [word for word in kept if word != "--anew"]


# ------------------------------------------------------------------ pairs


def pairs_table(results: Results, names: Sequence[str]) -> list[Table]:
    """Pairs that can be told apart by the rule of the race, at a level over all pairs; the better ones first."""
    known: dict[tuple[str, str], Standing] = {}
    title, relative = "", True
    for name in names:
        try:
            answer = ask(results, [], name, None)
        except StoreError:
            return []  # no look yet, or one with too few studies
        look, relative = answer.look.look, answer.look.look.relative
        of = {METRIC: "quality at equal time", SCORE: "score"}.get(answer.look.quantity, f"time in {answer.look.clock}")
        title = f"Pairs that can and cannot be told apart, by {of}"
        known |= {(name, standing.contestant): standing for standing in look.standings}
    rows = [
        _pair(first, second, known[first, second], relative)
        for first, second in itertools.combinations(names, 2)
        if (first, second) in known
    ]
    unit = "%" if relative else ""
    columns = [
        Column("first", align="left", key=True),
        Column("second", align="left", key=True),
        Column(f"second is behind{', ' + unit if unit else ''}", unit=unit, digits=1 if unit else 2),
        Column("interval", unit=unit, digits=1 if unit else 2),
        Column("answer", align="left"),
    ]
    return [Table(title, columns, rows)] if rows else []


def _pair(first: str, second: str, standing: Standing, relative: bool) -> list[Cell]:
    if standing.gap is None or standing.low is None or standing.high is None:
        return [Text(first), Text(second), Missing(), Missing(), Text("not known")]

    def shown(gap: float) -> float:
        return math.copysign(100 * math.expm1(abs(gap)), gap) if relative else gap

    better = first if standing.low > 0.0 else second if standing.high < 0.0 else None
    answer = "cannot be told apart" if better is None else f"{better} is better"
    interval = Range(shown(standing.low), shown(standing.high))
    return [Text(first), Text(second), Number(shown(standing.gap)), interval, Text(answer)]
