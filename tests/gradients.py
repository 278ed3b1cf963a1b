"""Gradients of another dtype than their parameter's, which torch before 2.10 refuses."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
import torch
from torch import Tensor


def let_gradients_have(dtype: torch.dtype | None, params: Iterable[Tensor]) -> None:
    """Lets the gradients of these have this dtype, or any; skips the test where torch does not."""
    for param in params:
        if hasattr(param, "grad_dtype"):
            param.grad_dtype = dtype
        elif dtype != param.dtype:
            pytest.skip("this torch keeps gradients in the parameter's dtype")
