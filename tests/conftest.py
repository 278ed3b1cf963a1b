"""Shared by all tests."""

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="session")
def compiled_rules_in_a_temporary_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nothing is left in the user's cache, and nothing old is found there; the workers of one run share it."""
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    before = os.environ.get("FALLLINE_CACHE_DIR")
    os.environ["FALLLINE_CACHE_DIR"] = str(base / "compiled-rules")
    yield
    if before is None:
        del os.environ["FALLLINE_CACHE_DIR"]
    else:
        os.environ["FALLLINE_CACHE_DIR"] = before


@pytest.fixture
def one_thread() -> Iterator[None]:
    """For tests of many small operations: threads of several test processes wait for each other longer than
    they work."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
