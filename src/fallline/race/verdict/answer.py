"""The answer of a race, in the order in which it is read.

Which one to take and what that may cost, who is slower, what more time would buy, and code to paste.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from fallline.document.numbers import byte_unit
from fallline.race.verdict import searched
from fallline.race.verdict.going_on import why_not

if TYPE_CHECKING:
    from fallline.race.verdict.settings import Setting
    from fallline.race.verdict.summary import Summary


@dataclasses.dataclass(frozen=True)
class Answer:
    lines: tuple[str, ...]
    code: str | None
    """Lines that make the choice's optimizer, as its trials had it; None without a choice, or for a user's class."""


def answer_of(summary: Summary) -> Answer:
    lines = [*_second_opinions(summary), *summary.lines]
    if summary.further is not None:
        lines.append(summary.further.sentence)
    elif reason := why_not(summary.looks, summary.ended_by or ""):
        lines.append(reason)
    setting = summary.settings.get(summary.choice or "")
    if setting is None:
        return Answer(tuple(lines), None)
    parts = (setting.sentence, _other_rates(summary, setting), _memory(summary, setting), _by_hand(setting))
    told = " ".join(part for part in parts if part)
    return Answer((*lines, told) if told else tuple(lines), setting.code)


def _second_opinions(summary: Summary) -> list[str]:
    """By the exact test: all there is without a look, and beside a choice by another rule it says what it is."""
    found = []
    if summary.tested:
        named = "" if summary.look is None else "Cross-check by an exact test of quality at equal time: "
        found += [f"{named}{quality.verdict}" for quality in summary.quality]
    return found if summary.cross_check is None else [*found, summary.cross_check]


def _other_rates(summary: Summary, setting: Setting) -> str | None:
    return searched.sentence(setting.point.get(searched.RATE, 0.0), summary.other_rates.get(setting.contestant, ()))


def _memory(summary: Summary, setting: Setting) -> str | None:
    bytes_of = [cost.state_bytes for (_, name), cost in summary.calibration.items() if name == setting.contestant]
    if not bytes_of:
        return None
    unit, name = byte_unit(max(bytes_of))
    return f"{setting.contestant} holds {max(bytes_of) / unit:.3g} {name} of states."


def _by_hand(setting: Setting) -> str | None:
    return None if setting.code is not None else f"It is {setting.optimizer} with {setting.text}."
