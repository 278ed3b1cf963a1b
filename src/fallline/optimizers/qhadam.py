r"""QHAdam: Adam whose two moments are mixed with the current gradient and its square.

The weights (ν₁, ν₂) = (1, 1) give Adam, (β₁, 1) NAdam without its schedule, and (0, 1) RMSprop with bias
correction.  A ν₂ below 1 bounds the steps and can stabilise training where Adam's loss has spikes.

.. math::
    g &\leftarrow g + \lambda \theta, \qquad w_i \leftarrow 1 + \beta_i w_i, \qquad
        \tilde\beta_i = 1 - 1/w_i \\
    m &\leftarrow \tilde\beta_1 m + (1-\tilde\beta_1) g, \qquad
        v \leftarrow \tilde\beta_2 v + (1-\tilde\beta_2) g^2 \\
    \theta &\leftarrow \theta - \alpha\,
        \frac{\nu_1 m + (1-\nu_1) g}{\sqrt{\nu_2 v + (1-\nu_2) g^2} + \varepsilon}

The weights w remove the bias of the moments exactly, even when β changes during the run.

Arguments:
    lr: learning rate α.
    betas: decay rates (β₁, β₂) of the two means.
    nus: (ν₁, ν₂), how much of each mean enters the step.
    weight_decay: λ, added to the gradient.
    decouple_weight_decay: multiply the weights by 1 − αλ first instead.
    eps: ε, added to the root.

Example:
    >>> import torch, fallline
    >>> w = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    >>> opt = fallline.QHAdam([w], lr=0.1, nus=(0.8, 1.0), betas=(0.99, 0.999))
    >>> w.square().sum().backward()
    >>> opt.step()
    >>> [round(x, 4) for x in w.tolist()]
    [0.9, -1.9]

References:
    Ma & Yarats 2019, Quasi-hyperbolic momentum and Adam for deep learning (arXiv 1810.06801).
"""

# mypy: disable-error-code=no-untyped-def
from fallline.optimizers.description import describe
from fallline.rules import direction, nonneg, rule, scalar, sqrt, static


@rule(betas=("beta1", "beta2"), nus=("nu1", "nu2"))
def qhadam(
    p, g, exp_avg, exp_avg_sq: nonneg, beta1_weight: scalar, beta2_weight: scalar, *,
    lr, beta1, beta2, nu1, nu2, weight_decay, decouple_weight_decay: static, eps,
):  # fmt: skip
    if decouple_weight_decay:
        p = p * (1 - lr * weight_decay)
    else:
        g = g + weight_decay * p
    beta1_weight = 1 + beta1 * beta1_weight
    beta2_weight = 1 + beta2 * beta2_weight
    fresh1, fresh2 = 1 / beta1_weight, 1 / beta2_weight
    exp_avg = (1 - fresh1) * exp_avg + fresh1 * g
    exp_avg_sq = (1 - fresh2) * exp_avg_sq + fresh2 * g * g
    u = (nu1 * exp_avg + (1 - nu1) * g) / (sqrt(nu2 * exp_avg_sq + (1 - nu2) * g * g) + eps)
    return p - lr * direction(u), exp_avg, exp_avg_sq, beta1_weight, beta2_weight


QHAdam = describe(
    qhadam,
    "QHAdam",
    doc=__doc__,
    defaults=dict(lr=1e-3, betas=(0.9, 0.999), nus=(1.0, 1.0), weight_decay=0.0, decouple_weight_decay=False, eps=1e-8),
    sources=("facebookresearch/qhoptim qhoptim/pyt/qhadam.py",),
    deviations=("coupled decay does not change the gradient in place; the source adds λθ to it",),
)
