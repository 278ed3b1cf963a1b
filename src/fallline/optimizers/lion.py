r"""Lion: the sign of an interpolated momentum; every coordinate moves by exactly lr.

It keeps half of AdamW's states.  Use a learning rate 3 to 10 times smaller than AdamW's and a weight decay
as many times larger.  A coordinate whose interpolation is exactly zero does not move.

.. math::
    \theta &\leftarrow (1-\alpha\lambda)\,\theta
        - \alpha\,\mathrm{sign}(\beta_1 m + (1-\beta_1) g) \\
    m &\leftarrow \beta_2 m + (1-\beta_2) g

Arguments:
    lr: learning rate α.
    betas: (β₁, β₂): the interpolation of the step, and the decay rate of the momentum.
    weight_decay: λ, decoupled.

Example:
    >>> import torch, fallline
    >>> w = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    >>> opt = fallline.Lion([w], lr=0.1)
    >>> w.square().sum().backward()
    >>> opt.step()
    >>> [round(x, 4) for x in w.tolist()]
    [0.9, -1.9]

References:
    Chen et al. 2023, Symbolic discovery of optimization algorithms (arXiv 2302.06675).
"""

# mypy: disable-error-code=no-untyped-def
from fallline.optimizers.description import describe, preset
from fallline.rules import direction, rule, sign


@rule(betas=("beta1", "beta2"))
def lion(p, g, exp_avg, *, lr, beta1, beta2, weight_decay):
    u = sign(beta1 * exp_avg + (1 - beta1) * g)
    p = p * (1 - lr * weight_decay) - lr * direction(u)
    return p, beta2 * exp_avg + (1 - beta2) * g


Lion = describe(
    lion,
    "Lion",
    doc=__doc__,
    defaults=dict(lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0),
    sources=("google/automl lion/lion_pytorch.py", "lucidrains/lion-pytorch"),
)
Lion8bit = preset(Lion, "lion8bit", "Lion8bit", 'Lion with ``state_dtype="int8"``.', state_dtype="int8")
