"""The progress of a race on stderr: a bar with the time left, and notices."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fallline.race.progress import Progress
    from fallline.race.results import Row
    from fallline.race.verdict.race_look import RaceLook


@contextlib.contextmanager
def progress_of(quiet: bool) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    from fallline.race.progress import Progress
    from fallline.race.verdict.sentences import look_line

    if quiet:
        yield Progress()
        return
    console = Console(stderr=True, highlight=False, markup=False)
    done = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    left = (TextColumn("left"), TimeRemainingColumn())
    # Where there is no terminal a bar would only leave an empty line.
    with Bar(*done, *left, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("trials", total=None)

        def ended(row: Row, status: str) -> None:
            bar.update(task, advance=1, description=f"{row.contestant} {status}")

        def planned(done: int, total: int) -> None:
            if done:
                console.print(f"Goes on: {done} of {total} trials are done")
            bar.update(task, completed=done, total=total)

        def notice(text: str) -> None:
            # Whole lines: without a terminal they would be broken at 80 columns.
            console.print(text, soft_wrap=True)

        def round_planned(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        def looked(look: RaceLook) -> None:
            notice(look_line(look))

        yield Progress(notice, ended, planned, round_planned, looked)
