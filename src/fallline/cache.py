"""Where fallline keeps what it compiled or fetched, between runs."""

from __future__ import annotations

import os
from pathlib import Path


def cache_location() -> Path:
    """``$FALLLINE_CACHE_DIR``, or fallline in the user's cache directory, whether it exists or not."""
    chosen = os.environ.get("FALLLINE_CACHE_DIR")
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(chosen).expanduser() if chosen else Path(base).expanduser() / "fallline"
