r"""CASPR Adaptive: NAdamW's momentum between the inverse roots of two factors, one of which sees what the other leaves.

Use it where steps count more than their cost, as Shampoo.  It was an entry to AlgoPerf's first competition.  The left
factor L is Shampoo's; the right one, R, is that of the gradient which L's root has evened out already, so that roots of
both, A^(−1/2), do not count the same curvature twice.  A step is as long as NAdamW's.

.. math::
    m &\leftarrow \beta_1 m + (1-\beta_1) g, \qquad v \leftarrow \beta_2 v + (1-\beta_2) g^2, \qquad
    \hat m = \frac{\beta_1 m + (1-\beta_1) g}{1-\beta_1^t} \\
    L &\leftarrow \beta_2 L + (1-\beta_2)\,gg^\top, \qquad
    R \leftarrow \beta_2\kappa R + (1-\beta_2)\,(P_L g)^\top (P_L g)/n \\
    P_L &= (L + \varepsilon_m\lambda_{\max} I)^{-1/2}, \qquad P_R = (R + \varepsilon_m\lambda_{\max} I)^{-1/2} \\
    d &= \frac{\hat m}{\sqrt{v/(1-\beta_2^t)} + \varepsilon}, \qquad
    u = P_L\,\hat m\,P_R\,\frac{\lVert d\rVert}{\lVert P_L\,\hat m\,P_R\rVert}, \qquad
    \theta \leftarrow \theta - \alpha\,(u + \lambda\theta)

The roots are refreshed every ``precondition_frequency`` steps; κ = tr(P_L L' P_L)/n brings R to the scale of a new P_L,
where L' is the L of the refresh before.  Up to ``start_preconditioning_step``, and for vectors, the step is NAdamW's.

Arguments:
    lr: learning rate α.
    betas: (β₁, β₂); β₂ is that of v and of the factors.
    eps: ε of d.
    weight_decay: λ, decoupled.
    matrix_eps: ε_m, relative to the largest eigenvalue.
    block_size: blocks have at most so many rows and columns.
    precondition_frequency: steps between refreshes of the roots.
    start_preconditioning_step: the last step that is NAdamW's.
    stagger: refresh the roots of some blocks in every step instead of all in one, so that no step is slow.
    root: "newton", the authors' coupled iteration, or "eigh", by eigenvalues: faster on CPUs, and nearer.

Example:
    >>> import torch, fallline
    >>> w = torch.nn.Parameter(torch.ones(2, 2))
    >>> opt = fallline.CASPR([w], lr=0.1, weight_decay=0.0, precondition_frequency=1, start_preconditioning_step=1)
    >>> for _ in range(2):
    ...     w.grad = torch.tensor([[3.0, 0.0], [0.0, 1.0]])
    ...     opt.step()
    >>> [round(x, 2) for x in w.flatten().tolist()]
    [0.67, 1.0, 1.0, 0.67]

References:
    Duvvuri et al. 2024, Combining axes preconditioners through Kronecker approximation for deep learning (ICLR 2024).
"""

# mypy: disable-error-code=no-untyped-def
from fallline.optimizers.description import describe
from fallline.rules import (
    accumulate_adaptive,
    direction,
    inverse_roots,
    maximum,
    minimum,
    nonneg,
    nonnegative,
    norm,
    positive,
    precondition,
    rule,
    setting,
    sqrt,
    squares,
    static,
    switch,
    where,
)

LONGEST = 40_000
"""The authors step matrices with a longer side by NAdamW."""
both = squares("block_size", merge="rows", longest=LONGEST)(when="is_matrix")
left = squares("block_size", merge="rows", longest=LONGEST, only=1)(when="is_matrix")


@rule(betas=("beta1", "beta2"), derive={"is_matrix": lambda ndim: ndim > 1})
def caspr(
    p, g, exp_avg, exp_avg_sq: nonneg, factors: both, previous_factors: left, roots: both,
    *,
    lr, beta1, beta2, eps, weight_decay, matrix_eps: positive,
    block_size: setting("a whole number > 0", lambda n: isinstance(n, int) and n > 0, 1024),
    precondition_frequency: positive, start_preconditioning_step: nonnegative, stagger: switch,
    root: static("newton", "eigh"),
    is_matrix: static, size0, row_length, first, step,
):  # fmt: skip
    exp_avg = beta1 * exp_avg + (1 - beta1) * g
    exp_avg_sq = beta2 * exp_avg_sq + (1 - beta2) * (g * g)
    ahead = (beta1 * exp_avg + (1 - beta1) * g) / (1 - beta1**step)
    u = ahead / (sqrt(exp_avg_sq / (1 - beta2**step)) + eps)
    if is_matrix:
        # Staggered, each root has been made when the first step needs it.
        staggers = stagger != 0
        every = where(staggers, precondition_frequency, 1)
        begin = minimum(precondition_frequency, maximum(start_preconditioning_step + 2 - precondition_frequency, 1))
        renewed = where(
            staggers,
            where(step > begin, 1.0, 0.0),
            where((step - 1) % precondition_frequency == 0, 1.0, 0.0),
        )
        factors, previous_factors, roots = accumulate_adaptive(
            factors, previous_factors, roots, g,
            decay=beta2, weight=1 - beta2, eps=matrix_eps, begins=first, renewed=where(first, 0.0, renewed),
            turn=step - 1, every=every,
        )  # fmt: skip
        refreshed = where(staggers, where(step >= begin, 1.0, 0.0), where(step % precondition_frequency == 0, 1.0, 0.0))
        roots = inverse_roots(
            roots, factors, scale=1.0, eps=matrix_eps, when=refreshed, turn=step, every=every, by_block=True,
            exponent=0.5, relative=True, method=root,
        )  # fmt: skip
        fits = where(maximum(size0, row_length) <= LONGEST, 1.0, 0.0)
        started = where(step > start_preconditioning_step, fits, 0.0)
        turned = precondition(ahead, roots, when=started)
        scaled = turned * (norm(u) / maximum(norm(turned), 1e-30))
        u = where(started != 0, scaled, u)
    return p - lr * (direction(u) + weight_decay * p), exp_avg, exp_avg_sq, factors, previous_factors, roots


CASPR = describe(
    caspr,
    "CASPR",
    doc=__doc__,
    defaults=dict(
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=1e-4,
        matrix_eps=1e-6,
        block_size=1024,
        precondition_frequency=20,
        start_preconditioning_step=101,
        stagger=False,
        root="newton",
    ),
    sources=("AlgoPerf v0.5 caspr_adaptive/caspr_adaptive_helper.py",),
    deviations=(
        "a parameter of more than two axes is a matrix of its first axis against the others, and L is over the latter: "
        "torch's weights are those of the authors' JAX, transposed",
        'a root is accepted if its error is at most 0.1, as the authors\', but tried in float64 before; root="eigh" '
        "takes eigenvalues instead of the authors' iteration",
        "matrices with both sides longer than a block, at which the authors' code fails, are cut into blocks; "
        "a gradient of zeros gives a step of zeros, not NaN",
    ),
)
