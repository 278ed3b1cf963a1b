r"""SGDP: momentum SGD that takes the radial part out of the steps of scale-invariant weights.

It does for SGD what :class:`AdamP` does for Adam: use it in place of SGD with momentum for networks with
normalisations.  The test of each tensor and the projection are AdamP's.  Without Nesterov's form the
projection is written back into the momentum, as in the authors' code.

.. math::
    b &\leftarrow \mu b + (1-\tau) g, \qquad d = g + \mu b \;\text{(Nesterov)}, \quad d = b \\
    \text{if } & \max_i |\cos(g_i, \theta_i)| < \delta / \sqrt{\dim \theta_i}: \quad
    d_i \leftarrow d_i - \hat\theta_i \langle \hat\theta_i, d_i \rangle, \quad
    \lambda \leftarrow w\lambda \\
    \theta &\leftarrow \left(1-\frac{\alpha\lambda}{1-\mu}\right)\theta - \alpha d

with i the rows of ``view(size0, -1)`` and, if that test fails, the whole tensor as one row.

Arguments:
    lr: learning rate α.
    momentum: μ, below 1.
    dampening: τ, the part of the gradient that does not enter the buffer, not even at the first step.
    weight_decay: λ, decoupled, and divided by 1 − μ.
    nesterov: look ahead; the buffer is then not projected.
    eps: ε, added to norms.
    delta: δ, below which a cosine counts as orthogonal; larger projects more tensors.
    wd_ratio: w, how much of the decay projected tensors get.

Example:
    >>> import torch, fallline
    >>> w = torch.nn.Parameter(torch.tensor([[3.0, 4.0]]))
    >>> opt = fallline.SGDP([w], lr=0.5, momentum=0.9)
    >>> w.grad = torch.tensor([[4.0, -3.0]])
    >>> opt.step()
    >>> [round(x, 4) for x in w[0].tolist()]
    [1.0, 5.5]

References:
    Heo et al. 2021, AdamP: slowing down the slowdown for momentum optimizers on scale-invariant weights
    (arXiv 2006.08217).
"""

# mypy: disable-error-code=no-untyped-def
from fallline.optimizers.adamp import radial
from fallline.optimizers.description import describe
from fallline.rules import direction, finite, fraction, nonnegative, rule, static, where


@rule
def sgdp(
    p, g, momentum_buffer, *,
    lr, momentum: fraction, dampening: finite, weight_decay, nesterov: static, eps, delta: nonnegative,
    wd_ratio: nonnegative, ndim, row_length, numel,
):  # fmt: skip
    momentum_buffer = momentum * momentum_buffer + (1 - dampening) * g
    d = g + momentum * momentum_buffer if nesterov else momentum_buffer
    decay = weight_decay / (1 - momentum)
    if ndim > 1:
        share, projected = radial(p, g, d, eps=eps, delta=delta, row_length=row_length, numel=numel)
        d = d - p * share
        decay = decay * where(projected, wd_ratio, 1.0)
    return p * (1 - lr * decay) - lr * direction(d), momentum_buffer if nesterov else d


SGDP = describe(
    sgdp,
    "SGDP",
    doc=__doc__,
    defaults=dict(
        lr=1e-3, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False, eps=1e-8, delta=0.1, wd_ratio=0.1
    ),
    sources=("clovaai/AdamP adamp/sgdp.py",),
    deviations=(
        "lr has a default; the source requires it",
        "the buffer is called momentum_buffer, as in torch's SGD; the source calls it momentum",
    ),
)
