r"""Shampoo: a gradient multiplied, along each of its axes, by the inverse root of what that axis has seen.

Use it where steps count more than their cost: it won AlgoPerf's first competition.  Each axis of a block of a parameter
has two square matrices; a refresh of the roots, every ``precondition_frequency`` steps, costs an eigendecomposition of
each.  ``grafting`` takes the length of each step from another method, whose learning rate then fits.

.. math::
    A_i &\leftarrow \beta_2 A_i + (1-\beta_2)\,g_{(i)}g_{(i)}^\top, \qquad
    P_i = \Big(\frac{A_i}{1-\beta_2^t} + \varepsilon I\Big)^{-1/(2k)} \\
    \bar g &= \frac{\beta_3 m + (1-\beta_3) g}{1-\beta_3\beta_1^{t-1}}, \qquad
    m \leftarrow \beta_1 m + (1-\beta_1) g \\
    u &= \bar g \times_1 P_1 \cdots \times_k P_k, \qquad
    \hat u = u\,\frac{\lVert\text{grafted}\rVert}{\lVert u\rVert + 10^{-16}} \\
    \theta &\leftarrow \theta - \alpha\,(\hat u + \lambda\theta)

g₍ᵢ₎ is the gradient unfolded along axis i, and k the number of axes of a block.  With β₂ = 1 the factors are sums.
With ``betas=(0.0, 1.0)``, ``merge_dims="none"`` and a damping ε this is the method of the first paper.

Arguments:
    lr: learning rate α.
    betas: (β₁, β₂): decay rates of the filtered gradient and of the factors.
    beta3: weight of the filtered gradient in a step; None for β₁.
    epsilon: ε.
    weight_decay: λ.
    decoupled_weight_decay: False adds λθ to the gradient instead.
    max_preconditioner_dim: blocks have at most so many rows along each axis.
    merge_dims: "last": neighbouring short axes become one, from the last backwards; "first": from the first
        forwards, as AlgoPerf's winner did; "none": never.
    precondition_frequency: steps between refreshes of the roots.
    start_preconditioning_step: the first step with roots; None for ``precondition_frequency``.
    use_bias_correction: divide by 1 − β₂ᵗ and 1 − β₃β₁ᵗ⁻¹.
    inverse_exponent: the exponent of the roots, 0.5 for A^(−1/2); None for 1/(2k).
    grafting: None, "sgd", "adagrad", "rmsprop" or "adam": the method whose step length is taken.
    grafting_beta2: decay rate of the grafted method's second moment.
    grafting_epsilon: ε of the grafted method.
    momentum: μ of a momentum of the steps; 0 for none.
    dampening: of that momentum.
    use_nesterov: Nesterov's form of that momentum.
    use_nadam: ḡ = (β₁m + (1−β₁)g)/(1−β₁ᵗ) with the new m, as AlgoPerf's winner.
    stagger: refresh some roots in every step instead of all in one, so that no step is slow.

Example:
    >>> import torch, fallline
    >>> w = torch.nn.Parameter(torch.ones(2, 2))
    >>> opt = fallline.Shampoo([w], lr=0.1, betas=(0.0, 1.0), epsilon=0.0, merge_dims="none")
    >>> w.grad = torch.tensor([[3.0, 0.0], [0.0, 1.0]])
    >>> opt.step()
    >>> [round(x, 2) for x in w.flatten().tolist()]
    [0.9, 1.0, 1.0, 0.9]

References:
    Gupta et al. 2018, Shampoo: preconditioned stochastic tensor optimization (arXiv 1802.09568).
    Shi et al. 2023, A distributed data-parallel PyTorch implementation of Distributed Shampoo (arXiv 2309.06497).
"""

# mypy: disable-error-code=no-untyped-def
from fallline.optimizers.description import Requirement, describe, preset
from fallline.rules import (
    accumulate,
    direction,
    fraction,
    inverse_roots,
    nonneg,
    nonnegative,
    optional,
    positive,
    precondition,
    rule,
    setting,
    signed,
    sqrt,
    squares,
    static,
    switch,
    where,
)
from fallline.rules.annotations import Range

up_to_one = Range("in [0, 1]", lambda x: 0 <= x <= 1)
matrices = squares("max_preconditioner_dim", merge="merge_dims")
SQUARED = ("adagrad", "rmsprop", "adam")
"""Methods with a second moment, whose step length can be taken."""


@rule(
    betas=("beta1", "beta2"),
    derive={
        "filters": lambda beta1: beta1 != 0,
        "has_momentum": lambda momentum: momentum != 0,
        "squared": lambda grafting: grafting in SQUARED,
    },
)
def shampoo(
    p, g,
    exp_avg: signed(when="filters"),
    exp_avg_sq: nonneg(when="squared"),
    momentum_buffer: signed(when="has_momentum"),
    factors: matrices, roots: matrices,
    *,
    lr, beta1, beta2: up_to_one, beta3: optional(fraction, means=-1.0), epsilon: nonnegative, weight_decay,
    decoupled_weight_decay: static,
    max_preconditioner_dim: setting("a whole number > 0", lambda n: isinstance(n, int) and n > 0, 1024),
    merge_dims: setting('"last", "first" or "none"', lambda x: x in ("first", "none"), "last"),
    precondition_frequency: positive, start_preconditioning_step: optional(positive, means=-1.0),
    use_bias_correction: switch,
    inverse_exponent: setting("a number in (0, 1], or None", lambda x: isinstance(x, float) and 0 < x <= 1),
    grafting: static(None, "sgd", *SQUARED), grafting_beta2: up_to_one, grafting_epsilon: nonnegative,
    momentum, dampening: fraction, use_nesterov: switch, use_nadam: switch, stagger: switch,
    step, filters: static, has_momentum: static, squared: static,
):  # fmt: skip
    start = where(start_preconditioning_step < 0, precondition_frequency, start_preconditioning_step)
    started = step >= start
    at_once = where((step == start) | (step % precondition_frequency == 0), where(started, 1.0, 0.0), 0.0)
    # Staggered, each root has been made when the first step needs it.
    staggers = stagger != 0
    refreshed = where(staggers, where(step > start - precondition_frequency, 1.0, 0.0), at_once)
    if not decoupled_weight_decay:
        g = g + weight_decay * p
    summed = beta2 == 1
    factors = accumulate(factors, g, decay=beta2, weight=where(summed, 1.0, 1 - beta2))
    left = where(summed, 0.0, where(use_bias_correction != 0, beta2**step, 0.0))
    roots = inverse_roots(
        roots, factors, scale=1 / (1 - left), eps=epsilon, exponent=inverse_exponent,
        when=refreshed, turn=step, every=where(staggers, precondition_frequency, 1),
    )  # fmt: skip
    filtered = g
    if filters:
        nadam = use_nadam != 0
        share = where(nadam, beta1 * beta1, where(beta3 < 0, beta1, beta3))
        left = where(nadam, beta1**step, share * beta1 ** (step - 1))
        filtered = (share * exp_avg + (1 - share) * g) / (1 - where(use_bias_correction != 0, left, 0.0))
        exp_avg = beta1 * exp_avg + (1 - beta1) * g
    grafted = filtered
    if squared:
        kept, added = (1.0, 1.0) if grafting == "adagrad" else (grafting_beta2, 1 - grafting_beta2)
        exp_avg_sq = kept * exp_avg_sq + added * (g * g)
        second = exp_avg_sq
        if grafting == "adam":
            second = exp_avg_sq / where(grafting_beta2 == 1, 1.0, 1 - grafting_beta2**step)
        grafted = filtered / (sqrt(second) + grafting_epsilon)
    u = precondition(filtered, roots, like=None if grafting is None else grafted, when=started)
    if grafting is not None:
        u = where(started, u, grafted)
    u = direction(u)
    if decoupled_weight_decay:
        u = u + weight_decay * p
    if has_momentum:
        momentum_buffer = momentum * momentum_buffer + (1 - dampening) * u
        u = where(use_nesterov != 0, (1 - dampening) * u + momentum * momentum_buffer, momentum_buffer)
    return p - lr * u, exp_avg, exp_avg_sq, momentum_buffer, factors, roots


Shampoo = describe(
    shampoo,
    "Shampoo",
    doc=__doc__,
    defaults=dict(
        lr=1e-2,
        betas=(0.9, 1.0),
        beta3=None,
        epsilon=1e-12,
        weight_decay=0.0,
        decoupled_weight_decay=True,
        max_preconditioner_dim=1024,
        merge_dims="last",
        precondition_frequency=1,
        start_preconditioning_step=None,
        use_bias_correction=True,
        inverse_exponent=None,
        grafting=None,
        grafting_beta2=0.999,
        grafting_epsilon=1e-10,
        momentum=0.0,
        dampening=0.0,
        use_nesterov=False,
        use_nadam=False,
        stagger=False,
    ),
    sources=(
        "facebookresearch/optimizers distributed_shampoo.py",
        'AlgoPerf v0.5 shampoo (use_nadam, merge_dims="first")',
    ),
    deviations=(
        "None stands for the authors' -1 in beta3 and start_preconditioning_step",
        "the exponent is one number for all blocks, inverse_exponent; the authors' override may differ by order",
    ),
    requires=(
        Requirement(
            lambda start_preconditioning_step, precondition_frequency: (
                start_preconditioning_step is None or start_preconditioning_step >= precondition_frequency
            ),
            "start_preconditioning_step must be >= precondition_frequency, at which the first roots are there",
        ),
    ),
)
ShampooAlgoPerf = preset(
    Shampoo,
    "shampoo_algoperf",
    "ShampooAlgoPerf",
    """Shampoo as it won AlgoPerf's first competition: Adam's step lengths, roots refreshed every 100 steps.

    It is the first of the entry's five search points; the others are in ``fallline contestants``.  The learning rate is
    meant for a linear warm-up over 2 % of the steps and a cosine to 0.""",
    lr=0.0017486387539278373,
    betas=(0.93266073836, 0.99551596898),
    epsilon=1e-8,
    weight_decay=0.08121616522670176,
    merge_dims="first",
    precondition_frequency=100,
    grafting="adam",
    grafting_beta2=0.99551596898,
    grafting_epsilon=1e-8,
    use_nadam=True,
)
