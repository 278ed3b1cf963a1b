r"""RAdam: Adam that waits with its adaptive rate until there is enough evidence for it.

The variance of 1/√v is large while few gradients are known.  RAdam estimates this variance and scales the
step down accordingly; in the first steps (five at β₂ = 0.999) it does not divide at all and is plain
momentum.  It is meant to replace a warm-up of the learning rate.

.. math::
    m &\leftarrow \beta_1 m + (1-\beta_1) g, \qquad v \leftarrow \beta_2 v + (1-\beta_2) g^2 \\
    \rho_\infty &= \frac{2}{1-\beta_2} - 1, \qquad
        \rho_t = \rho_\infty - \frac{2 t \beta_2^t}{1-\beta_2^t} \\
    r_t &= \sqrt{\frac{(\rho_t-4)(\rho_t-2)\,\rho_\infty}{(\rho_\infty-4)(\rho_\infty-2)\,\rho_t}} \\
    \theta &\leftarrow \theta - \frac{\alpha}{1-\beta_1^t}\, m \cdot
        \begin{cases} r_t\sqrt{1-\beta_2^t} / (\sqrt{v} + \varepsilon) & \rho_t > 5 \\
        1 & \text{otherwise} \end{cases}

Arguments:
    lr: learning rate α.
    betas: decay rates (β₁, β₂) of the two means.
    eps: ε, added to the root before its bias correction.
    weight_decay: λ, added to the gradient.
    decoupled_weight_decay: multiply the weights by 1 − αλ first instead.

Example:
    >>> import torch, fallline
    >>> w = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    >>> opt = fallline.RAdam([w], lr=0.1)
    >>> w.square().sum().backward()
    >>> opt.step()
    >>> [round(x, 4) for x in w.tolist()]
    [0.8, -1.6]

References:
    Liu et al. 2020, On the variance of the adaptive learning rate and beyond (arXiv 1908.03265).
"""

# mypy: disable-error-code=no-untyped-def
from fallline.optimizers.adam import decayed
from fallline.optimizers.description import describe
from fallline.rules import direction, nonneg, rule, sqrt, static, where


@rule(betas=("beta1", "beta2"))
def radam(
    p, g, exp_avg, exp_avg_sq: nonneg, *,
    lr, beta1, beta2, eps, weight_decay, decoupled_weight_decay: static, step,
):  # fmt: skip
    p, g = decayed(p, g, lr, weight_decay, decoupled_weight_decay)
    exp_avg = beta1 * exp_avg + (1 - beta1) * g
    exp_avg_sq = beta2 * exp_avg_sq + (1 - beta2) * g * g
    most = 2 / (1 - beta2) - 1
    rho = most - 2 * step * beta2**step / (1 - beta2**step)
    adaptive = rho > 5
    rectified = sqrt((rho - 4) * (rho - 2) * most / ((most - 4) * (most - 2) * rho)) * sqrt(1 - beta2**step)
    rate = where(adaptive, where(adaptive, rectified, 0.0) / (sqrt(exp_avg_sq) + eps), 1.0)
    return p - lr / (1 - beta1**step) * direction(exp_avg * rate), exp_avg, exp_avg_sq


RAdam = describe(
    radam,
    "RAdam",
    doc=__doc__,
    defaults=dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, decoupled_weight_decay=False),
    sources=("torch/optim/radam.py",),
    torch_class="RAdam",
)
