"""``fallline score``: a leaderboard from AlgoPerf's own log folders, with the intervals they do not have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fallline.cli.exit_codes import failing_with
from fallline.cli.options import grouped
from fallline.cli.output import Figures, WrittenShort, check_figures, draw, emit


@grouped
def score(
    *,
    logs: Annotated[
        Path, typer.Argument(metavar="DIR|ARCHIVE", help="AlgoPerf's log folder, or a tar archive of it (.tar.xz).")
    ],
    compat: Annotated[
        bool,
        typer.Option("--algoperf-compat", help="AlgoPerf's own arithmetic, with its defects: the published numbers."),
    ] = False,
    held_out: Annotated[
        bool, typer.Option("--held-out/--no-held-out", help="The rules of v0.5 on held-out workloads; off since v0.6.")
    ] = True,
    self_tuning: Annotated[
        bool, typer.Option("--self-tuning", help="Logs of self-tuning: budgets are 3 times as long, 1.5 since v0.6.")
    ] = False,
    reference: Annotated[
        str | None,
        typer.Option(
            "--reference", metavar="NAME", help="The submission that speed-ups refer to; `baseline` if it is there."
        ),
    ] = None,
    replayed: Annotated[
        bool,
        typer.Option("--replay", help="Say after how many studies and hours it was known which of two is better."),
    ] = False,
    figures: Figures = None,
    shown: WrittenShort,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the leaderboard and the verdict only.")] = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the bootstrap.")] = 0,
) -> None:
    """Score AlgoPerf's logs. The leaderboard has intervals, and says who can be told apart.

    By default the fastest trial of a study is the one with the smallest time, and the integral is exact.
    """
    form = shown.checked()
    check_figures(figures)
    from fallline.score.document import document, problem_lines
    from fallline.score.known_pairs import replay
    from fallline.score.logs import NoLogs, read
    from fallline.score.stored import board_of
    from fallline.score.times import from_logs

    with failing_with(bad_input=(NoLogs,)):
        found = read(logs)
        board = board_of(
            found, held_out=held_out, compat=compat, self_tuning=self_tuning, reference=reference, seed=seed
        )
    table = from_logs(found.trials, held_out=held_out, compat=compat)
    published = compat and held_out and not self_tuning
    made = document(board, found, published=published, replay=replay(found.trials, table) if replayed else None)
    if figures is not None:
        draw(made.figures, figures, quiet)
    emit(made, form, out=shown.out, quiet=quiet)
    if form in ("json", "csv") and not quiet:  # text has them among its lines
        for line in problem_lines(found.problems):
            typer.echo(line, err=True)
