"""Flags of ``fallline race`` that became commands: each answers with the command that took its place."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from fallline.cli.exit_codes import BadInput
from fallline.cli.race.options import Entered, Retired, Running
from fallline.cli.race.request import files_that_would_run, results_of

LIST = "list"
"""The value with which ``--contestants`` showed who can race."""
KEPT = {"--json": 1, "--quiet": 1, "-q": 1, "--out": 2, "--figures": 2, "--format": 2}
"""Options that the new commands have too, and how many words they take."""


def check_retired(retired: Retired, entered: Entered, running: Running) -> None:
    """Refuses an old flag in one line that can be pasted from."""
    if entered.toml == LIST:
        raise BadInput(f"--contestants {LIST}: is a command of its own: {_command('contestants')}")
    if retired.status:
        raise BadInput(f"--status: is a command of its own: {_command('results', 'status', *_path(entered, running))}")
    if retired.export is not None:
        words = ("results", "export", *_path(entered, running), "--format", retired.export)
        raise BadInput(f"--export: is a command of its own: {_command(*words, without=('--figures',))}")
    if retired.calibrate:
        raise BadInput(f"--calibrate: is a command of its own: {_command(*_calibrate(_path(entered, running)))}")


def _path(entered: Entered, running: Running) -> list[str]:
    """The results file that was meant; none where the new command finds it, or says that it cannot."""
    if running.results is not None:
        return [str(running.results)]
    if not entered.workloads and len(list(Path().glob("race-*.sqlite"))) != 1:
        return []
    return [str(results_of(entered.workloads or [], entered.held_out))]


def _calibrate(path: list[str]) -> list[str]:
    """With the files whose code the new command runs, and which it wants to be named."""
    from fallline.measure.store import StoreError
    from fallline.race.results import Results
    from fallline.race.results.resume import calibrate_command

    if not path:
        return ["results", "calibrate"]
    try:
        with Results(Path(path[0]), writable=False) as store:
            return shlex.split(calibrate_command(store.path, files_that_would_run(store)))[1:]
    except StoreError as error:
        raise BadInput(str(error)) from None


def _command(*words: str, without: tuple[str, ...] = ()) -> str:
    given, kept = iter(sys.argv[1:]), []
    for word in given:
        option = word.partition("=")[0]
        if option not in KEPT:
            continue
        taken = [word] if "=" in word else [word, *(next(given) for _ in range(KEPT[option] - 1))]
        kept += [] if option in without else taken
    return f"`{shlex.join(['fallline', *words, *kept])}`"
