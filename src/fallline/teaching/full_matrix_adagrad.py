r"""Full-matrix AdaGrad: the whole matrix of products of gradients, of which AdaGrad keeps the diagonal.

It is for small problems: a tensor of n entries has n² numbers of state, and a step takes about n³ operations.
It shows what the diagonal loses (the full matrix does not depend on how the axes are rotated) and what Shampoo
approximates by two factors.

.. math::
    S &\leftarrow S + \text{vec}(g)\,\text{vec}(g)^\top \\
    \theta &\leftarrow \theta - \alpha\,(S + \varepsilon I)^{-1/2} g \;\text{("inside")}, \qquad
    \theta \leftarrow \theta - \alpha\,(\varepsilon I + S^{1/2})^{-1} g \;\text{("outside")}

Arguments:
    lr: learning rate α.
    eps: ε.
    variant: the place of ε: "inside" the root, as textbooks write AdaGrad, or "outside", as Duchi et al. do.
    max_numel: tensors of more entries are refused.

Example:
    >>> import torch, fallline
    >>> w = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
    >>> opt = fallline.FullMatrixAdagrad([w], lr=1.0)
    >>> (w.square().sum() / 2).backward()
    >>> opt.step()
    >>> [round(x, 4) for x in w.tolist()]
    [2.4, 3.2]

The first step has length α along the gradient; diagonal AdaGrad would go α along every axis, to (2, 3).

References:
    Duchi, Hazan & Singer 2011, Adaptive subgradient methods for online learning and stochastic optimization.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from fallline.rules.annotations import Static, nonnegative, positive

_variants = Static(("inside", "outside"))


class FullMatrixAdagrad(torch.optim.Optimizer):
    __doc__ = __doc__

    def __init__(
        self, params: Any, lr: float = 1e-2, eps: float = 1e-6, variant: str = "inside", max_numel: int = 1024
    ):
        nonnegative.check("lr", lr)
        positive.check("eps", eps)
        positive.check("max_numel", max_numel)
        _variants.check("variant", variant)
        self.max_numel = max_numel
        super().__init__(params, {"lr": lr, "eps": eps, "variant": variant})

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        try:
            nonnegative.check("lr", group["lr"])
            positive.check("eps", group["eps"])
            _variants.check("variant", group["variant"])
            for index, param in enumerate(group["params"]):
                self._check(param, _name(group, index))
        except Exception:
            self.param_groups.pop()
            raise

    def _check(self, param: Tensor, name: str) -> None:
        n = param.numel()
        if n > self.max_numel:
            raise ValueError(
                f"{name} has {n:,} entries, so its matrix would have {n * n:,}; FullMatrixAdagrad takes "
                f"up to max_numel={self.max_numel:,}; raise that, or use Adagrad, which keeps the diagonal"
            )
        if param.dtype not in (torch.float32, torch.float64):
            raise TypeError(f"{name} has dtype {param.dtype}; FullMatrixAdagrad takes float32 and float64")

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step.  ``closure`` reevaluates the model and returns the loss, as in torch."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for index, param in enumerate(group["params"]):
                if param.grad is None:
                    continue
                if param.grad.is_sparse:
                    raise TypeError(f"{_name(group, index)} has a sparse gradient; FullMatrixAdagrad takes dense ones")
                g = param.grad.reshape(-1)
                state = self.state[param]
                if not state:
                    state["sum"] = torch.zeros(g.numel(), g.numel(), dtype=g.dtype, device=g.device)
                state["sum"].addr_(g, g)
                direction = preconditioned(state["sum"], g, group["eps"], group["variant"])
                param.sub_(float(group["lr"]) * direction.view_as(param))
        return loss


def preconditioned(matrix: Tensor, g: Tensor, eps: float, variant: str = "inside") -> Tensor:
    """(S + εI)^(-1/2) g, or (εI + S^(1/2))^(-1) g, by the eigenvalues of S in double precision.

    S is positive semidefinite; eigenvalues that rounding makes negative count as 0.
    """
    values, vectors = torch.linalg.eigh(matrix.double())
    values = values.clamp(min=0.0)
    roots = (values + eps).sqrt() if variant == "inside" else values.sqrt() + eps
    return (vectors @ ((vectors.T @ g.double()) / roots)).to(g.dtype)


def _name(group: dict[str, Any], index: int) -> str:
    names = group.get("param_names")
    return f"parameter {names[index]!r}" if names else f"parameter {index} of its group"
