"""``make race`` over and over, from stored trials: in how many trials, and minutes, the choice is within 5 %.

`race_chars_steps.json` has the steps to target of the default contestants on `chars` in 20 common studies, and the pace
of a real race: seconds of a trial, and how well step times were known at each of its looks.  Every race takes these
studies in another order, with step times that are off by a drawn error, of which the rule knows the size.  Orders share
their studies, which flatters the more the longer a race is.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fallline.score.decision import Look, Times, looks_up_to
from fallline.score.decision.replay import EvidenceAt, replay

RECORD = Path(__file__).with_name("race_chars_steps.json")
RACES, SEED = 1000, 17
RATIO_ERRORS = (0.0, 0.005, 0.01, 0.015)
TRIALS = (16, 25, 36, 45, 60, 75)
FIVE_MINUTES = 300.0
WANTED = 0.75
"""The share of races that are within 5 % in five minutes."""


def make_race(races: int = RACES, seed: int = SEED, record: Path = RECORD) -> dict[str, Any]:
    stored = json.loads(record.read_text())
    found = {f"{100 * error:g} %": _decided(stored, [error], races, seed) for error in RATIO_ERRORS}
    pace = stored["pace"]
    here = _decided(stored, pace["error of ratios by look"], races, seed)
    every = all(rates["a choice and a bound"] == 1.0 for rates in (*found.values(), here))
    return {
        "command": "python -m benchmarks.race_checks make_race",
        "seed": seed,
        "races": races,
        "by the error of ratios of step times": found,
        "at the pace of a real race": {**here, "pace": pace},
        "ok": every and here["decided within five minutes"] >= WANTED,
    }


def _decided(stored: Mapping[str, Any], errors: Sequence[float], races: int, seed: int) -> dict[str, Any]:
    """``errors`` are those of ratios of step times at each look; the last one stays."""
    names = list(stored["steps to target"])
    steps = [[math.inf if n is None else n for n in stored["steps to target"][name]] for name in names]
    logs = np.log(np.array(steps))
    generator = np.random.default_rng([seed, *(round(1e6 * error) for error in errors)])
    needed, seconds, choices, bounded = [], [], dict.fromkeys(names, 0), 0
    for _ in range(races):
        # The error of a ratio is that of two step times; it is the same one at all looks, as large as it is then.
        off = generator.standard_normal((len(names), 1)) / math.sqrt(2)
        y = logs[:, generator.permutation(logs.shape[1])]
        looks = replay(_evidence(stored, names, y, off, errors), names, looks_up_to(logs.shape[1]))
        last = looks[-1]
        needed.append(sum(s.studies for s in last.standings) if last.decided else math.inf)
        seconds.append(_seconds(looks, stored["pace"]) if last.decided else math.inf)
        bounded += last.choice is not None and last.bound is not None
        if last.choice is not None:
            choices[last.choice] += 1
    return {
        "decided within so many trials": {n: float(np.mean(np.array(needed) <= n)) for n in TRIALS},
        "decided within five minutes": float(np.mean(np.array(seconds) <= FIVE_MINUTES)),
        "chosen": {name: count / races for name, count in choices.items() if count},
        "a choice and a bound": bounded / races,
    }


def _evidence(
    stored: Mapping[str, Any], names: Sequence[str], y: np.ndarray, off: np.ndarray, errors: Sequence[float]
) -> EvidenceAt:
    floor = stored["eval_every"] / float(np.median(np.exp(y))) / math.sqrt(12)
    sizes = looks_up_to(y.shape[1])

    def at(run: Mapping[str, int]) -> Times:
        error = errors[min(sizes.index(max(run.values())), len(errors) - 1)]
        times = dict(zip(names, y + error * off, strict=True))
        return Times(
            {name: times[name][: run[name]] for name in names},
            miss=dict.fromkeys(names, math.log(stored["budget"])),
            floor=floor,
            ratio_errors={(a, b): error for place, a in enumerate(names) for b in names[place + 1 :]},
        )

    return at


def _seconds(looks: Sequence[Look], pace: Mapping[str, Any]) -> float:
    """Until the last look: trials of a round on two workers, and then steps measured again."""
    taken, before = pace["seconds before the first trial"], 0
    for look in looks:
        trials = sum(standing.studies for standing in look.standings)
        taken += math.ceil((trials - before) / pace["workers"]) * pace["seconds of a trial"]
        taken += pace["seconds to measure steps again"]
        before = trials
    return float(taken)
