"""Ranges measured in pieces: never dearer than whole, as accurate as promised, as cheap as brute force finds."""

import itertools

import numpy as np
import pytest
from run_states import line_of_covariance

from dpnotebook.planner.run_state import RunState
from dpnotebook.planner.spare_segments import CLOSE, spare_pieces
from dpnotebook.privacy.accountant import UNITS

UNKNOWN = 1e9


def _price(variance, noise, per_unit=1):
    return UNITS * per_unit * (np.sqrt(2 / variance) if noise == "laplace" else 1 / variance)


def _noise(units, noise, per_unit=1):
    with np.errstate(divide="ignore"):
        return 2 * (UNITS * per_unit / units) ** 2 if noise == "laplace" else UNITS * per_unit / units


def _history(rng, k, runs):
    """Return a covariance of k cells from an information matrix of some measured runs over a vague prior."""
    information = np.eye(k) / UNKNOWN
    for _ in range(runs):
        start, end = np.sort(rng.choice(k + 1, 2, replace=False))
        q = np.zeros(k)
        q[start:end] = 1
        information += np.outer(q, q) / rng.uniform(50, 400)
    return np.linalg.inv(information)


def _after(covariance, asked, pieces):
    """Return the variance of the range by dense least squares."""
    k = len(covariance)
    information = np.linalg.inv(covariance)
    for piece in pieces:
        q = np.zeros(k)
        q[piece.start : piece.end] = 1
        information += np.outer(q, q) / piece.variance
    q = np.zeros(k)
    q[asked[0] : asked[1]] = 1
    return float(q @ np.linalg.solve(information, q))


def _random(rng, noise, per_unit=1):
    k = int(rng.integers(2, 8))
    covariance = _history(rng, k, int(rng.integers(0, 8)))
    spend = rng.integers(0, int(_price(40, noise, per_unit)), k)
    maximum = int(spend.max() * rng.uniform(1, 1.5))
    start, end = np.sort(rng.choice(k + 1, 2, replace=False))
    return covariance, np.ones(k), spend, maximum, (int(start), int(end)), float(rng.uniform(60, 400))


@pytest.mark.one_in(6)
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("per_unit", [1, 3])
def test_keeps_its_promise_and_is_never_dearer_than_the_whole_range(noise, per_unit):
    rng = np.random.default_rng(5)
    free = 0
    for _ in range(200):
        covariance, lengths, spend, maximum, asked, variance = _random(rng, noise, per_unit)
        found = spare_pieces(
            line_of_covariance(covariance), lengths, spend, maximum, asked, variance, noise, per_unit=per_unit
        )
        exact = _after(covariance, asked, found.pieces)
        assert exact <= variance * (1 + 1e-5)
        assert found.variance == pytest.approx(exact, rel=1e-4)
        added = spend.copy()
        for piece in found.pieces:
            added[piece.start : piece.end] += piece.units
            assert piece.variance == pytest.approx(_noise(piece.units, noise, per_unit))
        assert found.rise == max(0, added.max() - maximum)
        known = _after(covariance, asked, ())
        if known > variance:
            missing = 1 / (1 / variance - 1 / known)
            whole = max(0, spend[asked[0] : asked[1]].max() + int(np.ceil(_price(missing, noise, per_unit))) - maximum)
            assert found.rise <= whole + 1e-6 * _price(variance, noise, per_unit)
            free += found.rise == 0 and whole > 0
    assert free >= 3


def _partitions(start, end):
    inner = range(start + 1, end)
    for count in range(end - start):
        for cuts in itertools.combinations(inner, count):
            yield list(itertools.pairwise((start, *cuts, end)))


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_without_history_no_partition_of_the_range_is_cheaper(noise):
    """With nothing known, the pieces are a partition, variances add up, and one holds the dearest cell."""
    rng = np.random.default_rng(6)
    for _ in range(60):
        k = int(rng.integers(2, 8))
        most = int(_price(80, noise))
        spend = rng.integers(0, most, k)
        variance = float(rng.uniform(40, 200))
        line = line_of_covariance(np.eye(k), np.arange(k + 1))
        found = spare_pieces(line, np.ones(k), spend, most, (0, k), variance, noise, shares=(1.0,))
        price = int(np.ceil(_price(variance, noise)))
        least = price

        def reached(rise, parts, spend=spend, most=most):
            return sum(_noise(float(most + rise - spend[a:b].max()), noise) for a, b in parts)

        for parts in _partitions(0, k):
            low, high = -1, least
            if reached(high, parts) > variance:
                continue
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if reached(middle, parts) <= variance else (middle, high)
            least = min(least, high)
        assert least - 1e-6 * price <= found.rise <= least + CLOSE * price + 1


def test_with_history_it_is_nearly_as_cheap_as_the_best_partition():
    """Every run of a partition is measured with what it has to spare, or left to history, exactly evaluated."""
    rng = np.random.default_rng(7)
    misses = wins = cases = 0
    for _ in range(60):
        covariance, lengths, spend, maximum, asked, variance = _random(rng, "laplace")
        if _after(covariance, asked, ()) <= variance:
            continue
        found = spare_pieces(
            line_of_covariance(covariance), lengths, spend, maximum, asked, variance, "laplace", shares=(1.0,)
        )
        cases += 1
        for extra in (0, int(found.rise * 0.9) - 1):
            if extra < 0 or (extra == 0 and found.rise == 0):
                continue
            cheaper = False
            for parts in _partitions(*asked):
                for used in itertools.product((True, False), repeat=len(parts)):
                    pieces = [
                        _piece(a, b, maximum + extra - int(spend[a:b].max()))
                        for (a, b), use in zip(parts, used, strict=True)
                        if use and maximum + extra > spend[a:b].max()
                    ]
                    cheaper = cheaper or _after(covariance, asked, pieces) <= variance
            misses += cheaper
            wins += not cheaper
    assert cases > 30
    assert misses <= 0.1 * (misses + wins)


class _piece:
    def __init__(self, start, end, units):
        self.start, self.end, self.variance = start, end, _noise(units, "laplace")


def test_a_piece_may_lie_outside_of_the_range():
    """Cells 0 to 2 together are known well; cells 1 and 2 follow from what cell 0 can spare."""
    line = line_of_covariance(_of_runs(3, [((0, 3), 10.0)]))
    spend = [0, 10**12, 10**12]
    found = spare_pieces(line, np.ones(3), spend, 10**12, (1, 3), 20.0, "laplace")
    assert found.rise == 0
    assert [(piece.start, piece.end) for piece in found.pieces] == [(0, 1)]
    assert found.variance == pytest.approx(20, rel=1e-2)


def _of_runs(k, runs):
    information = np.eye(k) / UNKNOWN
    for (start, end), variance in runs:
        information[start:end, start:end] += 1 / variance
    return np.linalg.inv(information)


def test_a_short_piece_is_dearer_at_once_and_cheaper_for_what_follows():
    """A sliver that was never cut off: the wide range beside it keeps what it has to spare, if one may pay for it."""
    line = line_of_covariance(_of_runs(2, [((0, 2), 50.0)]))
    price = int(_price(100, "laplace"))
    asked = ([300, 5], [price, price], price, (0, 1), 100.0, "laplace")
    whole = spare_pieces(line, *asked)
    short = spare_pieces(line, *asked, most=2 * price)
    assert [(piece.start, piece.end) for piece in whole.pieces] == [(0, 1)]
    assert [(piece.start, piece.end) for piece in short.pieces] == [(1, 2)]
    assert whole.rise <= price < short.rise <= 2 * price


def test_what_is_known_is_free():
    line = line_of_covariance(np.eye(3))
    found = spare_pieces(line, np.ones(3), [5, 5, 5], 5, (0, 3), 3.0, "laplace")
    assert (found.rise, found.pieces) == (0, ())
    assert found.variance == pytest.approx(3)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_of_equal_ways_rounding_does_not_choose(noise):
    """What is known has other last digits in each kernel; of cells that are alike many ways are equally good."""
    rng = np.random.default_rng(8)
    measured = 0
    for _ in range(60):
        k = 8
        covariance = np.diag(rng.choice([20.0, 40.0, 400.0], k))
        spend = rng.choice([0, int(_price(90, noise))], k)
        start, end = (int(place) for place in np.sort(rng.choice(k + 1, 2, replace=False)))
        where = np.ones(k), spend, int(_price(80, noise)), (start, end), 70.0, noise
        line = line_of_covariance(covariance)
        plain = spare_pieces(line, *where)
        measured += bool(plain.pieces)
        for _ in range(3):
            # Counts before each cut point, of which only differences are known, and their last digits.
            own = rng.normal(size=k + 1)
            noisy = line.corners * (1 + 1e-14 * rng.normal(size=(k + 1, k + 1))) + own + own[:, None]
            other = spare_pieces(RunState((noisy + noisy.T) / 2, line.groups), *where)
            assert [(one.start, one.end) for one in other.pieces] == [(one.start, one.end) for one in plain.pieces]
            units = [[one.units for one in found.pieces] for found in (other, plain)]
            np.testing.assert_allclose(*units, rtol=1e-9)
    assert measured > 20
