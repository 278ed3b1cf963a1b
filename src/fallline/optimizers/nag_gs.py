r"""NAG-GS: Nesterov's acceleration as a differential equation, solved by semi-implicit Gauss-Seidel steps.

A second point v is pulled to the weights and pushed by the gradient; the weights follow v.  According to its
authors, it is stable at larger learning rates than SGD with momentum; μ has the role of the strong convexity.
Its only buffer is a copy of the weights, which stays float32 in every format.

.. math::
    b &= \frac{\alpha\mu}{\alpha\mu + \gamma}, \qquad
        v \leftarrow (1-b)\,v + b\,\theta - \frac{\alpha}{\alpha\mu + \gamma}\, g \\
    \gamma &\leftarrow \frac{\gamma + \alpha\mu}{1+\alpha}, \qquad
        \theta \leftarrow \frac{\theta + \alpha v}{1+\alpha}

γ is one number per group and moves from its start to μ.  :class:`NAG4` holds it fixed.

Arguments:
    lr: α, the step of the integration.
    mu: μ.
    gamma: where γ starts.
    variant: "torch", or "jax", whose first step leaves v alone and whose defaults are lr 0.05, gamma 1.5.

Example:
    >>> import torch, fallline
    >>> w = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    >>> opt = fallline.NAGGS([w], lr=0.5)
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
from fallline.rules import group, nonnegative, rule, static, weights, where


@rule(counts="group")
def nag_gs(
    p, g, v: weights, gamma_t: group(init="gamma"), *,
    lr, mu: nonnegative, gamma: nonnegative, variant: static("torch", "jax"), step,
):  # fmt: skip
    a = lr / (1 + lr)
    b = lr * mu / (lr * mu + gamma_t)
    pushed = (1 - b) * v + b * p - lr / (lr * mu + gamma_t) * g
    v = where(step == 1, v, pushed) if variant == "jax" else pushed
    return (1 - a) * p + a * v, v, (gamma_t + lr * mu) / (1 + lr)


NAGGS = describe(
    nag_gs,
    "NAGGS",
    doc=__doc__,
    defaults=dict(lr=1e-2, mu=1.0, gamma=1.0, variant="torch"),
    variants={"jax": dict(lr=0.05, gamma=1.5)},
    requires=(Requirement(lambda mu, gamma: mu > 0 or gamma > 0, "mu and gamma cannot both be 0"),),
    sources=("skolai/nag-gs nag_gs/nag_gs_pytorch.py", "skolai/nag-gs nag_gs/nag_gs_jax.py"),
    deviations=(
        "the source's torch class drops the new γ that its function returns, so that γ never moves there; here it "
        "moves, as in the paper and in the JAX form",
        "γ is one number per group, in the source's torch class one per parameter with equal values",
        "b/μ is written α/(αμ+γ), which is the same and also works with μ = 0",
    ),
)
