"""Sums and means of rows whose values a condition bounds: less noise, the same answers, shared with all others."""

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.predicate import Predicate
from dpnotebook.query.question import bounded_value

ROWS = 4_000
DOMAIN = {
    "age": dpn.Range(0, 109, nullable=True),
    "cost": dpn.Bins(-200, 1_000, width=50, outside="other"),
    "sex": ["F", "M"],
}
DELTAS = {"gaussian": 1e-6, "laplace": 0.0}


def people():
    random = np.random.default_rng(11)
    age = random.integers(-5, 120, ROWS).astype(float)
    age[random.random(ROWS) < 0.05] = np.nan
    return pd.DataFrame({"age": age, "cost": random.uniform(-300, 1_100, ROWS), "sex": random.choice(["F", "M"], ROWS)})


FRAME = people()
CLAMPED = FRAME.assign(age=FRAME["age"].clip(0, 109), cost=FRAME["cost"].where(FRAME["cost"].between(-200, 1_000)))


@pytest.fixture(params=DELTAS)
def table(request):
    budget = dpn.Budget(epsilon=999, delta=DELTAS[request.param])
    with dpn.Session(budget, ledger=":memory:") as session:
        yield session.protect(FRAME, "people", domain=DOMAIN)


@pytest.mark.one_in(12)
@pytest.mark.parametrize(
    "where",
    [
        "age >= 30 and age < 50",
        "age >= 65",
        "age < 7 or age == 100",
        "age == 40",
        "cost >= 0 and cost < 100",
        "cost < 0",
        "age > 100 and sex == 'F'",
    ],
)
@pytest.mark.parametrize("column", ["age", "cost"])
def test_answers_are_those_of_the_clamped_values(table, where, column):
    """With next to no noise the values are left; conditions on one column leave the other as it is."""
    rows = CLAMPED.query(where)[column].dropna()
    for verb in ("sum", "mean"):
        release = getattr(table, verb)(column, where=where, epsilon=90.0).run()
        std_error = release.frame["std_error"].iloc[0]
        expected = getattr(rows, verb)()
        assert std_error < 0.02 * abs(expected) + 0.02
        # A single draw of Laplace noise is farther off than 15 of these once in 10^9.
        assert release.value == pytest.approx(expected, abs=15 * std_error + 1e-6 * len(rows))


@pytest.mark.parametrize(("where", "reach"), [("age >= 30 and age < 50", 19), ("age >= 65", 44), ("age == 40", 1)])
def test_noise_is_that_of_the_values_the_rows_can_have(table, where, reach):
    """One row adds as many years as lie between the bounds of its condition, of 109 without one: so does the noise."""
    alone = table.mean("age", epsilon=1.0).plan
    asked = table.mean("age", where=where, epsilon=1.0).plan
    wide, narrow = (plan.measurements[0] for plan in (alone, asked))
    steps = narrow.measurement.summand.steps
    assert steps == reach
    assert float(narrow.scale / wide.scale) == pytest.approx(reach / 109, rel=0.01)


def test_no_row_adds_more_than_its_bound(table):
    """What a row adds is never above the norm of its level, from which spend and noise are worked out."""
    random = np.random.default_rng(3)
    domain = table.domain
    for _ in range(30):
        column = str(random.choice(["age", "cost"]))
        low, high = sorted(random.choice(np.arange(-200, 1_001, 50) if column == "cost" else np.arange(110), 2))
        where = f"{column} >= {low} and {column} <= {high}" if column == "age" else f"{column} >= {low}"
        question = table.mean(column, where=where, epsilon=1.0).question
        summand, levels = question.measures[0].summand, question.where.levels_of(column)
        added = summand._contributions(CLAMPED.query(where)[column].dropna().to_numpy())
        norms = summand.norms(domain[column], 1)
        assert np.abs(added).sum(axis=0).max(initial=0) <= norms[list(levels)].max() == summand.steps
        assert summand.steps <= bounded_value(domain, column, ends=True).steps


@pytest.mark.parametrize("column", ["age", "cost"])
def test_what_is_left_follows_from_the_whole_and_a_part(column):
    """A sum is told by the whole and by a mean of other rows, whose bounds are others; variances add up exactly."""
    part, rest = ("age >= 65", "age < 65") if column == "age" else ("cost >= 500", "cost < 500")
    with dpn.Session(dpn.Budget(epsilon=10, delta=1e-6), ledger=":memory:") as session:
        table = session.protect(FRAME, "people", domain=DOMAIN)
        whole = table.sum(column, epsilon=0.2).run()
        known = table.mean(column, where=part, epsilon=0.2).run()
        of_part = table.sum(column, where=part, error=10**7)
        assert of_part.plan.free
        error_of_part = of_part.run().frame["std_error"].iloc[0]
        left = table.sum(column, where=rest, error=10**7)
        assert left.plan.free
        errors = [frame["std_error"].iloc[0] for frame in (whole.frame, left.run().frame)]
        assert errors[1] ** 2 == pytest.approx(errors[0] ** 2 + error_of_part**2, rel=1e-6)
        assert session.history().shape[0] == 4
        assert known.number == 2


def test_clamping_is_spoken_of_where_it_can_happen(table):
    def warned(where):
        return " ".join(table.mean("age", where=where, epsilon=1.0).plan.warnings)

    assert "outside 0 to 109 counts as the nearest bound" in warned(None)
    assert "above 109 counts as 109" in warned("age >= 65")
    assert "below 0 counts as 0" in warned("age < 20")
    assert "counts as" not in warned("age >= 30 and age < 50")
    assert "outside 10 to 90" in " ".join(table.mean("age", bounds=(10, 90), epsilon=1.0).plan.warnings)
    assert "above 90 counts as 90" in " ".join(
        table.mean("age", bounds=(10, 90), where="age >= 20", epsilon=1.0).plan.warnings
    )
    assert "counts as" not in " ".join(table.mean("cost", epsilon=1.0).plan.warnings)  # others are left out


def test_levels_that_rows_can_have():
    domain = dpn.Domain({"age": dpn.Range(0, 9, nullable=True), "sex": ["F", "M"]})
    where = Predicate.parse("(age >= 3 and sex == 'F') or age > 7", domain)
    assert where.levels_of("age") == tuple(range(3, 10))
    assert where.levels_of("sex") == (0, 1)
    assert Predicate.everything(domain).levels_of("age") == tuple(range(11))
