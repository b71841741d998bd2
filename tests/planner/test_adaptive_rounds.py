"""What an adaptive answer measures, chooses and fits: public numbers only."""

import itertools

import numpy as np
import pytest

from dpnotebook.errors import WorkloadError
from dpnotebook.inference import nonnegative
from dpnotebook.inference.interactions import without_interaction
from dpnotebook.inference.marginal_algebra import marginal_algebra
from dpnotebook.planner import adaptive_rounds
from dpnotebook.planner.adaptive_rounds import MeasuredMarginals, Rounds, asked_subsets
from dpnotebook.privacy.laws import GAUSSIAN, LAPLACE
from dpnotebook.strategy.residual import opt_residual
from dpnotebook.workload import Identity, Kron, Marginals, Prefix, marginals

SIZES = (4, 3, 3, 2)


def rounds(law=GAUSSIAN, way=3, std=1.0):
    return Rounds(marginals(SIZES, way), SIZES, law, lambda count, units: std * count**0.5, lambda units: float(units))


def test_conditional_independence_is_told_in_closed_form():
    random = np.random.default_rng(1)
    table = random.integers(1, 50, (3, 4, 5)).astype(float)
    first, last = table.sum(axis=2), table.sum(axis=0)
    found = without_interaction((0, 1, 2), (3, 4, 5), {(0, 1): first, (1, 2): last})
    expected = first[:, :, None] * last[None] / first.sum(axis=0)[None, :, None]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_all_margins_are_kept_and_there_is_no_interaction_beside_them():
    random = np.random.default_rng(2)
    table = random.integers(1, 50, (2, 2, 2)).astype(float)
    margins = {pair: table.sum(axis=({0, 1, 2} - set(pair)).pop()) for pair in itertools.combinations(range(3), 2)}
    found = without_interaction((0, 1, 2), (2, 2, 2), margins)
    for pair, margin in margins.items():
        np.testing.assert_allclose(found.sum(axis=({0, 1, 2} - set(pair)).pop()), margin, rtol=1e-3)
    odds = found[0, 0] * found[1, 1] / (found[0, 1] * found[1, 0])
    assert odds[0] == pytest.approx(odds[1], rel=1e-9)


def test_nothing_and_empty_margins():
    assert without_interaction((0, 1), (2, 2), {}).tolist() == [[0, 0], [0, 0]]
    found = without_interaction((0, 1), (2, 2), {(0,): np.array([0.0, 8.0]), (1,): np.zeros(2)})
    assert np.isfinite(found).all()


def test_from_the_first_measurement_on_residuals_are_the_optimum():
    one, best = rounds(), opt_residual(marginals(SIZES, 2))
    pairs = list(itertools.combinations(range(4), 2))
    operator = one.operator(pairs, units=10)
    errors = [
        marginal_algebra(marginals(SIZES, 2), found).total_variance() * found.max_column_norm(2)
        for found in (operator, best.operator)
    ]
    assert errors[0] == pytest.approx(errors[1], rel=0.01)


def test_later_measurements_add_what_is_missing():
    # Where pairs were measured well already, what is left goes to triples.
    alone, after = rounds(), rounds()
    pairs, triples = (list(itertools.combinations(range(4), order)) for order in (2, 3))
    operator = after.operator(pairs, units=1000)
    after.add(operator, np.zeros(operator.shape[0]), operator.max_column_norm(2) / 1000)
    shares = []
    for one in (alone, after):
        found = one.operator(triples, units=10)
        weights = {s: float(w) ** 2 * np.prod([SIZES[i] * (SIZES[i] - 1) for i in s]) for s, w in found.weights}
        shares.append(sum(w for s, w in weights.items() if len(s) == 3) / sum(weights.values()))
    assert shares[1] > 0.999 > 0.9 > shares[0]


@pytest.mark.parametrize("law", [GAUSSIAN, LAPLACE])
def test_measurements_of_the_same_add_up(law):
    random, one = np.random.default_rng(4), rounds(law)
    cells = random.integers(0, 90, SIZES)
    for units in (20, 40):
        operator = one.operator(list(itertools.combinations(range(4), 3)), units)
        exact = operator.matvec(cells.ravel()).astype(float)
        one.add(operator, exact, 1.0 / units)
    found = one.counts.answers(one.workload)
    np.testing.assert_allclose(found, one.workload.matvec(cells.ravel()), atol=0.5)
    redrawn = one.measured.redrawn(one.counts, random)
    assert redrawn.values.keys() == one.measured.values.keys()


def test_those_are_chosen_that_are_farther_off_than_their_noise():
    one = rounds(LAPLACE, way=2, std=2.0)
    operator = one.operator(one.columns, 10)
    one.add(operator, operator.matvec(np.full(72, 10)).astype(float), 0.01)
    candidates = one.candidates(2)
    assert candidates == list(itertools.combinations(range(4), 2))
    scores = np.full(6, 1.0)
    assert one.choose(candidates, scores, 0.5, 10) == []
    scores[[1, 4]] = 500.0
    assert one.choose(candidates, scores, 0.5, 10) == [candidates[1], candidates[4]]
    scores[:] = 5000.0
    assert one.choose(candidates, scores, 0.5, 10) == candidates
    assert one.further([(0, 1), (0, 2), (1, 2), (2, 3)], 3) == []  # no three are asked about
    assert rounds(way=3).further([(0, 1), (0, 2), (1, 2), (2, 3)], 3) == [(0, 1, 2)]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("law", [GAUSSIAN, LAPLACE])
def test_few_rows_of_many_columns_are_told_better_than_by_measuring_all(law):
    # Eight columns, of which neighbours go in pairs: 4 of 28 pairs tell all of 56 triples.
    random, sizes, mu = np.random.default_rng(6), (4,) * 8, 0.1
    rows = random.integers(0, 4, (8, 2_000))
    rows[1::2] = np.where(random.random((4, 2_000)) < 0.8, rows[::2], rows[1::2])
    workload = marginals(sizes, 3)
    cells = np.bincount(np.ravel_multi_index(rows, sizes), minlength=4**8)
    truth = workload.matvec(cells)

    def draw(size, scale):
        return random.normal(0, scale, size) if law.power == 2 else random.laplace(0, scale, size)

    def scale_of(norm, share):  # of the whole price: mu^2, or an epsilon of 20 mu
        return (norm / share) ** 0.5 / mu if law.power == 2 else norm / (20 * mu * share)

    def measured(operator, share):
        scale = scale_of(operator.max_column_norm(law.power), share)
        return operator.matvec(cells) + draw(operator.shape[0], scale), scale**2 * (1 if law.power == 2 else 2)

    one = Rounds(workload, sizes, law, lambda n, u: scale_of(n, u / 100), lambda u: mu**2 * u / 100)
    noisy, variance = measured(one.operator(one.columns, 5), 0.05)
    one.add(one.operator(one.columns, 5), noisy, variance)
    candidates = one.candidates(2)
    tables = [Marginals([Identity(4)] * 8, {pair: 1}).matvec(cells) for pair in candidates]
    scores = np.array([np.abs(t - p).sum() for t, p in zip(tables, one.predictions(candidates), strict=True)])
    scale = scale_of(28, 0.05)
    chosen = one.choose(candidates, scores + draw(28, scale), scale if law.power == 2 else 2**0.5 * scale, 90)
    assert {(0, 1), (2, 3), (4, 5), (6, 7)} <= set(chosen)
    assert len(chosen) < 20
    operator = one.take(chosen, 90)
    one.add(operator, *measured(operator, 0.9))
    everything = opt_residual(workload).operator if law.power == 2 else workload
    noisy, variance = measured(everything, 1.0)
    plain = nonnegative(everything, noisy, noise_std=variance**0.5).answers(workload)
    errors = [((found - truth) ** 2).mean() for found in (one.answers().values, plain)]
    assert errors[0] < 0.5 * errors[1]


@pytest.mark.statistical
def test_intervals_of_what_was_measured_hold_the_exact_counts(monkeypatch):
    monkeypatch.setattr(adaptive_rounds, "REDRAWS", 2)  # of no use here
    random, held, count = np.random.default_rng(5), 0, 0
    cells = random.integers(0, 40, SIZES)
    workload = marginals(SIZES, 2)
    truth = workload.matvec(cells.ravel())
    for _ in range(60):
        one = rounds(way=2)
        operator = one.operator(list(itertools.combinations(range(4), 2)), 10)
        exact = operator.matvec(cells.ravel())
        variance = 0.002 * operator.max_column_norm(2)
        one.add(operator, exact + random.normal(0, variance**0.5, exact.size), variance)
        found = one.answers()
        held += (np.abs(found.middle - truth) <= 1.96 * found.spread).sum()
        count += truth.size
    assert held / count == pytest.approx(0.95, abs=0.02)


def test_marginals_only():
    for workload in (Prefix(4), Kron(Prefix(4), Identity(3)), marginals((4, 3), 1)):
        with pytest.raises(WorkloadError, match="adaptive"):
            asked_subsets(workload, (4, 3) if workload.shape[1] == 12 else (4,))
    assert len(asked_subsets(Marginals([Identity(4), Identity(3)], {(0,): 1, (0, 1): 2}), (4, 3))) == 2


def test_columns_of_one_level_take_no_part():
    one = Rounds(marginals((3, 1, 2), 2), (3, 1, 2), GAUSSIAN, lambda count, units: 1.0, float)
    assert one.columns == [(0,), (2,)]
    assert one.candidates(2) == [(0, 2)]
    operator = one.operator([(0, 2)], 10)
    one.add(operator, operator.matvec(np.arange(6)).astype(float), 1e-6)
    np.testing.assert_allclose(one.answers().values, one.workload.matvec(np.arange(6)), atol=0.1)
    assert MeasuredMarginals((3, 1), True).factors[1] == Identity(1)
