r"""NAdamW: AdamW whose step looks one gradient ahead, as Nesterov's momentum does.

It is the baseline of the AlgoPerf benchmark and the inner optimizer of several of its entries, and takes
AdamW's settings.  :class:`NAdam` is torch's form, which also schedules the momentum.

.. math::
    m &\leftarrow \beta_1 m + (1-\beta_1) g, \qquad v \leftarrow \beta_2 v + (1-\beta_2) g^2 \\
    n &= \beta_1 m + (1-\beta_1) g \\
    \theta &\leftarrow (1-\alpha\lambda)\,\theta - \frac{\alpha}{1-\beta_1^t}
        \frac{n}{\sqrt{v}/\sqrt{1-\beta_2^t} + \varepsilon}

Arguments:
    lr: learning rate α.
    betas: decay rates (β₁, β₂) of the two means.
    eps: ε, added to the root.
    weight_decay: λ; each step multiplies the weights by 1 − αλ.

Example:
    >>> import torch, fallline
    >>> w = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    >>> opt = fallline.NAdamW([w], lr=0.1)
    >>> w.square().sum().backward()
    >>> opt.step()
    >>> [round(x, 4) for x in w.tolist()]
    [0.809, -1.808]

References:
    Dahl et al. 2023, Benchmarking neural network training algorithms (arXiv 2306.07179).
"""

# mypy: disable-error-code=no-untyped-def
from fallline.optimizers.description import describe
from fallline.rules import direction, nonneg, rule, sqrt


@rule(betas=("beta1", "beta2"))
def nadamw(p, g, exp_avg, exp_avg_sq: nonneg, *, lr, beta1, beta2, eps, weight_decay, step):
    exp_avg = beta1 * exp_avg + (1 - beta1) * g
    exp_avg_sq = beta2 * exp_avg_sq + (1 - beta2) * g * g
    ahead = beta1 * exp_avg + (1 - beta1) * g
    u = ahead / (sqrt(exp_avg_sq) / sqrt(1 - beta2**step) + eps)
    return p * (1 - lr * weight_decay) - lr / (1 - beta1**step) * direction(u), exp_avg, exp_avg_sq


NAdamW = describe(
    nadamw,
    "NAdamW",
    doc=__doc__,
    defaults=dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2),
    sources=("mlcommons/algorithmic-efficiency pytorch_nadamw_full_budget.py",),
    deviations=(
        "the source overwrites the first moment with the look-ahead and takes it back after the step; here it is "
        "never overwritten, which saves that rounding",
    ),
)
