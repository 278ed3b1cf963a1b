"""Fixtures of all of these tests."""

import os

import pytest


@pytest.fixture(scope="session", autouse=True)
def _private_kernel_cache(tmp_path_factory):
    """Kernels of the rules made here go to a directory of this run, which its processes share."""
    folder = tmp_path_factory.getbasetemp()
    folder = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    before = os.environ.get("FALLLINE_CACHE_DIR")
    os.environ["FALLLINE_CACHE_DIR"] = str(folder / "kernels")
    yield
    if before is None:
        del os.environ["FALLLINE_CACHE_DIR"]
    else:
        os.environ["FALLLINE_CACHE_DIR"] = before
