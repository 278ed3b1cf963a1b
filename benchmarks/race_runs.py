"""Real races, one after the other: ``python -m benchmarks.race_runs [GROUP…]``.

make_race: the race of ``make race`` with several seeds.  twins: one contestant under two names, of which neither may be
called slower; by steps, because ``race_checks ratios`` holds the clock against twins.  tuned: every study is the
fastest of several trials.  memory: the fastest of those whose states fit.  ten_seconds: nothing but a file, whose
baseline needs about ten seconds to its target, from the search to the answer in ten minutes.

Every race has a file in ``build/race_runs``, so a job that was stopped goes on where it was; a race that has ended is
read, and not run again.  Findings are written to ``race_runs.json`` after every race, with the load that there was.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.settings import ROOT
from benchmarks.store import save
from fallline.measure.machine import describe
from fallline.race.results import Results
from fallline.race.verdict.summary import Summary, summarize

FOLDER = ROOT / "build" / "race_runs"
PATH = Path(__file__).with_suffix(".json")
SINE = "examples/sine.py"
TWINS = "benchmarks/race_task.py:inside"
"""Trials of a fraction of a second: a race of twins ends by its bound instead of its minutes, whatever else runs."""


@dataclasses.dataclass(frozen=True)
class Group:
    arguments: str
    races: int

    def command(self, seed: int, results: Path) -> list[str]:
        given = [*shlex.split(self.arguments), "--seed", str(seed), "--results", str(results)]
        return ["fallline", "race", *given]


GROUPS = {
    "make_race": Group("--minutes 5", 5),
    "twins": Group(f"{TWINS} -o adamw -o twin=adamw --search 0 --clock steps --minutes 1", 16),
    "tuned": Group(f"{SINE} -o adamw,lion,sgd --trials 3 --minutes 6", 1),
    "memory": Group(f"{SINE} --memory-budget 50KB --minutes 6", 1),
    "ten_seconds": Group("examples/forecast.py", 1),
}


def run(name: str, most: int | None = None) -> dict[str, Any]:
    """Runs what is missing of a group, at most so many races, and returns what all of it found."""
    group = GROUPS[name]
    rows, begun = [], 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    for seed in range(group.races):
        path = FOLDER / f"{name}-{seed}.sqlite"
        row = _read(path)
        if row is None and (most is None or begun < most):
            begun += 1
            before = time.perf_counter()
            _race(group.command(seed, path))
            row = {**(_read(path) or {}), "seconds of the command": time.perf_counter() - before}
            _note(path, row)
        if row is not None:
            rows.append({"seed": seed, **row, **_noted(path)})
            _store(name, group, rows)
    return _store(name, group, rows)


def _race(command: list[str]) -> None:
    subprocess.run([sys.executable, "-m", *command, "-q"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def _read(path: Path) -> dict[str, Any] | None:
    """A race that has ended, in a few numbers; None of any other."""
    if not path.exists():
        return None
    with Results(path, writable=False) as results:
        if results.ended_by is None:
            return None
        summary, used = summarize(results), results.seconds_used
        (run,) = results.store.rows("select machine from run order by id limit 1")
    return {**_outcome(summary), "seconds used": used, "load average": json.loads(run["machine"])["load_average"]}


def _outcome(summary: Summary) -> dict[str, Any]:
    last = summary.looks[-1] if summary.looks else None
    if last is None:
        return {"choice": None, "ended by": summary.ended_by}
    look = last.look
    return {
        "choice": look.choice,
        "bound": look.bound,
        "within": look.bound is not None and look.bound <= look.within,
        "ended by": summary.ended_by,
        "decided in": last.clock,
        "error of step times": last.clock_error,
        "bound in seconds": None if last.other is None else last.other.bound,
        "looks": look.number,
        "trials": sum(standing.studies for standing in look.standings),
        "out": look.out,
        "does not fit": dict(summary.unfit),
        "verdict": summary.verdict,
    }


def _noted(path: Path) -> dict[str, Any]:
    beside = path.with_suffix(".json")
    return json.loads(beside.read_text()) if beside.exists() else {}


def _note(path: Path, row: dict[str, Any]) -> None:
    """Facts that the results file does not hold."""
    save(path.with_suffix(".json"), {"seconds of the command": row["seconds of the command"]})


def _store(name: str, group: Group, rows: list[dict[str, Any]]) -> dict[str, Any]:
    command = shlex.join(group.command(0, Path("FILE"))).replace("--seed 0", "--seed N")
    found = {
        "command": command,
        "races": len(rows),
        "of": group.races,
        "rows": rows,
        **CHECKS[name](rows),
        "machine": describe(),
    }
    stored = json.loads(PATH.read_text()) if PATH.exists() else {}
    save(PATH, {**stored, name: found})
    return found


# ------------------------------------------------------------------ what must hold


def _make_race(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Every race ends with a choice and a bound within its five minutes and a few seconds of set-up."""
    ended = sum(row["choice"] is not None and row.get("bound") is not None for row in rows)
    return {
        "a choice and a bound": ended,
        "within 5 %": sum(bool(row.get("within")) for row in rows),
        "longest, seconds": max((row["seconds used"] for row in rows), default=0.0),
        "ok": ended == len(rows) > 0,
    }


def _twins(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """A race without a look shows nothing: on a busy machine its minute may end before the first round does."""
    looked = sum(row["choice"] is not None for row in rows)
    apart = sum(bool(row.get("out")) for row in rows)
    return {
        "with a look": looked,
        "told apart": apart,
        "within 5 %": sum(bool(row.get("within")) for row in rows),
        "ok": apart == 0 and looked == len(rows) > 0,
    }


def _chosen(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {"ok": bool(rows) and all(row["choice"] is not None and row.get("bound") is not None for row in rows)}


def _fitting(rows: list[dict[str, Any]]) -> dict[str, Any]:
    fits = all(row["choice"] not in row["does not fit"] and row["does not fit"] for row in rows)
    return {"ok": _chosen(rows)["ok"] and fits}


def _in_ten_minutes(rows: list[dict[str, Any]]) -> dict[str, Any]:
    longest = max((row["seconds of the command"] for row in rows), default=0.0)
    return {"longest, seconds": longest, "ok": _chosen(rows)["ok"] and longest <= 600.0}


CHECKS = {
    "make_race": _make_race,
    "twins": _twins,
    "tuned": _chosen,
    "memory": _fitting,
    "ten_seconds": _in_ten_minutes,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.race_runs", description=__doc__)
    parser.add_argument("groups", nargs="*", choices=[*GROUPS, []], help="default: all")
    parser.add_argument("--most", type=int, help="races to run now; the next call goes on")
    options = parser.parse_args()
    failed = 0
    for name in options.groups or list(GROUPS):
        found = run(name, options.most)
        failed += not found["ok"]
        print(f"{name}: {'ok' if found['ok'] else 'FAILED'}\n{json.dumps(found, indent=2)}", flush=True)
    return min(1, failed)


if __name__ == "__main__":
    sys.exit(main())
