"""The conditions of tests of native kernels; without them they are skipped."""

from __future__ import annotations

import pytest

from fallline.lower.native.compiler import find_compiler
from fallline.lower.native.library import NativeUnavailable, library


def needs_native() -> None:
    """The kernels that were built."""
    try:
        library()
    except NativeUnavailable as reason:
        pytest.skip(str(reason))


def needs_native_and_a_compiler() -> None:
    """For rules of a test's own."""
    needs_native()
    try:
        find_compiler()
    except NativeUnavailable as reason:
        pytest.skip(str(reason))
