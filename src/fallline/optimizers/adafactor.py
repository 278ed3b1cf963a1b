r"""Adafactor: Adam's second moment of a matrix from one mean per row and one per column.

Use it where the states must take little memory: a matrix of n × m weights has n + m numbers of state.  The
step is relative to the size of the weights and its root mean square is clipped, which makes a first moment
unnecessary.  Tensors of 0 or 1 axes keep a full second moment; in tensors of more than 2 axes, the last two
are factored.

.. math::
    r &\leftarrow \beta_t r + (1-\beta_t)\,\mathrm{mean}_{col}(g^2), \quad
    c \leftarrow \beta_t c + (1-\beta_t)\,\mathrm{mean}_{row}(g^2), \qquad 1-\beta_t = t^{-0.8} \\
    u &= g \big/ \sqrt{r\,c\,/\,\mathrm{mean}(r)}, \qquad
    \hat u = u / \max(1, \mathrm{RMS}(u)/d) \\
    \theta &\leftarrow \theta - \rho_t \max(\varepsilon_2, \mathrm{RMS}(\theta))\,\hat u

Two forms are in use; ``variant`` chooses one of them:

    "torch": ρ_t = min(lr, 1/√t); √(rc/mean r) and mean r are at least ε₁; the decay is αλθ with the plain lr.
    "hf" (transformers): ρ_t = min(0.01, 1/√t) if ``relative_step``, else lr; ε₁ is added to g²; the decay is
        ρ_t·max(ε₂, RMS θ)·λθ; optionally a first moment of the step itself.

Arguments:
    lr: learning rate; None with ``relative_step``.
    beta2_decay: the exponent of t; HF calls it decay_rate.
    eps: (ε₁, ε₂); if ε₁ is None, it is the machine epsilon of the dtype of the computation.
    d: the largest root mean square of a step; HF calls it clip_threshold.
    weight_decay: λ.
    variant: "torch" or "hf".  "hf" changes the defaults to lr=None, eps=(1e-30, 1e-3), relative_step=True.
    beta1: only "hf": decay rate of the mean of the steps; None keeps no mean.
    scale_parameter: only "hf": multiply the step by max(ε₂, RMS θ).
    relative_step: only "hf": take ρ_t from the step number instead of lr.
    warmup_init: only "hf", with relative_step: min(1e-6·t, 1/√t).

Example:
    >>> import torch, fallline
    >>> w = torch.nn.Parameter(torch.ones(2, 3))
    >>> opt = fallline.Adafactor([w], lr=0.1)
    >>> w.square().sum().backward()
    >>> opt.step()
    >>> [round(x, 4) for x in w[0].tolist()], tuple(opt.state[w]["row_var"].shape)
    ([0.9, 0.9, 0.9], (2, 1))

References:
    Shazeer & Stern 2018, Adafactor: adaptive learning rates with sublinear memory cost (arXiv 1804.04235).
"""

# mypy: disable-error-code=no-untyped-def
import math

from fallline.optimizers.description import Requirement, describe
from fallline.rules import (
    axis,
    choice,
    direction,
    fraction,
    maximum,
    mean,
    minimum,
    nonneg,
    nonnegative,
    optional,
    positive,
    rsqrt,
    rule,
    signed,
    sqrt,
    static,
    switch,
    where,
)
from fallline.rules.annotations import Range


def rms(x):
    return sqrt(mean(x * x))


TORCH, HF = 0, 1
not_positive = Range("<= 0", lambda x: x <= 0, finite=True)  # β_t = 1 − t**x is negative for x > 0


@rule(
    eps=("eps1", "eps2"),
    derive={"factored": lambda ndim: ndim > 1, "has_momentum": lambda beta1: beta1 is not None},
)
def adafactor(
    p, g,
    row_var: nonneg(shape=axis(-1), when="factored"),
    col_var: nonneg(shape=axis(-2), when="factored"),
    variance: nonneg(when="not factored"),
    exp_avg: signed(when="has_momentum"),
    *,
    lr: optional(nonnegative, means=0.0), beta2_decay: not_positive, eps1: optional(nonnegative, means=-1.0),
    eps2: nonnegative, d: positive, weight_decay, variant: choice("torch", "hf"), beta1: optional(fraction),
    scale_parameter: static, relative_step: switch, warmup_init: switch,
    step, dtype_eps, factored: static, has_momentum: static,
):  # fmt: skip
    hf = variant == HF
    eps1 = where(eps1 < 0, dtype_eps, eps1)
    added, floor, most = where(hf, eps1, 0.0), where(hf, 0.0, eps1), where(hf, math.inf, 1 / eps1)
    w = step**beta2_decay
    if factored:
        row_var = (1 - w) * row_var + w * (mean(g * g, -1) + added)
        col_var = (1 - w) * col_var + w * (mean(g * g, -2) + added)
        # One root per row and one per column are cheaper than one per element.
        factor = rsqrt(row_var / maximum(mean(row_var, -2), floor)) * rsqrt(col_var)
    else:
        variance = (1 - w) * variance + w * (g * g + added)
        factor = rsqrt(variance)
    # √max(V, ε²) in the denominator is min(1/√V, 1/ε) as a factor.
    u = g * minimum(factor, most)
    relative = minimum(where(warmup_init != 0, 1e-6 * step, 1e-2), 1 / sqrt(step))
    rate = where(hf, where(relative_step != 0, relative, lr), minimum(lr, 1 / sqrt(step)))
    if scale_parameter:
        rate = rate * maximum(eps2, rms(p))
    move = u * (rate / maximum(1, rms(u) / d))
    if has_momentum:
        move = exp_avg = beta1 * exp_avg + (1 - beta1) * move
    return p * (1 - where(hf, rate, lr) * weight_decay) - direction(move), row_var, col_var, variance, exp_avg


Adafactor = describe(
    adafactor,
    "Adafactor",
    doc=__doc__,
    defaults=dict(
        lr=1e-2,
        beta2_decay=-0.8,
        eps=(None, 1e-3),
        d=1.0,
        weight_decay=0.0,
        variant="torch",
        beta1=None,
        scale_parameter=True,
        relative_step=False,
        warmup_init=False,
    ),
    variants={"hf": dict(lr=None, eps=(1e-30, 1e-3), relative_step=True)},
    sources=("torch/optim/_adafactor.py", "huggingface/transformers optimization.py (variant hf)"),
    deviations=(
        "everything is computed in float32 at least; torch computes 16-bit parameters in their own "
        "dtype, with its machine epsilon as ε₁",
        "variant hf has the argument names, state names and state shapes of variant torch, and stores no RMS",
    ),
    torch_class="Adafactor",
    requires=(
        Requirement(
            lambda variant, beta1, scale_parameter, relative_step, warmup_init: (
                variant == "hf" or (beta1 is None and scale_parameter and not relative_step and not warmup_init)
            ),
            'beta1, scale_parameter=False, relative_step and warmup_init need variant="hf"; torch\'s '
            "form has none of them",
        ),
        Requirement(lambda variant, d: variant == "hf" or d >= 1, 'd must be >= 1 with variant="torch"'),
        Requirement(
            lambda lr, relative_step: lr is None or not relative_step,
            "lr must be None with relative_step=True, which takes the rate from the step number; set "
            "relative_step=False to use lr",
        ),
        Requirement(
            lambda lr, relative_step: lr is not None or relative_step,
            "lr must be a number unless relative_step=True, got None",
        ),
        Requirement(
            lambda warmup_init, relative_step: relative_step or not warmup_init,
            "warmup_init=True needs relative_step=True",
        ),
        Requirement(
            lambda variant, eps1: variant == "torch" or eps1 is not None,
            'eps[0] must be a number with variant="hf", got None',
        ),
    ),
)
