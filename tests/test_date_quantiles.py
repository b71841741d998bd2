"""Quantiles of dates: the median day, and its interval as days."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import dpnotebook as dpn
from dpnotebook.testing import exact_session


def made(size=2_000, seed=0):
    rng = np.random.default_rng(seed)
    seen = pd.Timestamp("2023-01-01") + pd.to_timedelta(365 * rng.beta(2, 3, size), unit="D")
    return pd.DataFrame({"sex": rng.choice(["F", "M"], size), "seen": seen})


@pytest.fixture(autouse=True)
def _exact(monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("zone", [None, "Europe/Paris"])
def test_the_median_day_is_that_of_pandas(zone):
    rows = made()
    if zone is not None:
        rows["seen"] = rows["seen"].dt.tz_localize("UTC").dt.tz_convert(zone)
    with exact_session(dpn.Budget(epsilon=100.0)) as session:
        session.protect(rows, "visits", domain={"sex": ["F", "M"], "seen": dpn.Dates("2023", "2023")})
        days = pd.Series(np.sort(rows["seen"].dt.tz_localize(None).dt.floor("D").to_numpy()))
        release = rows.dp.median("seen", epsilon=1.0).run()
        assert release.value == days[len(days) // 2 - 1]  # half of the rows are on it or before
        assert all(isinstance(end, pd.Timestamp) for end in release.interval)
        first, last = release.interval
        assert first <= release.value <= last
        frame = rows.dp.groupby("sex").quantile("seen", [0.25, 0.75], epsilon=1.0).run().frame
        assert frame[["value", "lower", "upper"]].dtypes.map(lambda kind: kind.kind).tolist() == ["M"] * 3
        for row in frame.itertuples():
            own = np.sort(rows.loc[rows["sex"] == row.sex, "seen"].dt.tz_localize(None).dt.floor("D").to_numpy())
            assert row.value == own[int(np.ceil(row.quantile * len(own))) - 1]
        assert f"{release.value:%Y-%m-%d}" in str(release)
        assert f"{first:%Y-%m-%d} to {last:%Y-%m-%d}" in release._repr_mimebundle_()["text/html"]
        again = session.release(release.number)
        assert (again.value, again.interval) == (release.value, release.interval)
        wide = release.simultaneous()
        assert wide.value == release.value
        assert release.samples(50)["value"].dtype.kind == "M"


def test_months_have_days_too():
    rows = made()
    with exact_session(dpn.Budget(epsilon=100.0)) as session:
        session.protect(rows, "visits", domain={"seen": dpn.Dates("2023", "2023", by="month")})
        release = rows.dp.median("seen", epsilon=5.0).run()
        first, last = release.interval
        assert first.day == 1
        assert last == last.to_period("M").end_time.floor("D")
        assert first <= rows["seen"].median() <= last + pd.Timedelta("1D")


@pytest.mark.statistical
def test_intervals_of_days_hold_the_median_as_often_as_they_say():
    rows, asked, covered = made(), 150, 0
    truth = np.sort(rows["seen"].dt.floor("D").to_numpy())[len(rows) // 2 - 1]
    with dpn.Session(dpn.Budget(epsilon=100.0)) as session:
        session.protect(rows, "visits", domain={"seen": dpn.Dates("2023", "2023")})
        for _ in range(asked):
            low, high = rows.dp.median("seen", epsilon=0.5, fresh=True).run().interval
            covered += low <= truth <= high
            assert high - low < pd.Timedelta("200D")
    assert covered >= binom.ppf(1e-7, asked, 0.95)
