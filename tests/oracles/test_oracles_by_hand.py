"""First steps of the oracles torch cannot check, computed by hand from the published formulas.

Most start at 1 with lr .1, betas .5 and .75, eps .5 and gradients 2, 3. Then m = 1, 2 and v = 1, 3, so
that the debiased moments are 2, 2/.75 and 4, 3/.4375, and every place of eps and decay shows.
"""

import importlib
import pkgutil
from math import log, sqrt
from typing import Any

import numpy as np
import pytest

import tests.oracles

ADAM: dict[str, Any] = dict(lr=0.1, betas=(0.5, 0.75), eps=0.5)
DECAYED: dict[str, Any] = dict(ADAM, weight_decay=0.2)
D2 = sqrt(3 / 0.4375) + 0.5  # the denominator of the second step; that of the first is 2.5


def make(name: str, params: list[Any], **options: Any) -> Any:
    return importlib.import_module(f"tests.oracles.{name}").Oracle([np.array(p) for p in params], **options)


def check(name: str, options: dict[str, Any], start: Any, grads: list[Any], expected: list[Any], **states: Any) -> Any:
    oracle = make(name, [start], **options)
    for g, theta in zip(grads, expected, strict=True):
        oracle.step([np.array(g)])
        np.testing.assert_allclose(oracle.params[0], theta, rtol=1e-13, atol=1e-15)
    for key, value in states.items():
        np.testing.assert_allclose(oracle.states[0][key], value, rtol=1e-13, err_msg=key)
    return oracle


def test_lion() -> None:
    options = dict(lr=0.1, betas=(0.5, 0.75), weight_decay=0.5)
    # .5 m + .5 g is 1, -.05, .0125: the last sign is not that of the gradient.
    path = [0.85, 0.85 * 0.95 + 0.1, (0.85 * 0.95 + 0.1) * 0.95 - 0.1]
    check("lion", options, 1.0, [2.0, -0.6, -0.2], path, exp_avg=0.11875)
    oracle = check("lion", dict(options, weight_decay=0.05, decoupled_weight_decay=True), 1.0, [2.0], [0.85])
    oracle.set(lr=0.2)
    oracle.step([np.array(2.0)])
    np.testing.assert_allclose(oracle.params[0], 0.85 * 0.9 - 0.2)
    # The scales (.5, 1, .5) over their mean 2/3.
    cautious = [0.85 * 0.95 - 0.075, 0.85 * 0.95 - 0.15, 0.85 * 0.95 - 0.075]
    grads = [[2.0, 2.0, 2.0], [-0.4, 2.0, 0.0]]
    check("lion", dict(options, cautious_factor=0.5), [1.0, 1.0, 1.0], grads, [[0.85] * 3, cautious])
    check("lion", {}, 1.0, [0.0], [1.0])


def test_adafactor_hf() -> None:
    hf = dict(variant="hf")
    w = 2**-0.8
    v = (1 - w) * 9 + w * 2.25
    lr = 0.01 * 1.98
    check("adafactor", hf, 2.0, [3.0, 1.5], [1.98, 1.98 - lr * 1.5 / sqrt(v)], exp_avg_sq=v)
    # Decay by lr_t = .01 * 2 and then .01 * 1.97; momentum over the scaled update.
    first = 2 - 0.5 * 0.02 * 2 - 0.01
    lr = 0.01 * first
    second = first - 0.5 * lr * first - (0.5 * 0.01 + 0.5 * lr * 1.5 / sqrt(v))
    check("adafactor", dict(hf, beta1=0.5, weight_decay=0.5), 2.0, [3.0, 1.5], [first, second])
    # The clip divides an update of size 1 by 1 / .5; lr itself with no relative step and no scale.
    fixed = dict(hf, lr=0.1, relative_step=False, scale_parameter=False, clip_threshold=0.5)
    check("adafactor", fixed, 2.0, [3.0], [1.95])
    check("adafactor", dict(hf, warmup_init=True), 2.0, [3.0, 3.0], [2 - 2e-6, (2 - 2e-6) * (1 - 2e-6)])
    # Row means of g² 2.5, 12.5 (their mean 7.5), column means 5, 10; rms(u) < clip_threshold. Doubling g
    # multiplies all means by 1 + 3w.
    g = np.array([[1.0, 2.0], [3.0, 4.0]])
    u = [
        [sqrt(7.5 / 2.5 / 5), 2 * sqrt(7.5 / 2.5 / 10)],
        [3 * sqrt(7.5 / 12.5 / 5), 4 * sqrt(7.5 / 12.5 / 10)],
    ]
    matrix = dict(hf, lr=0.1, relative_step=False, scale_parameter=False, clip_threshold=2.0)
    path = [-0.1 * np.array(u), -(0.1 + 0.2 / sqrt(1 + 3 * w)) * np.array(u)]
    states = dict(exp_avg_sq_row=(1 + 3 * w) * np.array([2.5, 12.5]))
    check("adafactor", matrix, np.zeros((2, 2)), [g, 2 * g], path, **states)
    # Factors are per matrix of a stack, and do not see its scale; vectors have none.
    stack = -0.1 * np.array([u, u])
    check("adafactor", matrix, np.zeros((2, 2, 2)), [np.stack([g, 3 * g])], [stack])
    check("adafactor", matrix, [0.0, 0.0], [[3.0, -1.5]], [[-0.1, 0.1]])
    check("adafactor", dict(matrix, eps=(7.0, 1e-3)), 0.0, [3.0], [-0.075])
    late = make("adafactor", [2.0], variant="hf")
    late.steps = [39_999]
    late.step([np.array(3.0)])
    np.testing.assert_allclose(late.params[0], 2 - 2 / 200)
    with pytest.raises(ValueError, match="relative_step"):
        make("adafactor", [1.0], variant="hf", lr=0.1)
    with pytest.raises(ValueError, match="relative_step"):
        make("adafactor", [1.0], variant="hf", lr=0.1, relative_step=False, warmup_init=True)


def test_adamp() -> None:
    check("adamp", DECAYED, 1.0, [2.0, 3.0], [0.9, 0.9 * 0.98 - 0.1 * 2 / 0.75 / D2])
    path = [0.86, 0.86 * 0.98 - 0.1 * 2.5 / 0.75 / D2]
    check("adamp", dict(DECAYED, nesterov=True), 1.0, [2.0, 3.0], path)
    # Row cosines .8, 0, that of the whole 20/194; delta is over sqrt 2 for the rows, 2 for the whole.
    options = dict(lr=0.1, betas=(0.5, 0.75), eps=1.0, weight_decay=0.2)
    theta = np.array([[3.0, 4.0], [5.0, 12.0]])
    g = np.array([[0.0, 5.0], [12.0, -5.0]])
    u = np.array([[0.0, 5 / 12], [6 / 13, -5 / 12]])
    # Unit rows (3, 4)/6 and (5, 12)/14, dot products 5/18 and -5/26.
    by_rows = u - np.array([[3 / 6 * 5 / 18, 4 / 6 * 5 / 18], [-5 / 14 * 5 / 26, -12 / 14 * 5 / 26]])
    by_whole = u - theta * (5 / 3 + 30 / 13 - 5) / (sqrt(194) + 1) ** 2
    check("adamp", dict(options, delta=1.2), theta, [g], [0.998 * theta - 0.2 * by_rows])
    check("adamp", dict(options, delta=1.1), theta, [g], [0.998 * theta - 0.2 * by_whole])
    check("adamp", dict(options, delta=0.2), theta, [g], [0.98 * theta - 0.2 * u])
    # Vectors are never projected.
    check("adamp", options, [3.0, 4.0], [[4.0, -3.0]], [[3 * 0.98 - 0.08, 4 * 0.98 + 0.075]])


def test_sgdp() -> None:
    options = dict(lr=0.1, momentum=0.5, dampening=0.5, weight_decay=0.2)
    check("sgdp", options, 1.0, [2.0, 1.0], [0.86, 0.86 * 0.96 - 0.1], momentum=1.0)
    # Decay by 1 - .5 .2 w / .5, w = .1 where the projection applies: to matrices.
    decayed = dict(lr=0.5, momentum=0.5, weight_decay=0.2)
    check("sgdp", decayed, [[3.0, 4.0]], [[[4.0, -3.0]]], [[[0.98 * 3 - 2, 0.98 * 4 + 1.5]]])
    check("sgdp", decayed, [3.0, 4.0], [[4.0, -3.0]], [[0.8 * 3 - 2, 0.8 * 4 + 1.5]])
    # The second gradient is orthogonal to (1, 5.5), the buffer (7.5, -2.5) is not and gets projected.
    options = dict(lr=0.5, momentum=0.5, eps=0.0)
    grads = [[[4.0, -3.0]], [[5.5, -1.0]]]
    path = [[[1.0, 5.5]], [[-2.85, 6.2]]]
    check("sgdp", options, [[3.0, 4.0]], grads, path, momentum=[[7.7, -1.4]])
    grads = [[[4.0, -3.0]], [[2.0, 0.0]]]
    path = [[[0.0, 6.25]], [[-2.0, 6.25]]]
    check("sgdp", dict(options, nesterov=True), [[3.0, 4.0]], grads, path, momentum=[[4.0, -1.5]])


def test_prodigy() -> None:
    options = dict(lr=0.5, betas=(0.5, 0.25), eps=0.5, weight_decay=0.2, d0=0.1, d_coef=10.0)
    first = 0.99 - 0.05 * 0.1 / (sqrt(0.03) + 0.05)
    d = 10 * 0.1 * (1 - first) / 0.15  # larger than d0; eps takes it at once, the step only later
    second = first * 0.99 - 0.05 * 0.15 / (sqrt(0.0375) + d * 0.5)
    states = dict(exp_avg=0.15, exp_avg_sq=0.0375, s=0.15, p0=1.0)
    oracle = check("prodigy", options, 1.0, [2.0, 2.0], [first, second], **states)
    assert d > 0.15
    np.testing.assert_allclose(oracle.d, d, rtol=1e-13)
    # The growth rate does not hold back the first departure from d0.
    check("prodigy", dict(options, growth_rate=1.5), 1.0, [2.0, 2.0], [first, second])
    # Third step: the d of before now scales the step, m, v and s; num decays by beta3 = .5.
    oracle.step([np.array(2.0)])
    num = 0.5 * 0.1 * (1 - first) + d / 0.1 * d * 0.5 * 2 * (1 - second)
    s = 0.075 + d / 0.1 * d * 0.5 * 2
    root = sqrt(0.25 * 0.0375 + d**2 * 0.75 * 4)
    d3 = max(d, 10 * num / s)
    third = second - 0.2 * d * 0.5 * second - d * 0.5 * (0.075 + d * 0.5 * 2) / (root + d3 * 0.5)
    np.testing.assert_allclose(oracle.params[0], third, rtol=1e-13)
    capped = check("prodigy", dict(options, growth_rate=1.5, d_coef=0.0), 1.0, [2.0], [first])
    capped.d, capped.d_max = 0.2, 9.0
    capped.step([np.array(2.0)])
    np.testing.assert_allclose(capped.d, 0.3)
    # The bias corrections enter the step and s; with safeguard_warmup s has neither them nor lr.
    corrected = dict(options, use_bias_correction=True, weight_decay=0.0, d_coef=0.0)
    c1, c2 = sqrt(0.75) / 0.5, sqrt(0.9375) / 0.75
    path = [1 - c1 * 0.005 / (sqrt(0.03) + 0.05)]
    path.append(path[0] - c2 * 0.0075 / (sqrt(0.0375) + 0.05))
    check("prodigy", corrected, 1.0, [2.0, 2.0], path, s=0.05 * c1 + 0.1 * c2)
    check("prodigy", dict(corrected, safeguard_warmup=True), 1.0, [2.0, 2.0], path, s=0.3)
    plain = dict(options, betas=(0.0, 0.25), weight_decay=0.0)
    oracle = check("prodigy", plain, 1.0, [2.0], [1 - 0.05 * 0.1 * 2 / (sqrt(0.03) + 0.05)])
    assert oracle.states[0].keys() == {"exp_avg_sq", "s", "p0"}
    check("prodigy", dict(options, decouple=False), 2.0, [1.6], [2 - 0.05 * 0.1 / (sqrt(0.03) + 0.05)])
    oracle = check("prodigy", dict(options, beta3=0.2), 1.0, [2.0], [first])
    oracle.step([np.array(2.0)])
    np.testing.assert_allclose(oracle.states[0]["s"], 0.2 * 0.1 + 0.1)
    check("prodigy", options, 1.0, [0.0], [1.0])  # no gradient at all: not even decay


def test_schedule_free() -> None:
    # Warmup gives lr .05, .1 and with r = 1 the weights .0025, .02, so the second c is 8/9.
    warm = dict(warmup_steps=2, r=1.0)
    first = 1 - 0.05 * (0.8 + 0.3)
    g = 3 / D2 + 0.3 * first
    z, x = first - 0.1 * g, first - 8 / 9 * 0.1 * g
    options = dict(ADAM, weight_decay=0.3, **warm)
    oracle = check("schedule_free_adamw", options, 1.0, [2.0, 3.0], [first, (z + x) / 2], z=z, exp_avg_sq=3)
    np.testing.assert_allclose(oracle.x[0], x, rtol=1e-13)
    assert oracle.states[0].keys() == {"z", "exp_avg_sq"}
    path = [0.92, 0.92 - 0.075 * 2 / 0.75 / D2]
    check("schedule_free_adamw", dict(ADAM, inner_momentum=0.5), 1.0, [2.0, 3.0], path, exp_avg=2)
    check("schedule_free_adamw", dict(lr=0.0), 1.0, [2.0], [1.0])

    z, x = 0.875 - 0.1 * 1.4375, 0.875 - 8 / 9 * 0.1 * 1.4375
    options = dict(lr=0.1, momentum=0.5, weight_decay=0.5, **warm)
    oracle = check("schedule_free_sgd", options, 1.0, [2.0, 1.0], [0.875, (z + x) / 2], z=z)
    np.testing.assert_allclose(oracle.x[0], x, rtol=1e-13)
    # beta .75 weighs x, not z: z is .9, .8 and x is .9, .85.
    check("schedule_free_sgd", dict(lr=0.1, momentum=0.75), 1.0, [1.0, 1.0], [0.9, 0.25 * 0.8 + 0.75 * 0.85])
    check("schedule_free_sgd", dict(lr=0.0), 1.0, [2.0], [1.0])


def test_schedule_free_adamw_of_algoperf() -> None:
    # The warm-up gives lr .25, .5, .75, but lr is at least eps: .5, .5, .75. With r = 1 the weights are .25, .5 and
    # 1.6875, so that c is 1, 2/3, 9/13. v is 1, 3, 2.5; the factors sqrt(1 - beta2^t) are .5, sqrt .4375, sqrt .578125.
    options = dict(ADAM, variant="algoperf", lr=1.0, weight_decay=0.2, warmup_steps=4, r=1.0)
    first = 1 - 0.25 * 2 / 1.5 - 0.25 * 0.2
    size = 0.5 * sqrt(0.4375)
    z2 = first - size * 3 / (sqrt(3) + 0.5) - size * 0.2 * first
    x2 = (first + 2 * z2) / 3
    # Only now x, where the decay is taken, is neither y nor z.
    size = 0.75 * sqrt(0.578125)
    z3 = z2 - size / (sqrt(2.5) + 0.5) - size * 0.2 * x2
    x3 = (4 * x2 + 9 * z3) / 13
    path = [first, (z2 + x2) / 2, (z3 + x3) / 2]
    oracle = check("schedule_free_adamw", options, 1.0, [2.0, 3.0, 1.0], path, z=z3, exp_avg_sq=2.5)
    np.testing.assert_allclose(oracle.x[0], x3, rtol=1e-13)
    np.testing.assert_allclose([oracle.lr_max, oracle.weight_sum], [0.75, 2.4375])


def test_schedule_free_prodigy() -> None:
    # d is .1 in the first two steps, as z has not moved before the second; c is 1, 2/3, 1/2.
    options = dict(lr=0.5, betas=(0.5, 0.25), eps=0.5, weight_decay=0.2, r=1.0, d0=0.1, d_coef=10.0)
    first = 1 - 0.01 - 0.1 * 0.05 * 2 / (sqrt(0.03) + 0.05)
    num, d = 0.01 * (1 - first), 10 * 0.01 * (1 - first) / 0.015
    # The new d counts in the gradient's part of the step and in eps, the old one everywhere else.
    z2 = first - 0.01 * first - d * 0.05 * 2 / (sqrt(0.0375) + d * 0.5)
    x2 = (first + 2 * z2) / 3
    states = dict(z=z2, exp_avg_sq=0.0375, s=0.015, p0=1.0)
    oracle = check("schedule_free_prodigy", options, 1.0, [2.0, 2.0], [first, (z2 + x2) / 2], **states)
    assert d > 0.3
    np.testing.assert_allclose(oracle.d, d, rtol=1e-13)
    oracle.step([np.array(1.0)])
    num = 0.5 * num + d * d * 0.5 * (1 - z2)
    d3 = max(d, 10 * num / (0.5 * 0.015 + d * d * 0.5))
    z3 = z2 - 0.2 * d * 0.5 * x2 - d3 * d * 0.5 / (sqrt(0.25 * 0.0375 + 0.75 * d * d) + d3 * 0.5)
    x3 = (x2 + z3) / 2
    np.testing.assert_allclose([oracle.x[0], oracle.params[0]], [x3, (z3 + x3) / 2], rtol=1e-13)
    np.testing.assert_allclose([oracle.d, oracle.d_numerator, oracle.weight_sum], [d3, num, 6.0], rtol=1e-13)
    # Half of the rate in the first of two steps of warm-up, which the weights of the average do not see.
    warm = check("schedule_free_prodigy", dict(options, lr=1.0, warmup_steps=2), 1.0, [2.0], [first])
    assert warm.weight_sum == 1.0
    assert check("schedule_free_prodigy", options, 1.0, [0.0], [1.0]).k == 0  # no gradient at all: not even decay


def test_nag_gs_and_nag4() -> None:
    options = dict(lr=0.5, mu=2.0, gamma=1.0)
    oracle = check("nag_gs", options, 1.0, [2.0, 1.0], [5 / 6, 44 / 63], v=3 / 7)
    np.testing.assert_allclose(oracle.gamma, 14 / 9)
    check("nag_gs", dict(options, variant="jax"), 1.0, [2.0, 1.0], [1.0, 13 / 14], v=11 / 14)
    check("nag4", options, 1.0, [2.0, 1.0], [5 / 6, 25 / 36], v=5 / 12)
    check("nag4", dict(options, mu=0.0), 1.0, [2.0], [2 / 3])


def test_nadamw_nadamp_and_generalized_adam() -> None:
    path = [0.86, 0.86 * 0.98 - 0.1 * 2.5 / 0.75 / D2]
    for name in ("nadamw", "nadamp", "generalized_adam"):
        check(name, DECAYED, 1.0, [2.0, 3.0], path, exp_avg=2, exp_avg_sq=3)
    # (4 + 12)^(1/4) = 2.
    path = [0.86, 0.86 * 0.98 - 0.1 * 2.5 / 0.75 / ((3 / 0.4375 + 12) ** 0.25 + 0.5)]
    for name in ("nadamp", "generalized_adam"):
        check(name, dict(DECAYED, power=4.0, eps_root=12.0), 1.0, [2.0, 3.0], path)
    path = [0.94, 0.94 * 0.98 - 0.1 * 2 / D2]
    check("generalized_adam", dict(DECAYED, nesterov=False), 1.0, [2.0, 3.0], path)
    momentum = dict(DECAYED, disable_preconditioning=True)
    check("generalized_adam", momentum, 1.0, [2.0, 3.0], [0.68, 0.1664], trace=4)
    check("generalized_adam", dict(momentum, nesterov=False), 1.0, [2.0, 3.0], [0.78, 0.3644])


def test_adan() -> None:
    options = dict(lr=0.1, betas=(0.5, 0.25, 0.75), eps=0.5, weight_decay=0.25)
    # Gradients 2, 1, 3: m = 1, 1, 2; d = 0, -.75, 1.3125; n = 1, .75 + .25 .75², .75 n + .25 3.5².
    n2 = 0.75 + 0.25 * 0.75**2
    n3 = 0.75 * n2 + 0.25 * 3.5**2
    u2 = (1 / 0.75 - 0.25 * 0.75 / 0.9375) / (sqrt(n2 / 0.4375) + 0.5)
    u3 = (2 / 0.875 + 0.25 * 1.3125 / 0.984375) / (sqrt(n3 / 0.578125) + 0.5)
    path = [0.92 / 1.025]
    path.append((path[0] - 0.1 * u2) / 1.025)
    path.append((path[1] - 0.1 * u3) / 1.025)
    states = dict(exp_avg=2, exp_avg_diff=1.3125, exp_avg_sq=n3, neg_pre_grad=-3)
    oracle = check("adan", options, 1.0, [2.0, 1.0, 3.0], path, **states)
    oracle.restart_opt()  # the next step is a first one: no difference
    oracle.step([np.array(2.0)])
    np.testing.assert_allclose(oracle.params[0], (path[2] - 0.08) / 1.025, rtol=1e-13)
    path = [0.975 - 0.08, (0.975 - 0.08) * 0.975 - 0.1 * u2]
    check("adan", dict(options, no_prox=True), 1.0, [2.0, 1.0], path)
    clipped = dict(options, max_grad_norm=1.0)
    check("adan", clipped, 1.0, [2.0], [(1 - 0.1 * 0.8 / 1.3) / 1.025], neg_pre_grad=-0.8)
    # The group's counter runs on while a parameter waits; its first difference is 0 all the same.
    late = make("adan", [1.0, 1.0], **options)
    late.step([None, np.array(2.0)])
    late.step([np.array(2.0), None])
    np.testing.assert_allclose(late.params[0], (1 - 0.1 / 0.75 / (sqrt(1 / 0.4375) + 0.5)) / 1.025, rtol=1e-13)


def test_qhm_and_qhadam() -> None:
    options = dict(lr=0.1, momentum=0.5, nu=0.75, weight_decay=0.5)
    path = [0.84375, 0.84375 - 0.1 * (0.75 * 1.3359375 + 0.25 * 1.421875)]
    check("qhm", options, 1.0, [2.0, 1.0], path, momentum_buffer=1.3359375)
    check("qhm", dict(options, weight_decay_type="direct"), 1.0, [2.0, 1.0], [0.825, 0.68375])

    adam = dict(DECAYED, nus=(0.5, 0.25), decouple_weight_decay=True)
    path = [0.9, 0.9 * 0.98 - 0.1 * (2 / 3 + 0.5) / (sqrt(4 / 7 + 0.75) + 0.5)]
    states = dict(exp_avg=4 / 3, exp_avg_sq=16 / 7, beta1_weight=1.5, beta2_weight=1.75)
    check("qhadam", adam, 1.0, [2.0, 1.0], path, **states)
    check("qhadam", dict(adam, decouple_weight_decay=False), 2.0, [1.6], [1.92])


def test_sophiag() -> None:
    options = dict(lr=0.1, betas=(0.5, 0.75), rho=0.5, bs=2, weight_decay=0.2)
    oracle = check("sophiag", options, 1.0, [2.0], [0.88], hessian=0.0)
    oracle.update_hessian([np.array(4.0)])
    oracle.step([np.array(1.0)])
    np.testing.assert_allclose(oracle.params[0], 0.88 * 0.98 - 0.1 * 0.25, rtol=1e-13)
    np.testing.assert_allclose(oracle.states[0]["hessian"], 4.0)


def test_lamb() -> None:
    # The clipped gradient is 1. For one number the trust ratio leaves only the sign of the update.
    check("lamb", DECAYED, 1.0, [2.0, 0.5], [0.9, 0.81], exp_avg=0.5, exp_avg_sq=0.25)
    first = 1 - 0.1 * 13 / 15
    second = first - 0.1 * (0.5 / 0.75 / (0.5 / sqrt(0.4375) + 0.5) + 0.2 * first)
    check("lamb", dict(DECAYED, trust_clip=True), 1.0, [2.0, 0.5], [first, second])
    plain = dict(DECAYED, weight_decay=0.0)
    check("lamb", plain, 1.0, [2.0], [1 - 0.2 / 3])
    check("lamb", dict(plain, always_adapt=True), 1.0, [2.0, 0.0], [0.9, 0.81])
    check("lamb", dict(plain, always_adapt=True), 1.0, [0.0], [1.0])  # norm 0: ratio 1
    check("lamb", dict(DECAYED, trust_clip=True), 0.0, [2.0], [-0.2 / 3])
    check("lamb", dict(plain, grad_averaging=False), 1.0, [2.0], [1 - 0.2 / 1.5])
    check("lamb", dict(plain, bias_correction=False), 1.0, [2.0], [1 - 0.1 * 0.5 / (0.5 + 0.5)])
    check("lamb", dict(plain, max_grad_norm=None), 1.0, [2.0], [0.92])
    check("lamb", dict(plain, max_grad_norm=0.5), 1.0, [2.0], [0.95])
    check("lamb", dict(DECAYED, decoupled_decay=True), 2.0, [2.0], [1.96 * 0.9])
    coupled = dict(DECAYED, adam_w_mode=False, trust_clip=True)
    check("lamb", coupled, 2.0, [2.0], [2 - 0.1 * 1.4 / 1.9])
    # ‖g‖ is over all parameters: (.6, .8) after the clip.
    two = make("lamb", [1.0, 1.0], **plain)
    two.step([np.array(6.0), np.array(8.0)])
    np.testing.assert_allclose(two.params, [1 - 0.06 / 1.1, 1 - 0.08 / 1.3], rtol=1e-13)


def test_adopt() -> None:
    options = dict(lr=0.1, betas=(0.5, 0.75), eps=0.1, weight_decay=0.2)
    decoupled = dict(options, decouple=True)
    path = [1.0, 0.955, 0.955 * 0.98 - 0.1 * (0.125 + 0.5 * 2**0.25)]
    states = dict(exp_avg=0.125 + 0.5 * 2**0.25, exp_avg_sq=0.75 * 3.25 + 4)
    check("adopt", decoupled, 1.0, [2.0, 1.0, 4.0], path, **states)
    path[2] = 0.955 * 0.98 - 0.1 * (0.125 + 2 / sqrt(3.25))
    check("adopt", dict(decoupled, clip_lambda=None), 1.0, [2.0, 1.0, 4.0], path)
    check("adopt", options, 2.0, [1.8, 0.8], [2.0, 2 - 0.06 / 2.2])
    check("adopt", dict(options, weight_decay=0.0), 1.0, [0.01, 0.05], [1.0, 1 - 0.1 * 0.5 * 0.5])


def test_ademamix() -> None:
    options = dict(DECAYED, betas=(0.5, 0.75, 0.9), alpha=2.0, alpha_warmup=4, beta3_warmup=2)
    # Halfway between the half-lives of .5 and .9 at the first step; fully warm at the second.
    half = 0.5 * (log(0.5) / log(0.5 + 1e-8) - 1) + 0.5 * (log(0.5) / log(0.9 + 1e-8) - 1)
    slow = 2 * (1 - 0.5 ** (1 / (half + 1)))
    first = 1 - 0.1 * ((2 + 0.5 * slow) / 2.5 + 0.2)
    slow2 = 0.9 * slow + 0.3
    second = first - 0.1 * ((2 / 0.75 + slow2) / D2 + 0.2 * first)
    states = dict(exp_avg_fast=2, exp_avg_slow=slow2, exp_avg_sq=3)
    check("ademamix", options, 1.0, [2.0, 3.0], [first, second], **states)
    cold = dict(ADAM, betas=(0.0, 0.75, 0.9))
    oracle = check("ademamix", cold, 1.0, [2.0, 3.0], [0.904, 0.904 - 0.1 * (3 + 2 * 0.48) / D2])
    assert oracle.states[0].keys() == {"exp_avg_slow", "exp_avg_sq"}


def test_mars() -> None:
    options = dict(DECAYED, gamma=0.5)
    # c = .5 + .5 (.5 - 0), then 2 + .5 (2 - .5) = 2.75, which is clipped to 1.
    v = 0.75 * 0.140625 + 0.25
    u = 0.6875 / 0.75 / (sqrt(v / 0.4375) + 0.5)
    grads = [[[0.5]], [[2.0]]]
    path = [[[0.92]], [[0.92 - 0.1 * (u + 0.2 * 0.92)]]]
    check("mars", options, [[1.0]], grads, path, exp_avg=[[0.6875]], exp_avg_sq=[[v]], last_grad=[[2.0]])
    lion = dict(options, mars_type="mars-lion")
    check("mars", lion, [[1.0]], grads, [[[0.88]], [[0.7624]]], exp_avg=[[0.6875]])
    check("mars", dict(lion, optimize_1d=True), [1.0], [[0.5]], [[0.88]])
    other = dict(lr=0.1, eps=0.5, lr_1d=0.2, betas_1d=(0.5, 0.75), weight_decay_1d=0.2, mars_type="mars-lion")
    oracle = check("mars", other, 1.0, [2.0], [0.8])
    oracle.set(lr=0.05)
    oracle.step([np.array(3.0)])
    np.testing.assert_allclose(oracle.params[0], 0.8 - 0.1 * (2 / 0.75 / D2 + 0.16), rtol=1e-13)
    oracle = check("mars", dict(options, amsgrad=True), [[1.0]], [[[0.5]]], [[[0.92]]])
    oracle.step([np.array([[0.0]])])  # c = -.25: v falls to .12109375, the maximum stays .140625
    u = (0.1875 - 0.125) / 0.75 / (sqrt(0.140625 / 0.4375) + 0.5)
    np.testing.assert_allclose(oracle.params[0], [[0.92 - 0.1 * (u + 0.184)]], rtol=1e-13)


def test_fromage() -> None:
    grads = [[0.0, 2.0], [0.0, 0.0]]
    check("fromage", dict(lr=0.75), [3.0, 4.0], grads, [[2.4, 0.2], [2.4 / 1.25, 0.2 / 1.25]])
    check("fromage", dict(lr=0.75), [0.0, 0.0], [[0.0, 2.0]], [[0.0, -1.2]])
    bounded = [2.4 * 2 / sqrt(5.8), 0.2 * 2 / sqrt(5.8)]
    check("fromage", dict(lr=0.75, p_bound=0.4), [3.0, 4.0], [[0.0, 2.0]], [bounded])


def test_amos() -> None:
    # sqrt(lr) = .5, sqrt(lr eta) = .3; gradients 2, 3 give v = 1, 3.
    options = dict(lr=0.25, eta=0.36, beta=0.75, extra_l2=0.01)
    r = 0.4375 / 3
    gamma = 0.0625 * r * 9 / sqrt(1 + 0.25 * 0.5 * 0.0625)
    first = 1 - 0.04125 - 0.09
    second = first + ((-0.5 * gamma - 0.01) * first - 0.09 * sqrt(r) * 3) / (1 + 0.25 * 0.3 * 0.0625)
    check("amos", options, 1.0, [2.0, 3.0], [first, second], v=3, b=0.0625 + gamma * 1.0625)
    path = [1 - 0.5 * 0.13125]
    oracle = check("amos", dict(options, momentum=0.5), 1.0, [2.0], path, ema=-0.5 * 0.13125)
    oracle.step([np.array(3.0)])
    delta = ((-0.5 * gamma - 0.01) * path[0] - 0.09 * sqrt(r) * 3) / (1 + 0.25 * 0.3 * 0.0625)
    np.testing.assert_allclose(oracle.params[0], path[0] - 0.25 * 0.13125 + 0.5 * delta, rtol=1e-13)
    check("amos", dict(options, clip_value=2.0, eta=[0.36]), 1.0, [-7.0], [1 - 0.04125 + 0.09])
    check("amos", options, 1.0, [0.0], [0.99])
    # Means of g²: 4 over a whole vector; 4 and 1 over the columns of a matrix, hence sqrt(r) = .5 and 1.
    whole = [[1 - 0.04125, 1 - 0.04125 - 0.045 * sqrt(8)]]
    check("amos", dict(options, shapes=[()]), [1.0, 1.0], [[0.0, sqrt(8)]], whole, v=1.0)
    columns = 1 - 0.04125 - 0.09 * np.array([[0.0, 1.0], [sqrt(2), 1.0]])
    grads = [[[0.0, 1.0], [sqrt(8), 1.0]]]
    check("amos", dict(options, shapes=[(1, 2)]), np.ones((2, 2)), grads, [columns], v=[[1.0, 0.25]])


def algoperf_change(
    theta: Any, u: Any, square: float, b: float, rate: float, root_k: float, l2: float = 0.5, eta: float = 0.5
) -> Any:
    """Δθ of AlgoPerf's Amos at ξ = .1, from what the first part of a step gives."""
    q = sqrt(1 - 1 / root_k)
    tau = q * log(root_k * (1 + q) ** 2)
    s, l2p, l2q = sqrt(1 + b), 1 + l2 * ((1 + tau / 2) ** 2 - 1) ** 2, 1 + l2 * b * b
    grown = (2 * s / (1 + sqrt(1 + 2 * s / (2 + tau)))) ** 2 - 1
    damped = 1 + eta * s * (1 + l2 * b * grown) / (1 + l2 * l2q / l2p) * grown
    return (-0.5 * rate * (l2p * square / l2q + l2) * theta - eta * 0.1 * np.array(u)) / damped


def test_amos_algoperf_adam() -> None:
    # Four elements to a number, so that sqrt k = 2. m = g/2 and v̂ = g² at first: 3 · mean m² / mean v̂ = .75.
    options = dict(lr=0.1, eta=0.5, shapes=[()], betas=(0.5, 0.75), l2=0.5, max_grad_norm=10.0)
    theta, grads = np.array([1.0, 2.0, 1.0, 2.0]), [[1, 1, 1, 3], [4, 1, 1, 3]]
    first = theta + algoperf_change(theta, 0.5, 0.75, 0.0, 0.01, 2.0)
    # 4² · .25 is 4 times v̂ = 1, so the 4 counts as 2. v̂ = 19/7, 1, 1, 9 with the mean 24/7, mean m² = 7.75/4.
    square = 3 * 7.75 / 4 * 7 / 24
    assert square > 1.1  # larger than s: the rate is divided by it
    u = [1.25 / sqrt(19 / 7), 0.75, 0.75, 0.75]
    second = first + algoperf_change(first, u, square, 0.00375, 0.01 / square, 2.0)
    states = dict(m=[1.25, 0.75, 0.75, 2.25], v=[1.1875, 0.4375, 0.4375, 3.9375])
    b = 0.00375 + 0.005 + 0.01 / square * 0.00375
    check("amos_algoperf", options, theta, grads, [first, second], b=b, **states)
    # At half of the warm-up the rate is half of lr.
    check("amos_algoperf", dict(options, lr=0.2, warmup_steps=2), theta, grads[:1], [first])
    # By rows: two elements to a number, and b has one number per row.
    rows = theta.reshape(2, 2)
    path = [rows + algoperf_change(rows, 0.5, 0.75, 0.0, 0.01, sqrt(2))]
    b = np.full((2, 1), 0.01 * 0.75 / sqrt(2))
    check("amos_algoperf", dict(options, shapes=[(2, 1)]), rows, [[[1, 1], [1, 3]]], path, b=b)


def test_amos_algoperf_reduced() -> None:
    # Mean g² is 3, v .75 and v̂ 3; Δθ itself is averaged, b grows by the rate over sqrt k.
    options = dict(lr=0.1, eta=0.5, shapes=[()], style="reduced", betas=(0.5, 0.75), l2=0.5, max_grad_norm=10.0)
    theta, grads = np.array([1.0, 2.0, 1.0, 2.0]), [[1, 1, 1, 3], [4, 1, 1, 3]]
    change = algoperf_change(theta, np.array(grads[0]) / sqrt(3), 1.0, 0.0, 0.01, 2.0)
    first = theta + 0.5 * change
    # 4² · .25 is 4/3 of v̂, so that g² is 12, 1, 1, 9 with the mean 5.75; v is 2 and v̂ 32/7.
    u = np.array([sqrt(12), 1.0, 1.0, 3.0]) / sqrt(32 / 7)
    rate = 0.01 / sqrt(1.005)
    m = 0.25 * change + 0.5 * algoperf_change(first, u, 5.75 * 7 / 32, 0.005, rate, 2.0)
    states = dict(v=2.0, m=m, b=0.005 + rate * 0.505)
    check("amos_algoperf", options, theta, grads, [first, first + m], **states)
    # Clipping to norm 1 divides g² by 12, which only v sees; without a gradient nothing but decay is left.
    check("amos_algoperf", dict(options, max_grad_norm=1.0), theta, grads[:1], [first], v=0.0625)
    still = theta + 0.5 * algoperf_change(theta, 0.0, 0.0, 0.0, 0.01, 2.0)
    check("amos_algoperf", options, theta, [[0, 0, 0, 0]], [still], v=0.0)


def test_cautious_adamw() -> None:
    # The second m is (.25, 2, .5), which agrees with the gradient once; the mask is (0, 1, 0) / (1/3).
    grads = [[2.0, 2.0, 2.0], [-0.5, 3.0, 0.0]]
    a = 0.98 - 0.1 / 1.5
    b = a * 0.98 - 0.1 * sqrt(0.4375) / 0.75 * 2 * 3 / (sqrt(3) + 0.5)
    path = [[a, a, a], [a * 0.98, b, a * 0.98]]
    check("cautious_adamw", DECAYED, [1.0, 1.0, 1.0], grads, path, exp_avg=[0.25, 2, 0.5])
    path = [[0.9, 0.9, 0.9], [0.882, 0.882 - 0.1 * 2 * 3 / 0.75 / D2, 0.882]]
    check("cautious_adamw", dict(DECAYED, variant="timm"), [1.0, 1.0, 1.0], grads, path)


def test_amsgrad_where_sources_differ() -> None:
    # Gradients 2 and 0: m = 1, .5 and v = 1, .75, so that v falls, and the corrected v from 4 to 12/7.
    m2 = 0.5 / 0.75
    path = [0.92, 0.92 - 0.1 * m2 / (1 / sqrt(0.4375) + 0.5)]
    check("adam", dict(ADAM, amsgrad=True), 1.0, [2.0, 0.0], path, max_exp_avg_sq=1.0)
    path = [0.92, 0.92 - 0.1 * m2 / 2.5]
    check("adam", dict(ADAM, amsgrad=True, variant="optax"), 1.0, [2.0, 0.0], path, max_exp_avg_sq=4.0)
    path = [1 - 0.1 / 1.5, 1 - 0.1 * 1.5 / 1.5]
    check("adam", dict(ADAM, amsgrad=True, variant="paper"), 1.0, [2.0, 0.0], path, max_exp_avg_sq=1.0)


def test_textbook_eps() -> None:
    check("adagrad", dict(lr=0.1, eps=5.0, eps_inside=True), 1.0, [2.0], [1 - 0.2 / 3])
    check("rmsprop", dict(lr=0.1, alpha=0.75, eps=3.0, eps_inside=True), 1.0, [2.0], [1 - 0.2 / 2])


REQUIRED: dict[str, dict[str, Any]] = {
    "sgdp": dict(lr=0.1),
    "qhm": dict(lr=0.1, momentum=0.5, nu=0.7),
    "amos": dict(lr=0.1, eta=0.5),
    "amos_algoperf": dict(lr=0.1, eta=0.5, shapes=[(), (), (), ()]),
}
MATRICES_ONLY = {"muon", "normuon"}
NAMES = sorted(
    module.name
    for module in pkgutil.iter_modules(tests.oracles.__path__)
    if module.name != "base" and not module.name.startswith("test_")
)


@pytest.mark.parametrize("name", NAMES)
def test_interface(name: str) -> None:
    rng = np.random.default_rng(0)
    shapes = [(), (3,), (2, 3), (2, 1, 2, 2)] if name not in MATRICES_ONLY else [(3, 1), (3, 3), (2, 3), (4, 2)]
    start = [rng.normal(size=shape) for shape in shapes]
    before = [p.copy() for p in start]
    options = REQUIRED.get(name, {})
    down, up = make(name, start, **options), make(name, start, **options, maximize=True)
    assert down.states == [{}, {}, {}, {}]
    for step in range(4):
        grads = [None if i == step else rng.normal(size=p.shape) for i, p in enumerate(start)]
        waiting = down.params[step].copy()
        down.step(grads)
        up.step([None if g is None else -g for g in grads])
        np.testing.assert_array_equal(down.params[step], waiting)
    for p, q, s, t, initial in zip(down.params, up.params, down.states, up.states, start, strict=True):
        assert isinstance(p, np.ndarray) and p.shape == initial.shape and np.isfinite(p).all()
        assert np.all(p != initial)
        np.testing.assert_array_equal(p, q)
        assert s.keys() == t.keys()
        assert all(isinstance(value, np.ndarray) and np.isfinite(value).all() for value in s.values())
    np.testing.assert_equal(start, before)
    with pytest.raises(TypeError, match="unknown hyperparameter 'momentun'"):
        down.set(momentun=0.5)
