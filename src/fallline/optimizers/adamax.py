r"""Adamax: Adam with a decaying maximum of |g| in place of the root mean square.

The variant of Adam for the infinity norm, from the same paper.  The maximum needs no bias correction and
reacts at once to a large gradient, which suits embeddings and other sparsely used weights.

.. math::
    g &\leftarrow g + \lambda \theta, \qquad m \leftarrow \beta_1 m + (1-\beta_1) g \\
    u &\leftarrow \max(\beta_2 u,\; |g| + \varepsilon), \qquad
        \theta \leftarrow \theta - \frac{\alpha}{1-\beta_1^t}\,\frac{m}{u}

Arguments:
    lr: learning rate α.
    betas: β₁, the decay rate of the mean, and β₂, that of the maximum.
    eps: ε, added to |g| inside the maximum.
    weight_decay: λ, added to the gradient.

Example:
    >>> import torch, fallline
    >>> w = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    >>> opt = fallline.Adamax([w], lr=0.1)
    >>> w.square().sum().backward()
    >>> opt.step()
    >>> [round(x, 4) for x in w.tolist()]
    [0.9, -1.9]

References:
    Kingma & Ba 2015, Adam: A method for stochastic optimization (arXiv 1412.6980), section 7.1.
"""

# mypy: disable-error-code=no-untyped-def
from fallline.optimizers.description import describe
from fallline.rules import abs, direction, maximum, nonneg, rule


@rule(betas=("beta1", "beta2"))
def adamax(p, g, exp_avg, exp_inf: nonneg, *, lr, beta1, beta2, eps, weight_decay, step):
    g = g + weight_decay * p
    exp_avg = beta1 * exp_avg + (1 - beta1) * g
    exp_inf = maximum(beta2 * exp_inf, abs(g) + eps)
    return p - lr / (1 - beta1**step) * direction(exp_avg / exp_inf), exp_avg, exp_inf


Adamax = describe(
    adamax,
    "Adamax",
    doc=__doc__,
    defaults=dict(lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0),
    sources=("torch/optim/adamax.py",),
    torch_class="Adamax",
)
