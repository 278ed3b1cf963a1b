r"""AdEMAMix: AdamW with a second, very slow momentum, because old gradients stay useful for long.

It is meant for long pre-training runs: the slow mean (β₃ = 0.9999 remembers some 10,000 steps) speeds up
the late phase, and the fast mean keeps the method responsive.  Let α and β₃ rise over the whole run
(``alpha_warmup`` and ``beta3_warmup`` = number of steps), because early steps are unstable otherwise.

.. math::
    m_1 &\leftarrow \beta_1 m_1 + (1-\beta_1) g, \qquad
        m_2 \leftarrow \beta_{3,t}\, m_2 + (1-\beta_{3,t}) g, \qquad
        v \leftarrow \beta_2 v + (1-\beta_2) g^2 \\
    \theta &\leftarrow (1-\eta\lambda)\,\theta - \eta\,
        \frac{m_1/(1-\beta_1^t) + \alpha_t m_2}{\sqrt{v}/\sqrt{1-\beta_2^t} + \varepsilon} \\
    \alpha_t &= \alpha \min(1, t/T_\alpha), \qquad
        \beta_{3,t} = \tfrac12^{\,1/(1 + h_t)}, \quad
        h_t = (1 - t/T_\beta)\, h(\beta_1) + (t/T_\beta)\, h(\beta_3) \quad (t < T_\beta)

with :math:`h(\beta) = \ln\tfrac12 / \ln(\beta + 10^{-8}) - 1`: the half-life grows linearly.  The slow
mean is not debiased.  β₁ = 0 stores no fast mean.

Arguments:
    lr: learning rate η.
    betas: decay rates (β₁, β₂, β₃) of the fast mean, the square, and the slow mean.
    alpha: α, the weight of the slow mean.
    beta3_warmup: T_β, the number of steps in which β₃ rises from β₁; None keeps β₃ constant.
    alpha_warmup: T_α, the number of steps in which α rises from 0; None keeps α constant.
    eps: ε, added to the root.
    weight_decay: λ, decoupled.

Example:
    >>> import torch, fallline
    >>> w = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    >>> opt = fallline.AdEMAMix([w], lr=0.1, alpha_warmup=100, beta3_warmup=100)
    >>> w.square().sum().backward()
    >>> opt.step()
    >>> [round(x, 4) for x in w.tolist()]
    [0.9, -1.9]

References:
    Pagliardini, Ablin & Grangier 2024, The AdEMAMix optimizer: Better, faster, older (arXiv 2409.03137).
"""

# mypy: disable-error-code=no-untyped-def
import math

from fallline.optimizers.description import describe
from fallline.rules import direction, log, nonneg, optional, positive, rule, signed, sqrt, static, where


def half_life(beta):
    return math.log(0.5) / log(beta + 1e-8) - 1


@rule(betas=("beta1", "beta2", "beta3"), derive={"has_momentum": lambda beta1: beta1 != 0})
def ademamix(
    p, g, exp_avg_fast: signed(when="has_momentum"), exp_avg_slow: signed(wide=True), exp_avg_sq: nonneg, *,
    lr, beta1, beta2, beta3, alpha, beta3_warmup: optional(positive, means=0),
    alpha_warmup: optional(positive, means=0), eps, weight_decay, has_momentum: static, step,
):  # fmt: skip
    alpha = alpha * where(step < alpha_warmup, step / alpha_warmup, 1.0)
    done = step / beta3_warmup
    half = (1 - done) * half_life(beta1) + done * half_life(beta3)
    beta3 = where(step < beta3_warmup, 0.5 ** (1 / (half + 1)), beta3)
    fast = g
    if has_momentum:
        exp_avg_fast = beta1 * exp_avg_fast + (1 - beta1) * g
        fast = exp_avg_fast / (1 - beta1**step)
    exp_avg_slow = beta3 * exp_avg_slow + (1 - beta3) * g
    exp_avg_sq = beta2 * exp_avg_sq + (1 - beta2) * g * g
    momentum = fast + alpha * exp_avg_slow
    u = momentum / (sqrt(exp_avg_sq) / sqrt(1 - beta2**step) + eps)
    return p * (1 - lr * weight_decay) - lr * direction(u), exp_avg_fast, exp_avg_slow, exp_avg_sq


AdEMAMix = describe(
    ademamix,
    "AdEMAMix",
    doc=__doc__,
    defaults=dict(
        lr=1e-3, betas=(0.9, 0.999, 0.9999), alpha=2.0, beta3_warmup=None, alpha_warmup=None, eps=1e-8, weight_decay=0.0
    ),
    sources=("apple/ml-ademamix pytorch/ademamix.py",),
)
