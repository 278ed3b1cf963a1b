r"""Adan: Nesterov's acceleration by gradient differences, adapted per coordinate.

Its authors train vision transformers, language models and diffusion models with it, in fewer epochs than
with AdamW.  It takes large learning rates: use 5 to 10 times AdamW's, and a weight decay of about 0.02.  It
keeps four states, twice AdamW's memory; ``state_dtype="int8"`` brings that down to half of AdamW's in float32.

.. math::
    \Delta &= g_t - g_{t-1} \quad (0 \text{ at the first gradient}) \\
    m &\leftarrow \beta_1 m + (1-\beta_1) g, \qquad d \leftarrow \beta_2 d + (1-\beta_2) \Delta \\
    n &\leftarrow \beta_3 n + (1-\beta_3) (g + \beta_2 \Delta)^2 \\
    u &= \left(\frac{m}{1-\beta_1^t} + \frac{\beta_2 d}{1-\beta_2^t}\right) \bigg/
        \left(\frac{\sqrt{n}}{\sqrt{1-\beta_3^t}} + \varepsilon\right) \\
    \theta &\leftarrow \frac{\theta - \alpha u}{1 + \alpha\lambda}, \qquad
        \text{no\_prox:}\; \theta \leftarrow (1-\alpha\lambda)\,\theta - \alpha u

The paper's β are one minus these.  ``restart_opt()`` clears the moments and the step counter; the next
step then starts afresh, with Δ = 0.

Arguments:
    lr: learning rate α.
    betas: decay rates (β₁, β₂, β₃) of the means of the gradient, its difference, and the square.
    eps: ε, added to the root.
    weight_decay: λ.
    max_grad_norm: the largest norm of all gradients together; 0 does not clip.  The same in all groups.
    no_prox: decay as AdamW does instead of by the proximal division.

Example:
    >>> import torch, fallline
    >>> w = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    >>> opt = fallline.Adan([w], lr=0.1, weight_decay=0.02)
    >>> w.square().sum().backward()
    >>> opt.step()
    >>> [round(x, 4) for x in w.tolist()]
    [0.8982, -1.8962]

References:
    Xie et al. 2022, Adan: Adaptive Nesterov momentum algorithm for faster optimizing deep models
    (arXiv 2208.06677).
"""

# mypy: disable-error-code=no-untyped-def
from fallline.optimizers.description import describe
from fallline.rules import direction, minimum, nonneg, nonnegative, norm, rule, sqrt, static, where


@rule(
    betas=("beta1", "beta2", "beta3"),
    counts="group",
    derive={"clips": lambda max_grad_norm: max_grad_norm > 0},
)
def adan(
    p, g, exp_avg, exp_avg_sq: nonneg, exp_avg_diff, neg_pre_grad, *,
    lr, beta1, beta2, beta3, eps, weight_decay, max_grad_norm: nonnegative,
    no_prox: static, clips: static, step, first,
):  # fmt: skip
    if clips:
        g = g * minimum(1, max_grad_norm / (norm(g, "all") + eps))
    diff = where(first | (step == 1), 0.0, g + neg_pre_grad)
    exp_avg = beta1 * exp_avg + (1 - beta1) * g
    exp_avg_diff = beta2 * exp_avg_diff + (1 - beta2) * diff
    ahead = g + beta2 * diff
    exp_avg_sq = beta3 * exp_avg_sq + (1 - beta3) * ahead * ahead
    momentum = exp_avg / (1 - beta1**step) + beta2 / (1 - beta2**step) * exp_avg_diff
    u = momentum / (sqrt(exp_avg_sq) / sqrt(1 - beta3**step) + eps)
    # Both decays are of the form a·p − b·u, so one kernel serves both.
    kept = 1 - lr * weight_decay if no_prox else 1 / (1 + lr * weight_decay)
    rate = lr if no_prox else lr * kept
    return p * kept - rate * direction(u), exp_avg, exp_avg_sq, exp_avg_diff, -g


@adan.entry(writes=["exp_avg", "exp_avg_sq", "exp_avg_diff", "step"])
def restart_opt():
    return 0.0, 0.0, 0.0, 0


Adan = describe(
    adan,
    "Adan",
    doc=__doc__,
    defaults=dict(lr=1e-3, betas=(0.98, 0.92, 0.99), eps=1e-8, weight_decay=0.0, max_grad_norm=0.0, no_prox=False),
    must_match=("max_grad_norm",),
    sources=("sail-sg/Adan adan.py",),
    deviations=(
        "clipping leaves the gradients in place as they are, uses each group's own eps and sums the norm in float64; "
        "the source overwrites them, uses the last group's eps and sums in float32",
        "the step of a group does not advance while none of its parameters has a gradient",
        "foreach=None, fused=None is the default and picks the fastest that is correct; the source's are True and "
        "False",
    ),
)
