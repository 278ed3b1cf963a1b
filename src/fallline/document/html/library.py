"""The plotting library of a page: plotly.js, taken from the installed package ``plotly`` and compressed.

The script is 4.8 MB as it is and 2 MB compressed, so that a page can be mailed, and its text and tables are there
before the browser has read the script. ``plotly`` itself is not imported.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import gzip
import hashlib
import importlib.util
from pathlib import Path

UNAVAILABLE = "figures of a page need plotly; pip install 'fallline[report]'"


class LibraryUnavailable(RuntimeError):
    """Raised if plotly is not installed."""


@dataclasses.dataclass(frozen=True)
class Library:
    compressed: str
    """The script, by gzip and base64."""
    digest: str
    """Its name in a content security policy."""


def available() -> bool:
    return _script() is not None


def _script() -> Path | None:
    found = importlib.util.find_spec("plotly")
    places = [] if found is None else found.submodule_search_locations or []
    paths = (Path(place) / "package_data" / "plotly.min.js" for place in places)
    return next((path for path in paths if path.is_file()), None)


@functools.cache
def library() -> Library:
    path = _script()
    if path is None:
        raise LibraryUnavailable(UNAVAILABLE)
    script = path.read_bytes()
    # Without the time the same script gives the same page.
    return Library(base64.b64encode(gzip.compress(script, 9, mtime=0)).decode("ascii"), digest_of(script))


def digest_of(script: bytes) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script).digest()).decode('ascii')}'"
