"""The example in every optimizer's file runs and gives what it says."""

import doctest
import importlib

import pytest

from fallline.optimizers import FILES


@pytest.mark.parametrize("file", sorted(set(FILES.values())))
def test_example_runs(file: str) -> None:
    module = importlib.import_module(f"fallline.optimizers.{file}")
    result = doctest.testmod(module)
    assert result.attempted > 0, "there is no example"
    assert result.failed == 0
