"""The command ``fallline``: one file per verb.

Nothing here imports torch before a verb runs, so that ``--help`` answers at once.
"""

from __future__ import annotations

from typing import Annotated

import typer

from fallline.cli import contestants, data, doctor, gallery, optimizers, report, results, score
from fallline.cli.exit_codes import run
from fallline.cli.memory import memory
from fallline.cli.profile.command import profile
from fallline.cli.race.command import race
from fallline.cli.step.command import step

app = typer.Typer(
    name="fallline",
    help="Fused PyTorch optimizers, each written once as its rule. Every verb has --help.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("optimizers")(optimizers.optimizers)
app.command("doctor")(doctor.doctor)
app.command("data")(data.data)
app.command("race")(race)
app.command("contestants")(contestants.contestants)
app.add_typer(results.app, name="results")
app.command("score")(score.score)
app.command("step")(step)
app.command("gallery")(gallery.gallery)
app.command("profile")(profile)
app.command("memory")(memory)
app.command("report")(report.report)


def _print_version(wanted: bool) -> None:
    if wanted:
        import fallline

        typer.echo(f"fallline {fallline.__version__}")
        raise typer.Exit()


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main() -> None:
    """The entry point; see :mod:`fallline.cli.exit_codes` for the exit codes."""
    run(app)
