r"""Schedule-Free AdamW: no learning-rate schedule, because an average of its weights is evaluated.

Use it where the length of training is not known beforehand, with a learning rate 1 to 10 times AdamW's and
a warm-up.  Gradients are taken at y, a point between the iterate z of plain Adam without momentum and the
running average x.  During training the parameters are y; ``eval()`` sets them to x, the weights to evaluate
and to keep, and ``train()`` sets them back to y.  Stepping in eval mode raises an error.  Running statistics
of batch normalisation belong to y: recompute them on some batches after ``eval()``.

.. math::
    v &\leftarrow \beta_2 v + (1-\beta_2) g^2, \qquad
    \hat g = \frac{g}{\sqrt{v/(1-\beta_2^t)} + \varepsilon} + \lambda y, \qquad
    c = \frac{t^r \max(\alpha)^p}{\sum_{i \le t} i^r \max(\alpha)^p} \\
    z &\leftarrow z - \alpha_t \hat g, \qquad x \leftarrow (1-c)\,x + c z, \qquad
    y = (1-\beta_1) z + \beta_1 x

Only y, z and v are stored.  The step t is counted per group.  ``variant="algoperf"`` is the form of
AlgoPerf's first entry: there ε is not corrected for the start of v, α_t is at least ε, and the decay is
taken at x, with the factor α_t √(1−β₂ᵗ) λ.

Arguments:
    lr: learning rate α.
    betas: β₁, how far y is from z towards x, between 0 and 1; β₂, decay rate of the second moment.
    eps: ε, added to the root.
    weight_decay: λ.
    warmup_steps: the number of steps in which lr rises linearly; 0 does not warm up.
    r: the power of t in the weights of the average.
    weight_lr_power: p, the power of the largest lr so far in these weights.
    inner_momentum: decay rate of a mean of the gradients, which takes the place of g in the step; 0 keeps no mean.
    variant: "schedulefree" or "algoperf", which changes the defaults to lr=0.0017486387539278373,
        betas=(0.9, 0.9955159689799007), weight_decay=0.08121616522670176, r=0.75.

Example:
    >>> import torch, fallline
    >>> w = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    >>> opt = fallline.ScheduleFreeAdamW([w], lr=0.1)
    >>> for _ in range(3):
    ...     opt.zero_grad()
    ...     w.square().sum().backward()
    ...     opt.step()
    >>> [round(x, 4) for x in w.tolist()]
    [0.7968, -1.7933]
    >>> opt.eval()
    >>> [round(x, 4) for x in w.tolist()]
    [0.8061, -1.8029]

References:
    Defazio et al. 2024, The road less scheduled (arXiv 2405.15682).
"""

# mypy: disable-error-code=no-untyped-def
from fallline.optimizers.description import describe
from fallline.rules import (
    choice,
    fraction,
    group,
    maximum,
    minimum,
    nonneg,
    nonnegative,
    open_fraction,
    rule,
    signed,
    sqrt,
    static,
    weights,
    where,
)

SCHEDULEFREE, ALGOPERF = 0, 1


def to_average(p, z, *, beta1):
    """x from y, for evaluation."""
    return p + (1 - 1 / beta1) * (z - p)


def from_average(p, z, *, beta1):
    """y from x, for training."""
    return p + (1 - beta1) * (z - p)


@rule(betas=("beta1", "beta2"), counts="group", derive={"has_momentum": lambda inner_momentum: inner_momentum > 0})
def schedule_free_adamw(
    p, g, z: weights, exp_avg_sq: nonneg, exp_avg: signed(when="has_momentum"), lr_max: group, weight_sum: group, *,
    lr, beta1: open_fraction, beta2, eps, weight_decay, warmup_steps: nonnegative, r, weight_lr_power,
    inner_momentum: fraction, variant: choice("schedulefree", "algoperf"), has_momentum: static, step,
):  # fmt: skip
    algoperf = variant == ALGOPERF
    root = sqrt(1 - beta2**step)
    lr = lr * minimum(1, step / warmup_steps)
    lr = where(algoperf, maximum(lr, eps), lr)
    eps, weight_decay = where(algoperf, eps / root, eps), where(algoperf, weight_decay * root, weight_decay)
    towards_x = where(algoperf, 1 - 1 / beta1, 0.0)
    lr_max = maximum(lr_max, lr)
    weight = step**r * lr_max**weight_lr_power
    weight_sum = weight_sum + weight
    c = where(weight_sum > 0, weight / weight_sum, 0.0)

    exp_avg_sq = beta2 * exp_avg_sq + (1 - beta2) * g * g
    if has_momentum:
        exp_avg = inner_momentum * exp_avg + (1 - inner_momentum) * g
        g = exp_avg / (1 - inner_momentum**step)
    u = g / (sqrt(exp_avg_sq) / root + eps) + weight_decay * (p + towards_x * (z - p))
    # The three sequences in terms of y and z alone.
    y = p + c * (z - p) - lr * (1 - beta1 * (1 - c)) * u
    return y, z - lr * u, exp_avg_sq, exp_avg, lr_max, weight_sum


schedule_free_adamw.entry("eval", writes=["p"])(to_average)
schedule_free_adamw.entry("train", writes=["p"])(from_average)

ScheduleFreeAdamW = describe(
    schedule_free_adamw,
    "ScheduleFreeAdamW",
    doc=__doc__,
    defaults=dict(
        lr=0.0025,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0.0,
        warmup_steps=0,
        r=0.0,
        weight_lr_power=2.0,
        inner_momentum=0.0,
        variant="schedulefree",
    ),
    variants={
        "algoperf": dict(
            lr=0.0017486387539278373,
            betas=(0.9, 0.9955159689799007),
            weight_decay=0.08121616522670176,
            r=0.75,
        )
    },
    sources=(
        "facebookresearch/schedule_free schedulefree/adamw_schedulefree.py (inner_momentum: unreleased)",
        "mlcommons/submissions_algorithms schedule_free_adamw/submission.py (variant algoperf)",
    ),
    deviations=(
        "a new optimizer is in train mode; the source's has to be put there by train() before the first step",
        "the step of a group does not advance while none of its parameters has a gradient",
        'variant algoperf keeps v in float32, or with state_dtype="bfloat16" rounds it stochastically; '
        "the source computes it in bfloat16",
    ),
)
