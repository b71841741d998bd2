"""Covariances and correlations whose bounds are found: by the error that they lead to, for what is charged."""

import math
from contextlib import closing
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from added_up import SECRET, connect
from added_up import select as grouped
from private_selects import pair, plan, select
from strange_units import both, influences

import dpnotebook as dpn
from dpnotebook.privacy.accountant import UNITS, accountant_for
from dpnotebook.privacy.budget import Budget
from dpnotebook.privacy.laws import draw_integers
from dpnotebook.sql.aggregates.bounds import PARTS_OF_UNIT, STEPS_OF_MEANS
from dpnotebook.sql.aggregates.budget_split import shares
from dpnotebook.sql.aggregates.building import measuring
from dpnotebook.sql.aggregates.centring import each_of, of_both, of_products
from dpnotebook.sql.aggregates.covariance import PairTaken
from dpnotebook.sql.aggregates.estimating import estimate
from dpnotebook.sql.aggregates.noising import exact
from dpnotebook.sql.aggregates.norms import norm_edges
from dpnotebook.sql.aggregates.pair_bounds import Side, best_sides, noise_of_moments, taken_by
from dpnotebook.sql.aggregates.ratios import weights
from dpnotebook.sql.aggregates.taken import Taken
from dpnotebook.sql.measured_profile import measured_profile, measured_ranges
from dpnotebook.sql.profile import clips
from dpnotebook.sql.rewrite.bounded_aggregation import totals
from dpnotebook.sql.rewrite.profiles import norms

GAUSSIAN = accountant_for(Budget(1.0, 1e-6))
LAPLACE = accountant_for(Budget(1.0, 1e-6, noise="laplace"))
BOTH = pytest.mark.parametrize("accountant", [GAUSSIAN, LAPLACE], ids=["gaussian", "laplace"])
KINDS = pytest.mark.parametrize("kind", ["covariance", "correlation"])
VALUES = of_both(
    (Fraction(-5), Fraction(30), Fraction(7, 2), Fraction(9, 4), Fraction(2)),
    (Fraction(0), Fraction(64), Fraction(5), Fraction(3), Fraction(4)),
)


def clipped(kind, norm=4096, units=UNITS):
    """Return what is measured of pairs whose vectors are clipped."""
    chosen = select(pair(kind), kind="l2", selection="all")
    given = shares(chosen, units, GAUSSIAN, (0,))
    return measuring(chosen, given, GAUSSIAN, found={0: (*VALUES, Fraction(norm))})


@KINDS
@pytest.mark.parametrize("single", [False, True])
def test_one_unit_changes_all_parts_by_no_more_than_the_norm(kind, single):
    """Whatever it has, in however many groups, and by no less where it has much: noise is for the norm."""
    chosen, measured = grouped(inputs=2, kind="l2", single=single), clipped(kind, 60 if single else 300)
    largest, most = measured.components[0].largest, 0.0
    (block,) = measured.blocks
    assert len(block.columns) == (6 if kind == "correlation" else 4)
    for changed in influences(chosen, measured.components):
        assert changed <= largest**2
        most = max(most, changed / largest**2)
    assert most > (0.5 if single else 0.98)
    # Of the whole cost, with the noise that is drawn: a tenth less would cost a fifth more.
    assert Fraction(largest**2) / block.scale**2 * UNITS <= UNITS
    assert Fraction(largest**2) / block.scale**2 > Fraction(999, 1000)


@KINDS
@pytest.mark.parametrize("people", [3_000, 60_000])
def test_a_clipped_pair_and_its_profile_cost_what_it_costs(kind, people):
    """Every histogram counts a unit once, and every vector is as long as its norm: all of them, by the noise drawn."""
    chosen, total, drawn = replace(select(pair(kind), kind="l2"), inputs=2), GAUSSIAN.units(0.7), []
    given = shares(chosen, total, GAUSSIAN)
    units = np.arange(people)
    rows = {"u": units.astype(str), "k0": (units % 3).astype(str), "x0": units % 50 + 1.0, "x1": units % 47 - 9.0}

    def draw(noise, scale, size):
        drawn.append(scale)
        return np.zeros(size, dtype=np.int64)

    chosen = replace(chosen, rows='SELECT u, k0, x0, x1 FROM "the table"', tables=("the table",))
    found, told, given = measured_profile(chosen, {}, given, GAUSSIAN, 3, 3, connect(pd.DataFrame(rows)), draw)
    assert len(told) == 3  # norms, and both columns
    means = {found[0].means.scale, found[0].means.rough}
    worth = {
        scale: STEPS_OF_MEANS if scale in means else 1 if scale == found[0].scale else PARTS_OF_UNIT for scale in drawn
    }
    spent = sum(worth[scale] ** 2 / scale**2 for scale in drawn)
    bounds = {i: clip.bounds for i, clip in clips(chosen, found, given, GAUSSIAN).items()}
    measured = measuring(chosen, given, GAUSSIAN, Fraction(1, 10**6), bounds)
    hidden = measured.blocks[measured.counted]
    spent += sum(measured.component(block.columns[0]).largest ** 2 / block.scale**2 for block in measured.blocks)
    assert hidden in measured.blocks
    assert spent * UNITS <= total
    assert float(spent * UNITS / total) > 0.97


@BOTH
@KINDS
def test_bounds_of_both_columns_are_found_for_what_is_given_for_that(accountant, kind):
    """By the noise that is drawn, where single rows count: each histogram counts a unit once."""
    chosen = replace(select(pair(kind), kind="rows", most=3), rows='SELECT u, k0, x0, x1 FROM "the table"', inputs=2)
    total, drawn = accountant.units(0.7), []
    given = shares(chosen, total, accountant)
    units = np.arange(60_000)
    rows = {"u": units.astype(str), "k0": (units % 3).astype(str), "x0": units % 50 + 1.0, "x1": units % 47 - 9.0}

    def draw(noise, scale, size):
        drawn.append(scale)
        return np.zeros(size, dtype=np.int64)

    found, told, rest = measured_ranges(chosen, given, accountant, 3, connect(pd.DataFrame(rows)), draw)
    assert len(found[0].bounds) == 4
    assert len(told) == 2
    spent = UNITS * sum((PARTS_OF_UNIT / scale) ** accountant.law.power for scale in drawn)
    assert sum(rest.auto) - 4 <= spent <= sum(rest.auto)
    assert given.total - 4 <= rest.total <= given.total <= total


@KINDS
def test_answers_without_noise_are_those_of_numpy(kind):
    """By way of the engine, of two groups, with a norm that clips nobody."""
    random = np.random.default_rng(4)
    x = random.normal(3, 2, 400).clip(-5, 30)
    y = (x + random.normal(2, 2, 400)).clip(0, 64)
    groups = np.where(np.arange(400) < 150, "a", "b")
    rows = list(zip((np.arange(400) % 90).astype(str), groups, x, y, strict=True))
    measured = replace(clipped(kind), grouped=True)
    found = totals(grouped(inputs=2, kind="l2"), measured.components, connect(both(rows)), SECRET)
    (answers,) = estimate(measured, exact(measured, found), 0.95)
    for key, answer in zip(found.keys, answers.value, strict=True):
        mine = groups == key[0]
        moments = np.corrcoef(x[mine], y[mine]) if kind == "correlation" else np.cov(x[mine], y[mine], bias=True)
        assert answer == pytest.approx(moments[0, 1], rel=1e-5)


def test_norms_are_those_of_all_parts():
    """Of a unit in two groups: the root of all squares, in lengths from the centres."""
    rows = [("p", "a", 4.0, 2.0), ("p", "b", 10.0, 3.0), ("p", "b", 12.0, 1.0), ("p", "b", 1.0, None)]
    (found,) = norms(grouped(inputs=2, kind="l2"), [(pair("correlation"), VALUES)], connect(both(rows)))
    (_, _, _, length, spread), (_, _, _, other, wide) = each_of(VALUES)
    square = 0.0
    for group in ("a", "b"):
        a, b = np.array([(x - 3.5, y - 5) for _, k, x, y in rows if k == group and y is not None]).T
        a, b = a / float(length), b / float(other)
        squares = ((a**2 - 1).sum() / float(spread)) ** 2 + ((b**2 - 1).sum() / float(wide)) ** 2
        square += a.size**2 + a.sum() ** 2 + b.sum() ** 2 + squares + ((a * b).sum() / float(of_products(VALUES))) ** 2
    (place,) = np.flatnonzero(found.counts)
    assert norm_edges()[place] <= math.sqrt(square) < norm_edges()[place + 1]


@BOTH
@KINDS
def test_the_noise_that_bounds_are_chosen_for_is_that_of_the_moments(accountant, kind):
    measured = plan(select(pair(kind, 0, 2, 0, 2), kind="rows", selection="all"), accountant, UNITS // 100)
    part = measured.parts[0]
    columns = dict.fromkeys(column for i in part.blocks for column in measured.blocks[i].columns)
    worth = {column: 1.0 / part.half if place else 1.0 for place, column in enumerate(columns)}
    _, covariance = weights(measured, part, worth)
    one = accountant.law.variance(accountant.scale(UNITS // 100, 1))
    expected = noise_of_moments(accountant.law, squares=kind == "correlation") * one
    np.testing.assert_allclose(covariance, expected, rtol=1e-3, atol=1e-4 * one)


def side(half, lost):
    """Return bounds so far from the mean of a column of standard deviation 1, of whose variance a part is lost."""
    variance = 1.0 - lost
    cut = Taken(lost, lost, variance, below=lost, above=0.0)
    return Side((Fraction(-half), Fraction(half)), 0.0, math.sqrt(variance) / float(half), 3.0, cut)


@pytest.mark.parametrize("squares", [False, True])
@BOTH
def test_the_more_noise_there_is_the_narrower_bounds_are(accountant, squares):
    sides = [side(Fraction(half), lost) for half, lost in ((1, 0.4), (2, 0.1), (4, 0.01), (16, 0.0))]
    chosen = [
        float(best_sides(sides, sides, noise, accountant.law, squares=squares)[0].bounds[1])
        for noise in (1e-9, 1e-3, 1e-2, 1.0)
    ]
    assert chosen == sorted(chosen, reverse=True)
    assert chosen[0] == 16
    assert chosen[-1] <= 2


@BOTH
def test_a_correlation_is_not_that_of_what_little_deep_cuts_leave(accountant):
    """Errors of a correlation count in the deviations of what is kept: in those of all they are next to nothing."""
    deep, wide = side(Fraction(1, 20), 0.996), side(Fraction(4), 0.001)
    assert best_sides([deep, wide], [deep, wide], 3e-3, accountant.law, squares=True) == (wide, wide)


@pytest.mark.parametrize("r", [-0.9, -0.3, 0.0, 0.5, 1.0])
def test_intervals_hold_what_bounds_take_however_columns_go_together_beyond(r):
    """What is cut off of both may have nothing to do with one another, or go together all: as far as r lets it."""
    first, other = side(Fraction(2), 0.2), side(Fraction(2), 0.1)
    down, up = (
        float(one[0]) for one in PairTaken.of(taken_by(first, other, squares=True)).reaches(np.array([r]), squares=True)
    )
    kept, joint = math.sqrt(0.8 * 0.9), (0.2 + 0.1) / 2
    for together in {0.0 if abs(r) <= 0.5 else r, r, math.copysign(1.0, r)}:
        assert r - down - 1e-9 <= r * kept + joint * together <= r + up + 1e-9
    if r == 1.0:
        assert up == 0.0
    of_covariances = PairTaken.of(taken_by(first, other, squares=False))
    down, up = (float(one[0]) for one in of_covariances.reaches(np.array([r]), squares=False))
    # In both standard deviations of what is kept.
    assert -down - 1e-9 <= joint * r / kept <= up + 1e-9


@pytest.mark.parametrize("squares", [False, True])
@BOTH
def test_values_that_seem_to_be_far_beyond_bounds_stop_no_answer(accountant, squares):
    """Noise alone makes some seem to be there, once in a thousand tables: next to nothing of the variance is left."""
    cut = Taken(1e32, 2e32, below=1e32, above=0.0)
    far = Side((Fraction(-2), Fraction(2)), 0.0, 0.5, 3.0, cut)
    for other in (far, side(Fraction(4), 0.001)):
        first, second = best_sides([far], [other], 1e-2, accountant.law, squares=squares)
        taken = taken_by(first, second, squares=squares)
        assert taken.known
        reaches = PairTaken.of(taken).reaches(np.array([-1.0, 0.0, 0.7]), squares=squares)
        assert np.isfinite(reaches).all()
        # Of all values the product of both standard deviations is at least what an interval must hold a part of.
        if not squares:
            of_all = [math.hypot(one.deviation, math.sqrt(one.cut.below)) for one in (first, second)]
            of_kept = first.deviation * second.deviation
            assert reaches[1][1] * of_kept == pytest.approx(taken.joint * math.prod(of_all), rel=1e-9)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("kind", ["CORR", "COVAR_SAMP", "REGR_SLOPE"])
def test_pairs_with_a_few_values_far_from_all_others_are_answered(kind, delta):
    """What is charged is answered, though bounds take next to all of the variance of a column."""
    random = np.random.default_rng(7)
    persons = 3_000
    x = np.where(np.arange(persons) % 25 == 0, 1e18, random.normal(5.0, 1.0, persons))
    columns = {"who": np.arange(persons), "x": x, "y": random.normal(40.0, 10.0, persons), "same": 7.0}
    with closing(dpn.Session(dpn.Budget(20.0, delta), ":memory:", confirm="never")) as session:
        session.protect(pd.DataFrame(columns), "t", unit="who", max_rows=1)
        for other in ("y", "same"):
            for epsilon in (0.05, 1.0, 4.0):
                release = session.sql(f"SELECT {kind}(x, {other}) AS c FROM t", epsilon=epsilon).run()
                assert release.frame["c_lower"].notna().all() or release.frame["c"].isna().all()


def people(seed, rows=60_000, persons=8_000):
    """Return rows of persons, some with many, whose two amounts have heavy tails, and two scores and measures."""
    random = np.random.default_rng(seed)
    weights_of = random.lognormal(0, 1.2, persons)
    who = random.choice(persons, rows, p=weights_of / weights_of.sum())
    one = np.sqrt(0.5) * (random.normal(size=rows) + random.normal(size=persons)[who])
    other = 0.6 * one + 0.8 * random.normal(size=rows)
    return pd.DataFrame(
        {
            "who": who,
            "paid": np.exp(1.2 * one),
            "billed": np.exp(1.2 * other),
            "year": 2010 + 5 * one,
            "weight": 1e6 + 10 * other,
            "score": np.clip(np.round(5 + 2 * one), 0, 10),
            "grade": np.clip(np.round(5 - 2 * other), 0, 10),
        }
    )


@pytest.mark.statistical
@pytest.mark.parametrize("delta", [1e-6, None], ids=["clipped", "rows"])
@pytest.mark.parametrize(
    ("first", "other", "near"), [("paid", "billed", 0.3), ("year", "weight", 0.12), ("score", "grade", 0.12)]
)
def test_a_correlation_without_any_option_is_near_and_its_interval_holds(first, other, near, delta):
    frame = people(8)
    truth = frame[first].corr(frame[other])
    held = []
    for _ in range(4):
        with closing(dpn.Session(budget=dpn.Budget(1.0, delta) if delta else dpn.Budget(1.0))) as session:
            session.protect(frame, "t", unit="who")
            answer = session.sql(f"SELECT CORR({first}, {other}) AS r FROM t", epsilon=1.0).run().frame.iloc[0]
        assert answer["r"] == pytest.approx(truth, abs=near)
        held.append(answer["r_lower"] <= truth <= answer["r_upper"])
    assert sum(held) >= 3


def test_what_was_found_serves_later_pairs_for_nothing():
    with closing(dpn.Session(budget=dpn.Budget(6.0, 1e-6))) as session:
        session.protect(people(9), "t", unit="who")
        first = session.sql("SELECT CORR(score, grade) AS r FROM t", epsilon=1.0).run()
        assert {"score", "grade"} <= {
            word.strip("(),") for word in str(first).replace(",", " ").replace("(", " ").split()
        }
        later = session.sql("SELECT CORR(score, grade) AS r FROM t", epsilon=1.5)
        assert later.plan.error < 0.3  # known before it runs
        other = session.sql("SELECT CORR(score, grade) AS r FROM t", error=0.2)
        assert other.plan.free or other.plan.cost.epsilon < 6.0
        assert len(session.profile()) >= 1


def test_the_card_tells_a_range_of_errors_before_a_first_run():
    with closing(dpn.Session(budget=dpn.Budget(6.0, 1e-6))) as session:
        session.protect(people(9), "t", unit="who")
        (part,) = session.sql("SELECT CORR(score, grade) AS r FROM t", epsilon=1.0).plan.parts
        least, most = part.between
        assert 0 < least < most <= 1


def test_noise_is_drawn_for_vectors_of_pairs():
    measured = clipped("correlation")
    (block,) = measured.blocks
    drawn = draw_integers(GAUSSIAN.noise, block.scale, 4_000)
    assert drawn.std() == pytest.approx(measured.components[0].largest, rel=0.06)
