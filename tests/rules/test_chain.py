"""Rules that call matrix functions become programs with calls between them."""

import pytest

from fallline.rules import (
    RuleError,
    accumulate,
    inverse_roots,
    orthogonalize,
    precondition,
    rule,
    setting,
    squares,
    sum,
)
from fallline.rules.chain import Chain

size = setting("a whole number", lambda n: isinstance(n, int), 8)


def chain_of(made, ndim=2):
    trace = next(t for t in made.specialisations() if t.ndim in (None, ndim))
    program = made.program(trace)
    assert isinstance(program, Chain)
    return program


def test_a_call_splits_the_equations_in_two():
    @rule(min_ndim=2)
    def orthogonal(p, g, m, *, lr, ndim):
        m = 0.9 * m + g
        return p - lr * orthogonalize(m), m

    chain = chain_of(orthogonal)
    first, second = chain.links
    assert [call.function for call in first.calls] == ["orthogonalize"]
    assert not second.calls
    assert set(first.program.writes) == {"m", *chain.scratch}
    assert set(second.program.writes) == {"p"}
    assert "m" not in second.program.operands
    assert chain.operands == ("p", "g", "m")


def test_a_state_whose_old_value_is_needed_after_the_call_is_written_last():
    @rule(min_ndim=2)
    def needs_old(p, g, m, *, lr, ndim):
        new = 0.9 * m + g
        return p - lr * (orthogonalize(new) + m), new

    first, second = chain_of(needs_old).links
    assert "m" not in first.program.writes
    assert set(second.program.writes) == {"p", "m"}


def test_a_state_waits_for_others_that_need_its_old_value():
    @rule(min_ndim=2)
    def waits(p, g, a, b, *, lr, ndim):
        o = orthogonalize(g)
        return p - lr * o, a + g, b + a * o  # b is written last and reads the old a

    first, second = chain_of(waits).links
    assert "a" not in first.program.writes
    assert set(second.program.writes) == {"p", "a", "b"}


def test_square_states_follow_the_calls_that_change_them():
    @rule
    def roots_of_sums(p, g, factors: squares("most"), roots: squares("most"), *, lr, most: size):
        factors = accumulate(factors, g, decay=1.0, weight=1.0)
        roots = inverse_roots(roots, factors, scale=1.0, eps=1e-6, when=True, exponent=None)
        return p - lr * precondition(g, roots), factors, roots

    first, _ = chain_of(roots_of_sums).links
    assert [call.function for call in first.calls] == ["accumulate", "inverse_roots", "precondition"]
    assert [call.states for call in first.calls] == [
        {"factors": "factors"},
        {"roots": "roots", "factors": "factors"},
        {"roots": "roots"},
    ]


def test_errors_of_a_rule_name_what_to_write_instead():
    with pytest.raises(RuleError, match=r"min_ndim=2"):

        @rule
        def no_matrix(p, g, *, lr):
            return p - lr * orthogonalize(g)

    with pytest.raises(RuleError, match=r"annotate it as `static`"):

        @rule(min_ndim=2)
        def traced_setting(p, g, *, lr, steps, ndim):
            return p - lr * orthogonalize(g, steps=steps)

    with pytest.raises(RuleError, match=r"a value per element"):

        @rule(min_ndim=2)
        def of_a_number(p, g, *, lr, ndim):
            return p - lr * orthogonalize(sum(g))

    with pytest.raises(RuleError, match=r"arithmetic is not possible"):

        @rule
        def arithmetic(p, g, factors: squares("most"), *, lr, most: size):
            return p - lr * g, 0.9 * factors

    with pytest.raises(RuleError, match=r"has been changed before"):

        @rule
        def stale(p, g, factors: squares("most"), *, lr, most: size):
            new = accumulate(factors, g, decay=1.0, weight=1.0)
            return p - lr * precondition(g, factors), new

    with pytest.raises(RuleError, match=r"another value for factors"):

        @rule
        def dropped(p, g, factors: squares("most"), *, lr, most: size):
            accumulate(factors, g, decay=1.0, weight=1.0)
            return p - lr * precondition(g, factors_of(g)), factors

    with pytest.raises(RuleError, match=r"cannot reduce over all parameters"):

        @rule(min_ndim=2)
        def coupled(p, g, *, lr, ndim):
            return p - lr * orthogonalize(g) * sum(g * g, "all")

    with pytest.raises(RuleError, match=r"`%` is for counters"):

        @rule
        def remainder(p, g, *, lr):
            return p - lr * (g % 2)


def factors_of(g):
    return g.graph.newest("factors")
