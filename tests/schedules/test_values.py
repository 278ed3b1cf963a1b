"""Rates at every step, against values computed by hand."""

import math

import pytest
import torch
from torch.optim import lr_scheduler

from fallline.schedules import equal_cycles, nested_restarts, warmup_cosine, warmup_stable_decay


def rates(form, count, peak=1.0, **settings):
    return [form(s, peak, **settings) for s in range(count)]


def near(values):
    return pytest.approx(values, rel=1e-14, abs=1e-16)


# cos of 0, 45, 60, 90, 120, 135 and 180 degrees as half cosines, (1 + cos) / 2.
C45, C60, C90, C120, C135 = (2 + math.sqrt(2)) / 4, 0.75, 0.5, 0.25, (2 - math.sqrt(2)) / 4


class TestWarmupCosine:
    def test_every_step(self):
        found = rates(warmup_cosine, 9, peak=2.0, total_steps=6, warmup_steps=2)
        assert found == near([0.0, 1.0, 2.0, 2 * C45, 1.0, 2 * C135, 0.0, 0.0, 0.0])
        assert found[6] == 0.0

    def test_without_warmup_the_first_update_has_the_peak(self):
        for first in ("jax", "torch-linear", "peak-first"):
            found = rates(warmup_cosine, 5, total_steps=4, first_step=first)
            assert found == near([1.0, C45, 0.5, C135, 0.0])

    def test_all_warmup(self):
        assert rates(warmup_cosine, 6, total_steps=4, warmup_steps=4) == near([0, 0.25, 0.5, 0.75, 1.0, 0.0])

    def test_last_rate(self):
        found = rates(warmup_cosine, 7, total_steps=5, warmup_steps=1, lr_end=0.5)
        assert found == near([0.0, 1.0, 0.5 + C45 / 2, 0.75, 0.5 + C135 / 2, 0.5, 0.5])

    def test_jax_the_first_update_changes_nothing(self):
        assert warmup_cosine(0, 3.0, total_steps=10, warmup_steps=4, first_step="jax") == 0.0

    def test_torch_linear_starts_at_a_tiny_share_of_the_peak(self):
        found = rates(warmup_cosine, 4, peak=3.0, total_steps=10, warmup_steps=2, first_step="torch-linear")
        assert found[:3] == near([3e-10, 3 * (0.5 + 0.5e-10), 3.0])

    def test_torch_linear_is_algoperfs_sequence_of_torch_schedulers(self):
        total, warmup, peak = 20, 6, 0.03
        opt = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=peak)
        theirs = lr_scheduler.SequentialLR(
            opt,
            [
                lr_scheduler.LinearLR(opt, start_factor=1e-10, end_factor=1.0, total_iters=warmup),
                lr_scheduler.CosineAnnealingLR(opt, T_max=total - warmup),
            ],
            milestones=[warmup],
        )
        for s in range(total + 1):
            ours = warmup_cosine(s, peak, total_steps=total, warmup_steps=warmup, first_step="torch-linear")
            assert opt.param_groups[0]["lr"] == pytest.approx(ours, rel=1e-12, abs=1e-17), s
            opt.step()
            theirs.step()

    def test_peak_first_is_jax_but_for_the_first_update(self):
        settings = {"total_steps": 8, "warmup_steps": 3}
        jax = rates(warmup_cosine, 10, **settings, first_step="jax")
        assert rates(warmup_cosine, 10, **settings, first_step="peak-first") == [1.0, *jax[1:]]

    def test_cosine_decay_fraction_leaves_zero_for_the_last_quarter(self):
        found = rates(warmup_cosine, 9, total_steps=8, warmup_steps=2, cosine_decay_fraction=0.75)
        assert found == near([0.0, 0.5, 1.0, C45, 0.5, C135, 0.0, 0.0, 0.0])

    def test_cosine_decay_fraction_rounds_the_end_down(self):
        # int(0.75 * 7) = 5
        found = rates(warmup_cosine, 7, total_steps=7, warmup_steps=1, cosine_decay_fraction=0.75)
        assert found == near([0.0, 1.0, C45, 0.5, C135, 0.0, 0.0])


class TestEqualCycles:
    def test_one_cycle(self):
        m, a = 1e-10, 2.0
        found = rates(equal_cycles, 8, peak=a, total_steps=6, warmup_steps=2)
        d = a - m
        assert found == near([a, m + d / 2, a, m + d * C45, m + d / 2, m + d * C135, m, m])
        assert found[6] == m

    def test_two_cycles_have_the_same_peak_and_length(self):
        m = 0.25
        found = rates(equal_cycles, 15, total_steps=12, warmup_steps=2, cycles=2, lr_min=m)
        d = 1 - m
        leg = [m + d / 2, 1.0, m + d * C45, m + d / 2, m + d * C135, m]
        # Step 6 is the end of the first cosine and the start of the second ramp: both are the lowest rate.
        assert found == near([1.0, *leg, *leg, m, m])

    def test_cycles_of_broken_length(self):
        # L = 7/2: the second ramp begins between two steps.
        m = 1e-10
        d = 1 - m

        def down(x):
            return m + d * (1 + math.cos(math.pi * x)) / 2

        found = rates(equal_cycles, 9, total_steps=7, warmup_steps=1, cycles=2)
        expected = [
            1.0,
            1.0,
            down(1 / 2.5),
            down(2 / 2.5),
            m + d * 0.5,
            down(0.5 / 2.5),
            down(1.5 / 2.5),
            m,
            m,
        ]
        assert found == near(expected)

    def test_first_update_by_the_formula(self):
        assert equal_cycles(0, 1.0, total_steps=6, warmup_steps=2, first_step="jax") == 1e-10
        assert equal_cycles(0, 1.0, total_steps=6, warmup_steps=2) == 1.0

    def test_without_warmup(self):
        found = rates(equal_cycles, 9, total_steps=8, warmup_steps=0, cycles=2, lr_min=0.0, first_step="jax")
        assert found == near([1.0, C45, 0.5, C135, 0.0, C45, 0.5, C135, 0.0])

    def test_one_cycle_is_warmup_cosine_up_to_its_lowest_rate(self):
        for s in range(30):
            a = equal_cycles(s, 0.01, total_steps=25, warmup_steps=5)
            b = warmup_cosine(s, 0.01, total_steps=25, warmup_steps=5, first_step="peak-first")
            assert a == pytest.approx(b, abs=1.01e-10)


class TestNestedRestarts:
    def test_every_step_with_round_numbers(self):
        # T = 16, w = 1/4; legs end at 8 and 12.  W1 = int(0.25 * 8) = 2, outer ramp int(0.25 * 16) = 4.
        found = rates(nested_restarts, 18, peak=2.0, total_steps=16, warmup_factor=0.25, restarts=(0.5, 0.75))
        first = [0.0, 1.0] + [1 + math.cos(math.pi * i / 6) for i in range(6)]
        outer = [1 + math.cos(math.pi * (s - 4) / 12) for s in (8, 12)]
        assert outer == near([1.5, 0.5])
        second = [1.5 * c for c in (1.0, C45, C90, C135)]
        third = [0.5 * c for c in (1.0, C45, C90, C135)]
        assert found == near([*first, *second, *third, 0.0, 0.0])
        assert found[16] == 0.0

    def test_caspr_at_every_boundary(self):
        total, w, peak = 1000, 0.1, 0.002
        t1, t2 = 535.71619898, 750.0
        w1, w3 = 53, 100  # int(53.57), int(100.0)

        def outer(s):
            return peak * (1 + math.cos(math.pi * (s - w3) / (total - w3))) / 2

        def leg(high, begin, end, s):
            return high * (1 + math.cos(math.pi * (s - begin) / (end - begin))) / 2

        expected = {
            0: 0.0,
            1: peak / 53,
            52: peak * 52 / 53,
            53: peak,
            54: leg(peak, w1, t1, 54),
            535: leg(peak, w1, t1, 535),
            536: leg(outer(t1), t1, t2, 536),
            749: leg(outer(t1), t1, t2, 749),
            750: outer(t2),
            751: leg(outer(t2), t2, total, 751),
            999: leg(outer(t2), t2, total, 999),
            1000: 0.0,
            1001: 0.0,
        }
        for s, rate in expected.items():
            found = nested_restarts(s, peak, total_steps=total, warmup_factor=w)
            assert found == pytest.approx(rate, rel=1e-12, abs=1e-18), s
        assert nested_restarts(536, peak, total_steps=total, warmup_factor=w) > 100 * expected[535]

    def test_without_restarts_it_is_warmup_cosine(self):
        for s in range(25):
            a = nested_restarts(s, 0.5, total_steps=20, warmup_factor=0.25, restarts=())
            assert a == warmup_cosine(s, 0.5, total_steps=20, warmup_steps=5)


class TestWarmupStableDecay:
    @pytest.mark.parametrize(
        ("decay", "shape"),
        [
            ("linear", [1.0, 0.75, 0.5, 0.25, 0.0]),
            ("cosine", [1.0, C45, C90, C135, 0.0]),
            ("1-sqrt", [1.0, 0.5, 1 - math.sqrt(0.5), 1 - math.sqrt(0.75), 0.0]),
        ],
    )
    def test_every_step(self, decay, shape):
        found = rates(warmup_stable_decay, 12, peak=2.0, total_steps=10, warmup_steps=2, decay_steps=4, decay=decay)
        assert found == near([0.0, 1.0, 2.0, 2.0, 2.0, 2.0, *(2 * x for x in shape), 0.0])
        assert found[10] == 0.0

    def test_last_rate(self):
        found = rates(warmup_stable_decay, 5, total_steps=3, decay_steps=2, lr_end=0.5)
        assert found == near([1.0, 1.0, 0.75, 0.5, 0.5])

    def test_no_plateau(self):
        found = rates(warmup_stable_decay, 6, total_steps=4, warmup_steps=2, decay_steps=2)
        assert found == near([0.0, 0.5, 1.0, 0.5, 0.0, 0.0])

    def test_no_decay(self):
        found = rates(warmup_stable_decay, 5, total_steps=3, warmup_steps=1, decay_steps=0, lr_end=0.125)
        assert found == near([0.0, 1.0, 1.0, 0.125, 0.125])

    @pytest.mark.parametrize(("first", "rate"), [("jax", 0.0), ("torch-linear", 2e-10), ("peak-first", 2.0)])
    def test_first_update(self, first, rate):
        found = rates(warmup_stable_decay, 3, peak=2.0, total_steps=9, warmup_steps=2, decay_steps=1, first_step=first)
        assert found == near([rate, 1.0 + (1e-10 if first == "torch-linear" else 0.0), 2.0])


BAD = [
    (warmup_cosine, {"total_steps": 0}, "total_steps must be a whole number >= 1, got 0"),
    (warmup_cosine, {"total_steps": 2.5}, "total_steps must be a whole number >= 1, got 2.5"),
    (
        warmup_cosine,
        {"total_steps": 10, "warmup_steps": -1},
        "warmup_steps must be a whole number >= 0, got -1",
    ),
    (warmup_cosine, {"total_steps": 10, "warmup_steps": 11}, "warmup_steps must be at most the 10 .* got 11"),
    (
        warmup_cosine,
        {"total_steps": 10, "warmup_steps": 6, "cosine_decay_fraction": 0.5},
        "warmup_steps must be at most the 5 steps after which the decay ends, got 6",
    ),
    (
        warmup_cosine,
        {"total_steps": 10, "cosine_decay_fraction": 0},
        r"cosine_decay_fraction must be in \(0, 1\]",
    ),
    (
        warmup_cosine,
        {"total_steps": 10, "cosine_decay_fraction": 1.1},
        r"cosine_decay_fraction must be in \(0, 1\]",
    ),
    (warmup_cosine, {"total_steps": 10, "lr_end": -1}, "lr_end must be >= 0, got -1"),
    (
        warmup_cosine,
        {"total_steps": 10, "first_step": "numpy"},
        "first_step must be 'jax' or .*, got 'numpy'",
    ),
    (
        equal_cycles,
        {"total_steps": 10, "warmup_steps": 5, "cycles": 2},
        r"less than the 5 steps of a cycle \(10 / 2",
    ),
    (
        equal_cycles,
        {"total_steps": 10, "warmup_steps": 1, "cycles": 0},
        "cycles must be a whole number >= 1, got 0",
    ),
    (equal_cycles, {"total_steps": 10, "warmup_steps": 1, "lr_min": -1}, "lr_min must be >= 0, got -1"),
    (
        equal_cycles,
        {"total_steps": 10, "warmup_steps": 1, "first_step": "torch-linear"},
        "first_step must be 'peak-first' or 'jax'",
    ),
    (nested_restarts, {"total_steps": 10, "warmup_factor": 1.0}, r"warmup_factor must be in \[0, 1\), got 1"),
    (
        nested_restarts,
        {"total_steps": 10, "warmup_factor": 0.1, "restarts": (0.7, 0.5)},
        r"restarts must increase and lie between 0 and 1, got \(0.7, 0.5\)",
    ),
    (
        nested_restarts,
        {"total_steps": 10, "warmup_factor": 0.1, "restarts": (1.0,)},
        "restarts must increase",
    ),
    (
        warmup_stable_decay,
        {"total_steps": 10, "warmup_steps": 6, "decay_steps": 5},
        r"warmup_steps \+ decay_steps must be at most total_steps = 10, got 6 \+ 5",
    ),
    (
        warmup_stable_decay,
        {"total_steps": 10, "decay_steps": 1, "decay": "x"},
        "decay must be 'linear' or .* got 'x'",
    ),
    (
        warmup_stable_decay,
        {"total_steps": 10, "decay_steps": -1},
        "decay_steps must be a whole number >= 0, got -1",
    ),
]


@pytest.mark.parametrize(
    ("form", "settings", "message"), BAD, ids=[f"{f.__name__}-{i}" for i, (f, _, _) in enumerate(BAD)]
)
def test_bad_arguments(form, settings, message):
    with pytest.raises(ValueError, match=message):
        form(0, 1.0, **settings)


def test_argument_that_is_no_number():
    with pytest.raises(TypeError, match="total_steps must be a whole number"):
        warmup_cosine(0, 1.0, total_steps="many")
