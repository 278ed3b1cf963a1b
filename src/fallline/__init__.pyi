"""Written by `make stubs` from the rules; a test keeps it up to date.

`help(fallline.AdamW)` shows the equations, the arguments and an example.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias, TypedDict

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT
from typing_extensions import Unpack

from fallline import averaging as averaging
from fallline import rules as rules
from fallline import schedules as schedules
from fallline import teaching as teaching
from fallline.averaging import LawaEma as LawaEma
from fallline.averaging import LawaQueue as LawaQueue
from fallline.averaging import WeightEma as WeightEma
from fallline.catalogue import info as info
from fallline.optim import select as select
from fallline.optim.classes import optimizer as optimizer
from fallline.optim.export import export_for_torch as export_for_torch
from fallline.optim.optimizer import RuleOptimizer
from fallline.optim.registry import create as create
from fallline.optim.registry import list_optimizers as list_optimizers
from fallline.optimizers.amos_algoperf import amos_lr as amos_lr
from fallline.report.notebook import results as results
from fallline.rules import rule as rule
from fallline.schedules.closed_form import ClosedForm
from fallline.teaching import FullMatrixAdagrad as FullMatrixAdagrad
from fallline.teaching import LineSearchGD as LineSearchGD
from fallline.training.lr_range_test import lr_range_test as lr_range_test
from fallline.workloads import Workload as Workload

__version__: str
_PUBLIC: dict[str, str]
_MODULES: tuple[str, ...]

StateDtype: TypeAlias = Literal["float32", "bfloat16", "int8", "int4"] | torch.dtype

# fmt: off
class _Options(TypedDict, total=False):
    maximize: bool
    foreach: bool | None
    fused: bool | None
    compiled: bool
    lowering: str | None
    capturable: bool
    differentiable: bool
    cautious: bool
    state_dtype: StateDtype
    stochastic_rounding: bool
    master_weights: bool
    rounding_seed: int
    clip_norm: float | None
    skip_nonfinite: bool

class ADOPT(RuleOptimizer):
    r"""ADOPT: Adam that converges with any β₂, because it divides by the second moment of *earlier* gradients."""
    def __init__(
        self, params: ParamsT, lr: float | Tensor = 0.001, betas: tuple[float, float] = (0.9, 0.9999),
        eps: float = 1e-06, clip_exp: float | None = 0.25, weight_decay: float = 0.0, decouple: bool = False,
        **options: Unpack[_Options],
    ) -> None: ...

class AMSGrad(RuleOptimizer):
    r"""Adam with ``amsgrad=True``."""
    def __init__(
        self, params: ParamsT, lr: float | Tensor = 0.001, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08, weight_decay: float = 0.0, amsgrad: bool = True, decoupled_weight_decay: bool = False,
        variant: Literal["torch", "optax", "paper"] = "torch", **options: Unpack[_Options],
    ) -> None: ...

class AdEMAMix(RuleOptimizer):
    r"""AdEMAMix: AdamW with a second, very slow momentum, because old gradients stay useful for long."""
    def __init__(
        self, params: ParamsT, lr: float | Tensor = 0.001, betas: tuple[float, float, float] = (0.9, 0.999, 0.9999),
        alpha: float = 2.0, beta3_warmup: float | None = None, alpha_warmup: float | None = None, eps: float = 1e-08,
        weight_decay: float = 0.0, **options: Unpack[_Options],
    ) -> None: ...

class Adadelta(RuleOptimizer):
    r"""Adadelta: steps whose size follows from past steps, so that a learning rate hardly matters."""
    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1.0, rho: float = 0.9, eps: float = 1e-06,
        weight_decay: float = 0.0, gamma: float | None = None, **options: Unpack[_Options],
    ) -> None: ...

class Adafactor(RuleOptimizer):
    r"""Adafactor: Adam's second moment of a matrix from one mean per row and one per column."""
    def __init__(
        self, params: ParamsT, lr: float | Tensor | None = 0.01, beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 0.001), d: float = 1.0, weight_decay: float = 0.0,
        variant: Literal["torch", "hf"] = "torch", beta1: float | None = None, scale_parameter: bool = True,
        relative_step: bool = False, warmup_init: bool = False, **options: Unpack[_Options],
    ) -> None: ...

class Adagrad(RuleOptimizer):
    r"""Adagrad: each coordinate's step shrinks with the sum of its squared gradients so far."""
    def __init__(
        self, params: ParamsT, lr: float | Tensor = 0.01, lr_decay: float = 0.0, weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0, eps: float = 1e-10, eps_inside: bool = False,
        **options: Unpack[_Options],
    ) -> None: ...

class Adam(RuleOptimizer):
    r"""Adam: a step of about lr per coordinate, from running means of the gradient and its square."""
    def __init__(
        self, params: ParamsT, lr: float | Tensor = 0.001, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08, weight_decay: float = 0.0, amsgrad: bool = False, decoupled_weight_decay: bool = False,
        variant: Literal["torch", "optax", "paper"] = "torch", **options: Unpack[_Options],
    ) -> None: ...

class Adam8bit(RuleOptimizer):
    r"""Adam with ``state_dtype="int8"``."""
    def __init__(
        self, params: ParamsT, lr: float | Tensor = 0.001, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08, weight_decay: float = 0.0, amsgrad: bool = False, decoupled_weight_decay: bool = False,
        variant: Literal["torch", "optax", "paper"] = "torch", **options: Unpack[_Options],
    ) -> None: ...

class AdamP(RuleOptimizer):
    r"""AdamP: Adam that takes the radial part out of the steps of scale-invariant weights."""
    def __init__(
        self, params: ParamsT, lr: float | Tensor = 0.001, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08, weight_decay: float = 0.0, delta: float = 0.1, wd_ratio: float = 0.1,
        nesterov: bool = False, **options: Unpack[_Options],
    ) -> None: ...

class AdamW(RuleOptimizer):
    r"""AdamW: Adam with weight decay apart from the gradient, so that the adaptive rate does not scale it."""
    def __init__(
        self, params: ParamsT, lr: float | Tensor = 0.001, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08, weight_decay: float = 0.01, amsgrad: bool = False, **options: Unpack[_Options],
    ) -> None: ...

class AdamW8bit(RuleOptimizer):
    r"""AdamW with ``state_dtype="int8"``."""
    def __init__(
        self, params: ParamsT, lr: float | Tensor = 0.001, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08, weight_decay: float = 0.01, amsgrad: bool = False, **options: Unpack[_Options],
    ) -> None: ...

class Adamax(RuleOptimizer):
    r"""Adamax: Adam with a decaying maximum of |g| in place of the root mean square."""
    def __init__(
        self, params: ParamsT, lr: float | Tensor = 0.002, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08, weight_decay: float = 0.0, **options: Unpack[_Options],
    ) -> None: ...

class Adan(RuleOptimizer):
    r"""Adan: Nesterov's acceleration by gradient differences, adapted per coordinate."""
    def __init__(
        self, params: ParamsT, lr: float | Tensor = 0.001, betas: tuple[float, float, float] = (0.98, 0.92, 0.99),
        eps: float = 1e-08, weight_decay: float = 0.0, max_grad_norm: float = 0.0, no_prox: bool = False,
        **options: Unpack[_Options],
    ) -> None: ...
    def restart_opt(self) -> None: ...

class Amos(RuleOptimizer):
    r"""Amos: decays learning rate and weights by itself, with two numbers of state per tensor."""
    def __init__(
        self, params: ParamsT, lr: float | Tensor = 0.001, eta: float | None = None, beta: float = 0.999,
        momentum: float | None = None, clip_value: float | None = None, extra_l2: float = 0.0, c_coef: float = 0.25,
        d_coef: float = 0.25, epsilon: float = 2.350988701644575e-38,
        reduce: Literal["tensor", "rows", "none"] = "tensor", **options: Unpack[_Options],
    ) -> None: ...

class AmosAlgoPerf(RuleOptimizer):
    r"""Amos as revised for AlgoPerf: learning rate and decay of every tensor follow from the length of training."""
    def __init__(
        self, params: ParamsT, lr: float | Tensor = 0.01, eta: float | None = None,
        betas: tuple[float, float] = (0.95, 0.999), l2: float = 0.002, warmup_steps: float = 0,
        max_grad_norm: float | None = 1.0, style: Literal["adam", "reduced"] = "adam",
        reduce: Literal["tensor", "rows"] = "tensor", **options: Unpack[_Options],
    ) -> None: ...

class CASPR(RuleOptimizer):
    r"""CASPR Adaptive: NAdamW's momentum between the inverse roots of two factors, one of which sees what the other
    leaves."""
    def __init__(
        self, params: ParamsT, lr: float | Tensor = 0.001, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08, weight_decay: float = 0.0001, matrix_eps: float = 1e-06, block_size: object = 1024,
        precondition_frequency: float = 20, start_preconditioning_step: float = 101, stagger: bool = False,
        root: Literal["newton", "eigh"] = "newton", **options: Unpack[_Options],
    ) -> None: ...

class Fromage(RuleOptimizer):
    r"""Fromage: steps of a fixed length relative to the weights of each tensor."""
    def __init__(
        self, params: ParamsT, lr: float | Tensor = 0.01, p_bound: float | None = None, **options: Unpack[_Options],
    ) -> None: ...

class GeneralizedAdam(RuleOptimizer):
    r"""Generalized Adam: one optimizer that is NAdamW, Adam with any root, or SGD with momentum."""
    def __init__(
        self, params: ParamsT, lr: float | Tensor = 0.001, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08, eps_root: float = 0.0, power: float = 2.0, weight_decay: float = 0.0,
        nesterov: bool = True, disable_preconditioning: bool = False, **options: Unpack[_Options],
    ) -> None: ...

class LAMB(RuleOptimizer):
    r"""LAMB: Adam whose step in each tensor is proportional to the norm of its weights."""
    def __init__(
        self, params: ParamsT, lr: float | Tensor = 0.001, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-06, weight_decay: float = 0.01, bias_correction: bool = True, grad_averaging: bool = True,
        max_grad_norm: float | None = 1.0, trust_clip: bool = False, always_adapt: bool = False,
        decoupled_decay: bool = False, adam_w_mode: bool = True, **options: Unpack[_Options],
    ) -> None: ...

class Lion(RuleOptimizer):
    r"""Lion: the sign of an interpolated momentum; every coordinate moves by exactly lr."""
    def __init__(
        self, params: ParamsT, lr: float | Tensor = 0.0001, betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0, **options: Unpack[_Options],
    ) -> None: ...

class Lion8bit(RuleOptimizer):
    r"""Lion with ``state_dtype="int8"``."""
    def __init__(
        self, params: ParamsT, lr: float | Tensor = 0.0001, betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0, **options: Unpack[_Options],
    ) -> None: ...

class MARS(RuleOptimizer):
    r"""MARS: AdamW or Lion on a variance-reduced gradient."""
    def __init__(
        self, params: ParamsT, lr: float | Tensor = 0.003, betas: tuple[float, float] = (0.95, 0.99),
        eps: float = 1e-08, weight_decay: float = 0.0, amsgrad: bool = False, gamma: float = 0.025,
        mars_type: Literal["mars-adamw", "mars-lion"] = "mars-adamw", optimize_1d: bool = False, lr_1d: float = 0.003,
        betas_1d: tuple[float, float] = (0.9, 0.95), weight_decay_1d: float = 0.1, **options: Unpack[_Options],
    ) -> None: ...

class Muon(RuleOptimizer):
    r"""Muon: the momentum of a matrix, orthogonalised: all of its directions are stepped equally far."""
    def __init__(
        self, params: ParamsT, lr: float | Tensor = 0.001, weight_decay: float = 0.1, momentum: float = 0.95,
        nesterov: bool = True, ns_coefficients: object = (3.4445, -4.775, 2.0315), eps: object = 1e-07,
        ns_steps: object = 5, adjust_lr_fn: object = None,
        variant: Literal["torch", "jordan", "moonlight", "polar_express", "zolotarev"] = "torch",
        stacked: object = False, split_sizes: object = None, num_heads: object = 0, ns_dtype: object = "float32",
        **options: Unpack[_Options],
    ) -> None: ...

class Muon8bit(RuleOptimizer):
    r"""Muon with ``state_dtype="int8"``."""
    def __init__(
        self, params: ParamsT, lr: float | Tensor = 0.001, weight_decay: float = 0.1, momentum: float = 0.95,
        nesterov: bool = True, ns_coefficients: object = (3.4445, -4.775, 2.0315), eps: object = 1e-07,
        ns_steps: object = 5, adjust_lr_fn: object = None,
        variant: Literal["torch", "jordan", "moonlight", "polar_express", "zolotarev"] = "torch",
        stacked: object = False, split_sizes: object = None, num_heads: object = 0, ns_dtype: object = "float32",
        **options: Unpack[_Options],
    ) -> None: ...

class NAG4(RuleOptimizer):
    r"""NAG4: NAG-GS with γ held fixed."""
    def __init__(
        self, params: ParamsT, lr: float | Tensor = 0.01, mu: float = 1.0, gamma: float = 1.0,
        **options: Unpack[_Options],
    ) -> None: ...

class NAGGS(RuleOptimizer):
    r"""NAG-GS: Nesterov's acceleration as a differential equation, solved by semi-implicit Gauss-Seidel steps."""
    def __init__(
        self, params: ParamsT, lr: float | Tensor = 0.01, mu: float = 1.0, gamma: float = 1.0,
        variant: Literal["torch", "jax"] = "torch", **options: Unpack[_Options],
    ) -> None: ...

class NAdam(RuleOptimizer):
    r"""NAdam: Adam with Nesterov's look-ahead, whose momentum rises slowly from about β₁/2 to β₁."""
    def __init__(
        self, params: ParamsT, lr: float | Tensor = 0.002, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08, weight_decay: float = 0.0, momentum_decay: float = 0.004,
        decoupled_weight_decay: bool = False, **options: Unpack[_Options],
    ) -> None: ...

class NAdamW(RuleOptimizer):
    r"""NAdamW: AdamW whose step looks one gradient ahead, as Nesterov's momentum does."""
    def __init__(
        self, params: ParamsT, lr: float | Tensor = 0.001, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08, weight_decay: float = 0.01, **options: Unpack[_Options],
    ) -> None: ...

class NadamP(RuleOptimizer):
    r"""NadamP: NAdamW with the p-th root of the second moment in place of the square root."""
    def __init__(
        self, params: ParamsT, lr: float | Tensor = 0.001, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08, eps_root: float = 0.0, power: float = 2.0, weight_decay: float = 0.0,
        **options: Unpack[_Options],
    ) -> None: ...

class NorMuon(RuleOptimizer):
    r"""NorMuon: Muon's orthogonal factor with rows of equal length on average, because neurons are not stepped alike
    by it."""
    def __init__(
        self, params: ParamsT, lr: float | Tensor = 0.02, weight_decay: float = 0.0, momentum: float = 0.95,
        beta2: float = 0.95, nesterov: bool = True, eps: float = 1e-10, ns_steps: object = 5,
        ns_dtype: object = "float32", adjust_lr_fn: Literal["original", "match_rms_adamw"] = "original",
        **options: Unpack[_Options],
    ) -> None: ...

class Prodigy(RuleOptimizer):
    r"""Prodigy: Adam that finds its own learning rate, from the distance that the weights have moved."""
    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1.0, betas: tuple[float, float] = (0.9, 0.999),
        beta3: float | None = None, eps: float = 1e-08, weight_decay: float = 0.0, decouple: bool = True,
        use_bias_correction: bool = False, safeguard_warmup: bool = False, d0: float = 1e-06, d_coef: float = 1.0,
        growth_rate: float = ..., **options: Unpack[_Options],
    ) -> None: ...

class QHAdam(RuleOptimizer):
    r"""QHAdam: Adam whose two moments are mixed with the current gradient and its square."""
    def __init__(
        self, params: ParamsT, lr: float | Tensor = 0.001, betas: tuple[float, float] = (0.9, 0.999),
        nus: tuple[float, float] = (1.0, 1.0), weight_decay: float = 0.0, decouple_weight_decay: bool = False,
        eps: float = 1e-08, **options: Unpack[_Options],
    ) -> None: ...

class QHM(RuleOptimizer):
    r"""QHM: a weighted mean of plain SGD and momentum, the simplest method that contains both."""
    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1.0, momentum: float = 0.999, nu: float = 0.7,
        weight_decay: float = 0.0, weight_decay_type: Literal["grad", "direct"] = "grad", **options: Unpack[_Options],
    ) -> None: ...

class RAdam(RuleOptimizer):
    r"""RAdam: Adam that waits with its adaptive rate until there is enough evidence for it."""
    def __init__(
        self, params: ParamsT, lr: float | Tensor = 0.001, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08, weight_decay: float = 0.0, decoupled_weight_decay: bool = False,
        **options: Unpack[_Options],
    ) -> None: ...

class RMSprop(RuleOptimizer):
    r"""RMSprop: the gradient divided by a running root mean square of itself."""
    def __init__(
        self, params: ParamsT, lr: float | Tensor = 0.01, alpha: float = 0.99, eps: float = 1e-08,
        weight_decay: float = 0.0, momentum: float = 0.0, centered: bool = False, eps_inside: bool = False,
        **options: Unpack[_Options],
    ) -> None: ...

class SGD(RuleOptimizer):
    r"""Stochastic gradient descent, with momentum, dampening and Nesterov's form."""
    def __init__(
        self, params: ParamsT, lr: float | Tensor = 0.001, momentum: float = 0.0, dampening: float = 0.0,
        weight_decay: float = 0.0, nesterov: bool = False, **options: Unpack[_Options],
    ) -> None: ...

class SGDP(RuleOptimizer):
    r"""SGDP: momentum SGD that takes the radial part out of the steps of scale-invariant weights."""
    def __init__(
        self, params: ParamsT, lr: float | Tensor = 0.001, momentum: float = 0.0, dampening: float = 0.0,
        weight_decay: float = 0.0, nesterov: bool = False, eps: float = 1e-08, delta: float = 0.1,
        wd_ratio: float = 0.1, **options: Unpack[_Options],
    ) -> None: ...

class SOAP(RuleOptimizer):
    r"""SOAP: Adam in the eigenbasis of Shampoo's factors."""
    def __init__(
        self, params: ParamsT, lr: float | Tensor = 0.003, betas: tuple[float, float] = (0.95, 0.95),
        shampoo_beta: float | None = None, eps: float = 1e-08, weight_decay: float = 0.01,
        precondition_frequency: float = 10, max_precond_dim: object = 10000, correct_bias: bool = True,
        stagger: bool = False, **options: Unpack[_Options],
    ) -> None: ...

class ScheduleFreeAdamW(RuleOptimizer):
    r"""Schedule-Free AdamW: no learning-rate schedule, because an average of its weights is evaluated."""
    def __init__(
        self, params: ParamsT, lr: float | Tensor = 0.0025, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08, weight_decay: float = 0.0, warmup_steps: float = 0, r: float = 0.0,
        weight_lr_power: float = 2.0, inner_momentum: float = 0.0,
        variant: Literal["schedulefree", "algoperf"] = "schedulefree", **options: Unpack[_Options],
    ) -> None: ...
    def eval(self) -> None: ...
    def train(self) -> None: ...

class ScheduleFreeProdigy(RuleOptimizer):
    r"""Schedule-Free Prodigy: finds its own learning rate and needs no schedule."""
    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1.0, betas: tuple[float, float] = (0.9, 0.9955),
        eps: float = 1e-08, weight_decay: float = 0.0, warmup_steps: float = 0, r: float = 0.75, d0: float = 1e-06,
        d_coef: float = 1.0, **options: Unpack[_Options],
    ) -> None: ...
    def eval(self) -> None: ...
    def train(self) -> None: ...

class ScheduleFreeSGD(RuleOptimizer):
    r"""Schedule-Free SGD: no learning-rate schedule, because an average of its weights is evaluated."""
    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1.0, momentum: float = 0.9, weight_decay: float = 0.0,
        warmup_steps: float = 0, r: float = 0.0, weight_lr_power: float = 2.0, **options: Unpack[_Options],
    ) -> None: ...
    def eval(self) -> None: ...
    def train(self) -> None: ...

class Shampoo(RuleOptimizer):
    r"""Shampoo: a gradient multiplied, along each of its axes, by the inverse root of what that axis has seen."""
    def __init__(
        self, params: ParamsT, lr: float | Tensor = 0.01, betas: tuple[float, float] = (0.9, 1.0),
        beta3: float | None = None, epsilon: float = 1e-12, weight_decay: float = 0.0,
        decoupled_weight_decay: bool = True, max_preconditioner_dim: object = 1024, merge_dims: object = "last",
        precondition_frequency: float = 1, start_preconditioning_step: float | None = None,
        use_bias_correction: bool = True, inverse_exponent: object = None,
        grafting: Literal[None, "sgd", "adagrad", "rmsprop", "adam"] = None, grafting_beta2: float = 0.999,
        grafting_epsilon: float = 1e-10, momentum: float = 0.0, dampening: float = 0.0, use_nesterov: bool = False,
        use_nadam: bool = False, stagger: bool = False, **options: Unpack[_Options],
    ) -> None: ...

class ShampooAlgoPerf(RuleOptimizer):
    r"""Shampoo as it won AlgoPerf's first competition: Adam's step lengths, roots refreshed every 100 steps."""
    def __init__(
        self, params: ParamsT, lr: float | Tensor = 0.0017486387539278373,
        betas: tuple[float, float] = (0.93266073836, 0.99551596898), beta3: float | None = None,
        epsilon: float = 1e-08, weight_decay: float = 0.08121616522670176, decoupled_weight_decay: bool = True,
        max_preconditioner_dim: object = 1024, merge_dims: object = "first", precondition_frequency: float = 100,
        start_preconditioning_step: float | None = None, use_bias_correction: bool = True,
        inverse_exponent: object = None, grafting: Literal[None, "sgd", "adagrad", "rmsprop", "adam"] = "adam",
        grafting_beta2: float = 0.99551596898, grafting_epsilon: float = 1e-08, momentum: float = 0.0,
        dampening: float = 0.0, use_nesterov: bool = False, use_nadam: bool = True, stagger: bool = False,
        **options: Unpack[_Options],
    ) -> None: ...

class SophiaG(RuleOptimizer):
    r"""SophiaG: momentum divided by an estimate of the curvature, with every step clipped to lr."""
    def __init__(
        self, params: ParamsT, lr: float | Tensor = 0.0001, betas: tuple[float, float] = (0.965, 0.99),
        rho: float = 0.04, weight_decay: float = 0.1, bs: float = 5120, **options: Unpack[_Options],
    ) -> None: ...
    def update_hessian(self) -> None: ...

class EqualCycles(ClosedForm):
    r"""Cycles of equal length and equal peak, each a linear warm-up and half a cosine: AlgoPerf's Cyclic LR."""
    def __init__(
        self, optimizer: torch.optim.Optimizer, total_steps: int, warmup_steps: int, *, cycles: int = 1,
        lr_min: float = 1e-10, first_step: str = "peak-first", last_epoch: int = -1,
    ) -> None: ...

class NestedRestarts(ClosedForm):
    r"""Warm-up and cosine to zero, then restarts whose peaks lie on an outer warm-up and cosine: CASPR's schedule."""
    def __init__(
        self, optimizer: torch.optim.Optimizer, total_steps: int, warmup_factor: float, *,
        restarts: Sequence[float] = (0.53571619898, 0.75), last_epoch: int = -1,
    ) -> None: ...

class WarmupCosine(ClosedForm):
    r"""Linear warm-up, then half a cosine down: the usual schedule of transformers and of AlgoPerf's entries."""
    def __init__(
        self, optimizer: torch.optim.Optimizer, total_steps: int, warmup_steps: int = 0, *,
        cosine_decay_fraction: float = 1.0, lr_end: float = 0.0, first_step: str = "jax", last_epoch: int = -1,
    ) -> None: ...

class WarmupStableDecay(ClosedForm):
    r"""Linear warm-up, a long stretch at the peak, and a short decay at the end."""
    def __init__(
        self, optimizer: torch.optim.Optimizer, total_steps: int, decay_steps: int, warmup_steps: int = 0, *,
        decay: str = "linear", lr_end: float = 0.0, first_step: str = "jax", last_epoch: int = -1,
    ) -> None: ...
