r"""QHM: a weighted mean of plain SGD and momentum, the simplest method that contains both.

ν = 0 is SGD, ν = 1 is momentum, ν = β is Nesterov's; values in between are often better.  The buffer is a
mean of gradients, not their sum: divide a learning rate that was tuned for torch's momentum by 1 − β.  The
authors recommend ν = 0.7 and β = 0.999 as a start, with the learning rate of plain SGD.

.. math::
    b &\leftarrow \beta b + (1-\beta) g \\
    \theta &\leftarrow \theta - \alpha \left(\nu b + (1-\nu) g\right)

Arguments:
    lr: learning rate α.
    momentum: β, the decay rate of the buffer.
    nu: ν, the weight of the buffer in the step.
    weight_decay: λ.
    weight_decay_type: "grad" adds λθ to the gradient; "direct" multiplies the weights by 1 − αλ first.

Example:
    >>> import torch, fallline
    >>> w = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    >>> opt = fallline.QHM([w], lr=0.1, momentum=0.9, nu=0.7)
    >>> w.square().sum().backward()
    >>> opt.step()
    >>> [round(x, 4) for x in w.tolist()]
    [0.926, -1.852]

References:
    Ma & Yarats 2019, Quasi-hyperbolic momentum and Adam for deep learning (arXiv 1810.06801).
"""

# mypy: disable-error-code=no-untyped-def
from fallline.optimizers.description import describe
from fallline.rules import direction, fraction, rule, static


@rule
def qhm(
    p, g, momentum_buffer, *,
    lr, momentum: fraction, nu, weight_decay, weight_decay_type: static("grad", "direct"),
):  # fmt: skip
    if weight_decay_type == "grad":
        g = g + weight_decay * p
    else:
        p = p * (1 - lr * weight_decay)
    momentum_buffer = momentum * momentum_buffer + (1 - momentum) * g
    return p - lr * direction(nu * momentum_buffer + (1 - nu) * g), momentum_buffer


QHM = describe(
    qhm,
    "QHM",
    doc=__doc__,
    defaults=dict(lr=1.0, momentum=0.999, nu=0.7, weight_decay=0.0, weight_decay_type="grad"),
    sources=("facebookresearch/qhoptim qhoptim/pyt/qhm.py",),
    deviations=(
        "lr, momentum and nu have no defaults in the source; the defaults here are those of its example",
        "coupled decay does not change the gradient in place; the source adds λθ to it",
    ),
)
