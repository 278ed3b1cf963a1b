r"""ADOPT: Adam that converges with any β₂, because it divides by the second moment of *earlier* gradients.

The current gradient does not enter its own denominator, and the momentum averages gradients that are
already divided.  It takes Adam's place; its first step only sets the second moment and moves nothing.

.. math::
    n &= \mathrm{clip}\!\left(\frac{g_t}{\max(\sqrt{v_{t-1}}, \varepsilon)},\; \pm (t-1)^{c}\right),
        \qquad m \leftarrow \beta_1 m + (1-\beta_1) n \\
    \theta &\leftarrow \theta - \alpha m, \qquad v_t = \beta_2 v_{t-1} + (1-\beta_2) g_t^2,
        \qquad v_1 = g_1^2

Arguments:
    lr: learning rate α.
    betas: decay rates (β₁, β₂) of the two means.
    eps: ε, the least denominator.
    clip_exp: c, how fast the bound of the divided gradient grows; None does not clip.
    weight_decay: λ, added to the gradient.
    decouple: multiply the weights by 1 − αλ instead (from the second step on).

Example:
    >>> import torch, fallline
    >>> w = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    >>> opt = fallline.ADOPT([w], lr=0.1)
    >>> for _ in range(2):
    ...     opt.zero_grad()
    ...     w.square().sum().backward()
    ...     opt.step()
    >>> [round(x, 4) for x in w.tolist()]
    [0.99, -1.99]

References:
    Taniguchi et al. 2024, ADOPT: Modified Adam can converge with any β₂ with the optimal rate
    (arXiv 2411.02853).
"""

# mypy: disable-error-code=no-untyped-def
import math

from fallline.optimizers.amos import clipped
from fallline.optimizers.description import describe
from fallline.rules import (
    direction,
    maximum,
    nonneg,
    nonnegative,
    optional,
    rule,
    sqrt,
    static,
    where,
)

NEVER = -1.0


@rule(betas=("beta1", "beta2"))
def adopt(
    p, g, exp_avg, exp_avg_sq: nonneg, *,
    lr, beta1, beta2, eps, clip_exp: optional(nonnegative, means=NEVER), weight_decay, decouple: static, step, first,
):  # fmt: skip
    if not decouple:
        g = g + weight_decay * p
    bound = where(clip_exp == NEVER, math.inf, (step - 1) ** clip_exp)
    n = clipped(g / maximum(sqrt(exp_avg_sq), eps), bound)
    exp_avg = where(first, exp_avg, beta1 * exp_avg + (1 - beta1) * n)
    moved = (p * (1 - lr * weight_decay) if decouple else p) - lr * direction(exp_avg)
    exp_avg_sq = where(first, g * g, beta2 * exp_avg_sq + (1 - beta2) * g * g)
    return where(first, p, moved), exp_avg, exp_avg_sq


ADOPT = describe(
    adopt,
    "ADOPT",
    doc=__doc__,
    defaults=dict(lr=1e-3, betas=(0.9, 0.9999), eps=1e-6, clip_exp=0.25, weight_decay=0.0, decouple=False),
    sources=("iShohei220/adopt src/adopt/adopt.py",),
    deviations=(
        "clip_exp gives the exponent of the bound; the source has a function, clip_lambda",
        "this is the source's second version; its first did not clip and decayed in the first step too",
    ),
)
