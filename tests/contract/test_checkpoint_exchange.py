"""Checkpoints go to torch.optim and come back without loss; further steps agree to rounding."""

import copy
import io

import numpy as np
import pytest
import torch
import torch.distributed.checkpoint.state_dict as torch_state_dict

import fallline
from fallline.optim import checkpoint_origin

from .trajectories import (
    TORCH_CASES,
    assert_near,
    assert_same,
    copies,
    named,
    parameters,
    run,
    set_gradients,
    values,
)

SHAPES = [(6, 5), (9,), ()]


def torch_makes_missing_states(name):
    """Whether torch's class steps a parameter whose state a checkpoint lacks.  Adagrad makes its states in the
    constructor, and some versions of torch never again: they cannot go on from a state that was not there yet."""
    (param,) = parameters((3,))
    opt = getattr(torch.optim, name)([param], lr=0.1)
    opt.state.clear()
    set_gradients([param], 0)
    try:
        opt.step()
    except KeyError:
        return False
    return True


def through_a_file(saved):
    """As users do: saved, and loaded with nothing but plain types allowed."""
    buffer = io.BytesIO()
    torch.save(saved, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=True)


@pytest.mark.parametrize("direction", ["from torch", "to torch"])
@pytest.mark.parametrize(("name", "options"), TORCH_CASES, ids=named)
def test_run_continues_in_the_other_library(name, options, direction):
    ours, theirs = getattr(fallline, name), getattr(torch.optim, name)
    first, second = (theirs, ours) if direction == "from torch" else (ours, theirs)
    here, there, reference = parameters(*SHAPES), parameters(*SHAPES), parameters(*SHAPES)
    run(whole := theirs(reference, **options), 8)
    start = first(here, **options)
    run(start, 4)
    for p, q in zip(there, here, strict=True):
        p.data.copy_(q.data)
    goes_on = second(there, **{**options, "lr": 123.0})
    goes_on.load_state_dict(through_a_file(start.state_dict()))
    assert goes_on.param_groups[0]["lr"] == options["lr"]
    run(goes_on, range(4, 8))
    assert_near(values(there), values(reference))
    for p, q in zip(there, reference, strict=True):
        for key, value in whole.state[q].items():
            assert_near(goes_on.state[p][key], value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("name", "options"), TORCH_CASES, ids=named)
def test_there_and_back_changes_no_bit(name, options):
    ours, theirs = parameters(*SHAPES), parameters(*SHAPES)
    opt = getattr(fallline, name)(ours, **options)
    run(opt, 3)
    other = getattr(torch.optim, name)(theirs, **options)
    other.load_state_dict(opt.state_dict())
    again = getattr(fallline, name)(parameters(*SHAPES), **options)
    again.load_state_dict(other.state_dict())
    assert_same(again.state_dict()["state"], opt.state_dict()["state"])


@pytest.mark.parametrize(("name", "options"), TORCH_CASES, ids=named)
def test_checkpoint_before_the_first_step_is_exchanged(name, options):
    reference = parameters(*SHAPES)
    run(getattr(torch.optim, name)(reference, **options), 3)
    directions = [(torch.optim, fallline)]
    if torch_makes_missing_states(name):
        directions.append((fallline, torch.optim))
    for first, second in directions:
        params = parameters(*SHAPES)
        opt = getattr(second, name)(params, **{**options, "lr": 123.0})
        opt.load_state_dict(getattr(first, name)(parameters(*SHAPES), **options).state_dict())
        run(opt, 3)
        assert_near(values(params), values(reference))


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad", "RMSprop"])
def test_parameters_that_never_had_a_gradient_are_exchanged(name):
    options = {"lr": 0.1, "momentum": 0.9} if name in ("SGD", "RMSprop") else {"lr": 0.1}
    trajectories = []
    directions = [(torch.optim, torch.optim), (torch.optim, fallline)]
    if torch_makes_missing_states(name):
        directions.append((fallline, torch.optim))
    for first, second in directions:
        a, b = parameters((3,), (4,))
        opt = getattr(first, name)([a, b], **options)
        for step in range(2):
            set_gradients([a, b], step)
            b.grad = None
            opt.step()
        other = getattr(second, name)([a, b], **options)
        other.load_state_dict(copy.deepcopy(opt.state_dict()))
        run(other, range(2, 5))
        trajectories.append(values([a, b]))
    for other in trajectories[1:]:
        assert_near(other, trajectories[0])


@pytest.mark.parametrize(
    ("preset", "base"),
    [("AMSGrad", "Adam"), ("Adam8bit", "Adam"), ("AdamW8bit", "AdamW"), ("Lion8bit", "Lion")],
)
def test_preset_and_its_class_load_each_others_checkpoints(preset, base):
    params, twins = parameters((70, 70), (5,)), parameters((70, 70), (5,))
    a, b = getattr(fallline, preset)(params), getattr(fallline, base)(twins)
    run(a, 2)
    b.load_state_dict(a.state_dict())
    run(b, 2)
    a.load_state_dict(b.state_dict())
    assert a.state[params[0]]["step"] == 4
    run(a, 1)
    assert a.state[params[0]]["step"] == 5


def test_adam_with_decoupled_decay_comes_from_torch_adamw():
    reference, params = parameters((5,)), parameters((5,))
    theirs = torch.optim.AdamW(reference, lr=0.1, weight_decay=0.3)
    ours = fallline.Adam(params, lr=0.1)
    ours.load_state_dict(theirs.state_dict())
    run(theirs, 3)
    run(ours, 3)
    assert_near(values(params), values(reference))


@pytest.mark.parametrize("name", ["Adam", "AdamW"])
def test_checkpoint_of_a_torch_before_2_7_does_not_say_how_it_decays(name, monkeypatch):
    """There Adam and AdamW keep the same options in a group: each class takes it for its own."""
    params = parameters((5,))
    theirs = getattr(torch.optim, name)(params, lr=0.1)
    run(theirs, 1)
    saved = theirs.state_dict()
    saved["param_groups"][0].pop("decoupled_weight_decay", None)
    options = frozenset(saved["param_groups"][0]) - {"params"}
    for known in (checkpoint_origin._options(), {"SGD": frozenset(), "Adam": options, "AdamW": options}):
        monkeypatch.setattr(checkpoint_origin, "_options", lambda known=known: known)
        opt = getattr(fallline, name)(parameters((5,)))
        opt.load_state_dict(saved)
        assert opt.param_groups[0]["lr"] == 0.1
        assert opt.param_groups[0]["decoupled_weight_decay"] is (name == "AdamW")
    with pytest.raises(ValueError, match=r"SGD cannot load a checkpoint of torch\.optim\.Adam"):
        fallline.SGD(parameters((5,))).load_state_dict(saved)


def test_sparse_momentum_of_torch_is_loaded():
    reference = parameters((6, 3))
    theirs = torch.optim.SGD(reference, lr=0.1, momentum=0.9)
    reference[0].grad = torch.sparse_coo_tensor(torch.tensor([[1, 4]]), torch.ones(2, 3), (6, 3))
    theirs.step()
    params = parameters((6, 3))
    params[0].data.copy_(reference[0].data)
    ours = fallline.SGD(params, lr=0.1, momentum=0.9)
    ours.load_state_dict(theirs.state_dict())
    for p, opt in ((reference[0], theirs), (params[0], ours)):
        p.grad = torch.sparse_coo_tensor(torch.tensor([[0, 4]]), torch.ones(2, 3), (6, 3))
        opt.step()
    assert_near(values(params), values(reference))


def test_torch_checkpoint_with_counters_as_numbers():
    (p,) = parameters((5,))
    theirs = torch.optim.AdamW([p], lr=0.1)
    run(theirs, 3)
    old = theirs.state_dict()
    old["state"][0]["step"] = 3
    ours = fallline.AdamW(parameters((5,)), lr=0.1)
    ours.load_state_dict(old)
    assert ours.state_dict()["state"][0]["step"].item() == 3


def test_option_to_compute_is_kept_and_not_loaded():
    (p,) = parameters((64, 64))
    theirs = torch.optim.AdamW([p], lr=0.1, foreach=True, fused=False)
    run(theirs, 2)
    ours = fallline.AdamW(parameters((64, 64)), foreach=False, fused=True, state_dtype="int8")
    ours.load_state_dict(theirs.state_dict())
    group = ours.param_groups[0]
    assert (group["foreach"], group["fused"], group["state_dtype"], group["lr"]) == (False, True, "int8", 0.1)


def test_export_for_torch_decodes_low_bit_states():
    params = parameters((70, 70), (5,))
    opt = fallline.AdamW8bit(params, lr=0.01)
    run(opt, 3)
    exported = through_a_file(fallline.export_for_torch(opt))
    assert set(exported) == {"state", "param_groups"}
    assert set(exported["state"][0]) == {"step", "exp_avg", "exp_avg_sq"}
    assert exported["state"][0]["exp_avg"].dtype == torch.float32
    theirs = torch.optim.AdamW(there := parameters((70, 70), (5,)))
    for p, q in zip(there, params, strict=True):
        p.data.copy_(q.data)
    theirs.load_state_dict(exported)
    run(opt, range(3, 4))
    run(theirs, range(3, 4))
    assert_near(values(there), values(params))
    assert "exp_avg:int8" in opt.state[params[0]], "exporting changed the optimizer"


@pytest.mark.parametrize("state_dtype", ["int8", "int4"])
@pytest.mark.parametrize("name", ["AdamW", "Adam", "Adagrad", "RMSprop", "NAdam", "RAdam", "Adadelta", "Adamax", "SGD"])
def test_torch_does_not_go_on_from_codes(name, state_dtype):
    """torch takes any state named exp_avg: codes must not have that name.  It stops at its first step, except SGD,
    which begins its momentum anew; docs/library.md says so, and its recipe is that of the last lines."""
    options = {"lr": 0.1, **({"momentum": 0.9} if name == "SGD" else {})}
    params = parameters((70, 70))
    opt = getattr(fallline, name)(params, state_dtype=state_dtype, **options)
    run(opt, 1)
    theirs = getattr(torch.optim, name)(there := parameters((70, 70)), **options)
    theirs.load_state_dict(opt.state_dict())
    if name == "SGD":
        assert theirs.state[there[0]].get("momentum_buffer") is None
    else:
        with pytest.raises(KeyError):
            run(theirs, 1)

    again = getattr(torch.optim, name)(there := copies(params), **options)
    again.load_state_dict(through_a_file(fallline.export_for_torch(opt)))
    run(opt, range(1, 2))
    run(again, range(1, 2))
    assert_near(values(there), values(params), rtol=1e-4, atol=1e-4)


@pytest.fixture
def default_float64():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


@pytest.mark.parametrize("direction", ["from torch", "to torch"])
def test_counters_have_the_dtype_that_torch_gives_them(direction, default_float64):
    """float64 under that default dtype, also after a checkpoint that was written under another."""
    libraries = (torch.optim, fallline) if direction == "from torch" else (fallline, torch.optim)
    here, there, whole = ([torch.nn.Parameter(torch.ones(4, 3))] for _ in range(3))
    first, second = (library.AdamW(ps, lr=0.1) for library, ps in zip(libraries, (here, there), strict=True))
    run(first, 3)
    run(torch.optim.AdamW(whole, lr=0.1), 6)
    assert first.state[here[0]]["step"].dtype == torch.float64
    there[0].data.copy_(here[0].data)
    second.load_state_dict(through_a_file(first.state_dict()))
    run(second, range(3, 6))
    assert second.state[there[0]]["step"].dtype == torch.float64 and second.state[there[0]]["step"].item() == 6
    assert_near(values(there), values(whole), rtol=1e-12, atol=1e-12)


def test_counters_of_another_default_dtype_are_taken_over():
    params = parameters((3,))
    opt = fallline.AdamW(params)
    run(opt, 2)
    saved = opt.state_dict()
    saved["state"][0]["step"] = saved["state"][0]["step"].double()
    other = fallline.AdamW(there := parameters((3,)))
    other.load_state_dict(saved)
    run(other, 1)
    assert other.state[there[0]]["step"].dtype == torch.float32 and other.state[there[0]]["step"].item() == 3


def test_bfloat16_states_are_plain_tensors_that_torch_takes():
    params = parameters((5, 3))
    opt = fallline.AdamW(params, lr=0.1, state_dtype="bfloat16")
    run(opt, 2)
    saved = opt.state_dict()["state"][0]
    assert saved["exp_avg"].dtype == torch.bfloat16
    theirs = torch.optim.AdamW(there := parameters((5, 3)), lr=0.1)
    theirs.load_state_dict(opt.state_dict())
    assert_same(theirs.state[there[0]]["exp_avg"], saved["exp_avg"].float())


def test_export_leaves_master_weights_out():
    params = parameters((5, 3), dtype=torch.bfloat16)
    opt = fallline.AdamW(params, master_weights=True)
    run(opt, 1)
    assert set(fallline.export_for_torch(opt)["state"][0]) == {"step", "exp_avg", "exp_avg_sq"}


def test_export_of_an_optimizer_that_torch_does_not_have_is_refused():
    with pytest.raises(ValueError, match=r"torch\.optim has no Lion"):
        fallline.export_for_torch(fallline.Lion(parameters((3,))))


def test_export_of_a_cautious_optimizer_is_refused():
    """torch would go on with steps that are not masked."""
    with pytest.raises(ValueError, match=r"torch\.optim\.AdamW is not cautious=True; use state_dict\(\)"):
        fallline.export_for_torch(fallline.AdamW(parameters((3,)), cautious=True))


def test_export_of_a_user_rule_is_refused():
    from .test_copies import Signum

    with pytest.raises(ValueError, match="Signum"):
        fallline.export_for_torch(Signum(parameters((3,))))


def test_scheduler_keys_travel_with_the_groups():
    (p,) = parameters((5,))
    opt = fallline.AdamW([p], lr=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=0.1, total_steps=10)
    for step in range(4):
        set_gradients([p], step)
        opt.step()
        schedule.step()
    resumed = fallline.AdamW(parameters((5,)), lr=0.1)
    resumed.load_state_dict(through_a_file(opt.state_dict()))
    further = torch.optim.lr_scheduler.OneCycleLR(resumed, max_lr=0.1, total_steps=10, last_epoch=3)
    schedule.step()
    further.step()
    assert resumed.param_groups[0]["initial_lr"] == opt.param_groups[0]["initial_lr"]
    assert resumed.param_groups[0]["max_momentum"] == opt.param_groups[0]["max_momentum"]


@pytest.mark.parametrize("flatten", [False, True])
@pytest.mark.parametrize("name", ["SGD", "AdamW8bit", "Adan", "Prodigy", "ScheduleFreeAdamW"])
def test_checkpoints_of_torch_distributed_name_parameters(name, flatten):
    """They have names where torch.optim's have numbers, also in one process."""
    options = torch_state_dict.StateDictOptions(flatten_optimizer_state_dict=flatten)
    model, resumed = (torch.nn.Linear(70, 70) for _ in range(2))
    opt, further = (getattr(fallline, name)(m.parameters(), lr=0.1) for m in (model, resumed))
    run(opt, 3)
    saved = copy.deepcopy(torch_state_dict.get_optimizer_state_dict(model, opt, options=options))
    resumed.load_state_dict(model.state_dict())
    torch_state_dict.set_optimizer_state_dict(resumed, further, saved, options=options)
    run(opt, range(3, 5))
    run(further, range(3, 5))
    assert_same(values(resumed.parameters()), values(model.parameters()))
    assert all(further.state[p]["step"] == 5 for p in resumed.parameters())


def test_numbers_of_numpy_are_saved_as_plain_ones():
    opt = fallline.AdamW(parameters((3,)), lr=np.logspace(-3, -2, 2)[0], betas=(np.float32(0.5), 0.75))
    run(opt, 1)
    (group,) = through_a_file(opt.state_dict())["param_groups"]
    assert type(group["lr"]) is float and group["lr"] == 1e-3
    assert group["betas"] == (0.5, 0.75)


def test_names_in_the_checkpoint_are_kept():
    model = torch.nn.Linear(3, 2)
    opt = fallline.AdamW(model.named_parameters())
    plain = fallline.AdamW(torch.nn.Linear(3, 2).parameters())
    opt.load_state_dict(plain.state_dict())
    assert opt.param_groups[0]["param_names"] == ["weight", "bias"]
    plain.load_state_dict(opt.state_dict())
    plain_names = plain.param_groups[0].get("param_names")
    assert plain_names == ["weight", "bias"]
