r"""SophiaG: momentum divided by an estimate of the curvature, with every step clipped to lr.

It is meant for pre-training language models.  The curvature comes from ``update_hessian()``; call it every ten
steps or so with the gradients of a loss on labels *sampled from the model's own output*.  Without these calls
the estimate stays zero and every step is sign descent (a warning says so after 100 steps):

.. code-block:: python

    loss.backward()
    opt.step()
    opt.zero_grad(set_to_none=True)
    if step % 10 == 9:
        logits = model(x)
        y = torch.distributions.Categorical(logits=logits).sample()
        F.cross_entropy(logits.view(-1, logits.size(-1)), y.view(-1)).backward()
        opt.update_hessian()
        opt.zero_grad(set_to_none=True)

.. math::
    h &\leftarrow \beta_2 h + (1-\beta_2) \hat g^2 \quad\text{(update\_hessian)} \\
    m &\leftarrow \beta_1 m + (1-\beta_1) g \\
    \theta &\leftarrow (1-\alpha\lambda)\,\theta - \alpha\,\mathrm{sign}(m)
        \min\!\left(1, \frac{|m|}{\rho B h + 10^{-15}}\right)

Tune ρ so that 10 to 50 % of the coordinates are not clipped.  Settings for GPT-2: 125 M lr 6e-4, ρ 0.05,
λ 0.2; 355 M 7e-4, 0.08; 770 M 3e-4, 0.05.

Arguments:
    lr: learning rate α.
    betas: decay rates (β₁, β₂) of the gradient and of the curvature.
    rho: ρ, the scale of the curvature.
    weight_decay: λ, decoupled.
    bs: B, the number of tokens per optimizer step (batch × sequence length × accumulation); squared mean
        gradients underestimate the curvature by this factor.

Example:
    >>> import torch, fallline
    >>> w = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    >>> opt = fallline.SophiaG([w], lr=0.1, bs=1, weight_decay=0.0)
    >>> w.square().sum().backward()
    >>> opt.update_hessian()
    >>> opt.step()
    >>> [round(x, 4) for x in w.tolist()]
    [0.9, -1.9]

References:
    Liu et al. 2023, Sophia: A scalable stochastic second-order optimizer for language model
    pre-training (arXiv 2305.14342).
"""

# mypy: disable-error-code=no-untyped-def
from fallline.optimizers.description import Reminder, describe
from fallline.rules import abs, direction, minimum, nonneg, positive, rule, sign


@rule(betas=("beta1", "beta2"))
def sophiag(p, g, exp_avg, hessian: nonneg, *, lr, beta1, beta2, rho: positive, weight_decay, bs: positive):
    exp_avg = beta1 * exp_avg + (1 - beta1) * g
    u = sign(exp_avg) * minimum(1, abs(exp_avg) / (rho * bs * hessian + 1e-15))
    return p * (1 - lr * weight_decay) - lr * direction(u), exp_avg, hessian


@sophiag.entry(writes=["hessian"])
def update_hessian(g, hessian, *, beta2):
    return beta2 * hessian + (1 - beta2) * g * g


SophiaG = describe(
    sophiag,
    "SophiaG",
    doc=__doc__,
    defaults=dict(lr=1e-4, betas=(0.965, 0.99), rho=0.04, weight_decay=0.1, bs=5120),
    reminder=Reminder(
        "update_hessian",
        steps=100,
        says="its curvature stays as it is, and where it is zero every step is sign descent; call update_hessian() "
        "every 10 steps or so, with the gradients of a loss on labels sampled from the model",
    ),
    sources=("Liuhong99/Sophia sophia.py",),
    deviations=("bs is a hyperparameter of the group; in the source it is an argument of step()",),
)
