"""Threads, forks, the GIL, and torch.compile around a training step."""

import os
import threading

import pytest
import torch

import fallline

from .trajectories import assert_same, parameters, python, run, set_gradients, values


def test_optimizers_step_in_several_threads_at_once():
    shapes = [(300, 130), (70_000,), (5,)]
    expected = {}
    for seed in range(4):
        params = parameters(*shapes, seed=seed)
        run(fallline.AdamW8bit(params, lr=0.01, clip_norm=1.0), 8)
        expected[seed] = values(params)
    results, failures = {}, []

    def work(seed):
        try:
            params = parameters(*shapes, seed=seed)
            run(fallline.AdamW8bit(params, lr=0.01, clip_norm=1.0), 8)
            results[seed] = values(params)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    for seed in range(4):
        assert_same(results[seed], expected[seed])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_step_in_a_forked_child_does_not_hang():
    # torch's own operations on large tensors would hang there: the child looks at its results through numpy.
    code = """
import os, signal, torch, fallline
p = torch.nn.Parameter(torch.zeros(1 << 20)); p.grad = torch.ones_like(p)
opt = fallline.AdamW([p], lr=0.1, clip_norm=1e9)
opt.step()  # wakes the threads that a child will not have
assert "native" in opt.explain()
pid = os.fork()
if pid == 0:
    signal.alarm(900)  # a child that hangs must not outlive the test
    opt.step()
    opt.step()
    weights = p.detach().numpy()
    os._exit(0 if (weights < -0.25).all() and opt.state[p]["step"] == 3 else 1)
_, status = os.waitpid(pid, 0)
opt.step()
assert bool(((p < -0.15) & (p > -0.25)).all())
print(os.waitstatus_to_exitcode(status))
"""
    done = python(code)
    assert done.stdout.strip() == "0", done.stderr


def test_other_python_threads_run_during_a_long_step():
    params = [torch.nn.Parameter(torch.zeros(1 << 23))]
    params[0].grad = torch.ones(1 << 23)
    opt = fallline.AdamW(params)
    opt.step()
    ticks = []
    stop = threading.Event()

    def tick():
        while not stop.is_set():
            ticks.append(None)

    thread = threading.Thread(target=tick)
    handle = opt._plan.buckets[0].executor
    during = []
    original = handle.step_function

    def watched(*arguments):
        before = len(ticks)
        original(*arguments)
        during.append(len(ticks) - before)

    handle.step_function = watched
    thread.start()
    for _ in range(20):
        opt.step()
    stop.set()
    thread.join()
    assert max(during) > 0


def test_inside_a_compiled_training_step():
    from torch._dynamo.utils import get_compilation_metrics

    torch._dynamo.reset()
    model, twin = torch.nn.Linear(6, 3), torch.nn.Linear(6, 3)
    twin.load_state_dict(model.state_dict())
    opt, other = (fallline.AdamW(m.parameters(), lr=0.1) for m in (model, twin))

    def train(m, optimizer, x):
        optimizer.zero_grad()
        loss = m(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    compiled = torch.compile(train, backend="eager")
    schedule = torch.optim.lr_scheduler.LambdaLR(opt, lambda k: 0.9**k)
    before = len(get_compilation_metrics())
    frames = []
    for k in range(6):
        x = torch.full((4, 6), 1.0 + k)
        compiled(model, opt, x)
        schedule.step()
        frames.append(len(get_compilation_metrics()) - before)
        other.param_groups[0]["lr"] = 0.1 * 0.9**k
        train(twin, other, x)
    assert frames[0] > 1, "no graph break"
    assert frames[1:] == [frames[1]] * 5, "recompiled"
    traced = [m for m in get_compilation_metrics()[before:] if "fallline" in (m.co_filename or "")]
    assert {m.co_name for m in traced if "tests" not in m.co_filename} <= {"step"}
    torch.testing.assert_close(list(model.parameters()), list(twin.parameters()), rtol=1e-5, atol=1e-6)


def test_compiled_lowering_does_not_recompile_for_other_rates_shapes_or_steps():
    params = parameters((5, 3), (7,), (2, 3, 4))
    opt = fallline.AdamW(params, lr=0.1, compiled=True)
    run(opt, 2)
    with torch._dynamo.config.patch(error_on_recompile=True):
        opt.param_groups[0]["lr"] = 0.01
        run(opt, range(2, 4))
        (other,) = parameters((3, 11))
        set_gradients([other], 0)
        fallline.AdamW([other], lr=0.5, compiled=True).step()


@pytest.mark.parametrize("threads", [1, 2])
def test_results_do_not_depend_on_the_number_of_threads(threads):
    def trained(count):
        torch.set_num_threads(count)
        params = parameters((300, 301), (70_001,), (3,))
        run(fallline.AdamW8bit(params, lr=0.01, clip_norm=0.5), 4)
        return values(params)

    had = torch.get_num_threads()
    try:
        assert_same(trained(threads), trained(3))
    finally:
        torch.set_num_threads(had)


def test_threads_flush_subnormal_numbers_as_their_caller_does():
    def trained(count, flushes):
        torch.set_num_threads(count)
        torch.set_flush_denormal(flushes)
        params = parameters((400_000,))
        with torch.no_grad():
            params[0].mul_(1e-38)
        params[0].grad = torch.full((400_000,), 1e-39)
        fallline.SGD(params, lr=0.5).step()
        torch.set_flush_denormal(False)
        return values(params)

    had = torch.get_num_threads()
    try:
        assert_same(trained(1, True), trained(3, True))
        assert_same(trained(1, False), trained(3, False))
        assert not torch.equal(trained(3, True)[0], trained(3, False)[0])
    finally:
        torch.set_flush_denormal(False)
        torch.set_num_threads(had)


def test_a_run_repeats_exactly():
    def trained():
        params = parameters((300, 301), (70_001,), (3,))
        run(fallline.AdamW8bit(params, lr=0.01, clip_norm=0.5, state_dtype="bfloat16"), 4)
        return values(params)

    assert_same(trained(), trained())
