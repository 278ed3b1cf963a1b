r"""Fromage: steps of a fixed length relative to the weights of each tensor.

One learning rate serves all layers and many architectures, because a step changes every tensor by the same
relative amount; there is no other setting that must be tuned, and no state.  Divide lr by ten when the loss
stops falling.  For GANs and small models that overfit, ``p_bound`` keeps the norm of every tensor near its
start.

.. math::
    \theta \leftarrow \frac{1}{\sqrt{1+\alpha^2}}
        \left(\theta - \alpha \frac{\|\theta\|}{\|g\|} g\right), \qquad
    \text{then, with } p\_bound\; B: \quad
    \theta \leftarrow \theta \min\left(1, \frac{B \|\theta_0\|}{\|\theta\|}\right)

with the norms of the whole tensor.  If one of them is 0, the step is αg.

Arguments:
    lr: learning rate α.
    p_bound: B, the largest norm of a tensor relative to the one it had at its first step; None does not
        bound.

Example:
    >>> import torch, fallline
    >>> w = torch.nn.Parameter(torch.tensor([3.0, -4.0]))
    >>> opt = fallline.Fromage([w], lr=0.1)
    >>> w.sum().backward()
    >>> opt.step()
    >>> [round(x, 4) for x in w.tolist()]
    [2.6333, -4.3319]

References:
    Bernstein et al. 2020, On the distance between two neural networks and the stability of learning
    (arXiv 2002.03432).
"""

# mypy: disable-error-code=no-untyped-def
from fallline.optimizers.description import describe
from fallline.rules import direction, dot, maximum, optional, positive, rule, scalar, sqrt, static, where


@rule(derive={"bounded": lambda p_bound: p_bound is not None})
def fromage(
    p, g, initial_norm: scalar(when="bounded"), *, lr, p_bound: optional(positive), bounded: static, first
):  # fmt: skip
    # Marked before the norms, so that a masked direction still has the right length and the bound holds.
    u = direction(g)
    p2, u2 = dot(p, p), dot(u, u)
    rate = lr * where((p2 > 0) & (u2 > 0), sqrt(p2) / sqrt(u2), 1.0)
    shrink = 1 / sqrt(1 + lr * lr)
    if bounded:
        initial_norm = where(first, sqrt(p2), initial_norm)
        # ‖p − rate·u‖², from sums of the same pass.
        after = sqrt(maximum(p2 - 2 * rate * dot(p, u) + rate * rate * u2, 0.0)) * shrink
        bound = p_bound * initial_norm
        shrink = shrink * where(after > bound, bound / after, 1.0)
    return shrink * (p - rate * u), initial_norm


Fromage = describe(
    fromage,
    "Fromage",
    doc=__doc__,
    defaults=dict(lr=1e-2, p_bound=None),
    sources=("the paper, arXiv 2002.03432",),
    deviations=("the bound starts from the norm at a tensor's first step, not when the optimizer is made",),
)
