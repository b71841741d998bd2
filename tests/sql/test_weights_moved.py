"""What it does to means and quantiles that only some rows of a unit count: weights, chance, and how many should."""

import math
from contextlib import closing
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.privacy.budget import Budget
from dpnotebook.sql.aggregates.counted_rows import CountedRows, kept_of
from dpnotebook.sql.aggregates.row_histogram import RowHistogram, row_edges
from dpnotebook.sql.aggregates.taken import Taken
from dpnotebook.sql.aggregates.units_rows import Averaged, nearly_best, rows_to_count
from dpnotebook.sql.aggregates.weights_moved import STEPS, squared_shifts, weights_moved

MOST = 4_096
COUNTED = [f"dpnotebook.session.{module}.bounded_by" for module in ("statements", "readings")]


def of_units(rows, tried):
    """Return the weights of units with so many rows, each in a bin of its own."""
    rows = np.asarray(rows, dtype=float)
    return weights_moved(rows, np.maximum(rows - np.asarray(tried, dtype=float)[:, None], 0.0), np.ones(rows.size))


def test_a_mean_moves_as_far_as_that_of_the_rows_that_count():
    """Of units with means of their own, worked out from the rows themselves."""
    random = np.random.default_rng(1)
    rows, means = np.sort(random.integers(1, 60, 40)), random.normal(size=40)
    found = of_units(rows, [1, 3, 7, 20, 100])
    for at, most in enumerate([1, 3, 7, 20, 100]):
        counted = np.minimum(rows, most)
        moved = (means * rows).sum() / rows.sum() - (means * counted).sum() / counted.sum()
        assert found.lost[at] @ means == pytest.approx(moved, abs=1e-12)
        apart = np.abs(rows / rows.sum() - counted / counted.sum()).sum() / 2
        assert found.moved[at] == pytest.approx(apart, abs=1e-12)
        assert found.kept[at] == counted.sum()


def test_it_is_likely_to_move_as_a_random_walk_says():
    """Against the covariance of the walk, written out."""
    rows = np.array([1.0, 2.0, 3.0, 5.0, 8.0, 40.0, 41.0])
    found = of_units(rows, [1, 4])
    doublings = np.log2(rows)
    for step, shifts in zip(STEPS, squared_shifts(found, rows), strict=True):
        covariance = step**2 * np.minimum(doublings[:, None], doublings)
        assert shifts.tolist() == pytest.approx([lost @ covariance @ lost for lost in found.lost])


@pytest.mark.parametrize(("rows", "most"), [(12, 5), (12, 1), (3, 3), (40, 39)])
def test_chance_is_that_of_a_sample_without_replacement(rows, most):
    """Of 50 units with as many rows each: the variance of a mean of drawn values about that of all."""
    found = of_units(np.full(50, rows), [most])
    assert found.chance[0] == pytest.approx((1 / most - 1 / rows) / 50, abs=1e-15)


def tables(units, random):
    """Return how many rows units have, in tables of several kinds."""
    few = random.geometric(0.45, units)
    some = few.copy()
    some[: units // 100] = random.integers(20, 81, units // 100)
    yield "a few", few
    yield "one in a hundred has many", some
    yield "skewed", np.clip(np.round(random.lognormal(1.5, 1.0, units)), 1, 126).astype(int)
    yield "at most five", random.integers(1, 6, units)
    yield "twelve each", np.full(units, 12)
    yield "a heavy tail", np.minimum(np.ceil(random.pareto(1.3, units) + 0.01), 3_000).astype(int)


def means_of(rows, kind, random):
    """Return the means of units, between -1 and 1: that have nothing to do with their rows, or grow with them."""
    doublings = np.log2(rows)
    slope = {"alike": 0.0, "growing": 0.15}[kind]
    return np.clip(slope * (doublings - doublings.mean()) + random.normal(0, 0.3, rows.size), -1, 1)


def error(rows, means, most, noise):
    """Return how wrong a mean is where so many rows of each unit count: by weights, by chance, and by noise."""
    counted = np.minimum(rows, most)
    kept = counted.sum()
    moved = (means * rows).sum() / rows.sum() - (means * counted).sum() / kept
    chance = 0.4**2 * (counted * (1 - counted / rows)).sum() / kept**2
    return math.sqrt(min(moved**2 + chance + (noise * most / kept) ** 2, 1.0))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("close", [1.0, 0.2], ids=["bounds as far as values", "bounds five times as far"])
def test_means_err_about_as_little_as_they_would_in_hindsight(close):
    """Six kinds of tables, of three sizes, with noise of three sizes, and the part of the price that finding takes.

    Five rows of each err by half as much again where tables are small, by several times as much where they are large.
    """
    random = np.random.default_rng(5)
    ours, five = [], []
    for units in (500, 5_000, 50_000):
        for _, rows in tables(units, random):
            exact, _ = np.histogram(rows, np.array(row_edges(MOST), dtype=float))
            for kind in ("alike", "growing"):
                means = close * means_of(rows, kind, random)
                for epsilon in (0.1, 0.5, 2.0):
                    noise, scale = 2.0 / epsilon, 10.0 / epsilon
                    best = min(error(rows, means, most, noise) for most in (*range(1, 17), 24, 32, 48, 64, 90, 128))
                    noisy = exact + np.rint(random.laplace(0, scale, exact.size)).astype(int)
                    told = RowHistogram(MOST, tuple(map(int, noisy)), Fraction(scale), "laplace", 1)
                    found = rows_to_count(told, [Averaged(noise / 0.9)], 1, MOST)
                    ours.append(error(rows, means, 5 if found is None else found.most, noise / 0.9) / best)
                    five.append(error(rows, means, 5, noise) / best)
    average, usual = (math.exp(np.log(ratios).mean()) for ratios in (ours, five))
    assert average < 2.0
    assert average < (0.6 if close == 1.0 else 1.0) * usual
    assert np.quantile(ours, 0.9) < 4.0
    assert np.quantile(five, 0.9) > 2 * np.quantile(ours, 0.9)


def test_most_units_with_more_rows_count_in_full_where_noise_is_little():
    rows = np.random.default_rng(2).geometric(0.3, 100_000)
    exact, _ = np.histogram(rows, np.array(row_edges(MOST), dtype=float))
    told = RowHistogram(MOST, tuple(map(int, exact)), Fraction(10), "laplace", 1)
    little, much = (rows_to_count(told, [Averaged(noise)], 1, MOST) for noise in (1.0, 5_000.0))
    assert little.most >= np.quantile(rows, 0.999)
    assert much.most <= 3
    assert little.kept > 0.999 > much.kept
    assert much.kept == pytest.approx(np.minimum(rows, much.most).sum() / rows.sum(), rel=0.02)
    assert nearly_best(told, [Averaged(1.1)], 1, MOST, little.most)
    assert not nearly_best(told, [Averaged(5_000.0)], 1, MOST, little.most)


def test_what_is_told_is_recorded_and_said():
    found = CountedRows(7, moved=Taken(0.3, 1.9, apart=9.5, looked=4_096.0), averaged=("averages",), kept=0.97)
    again = CountedRows.from_json(found.to_json())
    assert (again.most, again.kept, again.words) == (7, 0.97, found.words)
    assert (again.moved.about, again.moved.most, again.moved.apart, again.moved.looked) == (0.3, 1.9, 9.5, 4_096.0)
    assert "averages by about 0.3% of the range of values, at most about 1.9% (9.5% if noise hides some" in found.words
    assert kept_of({"rows": found.to_json()}, 0) == 0.97
    assert kept_of({"kept": {"1": 0.5}}, 1) == 0.5
    assert kept_of({}, 0) == 1.0
    assert "hardly any has more" in CountedRows(7, moved=Taken(0.01, 0.02), averaged=("averages",)).words
    both = CountedRows(7, Taken(3.0, 9.0), moved=Taken(0.3, 1.9), averaged=("variances", "quantiles"))
    assert "leaves about 3 rows out of a group, at most about 9; units with more count less" in both.words
    assert "variances by about 0.3% of the range of values, and quantiles by as much of the ranks" in both.words
    ranks = CountedRows(7, moved=Taken(0.3, 1.9), averaged=("quantiles",)).words
    assert "which moves quantiles by about 0.3% of the ranks, at most about 1.9%, beside the noise" in ranks


def test_the_most_that_quantiles_move_is_said_once():
    """It was "by up to 2.9% of the ranks, at most about 2.4%": the second number is that of means."""
    moved = Taken(0.3, 2.4, apart=9.5, looked=4_096.0)
    said = CountedRows(7, moved=moved, averaged=("quantiles",), shifted=0.029).words
    assert "moves quantiles by up to 2.9% of the ranks (9.5% if noise hides some with far more), beside" in said
    said = CountedRows(7, moved=Taken(0.3, 2.4), averaged=("quantiles",), shifted=0.029).words
    assert "moves quantiles by up to 2.9% of the ranks, beside the noise" in said
    said = CountedRows(7, moved=moved, averaged=("averages", "quantiles"), shifted=0.029).words
    assert (
        "moves averages by about 0.3% of the range of values, at most about 2.4% (9.5% if noise hides some with far "
        "more), and quantiles by up to 2.9% of the ranks, beside the noise" in said
    )


def clinic(units=8_000, seed=4):
    """Return visits: of one person in fifty 20 to 60, who mostly come back soon; the others have few, and hardly do."""
    random = np.random.default_rng(seed)
    rows = random.geometric(0.5, units)
    many = units // 50
    rows[:many] = random.integers(20, 61, many)
    who = np.repeat(np.arange(units), rows)
    soon = random.random(who.size) < np.where(who < many, 0.7, 0.05)
    cost = np.clip(random.gamma(4, 10, who.size), 0, 200)
    return pd.DataFrame({"who": who, "soon": soon.astype(float), "cost": cost})


@pytest.fixture(scope="module")
def visits():
    """Return such visits."""
    return clinic()


def opened(frame, delta=0.0, **rows):
    """Return a session in which nothing is said of how many rows people have, unless `rows` does."""
    session = dpn.Session(Budget(50.0, delta=delta), ":memory:", confirm="never")
    session.protect(frame, "visits", unit="who", domain={"soon": dpn.Bins(0, 1, width=0.5)}, **rows)
    return session


def average(session, epsilon, column="LEAST(GREATEST(soon, 0), 1)"):
    """Return the query for the mean of a column, of values between bounds."""
    return session.sql(f"SELECT AVG({column}) AS x FROM visits", epsilon=epsilon)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("declared", [{}, {"max_rows": 100}], ids=["nobody said", "declared"])
def test_people_with_many_rows_weigh_what_they_do(visits, declared):
    """The mean is .28, and .13 where five rows of each count: the error was ten times what the card said."""
    exact = visits["soon"].mean()
    five = visits.groupby("who").head(5)["soon"].mean()
    assert abs(five - exact) > 0.1
    with closing(opened(visits, **declared)) as session:
        release = average(session, 2.0).run()
        assert abs(release.frame["x"][0] - exact) < 0.2 * abs(five - exact)
        (said,) = [note for note in release.notes if "rows of each unit count" in note]
        assert "hardly any has more" in said or "units with more count less" in said


def test_a_count_and_a_median_need_no_declared_rows_with_delta(visits):
    """It was refused: a median cannot be clipped to a norm."""
    with closing(opened(visits, delta=1e-6)) as session:
        query = session.sql("SELECT COUNT(*) AS n, MEDIAN(LEAST(GREATEST(cost, 0), 200)) AS m FROM visits", epsilon=2.0)
        assert "find first how many rows" in " ".join(query.plan.steps)
        found = query.run().frame
        assert found["n"][0] == pytest.approx(len(visits), rel=0.25)
        assert found["m"][0] == pytest.approx(visits["cost"].median(), rel=0.15)


def test_a_mean_that_was_paid_for_with_five_rows_stays_free(visits, monkeypatch):
    with closing(opened(visits)) as session:
        for place in COUNTED:
            monkeypatch.setattr(place, lambda contribution, ledger: contribution)  # as earlier versions had it
        first = average(session, 1.0).run()
        assert any("5 rows of each who are drawn" in note for note in first.notes)
        monkeypatch.undo()
        query = average(session, 1.0)
        assert query.plan.free
        assert query.run().frame["x"][0] == first.frame["x"][0]
        assert "rows of each who are drawn" not in str(average(session, 3.0).plan.warnings)


def test_an_error_of_a_mean_is_that_of_five_rows_until_it_is_known(visits, same_noise):
    with closing(opened(visits)) as session:
        session.sql("SELECT AVG(LEAST(GREATEST(soon, 0), 1)) AS x FROM visits", epsilon=1.0, fresh=True).run()
        known = session.sql("SELECT AVG(LEAST(GREATEST(soon, 0), 1)) AS x FROM visits", error=0.01)
        assert "5 rows" not in " ".join(known.plan.warnings)
        found = known.run().frame
        assert (found["x_upper"] - found["x_lower"])[0] / 2 <= 0.0101


def test_what_later_statements_cost_less_for_is_one_histogram(visits, same_noise):
    with closing(opened(visits)) as session:
        first = average(session, 1.0).run()
        assert "profile" in session.ledger.get(first.number).details["selects"][0]
        later = session.sql("SELECT COUNT(*) AS n FROM visits", epsilon=0.5).run()
        assert "profile" not in session.ledger.get(later.number).details["selects"][0]
