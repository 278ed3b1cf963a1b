"""What all tests share."""

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
