r"""NAG4: NAG-GS with γ held fixed.

It is the first version of :class:`NAGGS`; prefer it when μ is unknown and γ should not drift towards it.  Its
only buffer is a copy of the weights, which stays float32 in every format.

.. math::
    b &= \frac{\alpha\mu}{\alpha\mu + \gamma}, \qquad
        v \leftarrow (1-b)\,v + b\,\theta - \frac{\alpha}{\alpha\mu + \gamma}\, g \\
    \theta &\leftarrow \frac{\theta + \alpha v}{1+\alpha}

Arguments:
    lr: α, the step of the integration.
    mu: μ, how strongly v is pulled to the weights.
    gamma: γ, the inertia of v.

The source's JAX form has the same equations and the defaults lr 0.05, gamma 1.5.

Example:
    >>> import torch, fallline
    >>> w = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    >>> opt = fallline.NAG4([w], lr=0.5)
    >>> w.square().sum().backward()
    >>> opt.step()
    >>> [round(x, 4) for x in w.tolist()]
    [0.7778, -1.5556]

References:
    Leplat et al. 2022, NAG-GS: Semi-implicit, accelerated and robust stochastic optimizer
    (arXiv 2209.14937).
"""

# mypy: disable-error-code=no-untyped-def
from fallline.optimizers.description import Requirement, describe
from fallline.rules import nonnegative, rule, weights


@rule
def nag4(p, g, v: weights, *, lr, mu: nonnegative, gamma: nonnegative):
    a = lr / (1 + lr)
    b = lr * mu / (lr * mu + gamma)
    v = (1 - b) * v + b * p - lr / (lr * mu + gamma) * g
    return (1 - a) * p + a * v, v


NAG4 = describe(
    nag4,
    "NAG4",
    doc=__doc__,
    defaults=dict(lr=1e-2, mu=1.0, gamma=1.0),
    requires=(Requirement(lambda mu, gamma: mu > 0 or gamma > 0, "mu and gamma cannot both be 0"),),
    sources=("skolai/nag-gs nag_gs/nag_gs_pytorch.py", "skolai/nag-gs nag_gs/nag_gs_jax.py"),
    deviations=("v is a weighted mean, written so that gamma = 0 is possible; the source divides by γ",),
)
