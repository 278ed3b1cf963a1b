"""The packages that are compared with; a test whose package is missing is skipped."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import packages
from benchmarks.arms import NotInstalled


def class_of(module: str, name: str) -> Any:
    try:
        return packages.class_of(module, name)
    except NotInstalled as reason:
        pytest.skip(f"{reason}; `make test-authors` installs it")


def timm_class(module: str, name: str) -> Any:
    return class_of(f"timm.optim.{module}", name)
