"""Reads AlgoPerf's log folders, or a tar archive of them, without unpacking it.

The layout is ``…/<submission>/study_<k>/<workload>[_jax|_pytorch]/trial_<i>/eval_measurements.csv``.  A log in
another place, of an unknown workload, or that cannot be read is reported and left out; the others count.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import io
import lzma
import re
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import numpy as np

from fallline.score.algoperf import TARGETS

LOG = "eval_measurements.csv"
_STUDY = re.compile(r"study_(\d+)")
_TRIAL = re.compile(r"trial_(\d+)")
UNREADABLE = (tarfile.TarError, lzma.LZMAError, zlib.error, OSError, EOFError)
SQLITE = b"SQLite format 3"
RACES = ("*.sqlite", "*-trials.csv", "*-trials.parquet")
OWN_RACE = "no AlgoPerf logs but a race's; `fallline results status FILE.sqlite` scores it"
_FRAMEWORK = re.compile(r"(.+?)(?:_jax|_pytorch)?")


class NoLogs(ValueError):
    """Nothing to score in what the user named."""


@dataclasses.dataclass(frozen=True)
class Trial:
    """One training run: the validation metric over time."""

    submission: str
    study: int
    workload: str
    number: int
    seconds: np.ndarray
    """Training time at each evaluation: evaluation, logging and checkpoints not counted."""
    steps: np.ndarray
    metric: np.ndarray
    training_hours: float
    total_hours: float
    """With evaluation and logging."""


@dataclasses.dataclass(frozen=True)
class Problem:
    """A file that was left out, or of which something was, and why."""

    kind: str
    """``stray``, ``damaged`` or ``unknown workload``."""
    path: str
    reason: str


@dataclasses.dataclass
class Logs:
    """Everything that was read, in the order of submission, workload, study and trial."""

    source: str
    trials: list[Trial]
    problems: list[Problem]
    files: int

    @property
    def training_hours(self) -> float:
        return sum(trial.training_hours for trial in self.trials)

    @property
    def total_hours(self) -> float:
        return sum(trial.total_hours for trial in self.trials)


def read(source: Path) -> Logs:
    """All trials in a folder or a tar archive (any compression tarfile knows)."""
    if not source.exists():
        raise NoLogs(f"{source}: there is no such folder or archive")
    problems: list[Problem] = []
    trials: dict[tuple[str, str, int, int], Trial] = {}
    files = 0
    for path, content in _folder(source, problems) if source.is_dir() else _archive(source, problems):
        files += 1
        trial = _read_one(path, content, source, problems)
        if trial is None:
            continue
        key = (trial.submission, trial.workload, trial.study, trial.number)
        if key in trials:
            problems.append(Problem("stray", path, "a second log of the same trial; the first one counts"))
        else:
            trials[key] = trial
    if not trials:
        if source.is_dir() and any(any(source.glob(pattern)) for pattern in RACES):
            raise NoLogs(f"{source}: {OWN_RACE}")
        left_out = f"; {len(problems)} left out, first: {problems[0].path}: {problems[0].reason}" if problems else ""
        raise NoLogs(
            f"{source}: no trial could be read; wanted are <submission>/study_<k>/<workload>/trial_<i>/{LOG}{left_out}"
        )
    return Logs(str(source), [trials[key] for key in sorted(trials)], problems, files)


def _folder(folder: Path, problems: list[Problem]) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob(LOG)):
        name = path.relative_to(folder).as_posix()
        try:
            yield name, path.read_bytes()
        except OSError as error:
            problems.append(Problem("damaged", name, str(error.strerror or error)))


def _archive(archive: Path, problems: list[Problem]) -> Iterator[tuple[str, bytes]]:
    """Members one after the other, so that a compressed archive is read once, from front to back."""
    with contextlib.suppress(OSError), archive.open("rb") as file:
        if file.read(len(SQLITE)) == SQLITE or any(archive.match(pattern) for pattern in RACES):
            raise NoLogs(f"{archive}: {OWN_RACE}")
    try:
        opened = tarfile.open(archive, "r|*")  # noqa: SIM115, closed below
    except UNREADABLE as error:
        raise NoLogs(f"{archive}: not a folder and not a tar archive ({error})") from None
    with opened:
        try:
            for member in opened:
                if member.isfile() and PurePosixPath(member.name).name == LOG:
                    content = opened.extractfile(member)
                    if content is not None:
                        yield member.name, content.read()
        except UNREADABLE as error:
            problems.append(Problem("damaged", str(archive), f"the archive ends early: {error}"))


def _read_one(path: str, content: bytes, source: Path, problems: list[Problem]) -> Trial | None:
    place = _place(path, source)
    if isinstance(place, str):
        problems.append(Problem("stray", path, place))
        return None
    submission, study, workload, number = place
    if workload not in TARGETS:
        problems.append(Problem("unknown workload", path, f"AlgoPerf has no target for {workload!r}"))
        return None
    columns = _columns(path, content, f"validation/{TARGETS[workload].metric}", problems)
    if columns is None:
        return None
    return Trial(submission, study, workload, number, *columns)


def _place(path: str, source: Path) -> tuple[str, int, str, int] | str:
    """Submission, study, workload and trial from a path, or what is wrong with it."""
    parts = PurePosixPath(path).parts
    # A folder of one submission, or of one study of it, is welcome too: its own name stands for what is missing.
    parts = (*source.resolve().parts[-3:], *parts) if source.is_dir() else parts
    if len(parts) < 5 or not _STUDY.fullmatch(parts[-4]):
        return "not in <submission>/study_<k>/<workload>/trial_<i>"
    study, trial = _STUDY.fullmatch(parts[-4]), _TRIAL.fullmatch(parts[-2])
    workload = _FRAMEWORK.fullmatch(parts[-3])
    if study is None or trial is None or workload is None:
        return "not in <submission>/study_<k>/<workload>/trial_<i>"
    return parts[-5], int(study[1]), workload[1], int(trial[1])


def _columns(
    path: str, content: bytes, metric: str, problems: list[Problem]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float, float] | None:
    def damaged(reason: str) -> None:
        problems.append(Problem("damaged", path, reason))

    try:
        rows = list(csv.reader(io.StringIO(content.decode("utf-8"))))
    except (UnicodeDecodeError, csv.Error) as error:
        damaged(f"not a CSV file: {error}")
        return None
    header = rows[0] if rows else []
    time = "score" if "score" in header else "accumulated_submission_time"
    missing = [name for name in (metric, time, "global_step") if name not in header]
    if missing:
        damaged(f"no column {', '.join(missing)}")
        return None
    wanted = [header.index(name) for name in (time, "global_step", metric)]
    values, dropped = [], 0
    for row in rows[1:]:
        try:
            if len(row) != len(header):
                raise ValueError
            # An empty cell is an evaluation without that metric: it reaches no target, but its time counts.
            values.append([float(row[i]) if row[i] else float("nan") for i in wanted])
        except ValueError:
            dropped += 1
    if dropped:
        damaged(f"{dropped} of {len(rows) - 1} rows cannot be read; the others count")
    table = np.array(values, dtype=np.float64).reshape(-1, 3)
    if not len(table):
        damaged("no evaluations")
        return None
    if not np.all(np.isfinite(table[:, 0])) or np.any(np.diff(table[:, 0]) < 0):
        damaged("training time is not increasing")
        return None
    return table[:, 0], table[:, 1], table[:, 2], float(table[-1, 0]) / 3600, _total_hours(header, rows)


def _total_hours(header: list[str], rows: list[list[str]]) -> float:
    names = [n for n in header if n in ("accumulated_submission_time", "accumulated_eval_time")]
    names += [n for n in header if n == "accumulated_logging_time"]
    for row in reversed(rows[1:]):
        try:
            return sum(float(row[header.index(name)]) for name in names) / 3600
        except (ValueError, IndexError):
            continue
    return 0.0
