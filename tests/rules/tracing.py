"""The graphs that the tests of the language look at."""

from typing import Any

import fallline.rules
from fallline.rules.node import Node
from fallline.rules.program import Program
from fallline.rules.trace import Trace

# mypy: disable-error-code="no-untyped-def, valid-type"


def traced(declared: fallline.rules.Rule, ndim: int | None = None, **statics: Any) -> Program:
    return declared.program(Trace(tuple((n, statics.get(n, False)) for n in declared.statics), ndim))


def written(declared: fallline.rules.Rule, name: str, **statics: Any) -> Node:
    return traced(declared, **statics).writes[name]
