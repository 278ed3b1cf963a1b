"""``python -m benchmarks.ladder_checks``: does the trend of a ladder predict what follows, on published tables?

Two tables are read where they lie (``--tables FOLDER``); nothing of them is kept but how well each method did.
``marin_fantastic_optimizers.csv``: the best loss of 11 optimizers at 4 sizes and 1 to 16 times Chinchilla's tokens, one
run a setting.  ``epfl_one_pass.csv``: validation losses of 20 optimizers at five checkpoints of one pass.  The widths
of the priors in ``fallline.race.ladder.trend`` were chosen on the first; the second confirms them.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.store import save
from fallline.race.ladder.trend import Advantages, Guess, trends
from fallline.score.agreement import kendall

PATH = Path(__file__).with_suffix(".json")
"""Kept with the sources: docs/ladder.md gives its numbers."""
MARIN, EPFL = "marin_fantastic_optimizers.csv", "epfl_one_pass.csv"
REFERENCE = "adamw"
SIZES = {"130m": 130.0, "300m": 300.0, "520m": 520.0, "1.2b": 1200.0}
HOPELESS = ("sgd", "sf-sgd", "signsgd", "scion", "scion-light")
"""Optimizers of the second table that end a whole nat behind AdamW: they would dominate every average."""

Cell = tuple[str, float]
Losses = Mapping[Cell, Mapping[str, float]]
"""(size, horizon) → optimizer → loss."""


@dataclasses.dataclass(frozen=True)
class Case:
    """Some cells to learn from, as rungs of one ladder, and a cell to predict."""

    group: str
    cells: tuple[Cell, ...]
    rungs: tuple[float, ...]
    goal: Cell
    at: float
    """The goal's place on the ladder."""


def marin(folder: Path) -> Losses:
    """The best loss of every setting."""
    found: dict[Cell, dict[str, float]] = defaultdict(dict)
    for row in _rows(folder / MARIN):
        value = float(row["loss"] or "nan")
        best = found[row["size"], float(row["chinchilla"])]
        if math.isfinite(value):
            best[row["optimizer"]] = min(value, best.get(row["optimizer"], math.inf))
    return found


def epfl(folder: Path, *, everybody: bool = False) -> Losses:
    """The mean over seeds; without the hopeless, unless everybody is wanted."""
    found: dict[Cell, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in _rows(folder / EPFL):
        if everybody or row["optimizer"] not in HOPELESS:
            found["", float(row["iteration"])][row["optimizer"]].append(float(row["val_loss"]))
    return {cell: {name: float(np.mean(values)) for name, values in row.items()} for cell, row in found.items()}


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def horizons(group: str, size: str, cells: Sequence[float], goal: float) -> Case:
    return Case(group, tuple((size, cell) for cell in cells), tuple(cells), (size, goal), goal)


def marin_cases() -> list[Case]:
    found = [horizons("longer", size, (1, 2, 4), 8) for size in SIZES]
    found += [horizons("longer", size, (1, 2, 4, 8), 16) for size in ("130m", "300m")]
    for size in SIZES:
        found += [horizons("too far", size, (1, 2), goal) for goal in (4, 8)]
    found += [horizons("too far", size, (1, 2, 4), 16) for size in ("130m", "300m")]
    # A ladder of horizons at a small size, for a larger size at its last horizon.
    for until in ((1, 2, 4, 8), (1, 2, 4)):
        for small, large in (("130m", "300m"), ("130m", "520m"), ("130m", "1.2b"), ("300m", "520m"), ("300m", "1.2b")):
            case = horizons("larger", small, until, until[-1])
            found.append(dataclasses.replace(case, goal=(large, float(until[-1]))))
    # A ladder of sizes.
    for horizon in (1.0, 2.0, 4.0, 8.0):
        for names, goal in ((("130m", "300m", "520m"), "1.2b"), (("130m", "300m"), "520m")):
            cells = tuple((name, horizon) for name in names)
            rungs = tuple(SIZES[name] for name in names)
            found.append(Case("by size", cells, rungs, (goal, horizon), SIZES[goal]))
    return found


def epfl_cases() -> list[Case]:
    longer = (((256, 512, 1024), 2048), ((512, 1024, 2048), 4096), ((256, 512, 1024, 2048), 4096))
    far = (((256, 512), 1024), ((512, 1024), 2048), ((1024, 2048), 4096), ((256, 512), 2048), ((256, 512, 1024), 4096))
    return [horizons("longer", "", cells, goal) for cells, goal in longer] + [
        horizons("too far", "", cells, goal) for cells, goal in far
    ]


# ------------------------------------------------------------------ methods


def mean_of_rungs(x: np.ndarray, values: np.ndarray, at: float) -> np.ndarray:
    """No trend."""
    return np.asarray(np.nanmean(values, axis=1))


def last_rung(x: np.ndarray, values: np.ndarray, at: float) -> np.ndarray:
    return values[:, -1]


def free_line(x: np.ndarray, values: np.ndarray, at: float) -> np.ndarray:
    """A line of its own for every contestant."""
    rows = ((row, ~np.isnan(row)) for row in values)
    return np.array([np.polyval(np.polyfit(x[there], row[there], 1), at) for row, there in rows])


SIMPLE: dict[str, Callable[[np.ndarray, np.ndarray, float], np.ndarray]] = {
    "no trend": mean_of_rungs,
    "last rung": last_rung,
    "free lines": free_line,
}
OURS = "shrunken"


@dataclasses.dataclass(frozen=True)
class Outcome:
    """A case with what became of it; advantages over the reference, positive is better."""

    case: Case
    names: tuple[str, ...]
    truth: np.ndarray
    predicted: Mapping[str, np.ndarray]
    guesses: tuple[Guess, ...]


def outcome(losses: Losses, case: Case, unit: Callable[[Cell], float] = lambda cell: 1.0) -> Outcome | None:
    """None where fewer than two optimizers have what the case needs."""

    def advantage(name: str, cell: Cell) -> float:
        row = losses.get(cell, {})
        return (row[REFERENCE] - row[name]) / unit(cell) if name in row and REFERENCE in row else math.nan

    everybody = sorted({name for row in losses.values() for name in row} - {REFERENCE})
    table = {name: [advantage(name, cell) for cell in case.cells] for name in everybody}
    # The last rung is what all methods start from.
    names = tuple(
        name
        for name, row in table.items()
        if np.isfinite([advantage(name, case.goal), row[-1]]).all() and np.isfinite(row).sum() > 1
    )
    if len(names) < 2:
        return None
    values = np.array([table[name] for name in names])
    x, at = np.log2(case.rungs), math.log2(case.at)
    found = trends(Advantages(names, case.rungs, values), [case.at])
    guesses = tuple(trend.ahead[0] for trend in found)
    predicted = {name: method(x, values, at) for name, method in SIMPLE.items()}
    predicted[OURS] = np.array([guess.mean for guess in guesses])
    return Outcome(case, names, np.array([advantage(name, case.goal) for name in names]), predicted, guesses)


def doublings(losses: Losses) -> Callable[[Cell], float]:
    """How much AdamW's loss falls with a doubling of the horizon, there: turns losses into log₂ of time."""
    falls: dict[Cell, float] = {}
    for size in {size for size, _ in losses}:
        at = sorted(horizon for where, horizon in losses if where == size)
        slopes = np.gradient([losses[size, horizon][REFERENCE] for horizon in at], np.log2(at))
        falls |= {(size, horizon): -float(slope) for horizon, slope in zip(at, slopes, strict=True)}
    return lambda cell: falls[cell]


# ------------------------------------------------------------------ how well


def measures(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Every method's figures over some cases, and what is said of the intervals of ours."""
    truth = np.concatenate([each.truth for each in outcomes])
    guesses = [guess for each in outcomes for guess in each.guesses]
    sure = np.array([guess.low > 0 or guess.high < 0 for guess in guesses])
    right = np.array([(guess.mean > 0) == (real > 0) for guess, real in zip(guesses, truth, strict=True)])
    covered = [guess.low <= real <= guess.high for guess, real in zip(guesses, truth, strict=True)]
    return {
        "cases": len(outcomes),
        "predictions": len(truth),
        "methods": {name: _method(outcomes, name) for name in (*SIMPLE, OURS)},
        "covered": float(np.mean(covered)),
        "answered": int(sure.sum()),
        "answered right": int((sure & right).sum()),
        "unanswered right": int((~sure & right).sum()),
    }


def _method(outcomes: Iterable[Outcome], name: str) -> dict[str, float]:
    taus, winners, errors = [], [], []
    for each in outcomes:
        # The reference takes part in the order, with its advantage of 0.
        predicted, truth = [*each.predicted[name], 0.0], [*each.truth, 0.0]
        taus.append(kendall(predicted, truth)[0])
        winners.append(int(np.argmax(predicted)) == int(np.argmax(truth)))
        errors += list(np.abs(each.predicted[name] - each.truth))
    return {"tau": float(np.mean(taus)), "winner": float(np.mean(winners)), "error": float(np.mean(errors))}


def single(each: Outcome) -> dict[str, Any]:
    """One case: where from, where to, and each method's τ."""
    return {
        "from": [f"{size} {horizon:g}×" for size, horizon in each.case.cells],
        "to": f"{each.case.goal[0]} {each.case.goal[1]:g}×",
        "optimizers": len(each.names) + 1,
        "methods": {name: _method([each], name) for name in (*SIMPLE, OURS)},
    }


def check(folder: Path) -> dict[str, Any]:
    """Table and group → figures."""
    first, second = marin(folder), epfl(folder)
    found: dict[str, Any] = {}
    for table, losses, cases, unit in (
        ("marin", first, marin_cases(), None),
        ("marin in time", first, [c for c in marin_cases() if c.group in ("longer", "too far")], doublings(first)),
        ("epfl", second, epfl_cases(), None),
        ("epfl with all", epfl(folder, everybody=True), [c for c in epfl_cases() if c.group == "longer"], None),
    ):
        ended = [outcome(losses, case, unit) if unit else outcome(losses, case) for case in cases]
        for group in dict.fromkeys(case.group for case in cases):
            chosen = [each for each in ended if each and each.case.group == group]
            found[f"{table}: {group}"] = {**measures(chosen), "each": [single(each) for each in chosen]}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ladder_checks", description=__doc__)
    parser.add_argument("--tables", type=Path, default=Path("../shared/data"), help="the folder with the two tables")
    found = check(parser.parse_args().tables)
    save(PATH, found)
    for name, figures in found.items():
        print(f"{name}: {figures['cases']} cases, {figures['predictions']} predictions")
        for method, row in figures["methods"].items():
            print(f"  {method:11} τ {row['tau']:.2f}  winner {row['winner']:.2f}  error {row['error']:.4f}")
        answered, count = figures["answered"], figures["predictions"]
        print(
            f"  covered {figures['covered']:.2f}; answered {answered}, right {figures['answered right']};"
            f" unanswered {count - answered}, of which a guess is right in {figures['unanswered right']}"
        )


if __name__ == "__main__":
    main()
