"""How often a race decides wrongly, and how many trials it takes: ``python -m benchmarks.race_calibration``.

Simulated races by the rule of `fallline.score.decision`, with fixed seeds.  *Wrong* is a race in which a contestant
was called slower that is not, at any of its looks; *above the bound* one whose choice is slower than the best by more
than the printed bound.  Both must be at most 2 %.  Races of twins have nothing to find.  ``--races 500`` is a quick
look; the default takes a quarter of an hour on one core, and goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import recorded_twins, simulated_races
from benchmarks.settings import ROOT
from benchmarks.simulated_races import GRID, Noise, Outcome, draw, held_against_the_rule, on_grid, race
from benchmarks.store import save
from fallline.measure.stats import ALPHA
from fallline.score.decision import LEADER, Look, Times, looks_up_to, take_look
from fallline.score.decision.replay import EvidenceAt, of_times, replay

CONTESTANTS = (2, 3, 4, 5, 8, 11)
FEW, FEWER = (2, 3, 4, 5), (2, 3, 5, 8)
RACES = 20_000
CHECKED = 20
"""Races of every case that are also raced one by one."""
BEYOND = math.log(1.0501)
LADDERS = (0.0, 0.02, 0.05, 0.1)
MISSES = (0.05, 0.2, 0.5, 0.8)
PATH = Path(__file__).with_suffix(".json")
PART = ROOT / "build" / "race_calibration.json"
"""The rows so far of a run that has not ended."""


@dataclasses.dataclass(frozen=True)
class Job:
    """How much is simulated, and with which random numbers."""

    races: int = RACES
    seed: int = 2026

    def generator(self, *words: object) -> np.random.Generator:
        return np.random.default_rng([self.seed, *("/".join(map(str, words))).encode()])

    def slow(self, share: int = 10) -> int:
        """Races of a case that the rule races one by one."""
        return max(20, self.races // share)


# ------------------------------------------------------------------ wrong verdicts


def twins(job: Job, contestants: int, studies: int, noise: Noise, *, grid: bool = False) -> float:
    """The share of races of equals in which somebody was called slower; none ends before its last study."""
    floor = GRID / math.sqrt(12) if grid else 0.0
    wrong, done = 0, 0
    for part in _parts(job, contestants * studies):
        generator = job.generator(noise.__name__, grid, contestants, studies, done)
        y = draw(generator, part, [0.0] * contestants, studies, noise)
        y = on_grid(y) if grid else y
        outcome = race(y, until=LEADER, floor=floor)
        if not done:
            _check(y, floor=floor, until=LEADER)
        wrong += int((~outcome.racing[-1]).any(axis=1).sum())
        done += part
    return wrong / done


def beyond_the_margin(job: Job, contestants: int, noise: Noise, studies: int = 60) -> float:
    """One is best, the others are just more than 5 % slower: a race that decides for one of them is wrong."""
    wrong, done = 0, 0
    for part in _parts(job, contestants * studies):
        generator = job.generator("beyond", noise.__name__, contestants, done)
        y = draw(generator, part, [0.0] + [BEYOND] * (contestants - 1), studies, noise)
        outcome = race(y)
        ended = outcome.decided.any(axis=0)
        lost = ended & (outcome.at_end(outcome.choice) != 0)
        wrong += int((lost | ~outcome.at_end(outcome.racing)[:, 0]).sum())
        done += part
    return wrong / done


def above_the_bound(job: Job, contestants: int, noise: Noise, studies: int = 40) -> dict[str, float]:
    """The share of races whose choice is slower by more than its bound, at the worst time limit and ladder."""
    worst = {"at the worst time limit": 0.0, "at any look": 0.0}
    for step in LADDERS:
        gaps = np.log1p(step) * np.arange(contestants)
        generator = job.generator("bound", noise.__name__, contestants, step)
        outcome = race(draw(generator, job.slow(2), gaps.tolist(), studies, noise), until=LEADER)
        above = gaps[outcome.choice] > outcome.bound + 1e-12
        found = {"at the worst time limit": above.mean(axis=1).max(), "at any look": above.any(axis=0).mean()}
        worst = {name: max(worst[name], float(found[name])) for name in worst}
    return worst


def misses(job: Job, contestants: int, share: float, studies: int = 18) -> float:
    """Twins whose times above a budget are misses, one by one."""
    wrong, count = 0, job.slow()
    generator = job.generator("misses", contestants, share)
    tables = draw(generator, count, [0.0] * contestants, studies)
    budget = float(np.quantile(draw(generator, 20_000, [0.0], 1), 1 - share))
    names = [str(place) for place in range(contestants)]
    for table in np.where(tables > budget, math.inf, tables):
        times = Times(dict(zip(names, table, strict=True)), miss=dict.fromkeys(names, budget))
        looks = replay(of_times(times), names, looks_up_to(studies), until=LEADER)
        wrong += bool(looks[-1].out)
    return wrong / count


def clock(job: Job, contestants: int, error: float, studies: int = 18) -> float:
    """Twins whose step times are off, each by its own error, which no number of studies shows."""
    wrong, count = 0, job.slow()
    generator = job.generator("clock", contestants, error)
    names = [str(place) for place in range(contestants)]
    errors = {(a, b): error * math.sqrt(2) for a in names for b in names if a < b}
    tables = draw(generator, count, [0.0] * contestants, studies)
    tables += error * generator.standard_normal((count, contestants, 1))
    for table in tables:
        times = Times(dict(zip(names, table, strict=True)), ratio_errors=errors)
        looks = replay(of_times(times), names, looks_up_to(studies), until=LEADER)
        wrong += bool(looks[-1].out)
    return wrong / count


def late_joiner(job: Job, contestants: int, joins_after: int = 5, studies: int = 18) -> float:
    """Twins of which one joins later: it runs the first three studies, and then as many as the others have."""
    wrong, count = 0, job.slow()
    names = [str(place) for place in range(contestants)]
    for table in draw(job.generator("joins", contestants), count, [0.0] * contestants, studies):
        out: dict[str, int] = {}
        for number, sizes in enumerate(_rounds_with_joiner(names, looks_up_to(studies), joins_after), 1):
            runs = {name: table[int(name), :size] for name, size in sizes.items() if size and name not in out}
            look = take_look(Times(runs), number=number, until=LEADER)
            out |= look.out
        wrong += bool(out)
    return wrong / count


def _rounds_with_joiner(names: Sequence[str], sizes: Sequence[int], joins_after: int) -> list[dict[str, int]]:
    """Studies by contestant at every look; the others wait while the last one catches up."""
    first, last = names[:-1], names[-1]
    rounds = [{**dict.fromkeys(first, n), last: 0} for n in sizes if n <= joins_after]
    rounds += [{**dict.fromkeys(first, joins_after), last: n} for n in sizes if n <= joins_after]
    return rounds + [dict.fromkeys(names, n) for n in sizes if n > joins_after]


def either_claims(job: Job, contestants: int, studies: int = 60) -> float:
    """Races in which two that are just more than 5 % apart are said to differ by less."""
    wrong, count = 0, job.slow()
    names = [str(place) for place in range(contestants)]
    gaps = (BEYOND * np.arange(contestants)).tolist()
    for table in draw(job.generator("either", contestants), count, gaps, studies):
        times = Times(dict(zip(names, table, strict=True)))
        looks = replay(of_times(times), names, looks_up_to(studies), until=LEADER)
        wrong += any(look.either for look in looks)
    return wrong / count


def asked_afterwards(
    job: Job, contestants: int, noise: Noise, step: float = 0.0, studies: int = 18, within: float = 0.05
) -> float:
    """Races after which everything is asked that can be asked of a pair, whatever the data suggest.

    Wrong is a race of which any answer is: a contestant called slower or faster than one that it is not slower or
    faster than, by the race or by any question, or a loss above the bound of any question.
    """
    wrong, count = 0, job.slow()
    names = [str(place) for place in range(contestants)]
    gaps = (math.log1p(step) * np.arange(contestants)).tolist()
    of = dict(zip(names, gaps, strict=True))
    for table in draw(job.generator("asked", noise.__name__, contestants, step), count, gaps, studies, noise):
        evidence_at = of_times(Times(dict(zip(names, table, strict=True))))
        looks = replay(evidence_at, names, looks_up_to(studies), within=within)
        wrong += _false(looks, of) or any(_false_answer(looks[-1], evidence_at, name, of) for name in names)
    return wrong / count


def _false(looks: Sequence[Look], gaps: Mapping[str, float]) -> bool:
    """Whether the race called somebody slower than its choice who is not."""
    return any(
        s.out_at == look.number and gaps[s.contestant] <= gaps[str(look.choice)]
        for look in looks
        for s in look.standings
    )


def _false_answer(last: Look, evidence_at: EvidenceAt, reference: str, gaps: Mapping[str, float]) -> bool:
    """Whether anything is false that `fallline results ask --against` this one says: of every pair, and its bound."""
    run = {s.contestant: s.studies for s in last.standings}
    look = take_look(evidence_at(run), number=last.number, choice=reference, family=len(gaps))
    apart = {s.contestant: gaps[s.contestant] - gaps[reference] for s in look.standings}
    slower = any(s.low is not None and s.low > 0.0 >= apart[s.contestant] for s in look.standings)
    faster = any(s.high is not None and s.high < 0.0 <= apart[s.contestant] for s in look.standings)
    racing = [apart[name] for name in look.racing]
    return slower or faster or (look.bound is not None and max(-gap for gap in racing) > look.bound + 1e-12)


# ------------------------------------------------------------------ power


def power(job: Job) -> dict[str, dict[str, float]]:
    """Mean trials until the choice is within 5 %, and until one is left; and how often both are right."""
    ladders: dict[str, list[float]] = {f"two, {d} % apart": [0.0, d / 100] for d in (0, 3, 5, 10, 20)}
    ladders |= {f"five, each {d} % behind the one before": [d / 100 * i for i in range(5)] for d in (0, 3, 5, 10, 20)}
    found = {}
    for name, gaps in ladders.items():
        logs = [
            math.log1p(gap) if len(gaps) == 2 else round(gap / max(gaps[1], 1e-9)) * math.log1p(gaps[1]) for gap in gaps
        ]
        y = draw(job.generator("power", name), job.slow(5), logs, 200)
        choice, leader = race(y), race(y, until=LEADER)
        found[name] = {
            "trials to a choice": float(choice.trials.mean()),
            "the best chosen": float((choice.at_end(choice.choice) == 0).mean()),
            "loss at most 5 %": float((np.array(logs)[choice.at_end(choice.choice)] <= math.log(1.05)).mean()),
            "trials to a leader": float(leader.trials.mean()) if gaps[1] else math.inf,
            "separated": float(leader.decided.any(axis=0).mean()),
        }
    return found


# ------------------------------------------------------------------ the job


Rates = Mapping[int, float | None]
"""Contestants → share of wrong verdicts."""


def cases(job: Job) -> dict[str, tuple[Sequence[int], Callable[[int], float]]]:
    """Row → numbers of contestants, and the share of wrong verdicts for each: simulated noise, then recorded runs."""
    s = simulated_races
    rows: dict[str, tuple[Sequence[int], Callable[[int], float]]] = {
        "equal, normal, up to 18 studies": (CONTESTANTS, lambda k: twins(job, k, 18, s.normal)),
        "equal, heavy tails (t, 5 d.f.), up to 18": (CONTESTANTS, lambda k: twins(job, k, 18, s.heavy_tailed)),
        "equal, skewed, up to 18": (CONTESTANTS, lambda k: twins(job, k, 18, s.skewed)),
        "equal, on a grid of 6 %, up to 18": (CONTESTANTS, lambda k: twins(job, k, 18, s.normal, grid=True)),
        "equal, variances unequal (4 d.f.), up to 60": (CONTESTANTS, lambda k: twins(job, k, 60, s.unequal)),
        "equal, normal, up to 200": (
            FEW,
            lambda k: twins(dataclasses.replace(job, races=job.slow(2)), k, 200, s.normal),
        ),
        "others just beyond 5 %, normal": (CONTESTANTS, lambda k: beyond_the_margin(job, k, s.normal)),
        "others just beyond 5 %, unequal": (CONTESTANTS, lambda k: beyond_the_margin(job, k, s.unequal)),
        "called equal though just beyond 5 %": (FEW, lambda k: either_claims(job, k)),
        "loss above the bound, any time limit, normal": (
            CONTESTANTS,
            lambda k: above_the_bound(job, k, s.normal)["at the worst time limit"],
        ),
        "loss above the bound, any time limit, unequal": (
            CONTESTANTS,
            lambda k: above_the_bound(job, k, s.unequal)["at the worst time limit"],
        ),
        "loss above the bound at any look, normal": (
            CONTESTANTS,
            lambda k: above_the_bound(job, k, s.normal)["at any look"],
        ),
        "equal, step times known to 1 %": (FEW, lambda k: clock(job, k, 0.01)),
        "equal, step times known to 5 %": (FEW, lambda k: clock(job, k, 0.05)),
        "equal, the last one joins after 5 studies": ((3, 4, 5), lambda k: late_joiner(job, k)),
        "equal, every question asked afterwards, normal": (FEWER, lambda k: asked_afterwards(job, k, s.normal)),
        "equal, every question asked afterwards, unequal": (FEWER, lambda k: asked_afterwards(job, k, s.unequal)),
        "each 5 % behind, every question afterwards, normal": (
            FEWER,
            lambda k: asked_afterwards(job, k, s.normal, 0.05),
        ),
        "each 5 % behind, every question afterwards, unequal": (
            FEWER,
            lambda k: asked_afterwards(job, k, s.unequal, 0.05),
        ),
    }
    for share in MISSES:
        rows[f"equal, {100 * share:g} % miss"] = (FEW, functools.partial(misses, job, share=share))
    for name, (numbers, recorded) in recorded_twins.rows(job.slow()).items():
        rows[name] = (numbers, functools.partial(_recorded, job, name, recorded))
    return rows


def _recorded(job: Job, name: str, rate: recorded_twins.Rate, contestants: int) -> float:
    return rate(contestants, job.generator("recorded", name, contestants))


def tables(
    job: Job, only: str = "", known: Mapping[str, Rates] | None = None, keep: Callable[[Any], None] = lambda _: None
) -> dict[str, Rates]:
    """Rows with ``only`` in their names; ``known`` ones stay as they are, and ``keep`` gets all after every new one."""
    found: dict[str, Rates] = {}
    for name, (numbers, rate) in cases(job).items():
        if only not in name:
            continue
        begun = time.perf_counter()
        kept = (known or {}).get(name)
        found[name] = {k: rate(k) for k in numbers} if kept is None else kept
        print(f"{_line(name, found[name])}   {time.perf_counter() - begun:.0f} s", flush=True)
        keep(found)
    return found


def _line(name: str, rates: Rates) -> str:
    cells = ["–" if rates.get(k) is None else f"{100 * (rates[k] or 0.0):.1f}" for k in CONTESTANTS]
    return f"| {name} | {' | '.join(cells)} |"


def _parts(job: Job, size: int, most: int = 2_000_000) -> list[int]:
    """Races in parts that fit into memory."""
    part = max(1, most // size)
    return [min(part, job.races - start) for start in range(0, job.races, part)]


def _check(y: np.ndarray, *, floor: float, until: str | None) -> None:
    some = y[:CHECKED]
    outcome: Outcome = race(some, floor=floor, until=until)
    if not held_against_the_rule(some, outcome, floor=floor, until=until):
        raise AssertionError("races as arrays and the rule one by one disagree")


def bars(found: Mapping[str, Rates], strength: Mapping[str, Mapping[str, float]]) -> list[str]:
    """The rows that miss their bar."""
    failed = [
        f"{name}, {k} contestants: {100 * rate:.2f} %"
        for name, rates in found.items()
        for k, rate in rates.items()
        if rate is not None and rate > ALPHA
    ]
    wanted = (
        ("two, 10 % apart", "trials to a leader", 25),
        ("two, 20 % apart", "trials to a leader", 13),
        ("five, each 10 % behind the one before", "trials to a choice", 20),
    )
    failed += [
        f"{name}: {strength[name][what]:.1f} {what}, at most {most}"
        for name, what, most in wanted
        if name in strength and strength[name][what] > most
    ]
    return failed


def calibrate(job: Job, part: Path = PART) -> dict[str, Any]:
    """All rows; those of a run that was stopped are read from ``part``, if it had as many races and the same seed."""
    before = json.loads(part.read_text()) if part.exists() else {}
    same = before.get("races") == job.races and before.get("seed") == job.seed
    known = {name: {int(k): v for k, v in rates.items()} for name, rates in before["wrong"].items()} if same else {}
    print(f"| wrong verdicts per race, % | {' | '.join(map(str, CONTESTANTS))} |\n|---|{'---|' * len(CONTESTANTS)}")
    found = tables(job, known=known, keep=lambda rows: save(part, _as_data(job, rows)))
    strength = power(job)
    print("\n| | trials to a choice within 5 % | the best chosen | at most 5 % slower | trials to a leader |")
    print("|---|---|---|---|---|")
    for name, numbers in strength.items():
        leader = numbers["trials to a leader"]
        said = "never" if math.isinf(leader) else f"{'> ' if numbers['separated'] < 1 else ''}{leader:.0f}"
        shares = f"{numbers['the best chosen']:.0%} | {numbers['loss at most 5 %']:.0%}".replace("%", " %")
        print(f"| {name} | {numbers['trials to a choice']:.0f} | {shares} | {said} |")
    failed = bars(found, strength)
    for line in failed:
        print(f"above its bar: {line}")
    part.unlink(missing_ok=True)
    return {**_as_data(job, found), "power": strength, "failed": failed, "ok": not failed}


def _as_data(job: Job, found: Mapping[str, Rates]) -> dict[str, Any]:
    return {"races": job.races, "seed": job.seed, "wrong": found}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.race_calibration", description=__doc__)
    parser.add_argument("--races", type=int, default=RACES, help="of each case; default: %(default)s")
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--out", type=Path, help=f"where to store the numbers; default for a whole run: {PATH.name}")
    parser.add_argument("--only", default="", help="simulate the rows with this in their names, and store nothing")
    options = parser.parse_args(arguments)
    if options.only:
        found = tables(Job(options.races, options.seed), options.only)
        return int(bool(bars(found, {})))
    found = calibrate(Job(options.races, options.seed))
    out = options.out or (PATH if options.races >= RACES else None)
    if out is not None:
        save(out, json.loads(json.dumps(found)))
    return 0 if found["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
