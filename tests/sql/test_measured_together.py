"""COUNT, SUM and AVG side by side: one measurement serves all of them, where each had a share of the price before."""

import itertools
from contextlib import closing
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from added_up import connect
from private_selects import aggregate, plan, select

import dpnotebook as dpn
from dpnotebook.privacy.accountant import UNITS, accountant_for
from dpnotebook.privacy.budget import Budget
from dpnotebook.sql.aggregates.budget_split import measured_by, shares
from dpnotebook.sql.aggregates.estimating import estimate
from dpnotebook.sql.aggregates.expected import expected
from dpnotebook.sql.aggregates.function import KnownGroups
from dpnotebook.sql.aggregates.noising import noisy
from dpnotebook.sql.bounded_sums import Totals
from dpnotebook.sql.rewrite.bounded_aggregation import totals

LAPLACE, GAUSSIAN = accountant_for(Budget(1.0)), accountant_for(Budget(1.0, 1e-6))
LAWS = pytest.mark.parametrize("accountant", [LAPLACE, GAUSSIAN], ids=["laplace", "gaussian"])
SECRET = "a secret"
BOUNDS = [(0, 1), (-50, 50), (0, 1e6), (1900, 2030), (999_990, 1_000_010), (-1, 1e-3), (7, 7)]


def every_row(**more):
    """Return COUNT(*)."""
    return aggregate("count", **more)


def values_of(name="n"):
    """Return COUNT of a column."""
    return aggregate("count", input=0, name=name)


def together(*aggregates, most=1, **more):
    """Return a private aggregation in which single rows are bounded."""
    return select(*aggregates, kind="rows", most=most, selection="all", **more)


def asked(low, high):
    """Return the aggregates that people ask side by side, in several orders."""
    three = [every_row(), aggregate("sum", low, high), aggregate("average", low, high)]
    yield from itertools.permutations(three)
    yield from ([three[0], three[2]], [values_of(), three[2]], [*three[:2], values_of(), three[2]], three[1:])


def rows_of(measured):
    """Return what a row adds to all components: one with a value at either bound or between, and one without."""
    most = {component.statistic: component.largest for component in measured.components}
    half = most.get("centred", 0)
    kinds = [component.statistic for component in measured.components]
    for centred in (-half, 0, half // 3, half):
        has = {"values": 1, "centred": centred, "missing": 0, "count": 1, "sum": most.get("sum")}
        yield np.array([has[kind] for kind in kinds], object)
    yield np.array([int(kind in ("missing", "count")) for kind in kinds], object)


def spent(measured, accountant, row, most=1):
    """Return what a unit with so many alike rows spends by all blocks, in the accountant's units."""
    power, total = accountant.law.power, Fraction(0)
    for block in measured.blocks:
        values = [sum(a * row[c] for a, c in zip(line, block.columns, strict=True)) for line in block.combine]
        norm = sum(Fraction(abs(value) * most) ** power for value in values)
        total += norm / Fraction(block.scale) ** power / (2 if power == 2 else 1)
    whole = Fraction(1) / accountant.scale(UNITS, 1) ** power / (2 if power == 2 else 1)
    return float(total / whole)


@LAWS
@pytest.mark.parametrize("most", [1, 4])
@pytest.mark.parametrize("bounds", BOUNDS)
def test_no_row_spends_more_than_is_charged_and_one_spends_it_all(accountant, most, bounds):
    """By the exact integers that leave the engine: with a tenth less noise this would be 1.1 or 1.2."""
    for aggregates in asked(*bounds):
        measured = plan(together(*aggregates, most=most), accountant)
        assert len({part.blocks for part in measured.parts}) == len(set(measured_by(together(*aggregates))))
        each = [spent(measured, accountant, row, most) for row in rows_of(measured)]
        assert max(each) <= 1.0
        assert max(each) > 0.995


@LAWS
@pytest.mark.parametrize("bounds", BOUNDS)
def test_none_of_them_errs_more_than_by_itself_with_its_share(accountant, bounds):
    known = KnownGroups.of(np.array([10_000.0]))
    for aggregates in asked(*bounds):
        measured = plan(together(*aggregates), accountant)
        errors = expected(measured, 0.95, [known] * len(aggregates))
        for one, error in zip(aggregates, errors, strict=True):
            alone = plan(together(one), accountant, UNITS // len(aggregates))
            (by_itself,) = expected(alone, 0.95, [known])
            rounding = 1 / 12 if one.kind == "count" else 0.0
            assert error.std_error**2 <= 1.03 * by_itself.std_error**2 + rounding + 1e-12 * max(map(abs, bounds)) ** 2


@LAWS
def test_averages_get_what_the_others_paid(accountant):
    """Of three, all of the price in place of a third of it."""
    low, high = 0, 100
    known = KnownGroups.of(np.array([10_000.0]), np.array([20.0]))
    beside = plan(together(every_row(), aggregate("sum", low, high), aggregate("average", low, high)), accountant)
    alone = plan(together(aggregate("average", low, high)), accountant, UNITS // 3)
    mine, before = expected(beside, 0.95, [known] * 3)[2], expected(alone, 0.95, [known])[0]
    assert before.std_error / mine.std_error > (2.9 if accountant is LAPLACE else 1.5)


@LAWS
@pytest.mark.statistical
@pytest.mark.parametrize("bounds", [(0, 1), (1900, 2030)])
def test_answers_are_off_as_they_are_told_to_be(accountant, bounds):
    """Noise a tenth less, or more, would be seen: of 20,000 groups errors are known to a hundredth."""
    random, groups, rows = np.random.default_rng(), 20_000, 5_000
    measured = plan(
        together(every_row(), values_of(), aggregate("sum", *bounds), aggregate("average", *bounds)), accountant
    )
    c = measured.components[0]
    values = random.uniform(*bounds, rows)
    exact = {"centred": np.rint((values - sum(bounds) / 2) / float(c.step)).sum(), "values": rows, "missing": 300}
    one = np.array([exact[component.statistic] for component in measured.components], dtype=np.int64)
    numbers = noisy(measured, Totals(tuple((i,) for i in range(groups)), np.tile(one, (groups, 1))))
    truth = [rows + 300, rows, values.sum(), values.mean()]
    answers = estimate(measured, numbers, 0.95)
    for place, (answer, true) in enumerate(zip(answers, truth, strict=True)):
        off = (answer.value - true) / answer.std_error
        assert np.sqrt((off**2).mean()) == pytest.approx(1.0, abs=0.035)
        # Of whole numbers an interval has no less than that; its ends are wider apart than it asks for.
        assert 0.938 < np.mean((answer.lower <= true) & (true <= answer.upper)) < (0.99 if place < 2 else 0.972)


def test_rows_without_a_value_are_counted_by_themselves():
    """Whatever rows hold: the integers that leave the engine are those of pandas."""
    rows = pd.DataFrame(
        {"u": range(9), "k0": ["a"] * 6 + ["b"] * 3, "x0": [1.0, None, 3.0, None, 5.0, 90.0, None, None, 2.0]}
    )
    chosen = select(every_row(), aggregate("average", 0, 10), kind="rows", selection="threshold")
    chosen = replace(chosen, rows='SELECT u, k0, x0 FROM "the table"')
    measured = plan(together(every_row(), aggregate("average", 0, 10)), GAUSSIAN)
    found = totals(chosen, measured.components, connect(rows), SECRET)
    kinds = [component.statistic for component in measured.components]
    counted = {
        key[0]: dict(zip(kinds, map(int, row), strict=True)) for key, row in zip(found.keys, found.numbers, strict=True)
    }
    assert {key: (one["values"], one["missing"]) for key, one in counted.items()} == {"a": (4, 2), "b": (1, 2)}


def test_what_has_a_share_of_its_own_or_is_bounded_otherwise_is_measured_by_itself():
    three = (every_row(), aggregate("sum", 0, 5), aggregate("average", 0, 5))
    assert measured_by(together(*three)) == (2, 2, 2)
    assert measured_by(select(*three, kind="groups", selection="all")) == (0, 1, 2)
    assert measured_by(together(three[0], aggregate("sum", 0, 6), three[2])) == (2, 1, 2)
    assert measured_by(together(aggregate("count", epsilon=Fraction(1, 2)), *three[1:])) == (0, 2, 2)
    assert measured_by(select(*three, kind="rows", selection="threshold")) == (0, 2, 2)  # a threshold uses the count
    other = aggregate("average", 0, 5, input=1)
    assert measured_by(together(*three[:2])) == (0, 1)
    assert measured_by(together(*three[:2], other)) == (2, 1, 2)
    assert measured_by(together(aggregate("variance", 0, 5), aggregate("deviation", 0, 5), three[0])) == (0, 0, 2)


def test_a_count_is_answered_where_noise_hides_the_average():
    chosen = together(every_row(), aggregate("sum"), aggregate("average"))
    measured = plan(chosen, GAUSSIAN, found={1: None, 2: None})
    count, total, average = measured.parts
    assert (count.found, total.found, average.found) == (True, False, False)
    assert not set(count.blocks) & set(average.blocks)
    assert spent(measured, GAUSSIAN, next(iter(rows_of(measured)))) <= 1.0
    assert shares(chosen, UNITS, GAUSSIAN).total <= UNITS


@pytest.fixture(scope="module")
def people():
    """Return one row a person; some earn nothing that is known."""
    random = np.random.default_rng(8)
    frame = pd.DataFrame({"g": random.choice(["a", "b"], 6_000, p=[0.8, 0.2]), "pay": random.gamma(4, 500, 6_000)})
    frame.loc[random.random(6_000) < 0.1, "pay"] = np.nan
    return frame.assign(whole=random.poisson(40, 6_000))


def opened(frame, delta=0.0):
    session = dpn.Session(dpn.Budget(50.0, delta), ":memory:", confirm="never")
    session.protect(frame, "t", domain={"g": ["a", "b"]})
    return session


TEXT = "SELECT g, COUNT(*) AS n, COUNT(pay) AS k, SUM(pay) AS s, AVG(pay) AS a FROM t GROUP BY g"


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_newcomer_gets_it_with_missing_values_kept_apart(people, delta):
    with closing(opened(people, delta)) as session:
        told = session.sql(TEXT, epsilon=2.0).run().frame.set_index("g")
        after = session.spent
        truth = people.groupby("g").agg(n=("g", "size"), k=("pay", "count"), s=("pay", "sum"), a=("pay", "mean"))
        for column in truth:
            assert (abs(told[column] - truth[column]) < 6 * told[f"{column}_std_error"] + 0.03 * truth[column]).all()
            assert (told[f"{column}_lower"] <= told[column]).all()
        assert (told["n"] == told["n"].round()).all()
        # Each of them alone is what is known of it.
        for one in ("COUNT(*) AS n", "COUNT(pay) AS k", "SUM(pay) AS s", "AVG(pay) AS a"):
            alone = session.sql(f"SELECT g, {one} FROM t GROUP BY g", epsilon=0.5).run().frame.set_index("g")
            name = one.split()[-1]
            assert alone[name].tolist() == pytest.approx(told[name].tolist())
        one = session.sql("SELECT COUNT(*) AS n FROM t WHERE g = 'b'", epsilon=0.5).run().frame
        assert one["n"][0] == told["n"]["b"]
        assert session.spent == after


@pytest.mark.parametrize("accountant", [LAPLACE, GAUSSIAN])
def test_counts_and_sums_of_whole_numbers_are_shown_as_such(accountant):
    chosen = together(every_row(), aggregate("sum", 0, 9, integer=True), aggregate("average", 0, 9))
    measured = plan(chosen, accountant)
    numbers = np.random.default_rng(3).integers(10**4, size=(50, measured.measured))
    count, total, average = estimate(measured, numbers, 0.95)
    for one in (count, total):
        assert (one.value == np.rint(one.value)).all()
        assert (one.upper - one.value >= 1).all()
    assert (average.value != np.rint(average.value)).any()


def test_a_count_is_as_accurate_as_by_itself_where_the_others_pay_for_their_bounds():
    known, between = KnownGroups.of(np.array([10_000.0])), (Fraction(0), Fraction(100))
    chosen = together(every_row(), aggregate("sum"), aggregate("average"))
    assert sum(shares(chosen, UNITS, GAUSSIAN).auto) > UNITS // 20
    count, *_ = expected(plan(chosen, GAUSSIAN, found={1: between, 2: between}), 0.95, [known] * 3)
    (alone,) = expected(plan(together(every_row()), GAUSSIAN, UNITS // 3), 0.95, [known])
    assert count.std_error**2 <= 1.001 * alone.std_error**2 + 1 / 12
