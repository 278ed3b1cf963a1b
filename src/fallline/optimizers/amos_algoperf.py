r"""Amos as revised for AlgoPerf: learning rate and decay of every tensor follow from the length of training.

Give it the number of steps in which to converge, through ``amos_lr``, and the expected size η of each
tensor's weights; it needs no schedule except a short warm-up.  ``style="adam"`` keeps Adam's two moments;
``style="reduced"`` keeps a mean of the updates and one second moment per tensor.  Gradients are clipped by their
global norm, and element by element where they exceed what the second moment has seen.

.. math::
    \rho &= \max\left(1, \frac{g^2 (1-\beta_2)}{\hat v_{t-1}}\right), \quad
    g \leftarrow g/\sqrt{\rho}, \qquad \text{adam: } u = \frac{m}{\sqrt{\hat v}}, \;
    G = \frac{1+\beta_1}{1-\beta_1} \frac{\overline{m^2}}{\overline{\hat v}}, \quad
    \text{reduced: } u = \frac{g}{\sqrt{\hat v}}, \; G = \frac{\overline{g^2}}{\hat v} \\
    s &= \sqrt{1+b}, \quad X = \frac{\xi^2}{\max(G, s)} \;\text{(reduced: } \xi^2/s), \quad
    p = 1 + l\,((1+\tau/2)^2 - 1)^2, \quad q = 1 + l b^2 \\
    B &= \left(\frac{2s}{1+\sqrt{1 + 2s/(2+\tau)}}\right)^2 - 1, \quad R = \frac{1+lbB}{1+lq/p}, \quad
    \Delta = \frac{-\frac12 X (G p/q + l)\,\theta - \eta\xi u}{1+\eta s R B}, \quad
    b \leftarrow b + X\left(\frac{G}{\sqrt k}+b\right)

with G replaced by 1 in the last formula for "reduced", where also Δ is replaced by its mean (β₁).  An
overbar is the mean over a tensor of k elements (or over its rows), and τ = q ln(√k (1+q)²) with q = √(1 −
1/√k).

Arguments:
    lr: ξ; ``fallline.amos_lr(params, steps, warmup)`` computes it from the length of training.
    eta: η, the expected root mean square of the trained weights; None takes 0.5 for tensors of fewer than two
        axes, √(2/n) for matrices and √(1/n) for more axes, with n = numel / size(0) inputs.
    betas: decay rates (β₁, β₂) of the two means.
    l2: l, strength of the decay beyond what convergence needs.
    warmup_steps: the number of steps in which lr rises linearly; 0 does not warm up.
    max_grad_norm: the largest norm of all gradients together; None does not clip.  The same in all groups.
    style: "adam" or "reduced".
    reduce: the extent of the means under an overbar: "tensor", or "rows" (the last axis, for embeddings).

Example:
    >>> import torch, fallline
    >>> w = torch.nn.Parameter(torch.tensor([[1.0, -2.0]]))
    >>> opt = fallline.AmosAlgoPerf([w], lr=fallline.amos_lr([w], steps=1000), eta=1.0)
    >>> w.square().sum().backward()
    >>> opt.step()
    >>> [round(x, 4) for x in w[0].tolist()]
    [0.9962, -1.996]

References:
    Tian & Parikh 2022, Amos: an Adam-style optimizer with adaptive weight decay towards model-oriented scale
    (arXiv 2210.11693).
"""

# mypy: disable-error-code=no-untyped-def
import math
from collections.abc import Iterable
from typing import Any

from fallline.optimizers.amos import clipped, default_eta
from fallline.optimizers.description import describe
from fallline.rules import (
    axis,
    direction,
    log,
    maximum,
    mean,
    minimum,
    nonneg,
    nonnegative,
    norm,
    optional,
    positive,
    rsqrt,
    rule,
    scalar,
    signed,
    sqrt,
    static,
    where,
)

TINY = 2.0**-126
"""The smallest normal float32, below which a second moment counts as nothing."""


def amos_lr(params: Iterable[Any], steps: int, warmup: float = 0.02, converge: float = 0.75) -> float:
    """The learning rate ξ with which AmosAlgoPerf converges in the fraction ``converge`` of ``steps``, if the
    fraction ``warmup`` of them warms up:

        ξ² = 2 (τ(√k) + √2 − 1) / (converge · steps · (1 − ⅔ warmup)), with k the size of the largest tensor.

    A tensor in a group with ``reduce="rows"`` counts as one of its rows: pass its first row.
    """
    largest = max((p.numel() for p in params), default=1)
    root = math.sqrt(max(largest, 1))
    q = math.sqrt(1 - 1 / root)
    tau = q * math.log(root * (1 + q) ** 2)
    return math.sqrt(2 * (tau + math.sqrt(2) - 1) / (converge * steps * (1 - 2 / 3 * warmup)))


@rule(
    betas=("beta1", "beta2"),
    derive={
        "adam": lambda style: style == "adam",
        "by_row": lambda reduce, ndim: reduce == "rows" and ndim > 1,
        "b_by_row": lambda style, reduce, ndim: style == "adam" and reduce == "rows" and ndim > 1,
        "v_by_row": lambda style, reduce, ndim: style == "reduced" and reduce == "rows" and ndim > 1,
        "v_by_tensor": lambda style, reduce, ndim: style == "reduced" and (reduce == "tensor" or ndim < 2),
    },
)
def amos_algoperf(
    p, g, exp_avg: signed, exp_avg_sq: nonneg(when="adam"),
    v: scalar(when="v_by_tensor"), v_rows: nonneg(shape=axis(-1), when="v_by_row"),
    b: scalar(when="not b_by_row"), b_rows: nonneg(shape=axis(-1), when="b_by_row"),
    *,
    lr, eta: optional(positive, means=0.0), beta1, beta2, l2: nonnegative, warmup_steps: nonnegative,
    max_grad_norm: optional(positive, means=math.inf), style: static("adam", "reduced"),
    reduce: static("tensor", "rows"), adam: static, by_row: static, b_by_row: static, v_by_row: static,
    v_by_tensor: static, step, ndim, numel, cols, row_length,
):  # fmt: skip
    over = -1 if by_row else "tensor"
    eta = where(eta > 0, eta, default_eta(ndim, row_length))
    xi = lr * minimum(1, step / warmup_steps)
    root_k = sqrt(maximum(cols if by_row else numel, 1))
    q = sqrt(1 - 1 / root_k)
    tau = q * log(root_k * (1 + q) * (1 + q))
    debiased = 1 / (1 - beta2**step)

    old_v = exp_avg_sq if adam else v_rows if v_by_row else v
    g = g * minimum(1, max_grad_norm / norm(g, "all"))
    # Dividing by √ρ is clipping to ±√(v̂/(1−β₂)), with the old v̂; the first step has no old v̂.
    seen = old_v / ((1 - beta2) * (1 - beta2 ** (step - 1)))
    limit = where(old_v > 0, sqrt(seen), math.inf)
    g = clipped(g, limit)
    new_v = beta2 * old_v + (1 - beta2) * (g * g if adam else mean(g * g, over))
    v_hat = maximum(new_v * debiased, TINY)
    if adam:
        exp_avg = beta1 * exp_avg + (1 - beta1) * g
        u = exp_avg * rsqrt(v_hat)
        square = (1 + beta1) / (1 - beta1) * mean(exp_avg * exp_avg, over)
        square = square / maximum(mean(new_v, over) * debiased, TINY)
    else:
        u = g * rsqrt(v_hat)
        square = mean(g * g, over) / v_hat

    old_b = b_rows if b_by_row else b
    s = sqrt(1 + old_b)
    rate = xi * xi / (maximum(square, s) if adam else s)
    part = 1 + 0.5 * tau
    l2p = 1 + l2 * (part * part - 1) * (part * part - 1)
    l2q = 1 + l2 * old_b * old_b
    half = 2 * s / (1 + sqrt(1 + 2 / (2 + tau) * s))
    grown = half * half - 1
    damped = 1 / (1 + eta * s * ((1 + l2 * old_b * grown) / (1 + l2 * l2q / l2p)) * grown)
    decay = 0.5 * rate * (l2p / l2q * square + l2)
    new_b = old_b + rate * ((square if adam else 1.0) / root_k + old_b)
    decay, move = decay * damped * p, eta * xi * damped * u
    if adam:
        change = decay + direction(move)
    else:
        exp_avg = beta1 * exp_avg - (1 - beta1) * (decay + move)
        change = direction(-exp_avg)
    return (
        p - change, exp_avg, new_v if adam else None,
        new_v if v_by_tensor else None, new_v if v_by_row else None,
        None if b_by_row else new_b, new_b if b_by_row else None,
    )  # fmt: skip


AmosAlgoPerf = describe(
    amos_algoperf,
    "AmosAlgoPerf",
    doc=__doc__,
    defaults=dict(
        lr=1e-2,
        eta=None,
        betas=(0.95, 0.999),
        l2=2e-3,
        warmup_steps=0,
        max_grad_norm=1.0,
        style="adam",
        reduce="tensor",
    ),
    must_match=("max_grad_norm",),
    sources=("mlcommons/submissions_algorithms amos/submission.py (AlgoPerf v0.5)",),
    deviations=(
        "v is a mean, (1−β₂) times the source's sum",
        "eta is a number per group or follows from the shape, and reduce is chosen per group; the source has "
        "tables of both by a parameter's kind",
        "no mean over two of three axes, which the source takes for attention's heads",
        "with style reduced, β₁ = 0 also keeps a mean of the updates, which then is the last update",
    ),
)
