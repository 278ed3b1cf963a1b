"""Written by `make stubs` from the rules; a test keeps it up to date."""

from typing import Literal, TypeAlias

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from fallline import averaging as averaging
from fallline import rules as rules
from fallline import schedules as schedules
from fallline import teaching as teaching
from fallline.averaging import LawaEma as LawaEma
from fallline.averaging import LawaQueue as LawaQueue
from fallline.averaging import WeightEma as WeightEma
from fallline.catalogue import info as info
from fallline.optim import select as select
from fallline.optim.checkpoint import export_for_torch as export_for_torch
from fallline.optim.classes import optimizer as optimizer
from fallline.optim.optimizer import RuleOptimizer
from fallline.optim.registry import create as create
from fallline.optim.registry import list_optimizers as list_optimizers
from fallline.optimizers.amos_algoperf import amos_lr as amos_lr
from fallline.rules import rule as rule
from fallline.schedules import EqualCycles as EqualCycles
from fallline.schedules import NestedRestarts as NestedRestarts
from fallline.schedules import WarmupCosine as WarmupCosine
from fallline.schedules import WarmupStableDecay as WarmupStableDecay
from fallline.teaching import FullMatrixAdagrad as FullMatrixAdagrad
from fallline.teaching import LineSearchGD as LineSearchGD
from fallline.training.lr_range_test import lr_range_test as lr_range_test
from fallline.workloads import Workload as Workload

__version__: str
_PUBLIC: dict[str, str]
_MODULES: tuple[str, ...]

StateDtype: TypeAlias = Literal["float32", "bfloat16", "int8", "int4"] | torch.dtype

class ADOPT(RuleOptimizer):
    r"""ADOPT: Adam that converges with any β₂, because it divides by the second moment of *earlier* gradients.

    Arguments:
        lr: learning rate α.
        betas: decay rates (β₁, β₂) of the two means.
        eps: ε, the least denominator.
        clip_exp: c, how fast the bound of the divided gradient grows; None does not clip.
        weight_decay: λ, added to the gradient.
        decouple: multiply the weights by 1 − αλ instead (from the second step on).
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 0.001,
        betas: tuple[float, float] = (0.9, 0.9999),
        eps: float = 1e-06,
        clip_exp: float | None = 0.25,
        weight_decay: float = 0.0,
        decouple: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        compiled: bool = False,
        lowering: str | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        cautious: bool = False,
        state_dtype: StateDtype = "float32",
        stochastic_rounding: bool = False,
        master_weights: bool = False,
        rounding_seed: int = 0,
        clip_norm: float | None = None,
        skip_nonfinite: bool = False,
    ) -> None: ...

class AMSGrad(RuleOptimizer):
    r"""Adam with ``amsgrad=True``."""

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08,
        weight_decay: float = 0.0,
        amsgrad: bool = True,
        decoupled_weight_decay: bool = False,
        variant: Literal["torch", "optax", "paper"] = "torch",
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        compiled: bool = False,
        lowering: str | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        cautious: bool = False,
        state_dtype: StateDtype = "float32",
        stochastic_rounding: bool = False,
        master_weights: bool = False,
        rounding_seed: int = 0,
        clip_norm: float | None = None,
        skip_nonfinite: bool = False,
    ) -> None: ...

class AdEMAMix(RuleOptimizer):
    r"""AdEMAMix: AdamW with a second, very slow momentum, because old gradients stay useful for long.

    Arguments:
        lr: learning rate η.
        betas: decay rates (β₁, β₂, β₃) of the fast mean, the square, and the slow mean.
        alpha: α, the weight of the slow mean.
        beta3_warmup: T_β, the number of steps in which β₃ rises from β₁; None keeps β₃ constant.
        alpha_warmup: T_α, the number of steps in which α rises from 0; None keeps α constant.
        eps: ε, added to the root.
        weight_decay: λ, decoupled.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 0.001,
        betas: tuple[float, float, float] = (0.9, 0.999, 0.9999),
        alpha: float = 2.0,
        beta3_warmup: float | None = None,
        alpha_warmup: float | None = None,
        eps: float = 1e-08,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        compiled: bool = False,
        lowering: str | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        cautious: bool = False,
        state_dtype: StateDtype = "float32",
        stochastic_rounding: bool = False,
        master_weights: bool = False,
        rounding_seed: int = 0,
        clip_norm: float | None = None,
        skip_nonfinite: bool = False,
    ) -> None: ...

class Adadelta(RuleOptimizer):
    r"""Adadelta: steps whose size follows from past steps, so that a learning rate hardly matters.

    Arguments:
        lr: α, a factor of the finished step; it does not enter the mean of the steps.
        rho: ρ, the decay rate of both means.
        eps: ε, inside both roots.
        weight_decay: λ, added to the gradient.
        gamma: a separate decay rate for v, as in textbooks; None takes ρ.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-06,
        weight_decay: float = 0.0,
        gamma: float | None = None,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        compiled: bool = False,
        lowering: str | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        cautious: bool = False,
        state_dtype: StateDtype = "float32",
        stochastic_rounding: bool = False,
        master_weights: bool = False,
        rounding_seed: int = 0,
        clip_norm: float | None = None,
        skip_nonfinite: bool = False,
    ) -> None: ...

class Adafactor(RuleOptimizer):
    r"""Adafactor: Adam's second moment of a matrix from one mean per row and one per column.

    Arguments:
        lr: learning rate; None with ``relative_step``.
        beta2_decay: the exponent of t; HF calls it decay_rate.
        eps: (ε₁, ε₂); if ε₁ is None, it is the machine epsilon of the dtype of the computation.
        d: the largest root mean square of a step; HF calls it clip_threshold.
        weight_decay: λ.
        variant: "torch" or "hf".  "hf" changes the defaults to lr=None, eps=(1e-30, 1e-3), relative_step=True.
        beta1: only "hf": decay rate of the mean of the steps; None keeps no mean.
        scale_parameter: only "hf": multiply the step by max(ε₂, RMS θ).
        relative_step: only "hf": take ρ_t from the step number instead of lr.
        warmup_init: only "hf", with relative_step: min(1e-6·t, 1/√t).
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor | None = 0.01,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 0.001),
        d: float = 1.0,
        weight_decay: float = 0.0,
        variant: Literal["torch", "hf"] = "torch",
        beta1: float | None = None,
        scale_parameter: bool = True,
        relative_step: bool = False,
        warmup_init: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        compiled: bool = False,
        lowering: str | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        cautious: bool = False,
        state_dtype: StateDtype = "float32",
        stochastic_rounding: bool = False,
        master_weights: bool = False,
        rounding_seed: int = 0,
        clip_norm: float | None = None,
        skip_nonfinite: bool = False,
    ) -> None: ...

class Adagrad(RuleOptimizer):
    r"""Adagrad: each coordinate's step shrinks with the sum of its squared gradients so far.

    Arguments:
        lr: learning rate α.
        lr_decay: η, a further decay of the rate with the step.
        weight_decay: λ, added to the gradient.
        initial_accumulator_value: where s starts.
        eps: ε.
        eps_inside: ε inside the root.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 0.01,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        eps_inside: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        compiled: bool = False,
        lowering: str | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        cautious: bool = False,
        state_dtype: StateDtype = "float32",
        stochastic_rounding: bool = False,
        master_weights: bool = False,
        rounding_seed: int = 0,
        clip_norm: float | None = None,
        skip_nonfinite: bool = False,
    ) -> None: ...

class Adam(RuleOptimizer):
    r"""Adam: a step of about lr per coordinate, from running means of the gradient and its square.

    Arguments:
        lr: learning rate α.
        betas: decay rates (β₁, β₂) of the two means.
        eps: ε, added to the root.
        weight_decay: λ, added to the gradient.
        amsgrad: keep and use the running maximum of v.
        decoupled_weight_decay: decay as AdamW does, as in torch's class.
        variant: which AMSGrad; "optax" and "paper" imply ``amsgrad=True``.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        decoupled_weight_decay: bool = False,
        variant: Literal["torch", "optax", "paper"] = "torch",
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        compiled: bool = False,
        lowering: str | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        cautious: bool = False,
        state_dtype: StateDtype = "float32",
        stochastic_rounding: bool = False,
        master_weights: bool = False,
        rounding_seed: int = 0,
        clip_norm: float | None = None,
        skip_nonfinite: bool = False,
    ) -> None: ...

class Adam8bit(RuleOptimizer):
    r"""Adam with ``state_dtype="int8"``."""

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        decoupled_weight_decay: bool = False,
        variant: Literal["torch", "optax", "paper"] = "torch",
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        compiled: bool = False,
        lowering: str | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        cautious: bool = False,
        state_dtype: StateDtype = "int8",
        stochastic_rounding: bool = False,
        master_weights: bool = False,
        rounding_seed: int = 0,
        clip_norm: float | None = None,
        skip_nonfinite: bool = False,
    ) -> None: ...

class AdamP(RuleOptimizer):
    r"""AdamP: Adam that takes the radial part out of the steps of scale-invariant weights.

    Arguments:
        lr: learning rate α.
        betas: decay rates (β₁, β₂) of the two means.
        eps: ε, added to roots and norms.
        weight_decay: λ, decoupled.
        delta: δ, below which a cosine counts as orthogonal; larger projects more tensors.
        wd_ratio: w, how much of the decay projected tensors get.
        nesterov: u from β₁m + (1−β₁)g in place of m.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08,
        weight_decay: float = 0.0,
        delta: float = 0.1,
        wd_ratio: float = 0.1,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        compiled: bool = False,
        lowering: str | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        cautious: bool = False,
        state_dtype: StateDtype = "float32",
        stochastic_rounding: bool = False,
        master_weights: bool = False,
        rounding_seed: int = 0,
        clip_norm: float | None = None,
        skip_nonfinite: bool = False,
    ) -> None: ...

class AdamW(RuleOptimizer):
    r"""AdamW: Adam with weight decay apart from the gradient, so that the adaptive rate does not scale it.

    Arguments:
        lr: learning rate α.
        betas: decay rates (β₁, β₂) of the two means.
        eps: ε, added to the root.
        weight_decay: λ; each step multiplies the weights by 1 − αλ.
        amsgrad: keep and use the running maximum of v (before bias correction).
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08,
        weight_decay: float = 0.01,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        compiled: bool = False,
        lowering: str | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        cautious: bool = False,
        state_dtype: StateDtype = "float32",
        stochastic_rounding: bool = False,
        master_weights: bool = False,
        rounding_seed: int = 0,
        clip_norm: float | None = None,
        skip_nonfinite: bool = False,
    ) -> None: ...

class AdamW8bit(RuleOptimizer):
    r"""AdamW with ``state_dtype="int8"``."""

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08,
        weight_decay: float = 0.01,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        compiled: bool = False,
        lowering: str | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        cautious: bool = False,
        state_dtype: StateDtype = "int8",
        stochastic_rounding: bool = False,
        master_weights: bool = False,
        rounding_seed: int = 0,
        clip_norm: float | None = None,
        skip_nonfinite: bool = False,
    ) -> None: ...

class Adamax(RuleOptimizer):
    r"""Adamax: Adam with a decaying maximum of |g| in place of the root mean square.

    Arguments:
        lr: learning rate α.
        betas: β₁, the decay rate of the mean, and β₂, that of the maximum.
        eps: ε, added to |g| inside the maximum.
        weight_decay: λ, added to the gradient.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 0.002,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        compiled: bool = False,
        lowering: str | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        cautious: bool = False,
        state_dtype: StateDtype = "float32",
        stochastic_rounding: bool = False,
        master_weights: bool = False,
        rounding_seed: int = 0,
        clip_norm: float | None = None,
        skip_nonfinite: bool = False,
    ) -> None: ...

class Adan(RuleOptimizer):
    r"""Adan: Nesterov's acceleration by gradient differences, adapted per coordinate.

    Arguments:
        lr: learning rate α.
        betas: decay rates (β₁, β₂, β₃) of the means of the gradient, its difference, and the square.
        eps: ε, added to the root.
        weight_decay: λ.
        max_grad_norm: the largest norm of all gradients together; 0 does not clip.  The same in all groups.
        no_prox: decay as AdamW does instead of by the proximal division.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 0.001,
        betas: tuple[float, float, float] = (0.98, 0.92, 0.99),
        eps: float = 1e-08,
        weight_decay: float = 0.0,
        max_grad_norm: float = 0.0,
        no_prox: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        compiled: bool = False,
        lowering: str | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        cautious: bool = False,
        state_dtype: StateDtype = "float32",
        stochastic_rounding: bool = False,
        master_weights: bool = False,
        rounding_seed: int = 0,
        clip_norm: float | None = None,
        skip_nonfinite: bool = False,
    ) -> None: ...
    def restart_opt(self) -> None: ...

class Amos(RuleOptimizer):
    r"""Amos: decays learning rate and weights by itself, with two numbers of state per tensor.

    Arguments:
        lr: ξ.
        eta: η, the expected root mean square of the trained weights; None takes 0.5 for tensors of fewer than two
            axes, √(2/n) for matrices and √(1/n) for more axes, with n = numel / size(0) inputs.
        beta: decay rate of the second moment.
        momentum: decay rate of a mean of the updates Δ, not corrected for its start; None keeps no mean.
        clip_value: the largest magnitude of an element of the gradient, clipped first; None does not clip.
        extra_l2: l, further decay.
        c_coef, d_coef: c and d.
        epsilon: ε.
        reduce: the extent of v, b and the mean of g²: "tensor" (one number per tensor), "rows" (one per row, over the
            last axis, for embeddings) or "none" (one per element).
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 0.001,
        eta: float | None = None,
        beta: float = 0.999,
        momentum: float | None = None,
        clip_value: float | None = None,
        extra_l2: float = 0.0,
        c_coef: float = 0.25,
        d_coef: float = 0.25,
        epsilon: float = 2.350988701644575e-38,
        reduce: Literal["tensor", "rows", "none"] = "tensor",
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        compiled: bool = False,
        lowering: str | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        cautious: bool = False,
        state_dtype: StateDtype = "float32",
        stochastic_rounding: bool = False,
        master_weights: bool = False,
        rounding_seed: int = 0,
        clip_norm: float | None = None,
        skip_nonfinite: bool = False,
    ) -> None: ...

class AmosAlgoPerf(RuleOptimizer):
    r"""Amos as revised for AlgoPerf: learning rate and decay of every tensor follow from the length of training.

    Arguments:
        lr: ξ; ``fallline.amos_lr(params, steps, warmup)`` computes it from the length of training.
        eta: η, the expected root mean square of the trained weights; None takes 0.5 for tensors of fewer than two
            axes, √(2/n) for matrices and √(1/n) for more axes, with n = numel / size(0) inputs.
        betas: decay rates (β₁, β₂) of the two means.
        l2: l, strength of the decay beyond what convergence needs.
        warmup_steps: the number of steps in which lr rises linearly; 0 does not warm up.
        max_grad_norm: the largest norm of all gradients together; None does not clip.  The same in all groups.
        style: "adam" or "reduced".
        reduce: the extent of the means under an overbar: "tensor", or "rows" (the last axis, for embeddings).
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 0.01,
        eta: float | None = None,
        betas: tuple[float, float] = (0.95, 0.999),
        l2: float = 0.002,
        warmup_steps: float = 0,
        max_grad_norm: float | None = 1.0,
        style: Literal["adam", "reduced"] = "adam",
        reduce: Literal["tensor", "rows"] = "tensor",
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        compiled: bool = False,
        lowering: str | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        cautious: bool = False,
        state_dtype: StateDtype = "float32",
        stochastic_rounding: bool = False,
        master_weights: bool = False,
        rounding_seed: int = 0,
        clip_norm: float | None = None,
        skip_nonfinite: bool = False,
    ) -> None: ...

class Fromage(RuleOptimizer):
    r"""Fromage: steps of a fixed length relative to the weights of each tensor.

    Arguments:
        lr: learning rate α.
        p_bound: B, the largest norm of a tensor relative to the one it had at its first step; None does not
            bound.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 0.01,
        p_bound: float | None = None,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        compiled: bool = False,
        lowering: str | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        cautious: bool = False,
        state_dtype: StateDtype = "float32",
        stochastic_rounding: bool = False,
        master_weights: bool = False,
        rounding_seed: int = 0,
        clip_norm: float | None = None,
        skip_nonfinite: bool = False,
    ) -> None: ...

class GeneralizedAdam(RuleOptimizer):
    r"""Generalized Adam: one optimizer that is NAdamW, Adam with any root, or SGD with momentum.

    Arguments:
        lr: learning rate α.
        betas: decay rates (β₁, β₂); without preconditioning β₁ is the momentum and β₂ has no meaning.
        eps: ε, added to the root.
        eps_root: ε_r, added inside the root.
        power: p, the degree of the root.
        weight_decay: λ, decoupled.
        nesterov: look one gradient ahead.
        disable_preconditioning: SGD with momentum instead.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08,
        eps_root: float = 0.0,
        power: float = 2.0,
        weight_decay: float = 0.0,
        nesterov: bool = True,
        disable_preconditioning: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        compiled: bool = False,
        lowering: str | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        cautious: bool = False,
        state_dtype: StateDtype = "float32",
        stochastic_rounding: bool = False,
        master_weights: bool = False,
        rounding_seed: int = 0,
        clip_norm: float | None = None,
        skip_nonfinite: bool = False,
    ) -> None: ...

class LAMB(RuleOptimizer):
    r"""LAMB: Adam whose step in each tensor is proportional to the norm of its weights.

    Arguments:
        lr: learning rate α.
        betas: decay rates (β₁, β₂) of the two means.
        eps: ε, added to the root.
        weight_decay: λ.
        bias_correction: divide the means by 1 − βᵗ.
        grad_averaging: multiply g by 1 − β₁ in m; False adds g as it is.
        max_grad_norm: G, the largest norm of all gradients together; None does not clip.  The same in all groups.
        trust_clip: limit the ratio to 1.
        always_adapt: use the ratio in groups without decay too (NVIDIA calls it use_nvlamb).
        decoupled_decay: θ ← θ − αλθ before the step, in place of λθ in u.
        adam_w_mode: add λθ to u; False adds it to the clipped gradient instead (L2 regularisation).
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-06,
        weight_decay: float = 0.01,
        bias_correction: bool = True,
        grad_averaging: bool = True,
        max_grad_norm: float | None = 1.0,
        trust_clip: bool = False,
        always_adapt: bool = False,
        decoupled_decay: bool = False,
        adam_w_mode: bool = True,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        compiled: bool = False,
        lowering: str | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        cautious: bool = False,
        state_dtype: StateDtype = "float32",
        stochastic_rounding: bool = False,
        master_weights: bool = False,
        rounding_seed: int = 0,
        clip_norm: float | None = None,
        skip_nonfinite: bool = False,
    ) -> None: ...

class Lion(RuleOptimizer):
    r"""Lion: the sign of an interpolated momentum; every coordinate moves by exactly lr.

    Arguments:
        lr: learning rate α.
        betas: (β₁, β₂): the interpolation of the step, and the decay rate of the momentum.
        weight_decay: λ, decoupled.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 0.0001,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        compiled: bool = False,
        lowering: str | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        cautious: bool = False,
        state_dtype: StateDtype = "float32",
        stochastic_rounding: bool = False,
        master_weights: bool = False,
        rounding_seed: int = 0,
        clip_norm: float | None = None,
        skip_nonfinite: bool = False,
    ) -> None: ...

class Lion8bit(RuleOptimizer):
    r"""Lion with ``state_dtype="int8"``."""

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 0.0001,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        compiled: bool = False,
        lowering: str | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        cautious: bool = False,
        state_dtype: StateDtype = "int8",
        stochastic_rounding: bool = False,
        master_weights: bool = False,
        rounding_seed: int = 0,
        clip_norm: float | None = None,
        skip_nonfinite: bool = False,
    ) -> None: ...

class MARS(RuleOptimizer):
    r"""MARS: AdamW or Lion on a variance-reduced gradient.

    Arguments:
        lr: learning rate α of matrices.
        betas: decay rates (β₁, β₂) of the two means for matrices.
        eps: ε, added to the root.
        weight_decay: λ of matrices, decoupled.
        amsgrad: keep and use the running maximum of v.
        gamma: γ, the strength of the correction.
        mars_type: "mars-adamw" or "mars-lion".
        optimize_1d: treat every tensor as a matrix.
        lr_1d: learning rate of the other tensors; it follows a schedule of its group in proportion to lr.
        betas_1d: decay rates for the other tensors.
        weight_decay_1d: weight decay of the other tensors, decoupled.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 0.003,
        betas: tuple[float, float] = (0.95, 0.99),
        eps: float = 1e-08,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        gamma: float = 0.025,
        mars_type: Literal["mars-adamw", "mars-lion"] = "mars-adamw",
        optimize_1d: bool = False,
        lr_1d: float = 0.003,
        betas_1d: tuple[float, float] = (0.9, 0.95),
        weight_decay_1d: float = 0.1,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        compiled: bool = False,
        lowering: str | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        cautious: bool = False,
        state_dtype: StateDtype = "float32",
        stochastic_rounding: bool = False,
        master_weights: bool = False,
        rounding_seed: int = 0,
        clip_norm: float | None = None,
        skip_nonfinite: bool = False,
    ) -> None: ...

class Muon(RuleOptimizer):
    r"""Muon: the momentum of a matrix, orthogonalised: all of its directions are stepped equally far.

    Arguments:
        lr: learning rate α.
        weight_decay: λ, decoupled.
        momentum: μ.
        nesterov: step along B̃; False steps along B.
        ns_coefficients: (a, b, c) of the Newton–Schulz iteration X ← aX + (bA + cA²)X, A = XXᵀ.
        eps: the smallest norm that a matrix is divided by.
        ns_steps: steps of the iteration.
        adjust_lr_fn: None or "original": s = √max(1, A/B); "match_rms_adamw": s = 0.2·√max(A, B).
        variant: "torch", "jordan", "moonlight", "polar_express" or "zolotarev".
        stacked: a parameter of three or more axes is a stack of matrices (experts).
        split_sizes: rows of the matrices that one parameter holds, (768, 768, 768) for fused queries, keys and values.
        num_heads: each matrix, or each one of a split, consists of so many of equally many rows; 0 for one.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 0.001,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: object = (3.4445, -4.775, 2.0315),
        eps: object = 1e-07,
        ns_steps: object = 5,
        adjust_lr_fn: object = None,
        variant: Literal["torch", "jordan", "moonlight", "polar_express", "zolotarev"] = "torch",
        stacked: object = False,
        split_sizes: object = None,
        num_heads: object = 0,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        compiled: bool = False,
        lowering: str | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        cautious: bool = False,
        state_dtype: StateDtype = "float32",
        stochastic_rounding: bool = False,
        master_weights: bool = False,
        rounding_seed: int = 0,
        clip_norm: float | None = None,
        skip_nonfinite: bool = False,
    ) -> None: ...

class Muon8bit(RuleOptimizer):
    r"""Muon with ``state_dtype="int8"``."""

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 0.001,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: object = (3.4445, -4.775, 2.0315),
        eps: object = 1e-07,
        ns_steps: object = 5,
        adjust_lr_fn: object = None,
        variant: Literal["torch", "jordan", "moonlight", "polar_express", "zolotarev"] = "torch",
        stacked: object = False,
        split_sizes: object = None,
        num_heads: object = 0,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        compiled: bool = False,
        lowering: str | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        cautious: bool = False,
        state_dtype: StateDtype = "int8",
        stochastic_rounding: bool = False,
        master_weights: bool = False,
        rounding_seed: int = 0,
        clip_norm: float | None = None,
        skip_nonfinite: bool = False,
    ) -> None: ...

class NAG4(RuleOptimizer):
    r"""NAG4: NAG-GS with γ held fixed.

    Arguments:
        lr: α, the step of the integration.
        mu: μ, how strongly v is pulled to the weights.
        gamma: γ, the inertia of v.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 0.01,
        mu: float = 1.0,
        gamma: float = 1.0,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        compiled: bool = False,
        lowering: str | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        cautious: bool = False,
        state_dtype: StateDtype = "float32",
        stochastic_rounding: bool = False,
        master_weights: bool = False,
        rounding_seed: int = 0,
        clip_norm: float | None = None,
        skip_nonfinite: bool = False,
    ) -> None: ...

class NAGGS(RuleOptimizer):
    r"""NAG-GS: Nesterov's acceleration as a differential equation, solved by semi-implicit Gauss-Seidel steps.

    Arguments:
        lr: α, the step of the integration.
        mu: μ.
        gamma: where γ starts.
        variant: "torch", or "jax", whose first step leaves v alone and whose defaults are lr 0.05, gamma 1.5.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 0.01,
        mu: float = 1.0,
        gamma: float = 1.0,
        variant: Literal["torch", "jax"] = "torch",
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        compiled: bool = False,
        lowering: str | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        cautious: bool = False,
        state_dtype: StateDtype = "float32",
        stochastic_rounding: bool = False,
        master_weights: bool = False,
        rounding_seed: int = 0,
        clip_norm: float | None = None,
        skip_nonfinite: bool = False,
    ) -> None: ...

class NAdam(RuleOptimizer):
    r"""NAdam: Adam with Nesterov's look-ahead, whose momentum rises slowly from about β₁/2 to β₁.

    Arguments:
        lr: learning rate α.
        betas: decay rates (β₁, β₂) of the two means.
        eps: ε, added to the root.
        weight_decay: λ, added to the gradient.
        momentum_decay: ψ, how fast the momentum rises.
        decoupled_weight_decay: multiply the weights by 1 − αλ first instead.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 0.002,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08,
        weight_decay: float = 0.0,
        momentum_decay: float = 0.004,
        decoupled_weight_decay: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        compiled: bool = False,
        lowering: str | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        cautious: bool = False,
        state_dtype: StateDtype = "float32",
        stochastic_rounding: bool = False,
        master_weights: bool = False,
        rounding_seed: int = 0,
        clip_norm: float | None = None,
        skip_nonfinite: bool = False,
    ) -> None: ...

class NAdamW(RuleOptimizer):
    r"""NAdamW: AdamW whose step looks one gradient ahead, as Nesterov's momentum does.

    Arguments:
        lr: learning rate α.
        betas: decay rates (β₁, β₂) of the two means.
        eps: ε, added to the root.
        weight_decay: λ; each step multiplies the weights by 1 − αλ.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08,
        weight_decay: float = 0.01,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        compiled: bool = False,
        lowering: str | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        cautious: bool = False,
        state_dtype: StateDtype = "float32",
        stochastic_rounding: bool = False,
        master_weights: bool = False,
        rounding_seed: int = 0,
        clip_norm: float | None = None,
        skip_nonfinite: bool = False,
    ) -> None: ...

class NadamP(RuleOptimizer):
    r"""NadamP: NAdamW with the p-th root of the second moment in place of the square root.

    Arguments:
        lr: learning rate α.
        betas: decay rates (β₁, β₂) of the two means.
        eps: ε, added to the root.
        eps_root: ε_r, added inside the root.
        power: p.
        weight_decay: λ, decoupled.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08,
        eps_root: float = 0.0,
        power: float = 2.0,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        compiled: bool = False,
        lowering: str | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        cautious: bool = False,
        state_dtype: StateDtype = "float32",
        stochastic_rounding: bool = False,
        master_weights: bool = False,
        rounding_seed: int = 0,
        clip_norm: float | None = None,
        skip_nonfinite: bool = False,
    ) -> None: ...

class Prodigy(RuleOptimizer):
    r"""Prodigy: Adam that finds its own learning rate, from the distance that the weights have moved.

    Arguments:
        lr: α, a factor of the estimated rate.  The same in all groups; a group with 0 rests.
        betas: decay rates (β₁, β₂) of the two means; β₁ = 0 does not store m.
        beta3: decay rate of n and s; None is √β₂.
        eps: ε.
        weight_decay: λ.
        decouple: decay as AdamW does; False adds λθ to the gradient.
        use_bias_correction: D gets Adam's factor √(1−β₂ᵏ)/(1−β₁ᵏ).
        safeguard_warmup: leave α out of s, so that a warm-up does not inflate d.
        d0: where d starts.
        d_coef: c; 2 doubles the estimate, 0.5 halves it.
        growth_rate: κ, the largest factor by which d grows in a step.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1.0,
        betas: tuple[float, float] = (0.9, 0.999),
        beta3: float | None = None,
        eps: float = 1e-08,
        weight_decay: float = 0.0,
        decouple: bool = True,
        use_bias_correction: bool = False,
        safeguard_warmup: bool = False,
        d0: float = 1e-06,
        d_coef: float = 1.0,
        growth_rate: float = ...,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        compiled: bool = False,
        lowering: str | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        cautious: bool = False,
        state_dtype: StateDtype = "float32",
        stochastic_rounding: bool = False,
        master_weights: bool = False,
        rounding_seed: int = 0,
        clip_norm: float | None = None,
        skip_nonfinite: bool = False,
    ) -> None: ...

class QHAdam(RuleOptimizer):
    r"""QHAdam: Adam whose two moments are mixed with the current gradient and its square.

    Arguments:
        lr: learning rate α.
        betas: decay rates (β₁, β₂) of the two means.
        nus: (ν₁, ν₂), how much of each mean enters the step.
        weight_decay: λ, added to the gradient.
        decouple_weight_decay: multiply the weights by 1 − αλ first instead.
        eps: ε, added to the root.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        nus: tuple[float, float] = (1.0, 1.0),
        weight_decay: float = 0.0,
        decouple_weight_decay: bool = False,
        eps: float = 1e-08,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        compiled: bool = False,
        lowering: str | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        cautious: bool = False,
        state_dtype: StateDtype = "float32",
        stochastic_rounding: bool = False,
        master_weights: bool = False,
        rounding_seed: int = 0,
        clip_norm: float | None = None,
        skip_nonfinite: bool = False,
    ) -> None: ...

class QHM(RuleOptimizer):
    r"""QHM: a weighted mean of plain SGD and momentum, the simplest method that contains both.

    Arguments:
        lr: learning rate α.
        momentum: β, the decay rate of the buffer.
        nu: ν, the weight of the buffer in the step.
        weight_decay: λ.
        weight_decay_type: "grad" adds λθ to the gradient; "direct" multiplies the weights by 1 − αλ first.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1.0,
        momentum: float = 0.999,
        nu: float = 0.7,
        weight_decay: float = 0.0,
        weight_decay_type: Literal["grad", "direct"] = "grad",
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        compiled: bool = False,
        lowering: str | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        cautious: bool = False,
        state_dtype: StateDtype = "float32",
        stochastic_rounding: bool = False,
        master_weights: bool = False,
        rounding_seed: int = 0,
        clip_norm: float | None = None,
        skip_nonfinite: bool = False,
    ) -> None: ...

class RAdam(RuleOptimizer):
    r"""RAdam: Adam that waits with its adaptive rate until there is enough evidence for it.

    Arguments:
        lr: learning rate α.
        betas: decay rates (β₁, β₂) of the two means.
        eps: ε, added to the root before its bias correction.
        weight_decay: λ, added to the gradient.
        decoupled_weight_decay: multiply the weights by 1 − αλ first instead.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08,
        weight_decay: float = 0.0,
        decoupled_weight_decay: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        compiled: bool = False,
        lowering: str | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        cautious: bool = False,
        state_dtype: StateDtype = "float32",
        stochastic_rounding: bool = False,
        master_weights: bool = False,
        rounding_seed: int = 0,
        clip_norm: float | None = None,
        skip_nonfinite: bool = False,
    ) -> None: ...

class RMSprop(RuleOptimizer):
    r"""RMSprop: the gradient divided by a running root mean square of itself.

    Arguments:
        lr: learning rate α.
        alpha: γ, the decay rate of the means (the textbook's γ; torch calls it alpha).
        eps: ε.
        weight_decay: λ, added to the gradient.
        momentum: μ; 0 keeps no buffer.
        centered: subtract the squared mean; both means then stay in 32 bits.
        eps_inside: ε inside the root.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 0.01,
        alpha: float = 0.99,
        eps: float = 1e-08,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        eps_inside: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        compiled: bool = False,
        lowering: str | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        cautious: bool = False,
        state_dtype: StateDtype = "float32",
        stochastic_rounding: bool = False,
        master_weights: bool = False,
        rounding_seed: int = 0,
        clip_norm: float | None = None,
        skip_nonfinite: bool = False,
    ) -> None: ...

class SGD(RuleOptimizer):
    r"""Stochastic gradient descent, with momentum, dampening and Nesterov's form.

    Arguments:
        lr: learning rate α.
        momentum: μ; 0 keeps no buffer.
        dampening: τ, how much of the gradient does not enter the buffer.
        weight_decay: λ, added to the gradient.
        nesterov: look ahead; needs momentum > 0 and dampening = 0.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 0.001,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        compiled: bool = False,
        lowering: str | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        cautious: bool = False,
        state_dtype: StateDtype = "float32",
        stochastic_rounding: bool = False,
        master_weights: bool = False,
        rounding_seed: int = 0,
        clip_norm: float | None = None,
        skip_nonfinite: bool = False,
    ) -> None: ...

class SGDP(RuleOptimizer):
    r"""SGDP: momentum SGD that takes the radial part out of the steps of scale-invariant weights.

    Arguments:
        lr: learning rate α.
        momentum: μ, below 1.
        dampening: τ, the part of the gradient that does not enter the buffer, not even at the first step.
        weight_decay: λ, decoupled, and divided by 1 − μ.
        nesterov: look ahead; the buffer is then not projected.
        eps: ε, added to norms.
        delta: δ, below which a cosine counts as orthogonal; larger projects more tensors.
        wd_ratio: w, how much of the decay projected tensors get.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 0.001,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        eps: float = 1e-08,
        delta: float = 0.1,
        wd_ratio: float = 0.1,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        compiled: bool = False,
        lowering: str | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        cautious: bool = False,
        state_dtype: StateDtype = "float32",
        stochastic_rounding: bool = False,
        master_weights: bool = False,
        rounding_seed: int = 0,
        clip_norm: float | None = None,
        skip_nonfinite: bool = False,
    ) -> None: ...

class SOAP(RuleOptimizer):
    r"""SOAP: Adam in the eigenbasis of Shampoo's factors.

    Arguments:
        lr: learning rate α.
        betas: (β₁, β₂).
        shampoo_beta: β_s of the factors; None for β₂.
        eps: ε.
        weight_decay: λ, decoupled; it acts on the weights after the step.
        precondition_frequency: steps between refreshes of the basis.
        max_precond_dim: an axis longer than this keeps its own basis.
        correct_bias: the factor √(1−β₂ᵗ)/(1−β₁ᵗ); False leaves it out.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 0.003,
        betas: tuple[float, float] = (0.95, 0.95),
        shampoo_beta: float | None = None,
        eps: float = 1e-08,
        weight_decay: float = 0.01,
        precondition_frequency: float = 10,
        max_precond_dim: object = 10000,
        correct_bias: bool = True,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        compiled: bool = False,
        lowering: str | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        cautious: bool = False,
        state_dtype: StateDtype = "float32",
        stochastic_rounding: bool = False,
        master_weights: bool = False,
        rounding_seed: int = 0,
        clip_norm: float | None = None,
        skip_nonfinite: bool = False,
    ) -> None: ...

class ScheduleFreeAdamW(RuleOptimizer):
    r"""Schedule-Free AdamW: no learning-rate schedule, because an average of its weights is evaluated.

    Arguments:
        lr: learning rate α.
        betas: β₁, how far y is from z towards x, between 0 and 1; β₂, decay rate of the second moment.
        eps: ε, added to the root.
        weight_decay: λ.
        warmup_steps: the number of steps in which lr rises linearly; 0 does not warm up.
        r: the power of t in the weights of the average.
        weight_lr_power: p, the power of the largest lr so far in these weights.
        inner_momentum: decay rate of a mean of the gradients, which takes the place of g in the step; 0 keeps no mean.
        variant: "schedulefree" or "algoperf", which changes the defaults to lr=0.0017486387539278373,
            betas=(0.9, 0.9955159689799007), weight_decay=0.08121616522670176, r=0.75.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 0.0025,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08,
        weight_decay: float = 0.0,
        warmup_steps: float = 0,
        r: float = 0.0,
        weight_lr_power: float = 2.0,
        inner_momentum: float = 0.0,
        variant: Literal["schedulefree", "algoperf"] = "schedulefree",
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        compiled: bool = False,
        lowering: str | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        cautious: bool = False,
        state_dtype: StateDtype = "float32",
        stochastic_rounding: bool = False,
        master_weights: bool = False,
        rounding_seed: int = 0,
        clip_norm: float | None = None,
        skip_nonfinite: bool = False,
    ) -> None: ...
    def eval(self) -> None: ...
    def train(self) -> None: ...

class ScheduleFreeProdigy(RuleOptimizer):
    r"""Schedule-Free Prodigy: finds its own learning rate and needs no schedule.

    Arguments:
        lr: α, a factor of the estimated rate.  The same in all groups; a group with 0 stays as it is.
        betas: β₁, how far y is from z towards x, between 0 and 1; β₂, decay rate of the second moment.
        eps: ε.
        weight_decay: λ, taken at x.
        warmup_steps: the number of steps in which lr rises linearly; 0 does not warm up.
        r: the power of t in the weights of the average.
        d0: where d starts.
        d_coef: k; 2 doubles the estimate, 0.5 halves it.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1.0,
        betas: tuple[float, float] = (0.9, 0.9955),
        eps: float = 1e-08,
        weight_decay: float = 0.0,
        warmup_steps: float = 0,
        r: float = 0.75,
        d0: float = 1e-06,
        d_coef: float = 1.0,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        compiled: bool = False,
        lowering: str | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        cautious: bool = False,
        state_dtype: StateDtype = "float32",
        stochastic_rounding: bool = False,
        master_weights: bool = False,
        rounding_seed: int = 0,
        clip_norm: float | None = None,
        skip_nonfinite: bool = False,
    ) -> None: ...
    def eval(self) -> None: ...
    def train(self) -> None: ...

class ScheduleFreeSGD(RuleOptimizer):
    r"""Schedule-Free SGD: no learning-rate schedule, because an average of its weights is evaluated.

    Arguments:
        lr: learning rate α.
        momentum: β, between 0 and 1.
        weight_decay: λ, applied at y.
        warmup_steps: the number of steps in which lr rises linearly; 0 does not warm up.
        r: the power of t in the weights of the average.
        weight_lr_power: p, the power of the largest lr so far in these weights.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1.0,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        warmup_steps: float = 0,
        r: float = 0.0,
        weight_lr_power: float = 2.0,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        compiled: bool = False,
        lowering: str | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        cautious: bool = False,
        state_dtype: StateDtype = "float32",
        stochastic_rounding: bool = False,
        master_weights: bool = False,
        rounding_seed: int = 0,
        clip_norm: float | None = None,
        skip_nonfinite: bool = False,
    ) -> None: ...
    def eval(self) -> None: ...
    def train(self) -> None: ...

class Shampoo(RuleOptimizer):
    r"""Shampoo: a gradient multiplied, along each of its axes, by the inverse root of what that axis has seen.

    Arguments:
        lr: learning rate α.
        betas: (β₁, β₂): decay rates of the filtered gradient and of the factors.
        beta3: weight of the filtered gradient in a step; None for β₁.
        epsilon: ε.
        weight_decay: λ.
        decoupled_weight_decay: False adds λθ to the gradient instead.
        max_preconditioner_dim: blocks have at most so many rows along each axis.
        merge_dims: "last": neighbouring short axes become one, from the last backwards; "first": from the first
            forwards, as AlgoPerf's winner did; "none": never.
        precondition_frequency: steps between refreshes of the roots.
        start_preconditioning_step: the first step with roots; None for ``precondition_frequency``.
        use_bias_correction: divide by 1 − β₂ᵗ and 1 − β₃β₁ᵗ⁻¹.
        inverse_exponent: the exponent of the roots, 0.5 for A^(−1/2); None for 1/(2k).
        grafting: None, "sgd", "adagrad", "rmsprop" or "adam": the method whose step length is taken.
        grafting_beta2: decay rate of the grafted method's second moment.
        grafting_epsilon: ε of the grafted method.
        momentum: μ of a momentum of the steps; 0 for none.
        dampening: of that momentum.
        use_nesterov: Nesterov's form of that momentum.
        use_nadam: ḡ = (β₁m + (1−β₁)g)/(1−β₁ᵗ) with the new m, as AlgoPerf's winner.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 0.01,
        betas: tuple[float, float] = (0.9, 1.0),
        beta3: float | None = None,
        epsilon: float = 1e-12,
        weight_decay: float = 0.0,
        decoupled_weight_decay: bool = True,
        max_preconditioner_dim: object = 1024,
        merge_dims: object = "last",
        precondition_frequency: float = 1,
        start_preconditioning_step: float | None = None,
        use_bias_correction: bool = True,
        inverse_exponent: object = None,
        grafting: Literal[None, "sgd", "adagrad", "rmsprop", "adam"] = None,
        grafting_beta2: float = 0.999,
        grafting_epsilon: float = 1e-10,
        momentum: float = 0.0,
        dampening: float = 0.0,
        use_nesterov: bool = False,
        use_nadam: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        compiled: bool = False,
        lowering: str | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        cautious: bool = False,
        state_dtype: StateDtype = "float32",
        stochastic_rounding: bool = False,
        master_weights: bool = False,
        rounding_seed: int = 0,
        clip_norm: float | None = None,
        skip_nonfinite: bool = False,
    ) -> None: ...

class SophiaG(RuleOptimizer):
    r"""SophiaG: momentum divided by an estimate of the curvature, with every step clipped to lr.

    Arguments:
        lr: learning rate α.
        betas: decay rates (β₁, β₂) of the gradient and of the curvature.
        rho: ρ, the scale of the curvature.
        weight_decay: λ, decoupled.
        bs: B, the number of tokens per optimizer step (batch × sequence length × accumulation); squared mean
            gradients underestimate the curvature by this factor.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 0.0001,
        betas: tuple[float, float] = (0.965, 0.99),
        rho: float = 0.04,
        weight_decay: float = 0.1,
        bs: float = 5120,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        compiled: bool = False,
        lowering: str | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        cautious: bool = False,
        state_dtype: StateDtype = "float32",
        stochastic_rounding: bool = False,
        master_weights: bool = False,
        rounding_seed: int = 0,
        clip_norm: float | None = None,
        skip_nonfinite: bool = False,
    ) -> None: ...
    def update_hessian(self) -> None: ...
