"""The material of a look: the studies of a race, with what a miss, a crash and an uncertain clock count as."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set

from fallline.race.clock.pace import STEPS, Errors
from fallline.race.plan import BUDGET, Rules
from fallline.race.results import Results
from fallline.race.verdict.early_stop import late_shares, late_studies, without_late
from fallline.race.verdict.misses import NOT_TRAINED
from fallline.race.verdict.quality import Quality, qualities
from fallline.race.verdict.raced import Limits, Raced, main_clock
from fallline.score.times import StudyTimes


@dataclasses.dataclass(frozen=True)
class Material:
    """All that a look is taken from."""

    rules: Rules
    times: Mapping[str, StudyTimes]
    """By clock."""
    allowed: Limits
    eval_every: Mapping[str, int]
    crashed: Set[tuple[str, str, int]]
    """(contestant, workload, study) of the studies all of whose trials crashed."""
    quality: Sequence[Quality]
    """In an equal-time race."""
    ratio_errors: Mapping[str, Errors]
    """Workload → pair of contestants → the relative standard error of the ratio of their step times."""

    @property
    def contestants(self) -> tuple[str, ...]:
        return self.times[STEPS].contestants

    def crashes(self, studies: Mapping[str, int]) -> dict[str, int]:
        """Contestant → how many of its studies crashed, on all workloads together where there are several."""
        found = {}
        for name, count in studies.items():
            ends = [
                {s for n, w, s in self.crashed if n == name and w == column} for column in self.times[STEPS].columns
            ]
            found[name] = sum(all(study in end for end in ends) for study in range(count)) if ends else 0
        return found


def material_of(results: Results) -> Material:
    """All that a look at the race is taken from."""
    raced = Raced.read(results)
    rules, rows, limits = raced.rules, raced.rows, raced.limits()
    times = raced.times(rows)
    if rules.ends_late_trials:
        # A late trial may have been ended, or gone on: it counts as missed, at the time from which it was late.
        main = main_clock(times)
        shares = late_shares(times[main], limits[main], rules.tau_max)
        limits = {name: {key: time * shares[key] for key, time in of.items()} for name, of in limits.items()}
        late = late_studies(times[main], rules.tau_max)
        times = {name: without_late(table, late) for name, table in times.items()}
    ends: dict[tuple[str, str, int], set[str | None]] = defaultdict(set)
    for row in rows:
        ends[row.contestant, row.workload, row.study].add(row.status)
    return Material(
        rules=rules,
        times=times,
        allowed=limits,
        eval_every=raced.eval_every,
        crashed={key for key, found in ends.items() if found <= NOT_TRAINED},
        ratio_errors=raced.ratio_errors,
        quality=qualities(results, rows, raced.workloads, raced.contestants) if rules.ruleset == BUDGET else (),
    )
