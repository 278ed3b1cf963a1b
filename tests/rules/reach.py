"""Five optimizers that need all of the language, written as a user would write them.

Adafactor has factored states, AdamP decides by data, Prodigy sums over all parameters, Schedule-Free AdamW has
further entry points, and NAG-GS a scalar per group.
"""

# mypy: disable-error-code="no-untyped-def, valid-type"
import fallline
from fallline.rules import (
    abs,
    any_number,
    axis,
    dot,
    finite,
    fraction,
    group,
    max,
    maximum,
    mean,
    minimum,
    nonneg,
    nonnegative,
    norm,
    optimizer,
    optional,
    positive,
    rule,
    signed,
    sqrt,
    static,
    sum,
    weights,
    where,
)


def rms(x):
    return sqrt(mean(x * x))


@rule(eps=("eps1", "eps2"), derive={"factored": lambda ndim: ndim > 1, "own_eps": lambda eps1: eps1 is not None})
def adafactor(
    p, g,
    row_var: nonneg(shape=axis(-1), when="factored"),
    col_var: nonneg(shape=axis(-2), when="factored"),
    variance: nonneg(when="not factored"),
    *,
    lr, beta2_decay: finite, eps1: optional(nonnegative), eps2: nonnegative, d: positive, weight_decay,
    step, dtype_eps, factored: static, own_eps: static,
):  # fmt: skip
    """torch/optim/_adafactor.py."""
    eps1 = eps1 if own_eps else dtype_eps
    scale = maximum(eps2, rms(p)) * minimum(lr, 1 / sqrt(step))
    w = step**beta2_decay
    if factored:
        row_var = (1 - w) * row_var + w * mean(g * g, -1)
        col_var = (1 - w) * col_var + w * mean(g * g, -2)
        v = row_var * col_var / maximum(mean(row_var, -2), eps1)
    else:
        v = variance = (1 - w) * variance + w * g * g
    u = g / sqrt(maximum(v, eps1 * eps1))
    p = p * (1 - lr * weight_decay) - scale / maximum(1, rms(u) / d) * u
    return p, row_var, col_var, variance


@rule(betas=("beta1", "beta2"))
def adamp(
    p, g, exp_avg, exp_avg_sq: nonneg, *,
    lr, beta1, beta2, eps, weight_decay, delta, wd_ratio, nesterov: static, step, ndim, row_length, numel,
):  # fmt: skip
    """clovaai/AdamP adamp.py: the update loses its radial part where the gradient is orthogonal to the weights."""
    exp_avg = beta1 * exp_avg + (1 - beta1) * g
    exp_avg_sq = beta2 * exp_avg_sq + (1 - beta2) * g * g
    momentum = beta1 * exp_avg + (1 - beta1) * g if nesterov else exp_avg
    u = momentum / (sqrt(exp_avg_sq) / sqrt(1 - beta2**step) + eps)
    decay = weight_decay
    if ndim > 1:

        def cosine(over):
            return abs(dot(g, p, over)) / (maximum(norm(g, over), eps) * maximum(norm(p, over), eps))

        def tangential(over):
            length = norm(p, over) + eps
            return u - p * (dot(p, u, over) / (length * length))

        by_rows = max(cosine("rows"), "tensor") < delta / sqrt(row_length)
        by_tensor = cosine("tensor") < delta / sqrt(numel)
        u = where(by_rows, tangential("rows"), where(by_tensor, tangential("tensor"), u))
        decay = weight_decay * where(by_rows | by_tensor, wd_ratio, 1.0)
    return p * (1 - lr * decay) - lr / (1 - beta1**step) * u, exp_avg, exp_avg_sq


@rule(
    betas=("beta1", "beta2"),
    derive={"has_momentum": lambda beta1: beta1 > 0, "own_beta3": lambda beta3: beta3 is not None},
)
def prodigy(
    p, g, exp_avg: signed(when="has_momentum"), exp_avg_sq: nonneg, s, p0: weights,
    d: optimizer(init="d0"), d_max: optimizer(init="d0"), d_numerator: optimizer, k: optimizer, *,
    lr: positive, beta1, beta2, beta3: optional(fraction), eps, weight_decay, d0: positive, d_coef: positive,
    growth_rate: any_number, decouple: static, use_bias_correction: static, safeguard_warmup: static,
    has_momentum: static, own_beta3: static,
):  # fmt: skip
    """konstmish/prodigy prodigy.py: the distance d is estimated from sums over all parameters."""
    beta3 = beta3 if own_beta3 else sqrt(beta2)
    dlr = d * lr
    if use_bias_correction:
        dlr = dlr * sqrt(1 - beta2 ** (k + 1)) / (1 - beta1 ** (k + 1))
    if not decouple:
        g = g + weight_decay * p
    d_numerator_new = beta3 * d_numerator + sum(d / d0 * dlr * g * (p0 - p), "all")
    if has_momentum:
        exp_avg = beta1 * exp_avg + d * (1 - beta1) * g
    exp_avg_sq = beta2 * exp_avg_sq + d * d * (1 - beta2) * g * g
    s = beta3 * s + d / d0 * (d if safeguard_warmup else dlr) * g
    denominator = sum(abs(s), "all")

    d_hat = d_coef * d_numerator_new / denominator
    d_max_new = maximum(d_max, d_hat)
    d_new = minimum(d_max_new, where(d == d0, maximum(d, d_hat), d) * growth_rate)
    u = (exp_avg if has_momentum else d_new * g) / (sqrt(exp_avg_sq) + d_new * eps)
    p_new = (p * (1 - weight_decay * dlr) if decouple else p) - dlr * u

    still = denominator == 0
    return (
        where(still, p, p_new), exp_avg, exp_avg_sq, s, p0,
        where(still, d, d_new), where(still, d_max, d_max_new), where(still, d_numerator, d_numerator_new),
        where(still, k, k + 1),
    )  # fmt: skip


@rule(
    betas=("beta1", "beta2"),
    counts="group",
    derive={
        "warms_up": lambda warmup_steps: warmup_steps > 0,
        "has_momentum": lambda inner_momentum: inner_momentum > 0,
    },
)
def schedule_free_adamw(
    p, g, z: weights, exp_avg_sq: nonneg, exp_avg: signed(when="has_momentum"),
    lr_max: group, weight_sum: group, averaged: group, *,
    lr, beta1, beta2, eps, weight_decay, warmup_steps: nonnegative, r, weight_lr_power, inner_momentum: fraction,
    warms_up: static, has_momentum: static, step,
):  # fmt: skip
    """facebookresearch/schedule_free adamw_schedulefree.py.  Between steps the parameters are y; after ``eval()``
    they are the average x, and ``averaged`` is 1."""
    if warms_up:
        lr = lr * minimum(1, step / warmup_steps)
    lr_max = maximum(lr_max, lr)
    weight = step**r * lr_max**weight_lr_power
    weight_sum = weight_sum + weight
    c = where(weight_sum > 0, weight / weight_sum, 0.0)

    exp_avg_sq = beta2 * exp_avg_sq + (1 - beta2) * g * g
    if has_momentum:
        exp_avg = inner_momentum * exp_avg + (1 - inner_momentum) * g
        g = exp_avg / (1 - inner_momentum**step)
    x = p + (1 - 1 / beta1) * (z - p)
    z = z - lr * (g / (sqrt(exp_avg_sq / (1 - beta2**step)) + eps) + weight_decay * p)
    x = (1 - c) * x + c * z
    return (1 - beta1) * z + beta1 * x, z, exp_avg_sq, exp_avg, lr_max, weight_sum, averaged


@schedule_free_adamw.entry("eval", writes=["p", "averaged"])
def to_average(p, z, averaged, *, beta1):
    return where(averaged == 0, p + (1 - 1 / beta1) * (z - p), p), 1.0


@schedule_free_adamw.entry("train", writes=["p", "averaged"])
def from_average(p, z, averaged, *, beta1):
    return where(averaged == 1, p + (1 - beta1) * (z - p), p), 0.0


@rule
def nag_gs(p, g, v: weights, gamma_t: group(init="gamma"), *, lr, mu: nonnegative, gamma: nonnegative):
    """skolai/nag-gs, in its torch form; gamma is where gamma_t starts."""
    a = lr / (1 + lr)
    b = lr * mu / (lr * mu + gamma_t)
    v = (1 - b) * v + b * p - lr / (lr * mu + gamma_t) * g
    return (1 - a) * p + a * v, v, (gamma_t + lr * mu) / (1 + lr)


Adafactor = fallline.optimizer(adafactor, lr=1e-2, beta2_decay=-0.8, eps=(None, 1e-3), d=1.0, weight_decay=0.0)
AdamP = fallline.optimizer(
    adamp, "AdamP", lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, delta=0.1, wd_ratio=0.1, nesterov=False
)
Prodigy = fallline.optimizer(
    prodigy,
    lr=1.0,
    betas=(0.9, 0.999),
    beta3=None,
    eps=1e-8,
    weight_decay=0.0,
    decouple=True,
    use_bias_correction=False,
    safeguard_warmup=False,
    d0=1e-6,
    d_coef=1.0,
    growth_rate=float("inf"),
)
ScheduleFreeAdamW = fallline.optimizer(
    schedule_free_adamw,
    "ScheduleFreeAdamW",
    lr=0.0025,
    betas=(0.9, 0.999),
    eps=1e-8,
    weight_decay=0.0,
    warmup_steps=0,
    r=0.0,
    weight_lr_power=2.0,
    inner_momentum=0.0,
)
NAGGS = fallline.optimizer(nag_gs, "NAGGS", lr=1e-2, mu=1.0, gamma=1.0)
