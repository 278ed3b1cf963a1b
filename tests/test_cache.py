"""The cache directory is private, whoever makes it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from fallline.cache import CacheRefused, cache_location, make_cache, private_cache


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "folder" / "cache"
    monkeypatch.setenv("FALLLINE_CACHE_DIR", str(path))
    return path


def test_it_is_closed_to_others_whatever_the_umask_is(place: Path) -> None:
    before = os.umask(0o000)
    try:
        assert make_cache() == place == cache_location()
    finally:
        os.umask(before)
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert private_cache() == place


def test_one_that_others_may_write_to_is_refused_in_one_line(place: Path) -> None:
    make_cache().chmod(0o775)
    with pytest.raises(CacheRefused, match=r"others may write to .*; run `chmod go-w .*` or set FALLLINE_CACHE_DIR$"):
        private_cache()
    assert stat.S_IMODE(make_cache().stat().st_mode) == 0o775, "what is there stays as it is"


def test_one_of_another_user_is_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_cache()
    monkeypatch.setattr(os, "getuid", lambda: place.stat().st_uid + 1)
    with pytest.raises(CacheRefused, match="belongs to another user; set FALLLINE_CACHE_DIR"):
        private_cache()
