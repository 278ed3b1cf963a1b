"""Runs a race: prepares it, runs its trials, in rounds or all of them, and writes each event when it happens."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Sequence

from fallline.race.contestants import Contestant
from fallline.race.engine import Engine
from fallline.race.lineup import Lineup
from fallline.race.measuring import Measuring
from fallline.race.plan import BUDGET, RACE, STEPS_CLOCK, Entry, Rules, trials
from fallline.race.preparation import Preparation
from fallline.race.progress import Progress, RaceError
from fallline.race.results import Results, resume
from fallline.race.rounds import Rounds, store_final_look
from fallline.race.trial_runner import TrialRunner


class Race:
    def __init__(
        self,
        entries: Sequence[Entry],
        contestants: Sequence[Contestant],
        rules: Rules,
        results: Results,
        engine: Engine,
        progress: Progress | None = None,
        save_every: float | None = None,
        command: Sequence[str] = (),
    ):
        """``command`` has the arguments that the race was started with, for the record."""
        self.entries = {entry.name: entry for entry in entries}
        self.contestants = {contestant.name: contestant for contestant in contestants}
        self.rules, self.results = rules, results
        self.progress = progress or Progress()
        self._lineup = Lineup(self.entries, self.contestants, rules, results, engine)
        self.trials = TrialRunner(self._lineup, self.progress, save_every, command)
        self._preparation = Preparation(self._lineup, self.progress, self.trials)
        self.measuring = Measuring(self._lineup)

    def run(self) -> None:
        """All of it, or what is left of it."""
        self.results.begin(self.entries.values(), self.contestants.values(), self.rules)
        # Before anything is measured: whoever asks for the status meanwhile sees what is to run.
        rounds = self._rounds() if self.rules.in_rounds else None
        if rounds is not None:
            rounds.begin()
        else:
            self.results.add_trials(trials(list(self.entries.values()), list(self.contestants.values()), self.rules))
        self._tell_changed_files()
        self._make_room_for_checkpoints()
        self._prepare(rounds.expired if rounds is not None else lambda: False)
        self.trials.run(RACE, rounds)
        if rounds is not None:
            rounds.close()
        else:
            if self.trials.record is not None:
                self.measuring.measure(self.contestants)
            store_final_look(self.results)
        if self.trials.record is not None:
            self.results.end_run(self.trials.record)
        if all(row.status is not None for row in self.results.rows()):
            shutil.rmtree(self.results.checkpoints, ignore_errors=True)

    def _rounds(self) -> Rounds:
        return Rounds(
            self._lineup,
            self.progress.looked,
            self.progress.round_planned,
            self.measuring,
            found=self._preparation.found,
        )

    def _tell_changed_files(self) -> None:
        files = {
            **resume.workload_files(self.entries.values()),
            **resume.optimizer_files(self.contestants.values()),
        }
        for line in resume.changed_files(self.results, files):
            self.progress.notice(line)

    def _make_room_for_checkpoints(self) -> None:
        try:
            self.results.checkpoints.mkdir(exist_ok=True)
        except OSError as error:
            raise RaceError(f"{self.results.checkpoints}: {error.strerror}; name another file with --results") from None

    def _prepare(self, expired: Callable[[], bool]) -> None:
        for prepare in (self._preparation.check, self._preparation.calibrate):
            for entry in list(self.entries.values()):
                prepare(entry)
        self._preparation.refuse_if_nobody_fits()
        self._preparation.search(expired)
        if not expired():
            self._preparation.set_targets(expired)
        if not self.entries:
            with contextlib.suppress(OSError):  # there are checkpoints of an earlier run
                self.results.checkpoints.rmdir()
            raise RaceError("; ".join(row["problem"] for row in self.results.workloads().values() if row["problem"]))
        self._preparation.leave_out_too_large()

    def measure_again(self) -> None:
        """Measures the clock of a stored race anew: in a quiet hour, for trials that ran in a busy one.

        The caller gives the race's workloads and contestants, as to every race: a results file names files, but whether
        they are run is for the user to say (``resume.entries_again``).
        """
        for entry in self.entries.values():
            resume.refuse_another_file(self.results, entry)
        if self.rules.clock == STEPS_CLOCK:
            raise RaceError(
                f"{self.results.path}: was raced by steps alone (--clock steps); there is no clock to measure"
            )
        if self.rules.ruleset == BUDGET and self.results.begun_workloads():
            raise RaceError(
                f"{self.results.path}: the trials of an equal-time race are as long as the steps measured before them "
                "allow; race anew with --anew, or name another file with --results"
            )
        for entry in list(self.entries.values()):
            self._preparation.calibrate(entry, anew=True)
