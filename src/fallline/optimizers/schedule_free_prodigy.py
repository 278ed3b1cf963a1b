r"""Schedule-Free Prodigy: finds its own learning rate and needs no schedule.

Prodigy's estimate of the distance to the solution scales the steps of the iterate z, and the running average
x of z is evaluated.  During training the parameters are y, a point between the two; ``eval()`` sets them to x,
and ``train()`` sets them back to y.  Stepping in eval mode raises an error.  Leave ``lr`` at 1, and warm up
over some percent of the steps.

.. math::
    D &= d\,\alpha_t, \qquad
    n \leftarrow \sqrt{\beta_2}\,n + \sum d D \langle g, \theta_0 - z \rangle, \qquad
    s \leftarrow \sqrt{\beta_2}\,s + d D g, \qquad v \leftarrow \beta_2 v + (1-\beta_2) d^2 g^2 \\
    d &\leftarrow \max(d,\; k\,n / \textstyle\sum |s|), \qquad
    z \leftarrow z - \lambda D x - \frac{d D g}{\sqrt{v} + d\,\varepsilon} \\
    x &\leftarrow (1-c)\,x + c z, \qquad c = t^r / \textstyle\sum_{i \le t} i^r, \qquad
    y = (1-\beta_1) z + \beta_1 x

The sums run over all parameters; D has the old d.  If all s are 0, the weights stay.

Arguments:
    lr: α, a factor of the estimated rate.  The same in all groups; a group with 0 stays as it is.
    betas: β₁, how far y is from z towards x, between 0 and 1; β₂, decay rate of the second moment.
    eps: ε.
    weight_decay: λ, taken at x.
    warmup_steps: the number of steps in which lr rises linearly; 0 does not warm up.
    r: the power of t in the weights of the average.
    d0: where d starts.
    d_coef: k; 2 doubles the estimate, 0.5 halves it.

Example:
    >>> import torch, fallline
    >>> w = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    >>> opt = fallline.ScheduleFreeProdigy([w])
    >>> for _ in range(60):
    ...     opt.zero_grad()
    ...     w.square().sum().backward()
    ...     opt.step()
    >>> opt.param_groups[0]["d"] > 0.01
    True
    >>> opt.eval()

References:
    Defazio et al. 2024, The road less scheduled (arXiv 2405.15682); Mishchenko & Defazio 2024, Prodigy: an
    expeditiously adaptive parameter-free learner (arXiv 2306.06101).
"""

# mypy: disable-error-code=no-untyped-def
from fallline.optimizers.description import describe
from fallline.optimizers.schedule_free_adamw import from_average, to_average
from fallline.rules import (
    abs,
    maximum,
    minimum,
    nonneg,
    nonnegative,
    open_fraction,
    optimizer,
    positive,
    rule,
    sqrt,
    sum,
    weights,
    where,
)


@rule(betas=("beta1", "beta2"))
def schedule_free_prodigy(
    p, g, z: weights, exp_avg_sq: nonneg, s, p0: weights,
    d: optimizer(init="d0"), d_numerator: optimizer, k: optimizer, weight_sum: optimizer, *,
    lr, beta1: open_fraction, beta2, eps, weight_decay, warmup_steps: nonnegative, r, d0: positive,
    d_coef: positive, shared_lr,
):  # fmt: skip
    dlr = d * shared_lr * minimum(1, (k + 1) / warmup_steps)
    # A group whose lr is 0 keeps its states and adds nothing to the sums.
    part = where(lr > 0, 1.0, 0.0)

    def averaged(old, beta, factor, new):
        return where(lr > 0, beta, 1.0) * old + part * factor * new

    numerator = sqrt(beta2) * d_numerator + d * dlr * sum(part * g * (p0 - z), "all")
    s = averaged(s, sqrt(beta2), d * dlr, g)
    denominator = sum(part * abs(s), "all")
    exp_avg_sq = averaged(exp_avg_sq, beta2, d * d * (1 - beta2), g * g)

    still = denominator == 0
    d_new = maximum(d, d_coef * numerator / denominator)
    weight = (k + 1) ** r
    c = part * weight / (weight_sum + weight)
    x = p + (1 - 1 / beta1) * (z - p)
    move = part * weight_decay * dlr * x + part * dlr * (d_new * g / (sqrt(exp_avg_sq) + d_new * eps))
    # The three sequences in terms of y and z alone.
    y = p + c * (z - p) - (1 - beta1 * (1 - c)) * move
    return (
        where(still, p, y), where(still, z, z - move), exp_avg_sq, s, p0,
        where(still, d, d_new), where(still, d_numerator, numerator), where(still, k, k + 1),
        where(still, weight_sum, weight_sum + weight),
    )  # fmt: skip


schedule_free_prodigy.entry("eval", writes=["p"])(to_average)
schedule_free_prodigy.entry("train", writes=["p"])(from_average)

ScheduleFreeProdigy = describe(
    schedule_free_prodigy,
    "ScheduleFreeProdigy",
    doc=__doc__,
    defaults=dict(lr=1.0, betas=(0.9, 0.9955), eps=1e-8, weight_decay=0.0, warmup_steps=0, r=0.75, d0=1e-6, d_coef=1.0),
    must_match=("betas", "warmup_steps", "r", "d0", "d_coef"),
    sources=("mlcommons/submissions_algorithms schedule_free_prodigy/submission.py (AlgoPerf v0.5)",),
    deviations=(
        "the parameters are y between steps; the source keeps x there and moves to y around the closure, "
        "which it calls twice",
        'v, s and θ₀ are float32, or with state_dtype="bfloat16" v and s are rounded stochastically; the '
        "source keeps all three in bfloat16",
        "warmup_steps is an argument; the source sets lr from outside, over 7.5 % of the steps",
        "a group with lr 0 stays as it is; the source steps it like the others",
    ),
)
