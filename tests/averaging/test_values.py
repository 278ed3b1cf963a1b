"""The averages themselves, against straight-line code in float64."""

import pytest
import torch

import fallline
from fallline.averaging import LawaEma, LawaQueue, WeightEma, swap
from tests.contract.trajectories import assert_near, assert_same, parameters, values

from .averages import averaged, lawa_ema, lawa_queue, own, run, weight_ema

SHAPES = ((5, 3), (), (0,), (4,))


def sgd(dtype=torch.float64):
    return torch.optim.SGD(parameters(*SHAPES, dtype=dtype), lr=0.1)


def assert_average(average, expected, weights):
    """eval() shows the expected average or, where there is none, the raw weights."""
    shown = averaged(average)
    assert_near(shown, weights[-1] if expected is None else expected, rtol=1e-14, atol=1e-15)
    assert_same(values(own(average)), weights[-1])


@pytest.mark.parametrize(("start", "interval", "k"), [(0, 1, 1), (0, 1, 3), (2, 3, 2), (5, 2, 4), (1, 4, 1)])
def test_lawa_queue_after_every_update(start, interval, k):
    average = LawaQueue(sgd(), start=start, interval=interval, k=k)
    weights = []
    for step in range(14):
        weights += run(average, range(step, step + 1))
        expected = lawa_queue(weights, start, interval, k)
        assert average.ready == (expected is not None)
        assert_average(average, expected, weights)


@pytest.mark.parametrize(("start", "interval", "beta"), [(0, 1, 0.2), (2, 3, 0.2), (5, 2, 0.9), (1, 4, 0.0)])
def test_lawa_ema_after_every_update(start, interval, beta):
    average = LawaEma(sgd(), start=start, interval=interval, beta=beta)
    weights = []
    for step in range(14):
        weights += run(average, range(step, step + 1))
        expected = lawa_ema(weights, start, interval, beta)
        assert average.ready == (expected is not None)
        assert_average(average, expected, weights)


@pytest.mark.parametrize("warmup", [False, True])
@pytest.mark.parametrize("decay", [0.0, 0.3, 0.999])
def test_weight_ema_after_every_update(decay, warmup):
    average = WeightEma(sgd(), decay=decay, warmup=warmup)
    weights = []
    for step in range(12):
        weights += run(average, range(step, step + 1))
        assert_average(average, weight_ema(weights, decay, warmup), weights)


def test_integer_beta_of_algoperf_is_the_latest_snapshot():
    average = LawaEma(sgd(), start=0, interval=2, beta=0.0)
    weights = run(average, 4)
    assert_same(averaged(average), weights[2])


def test_weight_ema_is_lawa_ema_of_every_update():
    a, b = WeightEma(sgd(), decay=0.8), LawaEma(sgd(), start=0, interval=1, beta=0.8)
    run(a, 7)
    run(b, 7)
    assert_same(averaged(a), averaged(b))


@pytest.mark.parametrize(
    ("steps", "queue", "ema"),
    [
        (1000, (20, 2), (20, 5)),
        (999, (20, 2), (20, 5)),
        (1, (1, 1), (1, 1)),
        (52_101, (1043, 105), (1043, 261)),
    ],
)
def test_algoperf_start_and_interval_from_the_length(steps, queue, ema):
    made = LawaQueue.for_steps(sgd(), steps)
    assert (made.start, made.interval, made.k) == (*queue, 10)
    made = LawaEma.for_steps(sgd(), steps)
    assert (made.start, made.interval, made.beta) == (*ema, 0.2)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_ema_of_16_bit_weights_is_kept_in_float32(dtype):
    params = [torch.nn.Parameter(torch.ones(40, dtype=dtype))]
    average = WeightEma(torch.optim.SGD(params, lr=2.0**-6), decay=0.999)
    weights = []
    for _ in range(50):
        params[0].grad = torch.full_like(params[0], 0.5)
        average.step()
        weights.append([params[0].detach().double()])
    raw = values(params)
    # In bfloat16 itself a change by a thousandth would be lost, and the average would never leave 0.992.
    expected = weight_ema(weights, 0.999, False)[0]
    assert_same(averaged(average), [expected.to(dtype)])
    assert_same(values(params), raw)
    assert expected.to(dtype)[0] < weights[0][0][0]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.complex64])
def test_queue_rounds_the_mean_once(dtype):
    average = LawaQueue(sgd(dtype), start=0, interval=1, k=7)
    weights = run(average, 9)
    expected = lawa_queue(weights, 0, 1, 7)
    assert_same(averaged(average), [e.to(dtype) for e in expected])


def test_ema_of_complex_weights():
    average = WeightEma(sgd(torch.complex128), decay=0.7)
    weights = run(average, 5)
    assert_near(averaged(average), weight_ema(weights, 0.7, False), rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.randn(300, 7).t(),
        lambda: torch.randn(2, 3, 5, 7).to(memory_format=torch.channels_last),
        lambda: torch.randn(20, 30)[::2, ::3],
        lambda: torch.randn(3, 400),
    ],
    ids=["transposed", "channels_last", "gaps", "long rows"],
)
def test_layouts_in_blocks(make, monkeypatch):
    monkeypatch.setattr(swap, "BLOCK", 64)
    for name in ("queue", "ema"):
        param = torch.nn.Parameter(make())
        opt = torch.optim.SGD([param], lr=0.1)
        average = LawaQueue(opt, 0, 1, 3) if name == "queue" else WeightEma(opt, 0.5)
        weights = run(average, 4)
        expected = lawa_queue(weights, 0, 1, 3) if name == "queue" else weight_ema(weights, 0.5, False)
        assert_near(averaged(average), [e.float() for e in expected], rtol=1e-6, atol=1e-7)
        assert_same(param.detach().double(), weights[-1][0])


@pytest.mark.parametrize("shape", [(1000, 1000), (1, 200_000), (70_000, 1, 2), (3,)])
def test_blocks_cover_everything_once(shape):
    tensor = torch.zeros(shape)
    for (part,) in swap.blocks([tensor]):
        assert part.numel() <= swap.BLOCK
        part += 1
    assert bool((tensor == 1).all())


def test_exchange_keeps_every_bit():
    a = torch.tensor([0.0, -0.0, float("nan"), float("inf"), 1e-45])
    b = torch.arange(5.0)
    bits = a.clone().view(torch.int32), b.clone().view(torch.int32)
    swap.exchange(a, b)
    assert_same((b.view(torch.int32), a.view(torch.int32)), bits)


@pytest.mark.parametrize("name", ["SGD", "AdamW", "AdamW8bit", "Lion"])
def test_around_our_own_optimizers_training_is_untouched(name):
    plain, wrapped = parameters((70, 70), (4,)), parameters((70, 70), (4,))
    run(getattr(fallline, name)(plain, lr=0.01), 6)
    average = WeightEma(getattr(fallline, name)(wrapped, lr=0.01), decay=0.5)
    weights = []
    for step in range(6):
        weights += run(average, range(step, step + 1))
        average.eval()
        average.train()
    assert_same(values(wrapped), values(plain))
    assert_near(averaged(average), [e.float() for e in weight_ema(weights, 0.5, False)], rtol=1e-6, atol=1e-7)


def test_parameters_without_gradient_are_averaged_too_and_integers_are_not():
    frozen = torch.nn.Parameter(torch.arange(3.0), requires_grad=False)
    indices = torch.nn.Parameter(torch.arange(3), requires_grad=False)
    moving = torch.nn.Parameter(torch.ones(2))
    average = LawaQueue(torch.optim.SGD([frozen, indices, moving], lr=0.1), 0, 1, k=2)
    for _ in range(2):
        moving.grad = torch.ones(2)
        average.step()
    assert_near(averaged(average), [torch.arange(3.0), torch.arange(3), torch.full((2,), 0.85)])
