r"""Generalized Adam: one optimizer that is NAdamW, Adam with any root, or SGD with momentum.

It is an entry of the AlgoPerf benchmark, which searches over methods as over hyperparameters: four of its
five settings are NAdamW, and one is SGD with Nesterov momentum (``disable_preconditioning=True``, lr about 2).

.. math::
    m &\leftarrow \beta_1 m + (1-\beta_1) g, \qquad v \leftarrow \beta_2 v + (1-\beta_2) g^2 \\
    n &= \frac{\beta_1 m + (1-\beta_1) g}{1-\beta_1^t} \;\text{(Nesterov)}, \quad
        n = m \;\text{(otherwise)} \\
    u &= n \big/ \left(\left(v/(1-\beta_2^t) + \varepsilon_r\right)^{1/p} + \varepsilon\right) \\
    \theta &\leftarrow (1-\alpha\lambda)\,\theta - \alpha u

Without preconditioning: :math:`b \leftarrow \beta_1 b + g`, and :math:`u = g + \beta_1 b` (Nesterov)
or :math:`u = b`.

Arguments:
    lr: learning rate α.
    betas: decay rates (β₁, β₂); without preconditioning β₁ is the momentum and β₂ has no meaning.
    eps: ε, added to the root.
    eps_root: ε_r, added inside the root.
    power: p, the degree of the root.
    weight_decay: λ, decoupled.
    nesterov: look one gradient ahead.
    disable_preconditioning: SGD with momentum instead.

Example:
    >>> import torch, fallline
    >>> w = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    >>> opt = fallline.GeneralizedAdam([w], lr=0.1, disable_preconditioning=True)
    >>> w.square().sum().backward()
    >>> opt.step()
    >>> [round(x, 4) for x in w.tolist()]
    [0.62, -1.24]

References:
    Kasimbeg et al. 2025, Accelerating neural network training: An analysis of the AlgoPerf competition
    (arXiv 2502.15015).
"""

# mypy: disable-error-code=no-untyped-def
from fallline.optimizers.description import describe
from fallline.rules import direction, nonneg, nonnegative, positive, rule, signed, sqrt, static


@rule(betas=("beta1", "beta2"), derive={"square": lambda power: power == 2})
def generalized_adam(
    p, g,
    exp_avg: signed(when="not disable_preconditioning"),
    exp_avg_sq: nonneg(when="not disable_preconditioning"),
    trace: signed(when="disable_preconditioning"),
    *,
    lr, beta1, beta2, eps, eps_root: nonnegative, power: positive, weight_decay,
    nesterov: static, disable_preconditioning: static, square: static, step,
):  # fmt: skip
    if disable_preconditioning:
        trace = beta1 * trace + g
        u = g + beta1 * trace if nesterov else trace
    else:
        exp_avg = beta1 * exp_avg + (1 - beta1) * g
        exp_avg_sq = beta2 * exp_avg_sq + (1 - beta2) * g * g
        n = (beta1 * exp_avg + (1 - beta1) * g) / (1 - beta1**step) if nesterov else exp_avg
        v = exp_avg_sq / (1 - beta2**step) + eps_root
        u = n / ((sqrt(v) if square else v ** (1 / power)) + eps)
    return p * (1 - lr * weight_decay) - lr * direction(u), exp_avg, exp_avg_sq, trace


GeneralizedAdam = describe(
    generalized_adam,
    "GeneralizedAdam",
    doc=__doc__,
    defaults=dict(
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        eps_root=0.0,
        power=2.0,
        weight_decay=0.0,
        nesterov=True,
        disable_preconditioning=False,
    ),
    sources=("mlcommons/submissions_algorithms v0.5 generalized_adam/submission.py",),
    deviations=(
        "nesterov=False leaves the first moment without bias correction, as the source does",
        "the entry's learning rate comes from its schedule, and its first update has rate 0; here lr is a constant",
    ),
)
