"""Exhibits, each made once for all tests of a process."""

from __future__ import annotations

import functools

from fallline.gallery.catalogue import make
from fallline.gallery.exhibit import Exhibit, Wishes


@functools.cache
def exhibit(name: str) -> Exhibit:
    return make(name, Wishes())
