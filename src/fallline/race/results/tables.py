"""An open results file, as all that write or read its tables share it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fallline.measure.store import Store, StoreError


class Tables:
    """One file; ``store`` holds its tables."""

    path: Path
    store: Store

    def settings(self) -> dict[str, Any]:
        return {row["name"]: self.parsed(row["value"]) for row in self.store.rows("select * from setting")}

    def parsed(self, text: str) -> Any:
        with self.readable("a part of it is no JSON"):
            return json.loads(text)

    @contextlib.contextmanager
    def readable(self, otherwise: str) -> Iterator[None]:
        """Around what makes objects of stored rows: rows that anybody may have changed are an error of one line."""
        try:
            yield
        except (KeyError, TypeError, ValueError, AttributeError, IndexError):
            raise StoreError(
                f"{self.path}: a damaged results file ({otherwise}); restore a copy, or name another file"
            ) from None
