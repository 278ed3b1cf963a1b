"""The memory of a training of GPT-2 with 1.5 G parameters, as the lecture stacks it, from the memory model."""

from __future__ import annotations

import dataclasses

from fallline.document.numbers import written
from fallline.footprint.lecture import GB, PARAMETERS, QUOTED_SAVING, example, lecture_bar
from fallline.gallery.exhibit import Exhibit, Wishes

CARD = 32
"""GB of the card that the lecture names."""


def exhibit(wishes: Wishes) -> Exhibit:
    found = example()
    bar = dataclasses.replace(lecture_bar(found), name="gpt2_memory", caption="", detail=True)
    (stack,) = bar.bars
    total = found.total / GB
    sizes = " + ".join(written(part.value, "general") for part in stack.parts)
    verdict = f"does not fit on {CARD} GB" if total > CARD else f"fits on {CARD} GB"
    caption = (
        f"{sizes} = {total:.0f} GB. Weights in 16 bits are {found.model.parameters / GB:.0f} GB; with gradients, "
        f"masters and both moments it is {found.held / PARAMETERS:.0f} bytes per parameter, {found.held / GB:.0f} GB, "
        f"and with the rest {total:.0f} GB, which {verdict}. Activations without checkpointing are "
        f"{found.activations / GB:.0f} GB (sequence 1K, batch 32). The lecture says that checkpointing saves about "
        f"{100 * QUOTED_SAVING:.0f} %; by its own two numbers it is {100 * found.checkpointing_saves:.0f} %. "
        "Activations with checkpointing and fragmentation are quoted, all other sections computed."
    )
    numbers = {
        "total_gb": total,
        "sections_gb": {part.name: part.value for part in stack.parts},
        "bytes_per_parameter": found.held / PARAMETERS,
        "activations_gb": found.activations / GB,
        "checkpointing_saves": found.checkpointing_saves,
        "fits": total <= CARD,
    }
    source = "computed here by the memory model; the example is that of Rajbhandari et al. 2020, ZeRO, section 3"
    return Exhibit([bar], caption, numbers, source)
