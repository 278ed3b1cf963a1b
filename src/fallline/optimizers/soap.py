r"""SOAP: Adam in the eigenbasis of Shampoo's factors.

Use it for matrices whose axes have room for two square matrices each.  Between refreshes of the basis a step costs six
products of matrices; a refresh, every ``precondition_frequency`` steps, costs a QR decomposition of each factor.

.. math::
    L &\leftarrow \beta_s L + (1-\beta_s)\,gg^\top, \qquad R \leftarrow \beta_s R + (1-\beta_s)\,g^\top g \\
    \tilde g &= Q_L^\top g\,Q_R, \qquad
    m \leftarrow \beta_1 m + (1-\beta_1)\tilde g, \qquad v \leftarrow \beta_2 v + (1-\beta_2)\tilde g^2 \\
    \theta &\leftarrow \theta - \alpha\,\frac{\sqrt{1-\beta_2^t}}{1-\beta_1^t}\,
        Q_L\frac{m}{\sqrt v + \varepsilon}Q_R^\top, \qquad \theta \leftarrow \theta - \alpha\lambda\,\theta

The first call only begins: it sets the factors and their eigenvectors, and no parameter moves.  At a refresh the
columns of Q are sorted and turned by one step of power iteration; m and v follow.  Parameters of one axis are stepped
by Adam, also from the second call on.

Arguments:
    lr: learning rate α.
    betas: (β₁, β₂).
    shampoo_beta: β_s of the factors; None for β₂.
    eps: ε.
    weight_decay: λ, decoupled; it acts on the weights after the step.
    precondition_frequency: steps between refreshes of the basis.
    max_precond_dim: an axis longer than this keeps its own basis.
    correct_bias: the factor √(1−β₂ᵗ)/(1−β₁ᵗ); False leaves it out.
    stagger: refresh some bases in every step instead of all in one, so that no step is slow.

Example:
    >>> import torch, fallline
    >>> w = torch.nn.Parameter(torch.ones(2, 2))
    >>> opt = fallline.SOAP([w], lr=0.1, weight_decay=0.0)
    >>> for _ in range(3):
    ...     w.grad = torch.tensor([[3.0, 0.0], [0.0, 1.0]])
    ...     opt.step()
    >>> [round(x, 2) for x in w.flatten().tolist()]
    [0.8, 1.0, 1.0, 0.8]

References:
    Vyas et al. 2024, SOAP: improving and stabilizing Shampoo using Adam (arXiv 2409.11321).
"""

# mypy: disable-error-code=no-untyped-def
from fallline.optimizers.description import describe
from fallline.rules import (
    accumulate,
    direction,
    eigenbasis,
    fraction,
    maximum,
    nonneg,
    optional,
    positive,
    project,
    rule,
    setting,
    sqrt,
    squares,
    static,
    switch,
    turn_basis,
    where,
)

matrices = squares("max_precond_dim", cut=False)(when="rotated")


@rule(betas=("beta1", "beta2"), derive={"rotated": lambda ndim: ndim > 1})
def soap(
    p, g, exp_avg, exp_avg_sq: nonneg, factors: matrices, basis: matrices,
    *,
    lr, beta1, beta2, shampoo_beta: optional(fraction, means=-1.0), eps, weight_decay, precondition_frequency: positive,
    max_precond_dim: setting("a whole number > 0", lambda n: isinstance(n, int) and n > 0, 10000),
    correct_bias: static, stagger: switch, rotated: static, first, step,
):  # fmt: skip
    decay = where(shampoo_beta < 0, beta2, shampoo_beta)
    later, t = where(first, 0.0, 1.0), step - 1
    r = g
    if rotated:
        factors = accumulate(factors, g, decay=0.0, weight=1 - decay, when=first)
        basis = eigenbasis(basis, factors, when=first)
        r = project(g, basis, when=later)
    exp_avg = where(first, exp_avg, beta1 * exp_avg + (1 - beta1) * r)
    exp_avg_sq = where(first, exp_avg_sq, beta2 * exp_avg_sq + (1 - beta2) * r * r)
    u = exp_avg / (sqrt(exp_avg_sq) + eps)
    rate = lr
    if correct_bias:
        rate = rate * sqrt(1 - beta2 ** maximum(t, 1)) / (1 - beta1 ** maximum(t, 1))
    if rotated:
        u = project(u, basis, back=True, when=later)
        factors = accumulate(factors, g, decay=decay, weight=1 - decay, when=later)
        staggers = stagger != 0
        refreshed = where(staggers, later, where(t % precondition_frequency == 0, later, 0.0))
        every = where(staggers, precondition_frequency, 1)
        basis, exp_avg, exp_avg_sq = turn_basis(
            basis, factors, exp_avg, exp_avg_sq, when=refreshed, turn=t, every=every
        )
    p = where(first, p, (p - rate * direction(u)) * (1 - lr * weight_decay))
    return p, exp_avg, exp_avg_sq, factors, basis


SOAP = describe(
    soap,
    "SOAP",
    doc=__doc__,
    defaults=dict(
        lr=3e-3,
        betas=(0.95, 0.95),
        shampoo_beta=None,
        eps=1e-8,
        weight_decay=0.01,
        precondition_frequency=10,
        max_precond_dim=10000,
        correct_bias=True,
        stagger=False,
    ),
    sources=("nikhilvyas/SOAP soap.py",),
    deviations=(
        "the counter `step` counts the first call, which the authors' does not",
        "shampoo_beta=None stands for the authors' -1",
        "normalize_grads, merge_dims and precondition_1d are not offered",
    ),
)
