"""How far ``fallline profile`` is: a row per arm as soon as it is known, then the time left, all on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from fallline.document.numbers import significant, time_left

if TYPE_CHECKING:
    from fallline.profile.cell import Telling
    from fallline.profile.plan import Plan

SILENCE = 15.0
"""Seconds after which a line says how far a cell is; a terminal's line is written anew after each block."""


class Progress:
    def __init__(self, plans: Sequence[Plan], silent: bool):
        self.silent = silent
        self.plans = list(plans)
        self.live = not silent and sys.stderr.isatty()
        self._spoke = 0.0
        self._taken: list[float] = []

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._clear()

    def telling(self, plan: Plan) -> Telling:
        from fallline.profile.cell import Telling

        self._taken = []
        if plan.label:
            self._say(f"{plan.label}:")
        return Telling(self._looked, self._block, self._say)

    def _looked(self, plan: Plan, label: str, status: str | None, facts: Mapping[str, Any]) -> None:
        if status is not None:
            self._say(f"  {label}: {status}")
            return
        told = [f"about {significant(1e3 * facts['second_seconds'], 2)} ms a step"]
        if facts.get("peak_bytes") is not None:
            told.append(f"{facts['peak_bytes'] / 1e6:,.1f} MB in tensors at its peak")
        told.append(f"{facts['state_bytes'] / 1e6:,.2f} MB of states")
        self._say(f"  {label}: {', '.join(told)}")

    def _block(self, plan: Plan, done: int, blocks: int, seconds: float) -> None:
        self._taken.append(seconds)
        left = sum(self._taken) / len(self._taken) * (blocks - done)
        text = f"  block {done} of {blocks}"
        if done < blocks:
            text += f"; {time_left(left)} left"
        if len(self.plans) > 1:
            text += f" of this cell ({self.plans.index(plan) + 1} of {len(self.plans)})"
        now = time.perf_counter()
        if self.live:
            sys.stderr.write(f"\r\033[K{text}")
            sys.stderr.flush()
        elif now - self._spoke > SILENCE:
            self._spoke = now
            self._say(text)

    def _say(self, text: str) -> None:
        if not self.silent:
            self._clear()
            typer.echo(text, err=True)

    def _clear(self) -> None:
        if self.live:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
