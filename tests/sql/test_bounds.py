"""Bounds that are found: near what the data holds, hardly ever picked from noise, and else not found."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from noise_laws import gaussian_mass
from private_selects import aggregate, fixed_noise, plan, select

from dpnotebook.privacy.accountant import UNITS, accountant_for
from dpnotebook.privacy.budget import Budget
from dpnotebook.privacy.laws import draw_integers
from dpnotebook.privacy.noise import laplace_mass
from dpnotebook.sql.aggregates.bounds import (
    LEAST,
    MOST,
    NEAR,
    PARTS_OF_UNIT,
    RUNS,
    SURE,
    _level,
    _log_tail,
    _near,
    find_bounds,
    found,
    histogram_scale,
    magnitude_edges,
    reached,
    units_found,
)
from dpnotebook.sql.aggregates.budget_split import Shares, found_with, shares
from dpnotebook.sql.aggregates.building import measuring

GAUSSIAN = accountant_for(Budget(1.0, 1e-6))
LAPLACE = accountant_for(Budget(1.0, 1e-6, noise="laplace"))
BINS = magnitude_edges().size - 1


def histogram(values):
    """Return how many values are in every bin; what is beyond belongs to the ends."""
    edges = magnitude_edges()
    place = np.searchsorted(edges, np.asarray(values, dtype=float), side="right") - 1
    return np.bincount(place.clip(0, BINS - 1), minlength=BINS)


def silent(noise, scale, size):
    return np.zeros(size, dtype=np.int64)


def bounds_of(chosen, values, units, accountant, draw=draw_integers):
    """Return the bounds of the first aggregate."""
    share = Shares((1,), (units,), measured_by=(0,))
    return find_bounds(chosen, share, accountant, lambda one: histogram(values), draw)[0]


@pytest.mark.parametrize("accountant", [GAUSSIAN, LAPLACE], ids=["gaussian", "laplace"])
def test_units_that_are_counted_in_parts_have_as_much_noise(accountant):
    """The noise hides as many parts as a unit has, and the same bounds are found of units and of their parts."""
    chosen, units = select(aggregate("sum", bounds=None)), accountant.units(0.5)
    scales, values = [], np.full(5_000, 3.0)

    def draw(noise, scale, size):
        scales.append(scale)
        return np.zeros(size, dtype=np.int64)

    both = [
        find_bounds(
            chosen,
            Shares((1,), (units,), measured_by=(0,)),
            accountant,
            lambda one, p=parts: histogram(values) * p,
            draw,
            parts=parts,
        )
        for parts in (1, PARTS_OF_UNIT)
    ]
    assert both[0] == both[1] == {0: (0, 4)}
    assert scales == [histogram_scale(accountant, units), histogram_scale(accountant, units) * PARTS_OF_UNIT]


def test_edges_are_signed_powers_of_two_around_zero():
    edges = magnitude_edges()
    assert np.all(np.diff(edges) > 0)
    assert np.array_equal(edges, -edges[::-1])
    assert edges[0] == -(2.0**MOST)
    assert 2.0**LEAST in edges
    assert histogram([0.0])[(BINS - 1) // 2] == 1


@pytest.mark.parametrize(
    ("values", "integer", "around_zero", "bounds"),
    [
        ([3.0, 5.0, 9.0], False, False, (2, 16)),
        ([3.0, 5.0, 9.0], False, True, (0, 16)),
        ([-3.0, 5.0], False, False, (-4, 8)),
        ([-3.0, -5.0], False, False, (-8, -2)),
        ([-3.0, -5.0], False, True, (-8, 0)),
        ([1, 1, 2, 3], True, True, (0, 3)),
        ([1], True, True, (0, 1)),
        ([0, 0], True, True, (0, 1)),
        ([0.0], False, False, (0, 1)),
        ([0, 6], True, False, (0, 7)),
        ([-1, 4], True, False, (-1, 7)),
        ([0.3], False, False, (Fraction(1, 4), Fraction(1, 2))),
        ([math.inf], False, False, (2**62, 2**63)),
    ],
)
def test_bounds_hold_the_data_without_noise(values, integer, around_zero, bounds):
    counts = histogram(values * 1000)
    lower, upper = found(counts, Fraction(1), "gaussian", integer, around_zero, zeros=True)
    assert (lower, upper) == bounds


@settings(deadline=None, max_examples=200)
@given(
    st.lists(st.floats(allow_nan=False), max_size=30),
    st.integers(1, 1000),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["gaussian", "laplace"]),
    st.fractions(Fraction(1, 1000), 1000),
)
def test_bounds_are_proper_or_not_found(values, times, integer, around_zero, noise, scale):
    noisy = histogram(values) * times + draw_integers(noise, scale, BINS)
    bounds = found(noisy, scale, noise, integer, around_zero, zeros=True)
    if bounds is None:
        assert times * len(values) < 500 * scale
        return
    lower, upper = bounds
    assert math.isfinite(lower)
    assert math.isfinite(upper)
    assert lower < upper
    assert not integer or lower.denominator == upper.denominator == 1
    assert not around_zero or lower <= 0 <= upper


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_an_empty_bin_passes_the_level_as_seldom_as_is_said(noise):
    mass = gaussian_mass if noise == "gaussian" else laplace_mass
    for scale in (Fraction(1), Fraction(30)):
        for chance in (1e-9, 1e-6, 1e-3, 1e-1):
            level = reached(noise, scale, chance / BINS)
            beyond = mass(np.arange(level, level + 3000), scale).sum()
            assert beyond <= chance / BINS * (1 + 1e-9)
            assert mass(np.arange(level - 1, level + 3000), scale).sum() > chance / BINS


@pytest.mark.parametrize("accountant", [GAUSSIAN, LAPLACE], ids=["gaussian", "laplace"])
def test_bounds_of_skewed_data_are_near_its_ends(accountant):
    """Of 50,000 units: the bound is passed by a few at most, and is not far above the largest of the rest.

    Noise adds bins up to twice as far out once in a thousand times, and once in 8,000 for each further doubling.
    """
    values = np.random.default_rng(5).lognormal(3, 1.0, 50_000)
    chosen = select(aggregate("sum"))
    units = accountant.units(0.5)
    found = [bounds_of(chosen, values, units, accountant) for _ in range(50)]
    assert np.mean([lower == 0 for lower, _ in found]) > 0.9
    assert np.mean([-lower > upper for lower, upper in found]) < 0.1
    for lower, upper in found:
        assert -lower <= 4 * upper
        left_out = np.sum(values > float(upper))
        level = _level(accountant.noise, histogram_scale(accountant, units), 1)
        assert left_out <= level
        assert upper <= 4 * values.max()


def test_an_average_of_whole_numbers_is_none_and_counts_are_not_negative():
    units = 100 * UNITS
    average = select(aggregate("average", integer=True))
    assert bounds_of(average, [2.5, 3.5] * 500, units, LAPLACE, silent) == (2, 4)
    count = select(aggregate("count"))
    assert bounds_of(count, [3.0] * 500, units, LAPLACE, silent) == (0, 3)


def test_aggregates_of_the_same_rows_are_bounded_from_one_histogram():
    drawn = []

    def draw(noise, scale, size):
        drawn.append(scale)
        return np.zeros(size, dtype=np.int64)

    kinds = ("sum", "quantiles", "average", "variance", "quantiles")
    asked = [aggregate(kind, integer=True, fractions=(0.5,), name=f"a{i}") for i, kind in enumerate(kinds)]
    for kind, first, auto in (
        ("rows", {0: 0, 1: 0, 2: 0, 3: 0, 4: 0}, (500, 0, 0, 0, 0)),
        ("groups", {0: 0, 1: 1, 2: 2, 3: 1, 4: 1}, (100, 300, 100, 0, 0)),
    ):
        drawn.clear()
        chosen = select(*asked, kind=kind, selection="all")
        assert {i: found_with(chosen, i) for i in range(5)} == first
        share = shares(chosen, 1000, LAPLACE)
        assert share.auto == auto
        assert share.total == 1000
        asked_for = []
        bounds = find_bounds(
            chosen, share, LAPLACE, lambda one, asked=asked_for: asked.append(one.name) or histogram([3]) * 10**12, draw
        )
        assert asked_for == [f"a{i}" for i in sorted(set(first.values()))]
        assert drawn == [LAPLACE.scale(cost, 1) for cost in auto if cost]
        assert bounds == {0: (0, 3), 1: (2, 3), 2: (2, 4), 3: (2, 3), 4: (2, 3)}


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(2), Fraction(25)])
@pytest.mark.parametrize("width", RUNS)
def test_a_run_of_empty_bins_passes_its_level_as_seldom_as_is_said(noise, scale, width):
    """The exact law of the sum, by convolving the law of one value; all runs of all widths share the chance."""
    mass = gaussian_mass if noise == "gaussian" else laplace_mass
    reach = math.ceil(60 * scale) + 20
    one = law = mass(np.arange(-reach, reach + 1), scale)
    for _ in range(width - 1):
        law = np.convolve(law, one)
    upper = law[::-1].cumsum()[::-1]  # P(sum >= k - width * reach)
    level = _level(noise, scale, width)
    assert upper[level + width * reach] <= SURE / 3 / (BINS - width + 1)
    for least in range(1, level + 1):
        assert math.log(upper[least + width * reach]) <= _log_tail(noise, scale, least, width) + 1e-9


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_the_further_a_bin_the_less_noise_lets_it_in(noise):
    """Noise widens bounds 2^j times with a chance of at most 0.8% of 8^-j: its squared error stays small."""
    scale, middle = Fraction(8), BINS // 2
    core = np.zeros(BINS, dtype=bool)
    core[middle + 50] = True  # 2^9 to 2^10
    levels = _near(core, scale, noise)
    harmless = np.abs(np.arange(BINS) - middle) <= 50
    assert np.isclose(levels[harmless].max(), levels[harmless].min())
    chances = np.exp([_log_tail(noise, scale, int(level), 1) for level in levels])
    assert chances[harmless].sum() <= NEAR
    doublings = np.abs(np.arange(BINS) - middle) - 50
    for j in (1, 2, 3, 7):
        assert chances[doublings == j].sum() <= NEAR / 8 ** (j - 1)
    assert chances[doublings > 7].sum() <= SURE
    assert np.sum(chances[doublings > 0] * 4.0 ** doublings[doublings > 0].clip(max=7)) < 10 * NEAR


def incomes(rng, n):
    return rng.lognormal(10.5, 0.6, n)


def ages(rng, n):
    return rng.integers(18, 95, n).astype(float)


def cents(rng, n):
    return np.round(rng.lognormal(3, 1.2, n), 2)


def heavy(rng, n):
    return rng.pareto(1.3, n) * 100


def signed(rng, n):
    return rng.normal(0, 500, n)


def zeros(rng, n):
    return np.zeros(n)


def constant(rng, n):
    return np.full(n, 7.0)


def mostly_zeros(rng, n):
    return np.where(rng.random(n) < 0.7, 0.0, rng.lognormal(6, 0.5, n))


SHAPES = (incomes, ages, cents, heavy, signed, zeros, constant, mostly_zeros)


def many_bounds(shape, size, noise, scale, runs, rng):
    """Yield values and what is found for them."""
    drawn = fixed_noise()(noise, scale, BINS * runs).reshape(runs, BINS)
    for noisy in drawn:
        values = shape(rng, size)
        yield values, found(histogram(values) + noisy, scale, noise, around_zero=True)


def absurd(values, bounds):
    """Whether bounds are more than 16 times what any value is."""
    return bounds is not None and max(-bounds[0], bounds[1]) > 16 * max(np.abs(values).max(initial=0.0), 1.0)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("budget", [Budget(10.0), Budget(10.0, 1e-6)], ids=["pure", "gaussian"])
def test_bounds_are_hardly_ever_absurd(budget, epsilon):
    """Of 480 histograms each; before, one in five was, of tables with 25 people at epsilon 1."""
    accountant, rng = accountant_for(budget), np.random.default_rng(11)
    scale = histogram_scale(accountant, accountant.units(epsilon) // 2)
    runs, wild = 12, 0
    for shape in SHAPES:
        for size in (1, 5, 25, 100, 1000):
            wild += sum(absurd(*one) for one in many_bounds(shape, size, accountant.noise, scale, runs, rng))
    # Above 16 times the largest value noise takes them with a chance of 0.1% / 8^3, wherever they are found at all.
    assert wild <= 1


@pytest.mark.slow
@pytest.mark.parametrize("budget", [Budget(10.0), Budget(10.0, 1e-6)], ids=["pure", "gaussian"])
def test_an_empty_table_has_no_bounds_in_a_hundred_thousand_runs(budget):
    accountant = accountant_for(budget)
    for epsilon in (0.1, 1.0):
        scale = histogram_scale(accountant, accountant.units(epsilon) // 2)
        for _ in range(50):
            noisy = draw_integers(accountant.noise, scale, BINS * 1000).reshape(-1, BINS)
            for counts in noisy[noisy.max(axis=1) >= _level(accountant.noise, scale, 1) / 3]:
                assert found(counts, scale, accountant.noise) is None


@pytest.mark.parametrize("budget", [Budget(10.0), Budget(10.0, 1e-6)], ids=["pure", "gaussian"])
def test_as_many_people_as_are_said_suffice(budget):
    accountant, rng = accountant_for(budget), np.random.default_rng(12)
    scale = histogram_scale(accountant, accountant.units(1.0) // 2)
    enough = units_found(accountant.noise, scale)
    some = [bounds for _, bounds in many_bounds(constant, enough, accountant.noise, scale, 120, rng)]
    assert np.mean([bounds is not None for bounds in some]) > 0.88
    assert np.mean([bounds == (0, 8) for bounds in some]) > 0.83
    several = [bounds for _, bounds in many_bounds(incomes, 2 * enough, accountant.noise, scale, 120, rng)]
    assert np.mean([bounds is not None for bounds in several]) > 0.93
    few = [bounds for _, bounds in many_bounds(constant, enough // 3, accountant.noise, scale, 120, rng)]
    assert np.mean([bounds is None for bounds in few]) > 0.93


def sum_errors(shape, size, budget, epsilon, literal, runs, rng):
    """Return how often bounds are found, and the RMSE then and with literal bounds, as shares of that of no answer."""
    accountant = accountant_for(budget)
    units = accountant.units(epsilon)
    auto = select(aggregate("sum"), selection="all")
    share = shares(auto, units, accountant)
    scale = histogram_scale(accountant, share.auto[0])
    mine, theirs, zero = [], [], []
    good = plan(select(aggregate("sum", *literal), selection="all"), accountant, units)
    draw = fixed_noise()
    for values, bounds in many_bounds(shape, size, accountant.noise, scale, runs, rng):
        exact = values.sum()
        zero.append(exact**2)
        theirs.append(_squared(good, literal, values, exact, draw))
        if bounds is not None:
            measured = measuring(auto, share, accountant, found={0: bounds})
            mine.append(_squared(measured, bounds, values, exact, draw))
    whole = math.sqrt(np.mean(zero))
    share_found = len(mine) / runs
    return share_found, math.sqrt(np.mean(mine or [0])) / whole, math.sqrt(np.mean(theirs)) / whole


def _squared(measured, bounds, values, exact, draw):
    clipped = np.clip(values, float(bounds[0]), float(bounds[1])).sum()
    noise = draw(measured.noise, measured.blocks[0].scale, 1)[0] * float(measured.parts[0].step)
    return (clipped + noise - exact) ** 2


@pytest.mark.one_in(8)
@pytest.mark.parametrize(
    ("shape", "literal"), [(incomes, (0, 200_000)), (ages, (0, 100)), (cents, (0, 500)), (constant, (0, 10))]
)
@pytest.mark.parametrize("budget", [Budget(10.0), Budget(10.0, 1e-6)], ids=["pure", "gaussian"])
def test_where_bounds_are_found_the_answer_is_worth_having(shape, literal, budget):
    """Half the cost goes into finding them: within four times the error of good bounds, and better than no answer."""
    rng = np.random.default_rng(13)
    for size, epsilon in ((25, 1.0), (100, 1.0), (1000, 0.5), (1000, 2.0)):
        share_found, mine, theirs = sum_errors(shape, size, budget, epsilon, literal, 60, rng)
        if share_found > 0.5:
            assert mine < max(4 * theirs, 0.05), (size, epsilon)
            assert mine < 1
        elif share_found == 0:
            assert size < 1000 or epsilon < 1


def test_a_noisy_histogram_always_says_the_same():
    noisy = histogram([3.0, 5.0, 9.0] * 200) + draw_integers("laplace", Fraction(4), BINS)
    assert found(noisy, Fraction(4), "laplace") == found(noisy.copy(), Fraction(4), "laplace")
