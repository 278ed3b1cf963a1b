r"""NorMuon: Muon's orthogonal factor with rows of equal length on average, because neurons are not stepped alike by it.

Use it where Muon is used: for the hidden matrices of a network.  Rows of an orthogonal factor, one for each neuron,
differ much in length; dividing each by the root of its mean square over time makes all neurons learn at one rate.  The
norm of the whole matrix stays as it was, so that Muon's learning rates fit.  It keeps one more number per row.

.. math::
    B &\leftarrow \mu B + (1-\mu) g, \qquad \tilde B = (1-\mu) g + \mu B \\
    O &\approx UV^\top \quad\text{where}\quad \tilde B = U\Sigma V^\top \\
    v_i &\leftarrow \beta_2 v_i + (1-\beta_2)\,\tfrac1n\textstyle\sum_j O_{ij}^2, \qquad
    N_{ij} = \frac{O_{ij}}{\sqrt{v_i} + \varepsilon} \\
    \theta &\leftarrow (1-\alpha\lambda)\,\theta - \alpha\,s\,\frac{\lVert O\rVert}{\lVert N\rVert + \varepsilon}\,N

The factor s is Muon's: √max(1, A/B) for a matrix A × B, or 0.2·√max(A, B).  Parameters of more than two axes are
matrices of their first axis against the others, as filters of convolutions.

Arguments:
    lr: learning rate α.
    weight_decay: λ, decoupled.
    momentum: μ.
    beta2: β₂ of the mean squares of rows.
    nesterov: step along B̃; False steps along B.
    eps: ε.
    ns_steps: steps of the Newton–Schulz iteration.
    ns_dtype: "float32", or "bfloat16" for products in 16 bits, as the authors': faster on processors with units
        for them, and less exact.
    adjust_lr_fn: "original": s = √max(1, A/B); "match_rms_adamw": s = 0.2·√max(A, B).

Example:
    >>> import torch, fallline
    >>> w = torch.nn.Parameter(torch.ones(2, 2))
    >>> opt = fallline.NorMuon([w], lr=0.1)
    >>> (w * torch.tensor([[3.0, 0.0], [0.0, 1.0]])).sum().backward()
    >>> opt.step()
    >>> [round(x, 1) for x in w.flatten().tolist()]
    [0.9, 1.0, 1.0, 0.9]

References:
    Li et al. 2025, NorMuon: making Muon more efficient and scalable (arXiv 2510.05491).
"""

# mypy: disable-error-code=no-untyped-def
from fallline.optimizers.description import describe
from fallline.optimizers.muon import COEFFICIENTS, is_count
from fallline.rules import (
    axis,
    choice,
    direction,
    fraction,
    maximum,
    mean,
    nonneg,
    norm,
    orthogonalize,
    rule,
    setting,
    sqrt,
    static,
    where,
)

ORIGINAL = 0


@rule(min_ndim=2)
def normuon(
    p, g, momentum_buffer, second_momentum_buffer: nonneg(shape=axis("rows")),
    *,
    lr, weight_decay, momentum, beta2: fraction, nesterov: static, eps,
    ns_steps: setting("a whole number from 1 to 99", lambda n: is_count(n) and 1 <= n < 100, 5),
    ns_dtype: setting('"float32" or "bfloat16"', lambda x: x == "bfloat16", "float32"),
    adjust_lr_fn: choice("original", "match_rms_adamw"), size0, row_length, ndim,
):  # fmt: skip
    momentum_buffer = momentum * momentum_buffer + (1 - momentum) * g
    u = momentum * momentum_buffer + (1 - momentum) * g if nesterov else momentum_buffer
    o = orthogonalize(
        u, method="newton_schulz", coefficients=COEFFICIENTS, steps=ns_steps, eps=1e-7, adds_eps=True, scale="none",
        stacked=False, split_sizes=None, num_heads=0, dtype=ns_dtype,
    )  # fmt: skip
    second_momentum_buffer = beta2 * second_momentum_buffer + (1 - beta2) * mean(o * o, "rows")
    n = o / (sqrt(second_momentum_buffer) + eps)
    kept = n * (norm(o) / (norm(n) + eps))
    wide = sqrt(maximum(1, size0 / maximum(row_length, 1)))
    scale = where(adjust_lr_fn == ORIGINAL, wide, 0.2 * sqrt(maximum(size0, row_length)))
    return p * (1 - lr * weight_decay) - lr * scale * direction(kept), momentum_buffer, second_momentum_buffer


NorMuon = describe(
    normuon,
    "NorMuon",
    doc=__doc__,
    defaults=dict(
        lr=0.02,
        weight_decay=0.0,
        momentum=0.95,
        beta2=0.95,
        nesterov=True,
        eps=1e-10,
        ns_steps=5,
        ns_dtype="float32",
        adjust_lr_fn="original",
    ),
    sources=("zichongli5/NorMuon normuon.py",),
    deviations=(
        'the iteration runs in float32, which is more exact, unless ns_dtype says "bfloat16"',
        "a filter of a convolution has one mean square, as a row of a matrix; the authors' code has one per row of "
        "each kernel, and takes s from the sides of the kernel",
    ),
    companion={"rule": "adamw", "lr": 3e-4, "betas": (0.9, 0.95), "weight_decay": 0.0},
)
