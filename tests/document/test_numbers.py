"""Numbers have the digits that are known, whatever their size."""

from __future__ import annotations

import doctest
import math

import pytest

from fallline.cli import options
from fallline.document import cells, numbers
from fallline.document.cells import Change, Column, Number, Range, text_of
from fallline.document.figures import Bar, Part, StackedBars
from fallline.document.html.descriptions import description
from fallline.document.stacked import lines
from fallline.measure import known_speeds, load


@pytest.mark.parametrize("module", [cells, known_speeds, load, numbers, options], ids=lambda module: module.__name__)
def test_examples_are_true(module: object) -> None:
    found = doctest.testmod(module)  # type: ignore[arg-type]
    assert found.attempted > 0 and found.failed == 0


@pytest.mark.parametrize("digits", [3, 4])
def test_significant_digits_do_not_depend_on_the_power_of_ten(digits: int) -> None:
    for power in range(-4, digits):
        for value in (1.0, 1.2345678, 9.9949, 9.9951, 9.99951):
            text = numbers.significant(value * 10.0**power, digits)
            shown = text.replace(".", "").lstrip("0")
            assert len(shown) == digits or (len(shown) == digits + 1 and "." not in text), (value, power, text)
            assert float(text) == pytest.approx(value * 10.0**power, rel=0.6 * 10.0 ** (1 - digits))


@pytest.mark.parametrize("digits", ["supported", "three", "four", "general", "whole", "seconds", "share", 2])
def test_no_rule_writes_infinity(digits: numbers.Digits) -> None:
    assert {numbers.written(value, digits) for value in (math.inf, -math.inf, math.nan)} == {numbers.ABSENT}


def test_a_number_that_is_nothing_in_the_unit_of_its_column_has_no_exponent() -> None:
    column = Column("at the peak\nGB", unit="GB", digits="three")
    assert [text_of(Number(value), column) for value in (6.23, 8e-9, 0.0, -2e-7)] == ["6.23", "<0.001", "0", ">-0.001"]
    assert text_of(Range(8e-9, 6.23), column) == "<0.001 to 6.23"
    assert text_of(Change(6.23, 8e-9), column) == "6.23 → <0.001"
    assert text_of(Number(3e-5), Column("lr", digits="three")) == "3.00e-05", "a rate has no unit, and is not nothing"


def test_a_section_that_is_nothing_in_the_unit_of_its_bar_has_no_exponent() -> None:
    bar = Bar("gpt", [Part("parameters", 6.23), Part("rest", 8e-9)])
    figure = StackedBars("m", "Memory", "GB", [bar])
    assert "rest <0.001" in description(figure)
    assert any(line.startswith("rest") and "<0.001 GB" in line for line in lines(figure, 80))
