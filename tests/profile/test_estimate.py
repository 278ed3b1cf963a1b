"""Estimates on samples whose truth is known: a planted difference is found, twins are not told apart."""

from __future__ import annotations

import pytest

from benchmarks.simulated_profiles import BACKWARD, DATA, FORWARD, simulated
from fallline.profile.estimate import estimate

STEP = 0.003
WHOLE = DATA + FORWARD + BACKWARD + STEP


def test_a_planted_three_percent_is_found_from_the_step_phase_and_not_from_whole_steps() -> None:
    found = whole = 0
    for seed in range(30):
        arm = estimate(simulated({"adamw": STEP, "slow": STEP + 0.03 * WHOLE}, seed=seed)).arms["slow"]
        assert arm.delta is not None and arm.whole_delta is not None
        found += arm.delta.high < 0
        whole += arm.whole_delta.high < 0
        assert arm.delta.value == pytest.approx(-0.03 / 1.03, abs=0.006)
    assert found == 30 and whole < 30


def test_twins_are_hardly_ever_called_different() -> None:
    wrong = 0
    for seed in range(200):
        delta = estimate(simulated({"adamw": STEP, "twin": STEP}, seed=seed, blocks=2, rounds=5)).arms["twin"].delta
        assert delta is not None
        wrong += not delta.holds(0.0)
    # 4 are expected at 2 %; 12 or more come in less than one test of a thousand.
    assert wrong < 12


def test_differences_agree_with_the_printed_seconds() -> None:
    cell = estimate(simulated({"adamw": STEP, "quick": STEP / 2, "slow": 2 * STEP}))
    base = cell.baseline
    assert base is not None
    for arm in cell.arms.values():
        if arm.delta is not None:
            assert base.seconds / arm.seconds - 1 == pytest.approx(arm.delta.value, rel=1e-9)


def test_unequal_forward_passes_are_seen() -> None:
    cell = estimate(simulated({"adamw": STEP, "spills": STEP}, passes={"spills": 1.1}, placement=0.001))
    alike = cell.arms["spills"].alike
    assert alike is not None and alike.low > 1.05


def test_one_block_has_no_interval() -> None:
    delta = estimate(simulated({"adamw": STEP, "twin": STEP}, blocks=1, repeats=1)).arms["twin"].delta
    assert delta is not None and delta.low == float("-inf")


def test_hessian_updates_are_spread_over_all_steps() -> None:
    record = simulated({"adamw": STEP, "sophiag": STEP}, noise=0.0, placement=0.0)
    for step in record.steps:
        if step.arm == "sophiag" and step.step % 10 == 5:
            step.seconds = {**step.seconds, "curvature": 0.08, "cpu.curvature": 0.08}
    arm = estimate(record).arms["sophiag"]
    assert arm.own == pytest.approx(STEP + 0.008)
    assert arm.delta is not None and arm.delta.value == pytest.approx(-0.008 / (WHOLE + 0.008), rel=1e-6)


def test_a_busy_single_thread_counts_cpu_time() -> None:
    record = simulated({"adamw": STEP, "slow": 2 * STEP}, noise=0.0, placement=0.0)
    object.__setattr__(record.plan, "threads", 1)
    for number, step in enumerate(record.steps):
        walls = {
            p: s * (1 + number % 3) for p, s in step.seconds.items() if p in ("data", "forward", "backward", "step")
        }
        step.seconds = {**step.seconds, **walls}
    cell = estimate(record)
    assert cell.clock == "cpu"
    assert cell.arms["slow"].delta is not None
    assert cell.arms["slow"].delta.value == pytest.approx(-STEP / (WHOLE + STEP), rel=1e-6)
