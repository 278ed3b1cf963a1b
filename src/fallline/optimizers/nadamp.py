r"""NadamP: NAdamW with the p-th root of the second moment in place of the square root.

It is an entry of the AlgoPerf benchmark.  p < 2 adapts more than Adam (p = 1 divides by the mean square
itself), p > 2 adapts less; four of the entry's five settings use 2, and one uses 1.5.

.. math::
    m &\leftarrow \beta_1 m + (1-\beta_1) g, \qquad v \leftarrow \beta_2 v + (1-\beta_2) g^2 \\
    \hat n &= \frac{\beta_1 m + (1-\beta_1) g}{1-\beta_1^t}, \qquad
        \hat v = \frac{v}{1-\beta_2^t} \\
    \theta &\leftarrow (1-\alpha\lambda)\,\theta
        - \alpha\,\frac{\hat n}{(\hat v + \varepsilon_r)^{1/p} + \varepsilon}

Arguments:
    lr: learning rate α.
    betas: decay rates (β₁, β₂) of the two means.
    eps: ε, added to the root.
    eps_root: ε_r, added inside the root.
    power: p.
    weight_decay: λ, decoupled.

Example:
    >>> import torch, fallline
    >>> w = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    >>> opt = fallline.NadamP([w], lr=0.1, power=1.5)
    >>> w.square().sum().backward()
    >>> opt.step()
    >>> [round(x, 4) for x in w.tolist()]
    [0.8492, -1.8803]

References:
    Kasimbeg et al. 2025, Accelerating neural network training: An analysis of the AlgoPerf competition
    (arXiv 2502.15015).
"""

# mypy: disable-error-code=no-untyped-def
from fallline.optimizers.description import describe
from fallline.rules import direction, nonneg, nonnegative, positive, rule, sqrt, static


# The flag exists because a square root is far cheaper than a general power.
@rule(betas=("beta1", "beta2"), derive={"square": lambda power: power == 2})
def nadamp(
    p, g, exp_avg, exp_avg_sq: nonneg, *,
    lr, beta1, beta2, eps, eps_root: nonnegative, power: positive, weight_decay, square: static, step,
):  # fmt: skip
    exp_avg = beta1 * exp_avg + (1 - beta1) * g
    exp_avg_sq = beta2 * exp_avg_sq + (1 - beta2) * g * g
    ahead = (beta1 * exp_avg + (1 - beta1) * g) / (1 - beta1**step)
    v = exp_avg_sq / (1 - beta2**step) + eps_root
    u = ahead / ((sqrt(v) if square else v ** (1 / power)) + eps)
    return p * (1 - lr * weight_decay) - lr * direction(u), exp_avg, exp_avg_sq


NadamP = describe(
    nadamp,
    "NadamP",
    doc=__doc__,
    defaults=dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, eps_root=0.0, power=2.0, weight_decay=0.0),
    sources=("mlcommons/submissions_algorithms v0.5 nadamp/submission.py",),
    deviations=(
        "the entry's learning rate comes from its schedule, and its first update has rate 0; here lr is a constant "
        "with the default of NAdamW",
    ),
)
