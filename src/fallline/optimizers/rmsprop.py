r"""RMSprop: the gradient divided by a running root mean square of itself.

Use it for recurrent networks, reinforcement learning and other non-stationary problems.  ``centered=True``
divides by the standard deviation instead; ``momentum`` accumulates the scaled steps.

.. math::
    g &\leftarrow g + \lambda \theta, \qquad v \leftarrow \gamma v + (1-\gamma) g^2 \\
    \bar g &\leftarrow \gamma \bar g + (1-\gamma) g, \quad V = v - \bar g^2 \;\text{(centered)},
        \quad V = v \;\text{(otherwise)} \\
    d &= g / (\sqrt{V} + \varepsilon), \qquad b \leftarrow \mu b + d, \qquad
        \theta \leftarrow \theta - \alpha b

``eps_inside=True`` is the textbook's :math:`g / \sqrt{V + \varepsilon}`.

Arguments:
    lr: learning rate α.
    alpha: γ, the decay rate of the means (the textbook's γ; torch calls it alpha).
    eps: ε.
    weight_decay: λ, added to the gradient.
    momentum: μ; 0 keeps no buffer.
    centered: subtract the squared mean; both means then stay in 32 bits.
    eps_inside: ε inside the root.

Example:
    >>> import torch, fallline
    >>> w = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    >>> opt = fallline.RMSprop([w], lr=0.01)
    >>> w.square().sum().backward()
    >>> opt.step()
    >>> [round(x, 4) for x in w.tolist()]
    [0.9, -1.9]

References:
    Tieleman & Hinton 2012, lecture 6.5; Graves 2013 (arXiv 1308.0850) for the centered form.
"""

# mypy: disable-error-code=no-untyped-def
from fallline.optimizers.description import describe
from fallline.rules import direction, fraction, nonneg, rule, signed, sqrt, static


@rule(derive={"has_momentum": lambda momentum: momentum != 0})
def rmsprop(
    p, g, square_avg: nonneg(wide="centered"), grad_avg: signed(when="centered", wide=True),
    momentum_buffer: signed(when="has_momentum"), *,
    lr, alpha: fraction, eps, weight_decay, momentum, centered: static, eps_inside: static, has_momentum: static,
):  # fmt: skip
    g = g + weight_decay * p
    square_avg = alpha * square_avg + (1 - alpha) * g * g
    v = square_avg
    if centered:
        grad_avg = alpha * grad_avg + (1 - alpha) * g
        v = square_avg - grad_avg * grad_avg
    d = g / (sqrt(v + eps) if eps_inside else sqrt(v) + eps)
    if has_momentum:
        d = momentum_buffer = momentum * momentum_buffer + d
    return p - lr * direction(d), square_avg, grad_avg, momentum_buffer


RMSprop = describe(
    rmsprop,
    "RMSprop",
    doc=__doc__,
    defaults=dict(lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0.0, momentum=0.0, centered=False, eps_inside=False),
    sources=("torch/optim/rmsprop.py",),
    deviations=(
        "eps_inside=True is the textbook's form, which torch does not have; its ε is 1e-6",
        "with centered=True both means stay in 32 bits: with steady gradients v and ḡ² are nearly equal, so that "
        "rounding makes their difference noise of either sign; its root is NaN or so small that steps grow by 1/ε",
    ),
    torch_class="RMSprop",
)
