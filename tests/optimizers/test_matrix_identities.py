"""Matrix optimizers in the cases in which they are something that is known otherwise."""

import pytest
import torch

import fallline

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
    with pytest.warns(UserWarning, match="go to adamw"):
        optimizer = fallline.Muon([torch.nn.Parameter(torch.ones(3, 3)), torch.nn.Parameter(torch.ones(3))])
    assert [group.get("rule", "muon") for group in optimizer.param_groups] == ["muon", "adamw"]
    with pytest.raises(ValueError, match=r"steps matrices, and .* has 1 axes"):
        optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(3))]})
