"""Errors of a workload, in one line; below it a user's own traceback, if the user's code raised."""

from __future__ import annotations

import traceback
from pathlib import Path

_PACKAGE = str(Path(__file__).parents[1])


class WorkloadError(Exception):
    """A workload that cannot be used; the first line says why, a user's own traceback may follow."""


def raised(where: str, error: BaseException) -> WorkloadError:
    """One line, then the user's own traceback without our frames."""
    own = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((_PACKAGE, "<")) and "importlib" not in frame.filename
    ]
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(own)] if own else []
    lines += traceback.format_exception_only(type(error), error)
    said = "".join(f": {line}" for line in str(error).splitlines()[:1])
    return WorkloadError(f"{where} raised {type(error).__name__}{said}\n{''.join(lines).rstrip()}")
