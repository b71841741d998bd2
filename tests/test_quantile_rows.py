"""Several quantiles, and counts by bins, of people of whom nobody has said how many rows they have."""

from contextlib import closing

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.sql.aggregates.measuring import Measuring
from dpnotebook.testing import exact_session

pytestmark = pytest.mark.usefixtures("same_noise")

DOMAIN = {"sex": ["F", "M"], "x": dpn.Bins(0, 200, width=1, unit="euro")}
THREE = [0.25, 0.5, 0.75]


@pytest.fixture
def unsafe(monkeypatch):
    """Allow sessions without noise."""
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")


def visits(units=4_000, seed=0):
    """Return up to five rows a person."""
    random = np.random.default_rng(seed)
    who = np.repeat(np.arange(units), random.integers(1, 6, units))
    x = random.gamma(4, 10, who.size).clip(0, 199.9)
    return pd.DataFrame({"who": who, "sex": random.choice(["F", "M"], who.size), "x": x})


def opened(frame, make=dpn.Session, **budget):
    session = make(dpn.Budget(**({"epsilon": 50.0, "delta": 1e-6} | budget)), ":memory:", confirm="never")
    return session, session.protect(frame, "visits", unit="who", domain=DOMAIN)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_several_quantiles_are_those_of_the_rows_exactly(delta, unsafe):
    """Within one of the 512 bins that values are counted in, where all rows of everyone count."""
    frame = visits()
    session, table = opened(frame, exact_session, delta=delta)
    with closing(session):
        overall = table.quantile("x", THREE, epsilon=5).run()
        by_sex = table.groupby("sex").quantile("x", [0.9, 0.1], epsilon=5).run()
    bin_width = 200 / 512
    assert list(overall.frame.columns) == ["quantile", "value", "std_error", "lower", "upper"]
    assert overall.frame["quantile"].tolist() == THREE
    np.testing.assert_allclose(overall.frame["value"], frame["x"].quantile(THREE), atol=1 + bin_width)
    wanted = frame.groupby("sex")["x"].quantile([0.9, 0.1])
    assert list(zip(by_sex.frame["sex"], by_sex.frame["quantile"], strict=True)) == list(wanted.index)
    np.testing.assert_allclose(by_sex.frame["value"], wanted, atol=1 + bin_width)
    assert (by_sex.keys, by_sex.names) == (("sex", "quantile"), ("value",))
    assert by_sex.unit_of(by_sex.measures[0]) == "euro"


def test_a_list_is_each_quantile_by_itself_and_costs_one_measurement():
    session, table = opened(visits())
    with closing(session):
        several = table.quantile("x", THREE, epsilon=1)
        one = table.quantile("x", 0.3, epsilon=1, fresh=True)
        assert several.plan.units == one.plan.units
        release, spent = several.run(), session.ledger.spent
        told = session.ledger.get(release.number).details["selects"][0]["measuring"]
        assert sum(component.binned for component in Measuring.from_json(told).components) == 1
        alone = [table.quantile("x", q, epsilon=1).run() for q in THREE]
        assert session.ledger.spent == spent
    for row, single in zip(release, alone, strict=True):
        assert (row.value, row.lower, row.upper) == (single.value, *single.interval)
    assert release.frame["value"].is_monotonic_increasing


def test_lists_are_as_they_are_where_rows_are_declared(unsafe):
    """The same columns and rows, keys and names as the planner's answers have."""
    frame, shown = visits(), []
    for most in (None, 5):
        with closing(exact_session(dpn.Budget(50.0, 1e-6), ":memory:", confirm="never")) as session:
            table = session.protect(frame, "visits", unit="who", domain=DOMAIN, max_rows=most)
            shown.append(table.groupby("sex").quantile("x", THREE, epsilon=5).run())
    found, known = shown
    assert list(found.frame.columns) == list(known.frame.columns)
    pd.testing.assert_frame_equal(found.frame[["sex", "quantile"]], known.frame[["sex", "quantile"]])
    assert (found.keys, found.names, found.ordered) == (known.keys, known.names, known.ordered)
    np.testing.assert_allclose(found.frame["value"], known.frame["value"], atol=1)


def test_keys_may_be_called_like_quantiles():
    frame = visits(500).rename(columns={"sex": "25%"})
    with closing(dpn.Session(dpn.Budget(50.0, 1e-6), ":memory:", confirm="never")) as session:
        table = session.protect(frame, "visits", unit="who", domain={"25%": ["F", "M"], "x": DOMAIN["x"]})
        found = table.groupby("25%").quantile("x", [0.25, 0.5], epsilon=5).run().frame
    assert list(found.columns) == ["25%", "quantile", "value", "std_error", "lower", "upper"]
    assert found["25%"].tolist() == ["F", "F", "M", "M"]


def test_intervals_of_lists_hold_the_quantiles():
    """Of 30 sessions, each with three quantiles, 95% hold what is true of the rows, up to chance."""
    frame = visits(2_000)
    truth, held, wider = frame["x"].quantile(THREE).to_numpy(), [], []
    for _ in range(30):
        session, table = opened(frame)
        with closing(session):
            release = table.quantile("x", THREE, epsilon=0.5).run()
            found = release.frame
            at_half = release.again(0.5).frame
        held += list((found["lower"] <= truth) & (truth <= found["upper"]))
        assert list(at_half.columns) == list(found.columns)
        wider += list(found["upper"] - found["lower"] >= at_half["upper"] - at_half["lower"])
    assert np.mean(held) >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / len(held))
    assert all(wider)


def test_samples_are_of_each_row():
    session, table = opened(visits())
    with closing(session):
        release = table.groupby("sex").quantile("x", THREE, epsilon=1).run()
        draws = release.samples(200)
    values = draws["value"].to_numpy().reshape(200, 6)
    spread = np.abs(values - release.frame["value"].to_numpy()).mean(axis=0)
    assert (spread < 5 * release.frame["std_error"] + 1).all()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_counts_by_bins_are_those_of_the_rows(delta, unsafe):
    frame = visits()
    session, table = opened(frame, exact_session, delta=delta)
    with closing(session):
        histogram = table.histogram("x", epsilon=5).run()
        both = table.crosstab("sex", "x", epsilon=5).run()
        sums = table.groupby("x").sum("x", where="x < 3", epsilon=5).run()
    each = np.floor(frame["x"]).astype(int)
    counts = each.value_counts().reindex(range(200), fill_value=0)
    assert histogram.frame["x"].tolist() == [f"[{i}, {i + 1})" for i in range(199)] + ["[199, 200]"]
    np.testing.assert_allclose(histogram.frame["value"], counts, atol=0.02 * counts.max())
    wanted = pd.crosstab(frame["sex"], each).reindex(columns=range(200), fill_value=0).to_numpy().reshape(-1)
    np.testing.assert_allclose(both.frame["value"], wanted, atol=0.02 * wanted.max())
    assert len(sums.frame) in (3, 200)
