r"""Schedule-Free SGD: no learning-rate schedule, because an average of its weights is evaluated.

Gradients are taken at y, a point between the iterate z of plain SGD and the running average x.  During
training the parameters are y; ``eval()`` sets them to x, the weights to evaluate and to keep, and
``train()`` sets them back to y.  Stepping in eval mode raises an error.  Use a larger lr than SGD with
momentum, and a warm-up of some hundreds of steps.  Running statistics of batch normalisation belong to y:
recompute them on some batches after ``eval()``.

.. math::
    z &\leftarrow z - \alpha_t (g + \lambda y), \qquad
    c = \frac{t^r \max(\alpha)^p}{\sum_{i \le t} i^r \max(\alpha)^p} \\
    x &\leftarrow (1-c)\,x + c z, \qquad y = (1-\beta) z + \beta x

Only y and z are stored.  The step t is counted per group.

Arguments:
    lr: learning rate α.
    momentum: β, between 0 and 1.
    weight_decay: λ, applied at y.
    warmup_steps: the number of steps in which lr rises linearly; 0 does not warm up.
    r: the power of t in the weights of the average.
    weight_lr_power: p, the power of the largest lr so far in these weights.

Example:
    >>> import torch, fallline
    >>> w = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    >>> opt = fallline.ScheduleFreeSGD([w], lr=0.1)
    >>> for _ in range(3):
    ...     opt.zero_grad()
    ...     w.square().sum().backward()
    ...     opt.step()
    >>> [round(x, 4) for x in w.tolist()]
    [0.631, -1.2621]
    >>> opt.eval()
    >>> [round(x, 4) for x in w.tolist()]
    [0.6459, -1.2917]

References:
    Defazio et al. 2024, The road less scheduled (arXiv 2405.15682).
"""

# mypy: disable-error-code=no-untyped-def
from fallline.optimizers.description import describe
from fallline.rules import group, maximum, minimum, nonnegative, open_fraction, rule, weights, where


@rule(counts="group")
def schedule_free_sgd(
    p, g, z: weights, lr_max: group, weight_sum: group, *,
    lr, momentum: open_fraction, weight_decay, warmup_steps: nonnegative, r, weight_lr_power, step,
):  # fmt: skip
    lr = lr * minimum(1, step / warmup_steps)
    lr_max = maximum(lr_max, lr)
    weight = step**r * lr_max**weight_lr_power
    weight_sum = weight_sum + weight
    c = where(weight_sum > 0, weight / weight_sum, 0.0)

    g = g + weight_decay * p
    # The three sequences in terms of y and z alone.
    y = p + c * (z - p) - lr * (1 - momentum * (1 - c)) * g
    return y, z - lr * g, lr_max, weight_sum


@schedule_free_sgd.entry("eval", writes=["p"])
def to_average(p, z, *, momentum):
    return p + (1 - 1 / momentum) * (z - p)


@schedule_free_sgd.entry("train", writes=["p"])
def from_average(p, z, *, momentum):
    return p + (1 - momentum) * (z - p)


ScheduleFreeSGD = describe(
    schedule_free_sgd,
    "ScheduleFreeSGD",
    doc=__doc__,
    defaults=dict(lr=1.0, momentum=0.9, weight_decay=0.0, warmup_steps=0, r=0.0, weight_lr_power=2.0),
    sources=("facebookresearch/schedule_free schedulefree/sgd_schedulefree.py",),
    deviations=(
        "a new optimizer is in train mode; the source's has to be put there by train() before the first step",
        "the step of a group does not advance while none of its parameters has a gradient",
    ),
)
