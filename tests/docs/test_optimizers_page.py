"""``docs/optimizers.md`` is made from the optimizers' own data, and each of them has what a page needs."""

from __future__ import annotations

import re
from types import ModuleType

import pytest

import fallline
from fallline import averaging, schedules, teaching
from tests.docs.pages import DOCS, writer_of

OWN = [name for name in fallline.list_optimizers() if fallline.info(name).preset_of is None]

AROUND = ["lawa_queue", "weight_ema", "equal_cycles", "nested_restarts", "warmup_cosine", "warmup_stable_decay"]
AROUND += ["lr_range_test", "full_matrix_adagrad", "line_search_gd"]
CHAPTERS = ["averages", "schedules", "finding", "small_problems"]


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
    assert targets == {*fallline.list_optimizers(), *AROUND, *CHAPTERS}
    assert set(re.findall(r"\]\(#(\w+)\)", page)) == {*fallline.list_optimizers(), *CHAPTERS}


def test_chapters_about_other_packages_belong_to_optimizers_that_link_to_them(writer: ModuleType, page: str) -> None:
    chapters = writer.elsewhere()
    assert {fallline.info(name).class_name for name in OWN} >= set(chapters) != set()
    assert re.findall(r"\(elsewhere\.md#(\w+)\)", page) == sorted(name.lower() for name in chapters)


def test_everything_public_that_is_used_with_an_optimizer_is_on_it(page: str) -> None:
    for name in [*averaging.__all__, *schedules.__all__, *teaching.__all__, "lr_range_test"]:
        shown = name if name == "lr_range_test" or not name.islower() else "".join(map(str.capitalize, name.split("_")))
        assert f"`fallline.{shown}(" in page


def test_states_that_not_every_parameter_has_say_what_they_depend_on(page: str) -> None:
    assert "| `row_var` | nonneg, one per row | yes; depends on number of axes | 32 bits |" in page
    assert "| `max_exp_avg_sq` | nonneg | no; depends on amsgrad | 32, 16, 8, 4 bits |" in page
    assert "| `exp_avg_fast` | signed | yes; depends on beta1 | 32, 16, 8, 4 bits |" in page


def test_rules_without_a_direction_say_that_they_are_never_cautious(page: str) -> None:
    refusing = [name for name in OWN if "cautious" in fallline.info(name).cannot]
    assert refusing == ["nag4", "nag_gs", "schedule_free_adamw", "schedule_free_prodigy", "schedule_free_sgd"]
    assert page.count("Refuses `cautious=True`") == len(refusing)


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
    """Purpose, when to use it, the maths, the arguments, an example, a reference, in this order."""
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
