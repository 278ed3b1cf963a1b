"""The job that trains every rule in 8 bits: it leaves none out, and says "the same" only of what is."""

from __future__ import annotations

import pytest

import fallline
from benchmarks.int8_rules import RULES, Problem, outcome, rules, sentence, train


def test_every_rule_with_states_for_8_bits_is_there() -> None:
    infos = {name: fallline.info(name) for name in fallline.list_optimizers()}
    low = {name for name, info in infos.items() if "int8" in info.formats and info.preset_of is None}
    assert low <= set(rules()) == set(RULES)


def test_a_run_is_its_key() -> None:
    problem = Problem(steps=3)
    first, again = (train(problem, "adamw", "int8", 0) for _ in range(2))
    assert first == again
    assert first["coded"] == 4  # two moments of two matrices; biases are too small
    assert train(problem, "adamw", "float32", 0)["coded"] == 0


@pytest.mark.parametrize(
    ("narrow", "shown"),
    [([0.301, 0.2995, 0.3002], True), ([0.31, 0.309, 0.3105], False), ([0.33, 0.27, 0.30], False)],
)
def test_the_same_is_said_of_what_is(narrow: list[float], shown: bool) -> None:
    wide = [{"start": 1.0, "loss": 0.3, "coded": 0.0}] * 3
    found = outcome("adamw", wide, [{"start": 1.0, "loss": x, "coded": 4.0} for x in narrow])
    assert found.shown is shown
    assert ("1 of 1" if shown else "0 of 1") in sentence([found], Problem())


def test_runs_that_learn_or_code_nothing_show_nothing() -> None:
    idle = [{"start": 1.0, "loss": 0.99 + 1e-5 * i, "coded": 4.0} for i in range(3)]
    assert not outcome("adamw", idle, idle).shown
    plain = [{"start": 1.0, "loss": 0.3 + 1e-5 * i, "coded": 0.0} for i in range(3)]
    assert not outcome("adamw", plain, plain).shown
