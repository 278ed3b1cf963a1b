"""Scripts that write a page from data share this: they write it, or check that it is current."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path


def write_or_check(page: Path, text: Callable[[], str], description: str | None, command: str) -> None:
    """``command`` is what a page that is not current is written by."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the page is not current")
    if parser.parse_args().check:
        sys.exit(0 if page.read_text(encoding="utf-8") == text() else f"{page} is not current; run `{command}`")
    page.write_text(text(), encoding="utf-8")
