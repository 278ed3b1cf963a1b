"""``fallline score``: a leaderboard from AlgoPerf's own log folders, with the intervals they do not have."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from fallline.cli.exit_codes import BadInput
from fallline.cli.options import grouped
from fallline.cli.output import Figures, Out, ShownShort, check_figures, check_out, draw, emit


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
    shown: ShownShort,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the leaderboard and the verdict only.")] = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the bootstrap.")] = 0,
    out: Out = None,
) -> None:
    """Score AlgoPerf's logs. The leaderboard has intervals, and says who can be told apart.

    By default the fastest trial of a study is the one with the smallest time, and the integral is exact.
    """
    form = shown.chosen
    check_out(out)
    check_figures(figures)
    from fallline.score.algoperf import MISS_SECONDS, budgets
    from fallline.score.document import document, problem_lines
    from fallline.score.known_pairs import replay
    from fallline.score.leaderboard import leaderboard
    from fallline.score.logs import NoLogs, read
    from fallline.score.times import from_logs

    try:
        found = read(logs)
    except NoLogs as error:
        raise BadInput(str(error)) from None
    table = from_logs(found.trials, held_out=held_out, compat=compat)
    if not table.workloads:
        ran = ", ".join(sorted({trial.workload for trial in found.trials}))
        raise BadInput(
            f"{logs}: nothing to score: its logs are of variants alone ({ran}), and a variant counts only beside the "
            "workload it belongs to"
        )
    seconds = budgets(held_out=held_out, self_tuning=self_tuning)
    board = leaderboard(
        table,
        compat=compat,
        reference=_reference(reference, table.contestants),
        allowed={(name, w): seconds[w] + MISS_SECONDS for name in table.contestants for w in table.workloads},
        seed=seed,
    )
    published = compat and held_out and not self_tuning
    made = document(board, found, published=published, replay=replay(found.trials, table) if replayed else None)
    if figures is not None:
        draw(made.figures, figures, quiet)
    emit(made, form, out=out, quiet=quiet)
    if form in ("json", "csv") and not quiet:  # text has them among its lines
        for line in problem_lines(found.problems):
            typer.echo(line, err=True)


def _reference(given: str | None, contestants: Sequence[str]) -> str | None:
    if given is not None and given not in contestants:
        raise BadInput(f"--reference: there is no submission {given!r}; there are {', '.join(contestants)}")
    return given or ("baseline" if "baseline" in contestants else None)
