"""Sums and means of truth values: how many are True, and which share; the same as the histogram's counts."""

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.testing import exact_session

ROWS = 1000
DOMAIN = {"age": dpn.Range(0, 99), "insured": bool, "ward": ["A", "B", "C"]}


def visits(truths=None):
    number = np.arange(ROWS)
    insured = number % 7 < 3 if truths is None else truths
    return pd.DataFrame({"age": number % 100, "insured": insured, "ward": np.where(number % 5 < 2, "A", "B")})


def held(rows, place, tmp_path):
    """Return rows as one of the places has them."""
    if place == "parquet":
        rows.to_parquet(tmp_path / "visits.parquet")
        return tmp_path / "visits.parquet"
    if place == "duckdb":
        path = str(tmp_path / "visits.duckdb")
        with duckdb.connect(path) as connection:
            connection.register("given", rows)
            connection.execute("CREATE TABLE visits AS SELECT * FROM given")
        return path, "visits"
    return rows.astype({"insured": place}) if place in ("boolean", "int8", "float64") else rows


@pytest.fixture(autouse=True)
def _without_noise(monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")


@pytest.mark.one_in(4)
@pytest.mark.parametrize("place", ["pandas", "boolean", "int8", "float64", "parquet", "duckdb"])
@pytest.mark.parametrize("planner", ["optimal", "naive"])
def test_sums_and_means_are_exact_wherever_the_rows_are(place, planner, tmp_path):
    rows = visits()
    session = exact_session(dpn.Budget(epsilon=10.0), planner=planner)
    table = session.protect(held(rows, place, tmp_path), "visits", domain=DOMAIN)
    young = rows[rows["age"] < 30]
    assert table.sum("insured", epsilon=0.5).run().value == rows["insured"].sum()
    assert table.sum("insured", where="age < 30", epsilon=0.5).run().value == young["insured"].sum()
    assert table.mean("insured", epsilon=0.5).run().value == pytest.approx(rows["insured"].mean())
    assert table.mean("insured", where="age < 30", epsilon=0.5).run().value == pytest.approx(young["insured"].mean())
    by_ward = rows.groupby("ward")["insured"]
    sums = table.groupby("ward").sum("insured", epsilon=0.5).run().frame
    assert sums["value"].tolist() == [*by_ward.sum(), 0]
    means = table.groupby("ward").mean("insured", epsilon=0.5).run().frame
    assert means["value"].tolist() == pytest.approx([*by_ward.mean(), 0.5])  # of nobody nothing is known
    assert (means["lower"].tolist()[2], means["upper"].tolist()[2]) == (0, 1)
    session.close()


def test_a_missing_truth_value_is_neither(tmp_path):
    truths = pd.array([True, False, None, True] * (ROWS // 4), dtype="boolean")
    session = exact_session(dpn.Budget(epsilon=10.0))
    table = session.protect(visits(truths), "visits", domain=DOMAIN | {"insured": dpn.Boolean(nullable=True)})
    assert table.sum("insured", epsilon=0.5).run().value == 500
    assert table.mean("insured", epsilon=0.5).run().value == pytest.approx(2 / 3)
    assert table.histogram("insured", where="insured.notna()", epsilon=0.5).run().frame["value"].tolist() == [250, 500]
    session.close()


def test_the_sum_of_many_rows_of_a_unit_costs_as_much_as_their_count():
    rows = visits().assign(who=np.arange(ROWS) // 4)
    session = exact_session(dpn.Budget(epsilon=10.0))
    table = session.protect(rows, "visits", unit="who", max_rows=3, domain=DOMAIN)
    assert table.sum("insured", error=50).plan.cost == table.count(error=50).plan.cost
    assert table.sum("insured", where="insured", error=50).run().value <= 3 * 250
    session.close()


@pytest.mark.parametrize("delta", [0, 1e-6])
def test_one_row_counts_for_one(delta):
    """The price of the error is that of a count, not that of a sum of numbers from 0 to 1 in fine steps."""
    session = exact_session(dpn.Budget(1.0, delta))
    table = session.protect(visits(), "visits", domain=DOMAIN)
    count, total = table.count(error=20).plan, table.sum("insured", error=20).plan
    assert (total.cost, total.error, total.std_error) == (count.cost, count.error, count.std_error)
    assert total.warnings == ()  # nothing is clamped
    session.close()


def asked(*keys):
    return lambda table: table.groupby(list(keys)) if keys else table


FREE = {
    "sum and mean from the histogram": (
        lambda t: t.histogram("insured", epsilon=0.5),
        lambda t: [t.sum("insured", epsilon=0.5), t.mean("insured", epsilon=0.5)],
    ),
    "the histogram from the mean": (
        lambda t: t.mean("insured", epsilon=0.5),
        lambda t: [
            t.histogram("insured", epsilon=0.5),
            t.count(where="insured", epsilon=0.5),
            t.sum("insured", error=9),
        ],
    ),
    "a count from the sum": (
        lambda t: t.sum("insured", epsilon=0.5),
        lambda t: [t.count(where="insured", epsilon=0.5)],
    ),
    "a crosstab from means of groups, in either order": (
        lambda t: t.groupby("ward").mean("insured", epsilon=0.5),
        lambda t: [t.crosstab("ward", "insured", epsilon=0.5), t.crosstab("insured", "ward", epsilon=0.5)],
    ),
    "a crosstab with a key before and one behind": (
        lambda t: t.groupby(["ward", "age"]).mean("insured", epsilon=0.5),
        lambda t: [t.crosstab("ward", "insured", "age", epsilon=0.5)],
    ),
}


@pytest.mark.parametrize("case", FREE)
def test_a_truth_value_is_counted_once(case):
    first, then = FREE[case]
    rows = visits()
    session = exact_session(dpn.Budget(epsilon=10.0))
    table = session.protect(rows, "visits", domain=DOMAIN)
    first(table).run()
    for query in then(table):
        assert query.plan.free, query.question.words
        release = query.run()
        if release.keys:
            truth = rows.groupby(list(release.keys)).size()
            levels = [tuple(one) if len(one) > 1 else one[0] for one in release.frame[list(release.keys)].to_numpy()]
            assert release.frame["value"].tolist() == pytest.approx([truth.get(level, 0) for level in levels])
    session.close()


def test_what_noise_does_is_redrawn_in_the_order_of_the_levels():
    """Noise is large beside the counts here, so that each redraw would differ if True and False were exchanged."""
    session = dpn.Session(budget=dpn.Budget(epsilon=1.0))
    table = session.protect(visits(), "visits", domain=DOMAIN)
    means = table.groupby("ward").mean("insured", epsilon=0.02).run()
    assert means.samples(50).shape == (150, 3)
    counts = table.crosstab("ward", "insured", epsilon=0.02).run()
    assert counts.paid == 0
    drawn = counts.samples(4000).groupby(["ward", "insured"])["value"]
    middle, spread = drawn.mean().to_numpy(), drawn.std().to_numpy()
    # Six means of 4,000 draws: 7 standard errors of them, which chance passes less than once in 10^9 runs.
    assert middle == pytest.approx(counts.frame["value"].to_numpy(), abs=7 * spread.max() / 4000**0.5)
    assert spread == pytest.approx(counts.frame["std_error"].to_numpy(), rel=0.15)
    session.close()


def test_sql_asks_the_same_question():
    session = exact_session(dpn.Budget(epsilon=10.0))
    table = session.protect(visits(), "visits", domain=DOMAIN)
    table.groupby("ward").mean("insured", epsilon=0.5).run()
    query = session.sql("SELECT ward, AVG(insured) AS share FROM visits GROUP BY ward", epsilon=0.5)
    assert query.plan.free
    assert query.run().frame["share"].iloc[0] == pytest.approx(visits().query("ward == 'A'")["insured"].mean())
    session.close()


@pytest.mark.parametrize("given", [{"bounds": (0, 1)}, {"granularity": 0.5}])
@pytest.mark.parametrize("verb", ["sum", "mean"])
def test_a_truth_value_takes_no_bounds(verb, given):
    session = exact_session(dpn.Budget(epsilon=10.0))
    table = session.protect(visits(), "visits", domain=DOMAIN)
    with pytest.raises(dpn.DomainError, match="'insured' is true or false, counted as 1 or 0: leave bounds= and gran"):
        getattr(table, verb)("insured", epsilon=0.5, **given)
    session.close()
