"""What the process holds in physical memory.

Peaks are taken in a pass of their own, never inside a timed one. Bytes of tensors are in :mod:`fallline.memory.live`.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
from pathlib import Path


def resident() -> int | None:
    """Bytes of this process in physical memory now."""
    return _status("VmRSS")


def peak_resident() -> int | None:
    """The most there were since the start or :func:`reset_peak_resident`."""
    return _status("VmHWM")


def reset_peak_resident() -> bool:
    """Whether the system let us."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def trim_malloc() -> None:
    """Returns to the system what the C library keeps of freed tensors, gigabytes after large steps: otherwise the next
    program, or the next part of this one, finds less room than there is."""
    gc.collect()
    with contextlib.suppress(AttributeError, OSError):  # glibc alone has it
        ctypes.CDLL(None).malloc_trim(0)


def _status(field: str) -> int | None:
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None
