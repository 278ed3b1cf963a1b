r"""Adagrad: each coordinate's step shrinks with the sum of its squared gradients so far.

Made for sparse features: rare ones keep a large step.  On long runs with dense gradients the steps
shrink too far; RMSprop and Adam forget instead.

.. math::
    g &\leftarrow g + \lambda \theta, \qquad s \leftarrow s + g^2 \\
    \theta &\leftarrow \theta - \frac{\alpha}{1 + (t-1)\,\eta}\,\frac{g}{\sqrt{s} + \varepsilon}

``eps_inside=True`` is the textbook's :math:`g / \sqrt{s + \varepsilon}` (with ε = 1e-6 there).

Arguments:
    lr: learning rate α.
    lr_decay: η, a further decay of the rate with the step.
    weight_decay: λ, added to the gradient.
    initial_accumulator_value: where s starts.
    eps: ε.
    eps_inside: ε inside the root.

Example:
    >>> import torch, fallline
    >>> w = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    >>> opt = fallline.Adagrad([w], lr=0.1)
    >>> w.square().sum().backward()
    >>> opt.step()
    >>> [round(x, 4) for x in w.tolist()]
    [0.9, -1.9]

References:
    Duchi, Hazan & Singer 2011, Adaptive subgradient methods for online learning.
"""

# mypy: disable-error-code=no-untyped-def
from fallline.optimizers.description import describe
from fallline.rules import direction, nonneg, nonnegative, rule, sqrt, static


@rule
def adagrad(
    p, g, sum: nonneg(init="initial_accumulator_value"), *,
    lr, lr_decay, weight_decay, initial_accumulator_value: nonnegative, eps, eps_inside: static, step,
):  # fmt: skip
    g = g + weight_decay * p
    sum = sum + g * g
    root = sqrt(sum + eps) if eps_inside else sqrt(sum) + eps
    return p - lr / (1 + (step - 1) * lr_decay) * direction(g / root), sum


Adagrad = describe(
    adagrad,
    "Adagrad",
    doc=__doc__,
    defaults=dict(lr=1e-2, lr_decay=0.0, weight_decay=0.0, initial_accumulator_value=0.0, eps=1e-10, eps_inside=False),
    sources=("torch/optim/adagrad.py",),
    deviations=("eps_inside=True is the textbook's form, which torch does not have; its ε is 1e-6",),
    torch_class="Adagrad",
    sparse=True,
)
