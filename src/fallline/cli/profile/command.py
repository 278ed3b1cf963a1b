"""``fallline profile``: a training under several optimizers, with the truth about speed and memory."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from fallline.cli.exit_codes import failing_with
from fallline.cli.options import grouped
from fallline.cli.output import check_figures, check_out, draw, emit
from fallline.cli.profile.options import Counted, Questions, Shown, Trained


@grouped
def profile(
    *,
    trained: Trained,
    counted: Counted,
    questions: Questions,
    shown: Shown,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress; the table and the verdicts only.")] = False,
) -> None:
    """Train the same model under several optimizers, side by side. How fast is each, what does it hold, what is lost?

    Every step goes to a results file first (--out); tables and sentences are computed from there.
    """
    form = shown.chosen
    check_figures(questions.figures)
    from fallline.cli.profile.request import plans_of
    from fallline.measure.store import StoreError
    from fallline.profile.arms import BadArm
    from fallline.profile.document import document
    from fallline.profile.results import Results
    from fallline.workloads import WorkloadError

    with failing_with(bad_input=(StoreError, WorkloadError, BadArm)):
        plans, out = plans_of(trained, counted, questions)
        if not counted.show:
            check_out(out)
        silent = quiet or form == "json"
        with Results(out, writable=not counted.show) as results:
            if not counted.show:
                _measure(plans, results, counted, silent)
            made = document(results)
    if questions.figures is not None:
        draw(made.figures, questions.figures, silent)
    emit(made, form, quiet=quiet)


def _measure(plans: list, results: object, counted: Counted, silent: bool) -> None:
    import torch

    from fallline.cli.profile.progress import Progress
    from fallline.profile.results import Results
    from fallline.profile.rounds import Limits, measure

    assert isinstance(results, Results)
    if counted.fresh:
        results.forget()
    results.begin(plans, sys.argv[1:])
    torch.set_num_threads(plans[0].threads)
    limits = Limits(counted.steps, 60.0 * counted.minutes)
    with Progress(results, plans, silent) as progress:
        for plan in plans:
            measure(plan, results, limits, progress.telling(plan))
