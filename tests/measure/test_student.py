"""Student's t distribution against scipy's."""

from __future__ import annotations

import math

import pytest

from fallline.measure.student import incomplete_beta, t_quantile, t_tail

FREEDOMS = (1.0, 1.7, 2.0, 3.0, 4.0, 6.5, 8.0, 11.0, 30.0, 100.0, 1234.5)


@pytest.mark.parametrize("freedom", FREEDOMS)
def test_tails_are_scipys(freedom: float) -> None:
    stats = pytest.importorskip("scipy.stats")
    for value in (-40.0, -3.0, -0.2, 0.0, 1e-6, 0.5, 1.0, 2.5, 7.0, 60.0, 1e4):
        assert t_tail(value, freedom) == pytest.approx(stats.t.sf(value, freedom), rel=1e-9, abs=1e-300)


@pytest.mark.parametrize("freedom", FREEDOMS)
def test_quantiles_are_scipys(freedom: float) -> None:
    stats = pytest.importorskip("scipy.stats")
    for tail in (0.4999, 0.3, 0.05, 0.003, 0.006 / 13 / 55 / 2, 1e-9, 0.7, 0.9999):
        assert t_quantile(tail, freedom) == pytest.approx(stats.t.isf(tail, freedom), rel=1e-8)


def test_the_incomplete_beta_function_is_scipys() -> None:
    special = pytest.importorskip("scipy.special")
    for x in (0.0, 1e-12, 0.01, 0.3, 0.5, 0.9, 1 - 1e-9, 1.0):
        for a, b in ((0.5, 0.5), (1.0, 3.0), (20.0, 0.5), (0.5, 300.0), (7.0, 8.0)):
            assert incomplete_beta(x, a, b) == pytest.approx(special.betainc(a, b, x), rel=1e-10, abs=1e-300)


def test_infinite_freedom_is_the_normal_distribution() -> None:
    assert t_tail(1.959963984540054, math.inf) == pytest.approx(0.025, rel=1e-12)
    assert t_quantile(0.025, math.inf) == pytest.approx(1.959963984540054, rel=1e-12)


def test_many_degrees_of_freedom_come_near_the_normal_distribution() -> None:
    assert t_quantile(0.001, 1e6) == pytest.approx(t_quantile(0.001, math.inf), rel=1e-5)


def test_a_quantile_is_undone_by_its_tail() -> None:
    for freedom in FREEDOMS:
        for tail in (1e-6, 0.003, 0.2, 0.5, 0.95):
            assert t_tail(t_quantile(tail, freedom), freedom) == pytest.approx(tail, rel=1e-9)


def test_impossible_arguments_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="tail must be between 0 and 1, got 0"):
        t_quantile(0.0, 3.0)
    with pytest.raises(ValueError, match="freedom must be > 0, got 0"):
        t_tail(1.0, 0.0)
    assert math.isnan(t_tail(math.nan, 3.0))
