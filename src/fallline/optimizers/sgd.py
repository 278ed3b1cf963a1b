r"""Stochastic gradient descent, with momentum, dampening and Nesterov's form.

Use it where the learning rate can be tuned with care: convolutional networks for vision, convex
problems, fine-tuning.  It needs little memory: one buffer with momentum, none without.

.. math::
    g &\leftarrow g + \lambda \theta \\
    b &\leftarrow g \;\text{(first step)}, \quad b \leftarrow \mu b + (1-\tau) g \\
    d &= g + \mu b \;\text{(Nesterov)}, \quad d = b \;\text{(momentum)}, \quad d = g \\
    \theta &\leftarrow \theta - \alpha d

Arguments:
    lr: learning rate α.
    momentum: μ; 0 keeps no buffer.
    dampening: τ, how much of the gradient does not enter the buffer.
    weight_decay: λ, added to the gradient.
    nesterov: look ahead; needs momentum > 0 and dampening = 0.

Example:
    >>> import torch, fallline
    >>> w = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    >>> opt = fallline.SGD([w], lr=0.1, momentum=0.9)
    >>> w.square().sum().backward()
    >>> opt.step()
    >>> w.tolist()
    [0.800000011920929, -1.600000023841858]

References:
    Sutskever et al. 2013, On the importance of initialization and momentum in deep learning.
"""

# mypy: disable-error-code=no-untyped-def
from fallline.optimizers.description import Requirement, describe
from fallline.rules import direction, rule, signed, static, where


@rule(derive={"has_momentum": lambda momentum: momentum != 0})
def sgd(
    p, g, momentum_buffer: signed(when="has_momentum"), *,
    lr, momentum, dampening, weight_decay, nesterov: static, has_momentum: static, first,
):  # fmt: skip
    g = g + weight_decay * p
    if has_momentum:
        momentum_buffer = where(first, g, momentum * momentum_buffer + (1 - dampening) * g)
        d = g + momentum * momentum_buffer if nesterov else momentum_buffer
    else:
        d = g
    return p - lr * direction(d), momentum_buffer


SGD = describe(
    sgd,
    "SGD",
    doc=__doc__,
    defaults=dict(lr=1e-3, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False),
    sources=("torch/optim/sgd.py",),
    torch_class="SGD",
    sparse=True,
    requires=(
        Requirement(
            lambda nesterov, momentum, dampening: not nesterov or (momentum > 0 and dampening == 0),
            "nesterov=True needs momentum > 0 and dampening = 0",
        ),
    ),
)
