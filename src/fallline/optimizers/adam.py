"""Adam: a step of about lr per coordinate, from running means of the gradient and its square.

The usual first choice for transformers and for anything whose gradients differ in scale.  Its weight
decay is L2 regularisation (it enters the gradient and is scaled by the adaptive rate); for the
decoupled form see AdamW.  ``amsgrad=True`` never lets the denominator shrink.

.. math::
    g &\\leftarrow g + \\lambda \\theta \\\\
    m &\\leftarrow \\beta_1 m + (1-\\beta_1) g, \\qquad v \\leftarrow \\beta_2 v + (1-\\beta_2) g^2 \\\\
    \\theta &\\leftarrow \\theta - \\frac{\\alpha}{1-\\beta_1^t}
        \\frac{m}{\\sqrt{v}/\\sqrt{1-\\beta_2^t} + \\varepsilon}

AMSGrad takes the largest v so far, before bias correction, in place of v.

Arguments:
    lr: learning rate α.
    betas: decay rates (β₁, β₂) of the two means.
    eps: ε, added to the root.
    weight_decay: λ, added to the gradient.
    amsgrad: keep and use the running maximum of v.
    decoupled_weight_decay: decay as AdamW does, as in torch's class.

Example:
    >>> import torch, fallline
    >>> w = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    >>> opt = fallline.Adam([w], lr=0.1)
    >>> w.square().sum().backward()
    >>> opt.step()
    >>> [round(x, 4) for x in w.tolist()]
    [0.9, -1.9]

References:
    Kingma & Ba 2015 (arXiv 1412.6980); Reddi et al. 2018, On the convergence of Adam and beyond.
"""

# mypy: disable-error-code=no-untyped-def
from fallline.optimizers.describe import describe, preset
from fallline.rules import direction, maximum, nonneg, rule, sqrt, static


@rule(betas=("beta1", "beta2"))
def adam(
    p, g, exp_avg, exp_avg_sq: nonneg, max_exp_avg_sq: nonneg(when="amsgrad"), *,
    lr, beta1, beta2, eps, weight_decay, amsgrad: static, decoupled_weight_decay: static, step,
):  # fmt: skip
    if decoupled_weight_decay:
        p = p * (1 - lr * weight_decay)
    else:
        g = g + weight_decay * p
    exp_avg = beta1 * exp_avg + (1 - beta1) * g
    exp_avg_sq = beta2 * exp_avg_sq + (1 - beta2) * g * g
    v = exp_avg_sq
    if amsgrad:
        v = max_exp_avg_sq = maximum(max_exp_avg_sq, exp_avg_sq)
    u = exp_avg / (sqrt(v) / sqrt(1 - beta2**step) + eps)
    return p - lr / (1 - beta1**step) * direction(u), exp_avg, exp_avg_sq, max_exp_avg_sq


Adam = describe(
    adam,
    "Adam",
    doc=__doc__,
    lr=1e-3,
    betas=(0.9, 0.999),
    eps=1e-8,
    weight_decay=0.0,
    amsgrad=False,
    decoupled_weight_decay=False,
    sources=("torch/optim/adam.py",),
    elsewhere=(
        "optax's amsgrad takes the largest v after bias correction, torch and this the largest before it: other "
        "trajectories",
        "bitsandbytes' Adam decays as AdamW does; its weight_decay is not the L2 regularisation that torch's is",
    ),
    torch_class="Adam",
)
AMSGrad = preset(Adam, "amsgrad", "AMSGrad", "Adam with ``amsgrad=True``.", amsgrad=True)
Adam8bit = preset(Adam, "adam8bit", "Adam8bit", 'Adam with ``state_dtype="int8"``.', state_dtype="int8")
