r"""MARS: AdamW or Lion on a variance-reduced gradient.

Each gradient is corrected by how much it has changed since the last one, clipped to norm 1 per tensor,
and given to AdamW or Lion.  It is meant for pre-training language models.  Matrices take the corrected
gradient; all other tensors take plain AdamW with settings of their own, unless ``optimize_1d=True``.

.. math::
    c &= g_t + \gamma\,\frac{\beta_1}{1-\beta_1}\,(g_t - g_{t-1}), \qquad g_0 = 0, \qquad
        c \leftarrow c / \max(1, \lVert c \rVert) \\
    m &\leftarrow \beta_1 m + (1-\beta_1) c \\
    \text{mars-adamw:}\quad v &\leftarrow \beta_2 v + (1-\beta_2) c^2, \qquad
        \theta \leftarrow (1-\alpha\lambda)\,\theta - \frac{\alpha}{1-\beta_1^t}
        \frac{m}{\sqrt{v}/\sqrt{1-\beta_2^t} + \varepsilon} \\
    \text{mars-lion:}\quad \theta &\leftarrow (1-\alpha\lambda)\,\theta - \alpha\,\mathrm{sign}(m)

Arguments:
    lr: learning rate α of matrices.
    betas: decay rates (β₁, β₂) of the two means for matrices.
    eps: ε, added to the root.
    weight_decay: λ of matrices, decoupled.
    amsgrad: keep and use the running maximum of v.
    gamma: γ, the strength of the correction.
    mars_type: "mars-adamw" or "mars-lion".
    optimize_1d: treat every tensor as a matrix.
    lr_1d: learning rate of the other tensors; it follows a schedule of its group in proportion to lr.
    betas_1d: decay rates for the other tensors.
    weight_decay_1d: weight decay of the other tensors, decoupled.

Example:
    >>> import torch, fallline
    >>> w = torch.nn.Parameter(torch.tensor([[1.0, -2.0]]))
    >>> opt = fallline.MARS([w], lr=0.1)
    >>> w.square().sum().backward()
    >>> opt.step()
    >>> [round(x, 4) for x in w.flatten().tolist()]
    [0.9, -1.9]

References:
    Yuan et al. 2024, MARS: Unleashing the power of variance reduction for training large models
    (arXiv 2411.10438).
"""

# mypy: disable-error-code=no-untyped-def
from fallline.optimizers.description import describe
from fallline.rules import (
    direction,
    group,
    maximum,
    nonneg,
    nonnegative,
    norm,
    rule,
    sign,
    signed,
    sqrt,
    static,
    where,
)


def is_corrected(ndim, optimize_1d):
    return ndim == 2 or optimize_1d


def is_adaptive(ndim, optimize_1d, mars_type):
    return mars_type == "mars-adamw" or not is_corrected(ndim, optimize_1d)


@rule(
    betas=("beta1", "beta2"),
    betas_1d=("beta1_1d", "beta2_1d"),
    derive={
        "corrected": is_corrected,
        "adaptive": is_adaptive,
        "bounded": lambda ndim, optimize_1d, mars_type, amsgrad: amsgrad and is_adaptive(ndim, optimize_1d, mars_type),
    },
)
def mars(
    p, g, exp_avg, exp_avg_sq: nonneg(when="adaptive"), max_exp_avg_sq: nonneg(when="bounded"),
    last_grad: signed(when="corrected"), lr_init: group(init="lr"), *,
    lr, beta1, beta2, eps, weight_decay, amsgrad: static, gamma,
    mars_type: static("mars-adamw", "mars-lion"), optimize_1d: static,
    lr_1d: nonnegative, beta1_1d, beta2_1d, weight_decay_1d: nonnegative,
    corrected: static, adaptive: static, bounded: static, step,
):  # fmt: skip
    if corrected:
        c = g + gamma * beta1 / (1 - beta1) * (g - last_grad)
        c = c / maximum(norm(c), 1)
        last_grad = g
    else:
        c, beta1, beta2, weight_decay = g, beta1_1d, beta2_1d, weight_decay_1d
        lr = lr * where(lr_init > 0, lr_1d / lr_init, 1.0)
    exp_avg = beta1 * exp_avg + (1 - beta1) * c
    if adaptive:
        v = exp_avg_sq = beta2 * exp_avg_sq + (1 - beta2) * c * c
        if bounded:
            v = max_exp_avg_sq = maximum(max_exp_avg_sq, exp_avg_sq)
        u, rate = exp_avg / (sqrt(v) / sqrt(1 - beta2**step) + eps), lr / (1 - beta1**step)
    else:
        u, rate = sign(exp_avg), lr
    p = p * (1 - lr * weight_decay) - rate * direction(u)
    return p, exp_avg, exp_avg_sq, max_exp_avg_sq, last_grad, lr_init


MARS = describe(
    mars,
    "MARS",
    doc=__doc__,
    defaults=dict(
        lr=3e-3,
        betas=(0.95, 0.99),
        eps=1e-8,
        weight_decay=0.0,
        amsgrad=False,
        gamma=0.025,
        mars_type="mars-adamw",
        optimize_1d=False,
        lr_1d=3e-3,
        betas_1d=(0.9, 0.95),
        weight_decay_1d=0.1,
    ),
    sources=("AGI-Arena/MARS MARS/optimizers/mars.py",),
    deviations=(
        "only is_approx=True: the last gradient is that of the last batch, not that of this batch at the last weights",
        "mars-shampoo is missing, because it multiplies matrices, which a rule cannot",
        "the last gradient is copied; the source keeps a reference, which is wrong after zero_grad(set_to_none=False)",
        "states that a tensor does not need are not allocated",
        "lr_1d is the rate that a group begins with, whatever its lr; in the source it is multiplied by the group's lr "
        "over the optimizer's",
    ),
)
