r"""Adam: a step of about lr per coordinate, from running means of the gradient and its square.

The usual first choice for transformers and for anything whose gradients differ in scale.  Its weight
decay is L2 regularisation (it enters the gradient and is scaled by the adaptive rate); for the
decoupled form see AdamW.  ``amsgrad=True`` divides by the largest second moment so far: Adam does not
converge on some convex problems, AMSGrad does.

.. math::
    g &\leftarrow g + \lambda \theta \\
    m &\leftarrow \beta_1 m + (1-\beta_1) g, \qquad v \leftarrow \beta_2 v + (1-\beta_2) g^2 \\
    \theta &\leftarrow \theta - \frac{\alpha}{1-\beta_1^t}
        \frac{m}{\sqrt{v}/\sqrt{1-\beta_2^t} + \varepsilon}

AMSGrad divides by the largest v so far.  Three forms of :math:`\bar v \leftarrow \max(\bar v, \cdot)` are in use;
``variant`` chooses one of them:

    "torch": the largest v, corrected afterwards: m/(1−β₁ᵗ) over √v̄/√(1−β₂ᵗ) + ε.  While the correction fades, the
        denominator can still shrink.
    "optax": the largest corrected v, v/(1−β₂ᵗ): m/(1−β₁ᵗ) over √v̄ + ε.  It never shrinks, so that one large gradient
        at the start limits all later steps.
    "paper": the largest v without any correction: m over √v̄ + ε.

Arguments:
    lr: learning rate α.
    betas: decay rates (β₁, β₂) of the two means.
    eps: ε, added to the root.
    weight_decay: λ, added to the gradient.
    amsgrad: keep and use the running maximum of v.
    decoupled_weight_decay: decay as AdamW does, as in torch's class.
    variant: which AMSGrad; "optax" and "paper" imply ``amsgrad=True``.

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
from fallline.optimizers.description import Requirement, describe, preset
from fallline.rules import choice, direction, maximum, nonneg, rule, sqrt, static, where

TORCH, OPTAX, PAPER = 0, 1, 2


def decayed(p, g, lr, weight_decay, decoupled):
    """The parameter and the gradient after weight decay, which AdamW takes from the weights and Adam adds to g."""
    return (p * (1 - lr * weight_decay), g) if decoupled else (p, g + weight_decay * p)


@rule(betas=("beta1", "beta2"), derive={"final": lambda variant: variant != "torch"})
def adam(
    p, g, exp_avg, exp_avg_sq: nonneg, max_exp_avg_sq: nonneg(when="amsgrad"), *,
    lr, beta1, beta2, eps, weight_decay, amsgrad: static, decoupled_weight_decay: static,
    variant: choice("torch", "optax", "paper"), final: static, step,
):  # fmt: skip
    p, g = decayed(p, g, lr, weight_decay, decoupled_weight_decay)
    exp_avg = beta1 * exp_avg + (1 - beta1) * g
    exp_avg_sq = beta2 * exp_avg_sq + (1 - beta2) * g * g
    correction1, correction2 = 1 - beta1**step, 1 - beta2**step
    if amsgrad and final:
        # The maximum is taken over the denominator itself, so that the denominator never shrinks.
        v = max_exp_avg_sq = maximum(max_exp_avg_sq, exp_avg_sq / where(variant == OPTAX, correction2, 1.0))
        root, correction1 = sqrt(v), where(variant == OPTAX, correction1, 1.0)
    else:
        v = exp_avg_sq
        if amsgrad:
            v = max_exp_avg_sq = maximum(max_exp_avg_sq, exp_avg_sq)
        root = sqrt(v) / sqrt(correction2)
    u = exp_avg / (root + eps)
    return p - lr / correction1 * direction(u), exp_avg, exp_avg_sq, max_exp_avg_sq


Adam = describe(
    adam,
    "Adam",
    doc=__doc__,
    defaults=dict(
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0.0,
        amsgrad=False,
        decoupled_weight_decay=False,
        variant="torch",
    ),
    variants={"optax": dict(amsgrad=True), "paper": dict(amsgrad=True)},
    family="adam",
    sources=(
        "torch/optim/adam.py",
        "google-deepmind/optax transforms scale_by_amsgrad (variant optax)",
        "Reddi et al. 2018, algorithm 2 (variant paper)",
    ),
    deviations=("variant paper has Adam's ε, which the paper leaves out",),
    torch_class="Adam",
    requires=(
        Requirement(
            lambda amsgrad, variant: amsgrad or variant == "torch",
            'variant="optax" and variant="paper" are forms of AMSGrad; they need amsgrad=True',
        ),
    ),
)
AMSGrad = preset(Adam, "amsgrad", "AMSGrad", "Adam with ``amsgrad=True``.", amsgrad=True)
Adam8bit = preset(Adam, "adam8bit", "Adam8bit", 'Adam with ``state_dtype="int8"``.', state_dtype="int8")
