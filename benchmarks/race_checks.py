"""``make race-checks``: what a race must survive and may cost, where it takes too long for tests.

kills: killed 20 times at random moments, a race ends as the uninterrupted one; early: the same with early ends;
rounds: the same in rounds.  ray: the same with workers of a Ray cluster killed; ray_rounds: races on Ray in rounds that
are killed.  twins: how often the same contestant
under two names is called different, and one whose steps cost 15 % more is placed below.  overhead: a trial against a
loop written by hand.  parallel: whether jobs side by side move the clock; these two want a quiet machine.  ratios:
whether the error of a ratio of step times is as large as it says, at whatever load there is.  calibration: how often
simulated races decide wrongly, and in how many trials.  make_race: in how many trials the race of ``make race`` is
decided, replayed from stored ones.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks import kept_checks, race_calibration, race_interruptions, race_replay, race_timing, race_verdicts

CHECKS: dict[str, kept_checks.Check] = {
    "kills": race_interruptions.kills,
    "early": lambda: race_interruptions.kills(early_stop=True),
    "rounds": race_interruptions.round_kills,
    "ray": race_interruptions.ray_kills,
    "ray_rounds": race_interruptions.ray_round_kills,
    "twins": race_verdicts.twins,
    "overhead": race_timing.overhead,
    "parallel": race_timing.parallel,
    "ratios": race_timing.ratios,
    "calibration": lambda: race_calibration.calibrate(race_calibration.Job()),
    "make_race": race_replay.make_race,
}
PATH = Path(__file__).with_suffix(".json")
"""Kept with the sources: docs/race.md gives its numbers."""


if __name__ == "__main__":
    raise SystemExit(kept_checks.run("benchmarks.race_checks", __doc__, CHECKS, PATH))
