"""Means that follow from released means cost nothing: their rows, their roll-ups, and the same in SQL."""

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.domain import Domain
from dpnotebook.planner.history import History
from dpnotebook.planner.information import Information
from dpnotebook.planner.items import item_of
from dpnotebook.planner.known_means import SumsTogether, _missing, known_means
from dpnotebook.planner.marginal_measurement import LinearForm, known_in, part_of, sums_as_counts
from dpnotebook.planner.plan import Planned
from dpnotebook.planner.value_ends import COUNT
from dpnotebook.predicate import Predicate
from dpnotebook.privacy.laws import law_of
from dpnotebook.query.measurement import Axis, Measurement
from dpnotebook.query.question import Measure, Question, bounded_value
from dpnotebook.workload import Identity, Kron

pytestmark = pytest.mark.usefixtures("same_noise")  # what becomes of it is tested, not how it is drawn

BUDGETS = {"pure": dpn.Budget(20.0), "gaussian": dpn.Budget(20.0, 1e-6)}
LEVELS = {"sex": ["F", "M"], "city": ["A", "B", "C", "D"]}


@pytest.fixture(params=BUDGETS)
def asked(request):
    rng = np.random.default_rng(8)
    people = pd.DataFrame({name: rng.choice(levels, 8_000) for name, levels in LEVELS.items()})
    people["stay"] = rng.integers(0, 60, 8_000)
    session = dpn.Session(budget=BUDGETS[request.param])
    session.protect(people, "people", domain=LEVELS | {"stay": dpn.Range(0, 59)}, rows=8_000)
    yield session, people
    session.close()


def test_rows_and_roll_ups_of_released_means_are_free(asked):
    session, people = asked
    table = people.dp.groupby(["sex", "city"]).mean("stay", epsilon=0.5).run().frame
    paid = session.spent.epsilon
    one = people.dp.mean("stay", where="sex == 'F' and city == 'B'", epsilon=0.5)
    assert one.plan.free
    shown = one.run().frame
    row = table[(table["sex"] == "F") & (table["city"] == "B")]
    for name in ("value", "std_error", "lower", "upper"):
        assert shown[name][0] == pytest.approx(row[name].iloc[0], rel=1e-6)
    # In a roll-up a hundred of either sum's noises are added up: an epsilon so much smaller tells as much alone.
    for query in (
        people.dp.groupby("city").mean("stay", epsilon=0.3),
        people.dp.groupby("sex").mean("stay", where="city in ('A', 'B')", epsilon=0.2),
        people.dp.mean("stay", epsilon=0.1),
        session.sql("SELECT AVG(stay) AS m FROM people WHERE city = 'C'", epsilon=0.3),
    ):
        assert query.plan.free, query.plan
        release = query.run()
        assert release.paid == 0
        values = release.frame.iloc[:, -4].to_numpy(dtype=float)
        assert (np.abs(values - 29.5) < 3).all()
    assert session.spent.epsilon == paid
    assert not people.dp.mean("stay", epsilon=0.6).plan.free
    assert not people.dp.mean("stay", where="sex == 'F' and city == 'B'", epsilon=0.6).plan.free


def test_an_error_that_is_known_is_free_and_a_smaller_one_is_not(asked):
    _, people = asked
    released = people.dp.groupby("city").mean("stay", error=1.0)
    assert not released.plan.free
    released.run()
    assert people.dp.mean("stay", error=1.0).plan.free
    assert people.dp.mean("stay", error=released.plan.error / 40).plan.cost.epsilon > 0


@pytest.mark.one_in(3, first=1)
def test_a_row_is_free_at_the_error_that_the_screen_shows(asked):
    """Means in the middle of their bounds have a smaller error than was foretold, which took them to be at one."""
    session, people = asked
    shown = people.dp.groupby(["sex", "city"]).mean("stay", epsilon=0.5).run().frame
    paid = session.spent.epsilon
    for _, row in shown.iterrows():
        error = (row["upper"] - row["lower"]) / 2
        where = f"sex == '{row['sex']}' and city == '{row['city']}'"
        again = people.dp.mean("stay", where=where, error=error)
        assert again.plan.free, again.plan
        assert again.plan.error == pytest.approx(error, rel=1e-5)
        assert again.run().frame["value"][0] == pytest.approx(row["value"], rel=1e-6)
        assert not people.dp.mean("stay", where=where, error=0.9 * error).plan.free
    assert session.spent.epsilon == paid


def in_unequal_cities(session):
    """Return protected people, of whom a city has from 5 to 60 of 100."""
    rng = np.random.default_rng(5)
    people = pd.DataFrame({"city": rng.choice(LEVELS["city"], 8_000, p=[0.6, 0.2, 0.15, 0.05])})
    people["stay"] = rng.integers(0, 60, 8_000)
    session.protect(people, "people", domain={"city": LEVELS["city"], "stay": dpn.Range(0, 59)}, rows=8_000)
    return people


@pytest.mark.one_in(3, first=1)
@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
def test_a_small_group_is_free_only_at_the_error_that_it_has(budget):
    """A city with few people was foretold the error of a city with an equal share."""
    with dpn.Session(budget=budget) as session:
        people = in_unequal_cities(session)
        people.dp.groupby("city").mean("stay", epsilon=0.5).run()
        for city in LEVELS["city"]:
            shown = people.dp.mean("stay", where=f"city == '{city}'", epsilon=0.001).run()
            assert shown.paid == 0
            delivered = (shown.frame["upper"][0] - shown.frame["lower"][0]) / 2
            for times in (0.5, 0.9, 1.001, 1.5, 3.0):
                plan = people.dp.mean("stay", where=f"city == '{city}'", error=times * delivered).plan
                assert plan.free == (times > 1)
                if plan.free:
                    assert plan.error == pytest.approx(delivered, rel=1e-5)


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
def test_a_mean_that_was_asked_before_is_free_and_shows_the_error_that_it_has(budget):
    """Running the cell again costs nothing, and its card no longer says what was foretold for more rows."""
    with dpn.Session(budget=budget) as session:
        people = in_unequal_cities(session)
        first = people.dp.groupby("city").mean("stay", error=2.0).run()
        again = people.dp.groupby("city").mean("stay", error=2.0)
        delivered = (first.frame["upper"] - first.frame["lower"]) / 2
        assert again.plan.free
        assert again.plan.error == pytest.approx(delivered.max())
        assert again.plan.std_errors == pytest.approx(first.frame["std_error"].to_numpy())
        assert again.run().frame.equals(first.frame)
        assert delivered.max() > 2.5  # the smallest city has a fifth of the people that it was taken to have
        assert any("some groups have fewer rows than was assumed" in one for one in again.plan.warnings)
        assert not any("fewer rows" in one for one in people.dp.groupby("city").mean("stay", error=9.0).plan.warnings)


def test_a_share_of_a_mean_is_planned_from_what_it_was(asked):
    """Of several, of their average; of rows in which it was not asked, nothing is known."""
    _, people = asked
    with pytest.raises(dpn.AccuracyError, match="there is none to this question yet"):
        assert people.dp.mean("stay", error="5%").plan
    released = people.dp.mean("stay", epsilon=1).run().value
    plan = people.dp.mean("stay", error="0.5%").plan
    assert plan.accuracy.error == pytest.approx(0.005 * released, rel=1e-3)
    assert plan.error <= plan.accuracy.error * 1.001
    by_city = people.dp.groupby("city").mean("stay", epsilon=1).run().frame["value"]
    assert people.dp.groupby("city").mean("stay", error="5%").plan.accuracy.error == pytest.approx(
        0.05 * by_city.mean(), rel=1e-3
    )
    with pytest.raises(dpn.AccuracyError, match="these are 2, each in its own units"):
        assert people.dp.agg({"stay": ["mean", "sum"]}, error="5%").plan


def test_means_of_other_rows_or_bounds_tell_nothing(asked):
    _, people = asked
    people.dp.groupby("city").mean("stay", where="sex == 'F'", epsilon=0.5).run()
    assert not people.dp.mean("stay", epsilon=0.01).plan.free
    assert not people.dp.mean("stay", where="sex == 'M'", epsilon=0.01).plan.free
    assert not people.dp.mean("stay", where="sex == 'F'", bounds=(0, 30), epsilon=0.01).plan.free
    assert people.dp.mean("stay", where="sex == 'F'", epsilon=0.01).plan.free


@pytest.mark.one_in(2)
@pytest.mark.statistical
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_intervals_of_means_from_the_record_hold_as_often_as_they_say(noise):
    """Two tables of different noise and a roll-up of both: 750 histories of one made-up table."""
    domain = Domain(LEVELS | {"stay": dpn.Range(0, 59)})
    summand = bounded_value(domain, "stay", ends=True)
    rng = np.random.default_rng(12)
    rows, stays = rng.integers(0, 8, 4_000), rng.integers(10, 40, 4_000)
    sums = np.stack([np.bincount(rows, stays, 8), np.bincount(rows, 59 - stays, 8)])
    everything = Predicate.everything(domain)
    axes = tuple(Axis(name, tuple(range(len(levels)))) for name, levels in LEVELS.items())
    both = Measurement(Kron(Identity(2), Identity(4)), axes, everything, summand)
    city = Measurement(Identity(4), axes[1:], everything, summand)
    asked = Question("t", (Measure("mean", "stay", summand=summand),), (axes[0].attribute,), everything)
    exact = 59 * sums[0].reshape(2, 4).sum(axis=1) / sums.sum(axis=0).reshape(2, 4).sum(axis=1)
    covered = tried = 0
    for _ in range(750):
        history = History(domain, noise)
        for number, (measurement, truth, scale) in enumerate(
            [(both, sums, 300), (city, sums.reshape(2, 2, 4).sum(axis=1), 150)], 1
        ):
            drawn = rng.laplace(0, scale, truth.shape) if noise == "laplace" else rng.normal(0, scale, truth.shape)
            item = item_of(Planned(measurement, Fraction(scale), 0), (number, 0), np.rint(truth + drawn), law_of(noise))
            history.add(item)
        found = known_means(asked, history).estimates(0.95)
        covered += ((found.lower <= exact) & (exact <= found.upper)).sum()
        tried += exact.size
    # Of 1,500 the standard error is 0.6%; where the law is not exact, intervals are a little wide.
    assert 0.933 <= covered / tried <= 0.97


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("text", ["", "city in ['A', 'C']"])
def test_counts_tell_of_sums_that_were_not_measured_what_they_add_up_to(noise, text):
    """As much as least squares over the ends of values would, which tell nothing of either sum."""
    domain = Domain(LEVELS | {"stay": dpn.Range(0, 59), "score": dpn.Bins(0, 100, width=10)})
    history, law = History(domain, noise), law_of(noise)
    where = Predicate.everything(domain)
    for number, names in enumerate([("sex", "city"), ("city",), ("city", "score")], 1):
        axes = tuple(Axis(name, tuple(range(domain[name].size))) for name in names)
        sides = [Identity(axis.size) for axis in axes]
        operator = Kron(*sides) if len(sides) > 1 else sides[0]
        planned = Planned(Measurement(operator, axes, where), Fraction(2 + number), 0)
        history.add(item_of(planned, (number, 0), np.arange(operator.shape[0])[None], law))
    rows = Predicate.parse(text, domain) if text else where
    value = bounded_value(domain, "score", ends=True)
    question = Question("people", (Measure("mean", "score", summand=value),), ("sex",), rows)
    means = known_means(question, history)
    assert isinstance(means.asked, SumsTogether)
    assert not means.known
    (counts,) = sums_as_counts(part_of(question, domain), value, history)
    whole = known_in(LinearForm(counts.part, COUNT, 1.0, counts.reach, counts.reach_of_sums), history, ())
    np.testing.assert_allclose(means.asked.variances, whole.variances, rtol=1e-9)
    known = np.isfinite(whole.variances)
    assert known.any()
    np.testing.assert_allclose(means.asked.estimates()[0][known], whole.estimates()[0][known], rtol=1e-9)
    assert means.sources() == whole.sources()


@pytest.mark.one_in(5)
@pytest.mark.parametrize("width", [2, 20])
@pytest.mark.parametrize("budget", [dpn.Budget(50.0), dpn.Budget(50.0, 1e-6)], ids=["pure", "delta"])
def test_an_average_after_a_median_of_many_groups_is_planned_without_their_cells(budget, width, monkeypatch):
    """Beside one measurement of 2,000 cells and more: its own least squares say all, and no matrix of cells is made."""
    codes = [f"c{i}" for i in range(400)]
    rng = np.random.default_rng(3)
    people = pd.DataFrame({"code": rng.choice(codes, 3_000), "score": rng.normal(50, 20, 3_000).round()})
    kinds = pd.DataFrame({"code": codes, "kind": [f"k{i % 3}" for i in range(400)]})
    with dpn.Session(budget, ":memory:", confirm="never") as session:
        session.protect(people, "people", domain={"code": codes, "score": dpn.Bins(0, 100, width=width)})
        session.register(kinds, "kinds", public=True)
        session.sql("SELECT code, MEDIAN(score) AS m FROM people GROUP BY code", epsilon=1).run()
        sizes, add = [], Information.add
        monkeypatch.setattr(Information, "add", lambda self, *told: sizes.append(self.atoms) or add(self, *told))
        text = "SELECT kind, AVG(score) AS a FROM people JOIN kinds ON people.code = kinds.code GROUP BY kind"
        assert session.sql(text, epsilon=0.5).plan.cost.epsilon > 0
        assert max(sizes, default=0) <= 1_000


@pytest.mark.parametrize("share", [None, 0.0, 0.3])
def test_what_is_missing_beside_a_sum_that_is_known_exactly(share):
    """Values at one bound alone: nothing lies above it, and of the other sum so much is missing as if alone."""
    variances = np.array([0.0, np.inf, np.inf, np.inf, np.inf, np.inf])  # of both groups the two sums, and both
    order = np.array([[0, 3], [1, 4], [2, 5]])
    means = SimpleNamespace(
        covariances=np.stack([np.full(2, np.inf), np.full(2, np.inf), np.zeros(2)]),
        asked=SimpleNamespace(variances=variances),
        order=order,
        worst=lambda _: np.array([np.inf, np.inf]),
    )
    target = 4.0
    with np.errstate(all="raise"):
        both = _missing(means, share, target)
        first = SimpleNamespace(**vars(means) | {"order": order[:, :1], "covariances": means.covariances[:, :1]})
        first.worst = lambda _: np.array([np.inf])
        one = _missing(first, share, target)
    weights = (1.0, 1.0) if share is None else ((1 - share) ** 2, share**2)
    assert both == pytest.approx((max(weights) if share is None else sum(weights)) / target)
    assert one == pytest.approx(weights[1] / target, abs=1e-12)
