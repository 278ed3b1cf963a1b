"""Winners, ties and sentences follow from samples; what a gate stops is no result."""

from __future__ import annotations

import dataclasses

import pytest

from fallline.step.analyse import analyse, doubtful
from fallline.step.plan import Cell, Conditions
from fallline.step.published.claims import grid_claims
from fallline.step.published.presets import adan_gpt2
from fallline.step.published.sources import ADAM_GRID, winner_counts
from fallline.step.results import ArmRecord
from fallline.step.sentences import (
    compile_times,
    disturbed,
    good_and_poor,
    measured_twice,
    recommendations,
    region,
    regions,
    told_apart,
    who_wins,
)
from fallline.step.tables import milliseconds
from tests.step.records import plan_of, record, records, slower_than_the_probe

CLEAR = {"compiled": 3.0, "eager": 6.0, "fused": 1.1}


def test_clear_winner_everywhere() -> None:
    plan = plan_of([1, 4], [65536, 1048576])
    (table,) = analyse(plan, records(plan, slower_than_the_probe(CLEAR)))
    assert [row.winner for row in table.rows] == ["fused"] * 4
    assert who_wins(table) == "compiled wins nowhere; eager wins nowhere; fused wins 4 of 4 cells; no ties."
    row = table.rows[0].arms["fused"]
    assert row.fraction is not None and row.fraction.value == pytest.approx(1 / 1.1, rel=0.05)
    assert row.gb_per_s is not None and row.gb_per_s.value == pytest.approx(40 / 1.1, rel=0.05)


def test_ties_are_named() -> None:
    plan = plan_of([1, 4], [65536])
    factors = {**CLEAR, "compiled": 1.101}
    (table,) = analyse(plan, records(plan, slower_than_the_probe(factors)))
    assert all(row.winner is None and set(row.verdict().split(" = ")) == {"compiled", "fused"} for row in table.rows)
    assert "2 ties (1 × 65536: " in who_wins(table)


def test_correction_counts_all_comparisons_of_the_table() -> None:
    """A difference that would be a verdict alone is a tie in a table of 90 comparisons."""
    seconds = {"compiled": 1.062 * 9e-4, "eager": 9e-3, "fused": 9e-4}
    small, large = plan_of([1], [1048576]), plan_of([1, 2, 4, 8, 16, 32], [16384, 65536, 262144, 1048576, 4194304])
    alone = analyse(small, [record(small.cells[0], seconds, noise=0.042)])[0].rows[0]
    rest = [record(c, {n: s * c.elements / 1048576 for n, s in seconds.items()}, noise=0.042) for c in large.cells]
    among = next(row for row in analyse(large, rest)[0].rows if row.cell.label == "1 × 1048576")
    assert among.corrected["compiled", "fused"] > alone.corrected["compiled", "fused"]
    assert alone.comparisons["compiled", "fused"].p == pytest.approx(among.comparisons["compiled", "fused"].p)


def test_regions_in_words() -> None:
    plan = plan_of([1, 2, 4], [16384, 65536])

    def seconds(cell: Cell, name: str) -> float:
        compiled_first = cell.tensors <= 2 and cell.size == 16384
        factor = {"compiled": 1.1 if compiled_first else 8.0, "eager": 6.0, "fused": 2.0}[name]
        return factor * 36.0 * cell.elements / 40e9

    (table,) = analyse(plan, records(plan, seconds))
    assert good_and_poor(table, "compiled")[0] == "compiled is fastest or tied: 1, 2 tensors of 16384."
    poor = [row for row in table.rows if row.winner == "fused"]
    assert region(poor) == "4 tensors of 16384; 1, 2, 4 tensors of 65536"
    assert region([]) == "nowhere"
    assert regions(table) == [
        f"{table.title}: compiled wins 1, 2 tensors of 16384.",
        f"{table.title}: fused wins 4 tensors of 16384; 1, 2, 4 tensors of 65536.",
    ]
    (alone,) = analyse(plan, records(plan, slower_than_the_probe(CLEAR)))
    assert regions(alone) == []


def test_recommendation_names_the_size_and_the_price() -> None:
    plan = plan_of([1, 4], [65536, 1048576])

    def seconds(cell: Cell, name: str) -> float:
        factor = {"compiled": 1.5, "eager": 6.0, "fused": 2.0 if cell.tensors == 1 and cell.size == 65536 else 1.1}[
            name
        ]
        return factor * 36.0 * cell.elements / 40e9

    tables = analyse(plan, records(plan, seconds))
    found = recommendations(tables)
    assert found[0].startswith("For up to 1 M parameters take fused: fastest or tied in 1 of 2 cells, at worst 1.3")
    arms = tables[0].rows[0].arms
    shown = f"({milliseconds(arms['fused'])} against {milliseconds(arms['compiled'])} ms on 1 × 65536)"
    assert shown in found[0], "with the digits of the table"
    assert found[1] == "For 1 to 10 M parameters take fused: fastest or tied in 2 of 2 cells."


def test_recommendation_names_all_that_tie_everywhere() -> None:
    """Which of them is ahead in a cell is noise, and would be another one for the next size."""
    plan = plan_of([1, 4], [65536, 1048576])
    found = recommendations(analyse(plan, records(plan, slower_than_the_probe({**CLEAR, "compiled": 1.101}))))
    assert found == [
        "For up to 1 M parameters take compiled or fused: fastest or tied in 2 of 2 cells.",
        "For 1 to 10 M parameters take compiled or fused: fastest or tied in 2 of 2 cells.",
    ]


def test_nothing_is_recommended_where_all_tie() -> None:
    plan = plan_of([1, 4], [65536])
    few = records(plan, slower_than_the_probe(CLEAR), rounds=5)
    (table,) = analyse(plan, few)
    assert all(row.winner is None for row in table.rows), "five samples can tell nothing apart, however far"
    said = "For up to 1 M parameters no difference was found: compiled, eager, fused tie in 2 of 2 cells."
    assert recommendations([table]) == [said]


def test_too_fast_to_be_true_is_set_aside() -> None:
    plan = plan_of([1], [1048576, 4194304])
    (table,) = analyse(plan, records(plan, slower_than_the_probe({**CLEAR, "fused": 0.5})))
    assert table.decided == []
    assert "2 set aside by a gate" in who_wins(table)
    assert "what the probe does" in table.rows[0].wrong[0]


def test_time_that_falls_with_size_is_set_aside() -> None:
    plan = plan_of([1], [65536, 1048576])
    found = records(plan, slower_than_the_probe(CLEAR))
    slow = record(plan.cells[0], {"compiled": 0.1, "eager": 0.001, "fused": 0.0001})
    (table,) = analyse(plan, [slow, found[1]])
    assert [bool(row.wrong) for row in table.rows] == [False, True]
    assert "takes 0.0" in table.rows[1].arms["compiled"].wrong[0]


def test_warm_up_among_the_samples_sets_the_cell_aside() -> None:
    plan = plan_of([1], [65536, 1048576])
    found = records(plan, slower_than_the_probe(CLEAR))
    cold = found[0].arms["fused"].seconds
    cold[:3] = [3 * seconds for seconds in cold[:3]]
    (table,) = analyse(plan, found)
    assert [bool(row.wrong) for row in table.rows] == [True, False]
    assert "warm-up is among them" in table.rows[0].arms["fused"].wrong[0]


def test_machine_that_was_slow_for_all_is_no_warm_up() -> None:
    plan = plan_of([1], [65536])
    found = records(plan, slower_than_the_probe(CLEAR))
    for arm in found[0].arms.values():
        arm.seconds[:3] = [3 * seconds for seconds in arm.seconds[:3]]
    (table,) = analyse(plan, found)
    assert table.rows[0].wrong == []


def test_optimizers_are_not_rivals() -> None:
    """Adam's kernel is faster than Adan's, and no reason to take it for Adan."""
    plan = adan_gpt2(Conditions(threads=(2,)))
    factors = {"Adam": 5, "Adam fused": 1, "Adan loop": 20, "Adan multi": 18, "fused loop": 1.5, "fused multi": 1.3}
    (table,) = analyse(
        plan, [record(c, {n: f * 36 * c.elements / 40e9 for n, f in factors.items()}) for c in plan.cells]
    )
    assert {optimizer: part.arms for optimizer, part in table.parts().items()} == {
        "adam": ["Adam", "Adam fused"],
        "adan": ["Adan loop", "Adan multi", "fused loop", "fused multi"],
    }
    assert [who_wins(part) for part in table.parts().values()] == [
        "Adam wins nowhere; Adam fused wins 6 of 6 cells; no ties.",
        "Adan loop wins nowhere; Adan multi wins nowhere; fused loop wins nowhere; "
        "fused multi wins 6 of 6 cells; no ties.",
    ]
    assert plan.family(plan.cells[0]) == 6 * (1 + 6)
    said = recommendations([table])
    assert "For 10 to 100 M parameters with adan take fused multi: fastest or tied in 1 of 1 cells." in said


def test_ties_say_what_would_settle_them() -> None:
    plan = plan_of([1, 4], [65536])
    (table,) = analyse(plan, records(plan, slower_than_the_probe({**CLEAR, "compiled": 1.101})))
    said = told_apart(table)
    assert len(said) == 2 and all("not distinguishable" in line and "18 samples of each" in line for line in said)
    alone = plan_of([1], [65536])
    (table,) = analyse(alone, records(alone, slower_than_the_probe(CLEAR)))
    assert any("fused is 2.7" in line and " ms." in line for line in told_apart(table))


def test_size_that_is_ignored_is_set_aside() -> None:
    """As in the first version of the published table: every size took the same time."""
    plan = plan_of([1], [65536, 1048576, 4194304])
    (table,) = analyse(plan, records(plan, lambda cell, name: 0.02 * CLEAR[name]))
    assert table.decided == []
    assert any("is it used?" in text for text in table.rows[0].wrong)


def test_nan_found_in_the_run_sets_the_cell_aside() -> None:
    plan = plan_of([1, 2], [65536])
    found = records(plan, slower_than_the_probe(CLEAR))
    found[0].facts["wrong"] = "exp_avg_sq 0 contains NaN or infinity"
    (table,) = analyse(plan, found)
    assert [row.cell.tensors for row in table.decided] == [2]


def test_missing_arm_and_missing_cell() -> None:
    plan = plan_of([1, 2], [65536])
    found = records(plan, slower_than_the_probe(CLEAR))[:1]
    found[0].arms["compiled"] = ArmRecord("compiled", "not installed", [], {})
    (table,) = analyse(plan, found)
    assert table.missing == ["2 × 65536"]
    assert table.rows[0].winner == "fused" and table.rows[0].arms["compiled"].missing == "not installed"


def test_compile_time_is_told_apart() -> None:
    plan = plan_of([1, 2], [65536])
    found = records(plan, slower_than_the_probe(CLEAR))
    found[1].arms["compiled"].facts["first_seconds"] = 8.0
    text = compile_times(analyse(plan, found), ["compiled"])
    assert text == ["compiled: compiling took 8.0 s in all, in 1 of 2 cells; never part of the times above."]


def test_claims_of_the_published_text_are_answered_from_its_own_table() -> None:
    """Fed with the published numbers, the claims that its own table denies are denied."""
    assert winner_counts(ADAM_GRID) == {"compiled": 9, "eager": 0, "fused": 21}
    plan = plan_of([1, 2, 4, 8, 16, 32], [16384, 65536, 262144, 1048576, 4194304])
    given = [
        record(cell, {n: ms / 1e3 for n, ms in ADAM_GRID[cell.tensors, cell.size or 0].items()}, noise=1e-4, probe=1e-9)
        for cell in plan.cells
    ]
    (table,) = analyse(plan, given)
    falling = [row.cell.label for row in table.set_aside]
    assert "32 × 1048576" in falling and "1 × 65536" in falling  # the warm-up of the first rows, the thread switch
    answers = grid_claims(dataclasses.replace(table, rows=table.decided))
    left = {(row.cell.tensors, row.cell.size or 0) for row in table.decided}
    won = winner_counts({place: times for place, times in ADAM_GRID.items() if place in left})
    listed = ", ".join(f"{name} {won[name]}" for name in ("fused", "compiled", "eager"))
    assert answers[-1].holds is None and answers[-1].number == f"here {listed}, 0 ties, of {len(table.decided)}"


def test_arm_far_behind_is_not_compared_but_is_the_slowest() -> None:
    plan = plan_of([1, 2], [65536])
    found = records(plan, slower_than_the_probe({**CLEAR, "eager": 60.0}))
    for one in found:
        one.arms["eager"].seconds = one.arms["eager"].seconds[:2]
        one.arms["eager"].facts["every"] = 9
    (table,) = analyse(plan, found)
    assert table.rows[0].arms["eager"].far_behind and table.rows[0].winner == "fused"
    assert good_and_poor(table, "compiled")[1] == "compiled is the slowest: nowhere."
    assert good_and_poor(table, "eager")[1] == "eager is the slowest: 1, 2 tensors of 65536."


def test_busy_machine_is_told_by_its_probe() -> None:
    plan = plan_of([1, 2], [65536])
    assert disturbed(analyse(plan, records(plan, slower_than_the_probe(CLEAR), noise=0.06))) == []
    (said,) = disturbed(analyse(plan, records(plan, slower_than_the_probe(CLEAR), noise=0.4)))
    assert said.startswith("the machine was busy: half of the probe's samples lie more than ")


def test_deterioration_compares_with_fewer_tensors() -> None:
    plan = plan_of([1, 16, 32], [65536])

    def answer(factors: dict[int, float]) -> str:
        given = records(
            plan, lambda c, name: (factors[c.tensors] if name == "compiled" else 2.0) * 36 * c.elements / 4e10
        )
        return grid_claims(analyse(plan, given)[0])[1].text()

    assert "holds here; with 32 tensors it takes 4" in answer({1: 3.0, 16: 3.0, 32: 8.0})
    assert "does not hold here" in answer({1: 8.0, 16: 8.0, 32: 4.0})
    assert "further behind in 0 of 1 sizes" in answer({1: 8.0, 16: 8.0, 32: 4.0})


@pytest.mark.parametrize(("once", "is_believed"), [(1.0, False), (0.6, True)])
def test_later_passes_may_find_in_a_cache_what_the_first_has_read(once: float, is_believed: bool) -> None:
    plan = plan_of([1], [1048576], ["fused"])
    (cell,) = plan.cells
    found = record(cell, {"fused": 0.8 * 36.0 * cell.elements / 40e9})
    found.arms["fused"].facts["bytes_once"] = once * found.arms["fused"].facts["bytes_moved"]
    (table,) = analyse(plan, [found])
    (arm,) = table.rows[0].arms.values()
    assert arm.fraction is not None and arm.fraction.value == pytest.approx(1.25, rel=0.05)
    assert (not arm.wrong) == is_believed


def test_a_doubtful_cell_is_measured_again_with_the_one_it_was_held_against() -> None:
    plan = plan_of([1], [65536, 262144, 1048576, 4194304], ["eager", "fused"])

    def seconds(cell: Cell, name: str) -> float:
        slow = 10 if cell.size == 262144 and name == "fused" else 1
        return slow * slower_than_the_probe({"eager": 6.0, "fused": 1.5})(cell, name)

    made = records(plan, seconds)
    tables = analyse(plan, made)
    assert [row.cell.size for row in tables[0].set_aside] == [1048576]
    found = doubtful(tables)
    assert [cell.size for cell in found] == [1048576, 262144]
    assert set(found.values()) == {f"1 × 1048576: {tables[0].set_aside[0].wrong[0]}"}
    assert measured_twice(tables) == []

    made[2].facts["again"] = "its first time"
    tables = analyse(plan, made)
    assert [cell.size for cell in doubtful(tables)] == [262144], "once is enough"
    assert measured_twice(tables) == [
        "1 cell was measured a second time, because the first times could not all be true: its first time"
    ]


def test_wrong_values_are_not_measured_again() -> None:
    plan = plan_of([1], [65536], ["eager", "fused"])
    (made,) = records(plan, slower_than_the_probe({"eager": 6.0, "fused": 1.5}))
    made.facts["wrong"] = "gradient 0 contains NaN or infinity"
    tables = analyse(plan, [made])
    assert tables[0].set_aside and doubtful(tables) == {}
