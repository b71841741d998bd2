"""A line through groups, or through the rows of people: what NumPy fits to the same numbers, and how sure it is."""

from contextlib import closing

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn

YEARS = range(2015, 2024)
COUNTS = "WITH c AS (SELECT ward, year, COUNT(*) AS n FROM visits GROUP BY ward, year) "
LINE = "REGR_SLOPE(n, year) AS slope, REGR_INTERCEPT(n, year) AS at_zero, REGR_R2(n, year) AS share, "
LINE += "REGR_COUNT(n, year) AS years"
SEEN = 5.5


@pytest.fixture(scope="module")
def session():
    random = np.random.default_rng(3)
    years = random.choice(YEARS, 30_000, p=np.linspace(1, 2, 9) / 13.5)
    age = random.normal(50, 10, years.size).round()
    frame = pd.DataFrame({"year": years, "ward": random.choice(["a", "b"], years.size), "age": age})
    frame["cost"] = (20 + 3 * age + random.normal(0, 30, years.size)).clip(0, 400)
    frame.loc[random.random(years.size) < 0.1, "cost"] = np.nan
    with closing(dpn.Session(dpn.Budget(50.0, 1e-6), ":memory:", confirm="never")) as opened:
        domain = {"year": list(YEARS), "ward": ["a", "b"]}
        opened.protect(frame, "visits", domain=domain)
        opened.frame = frame
        yield opened


def test_a_trend_of_counts_is_what_numpy_fits_and_is_free(session):
    counts = session.sql(COUNTS.removeprefix("WITH c AS (").removesuffix(") "), epsilon=0.5).run().frame
    query = session.sql(f"{COUNTS} SELECT ward, {LINE} FROM c GROUP BY ward ORDER BY ward", epsilon=0.5)
    assert query.plan.cost.epsilon == 0
    found = query.run().frame.set_index("ward")
    for ward, own in counts.groupby("ward"):
        slope, at_zero = np.polyfit(own["year"] - 2019.0, own["n"], 1)
        assert found.loc[ward, "slope"] == pytest.approx(slope)
        assert found.loc[ward, "at_zero"] == pytest.approx(at_zero - 2019 * slope)
        assert found.loc[ward, "share"] == pytest.approx(np.corrcoef(own["year"], own["n"])[0, 1] ** 2)
        assert found.loc[ward, "years"] == 9
        # Noise of the counts alone, which is the same on each: sigma / sqrt(sum of squares of years).
        apart = float(np.sqrt(((own["year"] - 2019) ** 2).sum()))
        assert found.loc[ward, "slope_std_error"] == pytest.approx(own["n_std_error"].mean() / apart, rel=0.1)


def test_a_trend_may_be_part_of_more_and_has_a_name(session):
    text = f"{COUNTS} SELECT REGR_SLOPE(n, year), 100 * REGR_SLOPE(n, year) / AVG(n) AS percent FROM c"
    found = session.sql(text, epsilon=0.5).run().frame
    assert next(iter(found)) == "regr_slope(n, year)"
    assert found["percent"][0] * found["percent_lower"][0] > 0
    ordered = f"{COUNTS} SELECT ward FROM c GROUP BY ward HAVING REGR_SLOPE(n, year) > 0 ORDER BY REGR_SLOPE(n, year)"
    assert sorted(session.sql(ordered, epsilon=0.5).run().frame["ward"]) == ["a", "b"]


def test_a_line_through_rows_of_people_leaves_out_who_lacks_one_of_both(session):
    frame = session.frame.dropna()
    found = session.sql(
        "SELECT REGR_SLOPE(cost, age) AS slope, REGR_INTERCEPT(cost, age) AS at_zero, REGR_R2(cost, age) AS share, "
        "REGR_COUNT(cost, age) AS people FROM visits",
        epsilon=20,
    )
    answer = found.run().frame.iloc[0]
    slope, at_zero = np.polyfit(frame["age"], frame["cost"], 1)
    exact = {
        "slope": slope,
        "at_zero": at_zero,
        "share": np.corrcoef(frame["age"], frame["cost"])[0, 1] ** 2,
        "people": len(frame),
    }
    for name, value in exact.items():
        assert abs(answer[name] - value) < SEEN * answer[f"{name}_std_error"] + 0.02 * abs(value), name


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("REGR_SLOPE(n)", r"REGR_SLOPE\(y, x\)"),
        ("REGR_SLOPE(SUM(n), year)", "aggregate of an aggregate"),
        ("REGR_SLOPE(n, year) OVER ()", "has no window"),
    ],
)
def test_what_is_no_line_is_refused(session, written, says):
    with pytest.raises(dpn.errors.SQLError, match=says):
        session.sql(f"{COUNTS} SELECT {written} FROM c", epsilon=0.5)
