r"""Prodigy: Adam that finds its own learning rate, from the distance that the weights have moved.

Leave ``lr`` at 1 and use a schedule (cosine, without warm-up or with ``safeguard_warmup``) that multiplies
it.  The estimate d of the distance to the solution, which scales the steps, starts tiny and grows within
the first hundreds of steps.  Weight decay is AdamW's.

.. math::
    D &= d\,\alpha, \qquad
    n \leftarrow \beta_3 n + \sum \frac{d}{d_0} D \langle g, \theta_0 - \theta \rangle, \qquad
    s \leftarrow \beta_3 s + \frac{d}{d_0} D g \\
    m &\leftarrow \beta_1 m + (1-\beta_1) d g, \qquad v \leftarrow \beta_2 v + (1-\beta_2) d^2 g^2 \\
    \hat d &= c\,n / \textstyle\sum |s|, \qquad d_{max} \leftarrow \max(d_{max}, \hat d), \qquad
    d \leftarrow \min(d_{max}, \kappa d) \quad
    (d \leftarrow \max(d, \hat d) \text{ first, while } d = d_0) \\
    \theta &\leftarrow (1 - \lambda D)\,\theta - D\,\frac{m}{\sqrt{v} + d\,\varepsilon}

The sums run over all parameters; D has the old d, ε the new one.  If all s are 0, nothing is updated.

Arguments:
    lr: α, a factor of the estimated rate.  The same in all groups; a group with 0 rests.
    betas: decay rates (β₁, β₂) of the two means; β₁ = 0 does not store m.
    beta3: decay rate of n and s; None is √β₂.
    eps: ε.
    weight_decay: λ.
    decouple: decay as AdamW does; False adds λθ to the gradient.
    use_bias_correction: D gets Adam's factor √(1−β₂ᵏ)/(1−β₁ᵏ).
    safeguard_warmup: leave α out of s, so that a warm-up does not inflate d.
    d0: where d starts.
    d_coef: c; 2 doubles the estimate, 0.5 halves it.
    growth_rate: κ, the largest factor by which d grows in a step.

Example:
    >>> import torch, fallline
    >>> w = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    >>> opt = fallline.Prodigy([w])
    >>> for _ in range(60):
    ...     opt.zero_grad()
    ...     w.square().sum().backward()
    ...     opt.step()
    >>> opt.param_groups[0]["d"] > 0.01, bool(w.abs().max() < 1.5)
    (True, True)

References:
    Mishchenko & Defazio 2024, Prodigy: an expeditiously adaptive parameter-free learner (arXiv 2306.06101).
"""

# mypy: disable-error-code=no-untyped-def
import math

from fallline.optimizers.description import describe
from fallline.rules import (
    abs,
    direction,
    fraction,
    maximum,
    minimum,
    nonneg,
    nonnegative,
    optimizer,
    optional,
    positive,
    rule,
    signed,
    sqrt,
    static,
    sum,
    switch,
    weights,
    where,
)
from fallline.rules.annotations import Range

growth = Range("> 0", lambda x: x > 0)  # infinity, the default, does not limit d


@rule(betas=("beta1", "beta2"), derive={"has_momentum": lambda beta1: beta1 > 0})
def prodigy(
    p, g, exp_avg: signed(when="has_momentum"), exp_avg_sq: nonneg, s, p0: weights,
    d: optimizer(init="d0"), d_max: optimizer(init="d0"), d_numerator: optimizer, k: optimizer, *,
    lr: nonnegative, beta1, beta2, beta3: optional(fraction, means=-1.0), eps, weight_decay, decouple: switch,
    use_bias_correction: switch, safeguard_warmup: switch, d0: positive, d_coef: positive,
    growth_rate: growth, has_momentum: static, shared_lr,
):  # fmt: skip
    beta3 = where(beta3 < 0, sqrt(beta2), beta3)
    correction = sqrt(1 - beta2 ** (k + 1)) / (1 - beta1 ** (k + 1))
    dlr = d * shared_lr * where(use_bias_correction != 0, correction, 1.0)
    g = g + where(decouple != 0, 0.0, weight_decay) * p
    kept = 1 - where(decouple != 0, weight_decay, 0.0) * dlr
    # A group whose lr is 0 keeps its states and adds nothing to the sums.
    part = where(lr > 0, 1.0, 0.0)

    def averaged(old, beta, factor, new):
        return where(lr > 0, beta, 1.0) * old + part * factor * new

    s = averaged(s, beta3, d / d0 * where(safeguard_warmup != 0, d, dlr), g)
    numerator = beta3 * d_numerator + d / d0 * dlr * sum(part * g * (p0 - p), "all")
    denominator = sum(part * abs(s), "all")
    if has_momentum:
        exp_avg = averaged(exp_avg, beta1, d * (1 - beta1), g)
    exp_avg_sq = averaged(exp_avg_sq, beta2, d * d * (1 - beta2), g * g)

    d_hat = d_coef * numerator / denominator
    d_max_new = maximum(d_max, d_hat)
    d_new = minimum(d_max_new, where(d == d0, maximum(d, d_hat), d) * growth_rate)
    still = denominator == 0
    u = (exp_avg if has_momentum else d_new * g) / (sqrt(exp_avg_sq) + d_new * eps)
    p_new = p * kept - part * dlr * direction(u)
    return (
        where(still, p, p_new), exp_avg, exp_avg_sq, s, p0,
        where(still, d, d_new), where(still, d_max, d_max_new), where(still, d_numerator, numerator),
        where(still, k, k + 1),
    )  # fmt: skip


Prodigy = describe(
    prodigy,
    "Prodigy",
    doc=__doc__,
    defaults=dict(
        lr=1.0,
        betas=(0.9, 0.999),
        beta3=None,
        eps=1e-8,
        weight_decay=0.0,
        decouple=True,
        use_bias_correction=False,
        safeguard_warmup=False,
        d0=1e-6,
        d_coef=1.0,
        growth_rate=math.inf,
    ),
    must_match=("betas", "beta3", "use_bias_correction", "d0", "d_coef", "growth_rate"),
    sources=("konstmish/prodigy prodigyopt/prodigy.py",),
    deviations=(
        "slice_p is 1: sums run over all elements",
        "a group with lr 0 only decays, by the rate of the others; the source goes on with the momentum "
        "that it has, and with β₁ = 0 takes a step of its gradient",
        "groups must agree on settings that act on all of them (betas, d0, …); the source reads the first group's",
    ),
)
