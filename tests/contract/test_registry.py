"""Optimizers by name, what is known of them, and lazy imports."""

import importlib
import inspect
import pkgutil

import pytest
import torch
from torch import nn

import fallline
from fallline import optimizers
from fallline.optimizers.description import Description
from fallline.rules import rule

from .trajectories import assert_same, parameters, python, run, values

NAMES = sorted(optimizers.FILES)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(7, 6)
        self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(3))
        self.norm = nn.LayerNorm((2, 3))
        self.attention = nn.MultiheadAttention(6, 1, add_bias_kv=True)
        self.head = nn.Linear(6, 7)
        self.head.weight = self.embed.weight


def groups_of(opt):
    return [dict(zip(g["param_names"], g["params"], strict=True)) for g in opt.param_groups]


def test_model_gets_no_decay_on_biases_norms_and_gains():
    model = Model()
    opt = fallline.create("adamw", model, lr=0.1, weight_decay=0.3)
    decayed, plain = groups_of(opt)
    assert [g["weight_decay"] for g in opt.param_groups] == [0.3, 0.0]
    assert set(decayed) == {
        "embed.weight",
        *(f"layers.{i}.weight" for i in range(3)),
        "attention.in_proj_weight",
        "attention.out_proj.weight",
    }
    assert {"norm.weight", "norm.bias", "head.bias", "attention.bias_k", "layers.0.bias"} <= set(plain)
    assert len(decayed) + len(plain) == len(dict(model.named_parameters()))
    assert [g["lr"] for g in opt.param_groups] == [0.1, 0.1]


@pytest.mark.parametrize(("name", "options"), [("sgd", {}), ("adamw", {"weight_decay": 0.0})])
def test_model_without_decay_is_one_group(name, options):
    opt = fallline.create(name, Model(), **options)
    assert len(opt.param_groups) == 1


def test_model_gets_the_groups_of_the_variant():
    """A variant has other defaults: AlgoPerf's form of Schedule-Free AdamW decays, that of the package does not."""
    assert len(fallline.create("schedule_free_adamw", Model()).param_groups) == 1
    opt = fallline.create("schedule_free_adamw", Model(), variant="algoperf")
    assert [g["weight_decay"] for g in opt.param_groups] == [0.08121616522670176, 0.0]
    assert "layers.0.bias" in groups_of(opt)[1]
    assert len(fallline.create("schedule_free_adamw", Model(), variant="algoperf", weight_decay=0).param_groups) == 1
    opt = fallline.create("nag_gs", Model(), variant="jax", layer_lr_decay=0.5)
    assert sorted(g["lr"] for g in opt.param_groups) == [0.05 / 16, 0.05 / 8, 0.05 / 4, 0.05 / 2, 0.05]
    with pytest.raises(ValueError, match=r"layer_lr_decay=0\.5 needs a learning rate to multiply; pass lr too"):
        fallline.create("adafactor", Model(), variant="hf", layer_lr_decay=0.5)


def test_model_gets_no_decay_of_any_name_on_biases_and_norms():
    opt = fallline.create("mars", Model())
    assert [g["weight_decay_1d"] for g in opt.param_groups] == [0.1, 0.0]
    assert "layers.0.bias" in groups_of(opt)[1]
    opt = fallline.create("mars", Model(), weight_decay=0.3)
    assert [(g["weight_decay"], g["weight_decay_1d"]) for g in opt.param_groups] == [(0.3, 0.1), (0.0, 0.0)]


def test_frozen_parameters_stay_in_their_group():
    model = Model()
    model.layers[0].weight.requires_grad_(False)
    (decayed, _) = groups_of(fallline.create("adamw", model))
    assert decayed["layers.0.weight"] is model.layers[0].weight


def test_layer_lr_decay():
    model = Model()
    opt = fallline.create("adamw", model, lr=1.0, layer_lr_decay=0.5)
    rates = {name: g["lr"] for g, named in zip(opt.param_groups, groups_of(opt), strict=True) for name in named}
    assert [rates[n] for n in ("embed.weight", *(f"layers.{i}.weight" for i in range(3)), "head.bias")] == [
        1 / 16,
        1 / 8,
        1 / 4,
        1 / 2,
        1.0,
    ]
    assert rates["layers.1.bias"] == rates["layers.1.weight"]


def test_layer_lr_decay_counts_only_layers_that_have_parameters():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Dropout(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    opt = fallline.create("sgd", model, lr=1.0, layer_lr_decay=0.5)
    rates = {name: g["lr"] for g, named in zip(opt.param_groups, groups_of(opt), strict=True) for name in named}
    assert [rates[f"{i}.weight"] for i in (0, 3, 5)] == [0.25, 0.5, 1.0]


@pytest.mark.parametrize("value", [0.0, 1.5, -1.0])
def test_layer_lr_decay_out_of_range(value):
    with pytest.raises(ValueError, match=rf"layer_lr_decay.*{value}"):
        fallline.create("adamw", Model(), layer_lr_decay=value)


def test_layer_lr_decay_needs_a_model():
    with pytest.raises(ValueError, match="layer_lr_decay needs a model"):
        fallline.create("adamw", parameters((3,)), layer_lr_decay=0.5)


def test_parameters_are_taken_as_they_are():
    params = parameters((3, 3), (3,))
    opt = fallline.create("adamw", params, weight_decay=0.3)
    assert len(opt.param_groups) == 1 and opt.param_groups[0]["weight_decay"] == 0.3
    grouped = fallline.create("adamw", [{"params": params[:1], "lr": 0.5}, {"params": params[1:]}])
    assert [g["lr"] for g in grouped.param_groups] == [0.5, 1e-3]
    named = fallline.create("adamw", nn.Linear(2, 2).named_parameters())
    assert named.param_groups[0]["param_names"] == ["weight", "bias"]


def test_model_without_parameters():
    with pytest.raises(ValueError, match="ReLU has no parameters"):
        fallline.create("adamw", nn.ReLU())


@pytest.mark.parametrize("class_name", NAMES)
def test_created_by_any_of_its_names(class_name):
    name = optimizers.description_of(class_name).name
    for spelling in (name, name.upper(), class_name):
        assert type(fallline.create(spelling, parameters((3,)))) is getattr(fallline, class_name)


def test_created_optimizer_is_the_class_with_these_options():
    a, b = parameters((5,)), parameters((5,))
    run(fallline.create("amsgrad", a, lr=0.1), 3)
    run(fallline.Adam(b, lr=0.1, amsgrad=True), 3)
    assert_same(values(a), values(b))


@pytest.mark.parametrize(
    ("wrong", "suggestions"),
    [("adma", ["adam"]), ("adamww", ["adamw"]), ("rmspro", ["rmsprop"]), ("Lyon", ["lion"])],
)
def test_unknown_name_gets_suggestions(wrong, suggestions):
    for call in (lambda: fallline.create(wrong, parameters((3,))), lambda: fallline.info(wrong)):
        with pytest.raises(ValueError) as error:
            call()
        assert repr(wrong) in str(error.value)
        assert all(s in str(error.value) for s in suggestions)


def test_name_that_is_like_no_other():
    with pytest.raises(ValueError, match="list_optimizers"):
        fallline.info("zzzzzz")


@pytest.mark.parametrize("name", ["step", "state_dict", "explain"])
def test_entry_of_a_rule_cannot_be_a_method_that_optimizers_have(name):
    @rule
    def momentum(p, g, m, *, lr):
        return p - lr * (m + g), m + g

    @momentum.entry(name, writes=["m"])
    def restart():
        return 0.0

    with pytest.raises(ValueError, match=f"momentum has an entry {name}, a method that every optimizer has"):
        fallline.optimizer(momentum, lr=0.1)


def test_list_optimizers():
    assert fallline.list_optimizers() == sorted(optimizers.description_of(n).name for n in NAMES)
    assert set(fallline.list_optimizers("adam*")) >= {"adam", "adam8bit", "adamw", "adamw8bit"}
    assert "lion" not in fallline.list_optimizers("adam*")
    assert set(fallline.list_optimizers("*8BIT")) >= {"adam8bit", "adamw8bit", "lion8bit"}
    assert all(name.endswith("8bit") for name in fallline.list_optimizers("*8BIT"))
    assert fallline.list_optimizers("nothing*") == []
    with pytest.raises(TypeError, match='string such as "adam\\*", got 3'):
        fallline.list_optimizers(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("class_name", NAMES)
def test_info_says_everything(class_name):
    info = fallline.info(class_name)
    described = optimizers.description_of(class_name)
    assert (info.name, info.class_name) == (described.name, class_name)
    assert info.summary and "\n" not in info.summary
    assert f"def {described.rule.name}(" in info.equations
    assert info.defaults == described.defaults
    assert set(info.bytes_per_parameter) == set(info.bytes_moved) == set(info.formats)
    assert {"eager", "foreach", "compiled", "native"} <= set(info.lowerings)
    assert info.sources
    assert "differentiable" in info.cannot
    assert ("sparse gradients" in info.cannot) == (not info.sparse_gradients)
    text = str(info)
    for word in (class_name, "lr", "bytes", "cannot", "lowerings"):
        assert word in text
    assert "DTensor" not in info.cannot
    assert (info.square_bytes > 0) == ("square matrices come on top" in text)
    assert (info.companion is not None) == ("companion: adamw" in text)
    if info.torch_class:
        assert hasattr(torch.optim, info.torch_class)


@pytest.mark.parametrize(
    ("name", "state_dtype", "moved"),
    [
        ("sgd", "float32", 12),
        ("lion", "float32", 20),
        ("adamw", "float32", 28),
        ("amsgrad", "float32", 36),
        ("adamw8bit", "int8", 16),
        ("adamw", "bfloat16", 20),
    ],
)
def test_bytes_moved_per_parameter(name, state_dtype, moved):
    # A block's scale adds 4 bytes per 256 elements to each of the states, read and written.
    assert fallline.info(name).bytes_moved[state_dtype] == pytest.approx(moved, abs=0.1)


def test_bytes_of_states_are_what_is_allocated():
    for name in ("adamw", "lion", "amsgrad", "rmsprop", "adagrad", "sgd"):
        for state_dtype, expected in fallline.info(name).bytes_per_parameter.items():
            (p,) = parameters((256, 64))
            try:
                opt = fallline.create(name, [p], state_dtype=state_dtype)
            except ValueError:
                assert name == "sgd" and expected == 0
                continue
            run(opt, 1)
            held = sum(v.numel() * v.element_size() for k, v in opt.state[p].items() if k != "step")
            assert held / p.numel() == pytest.approx(expected), (name, state_dtype)


@pytest.mark.parametrize(
    ("preset", "base", "option"),
    [
        ("AMSGrad", "adam", ("amsgrad", True)),
        ("Adam8bit", "adam", ("state_dtype", "int8")),
        ("AdamW8bit", "adamw", ("state_dtype", "int8")),
        ("Lion8bit", "lion", ("state_dtype", "int8")),
    ],
)
def test_presets_set_an_option_of_their_class(preset, base, option):
    assert fallline.info(preset).preset_of == base
    opt = getattr(fallline, preset)(parameters((3,)))
    assert opt.param_groups[0][option[0]] == option[1]
    overridden = getattr(fallline, preset)(parameters((3,)), **{option[0]: False if option[1] is True else "float32"})
    assert overridden.param_groups[0][option[0]] != option[1]


@pytest.mark.parametrize("library", [fallline, torch.optim])
def test_preset_stays_what_it_is_when_it_loads_a_checkpoint_of_its_class(library):
    base = library.Adam(parameters((3,)), lr=0.5)
    run(base, 2)
    opt = fallline.AMSGrad(parameters((3,)))
    opt.load_state_dict(base.state_dict())
    assert opt.param_groups[0]["amsgrad"] is True and opt.param_groups[0]["lr"] == 0.5
    run(opt, 1)
    assert "max_exp_avg_sq" in opt.state[opt.param_groups[0]["params"][0]]


def test_classes_are_made_once_and_look_like_classes():
    assert fallline.AdamW is fallline.AdamW is fallline.optim.classes.builtin_class("AdamW")
    assert fallline.AdamW.__name__ == "AdamW" and fallline.AdamW.__module__ == "fallline"
    assert "decoupled" in fallline.AdamW.__doc__ or "apart from the gradient" in fallline.AdamW.__doc__
    signature = inspect.signature(fallline.AdamW)
    assert list(signature.parameters)[:3] == ["params", "lr", "betas"]
    assert signature.parameters["betas"].default == (0.9, 0.999)
    assert signature.parameters["state_dtype"].kind is inspect.Parameter.KEYWORD_ONLY
    assert set(NAMES) <= set(dir(fallline))


@pytest.mark.parametrize("class_name", [n for n in NAMES if optimizers.description_of(n).torch_class == n])
def test_hyperparameters_are_where_torch_has_them(class_name):
    """Drop-in: positional arguments mean the same."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY)
    theirs = [
        p.name for p in inspect.signature(getattr(torch.optim, class_name)).parameters.values() if p.kind in kinds
    ]
    ours = [p.name for p in inspect.signature(getattr(fallline, class_name)).parameters.values() if p.kind in kinds]
    common = [n for n in theirs if n in ours]
    assert common == [n for n in ours if n in theirs]
    assert ours[: len(common)] == theirs[: len(common)]
    defaults = {n: p.default for n, p in inspect.signature(getattr(torch.optim, class_name)).parameters.items()}
    for name, parameter in inspect.signature(getattr(fallline, class_name)).parameters.items():
        if name in defaults and name not in ("params", "self"):
            assert parameter.default == defaults[name] or (parameter.default is False and defaults[name] is None)


def test_unknown_attribute():
    with pytest.raises(AttributeError, match="AdamX"):
        _ = fallline.AdamX


def test_import_is_lazy():
    done = python(
        "import sys, fallline; dir(fallline)\n"
        "print([m for m in ('torch', 'numpy', 'fallline.optim') if m in sys.modules])\n"
        "from fallline import optimizers; optimizers.descriptions()\n"
        "print([m for m in ('torch', 'numpy', 'fallline.optim') if m in sys.modules])\n"
    )
    assert done.stdout.splitlines() == ["[]", "[]"], done.stderr


def test_every_optimizer_file_is_in_the_table_and_every_name_is_real():
    found = {}
    for module in pkgutil.iter_modules(optimizers.__path__):
        if module.name != "description":
            contents = vars(importlib.import_module(f"fallline.optimizers.{module.name}")).values()
            found.update({d.class_name: module.name for d in contents if isinstance(d, Description)})
            assert any(isinstance(d, Description) for d in contents), f"{module.name} declares no optimizer"
    assert found == optimizers.FILES
    assert len({optimizers.description_of(n).name for n in NAMES}) == len(NAMES)
    assert not set(NAMES) & set(fallline._PUBLIC)


def test_user_rule_becomes_an_optimizer():
    from .test_copies import Signum

    params = parameters((5,))
    opt = Signum(params, lr=0.5)
    before = values(params)[0]
    run(opt, 1)
    assert_same(params[0].detach(), before - 0.5 * params[0].grad.sign())
    assert isinstance(opt, torch.optim.Optimizer)


def test_user_rule_errors():
    with pytest.raises(TypeError, match="@rule"):
        fallline.optimizer(lambda p, g: p, lr=0.1)
    from .test_copies import signum

    with pytest.raises(ValueError, match="beta"):
        fallline.optimizer(signum, lr=0.1)
    with pytest.raises(ValueError, match="gamma"):
        fallline.optimizer(signum, lr=0.1, beta=0.9, gamma=1.0)
    with pytest.raises(ValueError, match=r"lr must be >= 0, got -1"):
        fallline.optimizer(signum, lr=-1.0, beta=0.9)


def test_user_rule_cannot_take_names_of_every_optimizer():
    @rule
    def flagged(p, g, *, lr, fused):
        return p - lr * fused * g

    @rule
    def documented(p, g, *, lr, doc):
        return p - lr * doc * g

    with pytest.raises(ValueError, match=r"flagged has an argument fused, .*; rename it"):
        fallline.optimizer(flagged, lr=0.1, fused=0.5)
    with pytest.raises(ValueError, match=r"documented has an argument doc, .*; rename it"):
        fallline.optimizer(documented, lr=0.1, doc=0.5)
