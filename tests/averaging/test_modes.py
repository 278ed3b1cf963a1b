"""train() and eval() cannot be forgotten silently, and keep the parameters where they are."""

import warnings

import pytest
import torch

import fallline
from fallline.averaging import LawaQueue, WeightEma
from tests.contract.trajectories import assert_same, parameters, values

from .averages import MAKERS, averaged, own, run


@pytest.fixture(params=MAKERS)
def average(request):
    made = MAKERS[request.param](torch.optim.SGD(parameters((5, 3), (4,)), lr=0.1))
    run(made, 8)
    return made


def test_stepping_in_eval_mode_raises_with_the_remedy_and_changes_nothing(average):
    average.register_step_pre_hook(lambda opt, args, kwargs: steps.append(opt.training))
    steps = []
    average.eval()
    weights, updates = values(own(average)), average.updates
    with pytest.raises(RuntimeError, match=r"in eval mode.*call train\(\) before step\(\)"):
        run(average, 1)
    assert_same(values(own(average)), weights)
    assert average.updates == updates
    average.train()
    run(average, 1)
    assert steps == [True]


@pytest.mark.parametrize("inner", [torch.optim.AdamW, fallline.AdamW, torch.optim.LBFGS])
def test_stepping_the_wrapped_optimizer_in_eval_mode_raises_too(inner):
    average = WeightEma(inner(parameters((3,))))
    average.eval()
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"call train\(\)"):
            average.optimizer.step(lambda: torch.tensor(1.0))
    average.train()
    average.optimizer.step(lambda: torch.tensor(1.0))


def test_twice_is_once(average):
    raw = values(own(average))
    average.train()
    assert_same(values(own(average)), raw)
    average.eval()
    shown = values(own(average))
    assert not torch.equal(shown[0], raw[0])
    average.eval()
    assert_same(values(own(average)), shown)
    average.train()
    average.train()
    assert_same(values(own(average)), raw)
    assert_same(averaged(average), shown)


def test_parameters_stay_the_same_objects_at_the_same_address(average):
    params = own(average)
    before = [(id(p), p.data_ptr(), p.untyped_storage().data_ptr(), p.stride()) for p in params]
    average.eval()
    assert [(id(p), p.data_ptr(), p.untyped_storage().data_ptr(), p.stride()) for p in params] == before
    average.train()
    assert [(id(p), p.data_ptr(), p.untyped_storage().data_ptr(), p.stride()) for p in params] == before


def test_autograd_sees_that_weights_were_swapped_under_a_graph(average):
    p = own(average)[0]
    loss = p.square().sum()
    average.eval()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_exponential_average_is_swapped_without_a_copy():
    average = WeightEma(torch.optim.SGD(parameters((300, 300)), lr=0.1), decay=0.5)
    run(average, 2)
    (kept,) = average._average.values()
    address = kept.data_ptr()
    average.eval()
    assert [t.data_ptr() for t in average._raw.values()] == [address]
    average.train()
    assert [t.data_ptr() for t in average._average.values()] == [address]


def test_full_queue_allocates_nothing_more():
    average = LawaQueue(torch.optim.SGD(parameters((5,)), lr=0.1), 0, 1, k=2)
    run(average, 2)
    (queue,) = average._queues.values()
    memory = {t.data_ptr() for t in queue}
    run(average, range(2, 7))
    assert {t.data_ptr() for t in queue} == memory


def test_context_manager_restores_the_mode_it_found(average):
    raw = values(own(average))
    with average.averaged():
        assert not average.training
        shown = values(own(average))
    assert average.training
    assert_same(values(own(average)), raw)
    average.eval()
    with average.averaged():
        pass
    assert not average.training
    assert_same(values(own(average)), shown)


def test_context_manager_restores_after_an_error(average):
    raw = values(own(average))
    with pytest.raises(KeyError), average.averaged():
        raise KeyError
    assert_same(values(own(average)), raw)
    run(average, 1)


def test_eval_that_fails_halfway_leaves_the_raw_weights(average, monkeypatch):
    raw, shown = values(own(average)), averaged(average)
    swap, calls = average._swap_in, []

    def failing(param):
        calls.append(param)
        if len(calls) == 2:
            raise MemoryError
        return swap(param)

    monkeypatch.setattr(average, "_swap_in", failing)
    with pytest.raises(MemoryError):
        average.eval()
    monkeypatch.undo()
    assert average.training
    assert_same(values(own(average)), raw)
    assert_same(averaged(average), shown)


@pytest.mark.parametrize("name", MAKERS)
def test_eval_before_any_average_keeps_the_raw_weights_and_still_refuses_steps(name):
    average = MAKERS[name](torch.optim.SGD(parameters((3,)), lr=0.1))
    raw = values(own(average))
    assert not average.ready
    average.eval()
    assert_same(values(own(average)), raw)
    with pytest.raises(RuntimeError, match="eval mode"):
        run(average, 1)


def test_saving_in_eval_mode_warns_once(average):
    average.eval()
    with pytest.warns(UserWarning, match=r"state_dict\(\) in eval mode.*call train\(\) first"):
        average.state_dict()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        average.state_dict()
        average.train()
        average.state_dict()


def test_saving_in_train_mode_does_not_warn(average):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        average.state_dict()


@pytest.mark.parametrize("name", MAKERS)
def test_inference_mode_leaves_no_trace_in_averages(name):
    makes = [MAKERS[name](fallline.SGD(parameters((5, 3), (4,)), lr=0.1)) for _ in range(2)]
    run(makes[0], 12)
    for k in range(12):
        with torch.inference_mode(k % 3 == 0):
            run(makes[1], range(k, k + 1))
            if k == 6:
                makes[1].load_state_dict(makes[1].state_dict())
    assert not any(t.is_inference() for tensors in makes[1]._kept().values() for t in tensors)
    assert_same(averaged(makes[1]), averaged(makes[0]))
