"""The directory in which fallline keeps compiled rules and fetched data, between runs: private to its user."""

from __future__ import annotations

import os
import stat
from pathlib import Path


class CacheRefused(RuntimeError):
    """A cache directory that others could put code into; the message says what to do."""


def cache_location() -> Path:
    """``$FALLLINE_CACHE_DIR``, or fallline in the user's cache directory, whether it exists or not."""
    chosen = os.environ.get("FALLLINE_CACHE_DIR")
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(chosen).expanduser() if chosen else Path(base).expanduser() / "fallline"


def make_cache() -> Path:
    """Makes the directory if it is missing, closed to others whatever the umask is; raises OSError if that fails.

    Everything that is put there makes it with this function: compiled rules are loaded as code, and are not taken from
    a directory that somebody made writable for others.
    """
    path = cache_location()
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def private_cache() -> Path:
    """The directory, made if need be; refused if it is another user's, or if others may write to it."""
    path = make_cache()
    info = path.stat()
    if info.st_uid != os.getuid():
        raise CacheRefused(f"the cache directory {path} belongs to another user; set FALLLINE_CACHE_DIR")
    if info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise CacheRefused(
            f"others may write to the cache directory {path}; run `chmod go-w {path}` or set FALLLINE_CACHE_DIR"
        )
    return path
