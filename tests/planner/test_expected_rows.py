"""A mean's error rests on how many rows it is of: what is said of that is assumed, and what releases tell is used."""

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.errors import AccuracyError

pytestmark = pytest.mark.usefixtures("same_noise")  # what becomes of it is tested, not how it is drawn

N = 20_000


@pytest.fixture
def table():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"age": rng.integers(0, 100, N), "sex": rng.choice(["F", "M"], N)})
    frame["stay"] = pd.Series(rng.integers(0, 60, N)).where(rng.random(N) < 0.9)
    with dpn.Session(budget=dpn.Budget(20.0)) as session:
        domain = {"age": dpn.Range(0, 99), "sex": ["F", "M"], "stay": dpn.Range(0, 59, nullable=True)}
        yield session.protect(frame, "stays", rows=N, domain=domain)


# Of a condition nobody has counted: its share of the declared levels, and no group of more than a thousand rows.
@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("where", "keys", "rows"),
    [
        (None, [], 20_000),
        (None, ["sex"], 10_000),
        ("stay >= 0", [], 20_000),  # all whose value is not missing: no condition of a mean
        ("age == 7", [], 200),
        ("age == 7 or (age == 8 and sex == 'F')", [], 300),
        ("age == 7", ["sex"], 100),
        ("sex == 'F'", [], 1_000),
        ("age == 7 and stay == 0", [], 200 / 60),
    ],
)
def test_what_is_assumed_of_a_condition_is_what_the_card_says(table, where, keys, rows):
    ask = table.groupby(keys) if keys else table
    plan = ask.mean("stay", where=where, epsilon=0.1).plan
    same = ask.mean("stay", where=where, epsilon=0.1).assuming(rows=rows * (2 if keys else 1)).plan
    assert plan.error == pytest.approx(same.error, rel=1e-9)
    assert f"assuming about {rows:,.0f} rows" in plan.assumption
    guessed = where is not None and where != "stay >= 0"
    assert ("how many satisfy the condition is not known" in plan.assumption) == guessed
    assert "is not known" not in same.assumption


def test_an_error_that_is_asked_for_holds_for_as_many_rows_as_the_condition_has(table):
    """By the rows that satisfy it, not by all: noise for all 20,000 would miss an error of 2 a hundred times over."""
    query = table.mean("stay", where="age == 7 and sex == 'M'", error=3)
    frame = query.run().frame
    # 100 rows are assumed and about 90 have a value, so that the interval is about that wide.
    assert (frame["upper"] - frame["lower"]).iloc[0] / 2 < 2 * 3


def test_a_released_count_tells_how_many(table):
    asked = table.mean("stay", where="age < 50", error=0.05)
    guessed = asked.plan
    table.histogram("age", where="stay >= 0", epsilon=1.0).run()
    told = table.mean("stay", where="age < 50", error=0.05).plan
    assert "(as release #1 tells)" in told.assumption
    said = float(told.assumption.split("about ")[1].split(" rows")[0].replace(",", ""))
    assert said == pytest.approx(0.5 * 0.9 * N, rel=0.05)
    # A mean's noise may be larger the more rows there are: what an error costs falls as they rise.
    assert told.epsilon == pytest.approx(guessed.epsilon * 1_000 / said, rel=0.05)
    frame = asked.run().frame
    assert (frame["upper"] - frame["lower"]).iloc[0] / 2 < 2 * 0.05
    assert "releases" not in table.mean("stay", epsilon=0.1).plan.assumption  # the owner said how many there are


def test_a_count_that_noise_hides_is_as_large_as_its_noise(table):
    table.count(where="age == 7 and stay == 0", epsilon=0.01).run()
    assumption = table.mean("stay", where="age == 7 and stay == 0", epsilon=0.1).plan.assumption
    rows = float(assumption.split("about ")[1].split(" rows")[0].replace(",", ""))
    assert rows >= 100  # the standard error of Laplace noise of scale 100 is 141, and about 3 rows are there


def test_where_nobody_says_how_many_rows_there_are_a_release_does():
    frame = pd.DataFrame({"age": np.arange(4_000) % 100})
    with dpn.Session(budget=dpn.Budget(20.0)) as session:
        table = session.protect(frame, "people", domain={"age": dpn.Range(0, 99)})
        assert "(a guess: say rows=" in table.mean("age", epsilon=0.1).plan.assumption
        with pytest.raises(AccuracyError, match="rows="):
            _ = table.mean("age", error=1).plan
        table.count(epsilon=1.0).run()
        assert "(as release #1 tells)" in table.mean("age", error=1).plan.assumption
        assert "query.assuming" in table.mean("age", where="age < 50", epsilon=0.1).plan.assumption


@pytest.mark.parametrize("accuracy", [{"epsilon": 0.1}, {"error": 2}])
@pytest.mark.parametrize("budget", [dpn.Budget(20.0), dpn.Budget(20.0, 1e-6)])
def test_means_by_group_are_foretold_for_the_groups_that_were_counted(budget, accuracy):
    """Each group's error is that of its size: what is delivered is what the card says, and the price stays the same."""
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(
        {"ward": rng.choice(list("ABCD"), N, p=[0.6, 0.3, 0.08, 0.02]), "age": rng.integers(0, 100, N)}
    )
    with dpn.Session(budget=budget) as session:
        table = session.protect(frame, "stays", rows=N, domain={"ward": list("ABCD"), "age": dpn.Range(0, 99)})
        before = table.groupby("ward").mean("age", **accuracy).plan
        table.groupby("ward").count(epsilon=2.0).run()
        query = table.groupby("ward").mean("age", **accuracy)
        plan, frame = query.plan, query.run().frame
    assert "the rows that releases tell" in plan.assumption
    assert plan.cost.epsilon <= before.cost.epsilon
    assert plan.error > 5 * before.error
    assert plan.std_errors == pytest.approx(frame["std_error"], rel=0.1)
    warned = any("not ±2" in warning for warning in plan.warnings)
    assert warned == ("error" in accuracy)
