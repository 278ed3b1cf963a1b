"""The functions of whole matrices that a rule may call; they run between its passes over the elements.

`lower/matrix_calls.py` has what each of them computes.  ``when`` is a number or a truth value of the host: if it is 0
or False, the call changes nothing and costs nothing, which is how a rule does work in every k-th step only.  With
``every=k`` a call works on a k-th of the matrices in each step, so that no step is slow: on those whose turn it is when
the number ``turn`` counts up.
"""

from __future__ import annotations

from typing import Any

from fallline.rules.node import Node, Number, RuleError


def orthogonalize(x: Node, **settings: Any) -> Node:
    """The orthogonal factor of each matrix of ``x``, UVᵀ where x = UΣVᵀ, or a matrix near it."""
    if (x.graph.ndim or 0) < 2:
        raise RuleError("orthogonalize needs a matrix: declare @rule(min_ndim=2), and take the keyword argument `ndim`")
    (found,) = x.graph.call("orthogonalize", {"x": x}, changes=("x",), **settings)
    return found


def accumulate(factors: Node, g: Node, *, decay: Number, weight: Number, when: Number = True) -> Node:
    """``decay · factors + weight · GGᵀ``, for each axis of each block G of ``g``."""
    numbers = {"decay": decay, "weight": weight, "when": when}
    (found,) = g.graph.call("accumulate", {"g": g}, {"factors": factors}, numbers, ("factors",))
    return found


def inverse_roots(
    roots: Node,
    factors: Node,
    *,
    scale: Number,
    eps: Number,
    when: Number,
    turn: Number = 0,
    every: Number = 1,
    **settings: Any,
) -> Node:
    """``(scale · factors + eps · 1)^(−1/p)``; p is twice the number of axes of a block unless the settings say
    otherwise.  A root that cannot be computed keeps its old value; one that fails too often in a row is an error.
    Matrices take turns one by one, or, with ``by_block=True``, all of a block together."""
    numbers = {"scale": scale, "eps": eps, "when": when, "turn": turn, "every": every}
    (found,) = factors.graph.call(
        "inverse_roots", {}, {"roots": roots, "factors": factors}, numbers, ("roots",), **settings
    )
    return found


def accumulate_adaptive(
    factors: Node,
    previous: Node,
    roots: Node,
    g: Node,
    *,
    decay: Number,
    weight: Number,
    eps: Number,
    begins: Number,
    renewed: Number,
    turn: Number = 0,
    every: Number = 1,
) -> tuple[Node, Node, Node]:
    """CASPR's factors: R is that of the gradient after L's root.  If roots were ``renewed`` in the last step, R is
    brought to the scale of a new root of L, and ``previous`` becomes the factor that the root was made from; ``turn``
    and ``every`` are those of that step, and blocks take turns.  ``begins`` sets all of them to their start."""
    numbers = {"decay": decay, "weight": weight, "eps": eps, "begins": begins, "renewed": renewed}
    numbers |= {"turn": turn, "every": every}
    factors, previous, roots = g.graph.call(
        "accumulate_adaptive",
        {"g": g},
        {"factors": factors, "previous": previous, "roots": roots},
        numbers,
        ("factors", "previous", "roots"),
    )
    return factors, previous, roots


def precondition(x: Node, roots: Node, *, like: Node | None = None, when: Number = True) -> Node:
    """Each block of ``x`` multiplied along every axis by the matrix of that axis; with ``like``, scaled to the norm of
    the same block of that value."""
    values = {"x": x} if like is None else {"x": x, "like": like}
    (found,) = x.graph.call("precondition", values, {"roots": roots}, {"when": when}, ("x",))
    return found


def eigenbasis(basis: Node, factors: Node, *, when: Number) -> Node:
    """The eigenvectors of each factor, those of the largest eigenvalue first."""
    (found,) = basis.graph.call("eigenbasis", {}, {"basis": basis, "factors": factors}, {"when": when}, ("basis",))
    return found


def project(x: Node, basis: Node, *, back: bool = False, when: Number = True) -> Node:
    """``x`` in the coordinates of the basis, or back from them."""
    (found,) = x.graph.call("project", {"x": x}, {"basis": basis}, {"when": when}, ("x",), back=back)
    return found


def turn_basis(
    basis: Node,
    factors: Node,
    first_moment: Node,
    second_moment: Node,
    *,
    when: Number,
    turn: Number = 0,
    every: Number = 1,
) -> tuple[Node, Node, Node]:
    """One step of power iteration of the basis towards the eigenvectors of the factors.  The first moment, in the
    coordinates of the basis, turns with it; the second moment follows the order of the columns."""
    basis, first_moment, second_moment = basis.graph.call(
        "turn_basis",
        {"first_moment": first_moment, "second_moment": second_moment},
        {"basis": basis, "factors": factors},
        {"when": when, "turn": turn, "every": every},
        ("basis", "first_moment", "second_moment"),
    )
    return basis, first_moment, second_moment
