r"""AdamP: Adam that takes the radial part out of the steps of scale-invariant weights.

Only the direction of weights in front of a normalisation matters; momentum makes their norm grow, which
shrinks their effective learning rate.  The gradients of such weights are orthogonal to them, and where
AdamP finds this, it projects the update onto the tangent and decays less.  Use it in place of Adam for
networks with normalisations, with the same settings.  Each tensor is tested at every step, by its rows and then as a
whole; tensors of fewer than two axes are not tested.

.. math::
    m &\leftarrow \beta_1 m + (1-\beta_1) g, \qquad v \leftarrow \beta_2 v + (1-\beta_2) g^2, \qquad
    u = \frac{m}{\sqrt{v}/\sqrt{1-\beta_2^t} + \varepsilon} \\
    \text{if } & \max_i |\cos(g_i, \theta_i)| < \delta / \sqrt{\dim \theta_i}: \quad
    u_i \leftarrow u_i - \hat\theta_i \langle \hat\theta_i, u_i \rangle, \quad
    \hat\theta_i = \theta_i / (\|\theta_i\| + \varepsilon), \quad \lambda \leftarrow w\lambda \\
    \theta &\leftarrow (1-\alpha\lambda)\,\theta - \frac{\alpha}{1-\beta_1^t} u

with i the rows of ``view(size0, -1)`` and, if that test fails, the whole tensor as one row.

Arguments:
    lr: learning rate α.
    betas: decay rates (β₁, β₂) of the two means.
    eps: ε, added to roots and norms.
    weight_decay: λ, decoupled.
    delta: δ, below which a cosine counts as orthogonal; larger projects more tensors.
    wd_ratio: w, how much of the decay projected tensors get.
    nesterov: u from β₁m + (1−β₁)g in place of m.

Example:
    >>> import torch, fallline
    >>> w = torch.nn.Parameter(torch.tensor([[3.0, 4.0]]))
    >>> opt = fallline.AdamP([w], lr=0.5)
    >>> w.grad = torch.tensor([[4.0, -3.0]])  # orthogonal to w: Adam's step (0.5, -0.5) loses its radial part
    >>> opt.step()
    >>> [round(x, 4) for x in w[0].tolist()]
    [2.44, 4.42]

References:
    Heo et al. 2021, AdamP: slowing down the slowdown for momentum optimizers on scale-invariant weights
    (arXiv 2006.08217).
"""

# mypy: disable-error-code=no-untyped-def
from fallline.optimizers.description import describe
from fallline.rules import (
    abs,
    direction,
    dot,
    max,
    maximum,
    nonneg,
    nonnegative,
    rule,
    sqrt,
    static,
    sum,
    where,
)


def radial(p, g, u, *, eps, delta, row_length, numel):
    """The multiple of ``p`` to subtract from ``u``, and whether there is one: only if ``g`` is orthogonal to ``p``.

    The sums over the whole tensor are sums of those over its rows, so that one pass computes all of them.
    """
    rows = [dot(g, p, "rows"), dot(g, g, "rows"), dot(p, p, "rows"), dot(p, u, "rows")]

    def view(dot_gp, dot_gg, dot_pp, dot_pu):
        length = sqrt(dot_pp)
        cosine = abs(dot_gp) / (maximum(sqrt(dot_gg), eps) * maximum(length, eps))
        length = length + eps
        return cosine, dot_pu / (length * length)

    row_cosines, row_shares = view(*rows)
    cosine, share = view(*(sum(x, "tensor") for x in rows))
    by_rows = max(row_cosines, "tensor") < delta / sqrt(row_length)
    by_tensor = cosine < delta / sqrt(numel)
    return where(by_rows, row_shares, where(by_tensor, share, 0.0)), by_rows | by_tensor


@rule(betas=("beta1", "beta2"))
def adamp(
    p, g, exp_avg, exp_avg_sq: nonneg, *,
    lr, beta1, beta2, eps, weight_decay, delta: nonnegative, wd_ratio: nonnegative, nesterov: static,
    step, ndim, row_length, numel,
):  # fmt: skip
    exp_avg = beta1 * exp_avg + (1 - beta1) * g
    exp_avg_sq = beta2 * exp_avg_sq + (1 - beta2) * g * g
    momentum = beta1 * exp_avg + (1 - beta1) * g if nesterov else exp_avg
    u = momentum / (sqrt(exp_avg_sq) / sqrt(1 - beta2**step) + eps)
    decay = weight_decay
    if ndim > 1:
        share, projected = radial(p, g, u, eps=eps, delta=delta, row_length=row_length, numel=numel)
        u = u - p * share
        decay = weight_decay * where(projected, wd_ratio, 1.0)
    return p * (1 - lr * decay) - lr / (1 - beta1**step) * direction(u), exp_avg, exp_avg_sq


AdamP = describe(
    adamp,
    "AdamP",
    doc=__doc__,
    defaults=dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, delta=0.1, wd_ratio=0.1, nesterov=False),
    sources=("clovaai/AdamP adamp/adamp.py",),
)
