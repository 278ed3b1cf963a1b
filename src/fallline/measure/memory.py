"""The physical memory of this process.

Peaks are taken in a separate pass, never inside a timed one. Bytes of tensors are in :mod:`fallline.memory.live`.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
from pathlib import Path


def resident() -> int | None:
    """The bytes of this process in physical memory now."""
    return _status("VmRSS")


def peak_resident() -> int | None:
    """The peak since the start or since :func:`reset_peak_resident`."""
    return _status("VmHWM")


def reset_peak_resident() -> bool:
    """Resets the peak; returns whether the system allows it."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def trim_malloc() -> None:
    """Returns freed memory that the C library keeps to the system; after large steps these are gigabytes that the next
    program, or the next part of this one, would miss."""
    gc.collect()
    with contextlib.suppress(AttributeError, OSError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)


def _status(field: str) -> int | None:
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None
