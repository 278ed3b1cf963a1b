r"""Adadelta: steps whose size follows from past steps, so that a learning rate hardly matters.

The ratio of two running root mean squares, of the steps and of the gradients, gives the step the unit of
the parameter.  Use it where the learning rate cannot be tuned; it starts slowly, because its first steps
come from ε alone.

.. math::
    g &\leftarrow g + \lambda \theta, \qquad v \leftarrow \rho v + (1-\rho) g^2 \\
    \delta &= \frac{\sqrt{u + \varepsilon}}{\sqrt{v + \varepsilon}}\, g, \qquad
        u \leftarrow \rho u + (1-\rho)\,\delta^2 \\
    \theta &\leftarrow \theta - \alpha\,\delta

Arguments:
    lr: α, a factor of the finished step; it does not enter the mean of the steps.
    rho: ρ, the decay rate of both means.
    eps: ε, inside both roots.
    weight_decay: λ, added to the gradient.
    gamma: a separate decay rate for v, as in textbooks; None takes ρ.

Example:
    >>> import torch, fallline
    >>> w = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    >>> opt = fallline.Adadelta([w])
    >>> w.square().sum().backward()
    >>> opt.step()
    >>> [round(x, 4) for x in w.tolist()]
    [0.9968, -1.9968]

References:
    Zeiler 2012, ADADELTA: An adaptive learning rate method (arXiv 1212.5701).
"""

# mypy: disable-error-code=no-untyped-def
from fallline.optimizers.description import describe
from fallline.rules import direction, fraction, nonneg, optional, rule, sqrt, where


@rule
def adadelta(
    p, g, square_avg: nonneg, acc_delta: nonneg, *,
    lr, rho: fraction, eps, weight_decay, gamma: optional(fraction, means=-1.0),
):  # fmt: skip
    gamma = where(gamma < 0, rho, gamma)
    g = g + weight_decay * p
    square_avg = gamma * square_avg + (1 - gamma) * g * g
    delta = sqrt(acc_delta + eps) / sqrt(square_avg + eps) * g
    acc_delta = rho * acc_delta + (1 - rho) * delta * delta
    return p - lr * direction(delta), square_avg, acc_delta


Adadelta = describe(
    adadelta,
    "Adadelta",
    doc=__doc__,
    defaults=dict(lr=1.0, rho=0.9, eps=1e-6, weight_decay=0.0, gamma=None),
    sources=("torch/optim/adadelta.py",),
    deviations=("gamma is the textbook's second constant, which neither the paper nor torch has",),
    torch_class="Adadelta",
)
