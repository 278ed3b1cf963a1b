r"""Amos: decays learning rate and weights by itself, with two numbers of state per tensor.

It is meant for pre-training: give it the expected size η of a tensor's weights and the learning rate ξ,
about 1/√N for N batches in an epoch of data, and no schedule except a warm-up.  Second moments are means
over whole tensors, so the states are two numbers per tensor, and the decay b grows during training.

.. math::
    G &= \mathrm{mean}(g^2), \qquad v \leftarrow \beta v + (1-\beta) G, \qquad
    r = \frac{1-\beta^t}{\max(v, \varepsilon)}, \qquad
    \gamma = \frac{\xi^2 r G}{\sqrt{1 + c\sqrt{\xi}\,b}} \\
    \Delta &= \frac{-(\gamma/2 + l)\,\theta - \xi\eta\sqrt{r}\,g}
        {1 + d\sqrt{\xi\eta}\,b}, \qquad
    b \leftarrow b + \gamma(1+b), \qquad \theta \leftarrow \theta + \Delta

Arguments:
    lr: ξ.
    eta: η, the expected root mean square of the trained weights; None takes 0.5 for tensors of fewer than two
        axes, √(2/n) for matrices and √(1/n) for more axes, with n = numel / size(0) inputs.
    beta: decay rate of the second moment.
    momentum: decay rate of a mean of the updates Δ, not corrected for its start; None keeps no mean.
    clip_value: the largest magnitude of an element of the gradient, clipped first; None does not clip.
    extra_l2: l, further decay.
    c_coef, d_coef: c and d.
    epsilon: ε.
    reduce: the extent of v, b and the mean of g²: "tensor" (one number per tensor), "rows" (one per row, over the
        last axis, for embeddings) or "none" (one per element).

Example:
    >>> import torch, fallline
    >>> w = torch.nn.Parameter(torch.tensor([[1.0, -2.0]]))
    >>> opt = fallline.Amos([w], lr=0.1, eta=1.0)
    >>> w.square().sum().backward()
    >>> opt.step()
    >>> [round(x, 4) for x in w[0].tolist()], round(opt.state[w]["b"].item(), 4)
    ([0.9318, -1.8635], 0.01)

References:
    Tian & Parikh 2022, Amos: an Adam-style optimizer with adaptive weight decay towards model-oriented scale
    (arXiv 2210.11693).
"""

# mypy: disable-error-code=no-untyped-def
import math

from fallline.optimizers.description import describe
from fallline.rules import (
    axis,
    direction,
    fraction,
    maximum,
    mean,
    nonneg,
    nonnegative,
    optional,
    positive,
    rule,
    scalar,
    signed,
    sqrt,
    static,
    where,
)

REDUCE = static("tensor", "rows", "none")


def clipped(x, limit):
    """x between ±limit; NaN stays NaN.  Compilers turn these two choices into vector instructions."""
    x = where(x < -limit, -limit, x)
    return where(x > limit, limit, x)


def default_eta(ndim, row_length):
    """The size of a tensor's weights if only its shape is known."""
    return sqrt((2 if ndim == 2 else 1) / row_length) if ndim > 1 else 0.5


@rule(
    derive={
        "has_momentum": lambda momentum: bool(momentum),
        "by_tensor": lambda reduce, ndim: reduce == "tensor" or (reduce == "rows" and ndim < 2),
        "by_row": lambda reduce, ndim: reduce == "rows" and ndim > 1,
        "by_element": lambda reduce: reduce == "none",
    },
)
def amos(
    p, g,
    v: scalar(when="by_tensor"), b: scalar(when="by_tensor"),
    v_rows: nonneg(shape=axis(-1), when="by_row"), b_rows: nonneg(shape=axis(-1), when="by_row"),
    v_full: nonneg(when="by_element"), b_full: nonneg(when="by_element"),
    ema: signed(when="has_momentum"),
    *,
    lr, eta: optional(positive, means=0.0), beta: fraction, momentum: optional(fraction),
    clip_value: optional(positive, means=math.inf), extra_l2: nonnegative, c_coef: nonnegative,
    d_coef: nonnegative, epsilon: positive, reduce: REDUCE,
    by_tensor: static, by_row: static, by_element: static, has_momentum: static, step, ndim, row_length,
):  # fmt: skip
    eta = where(eta > 0, eta, default_eta(ndim, row_length))
    g = clipped(g, clip_value)
    g2 = g * g if by_element else mean(g * g, -1 if by_row else "tensor")
    old_v, old_b = (v, b) if by_tensor else (v_rows, b_rows) if by_row else (v_full, b_full)
    new_v = beta * old_v + (1 - beta) * g2
    r = (1 - beta**step) / maximum(new_v, epsilon)
    gamma = lr * lr * r * g2 / sqrt(1 + c_coef * sqrt(lr) * old_b)
    new_b = old_b + gamma * (1 + old_b)
    damped = 1 / (1 + d_coef * sqrt(lr * eta) * old_b)
    decay, move = (0.5 * gamma + extra_l2) * damped * p, lr * eta * sqrt(r) * damped * g
    if has_momentum:
        ema = momentum * ema - (1 - momentum) * (decay + move)
        u = direction(-ema)
    else:
        u = decay + direction(move)
    v, b = (new_v, new_b) if by_tensor else (v, b)
    v_rows, b_rows = (new_v, new_b) if by_row else (v_rows, b_rows)
    v_full, b_full = (new_v, new_b) if by_element else (v_full, b_full)
    return p - u, v, b, v_rows, b_rows, v_full, b_full, ema


Amos = describe(
    amos,
    "Amos",
    doc=__doc__,
    defaults=dict(
        lr=1e-3,
        eta=None,
        beta=0.999,
        momentum=None,
        clip_value=None,
        extra_l2=0.0,
        c_coef=0.25,
        d_coef=0.25,
        epsilon=2.0**-125,
        reduce="tensor",
    ),
    sources=("google-research/jestimator amos.py",),
    deviations=(
        "eta is a number per group or follows from the shape; the source asks a function of name and shape",
        "the shape of v and b is chosen per group (reduce); the source takes any shape that broadcasts, "
        "and by default the parameter's own",
        "lr has a default, 1e-3; the source requires it, or a schedule, which is evaluated at t from 1",
    ),
)
