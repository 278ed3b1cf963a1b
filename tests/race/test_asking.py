"""Questions to a stored race: the studies that there are answer, at levels that keep what is said true."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from fallline.measure.store import StoreError
from fallline.race.results import Results
from fallline.race.verdict.asking import Answer, ask
from fallline.score.decision.schedule import level_of
from tests.race.scripted import log_normal
from tests.race.test_rounds import entry as entry
from tests.race.test_rounds import race

FIELD = {"a": 0.0, "b": 0.03, "c": 0.3, "slow": 0.6}


@pytest.fixture
def path(entry: Any, tmp_path: Path) -> Path:
    found = tmp_path / "r.sqlite"
    race(entry, found, log_normal(FIELD), FIELD)
    return found


def asked(path: Path, *names: str, **more: Any) -> Answer:
    with Results(path, writable=False) as results:
        return ask(results, names, more.pop("against", None), more.pop("within", None), **more)


def test_the_question_of_the_race_itself_has_the_answer_of_its_last_look(path: Path) -> None:
    with Results(path, writable=False) as results:
        stored = results.looks()[-1]["look"]
    found = asked(path).look.look
    assert (found.choice, found.number) == (stored["choice"], stored["number"])
    assert found.bound == pytest.approx(stored["bound"]) and found.out == stored_out(stored)


def stored_out(look: dict[str, Any]) -> dict[str, int]:
    return {s["contestant"]: s["out_at"] for s in look["standings"] if s["out_at"] is not None}


def test_a_question_is_about_those_who_are_named_and_uses_everybodys_noise(path: Path) -> None:
    found = asked(path, "c", "slow")
    assert {standing.contestant for standing in found.look.look.standings} == {"c", "slow"}
    assert found.look.look.choice == "c" and found.lines[0].startswith("Take c: of these 2 it is the fastest in steps")
    assert found.look.look.level == level_of(found.look.look.number)


def test_a_question_after_the_results_is_stricter_than_one_before_them(path: Path) -> None:
    after, before = asked(path, "a", "b"), asked(path, "a", "b", in_advance=True)
    assert (after.family, before.family) == (4, 2)
    wide, narrow = (found.look.look.standings[1] for found in (after, before))
    assert wide.gap == narrow.gap
    assert wide.high is not None and narrow.high is not None and wide.high > narrow.high
    assert after.look.look.bound is not None and before.look.look.bound is not None
    assert after.look.look.bound > before.look.look.bound


def test_against_one_says_who_is_faster_and_what_staying_costs(path: Path) -> None:
    found = asked(path, against="slow")
    assert found.lines[0].startswith("Faster than slow in steps: ") and " a by " in found.lines[0]
    assert any(line.startswith("Staying with slow may cost up to ") for line in found.lines)
    best = asked(path, "a", "slow", against="a")
    assert best.lines[0] == "Nobody asked about is known to be faster than a in steps."
    assert best.lines[1].startswith("Slower: slow by ") and best.look.look.bound == 0.0


def test_another_margin_says_how_many_studies_it_would_take(path: Path) -> None:
    found = asked(path, "a", "b", within=0.001)
    assert found.look.look.within == pytest.approx(math.log(1.001))
    assert "That is not within 0.1 %; about " in found.lines[0]


@pytest.mark.parametrize(
    ("names", "against", "said"),
    [(["a", "x"], None, "x did not race; there are a, b, c, slow"), (["a"], None, "a alone cannot be compared")],
)
def test_questions_that_cannot_be_answered_are_refused(
    path: Path, names: list[str], against: str | None, said: str
) -> None:
    with pytest.raises(StoreError, match=said):
        asked(path, *names, against=against)
