"""Expected errors, weights and answers of a strategy equal their dense definitions, and what noise really does."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpnotebook.errors import AccuracyError, WorkloadError
from dpnotebook.privacy.accountant import mu_of_budget
from dpnotebook.strategy import Strategy, hierarchical, identity, itself, select
from dpnotebook.workload import AllRange, Explicit, Hierarchy, Identity, Kron, Prefix, Stack, Total

NOISES = ["laplace", "gaussian"]
MARGINS = Stack(Kron(Identity(4), Total(5)), 2 * Kron(Total(4), Prefix(5)), Kron(Identity(4), Identity(5)))


def sensitivity(a, noise):
    return np.abs(a).sum(axis=0).max() if noise == "laplace" else np.linalg.norm(a, axis=0).max()


def check_against_dense(strategy, by_definition):
    """Compare every number of a strategy that is least squares over all measurements with its definition."""
    w, a = by_definition(strategy.workload), by_definition(strategy.operator)
    reconstruct = w @ np.linalg.pinv(a)
    size = sensitivity(a, strategy.noise)
    assert strategy.sensitivity == pytest.approx(size)
    assert strategy.norm == pytest.approx(size if strategy.noise == "laplace" else size**2)
    assert type(strategy.norm) is int
    supported = np.linalg.norm(w - reconstruct @ a, axis=1) <= 1e-8 * np.linalg.norm(w, axis=1)
    factors = np.where(supported, (reconstruct**2).sum(axis=1), np.inf)
    np.testing.assert_allclose(strategy.error_factors(), factors, rtol=1e-7, atol=1e-9)
    assert strategy.objective == pytest.approx(size**2 * factors.sum(), rel=1e-7)
    if supported.any():
        rows = np.flatnonzero(supported)
        np.testing.assert_allclose(strategy.answer_weights(rows), reconstruct[rows], atol=1e-7)
    if supported.all():
        y = np.random.default_rng(0).normal(size=len(a))
        np.testing.assert_allclose(strategy.answers(y), reconstruct @ y, atol=1e-7)
    assert Strategy.from_json(strategy.to_json()) == strategy


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_any_pair_of_workload_and_operator(data, workloads, by_definition):
    n = data.draw(st.integers(1, 12))
    w, a = data.draw(workloads(n)), data.draw(workloads(n, integer=True))
    check_against_dense(Strategy(w, a, data.draw(st.sampled_from(NOISES)), "any"), by_definition)


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_named_strategies(data, workloads, by_definition):
    w, noise = data.draw(workloads()), data.draw(st.sampled_from(NOISES))
    check_against_dense(identity(w, noise), by_definition)
    check_against_dense(select(w, noise), by_definition)
    if w.integer:
        check_against_dense(itself(w, noise), by_definition)


@pytest.mark.parametrize("noise", NOISES)
def test_products_of_three_attributes(noise, by_definition):
    w = 1.5 * Kron(Prefix(4), AllRange(3), Total(2))
    for a in (
        2 * Kron(Hierarchy(4, 2), Identity(3), Total(2)),
        Kron(Prefix(4), AllRange(3), Explicit([[1, 2], [1, -1]])),
        Identity(24),
    ):
        check_against_dense(Strategy(w, a, noise, "product"), by_definition)
    check_against_dense(Strategy(MARGINS, Kron(Hierarchy(4, 4), Prefix(5)), noise, "union"), by_definition)
    check_against_dense(Strategy(Prefix(20), Kron(Hierarchy(4, 4), Prefix(5)), noise, "other factors"), by_definition)


@pytest.mark.parametrize("noise", NOISES)
def test_parts_answered_one_by_one(noise, by_definition):
    parts = (Hierarchy(4, 4, 2), Total(5)), (Total(4), Hierarchy(5, 2)), (Identity(4), Identity(5))
    weights = (3, 1, 2)
    operator = Stack(*(k * Kron(*part) for k, part in zip(weights, parts, strict=True)))
    strategy = Strategy(MARGINS, operator, noise, "split", split=True)
    blocks = [
        by_definition(w) @ np.linalg.pinv(by_definition(a)) for w, a in zip(MARGINS.parts, operator.parts, strict=True)
    ]
    reconstruct = np.zeros((strategy.workload.shape[0], operator.shape[0]))
    row = column = 0
    for block in blocks:
        reconstruct[row : row + block.shape[0], column : column + block.shape[1]] = block
        row, column = row + block.shape[0], column + block.shape[1]
    np.testing.assert_allclose(strategy.error_factors(), (reconstruct**2).sum(axis=1), rtol=1e-9)
    np.testing.assert_allclose(strategy.answer_weights(np.arange(len(reconstruct))), reconstruct, atol=1e-9)
    y = np.random.default_rng(0).normal(size=operator.shape[0])
    np.testing.assert_allclose(strategy.answers(y), reconstruct @ y, atol=1e-9)
    size = sensitivity(by_definition(operator), noise)
    assert strategy.objective == pytest.approx(size**2 * (reconstruct**2).sum())
    # Unbiased, and never better than least squares over all of it.
    np.testing.assert_allclose(reconstruct @ by_definition(operator), by_definition(MARGINS), atol=1e-9)
    together = Strategy(MARGINS, operator, noise, "together")
    assert (together.error_factors() <= strategy.error_factors() * (1 + 1e-9)).all()
    assert Strategy.from_json(strategy.to_json()) == strategy


STRATEGIES = [
    identity(Prefix(16)),
    itself(AllRange(8)),
    hierarchical(AllRange(16)),
    hierarchical(Prefix(16), "gaussian"),
    select(Kron(Prefix(6), Identity(3))),
    select(MARGINS),
    select(MARGINS, "gaussian"),
    Strategy(MARGINS, Stack(*(Kron(Identity(4), Identity(5)) for _ in range(3))), "laplace", "split", split=True),
]


@pytest.mark.one_in(6)
@pytest.mark.statistical
@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda s: f"{s.workload!r} {s.noise} {s.name}"[:60])
def test_errors_of_noisy_runs_are_as_expected(strategy):
    """Run the mechanism 4000 times at (1, 1e-6): answers are unbiased, with the variance that was promised for each.

    For N runs the mean of an answer has variance s^2 / N, and its mean squared error has variance s^4 (2 + k) / N with
    k the excess kurtosis: 3 sum w^4 / (sum w^2)^2 for Laplace noise with weights w, 0 for Gaussian noise. Every answer
    must be within 5 standard deviations (6e-7 each way), the total squared error within 4.
    """
    runs, rng = 4000, np.random.default_rng(11)
    privacy = {"epsilon": 1.0} if strategy.noise == "laplace" else {"epsilon": 1.0, "delta": 1e-6}
    m, (p, n) = strategy.workload.shape[0], strategy.operator.shape
    x = rng.integers(0, 100, size=n)
    if strategy.noise == "laplace":
        scale = strategy.sensitivity / 1.0
        noise, variance = rng.laplace(scale=scale, size=(runs, p)), 2 * scale**2
    else:
        scale = strategy.sensitivity / mu_of_budget(1.0, 1e-6)
        noise, variance = rng.normal(scale=scale, size=(runs, p)), scale**2
    exact = strategy.operator.matvec(x)
    errors = np.array([strategy.answers(exact + one) for one in noise]) - strategy.workload.matvec(x)

    expected = strategy.error_factors() * variance
    weights = strategy.answer_weights(np.arange(m))
    excess = 3 * (weights**4).sum(axis=1) / (weights**2).sum(axis=1) ** 2 if strategy.noise == "laplace" else 0
    assert np.abs(errors.mean(axis=0) / np.sqrt(expected / runs)).max() < 5
    squared = (errors**2).mean(axis=0)
    assert np.abs((squared / expected - 1) / np.sqrt((2 + excess) / runs)).max() < 5

    totals = (errors**2).sum(axis=1)
    spread = totals.std(ddof=1) / math.sqrt(runs)
    assert abs(totals.mean() - strategy.total_squared_error(**privacy)) < 4 * spread
    assert spread < 0.05 * totals.mean()
    assert strategy.rmse(**privacy) == pytest.approx(math.sqrt(expected.mean()))


def test_errors_scale_with_the_privacy_parameters():
    strategy = identity(Identity(5))
    assert strategy.total_squared_error(0.5) == pytest.approx(5 * 2 / 0.5**2)
    assert strategy.rmse(epsilon=0.1) == pytest.approx(math.sqrt(2) / 0.1)
    gaussian = identity(Identity(5), "gaussian")
    assert gaussian.rmse(1.0, 1e-6) == pytest.approx(4.224679, abs=1e-6)
    assert gaussian.lower_bound(1.0, 1e-6) == pytest.approx(gaussian.rmse(1.0, 1e-6))
    assert gaussian.optimality == pytest.approx(1)


@pytest.mark.parametrize(
    ("noise", "epsilon", "delta", "why"),
    [
        ("laplace", 0, 0, "epsilon must be a finite number above 0"),
        ("laplace", float("nan"), 0, "epsilon"),
        ("laplace", "1", 0, "epsilon"),
        ("laplace", 1, 1e-6, "private without a delta"),
        ("gaussian", 1, 0, "delta of Gaussian noise"),
        ("gaussian", 1, 1, "between 0 and 1"),
        ("gaussian", -1, 1e-6, "epsilon"),
    ],
)
def test_privacy_parameters_must_fit_the_noise(noise, epsilon, delta, why):
    with pytest.raises(AccuracyError, match=why):
        identity(Prefix(4), noise).rmse(epsilon, delta)


def test_a_strategy_that_does_not_support_its_workload_has_infinite_error():
    strategy = Strategy(Prefix(4), Explicit([[1, 1, 0, 0], [0, 0, 1, 1]]), "laplace", "pairs")
    assert strategy.objective == math.inf
    assert strategy.rmse(1.0) == math.inf
    np.testing.assert_allclose(strategy.error_factors(), [math.inf, 1, math.inf, 2])
    np.testing.assert_allclose(strategy.answer_weights([3, 1]), [[1, 1], [1, 0]], atol=1e-12)
    with pytest.raises(WorkloadError, match="do not determine every answer of Prefix"):
        strategy.answer_weights([0])
    total = Strategy(Identity(3), Total(3), "gaussian", "total")
    assert total.objective == math.inf
    product = Strategy(Kron(Prefix(2), Identity(3)), Kron(Identity(2), Total(3)), "laplace", "one side")
    assert product.objective == math.inf
    assert np.isinf(product.error_factors()).all()


def test_what_cannot_be_a_strategy_is_refused():
    with pytest.raises(WorkloadError, match="over 3 cells cannot be answered from measurements of 4"):
        Strategy(Identity(3), Identity(4), "laplace", "x")
    with pytest.raises(WorkloadError, match="integer coefficients"):
        Strategy(Identity(3), 0.5 * Identity(3), "laplace", "x")
    with pytest.raises(WorkloadError, match='"laplace" or "gaussian"'):
        Strategy(Identity(3), Identity(3), "cauchy", "x")
    with pytest.raises(WorkloadError, match="3 parts cannot be answered one by one from 1"):
        Strategy(MARGINS, Identity(20), "laplace", "x", split=True)
    with pytest.raises(WorkloadError, match="products over different attributes"):
        Strategy(MARGINS, Stack(*[Prefix(20)] * 3), "laplace", "x", split=True)
    for value in ({}, {"workload": {}, "operator": {}, "noise": "laplace", "name": "", "split": False}, 3):
        with pytest.raises(WorkloadError):
            Strategy.from_json(value)


def test_rows_and_measurements_are_checked():
    strategy = identity(Prefix(4))
    for rows in ([4], [-1], [0, 99]):
        with pytest.raises(WorkloadError, match="numbered 0 to 3"):
            strategy.answer_weights(rows)
    assert strategy.answer_weights([]).shape == (0, 4)
    for noisy in (np.ones(3), [1, 2, np.nan, 4], np.ones((4, 1)), ["a"] * 4):
        with pytest.raises(WorkloadError, match="one finite number for each of 4 measurements"):
            strategy.answers(noisy)
    with pytest.raises(WorkloadError, match="the weights of 1,000,000 answers over 1,000,000 measurements would take"):
        identity(Identity(10**6)).answer_weights(np.arange(10**6))


def test_a_million_cells_stay_implicit():
    rng = np.random.default_rng(0)
    w = Kron(Prefix(100), Identity(100), Prefix(100))
    strategy = select(w)
    factors = strategy.error_factors()
    assert factors.shape == (10**6,)
    assert strategy.norm**2 * factors.sum() == pytest.approx(strategy.objective, rel=1e-9)
    weights = strategy.answer_weights([123_456])
    assert (weights**2).sum() == pytest.approx(factors[123_456], rel=1e-9)
    x = rng.integers(0, 9, size=10**6)
    exact = strategy.operator.matvec(x)
    assert exact.dtype == np.int64
    np.testing.assert_allclose(strategy.answers(exact), w.matvec(x), rtol=1e-9, atol=1e-9)
    noisy = exact + rng.integers(-50, 50, size=exact.size)
    assert weights[0] @ noisy == pytest.approx(strategy.answers(noisy)[123_456], rel=1e-9)
    # Answers over a domain that is never formed: 10^12 cells, one attribute of which is asked for.
    wide = select(Kron(*(Total(1000) for _ in range(3)), Prefix(1000)))
    answers = wide.answers(np.ones(wide.operator.shape[0]))
    assert answers.shape == (1000,)
    assert wide.error_factors().shape == (1000,)
