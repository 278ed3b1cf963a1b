"""Every example in a docstring runs."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import fallline

SOURCES = Path(fallline.__file__).parent
MODULES = [
    ".".join(("fallline", *path.relative_to(SOURCES).with_suffix("").parts)).removesuffix(".__init__")
    for path in sorted(SOURCES.rglob("*.py"))
    if ">>>" in path.read_text(encoding="utf-8")
]


def test_every_optimizer_has_an_example() -> None:
    from fallline.optimizers import FILES

    assert {f"fallline.optimizers.{name}" for name in FILES.values()} <= set(MODULES)


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings_run(module: str) -> None:
    results = doctest.testmod(importlib.import_module(module), verbose=False)
    assert results.attempted > 0
    assert results.failed == 0
