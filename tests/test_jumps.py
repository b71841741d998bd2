"""Intervals of numbers that jump where noise decides an order, and of those that do not."""

import math

import numpy as np
import pytest

from dpnotebook.session.jumps import FAR, _parts, ends_of_parts
from dpnotebook.session.ordered import quantile_of_ordered
from dpnotebook.session.redraws import Drawn, intervals

RUNS, DRAWS = 1_200, 1_000
SURE = 0.95 - 5.5 * math.sqrt(0.95 * 0.05 / RUNS)


def running_totals(gap, random, third=None):
    """Return running totals of a group beside another, smaller by `gap` standard deviations: released, redrawn, true.

    A third one may be as near.
    """
    sizes = np.array([1_000.0 + gap, 1_000.0, *([] if third is None else [1_000.0 + third])])
    noisy = sizes[:, None] + random.normal(0, 1, (sizes.size, RUNS))
    redrawn = noisy[:, None] + random.normal(0, 1, (sizes.size, DRAWS, RUNS))

    def total(groups):
        return (groups * (groups >= groups[0])).sum(axis=0)

    return total(noisy), total(redrawn), float(total(sizes))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("gap", [-2.0, -0.1, 0.1, 0.7, 4.0])
def test_a_running_total_is_covered_however_near_groups_are(gap):
    """Quantiles of all redraws hold in 79% to 93% of runs where two groups are nearly tied."""
    values, redrawn, truth = running_totals(gap, np.random.default_rng(11))
    ends = intervals(Drawn(values, redrawn), [], None, 0.95)
    held = ((ends.lower <= truth) & (truth <= ends.upper)).mean()
    assert held > SURE


def test_three_groups_that_are_nearly_tied():
    values, redrawn, truth = running_totals(0.2, np.random.default_rng(12), third=0.4)
    ends = intervals(Drawn(values, redrawn), [], None, 0.95)
    assert ((ends.lower <= truth) & (truth <= ends.upper)).mean() > SURE


def ends(drawn):
    return ends_of_parts(np.sort(drawn.T), 0.025)


@pytest.mark.parametrize("law", ["normal", "laplace", "cauchy", "uniform", "exponential"])
def test_what_does_not_jump_has_one_part(law):
    random = np.random.default_rng(4)
    draw = {"cauchy": random.standard_cauchy, "exponential": random.standard_exponential}.get(law)
    drawn = draw((DRAWS, RUNS)) if draw else getattr(random, law)(0, 1, (DRAWS, RUNS))
    assert np.isnan(ends(drawn)).all()


def test_whole_numbers_are_no_parts():
    drawn = np.random.default_rng(5).integers(0, 4, (DRAWS, 50)).astype(float)
    assert np.isnan(ends(drawn)).all()


def test_ratios_of_small_counts_have_one_part():
    """A golden file's share of one count in another, on few numbers that have ends between them, was made longer."""
    random = np.random.default_rng(7)
    for sizes in [(20, 60), (100, 290), (3, 9), (1, 40)]:
        a, b = (size + np.rint(random.laplace(0, 4, (4_000, 100))) for size in sizes)
        drawn = np.where(b == 0, 0.0, a / np.where(b == 0, 1.0, b))
        low, _ = ends(drawn)
        assert np.isnan(low).mean() > 0.98


def test_whole_running_totals_jump():
    random = np.random.default_rng(9)
    n = np.array([1_000.0, 998.0])[:, None] + np.rint(random.normal(0, 3, (2, DRAWS)))
    low, high = ends((n * (n >= n[0])).sum(axis=0)[:, None])
    assert low[0] < 1_010
    assert high[0] > 1_990


def test_a_rare_part_is_left_out():
    drawn = np.concatenate([np.random.default_rng(6).normal(0, 1, 990), np.full(10, 1e6) + np.arange(10)])[:, None]
    assert np.isnan(ends(drawn)).all()
    drawn[900:] += 1e6
    low, high = ends(drawn)
    assert low[0] < 0 < 1e6 - 5 < high[0]


@pytest.mark.parametrize("few", [2, 3, 25])
def test_a_gap_is_held_against_the_draws_beside_it(few):
    """Gap by gap, as it is said: against the mean distance of so many draws on either side, and the usual gap."""
    random = np.random.default_rng(8)
    several = 0
    for _ in range(200):
        jumps = random.choice([0.0, 1e3, 1e6], 4 * few + random.integers(1, 30))
        ordered = np.sort(random.normal(size=jumps.size).round(random.integers(0, 9)) + jumps)
        gaps, last = np.diff(ordered), jumps.size - 1
        usual = np.median(gaps[gaps > 0])
        cut = [
            at + 1
            for at in range(last)
            if gaps[at] > FAR * (ordered[at] - ordered[max(at - few + 1, 0)]) / (few - 1)
            and gaps[at] > FAR * (ordered[min(at + few, last)] - ordered[at + 1]) / (few - 1)
            and gaps[at] > FAR * usual
        ]
        parts = [part.tolist() for part in np.split(ordered, cut) if part.size >= few] or [ordered.tolist()]
        assert [part.tolist() for part in _parts(ordered, few)] == parts
        several += len(parts) > 1
    assert several > 20


@pytest.mark.parametrize("method", ["lower", "higher", "linear"])
@pytest.mark.parametrize("draws", [1, 2, 400, 8_001])
def test_quantiles_of_what_is_in_order(method, draws):
    random = np.random.default_rng(draws)
    ordered = np.sort(random.standard_cauchy((20, draws)).round(random.integers(0, 9)))
    for share in (0.0, 0.025, 0.49, 0.5, 1 - 0.025, 1.0, *random.random(20)):
        found = quantile_of_ordered(ordered, share, method)
        assert (found == np.quantile(ordered, share, axis=1, method=method)).all()
