"""One parameter group per tensor, as some trainers make them, against all tensors in one group."""

from __future__ import annotations

import fallline
from benchmarks.arms import HYPERS, tensors
from benchmarks.rows import Result, Row, milliseconds
from benchmarks.settings import Settings
from benchmarks.timing import interleave

TENSORS, ELEMENTS, BAR = 146, 65536, 0.9


def run(settings: Settings) -> Result:
    params = tensors([(ELEMENTS,)] * TENSORS, settings.seed)
    one = fallline.AdamW(params, **HYPERS)
    each = fallline.AdamW([{"params": [p]} for p in params], **HYPERS)
    samples = interleave({"one": one.step, "each": each.step}, settings, [("one", "each")])
    row = Row(
        "groups",
        f"AdamW {TENSORS} × {ELEMENTS:,}, float32, one group per tensor",
        "fallline, a single group",
        BAR,
        value=samples.ratio("one", "each"),
        ours=milliseconds(samples.median("each")),
        theirs=milliseconds(samples.median("one")),
    )
    return Result([row], samples.as_json())
