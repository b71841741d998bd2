"""Bounds that are found for quantiles: hardly any value is beyond them, and they are not much wider than values are."""

import numpy as np
import pandas as pd
import pytest
from private_selects import aggregate, fixed_noise, select

import dpnotebook as dpn
from dpnotebook.privacy.accountant import accountant_for
from dpnotebook.sql import value_histogram
from dpnotebook.sql.aggregates.bounds import PARTS_OF_UNIT, magnitude_edges
from dpnotebook.sql.aggregates.budget_split import of_range

COLUMNS = {
    "costs": lambda random, size: random.lognormal(5, 0.8, size),
    "heavy": lambda random, size: random.lognormal(5, 1.5, size),
    "years": lambda random, size: random.integers(1930, 2021, size).astype(float),
    "negative": lambda random, size: -random.gamma(3, 20, size),
}
RUNS = 15


def found_for(values, law, epsilon, draw, monkeypatch):
    """Return the bounds that a percentile finds in values of one row each."""

    def counted(select, column, bins, between, run):
        edges = magnitude_edges() if between is None else np.asarray(between)
        edges = np.linspace(*edges, bins + 1) if len(edges) == 2 else edges
        places = np.searchsorted(edges, values, side="right") - 1
        return np.bincount(places.clip(0, bins - 1), minlength=bins) * PARTS_OF_UNIT

    monkeypatch.setattr(value_histogram.histograms, "values", counted)
    accountant = accountant_for(dpn.Budget(epsilon, 1e-6, noise=law))
    chosen = select(aggregate("quantiles", fractions=(0.9,)), kind="rows", selection="all")
    costs = of_range(accountant.units(epsilon) // 2)
    told, _ = value_histogram.measured_values(chosen, chosen.aggregates[0], accountant, costs, None, draw)
    return tuple(map(float, told.bounds(chosen.aggregates[0], 1.0)[0]))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("law", ["gaussian", "laplace"])
@pytest.mark.parametrize("name", COLUMNS)
def test_hardly_any_value_is_beyond_bounds_for_quantiles(name, law, monkeypatch):
    """In the median of some tables; before, of costs 9% were, whose 90th percentile was then said to be the bound."""
    random, draw, beyond, width = np.random.default_rng(5), fixed_noise(), [], []
    for _ in range(RUNS):
        values = COLUMNS[name](random, 8_000)
        low, high = found_for(values, law, 0.25, draw, monkeypatch)
        beyond.append(max((values < low).mean(), (values > high).mean()))
        width.append((high - low) / np.subtract(*np.quantile(values, [0.995, 0.005])))
    assert np.median(beyond) < 0.015
    assert np.median(width) < 2.5


@pytest.mark.usefixtures("same_noise")
def test_a_high_percentile_is_in_its_interval_where_noise_hides_the_tail():
    random = np.random.default_rng(6)
    for _ in range(4):
        frame = pd.DataFrame({"who": np.arange(8_000), "cost": random.lognormal(5, 0.8, 8_000)})
        session = dpn.Session(dpn.Budget(10.0), ":memory:", confirm="never")
        session.protect(frame, "visits", unit="who", max_rows=1)
        row = session.sql("SELECT PERCENTILE_CONT(cost, 0.9) AS q FROM visits", epsilon=0.3).run().frame.iloc[0]
        session.close()
        assert row["q_lower"] <= frame["cost"].quantile(0.9) <= row["q_upper"]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("asked", "said"),
    [("MAX(cost)", "the largest of all may"), ("MIN(cost)", "the least of all may"), ("MEDIAN(cost)", "")],
)
@pytest.mark.usefixtures("same_noise")
def test_that_an_end_may_lie_beyond_the_bounds_that_were_found_is_said(asked, said):
    """One of 8,000 has far more: noise hides one, and the interval ended at the bound."""
    cost = np.random.default_rng(6).lognormal(5, 0.8, 8_000)
    cost[0], cost[1] = 1e6, -1e6
    with dpn.Session(dpn.Budget(10.0), ":memory:", confirm="never") as session:
        session.protect(pd.DataFrame({"who": np.arange(8_000), "cost": cost}), "visits", unit="who", max_rows=1)
        release = session.sql(f"SELECT {asked} AS x FROM visits", epsilon=0.5).run()
        assert abs(release.frame["x"][0]) < 1e5
        (note,) = [one for one in release.notes if "values are taken to be between" in one]
        assert ("lie beyond" in note) == bool(said)
        assert said in note
        lower, upper = release.frame.loc[0, ["x_lower", "x_upper"]]
        assert (lower == -np.inf, upper == np.inf) == (asked == "MIN(cost)", asked == "MAX(cost)")
        assert lower <= {"MAX": cost.max(), "MIN": cost.min(), "MED": np.median(cost)}[asked[:3]] <= upper
        assert ("at least" in str(release), "at most" in str(release)) == (upper == np.inf, lower == -np.inf)
        assert "±" not in str(release)


@pytest.mark.usefixtures("same_noise")
def test_the_largest_of_all_is_anywhere_up_to_what_is_declared():
    random = np.random.default_rng(6)
    frame = pd.DataFrame({"who": np.arange(8_000), "cost": random.lognormal(5, 0.5, 8_000).clip(0, 5_000)})
    with dpn.Session(dpn.Budget(10.0), ":memory:", confirm="never") as session:
        session.protect(frame, "visits", unit="who", max_rows=1, domain={"cost": dpn.Bins(0, 50_000, width=500)})
        found = session.sql("SELECT MAX(cost) AS x FROM visits", epsilon=0.5, bounds="auto").run().frame.loc[0]
        assert found["x"] < 10_000
        assert found["x_lower"] <= frame["cost"].max() <= found["x_upper"] == 50_000
