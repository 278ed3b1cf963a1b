"""An open results file, as all that write or read its tables share it."""

from __future__ import annotations

import json
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
        try:
            return json.loads(text)
        except (TypeError, ValueError):
            raise StoreError(
                f"{self.path}: a damaged results file (a part of it is no JSON); restore a copy, or name another file"
            ) from None
