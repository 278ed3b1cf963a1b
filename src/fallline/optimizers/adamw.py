r"""AdamW: Adam with weight decay apart from the gradient, so that the adaptive rate does not scale it.

The default for training transformers.  Use a larger ``weight_decay`` than with Adam (0.01 to 0.1).

.. math::
    m &\leftarrow \beta_1 m + (1-\beta_1) g, \qquad v \leftarrow \beta_2 v + (1-\beta_2) g^2 \\
    \theta &\leftarrow (1-\alpha\lambda)\,\theta - \frac{\alpha}{1-\beta_1^t}
        \frac{m}{\sqrt{v}/\sqrt{1-\beta_2^t} + \varepsilon}

Arguments:
    lr: learning rate α.
    betas: decay rates (β₁, β₂) of the two means.
    eps: ε, added to the root.
    weight_decay: λ; each step multiplies the weights by 1 − αλ.
    amsgrad: keep and use the running maximum of v (before bias correction).

Example:
    >>> import torch, fallline
    >>> w = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    >>> opt = fallline.AdamW([w], lr=0.1, weight_decay=0.5)
    >>> w.square().sum().backward()
    >>> opt.step()
    >>> [round(x, 4) for x in w.tolist()]
    [0.85, -1.8]

References:
    Loshchilov & Hutter 2019, Decoupled weight decay regularization (arXiv 1711.05101).
"""

# mypy: disable-error-code=no-untyped-def
from fallline.optimizers.description import describe, preset
from fallline.rules import direction, maximum, nonneg, rule, sqrt, static


@rule(betas=("beta1", "beta2"))
def adamw(
    p, g, exp_avg, exp_avg_sq: nonneg, max_exp_avg_sq: nonneg(when="amsgrad"), *,
    lr, beta1, beta2, eps, weight_decay, amsgrad: static, step,
):  # fmt: skip
    exp_avg = beta1 * exp_avg + (1 - beta1) * g
    exp_avg_sq = beta2 * exp_avg_sq + (1 - beta2) * g * g
    v = exp_avg_sq
    if amsgrad:
        v = max_exp_avg_sq = maximum(max_exp_avg_sq, exp_avg_sq)
    u = exp_avg / (sqrt(v) / sqrt(1 - beta2**step) + eps)
    p = p * (1 - lr * weight_decay) - lr / (1 - beta1**step) * direction(u)
    return p, exp_avg, exp_avg_sq, max_exp_avg_sq


AdamW = describe(
    adamw,
    "AdamW",
    doc=__doc__,
    defaults=dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, amsgrad=False),
    family="adam",
    sources=("torch/optim/adamw.py",),
    torch_class="AdamW",
    torch_group={"decoupled_weight_decay": True},
)
AdamW8bit = preset(AdamW, "adamw8bit", "AdamW8bit", 'AdamW with ``state_dtype="int8"``.', state_dtype="int8")
