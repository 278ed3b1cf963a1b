"""Questions that a race answers: seconds to a loss, and quality after equal time. The verb calls it and says so."""

from __future__ import annotations

import re
import sys

import typer

from fallline.cli.exit_codes import BadInput
from fallline.cli.profile.options import Questions, Trained
from fallline.cli.profile.request import spec_of
from fallline.cli.race.command import race
from fallline.profile.arms import DEFAULT, OURS, Arm, arms_of
from fallline.race.contestants.spaces import NOT_RACED

SECONDS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def asked(questions: Questions) -> bool:
    return questions.to_loss is not None or questions.budget is not None


def command_of(trained: Trained, questions: Questions, seed: int, rest: list[str]) -> list[str]:
    """The race that answers, as its command line."""
    if questions.to_loss is not None and questions.budget is not None:
        raise BadInput("--to-loss and --budget are two questions; ask one at a time")
    arms = arms_of(trained.optimizers or [",".join(DEFAULT)], trained.lr)
    found = ["race", spec_of(trained)]
    for arm in arms:
        if reason := obstacle(arm):
            typer.echo(f"{arm.label} is left out: {reason}", err=True)
        else:
            found += ["-o", arm.label if ":" in arm.label and "=" in arm.label else _named(arm)]
    if questions.to_loss is not None:
        found += ["--target", f"{questions.to_loss:g}"]
    else:
        found += ["--ruleset", "budget", "--seconds", f"{seconds_of(str(questions.budget)):g}"]
    return [*found, "--seed", str(seed), *rest]


def _named(arm: Arm) -> str:
    return arm.optimizer if arm.label == arm.optimizer or ".py:" in arm.optimizer else f"{arm.label}={arm.optimizer}"


def obstacle(arm: Arm) -> str | None:
    """Why a race cannot run an arm; None if it can."""
    if arm.implementation != OURS:
        return "a race compares optimizers, not implementations of one"
    return NOT_RACED.get(arm.optimizer)


def seconds_of(text: str) -> float:
    """A time with its unit.

    >>> seconds_of("1h"), seconds_of("90s")
    (3600.0, 90.0)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|m|min|h)\s*", text)
    if found is None or not float(found[1]):
        raise BadInput(f"--budget {text}: is a time > 0 with its unit, such as 90s, 30min or 1h")
    return float(found[1]) * SECONDS[found[2]]


def run(command: list[str]) -> None:
    typer.echo(f"A race answers that: fallline {' '.join(command)}", err=True)
    sys.argv[1:] = command  # the race stores the command that it was given
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(race)
    app(command[1:], standalone_mode=False)
