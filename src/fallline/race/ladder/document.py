"""A ladder as a document: advantages by rung, a sentence for every contestant, a figure."""

from __future__ import annotations

import math
from pathlib import Path

from fallline.document.blocks import Block, Document, Paragraph, Provenance, Table, Verdict
from fallline.document.cells import Cell, Column, Missing, Text
from fallline.document.figures import Axis, Chart, Series
from fallline.race.document import data_id
from fallline.race.document import document as race_document
from fallline.race.ladder.sentence import answer, percent, place, sentence, unknown_sentence
from fallline.race.ladder.summary import TIME, Climb, climb
from fallline.race.ladder.trend import Guess, Trend
from fallline.race.verdict.summary import Summary
from fallline.workloads.loading import STEPS_AXIS

BAND = 3.0
"""The figure shows intervals up to so many times the largest advantage: a wider one is known to be wide."""


def document_of(summary: Summary, path: Path) -> Document:
    """A race as it is shown: on a ladder its trends, otherwise its leaderboard."""
    found = None if summary.unfinished or summary.broken else climb(summary)
    return race_document(summary, path) if found is None else document(found, summary, path)


def document(found: Climb, summary: Summary, path: Path) -> Document:
    blocks: list[Block] = [Paragraph(line) for line in _head(found, summary)]
    if found.trends:
        blocks += [table(found), figure(found)]
    blocks += [Paragraph(line, detail=True) for line in _details(found, path)]
    blocks += [Verdict(sentence(found, trend)) for trend in _ranked(found)]
    blocks += [Verdict(unknown_sentence(found, name)) for name in found.unknown]
    result = {**summary.as_data(), "ladder": {**found.as_data(), "sentences": _sentences(found)}}
    return Document(blocks, Provenance(data_id(result), str(path)), result=result)


def _sentences(found: Climb) -> dict[str, str]:
    told = {trend.contestant: sentence(found, trend) for trend in found.trends}
    return told | {name: unknown_sentence(found, name) for name in found.unknown}


def _ranked(found: Climb) -> list[Trend]:
    """The best at the last rung first."""
    return sorted(found.trends, key=lambda trend: -trend.last.mean)


def _head(found: Climb, summary: Summary) -> list[str]:
    lines = []
    for workload in found.workloads:
        about = summary.workloads[workload]
        facts, target = about["facts"], about["target"]
        goal = "no target" if target is None else f"target {facts['metric']} {target:.5g} ({about['target_from']})"
        lines.append(f"{workload}: {goal}, at most {summary.rules.most_steps(facts['max_steps'])} steps")
    return lines


def table(found: Climb) -> Table:
    """One row per contestant: its advantage on every rung, then beyond."""
    unit = "%" if found.measure == TIME else found.measure
    columns = [Column("contestant", align="left", key=True)]
    for rung in found.known.rungs:
        columns.append(Column(f"{place(found, rung)}\n{unit}", unit=unit, align="left"))
    columns += [Column(f"expected\n{place(found, rung)}", unit=unit, align="left") for rung in found.ahead]
    columns += [Column("beyond the\nladder", align="left")] if found.ahead else []
    rows: list[list[Cell]] = []
    for trend in _ranked(found):
        there = {rung for rung, _ in found.measured(trend)}
        measured: list[Cell] = [
            _cell(found, guess) if rung in there else Missing()
            for rung, guess in zip(found.known.rungs, trend.rungs, strict=True)
        ]
        cells = [*measured, *(_cell(found, guess) for guess in trend.ahead)]
        said: list[Cell] = [Text(answer(trend.ahead[-1], found).value)] if trend.ahead else []
        rows.append([Text(trend.contestant), *cells, *said])
    empty = len(found.known.rungs) + len(found.ahead)
    for name in found.unknown:
        rows.append([Text(name), *[Missing()] * empty, Text("cannot know")])
    return Table(f"Advantage over {found.reference}, with 95 % intervals; above 0 is better", columns, rows)


def _cell(found: Climb, guess: Guess) -> Cell:
    values = [_shown(found, value) for value in (guess.mean, guess.low, guess.high)]
    form = "+.0f" if found.measure == TIME else "+.2g"
    mean, low, high = (f"{value:{form}}".replace("-", "−") for value in values)
    return Text(f"{mean} ({low} to {high})")


def _shown(found: Climb, advantage: float) -> float:
    return percent(advantage) if found.measure == TIME else advantage


def figure(found: Climb) -> Chart:
    """Advantages against the rung with their bands; what is beyond the ladder is dashed."""
    series = []
    last = found.known.rungs[-1]
    for trend in _ranked(found):
        rungs, guesses = zip(*found.measured(trend), strict=True)
        series.append(_series(found, trend.contestant, rungs, guesses))
        if trend.ahead:
            beyond = (last, *found.ahead)
            series.append(_series(found, trend.contestant, beyond, (trend.last, *trend.ahead), extends=True))
    largest = max((abs(value) for line in series for value in line.y), default=1.0) or 1.0
    low = max(min(min(line.low or line.y) for line in series), -BAND * largest)
    high = min(max(max(line.high or line.y) for line in series), BAND * largest)
    rungs = (*found.known.rungs, *found.ahead)
    sign = "×" if found.axis == STEPS_AXIS else ""
    unit = "% of the time to target" if found.measure == TIME else found.measure
    return Chart(
        name="ladder",
        title=f"Advantage over {found.reference}",
        x=Axis(
            f"{found.axis}, logarithmic; dashed: beyond the ladder",
            math.log2(rungs[0]),
            math.log2(rungs[-1]),
            {math.log2(rung): f"{rung:.4g}{sign}" for rung in rungs},
        ),
        y=Axis(f"{unit}, above 0 is better", min(low, 0.0), max(high, 0.0)),
        series=series,
    )


def _series(
    found: Climb, name: str, rungs: tuple[float, ...], guesses: tuple[Guess, ...], extends: bool = False
) -> Series:
    return Series(
        name,
        [math.log2(rung) for rung in rungs],
        [_shown(found, guess.mean) for guess in guesses],
        [_shown(found, guess.low) for guess in guesses],
        [_shown(found, guess.high) for guess in guesses],
        extends=extends,
    )


def _details(found: Climb, path: Path) -> list[str]:
    lines = [
        "Every rung has the target that the reference reaches on it, and the draws of all others."
        if found.measure == TIME
        else "Every rung has the draws of all others; the metric is that at the end of the same time.",
    ]
    if found.measure == TIME:
        lines.append(f"An advantage is how much longer the slower one takes to the target, in {found.clock}.")
    dropped = [rung for rung in found.rungs if rung not in found.known.rungs]
    if dropped:
        rungs = ", ".join(f"{rung:g}" for rung in dropped)
        lines.append(f"Without rung {rungs}: {found.reference} has no result in most studies there.")
    for (name, workload), (count, studies) in found.missed.items():
        counts = "each counts as the budget" if 2 * count < studies else "it has no result there"
        lines.append(f"{name} missed the target of {workload} in {count} of {studies} studies; {counts}.")
    if found.ahead:
        lines.append(
            f"Trends are shrunk towards a common one, and extended by half of the ladder's length at most, here "
            f"{place(found, found.ahead[-1])}."
        )
    return [*lines, f"Results: {path}"]
