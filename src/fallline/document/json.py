"""A document as JSON: the result that its verb defines, or the blocks themselves."""

from __future__ import annotations

import dataclasses
import enum
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from fallline.document.blocks import Document


def json_text(document: Document) -> str:
    data = as_data(document) if document.result is None else document.result
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def as_data(document: Document) -> dict[str, Any]:
    """Every block with the name of its kind, and every cell with its raw value; infinities are left out of JSON."""
    return {
        "provenance": _plain(document.provenance),
        "blocks": [_plain(block) for block in document.blocks],
    }


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"kind": type(value).__name__.lower(), **fields}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return {_key(key): _plain(one) for key, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _key(key: Any) -> str:
    return " × ".join(map(str, key)) if isinstance(key, tuple) else str(key)
