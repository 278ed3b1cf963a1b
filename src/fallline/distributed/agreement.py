"""Agreement of all processes, before they wait for each other: one small collective tells, and a sentence says
in what they differ."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from typing import Any

import torch

from fallline.distributed.ranks import Ranks

Record = Mapping[str, Any]
"""A description of an optimizer in a process, in plain words and numbers: nested dicts and lists."""


def agree(ranks: Ranks, record: Record, taking_part: Collection[int]) -> list[int]:
    """The parameters that have a gradient in some process.  Raises if the records of two processes differ."""
    present = sorted(taking_part)
    own = torch.tensor([*_digest(record), *_digest(present)], dtype=torch.int64, device=ranks.device)
    digests = ranks.gathered(own).cpu()
    if not (digests[:, :2] == digests[0, :2]).all():
        texts = ranks.texts(json.dumps({"process": _process(), "record": record}, default=str))
        _refuse([json.loads(text) for text in texts])
    if not (digests == digests[0]).all():
        found = [json.loads(text) for text in ranks.texts(json.dumps(present))]
        return sorted({number for one in found for number in one})
    return present


def _process() -> int:
    return torch.distributed.get_rank()


def _digest(value: Any) -> tuple[int, int]:
    text = json.dumps(value, sort_keys=True, default=str).encode()
    digest = hashlib.sha256(text).digest()
    return int.from_bytes(digest[:8], "little", signed=True), int.from_bytes(digest[8:16], "little", signed=True)


def _refuse(found: list[dict[str, Any]]) -> None:
    first, other = next((found[0], one) for one in found[1:] if one["record"] != found[0]["record"])
    what, mine, theirs = _difference(first["record"], other["record"])
    raise ValueError(
        f"the processes do not step the same: {what} is {mine} in process {first['process']} and {theirs} in process "
        f"{other['process']}; make the same optimizer with the same settings, and load the same checkpoint, in all"
    )


def _difference(a: Any, b: Any, path: tuple[str, ...] = ()) -> tuple[str, Any, Any]:
    """Where two records differ first, and what each has there."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key in [*a, *(key for key in b if key not in a)]:
            if a.get(key) != b.get(key):
                return _difference(a.get(key), b.get(key), (key, *path))
    if isinstance(a, list) and isinstance(b, list) and path and path[0].endswith("s"):
        if len(a) != len(b):
            return " of ".join(("the number", *path)), len(a), len(b)
        for i, (one, other) in enumerate(zip(a, b, strict=True)):
            if one != other:
                return _difference(one, other, (f"{path[0].removesuffix('s')} {i}", *path[1:]))
    return " of ".join(path), _shown(a), _shown(b)


def _shown(value: Any) -> str:
    return json.dumps(value) if not isinstance(value, str) else value
