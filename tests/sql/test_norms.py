"""Norms that vectors are clipped to, and ranges of values, against the best in hindsight and exact computations."""

import math
from fractions import Fraction

import numpy as np
import pytest
from private_selects import aggregate, plan, select

from dpnotebook.privacy.accountant import UNITS, accountant_for
from dpnotebook.privacy.budget import Budget
from dpnotebook.sql.aggregates.estimating import estimate
from dpnotebook.sql.aggregates.noising import noisy
from dpnotebook.sql.aggregates.norms import described, norm_edges, norm_to_clip_at
from dpnotebook.sql.aggregates.value_range import COARSE, FINE, located, trimmed
from dpnotebook.sql.bounded_sums import Totals

GAUSSIAN = accountant_for(Budget(1.0, 1e-6))
GROUPS = 20


def counted(norms):
    """Return how many units have a norm in each bin."""
    place = np.searchsorted(norm_edges(), norms, side="right") - 1
    return np.bincount(np.clip(place, 0, norm_edges().size - 2), minlength=norm_edges().size - 1)


def vectors(kind, units, random):
    """Return what units have in groups, shape (units, groups)."""
    rows = {"geometric": random.geometric(0.25, units), "heavy": np.ceil(2 * random.pareto(1.8, units) + 0.1)}
    rows = rows.get(kind.split()[0], np.ones(units)).astype(int)
    unit, group = np.repeat(np.arange(units), rows), random.integers(GROUPS, size=rows.sum())
    values = {
        "counts": np.ones(unit.size), "ages": random.normal(50, 12, unit.size),
        "years": random.integers(1990, 2020, unit.size), "costs": random.lognormal(5, 1.2, unit.size),
        "debts": -random.gamma(2, 300, unit.size),
    }[kind.split()[-1]]  # fmt: skip
    found = np.zeros((units, GROUPS))
    np.add.at(found, (unit, group), values)
    return found


def error(entries, norm, noise):
    """Return the root mean squared error over groups of clipping to a norm, with the noise for it."""
    norms = np.linalg.norm(entries, axis=1)
    lost = np.maximum(1 - norm / np.maximum(norms, 1e-300), 0.0) @ entries
    return math.hypot(math.sqrt(np.mean(lost**2)), noise * norm)


KINDS = [
    f"{rows} {values}"
    for rows in ("geometric", "heavy", "single")
    for values in ("counts", "ages", "years", "costs", "debts")
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("units", [2_000, 30_000])
def test_the_norm_that_is_chosen_is_nearly_the_best_in_hindsight(kind, units):
    """Half of the norms err by less than half more than the best: the bias is told by a bound that is not tight."""
    random = np.random.default_rng(len(kind) + units)
    entries = vectors(kind, units, random)
    norms = np.linalg.norm(entries, axis=1)
    exact, noise, scale, ratios = counted(norms), 5.0, 14.0, []
    tried = 2.0 ** np.arange(np.log2(norms.min()) - 1, np.log2(norms.max()) + 1, 1 / 8)
    best = min(error(entries, norm, noise) for norm in tried)
    for _ in range(15):
        noisy_counts = exact + np.rint(random.normal(0, scale, exact.size))
        norm, _ = norm_to_clip_at(noisy_counts, scale, noise, GROUPS, whole=kind.endswith("counts"))
        ratios.append(error(entries, float(norm), noise) / best)
    assert np.median(ratios) < 1.5
    assert max(ratios) < 4


def test_units_with_one_row_are_counted_whole_and_for_no_more_noise():
    counts = counted(np.ones(5_000))
    norm, lost = norm_to_clip_at(counts, 10.0, 3.0, 4, whole=True)
    assert norm == 1
    assert lost < 3


def test_what_noise_hides_has_no_norm_and_noise_alone_hardly_ever_has_one():
    random, found = np.random.default_rng(), 0
    for _ in range(400):
        found += norm_to_clip_at(random.normal(0, 9, norm_edges().size - 1), 9.0, 1.0, 5) is not None
    assert found == 0  # one run in 2,500 by chance
    assert math.isnan(described(np.zeros(norm_edges().size - 1), 9.0)[0])


def test_no_norm_is_thought_of_behind_what_is_declared_unless_many_units_are_there():
    counts = counted(np.repeat([1.0, 2.0, 3.9], [900, 300, 60]))
    wide, _ = norm_to_clip_at(counts, 30.0, 0.05, 1)
    close, _ = norm_to_clip_at(counts, 30.0, 0.05, 1, usual=4.0)
    assert close <= 4 < wide
    counts = counted(np.repeat([1.0, 2.0, 30.0], [900, 300, 400]))
    assert norm_to_clip_at(counts, 30.0, 0.05, 1, usual=4.0)[0] > 25


def test_what_is_told_of_units_is_about_what_they_are():
    random = np.random.default_rng(8)
    norms = np.sqrt(random.geometric(0.2, 20_000))
    units, half, most = described(counted(norms) + random.normal(0, 10, norm_edges().size - 1), 10.0)
    assert units == pytest.approx(20_000, rel=0.02)
    assert half / math.sqrt(2) <= np.median(norms) <= half
    assert most / math.sqrt(2) <= np.quantile(norms, 0.95) <= most * 1.001


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        (np.linspace(1930, 2020, 5_000), 1_900, 2_060),
        (np.linspace(999_990, 1_000_010, 5_000), 999_950, 1_000_050),
        (np.repeat([10.0, 1_000.0], 2_500), -100, 1_200),
    ],
)
def test_the_range_of_values_is_found_however_far_from_zero(values, low, high):
    """From bounds a power of two apart, by two looks at many bins and one at few, with noise as of a small share."""
    random, scale = np.random.default_rng(), 25.0
    bounds = (Fraction(0), Fraction(2 ** math.ceil(math.log2(values.max()) + 1)))

    def noisy_counts(bins):
        exact = np.histogram(values, bins, (float(bounds[0]), float(bounds[1])))[0]
        return exact + random.normal(0, scale, bins)

    for _ in range(2):
        bounds, _ = located(noisy_counts(FINE), scale, bounds)
        assert bounds[0] <= values.min()
        assert bounds[1] >= values.max()
    bounds = trimmed(noisy_counts(COARSE), scale, bounds, 30.0, squares=False)
    inside = np.mean((values >= float(bounds[0])) & (values <= float(bounds[1])))
    assert inside > 0.9
    assert low < bounds[0] < bounds[1] < high


@pytest.mark.parametrize("noise", [100.0, 1_000.0, 5_000.0])
@pytest.mark.parametrize("squares", [False, True])
def test_ranges_err_about_as_little_as_the_best_ones(squares, noise):
    """Of a mean or a variance: bias and noise together, beside the best bounds for somebody who knows all values.

    The median of 31 draws; single ones, whose tails are hidden by noise, are off by up to 1.7.
    """
    random, scale, bounds, ratios = np.random.default_rng(), 20.0, (Fraction(0), Fraction(256)), []
    for _ in range(31):
        values = random.gamma(2, 10, 40_000)
        counts = np.histogram(values, COARSE, tuple(map(float, bounds)))[0] + random.normal(0, scale, COARSE)
        found = trimmed(counts, scale, bounds, noise, squares=squares)
        grid = [(low, high) for low in range(0, 24, 4) for high in range(max(low + 4, 28), 160, 4)]
        losses = [loss_of_range(values, *map(float, ends), noise, squares) for ends in (found, *grid)]
        ratios.append(losses[0] / min(losses[1:]))
    assert np.median(ratios) <= 1.3


def loss_of_range(values, low, high, noise, squares):
    """Return the root mean squared error of the mean or the variance of values that are kept in a range."""
    kept, half = np.clip(values, low, high), (high - low) / 2
    bias = kept.var() - values.var() if squares else np.abs(kept - values).mean()
    return math.hypot(bias, noise / values.size * (half**2 if squares else half))


@pytest.mark.statistical
@pytest.mark.parametrize(("kind", "truth"), [("average", 0.5), ("variance", 0.75), ("deviation", math.sqrt(0.75))])
def test_intervals_of_clipped_vectors_hold_the_answer_before_noise(kind, truth):
    """Values of half-widths 1 and -1, three of four of them 1; groups of 40 to 40,000 rows."""
    chosen = select(aggregate(kind), kind="l2", selection="all")
    measured = plan(chosen, GAUSSIAN, UNITS, found={0: (Fraction(-1), Fraction(1), Fraction(6))})
    sizes, draws = np.array([40, 400, 40_000]), 4_000
    parts = [sizes, sizes * 0.5, sizes][: len(measured.components)]
    one = np.stack([np.rint(part / float(measured.components[0].step)) for part in parts], axis=1).astype(np.int64)
    many = Totals(tuple((i,) for i in range(len(sizes) * draws)), np.tile(one, (draws, 1)))
    (found,) = estimate(measured, noisy(measured, many), 0.95)
    held = ((found.lower <= truth) & (truth <= found.upper)).reshape(draws, len(sizes)).mean(axis=0)
    assert (held > 0.95 - 4.5 * math.sqrt(0.05 * 0.95 / draws)).all()
    if kind == "average":  # the others are made wider for what their mean may err
        assert (held[1:] < 0.95 + 4.5 * math.sqrt(0.05 * 0.95 / draws)).all()
    errors = found.value.reshape(draws, len(sizes))[:, 2] - truth
    assert found.std_error[2] == pytest.approx(np.sqrt(np.mean(errors**2)), rel=0.08)
