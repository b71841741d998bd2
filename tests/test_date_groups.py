"""Counts by longer spans of dates than those that are declared: the numbers of pandas, known from the days."""

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.testing import exact_session
from dpnotebook.workload import Predicates

RNG = np.random.default_rng(4)
SIZE = 5000
SEEN = pd.Series(pd.Timestamp("2022-11-20") + pd.to_timedelta(RNG.integers(0, 800 * 86_400, SIZE), unit="s"))
SEEN[::50] = pd.NaT
ROWS = pd.DataFrame({"seen": SEEN, "sex": RNG.choice(["F", "M"], SIZE), "cost": RNG.integers(0, 30, SIZE)})
INSIDE = ROWS[ROWS["seen"].isna() | ROWS["seen"].between("2023-01-01", "2024-12-31 23:59:59")]
SPANS = {
    "week": lambda seen: seen.dt.to_period("W").dt.start_time,
    "month": lambda seen: seen.dt.to_period("M").dt.start_time,
    "quarter": lambda seen: seen.dt.to_period("Q").dt.start_time,
    "year": lambda seen: seen.dt.to_period("Y").dt.start_time,
    "weekday": lambda seen: seen.dt.day_name(),
    "month of year": lambda seen: seen.dt.month_name(),
    "quarter of year": lambda seen: "Q" + seen.dt.quarter.astype("Int64").astype(str).where(seen.notna()),
}


@pytest.fixture
def rows(monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    frame = ROWS.copy()
    with exact_session(dpn.Budget(epsilon=1e5)) as session:
        domain = {"seen": dpn.Dates("2023", "2024", nullable=True), "sex": ["F", "M"], "cost": dpn.Range(0, 29)}
        session.protect(frame, "visits", domain=domain)
        yield frame


def counted(frame, keys):
    """Return the counts of a frame's rows by keys, missing ones included, as a dict."""
    return {tuple(None if pd.isna(part) else part for part in (key if isinstance(key, tuple) else (key,))): count
            for key, count in frame.groupby(keys, dropna=False).size().items()}  # fmt: skip


def told(release):
    keys = [release.frame[key] for key in release.keys]
    found = zip(zip(*keys, strict=True), release.frame["value"], strict=True)
    return {tuple(None if pd.isna(part) else part for part in key): value for key, value in found if round(value)}


@pytest.mark.one_in(16)
@pytest.mark.parametrize("by", SPANS)
def test_counts_are_those_of_pandas_and_free_after_the_days(rows, by):
    query = rows.dp.groupby({"seen": by}).count(epsilon=50)
    fresh = query.run()
    rows.dp.histogram("seen", epsilon=60).run()
    known = rows.dp.groupby({"seen": by}).count(epsilon=50).run()
    named = INSIDE.assign(seen=SPANS[by](INSIDE["seen"]))
    for release in (fresh, known):
        assert told(release) == pytest.approx(counted(named, ["seen"]))
    assert fresh.paid == pytest.approx(50)
    assert known.paid == 0
    assert (fresh.frame["seen"].dtype == object) == ("of year" in by or by == "weekday")
    assert fresh.title == f"COUNT per {by} of seen"
    assert query.plan.code == f"visits.dp.groupby({{'seen': '{by}'}}).count(epsilon=50)"


@pytest.mark.one_in(8)
@pytest.mark.parametrize("by", ["month", "quarter", "weekday"])
@pytest.mark.parametrize(
    "where", ["sex == 'F'", "seen >= '2023-03-10' and seen < '2024-02-20'", "seen.dt.month in [1, 12] or cost > 20"]
)
def test_with_other_keys_and_conditions_beside_what_is_known(rows, by, where):
    """Disjoint counts of many cells each, beside a release of the cells: some may be known, others are measured."""
    rows.dp.crosstab("seen", "sex", epsilon=30).run()
    release = rows.dp.groupby(["sex", {"seen": by}]).count(where=where, epsilon=45).run()
    named = INSIDE.query(where, engine="python")
    named = named.assign(seen=SPANS[by](named["seen"]))
    assert release.keys == ("sex", "seen")
    assert told(release) == pytest.approx(counted(named, ["sex", "seen"]))
    again = rows.dp.groupby({"sex": None, "seen": by}).count(where=where, epsilon=45)
    assert again.plan.cost.epsilon == 0


@pytest.mark.one_in(4)
@pytest.mark.parametrize("by", ["month", "year", "weekday"])
@pytest.mark.parametrize(
    "where",
    [
        "seen >= '2023-05' and seen < '2023-06'",
        "seen.dt.day == 15",
        "seen == '2023-05-17' or seen.isna()",
        "seen.isna()",
    ],
)
def test_conditions_that_leave_one_span_or_one_day_of_each(rows, by, where):
    """What is asked is then a total or single days, and is called what was asked for all the same."""
    release = rows.dp.groupby({"sex": None, "seen": by}).count(where=where, epsilon=45).run()
    seen = INSIDE["seen"]
    chosen = {
        "seen >= '2023-05' and seen < '2023-06'": seen.between("2023-05-01", "2023-05-31 23:59:59"),
        "seen.dt.day == 15": seen.dt.day == 15,
        "seen == '2023-05-17' or seen.isna()": seen.dt.normalize().eq("2023-05-17") | seen.isna(),
        "seen.isna()": seen.isna(),
    }[where]
    named = INSIDE[chosen].assign(seen=SPANS[by](seen[chosen]))
    assert told(release) == pytest.approx(counted(named, ["sex", "seen"]))
    alone = rows.dp.groupby({"seen": by}).count(where=where, epsilon=45).run()
    assert told(alone) == pytest.approx(counted(named, ["seen"]))


def test_groupers_of_pandas_mean_spans(rows):
    for frequency, by in {"D": "day", "W": "week", "MS": "month", "ME": "month", "QS": "quarter", "YE": "year"}.items():
        release = rows.dp.groupby(["sex", pd.Grouper(key="seen", freq=frequency)]).count(epsilon=20).run()
        other = rows.dp.groupby({"sex": None, "seen": by}).count(epsilon=20).run()
        assert release.question.key == other.question.key
    for grouper in (pd.Grouper(key="seen", freq="2MS"), pd.Grouper(key="seen", freq="W-WED"), pd.Grouper(freq="MS"),
                    pd.Grouper(key="seen", freq="QS-FEB"), pd.Grouper(key="seen", freq="h")):  # fmt: skip
        with pytest.raises(dpn.DomainError, match="a Grouper is Grouper"):
            rows.dp.groupby(grouper)


def test_disjoint_counts_that_are_no_cells(rows):
    """Decades of costs beside what is known of single costs: they are measured as they are, or follow."""
    decades = Predicates([[(0, 10)], [(10, 20)], [(20, 30)]], n=30)
    wanted = np.bincount(INSIDE["cost"] // 10)
    for epsilon, known in ((1.0, False), (30.0, False), (5.0, True)):
        query = rows.dp.answer(decades, on="cost", epsilon=epsilon)
        assert (query.plan.cost.epsilon == 0) == known
        assert query.run().frame["value"].to_numpy() == pytest.approx(wanted, abs=30 / epsilon)
        rows.dp.crosstab("cost", "sex", epsilon=epsilon / 3).run()


def test_noise_of_a_span_is_that_of_one_count():
    """A row is in one month, so 240 months cost what one count does: the noise has the scale that this epsilon buys."""
    frame = ROWS.copy()
    with dpn.Session(budget=dpn.Budget(epsilon=100.0)) as session:
        domain = {"seen": dpn.Dates("2005", "2024")}
        session.protect(frame, "visits", domain=domain)
        seen = ROWS["seen"][ROWS["seen"] < "2025"]
        wanted = counted(pd.DataFrame({"seen": SPANS["month"](seen)}), ["seen"])
        noise = []
        for _ in range(60):
            release = frame.dp.groupby({"seen": "month"}).count(epsilon=0.5, fresh=True).run()
            assert release.paid == pytest.approx(0.5)
            noise += [row.value - wanted.get((row.seen,), 0) for row in release.frame.itertuples()]
    # discrete Laplace of scale 2: mean |x| = 2 a / (1 - a^2) with a = exp(-1/2), standard deviation 2.1 of |x|;
    # 5.4 standard errors of 14,400 draws are passed once in 10^7 runs, and noise a tenth smaller is twice as far off
    expected = 2 * np.exp(-0.5) / (1 - np.exp(-1))
    assert len(noise) == 14_400
    assert abs(np.mean(np.abs(noise)) - expected) < 5.4 * 2.1 / np.sqrt(len(noise))


@pytest.mark.one_in(8)
@pytest.mark.parametrize("by", ["weekday", "month of year", "quarter of year"])
@pytest.mark.parametrize("missing", [False, True])
def test_parts_of_weeks_and_years_of_people_with_many_rows(by, missing, monkeypatch):
    """As in SQL, of declared days alone: whoever came before or after them is in no group."""
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    days = pd.Series(pd.Timestamp("2024-12-20") + pd.to_timedelta(np.arange(3_000) % 130, unit="D"))
    rows = pd.DataFrame({"person": np.arange(3_000), "day": days.mask((np.arange(3_000) % 10 == 0) & missing)})
    session = exact_session(dpn.Budget(900.0, 1e-6))
    domain = {"day": dpn.Dates("2025-01-01", "2025-03-31")}
    session.protect(rows, "visits", unit="person", domain=domain, nullable=["day"] if missing else False)
    found = session.table("visits").groupby({"day": by}).count(epsilon=100.0).run().frame
    there = rows.loc[rows["day"].between("2025-01-01", "2025-03-31"), "day"]
    texts = {
        "weekday": there.dt.day_name(),
        "month of year": there.dt.month_name(),
        "quarter of year": "Q" + there.dt.quarter.astype(str),
    }
    wanted = texts[by].value_counts()
    shown = dict(zip(found["day"].fillna("none"), found["value"], strict=True))
    assert shown.pop("none", 0.0) == (300 if missing else 0.0)
    assert shown == wanted.to_dict()
