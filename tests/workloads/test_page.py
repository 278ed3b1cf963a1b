"""``docs/workloads.md`` is made from the workloads and their records."""

from __future__ import annotations

from types import ModuleType

import pytest

from fallline.workloads import ALGOPERF, BUILT_IN
from tests.docs.pages import DOCS, writer_of


@pytest.fixture(scope="module")
def writer() -> ModuleType:
    return writer_of("workloads")


@pytest.fixture(scope="module")
def page() -> str:
    return (DOCS / "workloads.md").read_text(encoding="utf-8")


def test_the_page_is_current(writer: ModuleType, page: str) -> None:
    assert writer.page() == page, "run `make docs`"


def test_every_workload_is_on_it(page: str) -> None:
    assert all(f"| `{name}` |" in page for name in BUILT_IN)


def test_algoperfs_own_values_stand_beside(writer: ModuleType, page: str) -> None:
    assert tuple(writer.PUBLISHED) == ALGOPERF
    for name, cells in writer.PUBLISHED.items():
        assert f"| `{name}` | {' | '.join(cells)} |" in page
