"""The Toeplitz square root: against dense algebra, published bounds, and trees; and that its noise is enough."""

import json
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook import strategy
from dpnotebook.errors import WorkloadError
from dpnotebook.inference.inverse import inverse
from dpnotebook.inference.toeplitz import toeplitz_inverse
from dpnotebook.privacy.accountant import mu_of_budget
from dpnotebook.strategy import Strategy, toeplitz
from dpnotebook.strategy.catalogue import candidates
from dpnotebook.strategy.toeplitz import square_root
from dpnotebook.workload import AllRange, Identity, Kron, Prefix, Toeplitz, Total, Workload
from dpnotebook.workload.toeplitz import convolved, digit_bits


@pytest.mark.parametrize("n", [1, 2, 7, 64])
def test_is_what_dense_algebra_says(n, by_definition):
    found = toeplitz(Prefix(n))
    matrix, asked = by_definition(found.operator), by_definition(Prefix(n))
    weights = asked @ np.linalg.inv(matrix)
    assert found.norm == max((matrix**2).sum(axis=0))  # all entries are integers, and so is this, exactly
    assert found.norm == int((found.operator.coefficients.astype(object) ** 2).sum())
    np.testing.assert_allclose(found.error_factors(), (weights**2).sum(axis=1), rtol=1e-9)
    assert found.objective == pytest.approx(found.norm * (weights**2).sum(), rel=1e-9)
    noisy = np.random.default_rng(0).normal(size=n) * 2**20
    np.testing.assert_allclose(found.answers(noisy), weights @ noisy, rtol=1e-9, atol=1e-6)
    np.testing.assert_allclose(found.answer_weights(np.arange(n)), weights, atol=1e-12)
    ranges = Strategy(AllRange(n), found.operator, "gaussian", "")
    weights = by_definition(AllRange(n)) @ np.linalg.inv(matrix)
    np.testing.assert_allclose(ranges.error_factors(), (weights**2).sum(axis=1), rtol=1e-8)


@pytest.mark.parametrize("n", [2, 64, 4096])
def test_it_is_a_square_root_of_the_running_counts(n):
    root = square_root(n)
    np.testing.assert_allclose(convolved(root, root[None, :, None])[0, :, 0], 1, rtol=1e-12)
    exact = Fraction(math.comb(2 * n - 2, n - 1), 4 ** (n - 1))
    assert root[-1] == pytest.approx(float(exact), rel=1e-12)


@pytest.mark.parametrize("n", [64, 1024, 16_384, 65_536])
def test_no_running_count_is_above_the_published_bound(n):
    found = toeplitz(Prefix(n))
    largest = math.sqrt(found.norm * found.error_factors().max())
    upper = 1 + (0.5772156649 + math.log(n)) / math.pi  # from each coefficient being below 1 / sqrt(pi k)
    assert upper - 0.13 < largest < upper
    # No factorization of the running counts has a largest error below this (Mathias 1993, as the papers cite it).
    k = np.arange(1, n + 1)
    lower = 0.5 + np.sum(1 / np.abs(np.sin((2 * k - 1) * np.pi / (2 * n)))) / (2 * n)
    assert lower * 0.999 < largest < lower + 1


@pytest.mark.parametrize(("n", "gain"), [(64, 1.10), (4096, 1.19), (16_384, 1.20), (65_536, 1.21)])
def test_running_counts_have_smaller_errors_than_from_any_tree(n, gain):
    found = toeplitz(Prefix(n))
    for tree in (strategy.hierarchical, strategy.h2, strategy.hb, strategy.wavelet):
        other = tree(Prefix(n), "gaussian")
        assert math.sqrt(other.objective / found.objective) > gain, other.name
    assert found.optimality < 1.1


def test_all_ranges_over_many_cells_have_smaller_errors_too():
    found = Strategy(AllRange(1024), toeplitz(Prefix(1024)).operator, "gaussian", "")
    assert found.objective < 0.78 * strategy.hierarchical(AllRange(1024), "gaussian").objective


@pytest.mark.parametrize("n", [64, 4096, 2**20])
def test_rounding_costs_next_to_nothing(n):
    real = square_root(n)
    rest = toeplitz_inverse(Toeplitz(real))
    ideal = (real**2).sum() * rest.intervals(np.zeros(n, dtype=int), np.arange(1, n + 1)).sum()
    assert abs(toeplitz(Prefix(n)).objective / ideal - 1) < 1e-5


@pytest.mark.parametrize("n", [1, 3, 1000, 70_000])
def test_integers_are_answered_exactly_however_large(n):
    rng = np.random.default_rng(n)
    for coefficients, cells in (
        (rng.integers(-(2**20), 2**20, n), rng.integers(-(2**40), 2**40, n)),
        (
            np.full(n, 2 ** (digit_bits(n) - 1)),
            np.full(n, -(2 ** (digit_bits(n) - 1))),
        ),  # digits all as large as can be
        (np.full(n, 2**62 - 1), np.full(n, 2**63 - 1)),  # beyond 64 bits, where sums of integers wrap around
    ):
        coefficients[0] = coefficients[0] or 1
        got = Toeplitz(coefficients).apply(cells[None, :, None])[0, :, 0]
        back = Toeplitz(coefficients).apply_transposed(cells[None, ::-1, None])[0, ::-1, 0]
        assert np.array_equal(got, back)
        for i in {0, n // 2, n - 1, *rng.integers(0, n, 3).tolist()}:
            exact = sum(int(a) * int(b) for a, b in zip(coefficients[i::-1], cells[: i + 1], strict=False))
            assert (int(got[i]) - exact) % 2**64 == 0


def test_one_in_each_ordered_attribute():
    found = toeplitz(Kron(Identity(3), Prefix(50)) + Kron(Total(3), Prefix(50)))
    assert [type(factor) for factor in found.operator.factors] == [Identity, Toeplitz]
    assert found.objective < strategy.hierarchical(found.workload, "gaussian").objective


def test_what_it_is_not_for_is_said():
    with pytest.raises(WorkloadError, match="Gaussian noise"):
        toeplitz(Prefix(8), "laplace")
    with pytest.raises(WorkloadError, match="1 to 26 bits"):
        toeplitz(Prefix(8), bits=40)
    with pytest.raises(WorkloadError, match="not 0"):
        Toeplitz([0, 1])
    for wrong in ([], [[1]], [np.nan, 1], ["a"]):
        with pytest.raises(WorkloadError, match="one finite number a cell"):
            Toeplitz(wrong)
    assert toeplitz_inverse(Toeplitz([1, *[60] * 9])) is None  # it grows: another way is taken
    assert inverse(Toeplitz([1, 60])).rank == 2


def test_it_is_chosen_over_many_cells_and_offered_for_few():
    assert strategy.select(Prefix(5000), "gaussian").name == "Toeplitz square root"
    assert strategy.select(Prefix(5000), "laplace").name != "Toeplitz square root"
    assert "toeplitz" in [each.name for each in candidates(Prefix(64), "gaussian")]
    assert "toeplitz" not in [each.name for each in candidates(Prefix(64), "laplace")]


def test_is_the_same_after_json():
    found = toeplitz(Prefix(300))
    again = Strategy.from_json(json.loads(json.dumps(found.to_json())))
    assert again == found
    assert hash(again.operator) == hash(found.operator)
    assert Workload.from_json(Toeplitz([0.5, 1.25]).to_json()) == Toeplitz([0.5, 1.25]) != Toeplitz([1, 2])


@pytest.mark.parametrize("n", [2, 17, 300])
def test_the_sensitivity_is_that_of_the_rounded_rows(n):
    found = toeplitz(Prefix(n))
    moved = [float(np.sum(found.operator.matvec(np.eye(n, dtype=int)[j]).astype(float) ** 2)) for j in range(n)]
    assert found.sensitivity == pytest.approx(math.sqrt(max(moved)), rel=1e-15)
    assert 0.9 * found.sensitivity < math.sqrt(max(moved))  # one 10% too small would not do


def test_the_noise_that_is_drawn_suffices(tmp_path):
    """The noise of the measured rows, found again from the answers, has the variance that their change needs."""
    n, epsilon = 8192, 0.5
    frame = pd.DataFrame({"a": np.arange(n)})
    session = dpn.Session(budget=dpn.Budget(epsilon=1.0, delta=1e-6), ledger=tmp_path / "noise.ledger")
    session.protect(frame, "t", domain={"a": dpn.Range(0, n - 1)})
    release = frame.dp.answer(Prefix(n), on="a", strategy=toeplitz, epsilon=epsilon).run()
    errors = release.frame["value"].to_numpy(dtype=float) - np.arange(1, n + 1)
    root = np.rint(square_root(n) * 2**16)
    noise = convolved(root, np.diff(errors, prepend=0)[None, :, None])[0, :, 0]
    needed = np.linalg.norm(root) / mu_of_budget(epsilon, session.ledger.accountant.delta)
    # The mean of 8,192 squares is within 0.09 of its own at 5.7 standard deviations; noise for nine tenths of the
    # sensitivity has 0.81.
    assert np.mean(noise**2) / needed**2 == pytest.approx(1, abs=0.09)
