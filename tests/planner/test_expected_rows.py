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


BUDGETS = [dpn.Budget(20.0), dpn.Budget(20.0, 1e-6)]
PARTS = {"A": 0.6, "B": 0.3, "C": 0.08, "D": 0.02}


def in_wards(session, *empty):
    """Return a table of stays in wards of unlike sizes, some of which have nobody."""
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"ward": rng.choice(list(PARTS), N, p=list(PARTS.values())), "age": rng.integers(0, 100, N)})
    domain = {"ward": [*PARTS, *empty], "age": dpn.Range(0, 99)}
    return session.protect(frame, "stays", rows=N, domain=domain)


@pytest.mark.parametrize("budget", BUDGETS)
def test_means_by_group_are_foretold_for_the_groups_that_were_counted(budget):
    """Each group's error is that of its size: what is delivered is what the card says, and the price stays the same."""
    with dpn.Session(budget=budget) as session:
        table = in_wards(session)
        before = table.groupby("ward").mean("age", epsilon=0.1).plan
        table.groupby("ward").count(epsilon=2.0).run()
        query = table.groupby("ward").mean("age", epsilon=0.1)
        plan, frame = query.plan, query.run().frame
    assert "the rows that releases tell" in plan.assumption
    assert plan.cost.epsilon <= before.cost.epsilon
    assert plan.error > 5 * before.error
    assert plan.std_errors == pytest.approx(frame["std_error"], rel=0.1)
    assert not any("rows" in warning for warning in plan.warnings)


ASKED = {
    "groupby": lambda table, **error: table.groupby("ward").mean("age", **error),
    "SQL": lambda table, **error: table.session.sql("SELECT ward, AVG(age) AS m FROM stays GROUP BY ward", **error),
}


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("how", ASKED)
@pytest.mark.parametrize("error", [0.5, 2.0, 5.0])
def test_an_error_of_means_is_kept_in_every_group_that_was_counted(budget, how, error):
    """Whatever its size; once it was answered the same cell costs nothing, and nor does what is less accurate."""
    with dpn.Session(budget=budget) as session:
        table = in_wards(session)
        before = ASKED[how](table, error=error).plan
        table.groupby("ward").count(epsilon=2.0).run()
        query = ASKED[how](table, error=error)
        plan, release = query.plan, query.run()
        found = release.frame
        lower, upper = (next(name for name in found if name.endswith(end)) for end in ("lower", "upper"))
        delivered = (found[upper] - found[lower]) / 2
        assert plan.error <= error * 1.001
        # How many rows the smallest has is known to about one in a hundred, and a mean tells that again.
        assert 0.7 * error < delivered.max() < 1.1 * error
        assert plan.cost.epsilon > 5 * before.cost.epsilon
        assert sum("the error is kept in every group" in one for one in plan.warnings) == 1
        assert ASKED[how](table, error=error).plan.free
        assert ASKED[how](table, error=1.2 * error).plan.free


@pytest.mark.parametrize("budget", BUDGETS)
def test_a_group_that_noise_hides_makes_means_of_the_others_no_dearer(budget):
    """Nothing is enough for the mean of nobody: the card says that this one is not as accurate as asked."""
    with dpn.Session(budget=budget) as session, dpn.Session(budget=budget) as other:
        found = []
        for one, empty in ((session, ["E", "F"]), (other, [])):
            table = in_wards(one, *empty)
            table.groupby("ward").count(epsilon=2.0).run()
            found.append(table.groupby("ward").mean("age", error=2.0).plan)
        with_nobody, without = found
        assert with_nobody.cost.epsilon == pytest.approx(without.cost.epsilon, rel=0.1)
        assert any("some groups have fewer rows than was assumed" in one for one in with_nobody.warnings)
        assert not any("fewer rows" in one for one in without.warnings)
