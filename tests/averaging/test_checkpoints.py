"""Checkpoints and copies go on exactly."""

import copy
import io
import pickle
import warnings

import pytest
import torch

import fallline
from fallline.averaging import LawaEma, LawaQueue, WeightEma
from tests.contract.trajectories import assert_same, parameters, values

from .averages import MAKERS, averaged, own, run

INNER = {
    "torch": lambda params: torch.optim.AdamW(params, lr=0.02),
    "fallline": lambda params: fallline.AdamW(params, lr=0.02),
    "int8": lambda params: fallline.AdamW8bit(params, lr=0.02),
}


def made(name, inner, seed=0, dtype=torch.float32):
    return MAKERS[name](INNER[inner](parameters((70, 70), (4,), dtype=dtype, seed=seed)))


def saved(state):
    """Through a file, loaded as untrusted data."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=True)


def set_weights(average, weights):
    with torch.no_grad():
        for p, w in zip(own(average), weights, strict=True):
            p.copy_(w)


@pytest.mark.parametrize("steps", [0, 1, 3, 8])
@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("name", MAKERS)
def test_loaded_average_goes_on_exactly(name, inner, steps):
    average, other = made(name, inner), made(name, inner, seed=1)
    run(average, steps)
    run(other, 2)
    other.load_state_dict(saved(average.state_dict()))
    set_weights(other, values(own(average)))
    for one in (average, other):
        run(one, range(steps, steps + 6))
    assert_same(values(own(other)), values(own(average)))
    assert_same(averaged(other), averaged(average))
    assert other.updates == average.updates


@pytest.mark.parametrize("name", MAKERS)
def test_settings_come_from_the_checkpoint_as_hyperparameters_do(name):
    average = made(name, "torch")
    changed = {"start": 7, "interval": 5, "beta": 0.1, "decay": 0.2, "warmup": True}
    for key in average.settings:
        if key != "k":
            setattr(average, key, changed[key])
    other = made(name, "torch")
    other.load_state_dict(average.state_dict())
    assert [getattr(other, key) for key in other.settings] == [getattr(average, key) for key in average.settings]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.filterwarnings("ignore:.*in eval mode")
@pytest.mark.parametrize("name", MAKERS)
def test_saved_in_eval_mode_with_the_model_nothing_is_lost(name, dtype):
    average, other = made(name, "torch", dtype=dtype), made(name, "torch", seed=1, dtype=dtype)
    run(average, 8)
    raw, shown = values(own(average)), averaged(average)
    average.eval()
    state, model = saved(average.state_dict()), saved(values(own(average)))
    other.load_state_dict(state)
    set_weights(other, model)
    assert not other.training
    with pytest.raises(RuntimeError, match="eval mode"):
        run(other, 1)
    other.train()
    assert_same(values(own(other)), raw)
    assert_same(averaged(other), shown)


@pytest.mark.parametrize("name", MAKERS)
def test_checkpoint_of_train_mode_loaded_in_eval_mode(name):
    average, other = made(name, "torch"), made(name, "torch", seed=1)
    run(average, 8)
    run(other, 8)
    other.eval()
    other.load_state_dict(saved(average.state_dict()))
    set_weights(other, values(own(average)))
    assert other.training
    run(other, 1)
    run(average, 1)
    assert_same(averaged(other), averaged(average))


def test_wrapped_optimizers_class_loads_the_checkpoint_too():
    for inner in INNER:
        average = made("LawaQueue", inner)
        run(average, 5)
        plain = INNER[inner](parameters((70, 70), (4,), seed=1))
        plain.load_state_dict(saved(average.state_dict()))
        assert plain.state[own(plain)[0]]["step"] == 5


def test_loaded_tensors_are_not_shared():
    average, other = made("WeightEma", "torch"), made("WeightEma", "torch")
    run(average, 3)
    other.load_state_dict(average.state_dict())
    set_weights(other, values(own(average)))
    before = averaged(other)
    run(average, 3)
    assert_same(averaged(other), before)


def test_average_of_another_precision_is_converted():
    average, other = made("WeightEma", "torch", dtype=torch.float64), made("WeightEma", "torch")
    run(average, 3)
    other.load_state_dict(average.state_dict())
    assert_same(averaged(other), [a.float() for a in averaged(average)])


def test_another_queue_length_is_refused_and_both_are_named():
    average = LawaQueue(INNER["torch"](parameters((3,))), 0, 1, k=5)
    other = LawaQueue(INNER["torch"](parameters((3,))), 0, 1, k=3)
    run(average, 4)
    run(other, 4)
    shown = averaged(other)
    with pytest.raises(ValueError, match=r"queue of length 5, this LawaQueue one of length 3; make it with k=5"):
        other.load_state_dict(average.state_dict())
    assert_same(averaged(other), shown)


def edited(state, **changes):
    return {**state, "averaging": {**state["averaging"], **changes}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda s: {k: v for k, v in s.items() if k != "averaging"},
            "without averages.*into the wrapped optimizer",
        ),
        (lambda s: [], "without averages"),
        (lambda s: edited(s, version=2), "format version 2, this fallline reads 1"),
        (lambda s: edited(s, kind="lawa_queue"), "WeightEma cannot load averages of 'lawa_queue'"),
        (lambda s: edited(s, kept=None), "no valid 'kept'"),
        (lambda s: edited(s, settings={}), "lacks the setting 'decay'"),
        (lambda s: edited(s, settings={"decay": 2, "warmup": False}), "the checkpoint's decay must be in"),
        (lambda s: edited(s, kept={9: []}), "average of parameter 9; this optimizer has 2"),
        (
            lambda s: edited(s, kept={0: [torch.ones(2)]}),
            r"parameter 0 has shape \(2,\), the parameter \(70, 70\)",
        ),
        (lambda s: edited(s, kept={1: [torch.ones(4)] * 2}), "2 averages of one parameter"),
        (lambda s: edited(s, raw={1: "x"}), "parameter 1 has shape str"),
    ],
)
def test_bad_checkpoint_changes_nothing(change, message):
    average = made("WeightEma", "torch")
    run(average, 3)
    state, shown = average.state_dict(), averaged(average)
    with pytest.raises(ValueError, match=message):
        average.load_state_dict(change(state))
    assert_same(averaged(average), shown)
    assert average.updates == 3


def test_too_many_snapshots_are_refused():
    average = LawaQueue(INNER["torch"](parameters((3,))), 0, 1, k=2)
    with pytest.raises(ValueError, match="3 snapshots in a queue of length 2"):
        average.load_state_dict(edited(average.state_dict(), kept={0: [torch.ones(3)] * 3}))


@pytest.mark.parametrize("how", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["deepcopy", "pickle"])
@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("inner", ["torch", "fallline"])
@pytest.mark.parametrize("name", MAKERS)
def test_copy_goes_on_exactly_and_alone(name, inner, mode, how):
    average = made(name, inner)
    torch.optim.lr_scheduler.ConstantLR(average, factor=1.0)
    run(average, 7)
    if mode == "eval":
        average.eval()
    twin = how(average)
    assert type(twin) is type(average)
    assert twin.training == average.training
    if mode == "eval":
        with pytest.raises(RuntimeError, match="eval mode"):
            twin.optimizer.step()
    for one in (average, twin):
        one.train()
        run(one, range(7, 11))
    assert_same(values(own(twin)), values(own(average)))
    assert_same(averaged(twin), averaged(average))
    run(average, range(11, 13))
    assert twin.updates == 11


def test_model_and_average_copied_together_stay_together():
    model = torch.nn.Linear(3, 2)
    average = WeightEma(torch.optim.SGD(model.parameters(), lr=0.1), decay=0.5)
    run(average, 2)
    twin_model, twin = copy.deepcopy((model, average))
    assert own(twin)[0] is twin_model.weight
    twin.eval()
    assert not torch.equal(twin_model.weight, model.weight)


def test_hooks_of_the_wrapped_optimizers_checkpoint_run():
    average = LawaEma(torch.optim.SGD(parameters((3,)), lr=0.1), 0, 1)
    seen = []
    average.register_state_dict_post_hook(lambda opt, state: seen.append("saved"))
    average.register_load_state_dict_pre_hook(lambda opt, state: seen.append("loaded"))
    average.load_state_dict(average.state_dict())
    assert seen == ["saved", "loaded"]


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("name", MAKERS)
def test_parameter_taken_out_of_its_group_is_not_saved(name, mode):
    average, other = made(name, "fallline"), made(name, "fallline")
    run(average, 8)
    for one in (average, other):
        one.param_groups[0]["params"].pop(0)
    getattr(average, mode)()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # eval mode says that it belongs to averaged weights
        other.load_state_dict(saved(average.state_dict()))
    set_weights(other, values(own(average)))
    for one in (average, other):
        one.train()
        run(one, range(8, 12))
    assert_same(averaged(other), averaged(average))
