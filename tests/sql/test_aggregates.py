"""Answers of private aggregates: right without noise, and with noise as far off as they say."""

import ast
import itertools
import json
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from noise_laws import gaussian_mass
from private_selects import aggregate, fixed_noise, plan, select, totals
from scipy.stats import lognorm

from dpnotebook.errors import AccuracyError, SQLError
from dpnotebook.privacy.accountant import UNITS, accountant_for
from dpnotebook.privacy.budget import Budget
from dpnotebook.privacy.laws import draw_integers, law_of
from dpnotebook.privacy.noise import laplace_mass
from dpnotebook.sql import aggregates
from dpnotebook.sql.aggregates import crossings, quantile_tries, quantiles
from dpnotebook.sql.aggregates.budget_split import HIDDEN_L2, shares
from dpnotebook.sql.aggregates.catalogue import AGGREGATES, NAMES
from dpnotebook.sql.aggregates.estimating import estimate
from dpnotebook.sql.aggregates.expected import expected, groups_need, steps, unit, warnings
from dpnotebook.sql.aggregates.function import KnownGroups
from dpnotebook.sql.aggregates.measuring import Measuring
from dpnotebook.sql.aggregates.noising import exact, noisy, released
from dpnotebook.sql.aggregates.quantiles import BINS, bins
from dpnotebook.sql.aggregates.ratios import fieller
from dpnotebook.sql.bounded_sums import Totals

GAUSSIAN = accountant_for(Budget(1.0, 1e-6))
LAPLACE = accountant_for(Budget(1.0, 1e-6, noise="laplace"))
BOTH = pytest.mark.parametrize("accountant", [GAUSSIAN, LAPLACE], ids=["gaussian", "laplace"])
KINDS = pytest.mark.parametrize("kind", ["groups", "rows"])
DRAWS = 4_000


def silent(noise, scale, size):
    return np.zeros(size, dtype=np.int64)


def repeated(measured, unit, times):
    """Return what an engine would find of many groups that are all alike."""
    found = totals(measured, unit)
    assert len(found.keys) == 1
    return Totals(tuple((i,) for i in range(times)), np.repeat(found.numbers, times, axis=0))


def spread(accountant, low, high, middle, deviation, rows, seed=1):
    values = np.random.default_rng(seed).normal(middle, deviation, rows).clip(low, high)
    return values, [{"a": [value]} for value in values]


@BOTH
@KINDS
def test_without_noise_answers_are_the_statistics_of_the_clamped_values(accountant, kind):
    rng = np.random.default_rng(3)
    rows = [rng.normal(40, 30, rng.integers(1, 4)).round(3) for _ in range(200)]
    asked = [
        aggregate("count", 0, 2),
        aggregate("units"),
        aggregate("sum", -50, 120),
        aggregate("average", 0, 90),
        aggregate("variance", 0, 90),
        aggregate("deviation", 0, 90),
        aggregate("variance", 0, 90, population=False, name="sample"),
    ]
    measured = plan(select(*asked, kind=kind, most=3, selection="all"), accountant, 50 * UNITS)
    found = totals(measured, [{"a": values} for values in rows])
    count, units, total, average, variance, deviation, sample = (
        float(answer.value[0]) for answer in estimate(measured, exact(measured, found), 0.95)
    )
    every = np.concatenate(rows)
    clamped = every.clip(0, 90)
    assert units == 200
    if kind == "groups":
        assert count == sum(min(len(values), 2) for values in rows)
        assert total == pytest.approx(sum(np.clip(values.sum(), -50, 120) for values in rows), abs=1e-3)
        assert average == pytest.approx(np.mean([np.clip(values.mean(), 0, 90) for values in rows]), abs=1e-5)
    else:
        assert count == len(every)
        assert total == pytest.approx(every.clip(-50, 120).sum(), abs=1e-3)
        assert average == pytest.approx(clamped.mean(), abs=1e-5)
    assert variance == pytest.approx(clamped.var(), abs=1e-4)
    assert deviation == pytest.approx(clamped.std(), abs=1e-4)
    assert sample == pytest.approx(clamped.var(ddof=1), abs=1e-4)


@BOTH
@pytest.mark.parametrize("value", [99.997, 50.0, 3.3])
def test_values_that_are_all_alike_have_no_variance(accountant, value):
    """Values are rounded finely enough, and squares are those of the values."""
    measured = plan(select(aggregate("variance", 0, 100), selection="all"), accountant)
    found = totals(measured, [{"a": [value]}] * 3000)
    answer = estimate(measured, exact(measured, found), 0.95)[0]
    assert 0 <= answer.value[0] < 1e-3


def test_whole_numbers_stay_whole():
    for asked in (aggregate("sum", -3, 9, integer=True), aggregate("count", 0, 4), aggregate("units")):
        measured = plan(select(asked), GAUSSIAN)
        assert measured.components[0].step == 1
        values = np.arange(-5, 6)[:, None] * np.ones(measured.measured, dtype=np.int64)
        answers = estimate(measured, values, 0.9)[0]
        assert np.array_equal(answers.value, np.arange(-5, 6))
        assert np.array_equal(answers.upper % 1, np.zeros(11))


@BOTH
def test_counts_and_sums_err_as_they_say(accountant):
    asked = (aggregate("count", 0, 3), aggregate("units"), aggregate("sum", 0, Fraction(5, 2)))
    measured = plan(select(*asked), accountant, 3 * UNITS)
    found = repeated(measured, [{"a": [1.0]}] * 30, 60_000)
    drawn = noisy(measured, found, fixed_noise())
    for confidence in (0.5, 0.9, 0.99):
        for answer in estimate(measured, drawn, confidence):
            truth = 30.0
            assert answer.value.std() == pytest.approx(answer.std_error[0], rel=0.02)
            covered = np.mean((answer.lower <= truth) & (truth <= answer.upper))
            assert covered > confidence - 5 * math.sqrt(confidence * (1 - confidence) / 60_000)
    for answer, said in zip(estimate(measured, drawn, 0.9), expected(measured, 0.9), strict=True):
        assert said.std_error == answer.std_error[0]
        assert said.half_width == pytest.approx(answer.upper[0] - answer.value[0], rel=1e-12)


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_half_widths_of_whole_noise_are_the_least_that_cover(noise):
    mass = gaussian_mass if noise == "gaussian" else laplace_mass
    for scale in (Fraction(1, 5), Fraction(1, 2), Fraction(3), Fraction(17, 2), Fraction(300)):
        for confidence in (0.5, 0.9, 0.95, 0.999):
            width = law_of(noise).half_width(scale, confidence)
            assert mass(np.arange(-width, width + 1), scale).sum() >= confidence - 1e-12
            if width:
                assert mass(np.arange(1 - width, width), scale).sum() < confidence


@pytest.mark.one_in(16)
@BOTH
@KINDS
@pytest.mark.parametrize("rows", [5, 80, 2500])
@pytest.mark.parametrize(("middle", "deviation"), [(45, 10), (1, 0.5)])
def test_means_and_variances_err_as_they_say_in_groups_of_any_size(accountant, kind, rows, middle, deviation):
    values, units = spread(accountant, 0, 100, middle, deviation, rows)
    asked = (aggregate("average", 0, 100), aggregate("variance", 0, 100), aggregate("deviation", 0, 100))
    measured = plan(select(*asked, kind=kind, most=2, selection="all"), accountant, accountant.units(3.0))
    answers = estimate(measured, noisy(measured, repeated(measured, units, DRAWS), fixed_noise()), 0.9)
    for answer, truth, tolerance in zip(
        answers, (values.mean(), values.var(), values.std()), (0, 0.1, 0.1), strict=True
    ):
        assert np.all((answer.lower <= answer.value + 1e-9) & (answer.value <= answer.upper + 1e-9))
        covered = np.mean((answer.lower - tolerance <= truth) & (truth <= answer.upper + tolerance))
        assert covered > 0.9 - 4.5 * math.sqrt(0.09 / DRAWS)
    if rows == 2500:  # noise is small beside what it divides, and beside the way to the bounds
        mean = answers[0]
        assert math.sqrt(np.mean(mean.std_error**2)) == pytest.approx(mean.value.std(), rel=0.08)
        assert abs(mean.value.mean() - values.mean()) < 5 * mean.value.std() / math.sqrt(DRAWS)


@pytest.mark.one_in(3, first=1)
@BOTH
def test_standard_errors_of_large_groups_are_those_of_the_noise(accountant):
    values, units = spread(accountant, 0, 100, 62, 20, 3000)
    many = 60_000
    asked = (aggregate("average", 0, 100), aggregate("variance", 0, 100), aggregate("deviation", 0, 100))
    measured = plan(select(*asked, selection="all"), accountant, accountant.units(20.0))
    answers = estimate(measured, noisy(measured, repeated(measured, units, many), fixed_noise()), 0.95)
    for answer, truth in zip(answers, (values.mean(), values.var(), values.std()), strict=True):
        assert math.sqrt(np.mean(answer.std_error**2)) == pytest.approx(answer.value.std(), rel=0.02)
        assert np.mean((answer.lower <= truth) & (truth <= answer.upper)) == pytest.approx(0.95, abs=0.02)


@BOTH
def test_a_mean_from_two_sums_of_equal_sensitivity_beats_the_even_split(accountant):
    """Li et al. share epsilon evenly between a centred sum and a count: their error at the same cost is larger."""
    measured = plan(select(aggregate("average", 0, 100), selection="all"), accountant, UNITS)
    for rows, middle in ((2000, 50), (2000, 75)):
        values, units = spread(accountant, 0, 100, middle, 3, rows)
        error = estimate(measured, noisy(measured, repeated(measured, units, 40_000), fixed_noise()), 0.95)[
            0
        ].value.std()
        away = abs(values.mean() - 50)
        if accountant is LAPLACE:
            even = math.sqrt(2) * math.hypot(50 / 0.5, away / 0.5) / rows
            assert error < 0.75 * even
        else:
            even = math.hypot(50, away) / math.sqrt(0.5) / rows
            assert error < 0.985 * even


@pytest.mark.one_in(20)
@BOTH
@pytest.mark.parametrize("middle", [45, 1, 99])
def test_quantiles_cover_and_are_near(accountant, middle):
    fractions = (0.0, 0.1, 0.5, 0.9, 1.0)
    for rows in (30, 3000):
        values, units = spread(accountant, 0, 100, middle, 0.5 if middle != 45 else 10, rows)
        asked = aggregate("quantiles", 0, 100, fractions=fractions, array=True)
        measured = plan(select(asked, selection="all"), accountant, accountant.units(2.0))
        answer = estimate(measured, noisy(measured, repeated(measured, units, 600), fixed_noise()), 0.9)[0]
        assert answer.value.shape == (600, 5)
        truth = np.quantile(values, fractions, method="inverted_cdf")
        covered = np.mean((answer.lower <= truth + 1e-9) & (truth <= answer.upper + 1e-9), axis=0)
        assert np.all(covered > 0.9 - 4.5 * math.sqrt(0.09 / 600))
        if rows == 3000:
            said = expected(measured, 0.9)[0]
            inner = np.sort(values)
            for i in (1, 2, 3):
                ranks = np.searchsorted(inner, answer.value[:, i]) - fractions[i] * rows
                assert math.sqrt(np.mean(ranks**2)) < 1.5 * said.std_error


@pytest.mark.one_in(2)
@BOTH
def test_quantiles_are_as_far_off_as_their_standard_errors_say(accountant):
    fractions, rows = (0.1, 0.5, 0.9), 3000
    values, units = spread(accountant, 0, 100, 45, 10, rows)
    asked = aggregate("quantiles", 0, 100, fractions=fractions, array=True)
    measured = plan(select(asked, selection="all"), accountant, accountant.units(2.0))
    answer = estimate(measured, noisy(measured, repeated(measured, units, 600), fixed_noise()), 0.9)[0]
    off = np.sqrt(np.mean((answer.value - np.quantile(values, fractions)) ** 2, axis=0))
    said = np.sqrt(np.mean(answer.std_error**2, axis=0))
    assert ((off / 2 < said) & (said < off * 2)).all()
    whole = aggregate("quantiles", 0, 100, fractions=fractions, array=True, integer=True)
    measured = plan(select(whole, selection="all"), accountant, accountant.units(2.0))
    answer = estimate(measured, noisy(measured, repeated(measured, units, 600), fixed_noise()), 0.9)[0]
    assert (answer.std_error > 0).all()


@pytest.mark.one_in(2)
@BOTH
def test_the_least_is_not_above_the_median_and_what_noise_hides_is_not_answered(accountant):
    asked = [aggregate("quantiles", 0, 100, fractions=(fraction,), name=f"q{fraction}") for fraction in (0.5, 0.0, 1.0)]
    measured = plan(select(*asked, selection="all"), accountant, accountant.units(0.5))
    assert len({part.blocks for part in measured.parts}) == 1
    for rows in (3, 90, 300, 2000):
        _, units = spread(accountant, 0, 100, 45, 20, rows)
        middle, least, greatest = estimate(
            measured, noisy(measured, repeated(measured, units, 300), fixed_noise()), 0.9
        )
        known = ~np.isnan(middle.value)
        assert known.all() if rows == 2000 else known.mean() < 0.9 if rows <= 90 else True
        for part in (least, middle, greatest):
            assert np.array_equal(np.isnan(part.value), np.isnan(part.std_error))
            assert not np.isnan(part.lower).any()
            assert (part.lower <= part.upper).all()
            assert not ((part.value < part.lower) | (part.value > part.upper)).any()
        for name in ("value", "lower", "upper"):
            low, mid, high = (getattr(part, name) for part in (least, middle, greatest))
            for one, other in ((low, mid), (mid, high), (low, high)):
                assert not (one > other).any()


def test_quantiles_without_noise_are_exact_to_a_bin():
    rng = np.random.default_rng(0)
    values = rng.gamma(2, 10, 5000).clip(0, 100)
    fractions = (0.01, 0.25, 0.5, 0.75, 0.99)
    measured = plan(
        select(aggregate("quantiles", 0, 100, fractions=fractions, array=True), kind="rows", selection="all"),
        GAUSSIAN,
        10**9 * UNITS,
    )
    answer = estimate(measured, exact(measured, totals(measured, [{"a": values}])), 0.95)[0]
    assert answer.value[0] == pytest.approx(np.quantile(values, fractions), abs=100 / BINS)


def test_whole_quantiles_are_whole():
    measured = plan(
        select(aggregate("quantiles", 0, 9, fractions=(0.5,), integer=True), kind="rows", selection="all"),
        GAUSSIAN,
        UNITS,
    )
    part = measured.parts[0]
    assert part.points
    assert part.edges == tuple(range(11))
    found = totals(measured, [{"a": [3, 3, 4, 7, 7, 7, 9]}])
    assert estimate(measured, exact(measured, found), 0.95)[0].value.tolist() == [7.0]
    drawn = estimate(measured, noisy(measured, repeated(measured, [{"a": [3, 7, 9] * 5}], 200), fixed_noise()), 0.95)[0]
    assert np.all(drawn.value % 1 == 0)


def test_quantiles_of_the_same_values_share_one_measurement():
    both = (aggregate("quantiles", 0, 100, fractions=(0.0,)), aggregate("quantiles", 0, 100, fractions=(0.9,)))
    measured = plan(select(*both, selection="all"), GAUSSIAN, UNITS)
    alone = plan(select(both[0], selection="all"), GAUSSIAN, UNITS)
    assert measured.blocks == alone.blocks
    other = replace(both[1], bounds=(Fraction(0), Fraction(50)))
    assert len(plan(select(both[0], other, selection="all"), GAUSSIAN, UNITS).blocks) == 2


def test_bins_of_whole_numbers_declared_levels_and_ranges():
    assert bins((Fraction(0), Fraction(3)), True, None) == ((0.0, 1.0, 2.0, 3.0, 4.0), True)
    assert bins((Fraction(1, 2), Fraction(7, 2)), True, None) == ((1.0, 2.0, 3.0, 4.0), True)
    assert bins((Fraction(0), Fraction(10)), False, (-5.0, 0.0, 2.5, 5.0, 10.0, 20.0)) == ((0.0, 2.5, 5.0, 10.0), False)
    for bounds in ((0, 1), (-(10**300), 10**300), (Fraction(1), Fraction(1) + Fraction(1, 2**52)), (5, 5)):
        edges, points = bins((Fraction(bounds[0]), Fraction(bounds[1])), False, None)
        assert not points
        assert all(a < b for a, b in itertools.pairwise(edges))
        assert 1 <= len(edges) - 1 <= BINS
    edges, points = bins((Fraction(0), Fraction(10**6)), True, None)
    assert len(edges) - 1 == BINS
    assert not points


def test_fieller_is_all_where_the_number_may_be_zero():
    covariance = np.eye(2)
    lower, upper = fieller(np.array([0.5, 50.0]), np.array([1.0, 100.0]), covariance, 1.96, -1.0, 1.0)
    assert (lower[0], upper[0]) == (-1.0, 1.0)
    assert lower[1] < 0.5 < upper[1]
    assert upper[1] - lower[1] == pytest.approx(2 * 1.96 * math.hypot(1, 0.5) / 100, rel=0.01)


@BOTH
def test_groups_with_next_to_nobody_answer_something_between_the_bounds(accountant):
    asked = (
        aggregate("average", 10, 20),
        aggregate("variance", 10, 20, population=False),
        aggregate("deviation", 10, 20),
        aggregate("quantiles", 10, 20, fractions=(0.5,)),
    )
    measured = plan(select(*asked, selection="all"), accountant, UNITS // 100)
    nobody = Totals(tuple((i,) for i in range(300)), np.zeros((300, measured.width), dtype=np.int64))
    average, variance, deviation, median = estimate(measured, noisy(measured, nobody, fixed_noise()), 0.95)
    assert np.isnan(median.value).all()
    for answer, low, high in ((average, 10, 20), (variance, 0, 50), (deviation, 0, 7.08), (median, 10, 20)):
        shown = (answer.value, answer.std_error) if answer is not median else ()
        for values in (answer.lower, answer.upper, *shown):
            assert np.all(np.isfinite(values))
        for values in (answer.lower, answer.upper, *shown[:1]):
            assert np.all((values >= low - 1e-9) & (values <= high + 1e-9))
    assert np.mean(average.upper - average.lower) > 8


def test_no_groups_give_no_answers():
    asked = [aggregate("count", 0, 2), aggregate("average", 0, 1), aggregate("variance", 0, 1)]
    asked.append(aggregate("quantiles", 0, 1, fractions=(0.5,)))
    measured = plan(select(*asked), GAUSSIAN)
    empty = Totals((), np.zeros((0, measured.width), dtype=np.int64))
    drawn = noisy(measured, empty)
    assert drawn.shape == (0, measured.measured)
    assert released(measured, empty, drawn).shape == (0,)
    assert [answer.value.shape for answer in estimate(measured, drawn, 0.95)] == [(0,)] * 4


@BOTH
@KINDS
def test_what_is_measured_survives_json(accountant, kind):
    asked = [aggregate(name, 0, Fraction(1, 3)) for name in ("sum", "average", "variance", "deviation")]
    asked += [aggregate("units"), aggregate("quantiles", 0, 1, fractions=(0.1, 0.2), array=True)]
    asked += [aggregate("sum", name="found")]
    measured = plan(select(*asked, kind=kind, most=2, min_units=4), accountant, UNITS)
    assert not measured.complete
    hidden = plan(select(*asked, kind=kind, most=2, min_units=4), accountant, UNITS, found={6: None})
    assert [part.found for part in hidden.parts] == [True] * 6 + [False]
    assert Measuring.from_json(json.loads(json.dumps(hidden.to_json()))) == hidden
    again = Measuring.from_json(json.loads(json.dumps(measured.to_json())))
    assert again == measured
    with pytest.raises(ValueError, match="bounds"):
        noisy(again, Totals((), np.zeros((0, again.width), dtype=np.int64)))


@BOTH
def test_extreme_bounds_and_costs_stay_whole_numbers(accountant):
    """Sums over 10^9 units and their noise fit 64-bit integers, and are fine beside the noise."""
    for kind, cost in itertools.product(["average", "variance", "sum"], [10**3, 10**6, 10**12, 10**18]):
        for bounds in ((0, Fraction(1, 10**12)), (-(10**12), 10**15), (Fraction(1, 3), Fraction(2, 3)), (7, 7)):
            try:
                measured = plan(select(aggregate(kind, *bounds), most=20, selection="all"), accountant, cost)
                for block in measured.blocks:
                    measured.law.half_width(block.scale, 0.95)
            except AccuracyError:
                assert cost <= 10**6
                continue
            for block in measured.blocks:
                largest = sum(
                    max(abs(row[i]) for row in block.combine) * measured.components[column].largest
                    for i, column in enumerate(block.columns)
                )
                assert largest * 10**9 + 50 * block.scale < 2**63
            if cost <= 10**12:
                centred = [block for block in measured.blocks if measured.parts[0].step != 1 or bounds == (7, 7)]
                assert all(block.scale >= 2**10 or bounds == (7, 7) for block in centred)


def test_a_large_whole_sum_is_coarse():
    measured = plan(select(aggregate("sum", 0, 10**12, integer=True)), GAUSSIAN)
    assert measured.components[0].step == 2**9
    assert measured.components[0].largest == 10**12 // 2**9 <= 2**31


def test_shares_are_even_over_functions_and_the_count_of_the_threshold():
    three = select(aggregate("count", 0, 5), aggregate("sum", 0, 5), aggregate("average", 0, 5))
    given = shares(three, 1000, LAPLACE)
    assert given.main == (250, 250, 250)
    assert (given.selection, given.serving) == (250, None)
    everywhere = shares(replace(three, selection="all"), 1000, LAPLACE)
    assert everywhere.main == (333, 333, 333)
    assert everywhere.selection == 0
    for count in (aggregate("units"), aggregate("count", 0, 1)):
        serving = shares(select(aggregate("sum", 0, 5), count), 1000, LAPLACE)
        assert serving.main == (500, 500)
        assert (serving.selection, serving.serving) == (0, 1)
    # Each row is a unit of its own: COUNT(*) counts units.
    assert shares(select(aggregate("count"), kind="rows"), 1000, LAPLACE).serving == 0
    assert shares(select(aggregate("count"), kind="rows", most=2), 1000, LAPLACE).serving is None
    # Units of which only some values are counted may be in a group without being counted.
    assert shares(select(aggregate("count", 0, 1, input=0)), 1000, LAPLACE).serving is None


def test_a_functions_own_epsilon_is_its_own_and_the_rest_is_shared():
    asked = (aggregate("count", 0, 5, epsilon=Fraction(1, 2)), aggregate("sum", 0, 5))
    given = shares(select(*asked), LAPLACE.units(1), LAPLACE)
    assert given.main == (UNITS // 2, UNITS // 4)
    assert given.selection == UNITS // 4
    fixed = shares(select(*asked, selection_epsilon=Fraction(1, 10)), LAPLACE.units(1), LAPLACE)
    assert fixed.main == (UNITS // 2, 4 * UNITS // 10)
    assert fixed.selection == UNITS // 10
    gaussian = shares(select(*asked), GAUSSIAN.units(1), GAUSSIAN)
    assert gaussian.main[0] == GAUSSIAN.units(Fraction(1, 2))
    assert gaussian.total <= GAUSSIAN.units(1) < gaussian.total + 3


@BOTH
def test_own_epsilons_must_not_pass_the_whole_nor_leave_nothing(accountant):
    asked = (aggregate("count", 0, 5, epsilon=Fraction(9, 10)), aggregate("sum", 0, 5, epsilon=Fraction(4, 5)))
    with pytest.raises(SQLError, match=r"COUNT 0\.9, SUM 0\.8.* together, and the whole query has"):
        shares(select(*asked), accountant.units(1), accountant)
    alone = (aggregate("count", 0, 5, epsilon=Fraction(1)), aggregate("sum", 0, 5))
    with pytest.raises(SQLError, match="nothing is left for SUM"):
        shares(select(*alone), accountant.units(1), accountant)
    with pytest.raises(SQLError, match="count of units that decides"):
        shares(select(alone[0]), accountant.units(1), accountant)


@settings(deadline=None, max_examples=150)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["count", "units", "sum", "average", "variance", "quantiles"]),
            st.booleans(),
            st.sampled_from([None, None, Fraction(1, 100), Fraction(1, 3)]),
        ),
        min_size=1,
        max_size=7,
    ),
    st.sampled_from(["groups", "rows", "l2"]),
    st.sampled_from(["threshold", "all"]),
    st.integers(1, 2 * UNITS),
    st.booleans(),
)
def test_shares_never_pass_the_whole_and_none_is_nothing(asked, kind, selection, units, gaussian):
    accountant = GAUSSIAN if gaussian else LAPLACE
    aggregates = [
        aggregate(name, *((0, 5) if known else ()), epsilon=own, fractions=(0.5,)) for name, known, own in asked
    ]
    chosen = select(*aggregates, kind=kind, selection=selection)
    try:
        given_shares = shares(chosen, units, accountant)
    except SQLError:
        return
    assert given_shares.total <= units
    assert min(given_shares.main) > 0
    assert (given_shares.selection > 0) == (selection == "threshold" and given_shares.serving is None)
    if any(one.epsilon is None for one in aggregates):
        assert given_shares.total > units - 2 * len(asked) - 2
    for i, share in enumerate(given_shares.main):
        if aggregates[i].epsilon is not None and not given_shares.auto[i]:
            assert share <= accountant.units(aggregates[i].epsilon)


def test_least_greatest_and_middle_of_the_same_values_share_found_bounds_and_a_measurement():
    three = [aggregate("quantiles", fractions=(p,), name=f"q{p}") for p in (0.0, 0.5, 1.0)]
    chosen = select(*three, selection="all")
    bounds = dict.fromkeys(range(3), (Fraction(0), Fraction(16)))
    measured = plan(chosen, LAPLACE, UNITS, found=bounds)
    assert len(measured.blocks) == 1
    single = plan(select(aggregate("quantiles", 0, 16, fractions=(0.5,)), selection="all"), LAPLACE, UNITS // 2)
    assert measured.blocks[0].scale == pytest.approx(single.blocks[0].scale, rel=1e-9)


def test_aggregates_are_known_by_their_names_in_one_folder():
    """A new one is a file there, and its place in the catalogue."""
    folder = Path(aggregates.__file__).parent
    kinds = {one.kind for one in AGGREGATES} - {"count", "sum", "units"}  # which are words of others too
    for path in folder.parent.rglob("*.py"):
        if path.parent != folder:
            texts = {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}
            assert not texts & kinds, path
    assert len({one.kind for one in AGGREGATES}) == len(AGGREGATES)
    assert len(NAMES) == sum(len(one.spellings) for one in AGGREGATES)


def test_next_to_nothing_is_not_shared():
    with pytest.raises(SQLError, match="too small to be shared"):
        shares(select(aggregate("count", 0, 5), aggregate("variance")), 35, LAPLACE)
    given = shares(select(aggregate("count", 0, 5), aggregate("variance")), 36, LAPLACE)
    assert given.total == 36
    assert min(block.scale for block in plan(select(aggregate("variance", 0, 1)), GAUSSIAN, 24).blocks) > 0


def test_bounds_that_are_found_take_half_of_their_aggregates_share():
    given = shares(select(aggregate("sum"), aggregate("sum", 0, 1), aggregate("units")), 999, LAPLACE)
    assert given.auto == (166, 0, 0)
    assert given.main == (167, 333, 333)
    # Rows need no bounds on their number.
    assert shares(select(aggregate("count"), kind="rows", most=4), 1000, LAPLACE).auto == (0,)


def test_the_hidden_count_takes_little_where_vectors_are_clipped():
    given = shares(select(aggregate("count", 0, 9), kind="l2"), 1000, GAUSSIAN)
    assert given.selection == HIDDEN_L2 * given.main[0] == 200


def test_what_cannot_be_measured_is_refused():
    with pytest.raises(SQLError, match="variances and correlations, and QUANTILES is none"):
        plan(select(aggregate("quantiles", 0, 1, fractions=(0.5,)), kind="l2"), GAUSSIAN)
    with pytest.raises(SQLError, match="Gaussian noise"):
        plan(select(aggregate("sum", 0, 1), kind="l2"), LAPLACE)
    with pytest.raises(SQLError, match="needs a delta"):
        plan(select(aggregate("units")), LAPLACE, delta=Fraction(0))


def test_expectations_say_what_they_rest_on():
    asked = (
        aggregate("count", 0, 5),
        aggregate("average", 0, 100),
        aggregate("sum"),
        aggregate("quantiles", 0, 9, fractions=(0.5,)),
        aggregate("variance", 0, 100),
    )
    chosen = select(*asked)
    measured = plan(chosen, GAUSSIAN, UNITS)
    groups = KnownGroups.of(np.array([2_000.0]))
    count, average, total, median, variance = expected(measured, 0.95, [groups] * 5)
    assert count.note == ""
    assert "2,000" in average.note
    assert "2,000" in variance.note
    assert math.isnan(total.half_width)
    assert math.isnan(total.std_error)
    assert "bounds" in total.note
    assert "rank" in median.note
    assert average.half_width == pytest.approx(expected(measured, 0.95)[1].half_width / 2)  # of 1,000
    several = KnownGroups.of(np.array([2_000.0, 500.0, 8_000.0]), means=np.array([50.0, np.nan, 50.0]))
    known = expected(measured, 0.95, [replace(several, source="groups as release #7 has them")] * 5)[1]
    assert known.half_width == pytest.approx(4 * average.half_width)
    assert known.std_errors[0] == pytest.approx(4 * known.std_errors[2])  # in the middle of the bounds
    assert "the smallest group, of about 500 units; in the largest, of about 8,000" in known.note
    assert known.note.endswith("(groups as release #7 has them)")
    assert [unit(chosen, i, {}) for i in range(5)] == [
        "rows",
        "AVERAGE",
        "SUM",
        "values of rank",
        "square of VARIANCE's units",
    ]
    assert any("find bounds" in line for line in steps(measured))
    assert any("to be shown (95%)" in line for line in warnings(measured, 0.95))
    assert any("[0, 5]" in line for line in warnings(measured, 0.95))


@pytest.mark.one_in(2)
@BOTH
def test_a_group_that_is_said_to_be_large_enough_is_shown_as_often_as_is_said(accountant):
    measured = plan(select(aggregate("units"), most=3, min_units=5), accountant, UNITS)
    for units, least, most in ((groups_need(measured), 0.95, 1.0), (groups_need(measured) - 1, 0.0, 0.95)):
        numbers = np.full((100_001, 1), units, dtype=np.int64)
        many = Totals(tuple((i,) for i in range(len(numbers))), numbers)
        rate = released(measured, many, noisy(measured, many, draw_integers)).mean()
        assert least - 0.005 <= rate <= most + 0.005


@pytest.mark.one_in(6)
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("size", [16.0, 45.25])
def test_as_often_as_quantiles_are_tried_tells_how_far_they_are_off(noise, size, monkeypatch):
    """Beside 4,000 tries: 200 of Laplace noise, which half mirror each other, were 20% off."""
    strategy = quantiles.cumulative(BINS, noise)

    def off():
        found = quantile_tries.ranks_off.__wrapped__(strategy, 0.5, noise, size)
        return float(np.sqrt((found**2).mean()))

    told = off()
    monkeypatch.setitem(quantile_tries.TRIED, noise, 4_000)
    assert told == pytest.approx(off(), rel=0.09)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("fraction", [0.5, 0.9])
def test_where_values_are_known_to_lie_tells_how_far_quantiles_are_off(noise, fraction):
    """Lognormal values in a tenth of the bins, and such in all: against what is read off with numpy's noise."""
    strategy, ends = quantiles.cumulative(BINS, noise), np.arange(1, BINS + 1) / BINS
    weights, errors = crossings.cumulative_weights(strategy), crossings.excess_errors(strategy, fraction)
    middle, random, places = float(np.median(errors)), np.random.default_rng(4), np.arange(BINS, dtype=float)
    shape = 1_000, weights.shape[1]
    drawn = (random.laplace(0, 0.5**0.5, shape) if noise == "laplace" else random.normal(0, 1, shape)) @ weights.T
    for part in (lognorm.cdf(ends, 0.7, scale=0.05), ends):
        exact = 70 * middle * part / part[-1]
        counts = exact + drawn
        excess = crossings.rising(counts - fraction * counts[:, -1:], errors)
        found = crossings.crossed_at(excess, -fraction * counts[:, -1], places, places + 1)
        off = np.interp(found, np.arange(BINS + 1), [0, *exact]) - fraction * exact[-1]
        told = quantile_tries.off_by(strategy, fraction, noise, np.array([70.0]), exact[None] / middle) * middle
        assert np.sqrt((told**2).mean()) == pytest.approx(np.sqrt((off**2).mean()), rel=0.1)
