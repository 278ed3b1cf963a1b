r"""LAMB: Adam whose step in each tensor is proportional to the norm of its weights.

It is meant for very large batches, where one learning rate does not suit all layers: in each tensor, the
direction of AdamW is scaled by the ratio of the weights' norm to its own.  Gradients are first clipped by their global
norm.

.. math::
    g &\leftarrow g / \max(1, \|g\|_{all} / G), \qquad
    m \leftarrow \beta_1 m + (1-\beta_1) g, \qquad v \leftarrow \beta_2 v + (1-\beta_2) g^2 \\
    u &= \frac{m / (1-\beta_1^t)}{\sqrt{v}/\sqrt{1-\beta_2^t} + \varepsilon} + \lambda\theta, \qquad
    \theta \leftarrow \theta - \alpha \frac{\|\theta\|}{\|u\|} u

The ratio is 1 if one of the norms is 0, and in groups without decay unless ``always_adapt``.  The step t is
counted per group.

Arguments:
    lr: learning rate α.
    betas: decay rates (β₁, β₂) of the two means.
    eps: ε, added to the root.
    weight_decay: λ.
    bias_correction: divide the means by 1 − βᵗ.
    grad_averaging: multiply g by 1 − β₁ in m; False adds g as it is.
    max_grad_norm: G, the largest norm of all gradients together; None does not clip.  The same in all groups.
    trust_clip: limit the ratio to 1.
    always_adapt: use the ratio in groups without decay too (NVIDIA calls it use_nvlamb).
    decoupled_decay: θ ← θ − αλθ before the step, in place of λθ in u.
    adam_w_mode: add λθ to u; False adds it to the clipped gradient instead (L2 regularisation).

Example:
    >>> import torch, fallline
    >>> w = torch.nn.Parameter(torch.tensor([3.0, -4.0]))
    >>> opt = fallline.LAMB([w], lr=0.1, weight_decay=0.0, always_adapt=True)
    >>> w.square().sum().backward()
    >>> opt.step()  # Adam's direction is (1, -1); the step is a tenth of the norm of w, 5
    >>> [round(x, 4) for x in w.tolist()]
    [2.6464, -3.6464]

References:
    You et al. 2020, Large batch optimization for deep learning: training BERT in 76 minutes
    (arXiv 1904.00962).
"""

# mypy: disable-error-code=no-untyped-def
from fallline.optimizers.description import Requirement, describe
from fallline.rules import (
    abs,
    direction,
    maximum,
    minimum,
    nonneg,
    norm,
    optional,
    positive,
    rule,
    sqrt,
    static,
    switch,
    where,
)


@rule(
    betas=("beta1", "beta2"),
    counts="group",
    derive={"clips": lambda max_grad_norm: max_grad_norm is not None},
)
def lamb(
    p, g, exp_avg, exp_avg_sq: nonneg, *,
    lr, beta1, beta2, eps, weight_decay, bias_correction: switch, grad_averaging: switch,
    max_grad_norm: optional(positive), trust_clip: switch, always_adapt: switch, decoupled_decay: switch,
    adam_w_mode: switch, clips: static, step,
):  # fmt: skip
    # Where the decay enters: the gradient, the direction, or the weights.
    in_weights = where(decoupled_decay != 0, weight_decay, 0.0)
    in_gradient = where(adam_w_mode != 0, 0.0, weight_decay)
    in_direction = weight_decay - in_weights - in_gradient
    correction1 = where(bias_correction != 0, 1 - beta1**step, 1.0)
    correction2 = where(bias_correction != 0, 1 - beta2**step, 1.0)
    if clips:
        g = g / maximum(1, norm(g, "all") / max_grad_norm)
    g = g + in_gradient * p
    exp_avg = beta1 * exp_avg + where(grad_averaging != 0, 1 - beta1, 1.0) * g
    exp_avg_sq = beta2 * exp_avg_sq + (1 - beta2) * g * g
    u = direction(exp_avg / correction1 / (sqrt(exp_avg_sq) / sqrt(correction2) + eps)) + in_direction * p
    kept = 1 - lr * in_weights
    p_norm, u_norm = norm(p) * abs(kept), norm(u)
    ratio = where((p_norm > 0) & (u_norm > 0), p_norm / u_norm, 1.0)
    ratio = where(trust_clip != 0, minimum(ratio, 1), ratio)
    ratio = where((weight_decay != 0) | (always_adapt != 0), ratio, 1.0)
    return p * kept - lr * ratio * u, exp_avg, exp_avg_sq


LAMB = describe(
    lamb,
    "LAMB",
    doc=__doc__,
    defaults=dict(
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-6,
        weight_decay=0.01,
        bias_correction=True,
        grad_averaging=True,
        max_grad_norm=1.0,
        trust_clip=False,
        always_adapt=False,
        decoupled_decay=False,
        adam_w_mode=True,
    ),
    must_match=("max_grad_norm",),
    sources=("timm optim/lamb.py", "NVIDIA apex fused_lamb.py and multi_tensor_lamb.cu (adam_w_mode)"),
    deviations=(
        "the step of a group does not advance while none of its parameters has a gradient",
        "clipping leaves the gradients in place as they are; timm before 1.0.31 overwrites them",
    ),
    requires=(
        Requirement(
            lambda decoupled_decay, adam_w_mode: adam_w_mode or not decoupled_decay,
            "decoupled_decay=True and adam_w_mode=False are two places for the same decay; choose one",
        ),
    ),
)
