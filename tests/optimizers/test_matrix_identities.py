"""Matrix optimizers in the cases in which they are something that is known otherwise."""

import numpy as np
import pytest
import torch

import fallline
from fallline.lower.matrix_calls import is_due
from tests.oracles import caspr

SHAPES = [(6, 4), (4, 6), (5, 5), (7,), (2, 3, 4)]
LOWERINGS = [{}, {"foreach": True, "fused": False}, {"foreach": False, "fused": False}]


def trained(make, shapes=SHAPES, steps=8, dtype=torch.float32, skip=None):
    """Parameters after some steps along fixed gradients; ``skip`` is (step, parameter) without one."""
    generator = torch.Generator().manual_seed(0)
    params = [
        torch.nn.Parameter(torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)) for shape in shapes
    ]
    optimizer = make(params)
    for step in range(steps):
        for number, param in enumerate(params):
            grad = torch.randn(param.shape, generator=generator, dtype=torch.float64).to(dtype)
            param.grad = None if (step, number) == skip else grad
        optimizer.step()
    return params, optimizer


def assert_close(ours, theirs, rtol=1e-5, atol=1e-6):
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=rtol, atol=atol)


NEVER = dict(precondition_frequency=10**6, start_preconditioning_step=10**6, weight_decay=0.1)


@pytest.mark.parametrize("lowering", LOWERINGS)
@pytest.mark.parametrize(
    ("grafting", "reference"),
    [
        (dict(grafting="sgd", betas=(0.0, 0.9)), lambda p: torch.optim.SGD(p, lr=0.1)),
        (
            dict(grafting="adagrad", grafting_epsilon=1e-10, betas=(0.0, 0.9)),
            lambda p: torch.optim.Adagrad(p, lr=0.1, eps=1e-10),
        ),
        (
            dict(grafting="rmsprop", grafting_beta2=0.9, grafting_epsilon=1e-8, betas=(0.0, 0.9)),
            lambda p: torch.optim.RMSprop(p, lr=0.1, alpha=0.9, eps=1e-8),
        ),
        (
            dict(grafting="adam", grafting_beta2=0.99, grafting_epsilon=1e-8, betas=(0.9, 0.9)),
            lambda p: torch.optim.Adam(p, lr=0.1, betas=(0.9, 0.99), eps=1e-8),
        ),
    ],
    ids=["sgd", "adagrad", "rmsprop", "adam"],
)
def test_shampoo_that_never_preconditions_is_the_method_it_grafts(grafting, reference, lowering):
    options = {**NEVER, "weight_decay": 0.0, **grafting, **lowering}
    ours, _ = trained(lambda p: fallline.Shampoo(p, lr=0.1, **options), skip=(3, 1))
    theirs, _ = trained(reference, skip=(3, 1))
    assert_close(ours, theirs)


def test_plain_shampoo_steps_along_the_orthogonal_factor_of_the_first_gradient():
    ours, _ = trained(
        lambda p: fallline.Shampoo(p, lr=0.1, betas=(0.0, 1.0), epsilon=0.0, merge_dims="none"),
        shapes=[(5, 5)],
        steps=1,
        dtype=torch.float64,
    )
    start, _ = trained(lambda p: torch.optim.SGD(p, lr=0.0), shapes=[(5, 5)], steps=1, dtype=torch.float64)
    u, _, vh = torch.linalg.svd(start[0].grad)
    torch.testing.assert_close(ours[0].data, start[0].data - 0.1 * u @ vh, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("lowering", LOWERINGS)
def test_soap_without_room_for_a_basis_is_adam_after_its_first_call(lowering):
    shapes = [(6, 4), (7,)]
    options = dict(lr=0.1, betas=(0.9, 0.95), eps=1e-8)
    ours, _ = trained(lambda p: fallline.SOAP(p, weight_decay=0.0, max_precond_dim=1, **options, **lowering), shapes)

    class AfterTheFirst(torch.optim.Adam):
        calls = 0

        def step(self, closure=None):
            self.calls += 1
            return None if self.calls == 1 else super().step(closure)

    theirs, _ = trained(lambda p: AfterTheFirst(p, lr=0.1, betas=(0.9, 0.95), eps=0.0), shapes)
    assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("adjust", [None, "match_rms_adamw"])
@pytest.mark.parametrize("nesterov", [True, False])
def test_muon_is_torchs_within_the_rounding_of_bfloat16(adjust, nesterov):
    shapes = [(64, 48), (48, 64), (64, 48), (96, 96)]
    options = dict(lr=0.02, nesterov=nesterov, adjust_lr_fn=adjust)
    ours, _ = trained(lambda p: fallline.Muon(p, **options), shapes, skip=(3, 1))
    theirs, _ = trained(lambda p: torch.optim.Muon(p, **options), shapes, skip=(3, 1))
    scale = 0.2 * 96**0.5 if adjust else 1.0
    assert_close(ours, theirs, rtol=0, atol=3e-3 * scale)


@pytest.mark.parametrize("shape", [(64, 48), (48, 160), (96, 96)], ids=str)
def test_muon_in_bfloat16_is_torchs_within_its_rounding_and_keeps_states_in_float32(shape):
    ours, optimizer = trained(lambda p: fallline.Muon(p, lr=0.02, ns_dtype="bfloat16"), [shape])
    theirs, _ = trained(lambda p: torch.optim.Muon(p, lr=0.02), [shape])
    assert_close(ours, theirs, rtol=0, atol=3e-3)
    assert ours[0].dtype == optimizer.state[ours[0]]["momentum_buffer"].dtype == torch.float32


def test_bfloat16_is_refused_where_inverses_would_be_wrong():
    with pytest.raises(ValueError, match="ns_dtype"):
        fallline.Muon([torch.nn.Parameter(torch.ones(3, 3))], variant="zolotarev", ns_dtype="bfloat16")


@pytest.mark.parametrize("options", [{}, {"state_dtype": "int8"}, {"variant": "moonlight"}, {"clip_norm": 1.0}])
@pytest.mark.parametrize("name", ["Muon", "Shampoo", "SOAP"])
def test_every_lowering_of_a_matrix_optimizer_computes_the_same(name, options):
    if "variant" in options and name != "Muon":
        pytest.skip("only Muon has this variant")
    shapes = [(80, 60), (60, 80), (80, 60), (3, 5, 4)]
    found = [
        trained(lambda p: getattr(fallline, name)(p, lr=0.02, **options, **lowering), shapes, skip=(3, 1))[0]  # noqa: B023
        for lowering in LOWERINGS
    ]
    for other in found[1:]:
        # A code of eight bits that falls the other way moves a direction by half a percent.
        # Roots of factors that are nearly singular magnify rounding.
        assert_close(other, found[0], rtol=1e-3, atol=2e-3 if "state_dtype" in options else 1e-4)


def test_eight_bit_muon_holds_a_quarter_of_the_momentum():
    _, optimizer = trained(lambda p: fallline.Muon8bit(p, lr=0.02), [(128, 64)])
    (state,) = optimizer.state.values()
    assert state["momentum_buffer:int8"].dtype == torch.int8
    assert sum(t.numel() * t.element_size() for t in state.values()) < 0.27 * 4 * 128 * 64


@pytest.mark.parametrize("name", ["Muon", "Shampoo", "SOAP"])
def test_a_checkpoint_in_the_middle_continues_the_same_trajectory(name, tmp_path):
    shapes = [(12, 8), (8, 12)]
    options = dict(lr=0.02) | ({"precondition_frequency": 3} if name != "Muon" else {})
    whole, _ = trained(lambda p: getattr(fallline, name)(p, **options), shapes, steps=10)

    class Interrupted:
        """Is saved and made anew in the middle."""

        def __init__(self, params):
            self.params, self.optimizer, self.steps = params, getattr(fallline, name)(params, **options), 0

        def step(self):
            if self.steps == 5:
                torch.save(self.optimizer.state_dict(), tmp_path / "state.pt")
                self.optimizer = getattr(fallline, name)(self.params, **options)
                self.optimizer.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
            self.optimizer.step()
            self.steps += 1

    resumed, _ = trained(Interrupted, shapes, steps=10)
    for one, other in zip(whole, resumed, strict=True):
        assert torch.equal(one, other)


def test_vectors_are_refused_with_the_way_to_go():
    with pytest.warns(UserWarning, match="goes to adamw"):
        optimizer = fallline.Muon([torch.nn.Parameter(torch.ones(3, 3)), torch.nn.Parameter(torch.ones(3))])
    assert [group.get("rule", "muon") for group in optimizer.param_groups] == ["muon", "adamw"]
    with pytest.raises(ValueError, match=r"steps matrices, and .* has 1 axes"):
        optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(3))]})


@pytest.mark.parametrize("name", ["Shampoo", "SOAP"])
def test_staggered_refreshes_take_turns_and_reach_the_same_factors(name):
    shapes = [(12, 8), (8, 12), (12, 8), (6, 6)]
    options = dict(lr=0.01, precondition_frequency=4) | ({"merge_dims": "none"} if name == "Shampoo" else {})
    together, at_once = trained(lambda p: getattr(fallline, name)(p, **options), shapes, steps=12)
    changed = []

    class Watched:
        """Counts the matrices that change in each step."""

        def __init__(self, params):
            self.params, self.optimizer = params, getattr(fallline, name)(params, stagger=True, **options)

        def step(self):
            key = "roots" if name == "Shampoo" else "basis"
            before = [self.optimizer.state[p][key].clone() if self.optimizer.state[p] else None for p in self.params]
            self.optimizer.step()
            after = [self.optimizer.state[p][key] for p in self.params]
            changed.append(sum(b is None or not torch.equal(a, b) for a, b in zip(after, before, strict=True)))

    in_turns, watched = trained(Watched, shapes, steps=12)
    assert max(changed[4:]) < len(shapes)
    assert all(sum(changed[start : start + 4]) >= len(shapes) for start in range(4, 9))
    for one, other in zip(at_once.state.values(), watched.optimizer.state.values(), strict=True):
        torch.testing.assert_close(one["factors"], other["factors"])
    assert_close(in_turns, together, rtol=0.2, atol=0.1)


@pytest.mark.parametrize(("start", "begin"), [(20, 4), (3, 1)])
def test_staggered_caspr_refreshes_each_matrix_as_its_definition_at_steps_of_its_own(start, begin):
    every, shapes = 4, [(6, 4)] * 5
    options = dict(lr=0.01, betas=(0.9, 0.95), matrix_eps=1e-4, root="eigh", precondition_frequency=every)
    options["start_preconditioning_step"] = start
    ours, _ = trained(lambda p: fallline.CASPR(p, stagger=True, **options), shapes, steps=30, dtype=torch.float64)
    offsets = [next(k for k in range(every) if is_due(n, 0, every - k, every)) for n in range(len(shapes))]
    assert len(set(offsets)) > 2
    starts, grads = [], []

    class Recorder:
        """Changes nothing, and keeps what it is given."""

        def __init__(self, params):
            self.params = params
            starts.extend(p.detach().numpy() for p in params)

        def step(self):
            grads.append([p.grad.numpy().copy() for p in self.params])

    trained(Recorder, shapes, steps=30, dtype=torch.float64)
    for number, offset in enumerate(offsets):
        expected = caspr.Oracle([starts[number]], **options, offset=offset, begin=begin)
        for of_step in grads:
            expected.step([of_step[number]])
        np.testing.assert_allclose(ours[number].detach().numpy(), expected.params[0], rtol=0, atol=1e-9)


def test_turns_are_spread_over_the_steps_of_a_gpt():
    """Twelve blocks of GPT-2, whose matrices are every third parameter or so, refreshed every 10 and 20 steps."""
    for every, most in ((10, 1.35), (20, 1.7)):
        load = [0.0] * every
        for layer in range(12):
            for place, sides in ((4, (2304, 768)), (6, (768, 768)), (10, (3072, 768)), (12, (768, 3072))):
                for index, side in enumerate(sides):
                    turns = [t for t in range(every) if is_due(12 * layer + place - 2, index, t, every)]
                    assert len(turns) == 1
                    load[turns[0]] += side**3
        assert max(load) * every / sum(load) <= most


@pytest.mark.parametrize("name", ["Muon", "NorMuon", "Shampoo", "SOAP", "CASPR"])
@pytest.mark.parametrize("shape", [(1, 9), (9, 1), (3000, 2), (0, 4), (2, 0, 3)], ids=str)
def test_odd_shapes_have_defined_steps(name, shape):
    options = {"max_precond_dim": 1000} if name == "SOAP" else {}
    params, _ = trained(lambda p: getattr(fallline, name)(p, lr=0.01, **options), [shape], steps=3)
    assert bool(params[0].isfinite().all())


@pytest.mark.parametrize("name", ["Muon", "NorMuon", "Shampoo", "SOAP", "CASPR"])
def test_gradients_of_zeros_and_of_rank_one_give_finite_steps(name):
    options = {"start_preconditioning_step": 1, "precondition_frequency": 2} if name == "CASPR" else {}
    params = [torch.nn.Parameter(torch.ones(6, 5)) for _ in range(2)]
    optimizer = getattr(fallline, name)(params, lr=0.01, weight_decay=0.0, **options)
    for _ in range(4):
        params[0].grad = torch.zeros(6, 5)
        params[1].grad = torch.outer(torch.arange(1.0, 7.0), torch.arange(1.0, 6.0))
        optimizer.step()
    assert torch.equal(params[0].data, torch.ones(6, 5))
    assert bool(params[1].isfinite().all())


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("Muon", {}),
        ("Muon", {"variant": "jordan"}),
        ("Muon", {"variant": "moonlight"}),
        ("Muon", {"variant": "polar_express"}),
        ("Muon", {"variant": "zolotarev"}),
        ("NorMuon", {}),
    ],
)
def test_orthogonalised_steps_do_not_depend_on_the_size_of_gradients(name, options):
    """Also where the sum of a gradient's squares is more than float32 can hold."""
    grad = torch.randn(6, 9, generator=torch.Generator().manual_seed(0))
    ends = []
    for size in (1.0, 2.0**100):
        param = torch.nn.Parameter(torch.ones(6, 9))
        optimizer = getattr(fallline, name)([param], lr=0.1, **options)
        for _ in range(3):
            param.grad = grad * size
            optimizer.step()
        ends.append(param.detach())
    assert float((ends[0] - 1).abs().max()) > 0.01
    torch.testing.assert_close(*ends, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["Shampoo", "SOAP", "CASPR"])
def test_gradients_whose_squares_overflow_can_be_skipped(name):
    grads = torch.randn(4, 6, 9, generator=torch.Generator().manual_seed(0))
    ends = []
    for interrupted in (False, True):
        param = torch.nn.Parameter(torch.ones(6, 9))
        optimizer = getattr(fallline, name)([param], lr=0.1, skip_nonfinite=True)
        for grad in grads:
            for size in (1e30, 1.0) if interrupted else (1.0,):
                param.grad = grad * size
                optimizer.step()
        ends.append(param.detach())
    assert torch.equal(*ends) and float((ends[0] - 1).abs().max()) > 0.01


def test_a_root_that_fails_again_and_again_ends_the_training_and_one_failure_does_not():
    param = torch.nn.Parameter(torch.ones(4, 4))
    optimizer = fallline.Shampoo([param], lr=0.1, betas=(0.0, 0.9))
    generator = torch.Generator().manual_seed(0)

    def step(value=None):
        param.grad = torch.randn(4, 4, generator=generator) if value is None else torch.full((4, 4), value)
        optimizer.step()

    step()
    roots = optimizer.state[param]["roots"].clone()
    for _ in range(3):
        step(float("nan"))
        assert torch.equal(optimizer.state[param]["roots"], roots)
    with pytest.raises(RuntimeError, match=r"parameter 0, of shape \(4, 4\), has had no inverse root in 4 refreshes"):
        step(float("nan"))


def test_a_step_that_is_not_finite_can_be_skipped():
    param = torch.nn.Parameter(torch.ones(4, 4))
    optimizer = fallline.Shampoo([param], lr=0.1, skip_nonfinite=True)
    for _ in range(6):
        param.grad = torch.full((4, 4), float("nan"))
        optimizer.step()
    param.grad = torch.eye(4)
    optimizer.step()
    assert bool(param.isfinite().all())
