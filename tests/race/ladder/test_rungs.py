"""A ladder is parsed, and gives an entry with its own budget or size for every rung, all with the same draws."""

from __future__ import annotations

from pathlib import Path

import pytest

from fallline.race.contestants import named
from fallline.race.ladder.rungs import BadLadder, Ladder, entries, parse, rungs_of
from fallline.race.plan import Entry, Rules, target_trials, trials
from fallline.workloads import WorkloadError, load
from fallline.workloads.loading import load_changed
from tests.race import write_workload


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("steps", "is no ladder"),
        ("steps=", "is no ladder"),
        ("steps=a,b", "is no ladder"),
        ("=1,2", "names no axis"),
        ("a b=1,2", "names no axis"),
        ("steps=1", "has one size"),
        ("steps=1,1,2", "has a size twice"),
        ("steps=0,1", "a size is a number > 0"),
        ("steps=nan,1", "a size is a number > 0"),
        ("steps=1,inf", "a size is a number > 0"),
        ("steps=" + ",".join(map(str, range(1, 11))), "has 10 rungs; give at most 8"),
    ],
)
def test_what_is_no_ladder_is_told_in_one_line(text: str, said: str) -> None:
    with pytest.raises(BadLadder, match=said) as error:
        parse(text)
    assert "\n" not in str(error.value) and repr(text) in str(error.value)


def test_rungs_of_steps_have_their_budgets_and_as_many_evaluations() -> None:
    made = entries(Entry("chars", load("chars")), parse("steps=2,0.5,1"))
    assert [entry.name for entry in made] == ["chars×0.5", "chars×1", "chars×2"]
    assert [entry.workload.max_steps for entry in made] == [350, 700, 1400]
    assert {len(entry.workload.evaluation_steps()) for entry in made} <= {28, 29}
    assert {entry.workload.target for entry in made} == {None}, "the reference sets one on every rung"


def test_rungs_have_their_draws_in_common() -> None:
    rungs, rules, who = entries(Entry("chars", load("chars")), parse("steps=1,2")), Rules(studies=2), [named("adamw")]
    alone = [(t.study, t.number, t.seed, dict(t.point)) for t in trials([Entry("chars", load("chars"))], who, rules)]
    for entry in rungs:
        assert [(t.study, t.number, t.seed, dict(t.point)) for t in trials([entry], who, rules)] == alone
    first, second = ([t.seed for t in target_trials(entry, who[0], rules)] for entry in rungs)
    assert first == second


def test_budgets_that_become_equal_are_refused(tmp_path: Path) -> None:
    path = str(write_workload(tmp_path, max_steps=3, eval_every=1))
    with pytest.raises(BadLadder, match="tiny has 3 steps: two of the rungs have the same budget"):
        entries(Entry(path, load(path)), Ladder("steps", (0.1, 0.2, 1.0)))


def test_a_width_is_an_argument_of_the_workloads_function() -> None:
    made = entries(Entry("chars", load("chars")), parse("width=0.5,1,2"))
    assert [entry.name for entry in made] == ["chars width=0.5", "chars width=1", "chars width=2"]
    sizes = [sum(p.numel() for p in entry.workload.new_model(0).parameters()) for entry in made]
    assert sizes[1] == sum(p.numel() for p in load("chars").new_model(0).parameters())
    assert sizes[0] < sizes[1] < sizes[2] and {entry.workload.max_steps for entry in made} == {700}
    again = load_changed("chars", made[2].changes)
    assert again.name == "chars width=2" and again.about.model == "GPT, 2 × 128"


def test_sizes_that_are_whole_numbers_are_given_as_such() -> None:
    made = entries(Entry("graphs", load("graphs")), parse("width=24,48"))
    assert [entry.name for entry in made] == ["graphs width=24", "graphs width=48"]
    with pytest.raises(WorkloadError, match=r"graphs: width is a whole number, 48 by default, got 0\.5"):
        load("graphs", {"width": 0.5})


def test_a_workload_without_that_size_says_what_it_needs(tmp_path: Path) -> None:
    path = str(write_workload(tmp_path))
    with pytest.raises(WorkloadError, match=r"has no size called 'width'.*def workload\(width: float = 1.0\)"):
        load(path, {"width": 2.0})
    with pytest.raises(WorkloadError, match="clicks: has no size called 'name'"):
        load("clicks", {"name": 2.0})


def test_a_worker_makes_the_workload_of_a_size_once() -> None:
    kept: dict[str, object] = {}
    one, same, other = (
        load_changed("chars", {"rung": {"axis": "width", "size": size, "of": "chars"}}, kept)  # type: ignore[arg-type]
        for size in (1.0, 1.0, 2.0)
    )
    assert len(kept) == 2 and one.model is same.model and one.model is not other.model


def test_a_race_is_a_ladder_only_if_all_its_workloads_are_rungs() -> None:
    made = entries(Entry("chars", load("chars")), parse("steps=1,2"))
    rows = {entry.name: {"changes": dict(entry.changes)} for entry in reversed(made)}
    assert rungs_of(rows) == {"chars×1": 1.0, "chars×2": 2.0} and list(rungs_of(rows) or ()) == ["chars×1", "chars×2"]
    assert rungs_of({**rows, "mri": {"changes": {}}}) is None
    assert rungs_of({"chars": {"changes": {}}}) is None
