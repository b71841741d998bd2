"""What one unit can change in what is released is never more than is charged: exactly, and by drawn noise.

The worst unit of every aggregate is searched for among units that fill all that they may contribute. The exact loss of
what is measured is compared with the charge; then noise is drawn on both sides of that unit, and the best test between
them must not tell them apart better than is claimed. Each test is also run with a tenth less noise, and must fail.
"""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import duckdb
import numpy as np
import pandas as pd
import pytest
import scipy.stats
from added_up import connect, connect_postgres
from private_selects import aggregate, pair, plan, select, totals

import dpnotebook as dpn
from dpnotebook.errors import AccuracyError, SQLError
from dpnotebook.privacy.accountant import UNITS, accountant_for
from dpnotebook.privacy.budget import Budget
from dpnotebook.privacy.laws import draw_integers
from dpnotebook.sql.aggregates.bounds import (
    PARTS_OF_UNIT,
    STEPS_OF_MEANS,
    check_scales,
    find_bounds,
    histogram_scale,
    magnitude_edges,
    parts_of_unit,
)
from dpnotebook.sql.aggregates.budget_split import BESIDE, OF_MEANS, OF_SQUARES, PROFILE, of_range, shares
from dpnotebook.sql.aggregates.building import measuring
from dpnotebook.sql.aggregates.measuring import Measuring
from dpnotebook.sql.aggregates.noising import exact, noisy, released
from dpnotebook.sql.aggregates.norms import norm_edges
from dpnotebook.sql.aggregates.sharpening import measured_scale, with_scales
from dpnotebook.sql.bounded_sums import ROWS_SAMPLED, Totals
from dpnotebook.sql.measured_profile import measured_profile, measured_ranges
from dpnotebook.sql.profile import clips
from dpnotebook.sql.reuse.sharper import lacking
from dpnotebook.sql.rewrite.bounded_aggregation import totals as engine_totals
from dpnotebook.sql.select import Key
from dpnotebook.sql.statement_json import statement_from_json
from dpnotebook.sql.value_histogram import COARSE

GAUSSIAN = accountant_for(Budget(1.0, 1e-6))
LAPLACE = accountant_for(Budget(1.0, 1e-6, noise="laplace"))
DRAWS = 200_000
SIGMAS = 5.5  # one run in 10^7 fails by chance

AGGREGATES = {
    "count": aggregate("count", 0, 7),
    "signed count": aggregate("count", -3, 2),
    "units": aggregate("units"),
    "sum": aggregate("sum", 0, 20, integer=True),
    "signed sum": aggregate("sum", Fraction(-13, 2), Fraction(9, 4)),
    "average": aggregate("average", -2, 8),
    "variance": aggregate("variance", Fraction(1, 3), 5),
    "deviation": aggregate("deviation", -100, 100),
    "median": aggregate("quantiles", 0, 10, fractions=(0.5,)),
    "whole median": aggregate("quantiles", 0, 10, fractions=(0.5,), integer=True),
    "covariance": pair("covariance", -2, 8, Fraction(1, 3), 5),
    "correlation": pair("correlation", Fraction(-1, 3), 100, 0, 2),
}
CASES = [
    (name, kind, most, accountant)
    for name, (kind, most), accountant in itertools.product(
        AGGREGATES, [("groups", 1), ("groups", 3), ("rows", 1), ("rows", 4)], (GAUSSIAN, LAPLACE)
    )
    if not (name == "signed count" and kind == "rows")
]


GROUPS = (Key("g", tuple(range(9)), "integer"),)  # more than a unit is in: of fewer, numbers of units cost less


def case(name, kind, most, accountant):
    """Return what is measured where one aggregate alone is asked for, at a cost of one unit of epsilon or mu^2."""
    return plan(select(AGGREGATES[name], kind=kind, most=most, selection="all", keys=GROUPS), accountant, UNITS)


def worst_unit(measured, asked, name):
    """Return the changes of all measured numbers by the worst unit there is, shape (groups, measured)."""
    most, kind = measured.contribution.most, measured.contribution.kind
    bounds = asked.bounds or (Fraction(0), Fraction(1))
    low, high = map(float, bounds)
    some = [low, high, (low + high) / 2, low + (high - low) / 3, high + 1000, low - 1000, 0.0]
    if name.endswith("median"):
        some = list(np.linspace(low, high, 201))
    if asked.other is not None:
        least, most_of_other = map(float, asked.other.bounds)
        middle = (least + most_of_other) / 2
        some = list(itertools.product(some, [least, most_of_other, middle, least / 3 + middle / 2, least - 1e3]))
    found = []
    for value in some:
        if kind == "groups":
            for rows in sorted({1, ROWS_SAMPLED, math.ceil(high) if name == "count" else 1}):
                found.append({group: [value] * rows for group in range(most)})
        else:
            found.append({0: [value] * most})
            found.append({group: [value] for group in range(most)})
    changes = [exact(measured, totals(measured, [unit])) for unit in found]
    losses = [loss(measured, change) for change in changes]
    # Of several that lose the most, the one that changes the fewest numbers: it is the easiest to tell.
    worst = [change for change, lost in zip(changes, losses, strict=True) if lost > max(losses) * (1 - 1e-6)]
    return min(worst, key=lambda change: int((np.abs(change) > 1e-4 * np.array(measured.scales, float)).sum())), max(
        losses
    )


def loss(measured, change):
    """Return the exact cost of a change: epsilon of Laplace noise, mu^2 of Gaussian noise."""
    scales = np.array([float(scale) for scale in measured.scales])
    ratio = np.abs(change) / scales
    return float(ratio.sum() if measured.noise == "laplace" else (ratio**2).sum())


@pytest.mark.parametrize(("name", "kind", "most", "accountant"), CASES)
def test_the_worst_unit_costs_what_is_charged_and_no_more(name, kind, most, accountant):
    measured = case(name, kind, most, accountant)
    _, cost = worst_unit(measured, AGGREGATES[name], name)
    assert cost <= 1 + 1e-12
    # Nothing is given away, but by rounding bounds to steps.
    assert cost > 0.999


@pytest.mark.parametrize("accountant", [GAUSSIAN, LAPLACE])
@pytest.mark.parametrize(("groups", "most"), [(1, 7), (3, 7), (7, 3)])
def test_units_in_few_groups_cost_what_is_charged_however_many_rows_count(groups, most, accountant):
    """A unit that has a row in each group is the worst one; with a tenth less noise it would cost more."""
    keys = (Key("g", tuple(range(groups)), "integer"),) if groups > 1 else ()
    asked = select(AGGREGATES["units"], kind="rows", most=most, selection="all", keys=keys)
    measured = plan(asked, accountant, UNITS)
    unit = {group: [0.0] * (most // groups or 1) for group in range(min(groups, most))}
    cost = loss(measured, exact(measured, totals(measured, [unit])))
    assert 0.999 < cost <= 1 + 1e-12
    hidden = replace(asked, selection="threshold", keys=(Key("g"),))  # nobody knows how many groups there are
    if groups < most:
        assert plan(hidden, accountant).blocks[0].scale > measured.blocks[0].scale


@pytest.mark.parametrize("accountant", [GAUSSIAN, LAPLACE])
@pytest.mark.parametrize(("kind", "most"), [("groups", 3), ("rows", 1), ("rows", 4)])
def test_a_variance_and_its_root_together_cost_what_is_charged(kind, most, accountant):
    """They are one measurement, for which both pay, also where other bounds were found for each."""
    asked = select(
        aggregate("variance"), aggregate("deviation", population=False), kind=kind, most=most, selection="all"
    )
    found = [(Fraction(-100), Fraction(100)), (Fraction(1, 3), Fraction(5))]
    measured = plan(asked, accountant, UNITS, found=dict(enumerate(found)))
    main = sum(shares(asked, UNITS, accountant).main)
    assert measured.parts[0].blocks == measured.parts[1].blocks
    assert measured.parts[0].bounds == measured.parts[1].bounds
    _, cost = worst_unit(measured, AGGREGATES["deviation"], "deviation")
    assert 0.999 * main < cost * UNITS < main * (1 + 1e-12)


def sharper_case(name, kind, most, accountant, times):
    """Return what is measured at a cost of one unit, the same made as precise as `times` that, and what that costs."""
    asked = select(AGGREGATES[name], kind=kind, most=most, selection="all", keys=GROUPS)
    first, costs = plan(asked, accountant, UNITS), shares(asked, int(times * UNITS), accountant)
    scales, units = lacking(plan(asked, accountant, int(times * UNITS)), costs, first)
    return first, scales, units


def loss_of_both(first, scales, change, less=1):
    """Return the exact cost of a change in a release and in the sharper one together; of noise that is `less`."""
    if first.law.refines:  # the sharper numbers tell all that both tell
        return loss(with_scales(first, [scale * less for scale in scales]), change)
    second = [measured_scale(first.law, b.scale, s) * less for b, s in zip(first.blocks, scales, strict=True)]
    return loss(first, change) + loss(with_scales(first, second), change)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("times", [Fraction(101, 100), 2, 30])
@pytest.mark.parametrize(("name", "kind", "most", "accountant"), CASES)
def test_a_release_and_the_sharper_one_together_cost_what_was_paid_for_both(name, kind, most, accountant, times):
    first, scales, units = sharper_case(name, kind, most, accountant, times)
    change, _ = worst_unit(first, AGGREGATES[name], name)
    paid = 1 + units / UNITS
    assert loss_of_both(first, scales, change) <= paid * (1 + 1e-11)
    if times > 1.5:  # with a tenth less noise it would be more than was paid
        assert loss_of_both(first, scales, change, 0.9) > 1.05 * paid
    if first.law.refines:
        assert paid == pytest.approx(float(times), rel=1e-11)
    else:  # what is known counts for all that it cost, but for its rounding
        rounded = max(1 / (1 + 12 * float(block.scale) ** 2) for block in first.blocks)
        assert float(times) - 1e-11 <= paid <= float(times) + rounded * 1.000001 + 1e-11


@pytest.mark.parametrize("seed", range(8))
def test_no_random_unit_costs_more(seed):
    rng = np.random.default_rng(seed)
    for name, kind, most, accountant in CASES:
        measured = case(name, kind, most, accountant)
        asked = AGGREGATES[name]
        low, high = (float(bound) for bound in (asked.bounds or (0, 1)))
        spare = most
        unit = {}
        for group in range(most):
            rows = int(rng.integers(1, ROWS_SAMPLED + 1)) if kind == "groups" else min(spare, int(rng.integers(1, 3)))
            if rows:
                size = rows if asked.other is None else (rows, 2)
                unit[group] = rng.uniform(low - (high - low), high + (high - low), size)
            spare -= rows
        assert loss(measured, exact(measured, totals(measured, [unit]))) <= 1 + 1e-12


def sides(measured, change, draw):
    """Return measured numbers with noise, without the worst unit and with it; shape (draws, groups * measured)."""
    groups = len(change)
    both = []
    for numbers in (np.zeros_like(change), change):
        # The noise is that of `noisy`, for groups in which nobody is; what the unit changes is added.
        empty = Totals(tuple((i,) for i in range(groups)), np.zeros((groups, measured.width), dtype=np.int64))
        many = Totals(empty.keys * DRAWS, np.tile(empty.numbers, (DRAWS, 1)))
        drawn = noisy(measured, many, draw).reshape(DRAWS, groups, -1)
        both.append((drawn + numbers).reshape(DRAWS, -1).astype(float))
    return both


def tells_apart(measured, change, draw):
    """Return by how many standard errors the best test between both sides is better than is claimed for a cost of 1."""
    scales = np.tile([float(scale) for scale in measured.scales], len(change))
    flat = change.reshape(-1).astype(float)
    used = np.abs(flat) > 1e-4 * scales  # what rounding leaves of a number that the unit does not change tells nothing
    without, with_it = (side[:, used] for side in sides(measured, change, draw))
    flat, scales = flat[used], scales[used]
    if measured.noise == "gaussian":
        # Likelihood ratio of two normal laws: it is mu-GDP where Phi^-1(power) - Phi^-1(size) <= mu = 1.
        from scipy.special import ndtri

        line = flat / scales**2
        middle = float(line @ flat) / 2
        size, power = ((side @ line > middle).mean() for side in (without, with_it))
        slopes = [math.sqrt(2 * math.pi * p * (1 - p) / DRAWS) * math.exp(ndtri(p) ** 2 / 2) for p in (size, power)]
        return (ndtri(power) - ndtri(size) - 1) / math.hypot(*slopes)
    # Where every number is beyond what the unit makes it, the ratio of probabilities is e^epsilon.
    beyond = [np.all(side * np.sign(flat) >= np.abs(flat), axis=1).mean() for side in (without, with_it)]
    error = math.sqrt(sum((1 - p) / (p * DRAWS) for p in beyond))
    return (math.log(beyond[1] / beyond[0]) - 1) / error


def less(noise, scale, size):
    """Draw a tenth less noise than is asked for."""
    return draw_integers(noise, scale * Fraction(9, 10), size)


@pytest.mark.one_in(2)
@pytest.mark.statistical
@pytest.mark.parametrize("accountant", [GAUSSIAN, LAPLACE], ids=["gaussian", "laplace"])
@pytest.mark.parametrize(
    "name", ["count", "units", "signed sum", "average", "variance", "deviation", "covariance", "correlation"]
)
def test_drawn_noise_hides_the_worst_unit_and_a_tenth_less_does_not(name, accountant):
    measured = case(name, "groups", 1, accountant)
    change, _ = worst_unit(measured, AGGREGATES[name], name)
    assert tells_apart(measured, change, draw_integers) < SIGMAS
    assert tells_apart(measured, change, less) > SIGMAS


@pytest.mark.statistical
@pytest.mark.parametrize("accountant", [GAUSSIAN, LAPLACE], ids=["gaussian", "laplace"])
def test_drawn_noise_hides_the_worst_unit_of_quantiles(accountant):
    asked = aggregate("quantiles", 0, 3, fractions=(0.5,), integer=True)
    measured = plan(select(asked, selection="all"), accountant, UNITS)
    change, cost = worst_unit(measured, asked, "median")
    assert cost == pytest.approx(1, rel=1e-9)
    assert tells_apart(measured, change, draw_integers) < SIGMAS
    assert tells_apart(measured, change, less) > SIGMAS


@pytest.mark.statistical
def test_drawn_noise_hides_a_clipped_vector():
    measured = plan(select(aggregate("count", 0, 30), kind="l2", selection="all"), GAUSSIAN, UNITS)
    step = measured.components[0].step
    # In 4 groups, 15 rows each: of length 30.
    change = np.full((4, 1), int(15 / step), dtype=np.int64)
    assert loss(measured, change) == pytest.approx(1, rel=1e-6)
    assert tells_apart(measured, change, draw_integers) < SIGMAS
    assert tells_apart(measured, change, less) > SIGMAS


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("kind", "numbers", "elsewhere"), [("average", 2, False), ("average", 2, True), ("variance", 3, False)]
)
def test_drawn_noise_hides_a_clipped_vector_of_several_sums(kind, numbers, elsewhere):
    chosen = select(aggregate(kind), kind="l2", selection="all")
    centred = (Fraction(3), Fraction(1, 2)) if elsewhere else ()
    bounds = {0: (Fraction(0), Fraction(8), *centred, Fraction(30))}
    finding = PROFILE * (OF_SQUARES if kind == "variance" else 1)
    measured = plan(chosen, GAUSSIAN, math.ceil(UNITS / (1 - finding)), found=bounds)
    (block,), largest = measured.blocks, measured.components[0].largest
    assert block.measured == len(measured.components) == numbers
    assert {component.largest for component in measured.components} == {largest}
    # In 4 groups alike, as long as may be.
    change = np.full((4, numbers), math.floor(largest / math.sqrt(4 * numbers)), dtype=np.int64)
    assert loss(measured, change) == pytest.approx(1, rel=1e-6)
    assert tells_apart(measured, change, draw_integers) < SIGMAS
    assert tells_apart(measured, change, less) > SIGMAS


def test_norms_are_found_in_noisy_numbers():
    """A histogram of nobody is that of the noise: whoever is in the table, it is another every time."""
    chosen = replace(select(aggregate("count"), kind="l2"), rows="SELECT u, k0, x0 FROM t", tables=("t",))
    given, run = shares(chosen, UNITS, GAUSSIAN), connect(pd.DataFrame({"u": ["a"], "k0": ["g"], "x0": [1.0]}))
    chosen = replace(chosen, rows='SELECT u, k0, x0 FROM "the table"')
    found = [measured_profile(chosen, {}, given, GAUSSIAN, 1, 1, run, draw_integers)[0][0] for _ in range(40)]
    counts = np.array([norms.counts for norms in found], dtype=float)
    assert counts.std() == pytest.approx(float(found[0].scale), rel=0.05)
    assert found[0].scale == GAUSSIAN.scale(given.auto[0], 1)


def test_what_units_have_on_average_is_told_with_noise():
    """Of a unit whose values are all alike, in a bin by itself: noise for all that it may add there, and to others."""
    chosen = select(aggregate("average", values=(Fraction(0), Fraction(2))), kind="l2")
    given = shares(chosen, UNITS, GAUSSIAN)
    run = connect(pd.DataFrame({"u": ["a"], "k0": ["g"], "x0": [1.0]}))
    chosen = replace(chosen, rows='SELECT u, k0, x0 FROM "the table"', tables=("the table",))
    found = [measured_profile(chosen, {}, given, GAUSSIAN, 1, 1, run, draw_integers)[0][0].means for _ in range(100)]
    for name, share in zip(("means", "ratios", "squares"), OF_MEANS, strict=True):
        scale = GAUSSIAN.scale(given.auto[0] // BESIDE * share, 1) * STEPS_OF_MEANS
        assert scale == (found[0].scale if name == "means" else found[0].rough)
        sums = np.array([getattr(one, name) for one in found], dtype=float)
        assert sums.std() == pytest.approx(float(scale), rel=5.5 / math.sqrt(2 * sums.size))


@pytest.mark.parametrize("known", [(), (1, 3)])
@pytest.mark.parametrize("people", [3_000, 90_000])
def test_a_clipped_statement_and_its_profile_cost_what_it_costs(known, people):
    """Every histogram counts a unit once, and every vector is as long as its norm: all of them, by the noise drawn."""
    kinds = ("count", "sum", "average", "variance", "units")
    chosen = select(*(aggregate(kind, name=kind) for kind in kinds), kind="l2")
    total, drawn = GAUSSIAN.units(0.7), []
    given = shares(chosen, total, GAUSSIAN, known)
    units = np.arange(people)
    run = connect(pd.DataFrame({"u": units.astype(str), "k0": (units % 3).astype(str), "x0": units % 50 + 1.0}))

    def draw(noise, scale, size):
        drawn.append(scale)
        return np.zeros(size, dtype=np.int64)

    chosen = replace(chosen, rows='SELECT u, k0, x0 FROM "the table"', tables=("the table",))
    norms, _, given = measured_profile(chosen, {}, given, GAUSSIAN, 3, 3, run, draw)
    assert set(norms) == set(range(5)) - set(known)
    told = [one.means for one in norms.values() if one.means is not None]
    means = {scale for one in told for scale in (one.scale, one.rough)}
    assert len(told) == sum(kinds[i] in ("average", "variance") for i in norms)
    # A unit adds up to as many steps to what those of its norm have on average, and as many parts, or one, to others.
    of_norms = {one.scale for one in norms.values()}
    worth = {scale: STEPS_OF_MEANS if scale in means else 1 if scale in of_norms else PARTS_OF_UNIT for scale in drawn}
    spent = sum(worth[scale] ** 2 / scale**2 for scale in drawn)
    found = {i: clip.bounds for i, clip in clips(chosen, norms, given, GAUSSIAN).items()}
    assert None not in found.values()
    usual = {
        i: (Fraction(0), Fraction(5), Fraction(9))[: 3 if kinds[i] in ("average", "variance") else 2] for i in known
    }
    measured = measuring(chosen, given, GAUSSIAN, Fraction(1, 10**6), found | usual)
    for block in measured.blocks:
        spent += measured.component(block.columns[0]).largest ** 2 / block.scale**2
    assert spent * UNITS <= total
    assert float(spent * UNITS / total) > 0.98  # finer bins that are not needed are not counted


@pytest.mark.parametrize("within", [None, (Fraction(0), Fraction(1))], ids=["found", "near"])
def test_finding_what_is_rare_costs_what_it_costs(within):
    """Where rows hide what few of them have, what units add up is looked at; of truth values few bins are enough."""
    chosen = select(replace(aggregate("average", name="average"), within=within), kind="l2")
    total, drawn = GAUSSIAN.units(0.7), []
    given = shares(chosen, total, GAUSSIAN)
    row = np.arange(4_000 * 40)
    run = connect(pd.DataFrame({"u": (row // 40).astype(str), "k0": "g", "x0": (row % 40 == 7) * 1.0}))

    def draw(noise, scale, size):
        drawn.append((scale, size))
        return np.zeros(size, dtype=np.int64)

    chosen = replace(chosen, rows='SELECT u, k0, x0 FROM "the table"', tables=("the table",))
    norms, _, given = measured_profile(chosen, {}, given, GAUSSIAN, 1, 1, run, draw)
    bins, means = norm_edges().size - 1, {norms[0].means.scale, norms[0].means.rough}
    sizes = [size for _, size in drawn]
    assert sizes[0] == (magnitude_edges().size - 1 if within is None else COARSE + 2)
    assert sizes.count(bins) == (5 if within is None else 4)
    worth = {(s, n): PARTS_OF_UNIT if n != bins else STEPS_OF_MEANS if s in means else 1 for s, n in drawn}
    spent = sum(worth[one] ** 2 / one[0] ** 2 for one in drawn)
    low, high, centre, length = norms[0].values
    assert low <= 0 < centre < length < 1 <= high
    found = {i: clip.bounds for i, clip in clips(chosen, norms, given, GAUSSIAN).items()}
    measured = measuring(chosen, given, GAUSSIAN, Fraction(1, 10**6), found)
    for block in measured.blocks:
        spent += measured.component(block.columns[0]).largest ** 2 / block.scale**2
    assert 0.999 < float(spent * UNITS / total) <= 1


def test_postgresql_finds_what_is_rare_alike(postgres):
    row = np.arange(400 * 10)
    values = np.where(row % 10 == row // 10 % 10, 1.0, 0.0)
    rows = pd.DataFrame({"u": (row // 10).astype(str), "k0": "g", "x0": values})
    kinds = {"u": "text", "k0": "text", "x0": "double precision"}
    with connect_postgres(postgres, "rare_values", kinds, rows.itertuples(index=False, name=None)) as run:
        for within in (None, (Fraction(0), Fraction(1))):
            chosen = select(replace(aggregate("average", name="average"), within=within), kind="l2")
            given, found = shares(chosen, GAUSSIAN.units(2), GAUSSIAN), []
            for name, runs in (("rare_values", run), ('"the table"', connect(rows))):
                there = replace(chosen, rows=f"SELECT u, k0, x0 FROM {name}", tables=(name,))
                norms, _, _ = measured_profile(
                    there, {}, given, GAUSSIAN, 1, 1, runs, lambda noise, scale, size: np.zeros(size, dtype=np.int64)
                )
                found.append((norms[0].counts, norms[0].values, norms[0].means))
            assert found[0] == found[1]
            assert sum(found[0][0]) == 400


@pytest.mark.statistical
@pytest.mark.parametrize("accountant", [GAUSSIAN, LAPLACE], ids=["gaussian", "laplace"])
def test_the_histogram_that_bounds_are_found_in_hides_a_unit(accountant):
    """A unit is in one bin: the scale is that of a count of units."""
    scale = histogram_scale(accountant, UNITS)
    change = np.array([[1]])
    one = replace(case("units", "groups", 1, accountant))
    assert one.blocks[0].scale == scale
    assert tells_apart(one, change, draw_integers) < SIGMAS


@pytest.mark.parametrize(
    ("contribution", "accountant"),
    [("l2", GAUSSIAN), ("rows", GAUSSIAN), ("rows", LAPLACE), ("groups", GAUSSIAN), ("groups", LAPLACE)],
)
@pytest.mark.parametrize("kind", ["count", "sum", "average", "variance"])
def test_what_is_charged_can_be_drawn(accountant, kind, contribution):
    """The least cost that is let through gives no histogram a scale above 2^53."""
    chosen = select(aggregate(kind), kind=contribution, most=1 if contribution == "l2" else 3)
    chosen = replace(chosen, rows='SELECT u, k0, x0 FROM "the table"', tables=("the table",))
    units = np.arange(300)
    run = connect(pd.DataFrame({"u": units.astype(str), "k0": (units % 3).astype(str), "x0": units % 50 + 1.0}))

    def fits(cost):
        try:
            check_scales(chosen, shares(chosen, cost, accountant), accountant, Fraction(1, 10**6))
        except (AccuracyError, SQLError):
            return False
        return True

    def scales(cost):
        given, drawn = shares(chosen, cost, accountant), []

        def draw(noise, scale, size):
            drawn.append(scale)
            return np.zeros(size, dtype=np.int64)

        if contribution == "l2":
            measured_profile(chosen, {}, given, accountant, 3, 3, run, draw)
        elif kind == "count" or contribution == "groups":
            parts = parts_of_unit(chosen)
            find_bounds(chosen, given, accountant, lambda one: np.zeros(207, dtype=np.int64), draw, parts=parts)
        else:
            measured_ranges(chosen, given, accountant, 3, run, draw)
        return drawn

    low, high = 1, UNITS
    while high - low > max(low // 100, 1):
        middle = math.isqrt(low * high) if high > 4 * low else (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    assert fits(high)
    assert max(scales(high), default=0) <= 2**53


def shown(measured, units_in_each, draw=draw_integers, draws=DRAWS):
    """Return how often groups are shown, shape (draws, groups)."""
    groups = len(units_in_each)
    numbers = np.tile(np.array(units_in_each, dtype=np.int64)[:, None], (draws, measured.width))
    many = Totals(tuple((i,) for i in range(groups * draws)), numbers)
    return released(measured, many, noisy(measured, many, draw)).reshape(draws, groups)


@pytest.mark.parametrize("epsilon", [0.05, 0.7])
@pytest.mark.parametrize("accountant", [GAUSSIAN, LAPLACE], ids=["gaussian", "laplace"])
def test_bounds_of_rows_are_found_for_what_is_given_for_that(accountant, epsilon):
    """By the noise that is drawn: every histogram counts a unit once, and one serves all aggregates of a column."""
    kinds = ("average", "deviation", "sum", "quantiles", "count")
    fractions = {"quantiles": (0.5,)}
    asked = [aggregate(kind, name=kind, fractions=fractions.get(kind, ())) for kind in kinds]
    chosen = replace(select(*asked, kind="rows", most=3), rows='SELECT u, k0, x0 FROM "the table"')
    total, drawn = accountant.units(epsilon), []
    given = shares(chosen, total, accountant)
    units = np.arange(90_000)
    run = connect(pd.DataFrame({"u": units.astype(str), "k0": (units % 3).astype(str), "x0": units % 50 + 1.0}))

    def draw(noise, scale, size):
        drawn.append(scale)
        return np.zeros(size, dtype=np.int64)

    found, told, rest = measured_ranges(chosen, given, accountant, 3, run, draw)
    assert set(found) == {0, 1, 2, 3}
    assert all(clip.bounds is not None for clip in found.values())
    assert len(told) == 4
    spent = UNITS * sum((PARTS_OF_UNIT / scale) ** accountant.law.power for scale in drawn)
    assert sum(rest.auto) - 4 <= spent <= sum(rest.auto)
    # What finding did not cost is the answers' that paid for it, and nothing is lost or added.
    assert given.total - 4 <= rest.total <= given.total <= total
    assert rest.main[4] == given.main[4]  # of the count, whose bounds are known
    assert all(more > less for more, less in zip(rest.main[:4], given.main[:4], strict=True))
    assert sum(rest.auto) < 0.5 * sum(given.auto)


@pytest.mark.parametrize("accountant", [GAUSSIAN, LAPLACE], ids=["gaussian", "laplace"])
def test_who_is_hidden_from_the_first_histogram_is_found_in_the_second(accountant):
    """Of a few hundred units magnitudes are counted twice, of many once: never for more than was charged."""
    chosen = replace(select(aggregate("average"), kind="rows", most=3), rows='SELECT u, k0, x0 FROM "the table"')
    given = shares(chosen, accountant.units(0.5), accountant)
    tries = of_range(given.auto[0]).tries
    few = 180 if accountant.law.euclidean else 500
    for people, counted in ((few, 2), (90_000, 1)):
        units, drawn = np.arange(people), []
        run = connect(pd.DataFrame({"u": units.astype(str), "k0": "a", "x0": units % 3 + 5.0}))

        def draw(noise, scale, size, drawn=drawn):
            drawn.append(scale / PARTS_OF_UNIT)
            return np.zeros(size, dtype=np.int64)

        found, _, rest = measured_ranges(chosen, given, accountant, 1, run, draw)
        assert found[0].bounds is not None
        assert drawn[:counted] == [histogram_scale(accountant, cost) for cost in tries[:counted]]
        assert UNITS * sum(scale**-accountant.law.power for scale in drawn) <= rest.auto[0] <= given.auto[0]
        assert rest.total <= given.total


@pytest.mark.statistical
@pytest.mark.parametrize("accountant", [GAUSSIAN, LAPLACE], ids=["gaussian", "laplace"])
@pytest.mark.parametrize("most", [1, 4])
@pytest.mark.parametrize("fewest", [1, 3])
def test_a_units_own_groups_show_as_seldom_as_delta_and_a_lower_threshold_fails(accountant, most, fewest):
    """A unit that brings `most` groups to the fewest units: before, they are never shown."""
    delta = Fraction(93, 10_000)  # one unit less of the threshold is 11 sigma away in all of these cases
    chosen = select(aggregate("units"), most=most, min_units=fewest)
    measured = plan(chosen, accountant, UNITS, delta)
    assert not shown(measured, [fewest - 1] * most, draws=1000).any()

    def excess(one):
        any_group = shown(one, [fewest] * most).any(axis=1).mean()
        return (any_group - float(delta)) / math.sqrt(float(delta) / DRAWS)

    assert excess(measured) < SIGMAS
    assert excess(replace(measured, tau=measured.tau - 1)) > SIGMAS


@pytest.mark.statistical
def test_a_group_of_one_more_unit_shows_no_more_often_than_epsilon_and_delta_say():
    """At every size of the group, with the threshold's count alone at a cost of 1: exact and by noise."""
    delta = Fraction(1, 10**4)
    measured = plan(select(aggregate("units")), LAPLACE, UNITS, delta)
    sizes = (1, 2, 8, 9, 10, 11, 13, 14)
    rates = dict(zip(sizes, shown(measured, sizes).mean(axis=0), strict=True))
    for units in (1, 8, 9, 10, 13):
        for one, other in ((rates[units], rates[units + 1]), (rates[units + 1], rates[units])):
            slack = SIGMAS * math.sqrt((other + math.e**2 * one + 1e-5) / DRAWS)
            assert other <= math.e * one + float(delta) + slack


def test_clipped_units_are_counted_in_parts_and_a_group_of_nobody_is_never_shown():
    measured = plan(select(aggregate("count", 0, 10), kind="l2"), GAUSSIAN, UNITS)
    assert measured.one == 64
    column = measured.blocks[measured.counted].columns[0]
    numbers = np.zeros((20_000, measured.width), dtype=np.int64)
    many = Totals(tuple((i,) for i in range(len(numbers))), numbers)
    drawn = noisy(measured, many) + 10**6  # however large the noise
    assert not released(measured, many, drawn).any()
    numbers[:, column] = 1
    assert released(measured, Totals(many.keys, numbers), drawn).all()


def test_noise_is_drawn_for_every_group_before_any_is_hidden():
    """The noise of a group must not depend on which others are shown."""
    sizes = []

    def counting(noise, scale, size):
        sizes.append(size)
        return np.zeros(size, dtype=np.int64)

    measured = plan(select(aggregate("count", 0, 5), aggregate("average", 0, 1)), GAUSSIAN, UNITS)
    numbers = np.zeros((7, measured.width), dtype=np.int64)
    noisy(measured, Totals(tuple((i,) for i in range(7)), numbers), counting)
    assert sizes == [7 * block.measured for block in measured.blocks]


@pytest.mark.parametrize("accountant", [GAUSSIAN, LAPLACE], ids=["gaussian", "laplace"])
def test_all_parts_of_a_query_together_cost_what_it_costs(accountant):
    """The worst unit of each block, added up: within the whole, threshold, bounds and all."""
    chosen = select(
        aggregate("count", 0, 5),
        aggregate("sum"),
        aggregate("average", 0, 9, epsilon=Fraction(1, 10)),
        aggregate("variance", -1, 1),
        aggregate("quantiles", 0, 10, fractions=(0.5,)),
        most=2,
    )
    total = accountant.units(0.9)
    given = shares(chosen, total, accountant)
    assert given.total <= total
    assert given.total > total - 10
    measured = plan(chosen, accountant, total, found={1: (Fraction(-4), Fraction(64))})
    power = 1 if accountant.noise == "laplace" else 2
    spent = Fraction(0)
    for i, asked in enumerate(chosen.aggregates):
        alone = replace(chosen, aggregates=(replace(asked, epsilon=None),), selection="all")
        alone = replace(alone, aggregates=(replace(asked, epsilon=None, bounds=measured.parts[i].bounds),))
        part = plan(alone, accountant, given.main[i])
        for mine, theirs in zip(part.blocks, (measured.blocks[j] for j in measured.parts[i].blocks), strict=True):
            assert mine.scale == theirs.scale
        spent += given.main[i]
    hidden = measured.blocks[measured.counted]
    spent += math.ceil(UNITS * 2 / hidden.scale**power) + sum(given.auto)
    assert spent <= total + 1


def test_found_bounds_use_one_draw_of_noise_for_the_whole_histogram():
    drawn = []

    def draw(noise, scale, size):
        drawn.append((noise, scale, size))
        return np.zeros(size, dtype=np.int64)

    chosen = select(aggregate("sum"))
    counts = np.zeros(magnitude_edges().size - 1, dtype=np.int64)
    find_bounds(chosen, shares(chosen, 4 * UNITS, GAUSSIAN), GAUSSIAN, lambda one: counts, draw)
    assert drawn == [("gaussian", GAUSSIAN.scale(UNITS, 1), counts.size)]


def test_bounds_are_found_in_noisy_numbers():
    """What noise says is what is found, whatever the exact histogram is."""

    def draw(noise, scale, size):
        drawn = np.zeros(size, dtype=np.int64)
        drawn[np.searchsorted(magnitude_edges(), 1024)] = 10**9  # the bin of 1024 <= x < 2048
        return drawn

    chosen = select(aggregate("sum"))
    for exact_counts in (0, 10**6):
        counts = np.zeros(magnitude_edges().size - 1, dtype=np.int64)
        counts[np.searchsorted(magnitude_edges(), 4.0)] = exact_counts
        found = find_bounds(
            chosen, shares(chosen, 4 * UNITS, GAUSSIAN), GAUSSIAN, lambda one, counts=counts: counts, draw
        )
        assert found[0] == (0, 2048)


NASTY = [None, math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-300, 1e300, -7.25, 2.0, 3.3333333333, 8.0, 5.0, 4.999999999]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("accountant", [GAUSSIAN, LAPLACE], ids=["gaussian", "laplace"])
@pytest.mark.parametrize(("kind", "most"), [("groups", 2), ("rows", 3)])
def test_a_unit_that_leaves_a_table_changes_no_more_than_is_charged(accountant, kind, most):
    """Through the engine: sampled, clamped, rounded and added up there, with the same secret on both sides."""
    rng = np.random.default_rng()
    asked = [
        aggregate("count", 0, 3),
        aggregate("units"),
        aggregate("sum", Fraction(-7, 3), 5),
        aggregate("average", Fraction(-7, 3), 5),
        aggregate("variance", Fraction(-7, 3), 5),
        aggregate("quantiles", -2, 5, fractions=(0.5,), integer=True),
        pair("covariance", Fraction(-7, 3), 5, -3, 3),
        pair("correlation", Fraction(-7, 3), 5, 0, 9),
    ]
    largest = np.zeros(len(asked))
    connection = duckdb.connect()
    for _ in range(4):
        rows = 60
        connection.execute("CREATE OR REPLACE TABLE everybody (u INTEGER, k0 INTEGER, x0 DOUBLE, x1 DOUBLE)")
        values, others = (
            [NASTY[i] if i < len(NASTY) else float(rng.normal(1, 4)) for i in rng.integers(0, 25, rows)]
            for _ in range(2)
        )
        units, groups = rng.integers(0, 6, rows).tolist(), rng.integers(0, 12, rows).tolist()
        everybody = list(zip(units, groups, values, others, strict=True))
        connection.executemany("INSERT INTO everybody VALUES (?, ?, ?, ?)", everybody)
        for i, one in enumerate(asked):
            chosen = replace(select(one, kind=kind, most=most), rows="SELECT * FROM t", selection="all")
            measured = plan(chosen, accountant, UNITS)
            found = []
            for leaves in (-1, 3):
                connection.execute(f"CREATE OR REPLACE VIEW t AS SELECT * FROM everybody WHERE u <> {leaves}")
                all_of = engine_totals(chosen, measured.components, lambda q: connection.execute(q).fetchnumpy(), "key")
                found.append(dict(zip(all_of.keys, exact(measured, all_of), strict=True)))
            nothing = np.zeros(measured.measured, dtype=np.int64)
            change = np.array([found[0].get(key, nothing) - found[1].get(key, nothing) for key in found[0]])
            assert set(found[1]) <= set(found[0])
            largest[i] = max(largest[i], loss(measured, change))
    assert np.all(largest <= 1 + 1e-12)
    assert largest[1] > 0.3  # the unit takes part


def own_groups_shown(measured, weights):
    """Return the probability that a group of one unit alone is shown, by the exact law of the noise on its count."""
    scale = measured.blocks[measured.counted].scale
    least = measured.tau - np.asarray(weights, dtype=float)
    if measured.noise == "gaussian":
        hidden = scipy.stats.norm.logcdf((least - 0.5) / float(scale))
    else:
        chance = math.exp(-1 / scale)
        tail = np.where(
            least > 0, chance ** np.maximum(least, 0) / (1 + chance), 1 - chance ** (1 - least) / (1 + chance)
        )
        hidden = np.log1p(-tail)
    return -math.expm1(hidden.sum())


@pytest.mark.parametrize(
    ("noise", "contribution", "most"),
    [("gaussian", "l2", 4096), *itertools.product(["gaussian", "laplace"], [None], [1, 7])],
)
def test_groups_that_a_unit_has_to_itself_show_with_the_delta_that_is_charged(noise, contribution, most):
    """From a public session to what its ledger says: the threshold against the weights that the engine adds up."""
    frame = pd.DataFrame({"person": np.arange(3000) % 1000, "k": np.arange(3000) % 3})
    session = dpn.Session(budget=dpn.Budget(4.0, 1e-5, noise=noise))
    session.protect(frame, "t", unit="person", max_rows=5000)
    options = "" if contribution == "l2" else f"WITH DIFFERENTIAL_PRIVACY OPTIONS(max_groups_contributed = {most})"
    text = f"SELECT {options} k, COUNT(*) AS n FROM t GROUP BY k"
    release = session.sql(text, epsilon=1.0, contribution=contribution).run()
    record = session.ledger.get(release.number)
    measured = Measuring.from_json(record.details["selects"][0]["measuring"])
    charged = sum(map(Fraction, record.plan["deltas"]))
    assert charged == session.ledger.delta_spent
    assert charged > 0
    chosen = replace(
        statement_from_json(record.plan["statement"]).selects[0], rows="SELECT u, k0 FROM t", tables=("t",)
    )
    column = measured.blocks[measured.counted].columns[0]
    worst = 0.0
    for groups in sorted({1, 2, 3, 4, 5, 7, 8, 10, 30, 100, 1000, 4096, 5000}):
        rows = [("only", k) for k in range(groups)]
        connection = duckdb.connect()
        connection.register("t", pd.DataFrame(rows, columns=["u", "k0"]))
        found = engine_totals(chosen, measured.components, lambda q, c=connection: c.execute(q).fetchnumpy(), "key")
        weights = found.numbers[:, column]
        assert np.count_nonzero(weights) <= most
        worst = max(worst, own_groups_shown(measured, weights[weights > 0]))
    assert worst <= float(charged)
    assert worst > float(charged) / 10  # hides no more than it must
    session.close()
