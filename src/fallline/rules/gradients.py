"""Measurements of gradients, written as rules so that every lowering can run them."""

# mypy: disable-error-code="no-untyped-def,valid-type"
from fallline.rules.annotations import optimizer
from fallline.rules.functions import sqrt, sum
from fallline.rules.rule import rule


@rule
def gradient_norm(p, g, norm: optimizer):
    """The norm of all gradients together; infinite or NaN if any of them is not finite."""
    return p, sqrt(sum(g * g, "all"))
