"""deepcopy and pickle keep everything."""

import copy
import io
import pickle

import pytest
import torch

import fallline
from fallline.rules import rule, sign

from .trajectories import assert_same, parameters, run, set_gradients, values


@rule
def signum(p, g, m, *, lr, beta):
    m = beta * m + (1 - beta) * g
    return p - lr * sign(m), m


Signum = fallline.optimizer(signum, lr=1e-2, beta=0.9)
Quick = fallline.optimizer(signum, lr=1.0, beta=0.5)


def halved(p, g, *, lr):
    return p - lr * 0.5 * g


HALVED = rule(halved)

MAKERS = {
    "AdamW": lambda params: fallline.AdamW(params, lr=0.1),
    "AMSGrad": lambda params: fallline.AMSGrad(params, lr=0.1, clip_norm=0.5),
    "Adam8bit": lambda params: fallline.Adam8bit(params, lr=0.1, skip_nonfinite=True),
    "bfloat16": lambda params: fallline.Lion(params, state_dtype="bfloat16", rounding_seed=7),
    "user": lambda params: Signum(params),
    "user's under another name": lambda params: Quick(params),
}


def own(optimizer):
    return [p for group in optimizer.param_groups for p in group["params"]]


def copied(optimizer, how):
    if how == "deepcopy":
        return copy.deepcopy(optimizer)
    if how == "pickle":
        return pickle.loads(pickle.dumps(optimizer))
    buffer = io.BytesIO()
    torch.save(optimizer, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=False)


@pytest.mark.parametrize("how", ["deepcopy", "pickle", "torch.save"])
@pytest.mark.parametrize("name", MAKERS)
def test_copy_goes_on_exactly_and_alone(name, how):
    params = parameters((70, 70), (5,))
    opt = MAKERS[name](params)
    run(opt, 3)
    twin = copied(opt, how)
    assert type(twin) is type(opt)
    assert (twin.clip_norm, twin.skip_nonfinite) == (opt.clip_norm, opt.skip_nonfinite)
    assert_same(twin.grad_norm, opt.grad_norm)
    kept = values(own(twin))
    run(opt, range(3, 5))
    assert_same(values(own(twin)), kept)
    run(twin, range(3, 5))
    assert_same(values(own(twin)), values(params))
    assert_same(twin.state_dict()["state"], opt.state_dict()["state"])


def test_copy_before_the_first_step():
    params = parameters((5,))
    opt = fallline.AdamW(params, lr=0.1)
    twin = copy.deepcopy(opt)
    run(opt, 2)
    run(twin, 2)
    assert_same(values(own(twin)), values(params))


def test_model_and_optimizer_copied_together_stay_together():
    model = torch.nn.Linear(3, 2)
    opt = fallline.AdamW(model.parameters(), lr=0.1)
    run(opt, 2)
    twin_model, twin = copy.deepcopy((model, opt))
    set_gradients(twin_model.parameters(), 5)
    before = values(twin_model.parameters())
    twin.step()
    assert not any(torch.equal(a, b) for a, b in zip(twin_model.parameters(), before, strict=True))


def test_copy_does_not_share_step_counters():
    params = parameters((5,), (3,))
    opt = fallline.AdamW(params)
    run(opt, 2)
    twin = copy.deepcopy(opt)
    run(twin, 1)
    assert [opt.state[p]["step"].item() for p in params] == [2, 2]
    assert [twin.state[p]["step"].item() for p in own(twin)] == [3, 3]


@pytest.mark.parametrize("cls", [fallline.AdamW, fallline.AMSGrad, fallline.Lion8bit, Signum, Quick])
def test_classes_pickle_by_reference(cls):
    assert pickle.loads(pickle.dumps(cls)) is cls
    assert issubclass(cls, torch.optim.Optimizer)


def test_subclass_by_a_user():
    class Mine(fallline.AdamW):
        def __init__(self, params, lr=0.5):
            super().__init__(params, lr=lr, weight_decay=0.0)

    params, twins = parameters((5,)), parameters((5,))
    run(Mine(params), 2)
    run(fallline.AdamW(twins, lr=0.5, weight_decay=0.0), 2)
    assert_same(values(params), values(twins))


@pytest.mark.parametrize("which", [signum, HALVED, fallline.AdamW.description.rule], ids=lambda r: r.name)
def test_rules_pickle_by_reference(which):
    assert pickle.loads(pickle.dumps(which)) is which
    assert copy.deepcopy([which])[0] is which and copy.copy(which) is which


def made_inside():
    @rule
    def hidden(p, g, *, lr):
        return p - lr * g

    return hidden, fallline.optimizer(hidden, lr=0.1)


def test_what_no_module_holds_says_so_and_where_to_make_it():
    hidden, cls = made_inside()
    opt = cls(params := parameters((5,)))
    run(opt, 1)
    for what, name in ((hidden, "the rule made_inside.<locals>.hidden"), (cls, "class Hidden"), (opt, "class Hidden")):
        with pytest.raises(pickle.PicklingError, match=f"{name} cannot be pickled: .*; make it at the top level"):
            pickle.dumps(what)
    twin = copy.deepcopy(opt)
    run(opt, 1)
    run(twin, 1)
    assert_same(values(own(twin)), values(params))


def stepped(optimizer, answers):
    run(optimizer, range(2, 4))
    answers.put([p.detach().tolist() for p in own(optimizer)])


@pytest.mark.parametrize("name", ["AdamW", "user's under another name"])
def test_optimizer_goes_on_in_a_spawned_process(name):
    spawn = torch.multiprocessing.get_context("spawn")
    params = parameters((5,), (3, 2))
    opt = MAKERS[name](params)
    run(opt, 2)
    answers = spawn.SimpleQueue()
    child = spawn.Process(target=stepped, args=(copy.deepcopy(opt), answers))
    child.start()
    there = answers.get()
    child.join()
    run(opt, range(2, 4))
    assert there == [p.tolist() for p in values(params)]
