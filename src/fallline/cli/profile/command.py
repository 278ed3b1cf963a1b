"""``fallline profile``: a training under several optimizers, with the truth about speed and memory."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from fallline.cli.exit_codes import failing_with
from fallline.cli.options import grouped
from fallline.cli.output import check_figures, check_out, draw, emit
from fallline.cli.profile.options import Counted, Questions, Shown, Trained
from fallline.cli.trackers import Log, check_log, write_log

if TYPE_CHECKING:
    from fallline.cli.profile.request import Request
    from fallline.profile.results import Results


@grouped
def profile(
    *,
    trained: Trained,
    counted: Counted,
    questions: Questions,
    shown: Shown,
    log: Log = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress; the table and the verdicts only.")] = False,
) -> None:
    """Train the same model under several optimizers, side by side. How fast is each, what does it hold, what is lost?

    Every step goes to a results file first (--out); tables and sentences are computed from there.
    """
    form = shown.chosen
    check_figures(questions.figures)
    check_log(log)
    from fallline.cli.profile import races
    from fallline.cli.profile.request import read_request
    from fallline.measure.store import StoreError
    from fallline.profile.arms import BadArm
    from fallline.profile.document import document
    from fallline.profile.preview import plan_document
    from fallline.profile.results import Results
    from fallline.workloads import WorkloadError

    with failing_with(bad_input=(StoreError, WorkloadError, BadArm)):
        if races.asked(questions):
            rest = [*(["--json"] if form == "json" else []), *(["--quiet"] if quiet else [])]
            races.run(races.command_of(trained, questions, counted.seed, rest))
            return
        request = read_request(trained, counted, questions)
        if counted.plan:
            emit(plan_document(request.plans), form)
            return
        if not counted.show:
            check_out(request.out)
        silent = quiet or form == "json"
        with Results(request.out, writable=not counted.show) as results:
            if not counted.show:
                _measure(request, results, counted, silent)
            made = document(results)
    if questions.figures is not None:
        draw(made.figures, questions.figures, silent)
    emit(made, form, quiet=quiet)
    if log is not None:
        from fallline.profile.logged import material_of

        write_log(material_of(request.out, made), request.out, log)


def _measure(request: Request, results: Results, counted: Counted, silent: bool) -> None:
    import torch

    from fallline.cli.profile.progress import Progress
    from fallline.profile.budget import find_largest
    from fallline.profile.cell import Limits, measure

    if counted.fresh:
        results.forget()
    if not results.holds_all_of(request.plans):
        results.begin(request.plans, sys.argv[1:])
    torch.set_num_threads(request.plans[0].threads)
    limits = Limits(counted.steps, 60.0 * request.minutes)
    with Progress(request.plans, silent) as progress:
        for plan in request.plans:
            telling = progress.telling(plan)
            measure(plan, results, limits, telling)
            if request.budget is not None:
                find_largest(plan, results, request.budget, telling.notice)
