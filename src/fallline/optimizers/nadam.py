r"""NAdam: Adam with Nesterov's look-ahead, whose momentum rises slowly from about β₁/2 to β₁.

It takes Adam's place and adds Nesterov's acceleration.  This is torch's form, after Dozat, with a schedule
of the momentum; :class:`NAdamW` is the simpler form of the AlgoPerf baselines, without that schedule.

.. math::
    \mu_t &= \beta_1 \left(1 - \tfrac12\, 0.96^{\,t\psi}\right), \qquad
        P \leftarrow P\,\mu_t \\
    m &\leftarrow \beta_1 m + (1-\beta_1) g, \qquad v \leftarrow \beta_2 v + (1-\beta_2) g^2 \\
    \theta &\leftarrow \theta - \alpha \left(\frac{1-\mu_t}{1-P}\, g
        + \frac{\mu_{t+1}}{1-P\mu_{t+1}}\, m\right) \bigg/
        \left(\sqrt{v/(1-\beta_2^t)} + \varepsilon\right)

Arguments:
    lr: learning rate α.
    betas: decay rates (β₁, β₂) of the two means.
    eps: ε, added to the root.
    weight_decay: λ, added to the gradient.
    momentum_decay: ψ, how fast the momentum rises.
    decoupled_weight_decay: multiply the weights by 1 − αλ first instead.

Example:
    >>> import torch, fallline
    >>> w = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    >>> opt = fallline.NAdam([w], lr=0.1)
    >>> w.square().sum().backward()
    >>> opt.step()
    >>> [round(x, 4) for x in w.tolist()]
    [0.8944, -1.8944]

References:
    Dozat 2016, Incorporating Nesterov momentum into Adam.
"""

# mypy: disable-error-code=no-untyped-def
from fallline.optimizers.adam import decayed
from fallline.optimizers.description import describe
from fallline.rules import direction, nonneg, nonnegative, rule, scalar, sqrt, static


@rule(betas=("beta1", "beta2"))
def nadam(
    p, g, exp_avg, exp_avg_sq: nonneg, mu_product: scalar(init=1.0), *,
    lr, beta1, beta2, eps, weight_decay, momentum_decay: nonnegative, decoupled_weight_decay: static, step,
):  # fmt: skip
    p, g = decayed(p, g, lr, weight_decay, decoupled_weight_decay)
    mu = beta1 * (1 - 0.5 * 0.96 ** (step * momentum_decay))
    mu_next = beta1 * (1 - 0.5 * 0.96 ** ((step + 1) * momentum_decay))
    mu_product = mu_product * mu
    exp_avg = beta1 * exp_avg + (1 - beta1) * g
    exp_avg_sq = beta2 * exp_avg_sq + (1 - beta2) * g * g
    ahead = (1 - mu) / (1 - mu_product) * g + mu_next / (1 - mu_product * mu_next) * exp_avg
    u = ahead / (sqrt(exp_avg_sq / (1 - beta2**step)) + eps)
    return p - lr * direction(u), exp_avg, exp_avg_sq, mu_product


NAdam = describe(
    nadam,
    "NAdam",
    doc=__doc__,
    defaults=dict(
        lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, momentum_decay=4e-3, decoupled_weight_decay=False
    ),
    sources=("torch/optim/nadam.py",),
    deviations=(
        "mu_product is kept in float64, while torch keeps it in the default dtype; a run continued from torch's "
        "checkpoint agrees up to rounding",
    ),
    torch_class="NAdam",
)
