"""``docs/optimizers.md`` is made from the optimizers' own data, and each of them has what a page needs."""

from __future__ import annotations

import re
from types import ModuleType

import pytest

import fallline
from tests.docs.pages import DOCS, writer_of

OWN = [name for name in fallline.list_optimizers() if fallline.info(name).preset_of is None]


@pytest.fixture(scope="module")
def writer() -> ModuleType:
    return writer_of("optimizers")


@pytest.fixture(scope="module")
def page() -> str:
    return (DOCS / "optimizers.md").read_text(encoding="utf-8")


def test_page_is_current(writer: ModuleType, page: str) -> None:
    made = writer.page([fallline.info(name) for name in fallline.list_optimizers()])
    assert made == page, "run `make docs`"


def test_every_optimizer_is_on_it_and_every_link_leads_there(page: str) -> None:
    targets = set(re.findall(r'<a id="(\w+)">', page))
    assert targets == set(fallline.list_optimizers())
    assert set(re.findall(r"\]\(#(\w+)\)", page)) == targets


def test_nothing_of_the_docstrings_is_left_unwritten(page: str) -> None:
    outside = re.sub(r"```.*?```", "", page, flags=re.DOTALL)
    assert not re.search(r"^\.\. |:math:|:class:|``", outside, flags=re.MULTILINE)


def test_a_table_has_as_many_cells_in_every_row(page: str) -> None:
    outside = re.sub(r"```.*?```", "", page, flags=re.DOTALL)
    for table in re.findall(r"(?:^\|.*\n)+", outside, flags=re.MULTILINE):
        counts = {len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}
        assert len(counts) == 1, table


@pytest.mark.parametrize("name", OWN)
def test_docstring_has_its_shape(name: str) -> None:
    """What it is, when to use it, the maths, the arguments, an example, a reference, in this order."""
    info = fallline.info(name)
    headings = [r"\A\S.*\.\n\n\S", r"^\.\. math::$", r"^Arguments:$", r"^Example:$", r"^References:$"]
    places = [re.search(pattern, info.doc, flags=re.MULTILINE) for pattern in headings]
    assert all(places), [pattern for pattern, place in zip(headings, places, strict=True) if place is None]
    starts = [place.start() for place in places if place]
    assert starts == sorted(starts)


@pytest.mark.parametrize("name", OWN)
def test_arguments_of_a_docstring_are_those_of_the_class(name: str) -> None:
    info = fallline.info(name)
    body = info.doc.partition("Arguments:\n")[2].partition("\n\n")[0]
    named = [n.strip() for line in re.findall(r"^    ([\w, ]+):", body, flags=re.MULTILINE) for n in line.split(",")]
    assert sorted(named) == sorted(info.defaults)


@pytest.mark.parametrize("name", OWN)
def test_variants_have_their_names_in_the_docstring(name: str) -> None:
    info = fallline.info(name)
    assert info.sources
    for variant in info.variants:
        assert f'"{variant}"' in info.doc


def test_a_page_that_is_not_current_is_noticed(writer: ModuleType) -> None:
    infos = [fallline.info("adamw")]
    other = fallline.info("adamw")
    object.__setattr__(other, "deviations", ("none but this",))
    assert writer.page(infos) != writer.page([other])
