"""AdamW against Adam with L2: what is left of weights whose gradients are of different sizes."""

from __future__ import annotations

import torch

import fallline
from fallline.document.figures import Axis, Chart, Series
from fallline.document.numbers import span
from fallline.gallery.exhibit import Exhibit, Wishes
from fallline.gallery.stepping import positions

STEPS, LR, DECAY = 200, 0.01, 0.1
SIZES = torch.logspace(-2, 2, 41).double()


def exhibit(wishes: Wishes) -> Exhibit:
    kept = {name: remaining(name) for name in ("AdamW", "Adam")}
    expected = (1 - LR * DECAY) ** STEPS
    chart = Chart(
        "weight_decay", f"Share of a weight that {STEPS} steps of decay leave",
        Axis("size of its gradients (noise around 0)", 0.01, 100.0,
             {0.01: "0.01", 0.1: "0.1", 1.0: "1", 10.0: "10", 100.0: "100"}, log=True),
        Axis("share left", 0.0, 1.1),
        [
            Series("AdamW", SIZES.tolist(), kept["AdamW"]),
            Series("Adam with L2", SIZES.tolist(), kept["Adam"]),
        ],
        caption=f"lr {LR:g}, weight decay {DECAY:g}; divided by the same run without decay",
        direct=True,
    )  # fmt: skip
    small, large = kept["Adam"][10], kept["Adam"][30]
    caption = (
        f"Decoupled decay (AdamW) leaves {span(kept['AdamW'], 3)} of every weight after {STEPS} steps; "
        f"(1 − lr·λ)^{STEPS} is {expected:.3f}. As L2 in the gradient (Adam) the decay is divided by the size of the "
        f"gradients too: of a weight with gradients of {SIZES[10]:.1f} it leaves {small:.2f}, of one with gradients of "
        f"{SIZES[30]:.0f} it leaves {large:.2f}."
    )
    numbers = {"expected": expected, "adamw": [min(kept["AdamW"]), max(kept["AdamW"])], "adam": [small, large]}
    return Exhibit([chart], caption, numbers, "computed here")


def remaining(name: str) -> list[float]:
    """The weights after a run with decay, over those after the same run without."""

    def run(decay: float) -> torch.Tensor:
        return positions(
            lambda at: getattr(fallline, name)(at, lr=LR, weight_decay=decay),
            torch.ones_like(SIZES),
            lambda step, at: SIZES if step % 2 else -SIZES,
            STEPS,
        )[-1]

    found: list[float] = (run(DECAY) / run(0.0)).tolist()
    return found
