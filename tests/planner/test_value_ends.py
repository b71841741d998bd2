"""Sums, means, counts and histograms of the same rows are one algebra: what one of them says is known of the others."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.domain import Domain
from dpnotebook.planner.history import History
from dpnotebook.planner.items import item_of
from dpnotebook.planner.known_means import known_means
from dpnotebook.planner.marginal_measurement import asked_of
from dpnotebook.planner.plan import Planned
from dpnotebook.predicate import Predicate
from dpnotebook.privacy.laws import law_of
from dpnotebook.query.measurement import Axis, Measurement
from dpnotebook.query.question import Measure, Question, Summand, bounded_value
from dpnotebook.workload import Identity, Kron

pytestmark = pytest.mark.usefixtures("same_noise")  # what becomes of it is tested, not how it is drawn

BUDGETS = {"pure": dpn.Budget(1e3), "gaussian": dpn.Budget(1e3, 1e-6)}
ROWS = 10_000
DOMAIN = {
    "city": list("ABCDE"),
    "sex": ["F", "M"],
    "age": dpn.Range(0, 39),
    "cost": dpn.Bins(0, 10_000, count=20),
    "stay": dpn.Range(1, 30, nullable=True),
}


@pytest.fixture(params=BUDGETS)
def people(request):
    rng = np.random.default_rng(5)
    rows = pd.DataFrame({name: rng.choice(DOMAIN[name], ROWS) for name in ("city", "sex")})
    rows["age"] = rng.integers(0, 40, ROWS)
    rows["cost"] = rng.gamma(2, 1000, ROWS).clip(0, 10_000).round(2)
    rows["stay"] = np.where(rng.random(ROWS) < 0.3, np.nan, rng.integers(1, 31, ROWS))
    session = dpn.Session(budget=BUDGETS[request.param])
    session.protect(rows, "people", domain=DOMAIN, rows=ROWS)
    yield rows
    session.close()


def by(people, *keys):
    return people.dp.groupby(list(keys)) if keys else people.dp


FREE = {
    "a mean and a sum from a histogram": (
        lambda p: by(p, "age").count(error=20),
        lambda p: [
            p.dp.mean("age", error=2),
            p.dp.sum("age", error=6_000),
            p.dp.mean("age", where="age >= 20", error=4),
        ],
    ),
    "means by city from a histogram by age and city": (
        lambda p: by(p, "age", "city").count(error=20),
        lambda p: [by(p, "city").mean("age", error=2), p.dp.mean("age", where="city == 'B'", error=2)],
    ),
    "sums and counts from means": (
        lambda p: by(p, "city").mean("cost", error=20),
        lambda p: [
            by(p, "city").sum("cost", error=150_000),
            by(p, "city").count(error=60),
            p.dp.count(error=60),
            p.dp.sum("cost", where="city in ('A', 'B')", error=300_000),
        ],
    ),
    "a count of those with a value, from a mean": (
        lambda p: by(p, "city").mean("stay", error=0.2),
        lambda p: [p.dp.count(where="stay.notna()", error=300), by(p, "city").sum("stay", error=2_000)],
    ),
    "sums with bounds of a histogram": (
        lambda p: by(p, "age").count(error=20),
        lambda p: [p.dp.sum("age", bounds=(10, 30), error=6_000), p.dp.mean("age", bounds=(10, 30), error=2)],
    ),
}


@pytest.mark.one_in(8)
@pytest.mark.parametrize("case", FREE)
def test_what_follows_from_another_measure_is_free(people, case):
    first, then = FREE[case]
    first(people).run()
    for query in then(people):
        plan = query.plan
        assert plan.free, (query.question.words, plan.cost.epsilon)
        release = query.run()
        assert release.paid == 0
        assert release.frame.filter(regex="std_error").to_numpy().max() > 0


def test_a_mean_from_a_sum_and_a_count_is_free(people):
    people.dp.sum("cost", error=20_000).run()
    people.dp.count(error=3).run()
    free = people.dp.mean("cost", error=5)
    assert free.plan.free
    assert free.run().value == pytest.approx(people["cost"].mean(), abs=10)


def test_counts_of_all_rows_say_nothing_of_those_without_a_value(people):
    by(people, "city").mean("stay", error=0.2).run()
    assert not people.dp.count(error=300).plan.free


def test_a_sum_of_a_column_by_which_a_mean_was_grouped_is_free(people):
    """The two sums of a mean tell how many rows each age has."""
    by(people, "age").mean("cost", epsilon=0.5).run()
    assert people.dp.sum("age", epsilon=0.01).plan.free
    assert people.dp.sum("age", where="sex == 'F'", epsilon=0.01).plan.cost.epsilon > 0


@pytest.mark.parametrize("rows", ["stay == 1", "stay == 9", "stay == 30"])
def test_of_the_sums_of_a_mean_of_one_value_one_is_a_count(people, rows):
    """The other is 0 whoever is in the table: to add its noise would double the variance."""
    mean = by(people, "city").mean("stay", where=rows, epsilon=0.4)
    (measured,) = mean.plan.measurements
    mean.run()
    counts = by(people, "city").count(where=rows, error=1e4).plan
    law = law_of(counts.noise)
    assert counts.free
    np.testing.assert_allclose(counts.std_errors**2, law.count_variance(measured.scale), rtol=1e-9)
    total = people.dp.sum("stay", where=rows, error=1e6).plan
    assert total.free
    value = int(rows.rpartition(" ")[2])
    np.testing.assert_allclose(total.std_errors**2, 5 * value**2 * law.count_variance(measured.scale), rtol=1e-9)


def test_a_finer_mean_pays_for_what_is_missing(people):
    """Gaussian precisions add up, and so do squared epsilons; of Laplace noise a refinement costs the difference."""
    people.dp.mean("cost", error=10).run()
    finer = people.dp.mean("cost", error=5)
    afresh = people.dp.mean("cost", error=5, fresh=True)
    assert finer.plan.cost.units == pytest.approx(
        afresh.plan.cost.units - people.dp.mean("cost", error=10, fresh=True).plan.cost.units, rel=0.03
    )
    release = finer.run()
    assert release.value == pytest.approx(people["cost"].mean(), abs=15)
    assert people.dp.mean("cost", error=5.5).plan.free


def test_a_mean_beside_a_count_costs_less(people):
    people.dp.count(error=2).run()
    beside, afresh = people.dp.mean("cost", error=5), people.dp.mean("cost", error=5, fresh=True)
    assert beside.plan.cost.units < 0.8 * afresh.plan.cost.units
    assert beside.run().value == pytest.approx(people["cost"].mean(), abs=15)


def test_an_epsilon_for_a_mean_pays_at_most_what_is_missing(people):
    by(people, "city").mean("cost", epsilon=0.3).run()
    again = by(people, "city").mean("cost", epsilon=0.4).plan
    assert 0 < again.cost.epsilon < 0.35
    assert again.error <= by(people, "city").mean("cost", epsilon=0.4, fresh=True).plan.error * (1 + 1e-6)


SIZES = {"city": 3, "age": 4, "stay": 6}
SMALL = Domain({"city": list("ABC"), "age": dpn.Range(0, 3), "stay": dpn.Range(2, 6, nullable=True)})
SUM, MEAN = bounded_value(SMALL, "stay"), bounded_value(SMALL, "stay", ends=True)


COUNT = Summand()


def _everything():
    return Predicate.everything(SMALL)


def _axis(name):
    return Axis(name, tuple(range(SIZES[name])))


def _made(names, summand=COUNT, where=None):
    factors = [Identity(SIZES[name]) for name in names] or [Identity(1)]
    operator = factors[0] if len(factors) == 1 else Kron(*factors)
    return Measurement(operator, tuple(map(_axis, names)), where or _everything(), summand)


def _rows(measurement):
    """The queries of a measurement over all cells, where each is a row of its stay: shape (answers, cells)."""
    names = list(SIZES)
    cells = np.indices(list(SIZES.values())).reshape(3, -1)
    inside = measurement.where.dense(tuple(names)).ravel() if not measurement.where.is_everything else 1.0
    place = np.zeros(cells.shape[1], dtype=int)
    for axis in measurement.axes:
        place = place * axis.size + cells[names.index(axis.attribute)]
    counts = np.eye(max(place.max() + 1, 1))[:, place] * inside
    values = measurement.summand.of_levels(SMALL["stay"])[:, cells[2]] if measurement.summand.column else [1.0]
    return np.concatenate([counts * value for value in values])


KINDS = {
    "histogram": [_made(["stay"]), _made(["city"])],
    "means and counts": [_made(["city"], MEAN), _made(["city"]), _made([], MEAN)],
    "sums and means": [_made(["age", "city"], SUM), _made(["city"], MEAN), _made([], SUM)],
    "of some rows": [
        _made(["city"], MEAN, Predicate.parse("age >= 2", SMALL)),
        _made(["city"], MEAN, Predicate.parse("age < 2", SMALL)),
        _made(["city"], where=Predicate.parse("stay.notna()", SMALL)),
    ],
    "histograms beside sums and means": [
        _made(["city", "stay"]),
        _made(["stay"], where=Predicate.parse("age == 1", SMALL)),
        _made(["city"], MEAN),
        _made([], SUM),
        _made(["city"], SUM, Predicate.parse("age >= 2", SMALL)),
        _made(["age"], MEAN, Predicate.parse("city != 'B'", SMALL)),
    ],
}


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_those_of_dense_least_squares(kind, noise):
    """Sums of all cells by a dense solution, of counts of every value for which nobody has to be shared."""
    rng = np.random.default_rng(3)
    history, matrices, noisy, variances = History(SMALL, noise), [], [], []
    truth = rng.integers(0, 50, 72)
    for number, measurement in enumerate(KINDS[kind], 1):
        scale = int(rng.integers(5, 40))
        matrix = _rows(measurement)
        drawn = np.rint(matrix @ truth + rng.normal(0, scale, matrix.shape[0]))
        components = measurement.summand.components
        history.add(
            item_of(Planned(measurement, Fraction(scale), 0), (number, 0), drawn.reshape(components, -1), law_of(noise))
        )
        matrices.append(matrix)
        noisy.append(drawn)
        variances.append(np.full(matrix.shape[0], law_of(noise).count_variance(Fraction(scale))))
    matrix, noisy, variances = np.concatenate(matrices), np.concatenate(noisy), np.concatenate(variances)
    weighted = matrix / np.sqrt(variances)[:, None]
    inverse = np.linalg.pinv(weighted.T @ weighted)
    cells = inverse @ (weighted.T @ (noisy / np.sqrt(variances)))
    everyone = _everything()
    for keys in ([], ["city"]):
        for measure, summand in (("sum", SUM), ("mean", MEAN)):
            asked = Question("t", (Measure(measure, "stay", summand=summand),), tuple(keys), everyone)
            wanted = _rows(_made(keys, summand))
            exact, spread = wanted @ cells, np.einsum("ij,jk,ik->i", wanted, inverse, wanted)
            determined = np.allclose(wanted @ inverse @ weighted.T @ weighted, wanted)
            if not determined:
                assert kind == "histogram"
                assert keys == ["city"]  # nothing tells what people in each city have
                assert measure == "mean" or not np.isfinite(asked_of(asked, history).variances).any()
                assert measure == "sum" or not known_means(asked, history).known
            elif measure == "sum":
                values, found = asked_of(asked, history).estimates()
                np.testing.assert_allclose(values, exact, rtol=1e-6)
                np.testing.assert_allclose(found, spread, rtol=1e-6)
            else:
                means = known_means(asked, history)
                groups = len(exact) // 2
                np.testing.assert_allclose(means.covariances[:2].ravel(), spread, rtol=1e-6)
                both = np.einsum("ij,jk,ik->i", wanted[:groups], inverse, wanted[groups:])
                np.testing.assert_allclose(means.covariances[2], both, rtol=1e-6, atol=1e-6)
                np.testing.assert_allclose(
                    means.estimates(0.95).value,
                    2 + 4 * exact[:groups] / (exact[:groups] + exact[groups:]),
                    rtol=1e-5,
                )


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_groups_that_nobody_can_be_in_need_no_precision(people):
    rows = "(city == 'A' and age < 10) or (city == 'B' and age >= 35)"
    by(people, "city", "age").count(where=rows, epsilon=0.5).run()
    means = by(people, "city", "age").mean("stay", where=rows, epsilon=0.5)
    assert 0 < means.plan.cost.epsilon <= 0.5
    assert np.isfinite(means.run().frame["value"]).all()


def test_a_sum_over_very_many_levels_takes_no_room_for_pairs_of_them():
    """119,998 levels: a matrix over all pairs would be 107 GiB."""
    rows = pd.DataFrame({"age": np.arange(5_000) * 20})
    with dpn.Session(dpn.Budget(100.0)) as session:
        session.protect(rows, "t", domain={"age": dpn.Range(0, 119_997)}, rows=5_000)
        rows.dp.count(where="age < 500", epsilon=0.5).run()
        assert rows.dp.sum("age", epsilon=0.5).plan.cost.epsilon > 0
        rows.dp.histogram("age", epsilon=0.5).run()
        mean = rows.dp.mean("age", epsilon=1e-3)
        assert mean.plan.free
        assert np.isfinite(mean.run().value)
