"""Asks a stored race something else: about some of its contestants, against one of them, or with another margin.

Nothing runs and no look is added.  A question uses the studies of the last look, the noise of all contestants and the
level of that look.  Whoever asks after seeing the results may have chosen the question by them, so every statement is
at the level over *all* pairs of the race in both directions: whichever of them are asked for, all that could be said at
this look holds together, and asking often costs nothing.  A question that was fixed before the race needs the pairs of
the question alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from fallline.measure.store import StoreError
from fallline.race.clock.pace import LARGEST_ERROR, SECONDS, STEPS
from fallline.race.results import Results
from fallline.race.verdict.looks import clock_error, evidence_of, quantity_of
from fallline.race.verdict.material import Material, material_of
from fallline.race.verdict.race_look import RaceLook, looks_of
from fallline.race.verdict.sentences import RELIABLE, answer_against, answer_to_question
from fallline.score.decision import FIRST_LOOK, Look, take_look

TOGETHER = "All that can be asked of a race, taken together, is wrong in at most 2 of 100 races."


@dataclasses.dataclass(frozen=True)
class Question:
    """``names`` are all that it is about; ``against`` is the one that the others are compared with."""

    names: tuple[str, ...]
    against: str | None
    within: float
    in_advance: bool
    """Whether it was fixed before anybody had seen results."""


@dataclasses.dataclass(frozen=True)
class Answer:
    question: Question
    look: RaceLook
    """As a look of the race, with the contestants of the question alone."""
    family: int
    """Contestants whose pairs the level is divided by."""
    lines: tuple[str, ...]

    def as_data(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def ask(
    results: Results, names: Sequence[str], against: str | None, within: float | None, *, in_advance: bool = False
) -> Answer:
    """Compares the contestants ``names``, or all; raises a line of :class:`StoreError` where the race cannot answer."""
    known = [contestant.name for contestant in results.contestants()]
    asked = list(dict.fromkeys([*(names or known), *([against] if against else [])]))
    for name in asked:
        if name not in known:
            raise StoreError(f"{results.path}: {name} did not race; there are {', '.join(known)}")
    if len(asked) < 2:
        raise StoreError(f"{results.path}: {asked[0]} alone cannot be compared; name another of {', '.join(known)}")
    looks = looks_of(results)
    if not looks:
        raise StoreError(
            f"{results.path}: no round of studies is complete yet; ask when the race has had its first look"
        )
    last = looks[-1]
    few = [name for name in asked if _studies(last.look).get(name, 0) < FIRST_LOOK]
    if few:
        raise StoreError(f"{results.path}: {few[0]} has not run {FIRST_LOOK} studies; let the race go on first")
    question = Question(tuple(asked), against, results.rules().within if within is None else within, in_advance)
    return _answer(material_of(results), looks, question, len(known))


def _studies(look: Look) -> dict[str, int]:
    return {standing.contestant: standing.studies for standing in look.standings}


def _left(looks: Sequence[RaceLook], question: Question) -> dict[str, int]:
    """Those that the race found slower than one of the question, which nobody has to find again."""
    if question.against is not None:
        return {}
    choices = {look.look.number: look.look.choice for look in looks}
    out = looks[-1].look.out
    return {name: at for name, at in out.items() if name in question.names and choices.get(at) in question.names}


def _answer(material: Material, looks: Sequence[RaceLook], question: Question, contestants: int) -> Answer:
    last = looks[-1]
    studies = _studies(last.look)
    # The question of the race itself, perhaps with another margin, is the one that its levels and its clock are for.
    own = len(question.names) == contestants and question.against is None
    error = clock_error(material, question.names) if SECONDS in material.times else None
    clock = STEPS if error is None or error > LARGEST_ERROR else SECONDS
    if own:
        clock, error = last.clock, last.clock_error
    family = len(question.names) if question.in_advance else contestants
    found = take_look(
        evidence_of(material, clock, studies),
        number=last.look.number,
        out={**{name: 0 for name in studies if name not in question.names}, **_left(looks, question)},
        within=question.within,
        choice=question.against,
        family=None if own else family,
    )
    kept = tuple(standing for standing in found.standings if standing.contestant in question.names)
    look = dataclasses.replace(found, standings=kept)
    seen = RaceLook(quantity_of(material), clock, look, None, None, error, last.seconds_used)
    lines = answer_against(seen) if question.against else answer_to_question(seen)
    over = f"all pairs of its {family} contestants, as for a question asked after seeing them"
    if own:
        over = "those in contention, as in the race"
    elif question.in_advance:
        over = f"the pairs of these {family}, as for a question fixed in advance"
    how = f"Look {look.number} of the race, level {100 * look.level:.2g} % over {over}."
    return Answer(question, seen, family, (*lines, how, RELIABLE if own else TOGETHER))
