"""Cells are measured once each, whatever happens in between, and the flush is not in the time."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from fallline.lower.foreach import IN_CACHE
from fallline.measure import bandwidth, clock, machine
from fallline.measure.clock import CacheFlush, seconds_of
from fallline.measure.interleave import (
    LOOKS,
    RARELY,
    Thinning,
    for_rounds,
    interleave,
    rounds_between,
    rounds_between_slowest,
    until_decided,
)
from fallline.measure.stats import compare
from fallline.memory.live import LiveBytes
from fallline.memory.temporaries import allocated_by_step
from fallline.step.implementations import build
from fallline.step.plan import (
    PROBE,
    Cell,
    Conditions,
    DoesNotFit,
    Plan,
    arms_of,
    check_memory,
    expand,
    grid,
)
from fallline.step.published.presets import CONFIGURATIONS, adam_grid, adan_gpt2
from fallline.step.results import Results, data_id
from fallline.step.run import Limits, _thinning, measure, measure_all, measure_cells
from fallline.step.temporaries import step_temporaries


def small_plan(names: list[str] | None = None) -> Plan:
    arms = arms_of("adam", names or ["eager", "fused"], {}, "float32")
    return Plan(
        "own", tuple(expand(grid([1, 2], [64, 256], arms), Conditions(threads=(1,), flush=False, steps=2), "adam"))
    )


def test_every_sample_is_in_the_file_before_anything_is_shown(tmp_path: Path) -> None:
    plan = small_plan()
    with Results(tmp_path / "r.sqlite") as results:
        results.begin({})
        measure_all(plan, results, Limits(), lambda *_: None)
        found = results.load(plan.cells)
        assert results.done(plan.cells) == {cell.key for cell in plan.cells}
    assert [record.cell for record in found] == list(plan.cells)
    for record in found:
        assert set(record.arms) == {"eager", "fused", PROBE}
        assert all(len(arm.seconds) == 2 and min(arm.seconds) > 0 for arm in record.arms.values())
        assert record.facts["wrong"] is None and record.facts["pinning"]["processors"]


def test_nothing_is_measured_twice(tmp_path: Path) -> None:
    plan, measured = small_plan(), []
    with Results(tmp_path / "r.sqlite") as results:
        results.begin({})
        for _ in range(2):
            measure_all(plan, results, Limits(), lambda cell, record: measured.append(cell.label) if record else None)
    assert sorted(measured) == sorted(cell.label for cell in plan.cells)


def test_measured_again_a_cell_keeps_what_compiling_took(tmp_path: Path) -> None:
    plan = small_plan()
    cell, other, *_ = plan.cells
    with Results(tmp_path / "r.sqlite") as results:
        results.begin({})
        measure_all(plan, results, Limits(), lambda *_: None)
        (before,) = results.load([cell])
        before.arms["eager"].facts["first_seconds"] = 33.0
        results.put(before)
        measure_cells(plan, {cell: "too fast"}, results, Limits(), lambda *_: None)
        (after,) = results.load([cell])
        assert after.facts["again"] == "too fast"
        assert after.arms["eager"].facts["first_seconds"] == 33.0
        assert after.arms["eager"].seconds != before.arms["eager"].seconds
        assert "again" not in results.load([other])[0].facts
        assert results.done(plan.cells) == {one.key for one in plan.cells}


def test_killed_run_goes_on_where_it_was(tmp_path: Path) -> None:
    out = tmp_path / "r.sqlite"
    command = [sys.executable, "-m", "fallline", "step", "--optimizer", "adam", "--impl", "eager,fused", "--tensors"]
    command += ["1,2,3", "--sizes", "100,200,400", "--no-flush", "--threads", "1", "--steps", "3", "--out", str(out)]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert running.stderr is not None
    for line in running.stderr:
        if line.startswith("[3/9]"):
            os.kill(running.pid, signal.SIGKILL)
            break
    running.wait()
    assert running.returncode == -signal.SIGKILL
    with sqlite3.connect(out) as database:
        before = dict(database.execute("select key, measured || id from cell"))
    assert 3 <= len(before) < 9
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"{len(before)} of 9 cells are in" in ended.stderr
    with sqlite3.connect(out) as database:
        after = dict(database.execute("select key, measured || id from cell"))
        # Times that a busy machine made doubtful are taken once more.
        again = {key for key, facts in database.execute("select key, facts from cell") if "again" in json.loads(facts)}
        samples = database.execute("select count(*) from sample").fetchone()[0]
        runs = database.execute("select count(*) from run").fetchone()[0]
    assert len(after) == 9 and {key for key in before if after[key] != before[key]} <= again
    assert samples == 9 * 3 * 3  # cells, arms with the probe, steps
    assert runs == 2


def test_flush_is_outside_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def taking(seconds: float) -> None:
        now[0] += seconds

    samples = interleave({"a": lambda: taking(1.0)}, for_rounds(4), before=lambda: taking(100.0))
    assert samples.seconds["a"] == [1.0] * 4
    assert samples.calls["a"] == 1


def test_flush_comes_before_the_calls_that_say_who_is_far_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    now, log = [0.0], []
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def taking(name: str, seconds: float) -> None:
        log.append(name)
        now[0] += seconds

    arms = {"quick": lambda: taking("quick", 0.001), "slow": lambda: taking("slow", 0.05)}
    samples = interleave(
        arms, for_rounds(3), before=lambda: log.append("flush"), thin=Thinning(["quick", "slow"], 4), sample_seconds=0.0
    )
    assert samples.every == {"slow": 4} and len(samples.warm_up["slow"]) > 2
    assert set(log[::2]) == {"flush"} and set(log[1::2]) == {"quick", "slow"}


def test_in_cache_an_arm_is_called_right_before_it_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise it finds there what the last one used, and takes the time of memory."""
    now, log = [0.0], [""]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def taking(name: str) -> None:
        now[0] += 1.0 if log[-1] == name else 7.0
        log.append(name)

    arms = {"a": lambda: taking("a"), "b": lambda: taking("b")}
    samples = interleave(arms, for_rounds(4), in_cache=True, sample_seconds=0.0)
    assert samples.seconds == {"a": [1.0] * 4, "b": [1.0] * 4}


def test_only_cells_that_fit_the_cache_are_timed_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def spied(*arguments: Any, **options: Any) -> Any:
        asked.append((options["before"] is not None, options["in_cache"]))
        return interleave(*arguments, **options)

    monkeypatch.setattr("fallline.step.run.interleave", spied)
    (cell,) = grid([1], [64], arms_of("adam", ["eager", "fused"], {}, "float32"))
    small = dataclasses.replace(cell, steps=2)
    measure(small, Limits(), 1)
    measure(dataclasses.replace(small, flush=True), Limits(), 1)
    monkeypatch.setattr(machine, "last_level_cache", lambda: 100)
    measure(small, Limits(), 1)
    assert asked == [(False, True), (True, False), (False, False)]


def test_arm_that_compiles_once_more_is_not_far_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    now, first = [0.0], iter([60.0])
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def taking(seconds: float) -> None:
        now[0] += seconds

    (cell,) = grid([1], [64], arms_of("adam", ["fused", "torch-compiled"], {}, "float32"))
    thin = _thinning(cell, ["fused", "torch-compiled"], 20.0, 1)
    arms = {"fused": lambda: taking(1.0), "torch-compiled": lambda: taking(next(first, 1.1))}
    samples = interleave(arms, for_rounds(3), thin=thin, sample_seconds=0.0)
    assert samples.every == {} and samples.seconds["torch-compiled"] == pytest.approx([1.1] * 3)


def test_flush_covers_twice_the_last_level() -> None:
    flush = CacheFlush(1 << 20)
    assert flush.bytes == 2 << 20
    flush()
    assert machine.last_level_cache() >= 1 << 18


def test_clock_waits_before_and_after() -> None:
    log: list[str] = []
    seconds_of(lambda: log.append("work"), 2, lambda: log.append("wait"))
    assert log == ["wait", "work", "work", "wait"]
    assert clock.wait_for("cpu") is clock.nothing_to_wait_for


def test_clock_waits_for_the_device_that_works(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[torch.device] = []
    monkeypatch.setattr(torch.accelerator, "synchronize", waited.append)
    clock.wait_for("cuda:1")()
    assert waited == [torch.device("cuda:1")]


def test_arms_far_behind_are_timed_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def taking(seconds: float) -> None:
        now[0] += seconds

    arms = {"quick": lambda: taking(1.0), "slow": lambda: taking(50.0), "probe": lambda: taking(0.01)}
    samples = interleave(arms, for_rounds(9), thin=Thinning(["quick", "slow"], 4), sample_seconds=0.0)
    assert {name: len(s) for name, s in samples.seconds.items()} == {"quick": 9, "slow": 3, "probe": 9}
    assert samples.every == {"slow": 4}
    samples = interleave(arms, for_rounds(18), thin=Thinning(["quick", "slow"], 4, 100.0), sample_seconds=0.0)
    assert {name: len(s) for name, s in samples.seconds.items()} == {"quick": 18, "slow": 2, "probe": 18}
    assert rounds_between_slowest(90) == RARELY


def test_one_very_slow_arm_is_still_compared_where_three_samples_can_settle_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two implementations over a large model: the answer is plain, and is given."""
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def taking(seconds: float) -> None:
        now[0] += seconds

    names = ["quick", "slow"]
    thin = Thinning(names, rounds_between(1), 100.0, rounds_between_slowest(1))
    arms = {"quick": lambda: taking(1.0), "slow": lambda: taking(50.0)}
    samples = interleave(arms, until_decided(names, seconds=100.0), thin=thin, sample_seconds=0.0)
    assert (len(samples.seconds["slow"]), samples.stopped) == (3, "decided")
    assert compare(samples.seconds["quick"], samples.seconds["slow"], paired=False, looks=len(LOOKS)).differs


def test_a_stumble_does_not_put_the_fastest_arm_far_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of 0.5 ms was once taken for one of 4.5 ms, because the machine stopped in its second call."""
    now, stops = [0.0], iter([0.01, 0.004, 0.004])
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def taking(seconds: float) -> None:
        now[0] += seconds

    arms = {"quick": lambda: taking(0.0005 + next(stops, 0.0)), "other": lambda: taking(0.0007)}
    samples = interleave(arms, for_rounds(9), thin=Thinning(["quick", "other"]), sample_seconds=0.0)
    assert samples.every == {}
    assert samples.seconds["quick"] == pytest.approx([0.0005] * 9)


def test_bad_values_are_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Second moments drawn as normal numbers, as in the published script, give NaN at the first step."""
    (cell,) = grid([1], [64], arms_of("adam", ["eager", "fused"], {}, "float32"))
    from fallline.step import arms

    def poisoned(optimizer: object, params: list[torch.nn.Parameter], *rest: object) -> None:
        optimizer.state[params[0]]["exp_avg_sq"].fill_(-1.0)  # type: ignore[attr-defined]

    monkeypatch.setattr(arms, "share_states", poisoned)
    record = measure(cell, Limits(), 1)
    assert "mean of squares" in record.facts["wrong"]
    assert not any(arm.seconds for arm in record.arms.values())


def test_axes_change_the_work() -> None:
    plan = adam_grid(Conditions(threads=(2,), flush=True))
    assert len(plan.cells) == 60 and all(len(cell.arms) == 3 for cell in plan.cells)
    for cells in plan.tables.values():
        assert [(c.tensors, c.size) for c in cells[:7]] == [*((n, 16384) for n in (1, 2, 4, 8, 16, 32)), (1, 65536)]
        assert all(c.elements == c.tensors * (c.size or 0) for c in cells)
    on, off = (cells[-1] for cells in plan.tables.values())
    assert on.working_set() == 20 * on.elements and off.working_set() == 16 * off.elements
    assert on.arms[0].bytes("float32").moved == 36 and off.arms[0].bytes("float32").moved == 28


def test_cached_cells_come_with_and_without_flush() -> None:
    cells = adam_grid(Conditions(threads=(1,))).cells
    bare = [cell for cell in cells if not cell.flush]
    assert bare and all(cell.working_set() <= machine.last_level_cache() for cell in bare)
    flushed = {(cell.shapes, cell.arms) for cell in cells if cell.flush}
    assert all((cell.shapes, cell.arms) in flushed for cell in bare)


def test_head_counts_share_a_cell() -> None:
    plan = adan_gpt2(Conditions(threads=(1,)), 10**12)
    assert len(plan.cells) == 13 < len(CONFIGURATIONS) == 25
    assert len(adan_gpt2(Conditions(threads=(1,))).cells) == 6


def test_too_large_a_grid_is_refused_with_the_number() -> None:
    cells = grid([1, 1000], [1 << 20], arms_of("adam", ["fused"], {}, "float32"))
    with pytest.raises(DoesNotFit, match=r"1000 × 1048576 needs 16\.8 GB .* and 4\.0 GB are available"):
        check_memory(cells, 4 * 10**9)
    check_memory(cells[:1], 4 * 10**9)


def test_temporaries_are_counted() -> None:
    shapes = ((1000,),) * 8
    assert step_temporaries("fused", "adan", (), shapes, "float32") == 0
    loop = step_temporaries("eager", "adan", (), shapes, "float32")
    lists = step_temporaries("foreach", "adan", (), shapes, "float32")
    assert 4000 <= loop < lists  # one tensor's against those of all
    assert lists >= 8 * 4000


def test_matrix_functions_take_memory_in_every_implementation() -> None:
    shapes = ((64, 96),) * 4
    fused, each, loop = (
        step_temporaries(name, "muon", (), shapes, "float32") for name in ("fused", "fused-loop", "eager")
    )
    assert 4 * 4 * 64 * 96 < fused == each <= loop


def test_temporaries_of_lists_stay_in_a_cache() -> None:
    """They come in parts: a list as long as the model would take several times its memory anew in every step."""
    shapes = ((IN_CACHE // 4,),) * 32
    assert 4 * IN_CACHE <= step_temporaries("foreach", "adamw", (), shapes, "float32") <= 6 * 4 * IN_CACHE


@pytest.mark.parametrize("optimizer", ["amos", "amos_algoperf", "lamb", "prodigy", "schedule_free_prodigy"])
def test_temporaries_of_rules_that_read_sums_between_passes(optimizer: str) -> None:
    """The numbers are not there where there is no memory, and the bytes do not depend on them."""
    shapes = ((30, 40), (500,))
    for implementation in ("eager", "foreach"):
        counted = step_temporaries(implementation, optimizer, (), shapes, "float32")
        params = [torch.nn.Parameter(torch.randn(shape)) for shape in shapes]
        for param in params:
            param.grad = torch.randn_like(param)
        made = build(implementation, optimizer, params, {})
        made.step()
        # A norm is one operation on the CPU; without memory it is taken apart, into a temporary more.
        assert 0.98 <= counted / allocated_by_step(made) < 1.5


def test_data_are_named_after_memory_too() -> None:
    assert data_id([]) == data_id([], {}) != data_id([], {"a": {"true": 1}}) != data_id([], {"a": {"true": 2}})


def test_key_names_what_is_measured_and_nothing_else() -> None:
    (cell,) = grid([1], [64], arms_of("adam", ["eager", "fused"], {}, "float32"))
    assert cell.key == dataclasses.replace(cell, label="other", table="another").key
    for change in ({"threads": 2}, {"flush": True}, {"dtype": "bfloat16"}, {"arms": cell.arms[:1]}):
        assert dataclasses.replace(cell, **change).key != cell.key  # type: ignore[arg-type]
    assert isinstance(cell, Cell)


@pytest.mark.parametrize("cache", [1 << 16, 1 << 30], ids=["small cache", "large cache"])
@pytest.mark.parametrize(
    "arms", [("eager", "fused", "fused-loop", "torch-loop", "torch-fused"), ("foreach", "fused", "torch-foreach")]
)
def test_many_arms_take_no_more_memory_than_the_cell_and_one_set_of_states(
    arms: tuple[str, ...], cache: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An implementation's own temporaries come on top, as counted beforehand.  Bytes of tensors are counted, because
    the memory of a process depends on the allocator; the size of the probe follows the cache and is told apart."""
    monkeypatch.setattr("fallline.measure.machine.last_level_cache", lambda: cache)
    monkeypatch.setattr("fallline.step.plan.PART", 4 << 16)
    monkeypatch.setattr("fallline.step.arms.PART", 4 << 16)
    (cell,) = grid([24], [1 << 16], arms_of("adam", arms, {}, "float32"))
    cell = dataclasses.replace(cell, steps=2)
    needed = cell.needed()  # beforehand, because the tensors on which temporaries are counted would be counted here
    with LiveBytes() as live:
        record = measure(cell, Limits(), 1)
    assert all(len(arm.seconds) == 2 for arm in record.arms.values())
    small = (1 << 15) + 4 * 4 * bandwidth._STAGGER  # counters, and what keeps the probe's four streams apart
    assert cell.working_set() <= live.peak <= needed + small < needed + 8 * cell.elements
    states_of_a_part, most = 8 * (4 << 16), max(cell.temporaries(arm) for arm in cell.arms)
    assert needed == cell.working_set() + max(states_of_a_part, cell.instruments()) + most
