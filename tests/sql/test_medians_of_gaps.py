"""Medians of values that go with how many rows one has, as times between visits: intervals hold which rows count."""

from contextlib import closing

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.sql.aggregates import quantiles

PEOPLE = 6_000
GAPS = (
    "SELECT MEDIAN(gap) AS gap FROM (SELECT person, DATE_DIFF('day', LAG(day) OVER (PARTITION BY person ORDER BY day), "
    "day) AS gap FROM visits)"
)


@pytest.fixture(scope="module")
def visits():
    """Visits of two years, of which a tenth of the people has most: their next visit is soon."""
    random = np.random.default_rng(8)
    who = np.repeat(np.arange(PEOPLE), 1 + random.poisson(np.minimum(random.lognormal(1.2, 1.2, PEOPLE), 180)))
    day = pd.Timestamp("2023-01-01") + pd.to_timedelta(random.integers(0, 730, who.size), unit="D")
    return pd.DataFrame({"person": who, "day": day, "fee": random.lognormal(3, 1, who.size).round(2)})


def answers(visits, text, budget, times=6, epsilon=1.0):
    found = []
    for _ in range(times):
        with closing(dpn.Session(budget, ":memory:")) as session:
            session.protect(visits, "visits", unit="person")
            found.append(session.sql(text, epsilon=epsilon).run().frame.iloc[0])
    return pd.DataFrame(found)


@pytest.mark.parametrize("budget", [dpn.Budget(3.0, 1e-6), dpn.Budget(3.0)], ids=["Gaussian", "Laplace"])
def test_intervals_hold_the_median_of_all_rows(visits, same_noise, budget):
    """They held it in none of eight sessions: as few rows counted as where values have nothing to do with these."""
    exact = visits.sort_values("day").groupby("person").day.diff().dt.days.median()
    found = answers(visits, GAPS, budget)
    assert ((found.gap_lower <= exact) & (exact <= found.gap_upper)).sum() >= 4
    assert (found.gap - exact).abs().median() < 0.25 * exact


def test_of_values_that_are_alike_they_stay_short(visits, same_noise):
    exact = visits.fee.median()
    found = answers(visits, "SELECT MEDIAN(fee) AS fee FROM visits", dpn.Budget(3.0, 1e-6))
    assert ((found.fee_lower <= exact) & (exact <= found.fee_upper)).sum() >= 4
    assert (found.fee_upper - found.fee_lower).median() < exact


def test_what_is_told_of_ranks_stays_with_the_release(visits, same_noise, tmp_path, monkeypatch):
    """In the next kernel the interval is the same; of another quantile of the same release it is longer as well."""
    path = tmp_path / "visits.ledger"
    with closing(dpn.Session(dpn.Budget(3.0, 1e-6), path)) as session:
        session.protect(visits, "visits", unit="person")
        first = session.sql(GAPS, epsilon=1.0).run()
        assert "intervals of quantiles are longer" in str(first)
    with closing(dpn.Session(dpn.Budget(3.0, 1e-6), path)) as session:
        session.protect(visits, "visits", unit="person")
        again, other = (session.sql(text, epsilon=1.0) for text in (GAPS, of_fraction(0.6)))
        assert again.plan.free
        assert other.plan.free
        assert again.run().frame.equals(first.frame)
        shorter = other.run().frame
        monkeypatch.setattr(quantiles, "ALONG", 4.0)
        longer = session.sql(of_fraction(0.61), epsilon=1.0).run().frame
    assert longer.gap_upper[0] - longer.gap_lower[0] > 1.2 * (shorter.gap_upper[0] - shorter.gap_lower[0])


def of_fraction(fraction):
    return GAPS.replace("MEDIAN(gap)", f"QUANTILE_CONT(gap, {fraction})")
