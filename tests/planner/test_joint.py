"""Precision of joint measurements, against dense least squares by brute force."""

import numpy as np
import pytest
from clocks import cost
from threadpoolctl import threadpool_limits

from dpnotebook import Range
from dpnotebook.domain import Domain
from dpnotebook.errors import WorkloadError
from dpnotebook.planner.joint_measurement import (
    bound_precision,
    joint_precision,
    known_of,
    together,
)
from dpnotebook.planner.known_part import Observation
from dpnotebook.planner.least_squares_state import LeastSquaresState
from dpnotebook.planner.product_terms import ProductTerm
from dpnotebook.predicate import Predicate
from dpnotebook.query.measurement import Axis
from dpnotebook.workload import Identity, Kron


def history(rng, cells, measured, total_first=False):
    """Random 0/1 queries over cells, each with its precision, and the information matrix they make."""
    rows = (rng.random((measured, cells)) < 0.4).astype(float)
    if total_first:
        rows[0] = 1
    precision = rng.uniform(0.1, 2.0, measured)
    return (rows.T * precision) @ rows


def known(information, bins):
    inverse = np.linalg.pinv(information, hermitian=True, rcond=1e-10)
    z = bins @ inverse
    return z @ information @ z.T, bins - z @ information


def variances_after(information, measured, precision, asked):
    """Exact variances by a dense pseudo-inverse."""
    total = information + precision * measured.T @ measured
    inverse = np.linalg.pinv(total, hermitian=True, rcond=1e-11)
    assert np.allclose(asked @ inverse @ total, asked, atol=1e-6)
    return np.einsum("ij,jk,ik->i", asked, inverse, asked)


def bins_of(rng, cells, count, some=True):
    """Disjoint bins over cells; some cells lie in none."""
    return np.eye(count + some)[rng.integers(0, count + some, cells)].T[:count]


@pytest.mark.parametrize("measured", [0, 1, 3, 8, 30])
@pytest.mark.parametrize("seed", range(4))
def test_variances_after_a_joint_measurement(measured, seed):
    rng = np.random.default_rng(seed)
    bins = bins_of(rng, 12, 5)
    information = history(rng, 12, measured, total_first=True) if measured else np.zeros((12, 12))
    bins = bins[bins.any(axis=1)]
    state = together(*known(information, bins))
    for precision in (0.01, 1.0, 30.0):
        expected = variances_after(information, bins, precision, bins)
        assert np.allclose(state.variances(precision), expected, rtol=1e-6)
    coarse = rng.integers(0, 2, (3, len(bins))).astype(float)
    coarse = coarse[coarse.any(axis=1)]
    expected = variances_after(information, bins, 0.7, coarse @ bins)
    assert np.allclose(state.variances(0.7, coarse), expected, rtol=1e-6)


@pytest.mark.parametrize("measured", [0, 2, 5, 30])
@pytest.mark.parametrize("seed", range(4))
def test_the_least_precision_is_enough_and_least(measured, seed):
    rng = np.random.default_rng(seed)
    bins = bins_of(rng, 12, 5)
    bins = bins[bins.any(axis=1)]
    information = history(rng, 12, measured) if measured else np.zeros((12, 12))
    wanted = rng.uniform(0.02, 0.1, len(bins))  # more than 30 measurements tell
    found = together(*known(information, bins)).least(wanted)
    assert (variances_after(information, bins, found, bins) <= wanted * (1 + 1e-6)).all()
    assert (variances_after(information, bins, found * 0.999, bins) > wanted).any()


def test_a_known_total_halves_what_two_parts_need():
    # Nothing is known of the parts, all of their total: two measurements of variance 2 v leave v.
    information = 1e6 * np.ones((2, 2))
    found = together(*known(information, np.eye(2))).least(np.ones(2))
    assert found == pytest.approx(0.5, rel=1e-5)
    assert together(np.zeros((2, 2)), np.eye(2)).least(np.ones(2)) == pytest.approx(1.0)


def test_numbers_that_are_known_well_are_not_measured():
    information = np.diag([10.0, 0.5, 10.0, 0.0])
    precision, some = joint_precision(*_swapped(known(information, np.eye(4)), np.full(4, 0.4)))
    assert some.tolist() == [False, True, False, True]
    assert precision == pytest.approx(2.5)
    nothing, none = joint_precision(np.diag([0.1, 0.2]), np.full(2, 0.3))
    assert nothing == 0
    assert not none.any()
    assert together(np.diag([0.1, 0.2])).least(np.full(2, 0.3)) == 0


@pytest.mark.parametrize("seed", range(6))
def test_what_is_chosen_keeps_every_promise(seed):
    rng = np.random.default_rng(seed)
    bins = bins_of(rng, 16, 6)
    bins = bins[bins.any(axis=1)]
    information = history(rng, 16, 9)
    wanted = rng.uniform(0.3, 3.0, len(bins))
    precision, some = joint_precision(*_swapped(known(information, bins), wanted))
    after = variances_after(information, bins[some], precision, bins) if some.any() else np.zeros(1)
    assert (after <= wanted * (1 + 1e-6)).all()
    whole = together(*known(information, bins)).least(wanted)
    assert precision <= whole * 1.02


def _swapped(state, wanted):
    return state[0], wanted, state[1]


def strategy_precision(covariance, variances, measured, asked, residual):
    """Return the least precision of a strategy's measurements after which no answer is worse than asked."""
    # A'A = L L': measuring A tells as much as measuring every one of L'x once.
    factor = np.linalg.cholesky(measured.T @ measured)
    known_of_it = together(factor.T @ covariance @ factor, factor.T @ residual)
    return known_of_it.least(variances, np.linalg.solve(factor, asked.T).T)


@pytest.mark.parametrize("seed", range(4))
def test_a_strategy_over_the_bins(seed):
    rng = np.random.default_rng(seed)
    information = history(rng, 6, 4)
    measured = np.vstack([np.eye(6), np.tril(np.ones((6, 6)))[1:]])
    asked = np.tril(np.ones((6, 6)))
    wanted = np.full(6, 0.5)
    covariance, residual = known(information, np.eye(6))
    found = strategy_precision(covariance, wanted, measured, asked, residual)
    assert (variances_after(information, measured, found, asked) <= wanted * (1 + 1e-6)).all()
    assert (variances_after(information, measured, found * 0.999, asked) > wanted).any()
    # Answer by answer is a bound: it needs no less.
    factors = np.einsum("ij,jk,ik->i", asked, np.linalg.inv(measured.T @ measured), asked)
    state = np.linalg.pinv(information, hermitian=True, rcond=1e-10)
    fits = np.abs(asked - asked @ state @ information).max(axis=1) < 1e-8
    before = np.where(fits, np.einsum("ij,jk,ik->i", asked, state, asked), np.inf)
    bound = bound_precision(before, factors, wanted)
    assert bound >= found * (1 - 1e-9)
    assert (variances_after(information, measured, bound, asked) <= wanted * (1 + 1e-6)).all()


def test_a_question_that_cuts_the_atoms_of_the_history():
    domain = Domain({"a": Range(0, 2), "b": Range(0, 3), "c": Range(0, 1)})
    block = LeastSquaresState(domain, ("a", "b", "c"))

    def group(*names, **levels):
        axes = tuple(Axis(name, tuple(range(domain[name].size))) for name in names)
        masks = {name: np.isin(np.arange(domain[name].size), kept) for name, kept in levels.items()}
        where = Predicate.box(domain, masks)
        factors = [Identity(axis.size) for axis in axes]
        operator = factors[0] if len(factors) == 1 else Kron(*factors)
        return ProductTerm(axes, where, operator, 1.0, np.arange(operator.shape[0]))

    measured = [(group("a"), 2.0), (group("b", c=[0]), 0.5), (group("a", b=[1, 2]), 1.0)]
    block.add(
        [
            Observation(str(i), 0, part, p, np.zeros(part.operator.shape[0]), {(i, 0): p})
            for i, (part, p) in enumerate(measured)
        ]
    )

    def dense(part):
        found = block.queries(part)
        return np.concatenate([found.columns, np.zeros((found.count, 1))], axis=1)[:, found.cells]

    information = sum(p * dense(part).T @ dense(part) for part, p in measured)
    for part in (group("a", "c"), group("a", b=[1]), group("b"), group("c", a=[0, 2]), group("a", "b", "c")):
        bins = dense(part)
        assert bins.shape[1] == 24
        assert block.queries(part).bins
        state = together(*known_of(block, block.queries(part)))
        expected = variances_after(information, bins, 0.3, bins)
        assert np.allclose(state.variances(0.3), expected, rtol=1e-7)


def test_what_is_known_exactly_needs_nothing():
    with np.errstate(all="raise"):
        assert together(np.zeros((2, 2))).least(np.ones(2)) == 0.0


def test_no_precision_gives_no_variance():
    with pytest.raises(WorkloadError, match="without variance"):
        together(np.eye(2)).least(np.array([1.0, 0.0]))


def test_five_hundred_numbers_take_a_moment():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(500, 500))
    covariance = root @ root.T / 500 + np.eye(500)
    # Threads of BLAS that wait for one another take processor time, the more the busier the machine is.
    with threadpool_limits(1):
        assert cost(lambda: joint_precision(covariance, np.full(500, 0.5))) < 100  # loops of some 5 ms


@pytest.mark.parametrize("total", [True, False])
def test_what_rounding_leaves_of_large_integers_is_nothing(total):
    """Rows of strategies have entries of up to 2^14, of which it must not depend on last digits what is determined."""
    rng = np.random.default_rng(4)
    cells, size = 12, 2**14
    information = history(rng, cells, 30)
    if not total:  # differences alone are known
        centred = np.eye(cells) - 1 / cells
        information = centred @ information @ centred
    rows = np.vstack([np.diag(rng.integers(size // 2, size, cells)), rng.integers(0, size, (3, cells))]).astype(float)
    covariance, residuals = known(information, rows)
    noisy = residuals + size * 1e-10 * rng.normal(size=residuals.shape)
    asked = np.linalg.lstsq(rows.T, np.tril(np.ones((cells, cells))).T, rcond=None)[0].T
    prefixes = asked @ rows
    # Of prefixes alone much is known already: targets below that need measurements.
    variances = variances_after(information, rows, 1e-9, prefixes)
    found = [together(covariance, one, size).least(variances, asked) for one in (residuals, noisy)]
    np.testing.assert_allclose(found, 1e-9, rtol=1e-3)
    assert found[1] == pytest.approx(found[0], rel=1e-6)
