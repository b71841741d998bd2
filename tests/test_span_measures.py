"""Sums, means, quantiles and cumulative counts by longer spans of dates than those that are declared."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import dpnotebook as dpn
from dpnotebook.query.question import Question
from dpnotebook.testing import exact_session

DOMAIN = {
    "sex": ["F", "M"],
    "seen": dpn.Dates("2023-01-01", "2023-12-31"),
    "cost": dpn.Range(0, 100, unit="dollars"),
    "stay": dpn.Range(0, 9, nullable=True),
}
SPANS = {
    "month": lambda seen: seen.dt.strftime("%Y-%m"),
    "quarter": lambda seen: seen.dt.to_period("Q").astype(str),
    "weekday": lambda seen: seen.dt.day_name(),
}


def made(size=6_000, seed=0):
    rng = np.random.default_rng(seed)
    seen = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 365 * 24, size), unit="h")
    stay = pd.array(rng.integers(0, 10, size), dtype="Int64")
    stay[rng.random(size) < 0.2] = pd.NA
    return pd.DataFrame(
        {"sex": rng.choice(["F", "M"], size), "seen": seen, "cost": rng.integers(0, 101, size), "stay": stay}
    )


@pytest.fixture(autouse=True)
def _exact(monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")


@pytest.fixture
def visits():
    rows = made()
    with exact_session(dpn.Budget(epsilon=1_000.0)) as session:
        session.protect(rows, "visits", domain=DOMAIN)
        yield rows


def labels(frame, by):
    """Return what a frame calls its spans, as `SPANS` writes them."""
    if by == "weekday":
        return frame["seen"].tolist()
    return SPANS[by](frame["seen"]).tolist()


def lower(values, share):
    return np.quantile(values.dropna().to_numpy(dtype=float), share, method="inverted_cdf")


ASKED = {
    "sum": (lambda dp, **o: dp.sum("cost", **o), lambda rows: rows["cost"].sum()),
    "mean": (lambda dp, **o: dp.mean("cost", **o), lambda rows: rows["cost"].mean()),
    "mean of some": (lambda dp, **o: dp.mean("stay", **o), lambda rows: rows["stay"].mean()),
    "median": (lambda dp, **o: dp.median("cost", **o), lambda rows: lower(rows["cost"], 0.5)),
    "count": (lambda dp, **o: dp.count(**o), len),
}


@pytest.mark.one_in(24)
@pytest.mark.parametrize("by", SPANS)
@pytest.mark.parametrize("verb", ASKED)
@pytest.mark.parametrize("where", [None, "cost >= 20 and seen >= '2023-04'"])
def test_each_is_that_of_pandas(visits, verb, by, where):
    ours, truth = ASKED[verb]
    rows = visits if where is None else visits.query("cost >= 20 and seen >= '2023-04-01'")
    for keys in ({"seen": by}, {"seen": by, "sex": None}, {"sex": None, "seen": by}):
        query = ours(visits.dp.groupby(keys), where=where, epsilon=1.0)
        release = query.run()
        assert release.keys == tuple(keys)
        names = [SPANS[by](rows["seen"]) if key == "seen" else rows[key] for key in keys]
        expected = {key: truth(group) for key, group in rows.groupby(names if len(names) > 1 else names[0])}
        frame = release.frame.assign(seen=labels(release.frame, by))
        assert len(frame) == len(expected)
        for row in frame.to_dict("records"):
            key = tuple(row[name] for name in keys) if len(keys) > 1 else row["seen"]
            assert row["value"] == pytest.approx(float(expected[key])), (keys, key)
        again = visits.dp.session.release(release.number).frame  # with its keys as they were asked first
        again = again[list(release.frame)].sort_values(list(keys)).reset_index(drop=True)
        pd.testing.assert_frame_equal(again, release.frame.sort_values(list(keys)).reset_index(drop=True))
        written = eval(query.plan.code, {"visits": visits})
        assert written.question.key == query.question.key
        assert f" per {by} of seen" in release.title


def test_agg_describe_lists_of_quantiles_and_cdf_by_month(visits):
    month = SPANS["month"](visits["seen"])
    asked = {"cost": ["count", "sum", "mean", "median"], "stay": ["count", "mean"]}
    query = visits.dp.groupby({"seen": "month"}).agg(asked, epsilon=1.0)
    assert query.plan.cost.epsilon <= 1.0
    frame = query.run().frame
    grouped = visits.groupby(month)
    for name, expected in {
        "cost_count": grouped.size(), "cost_sum": grouped["cost"].sum(), "cost_mean": grouped["cost"].mean(),
        "stay_count": grouped["stay"].count(), "stay_mean": grouped["stay"].mean(),
    }.items():  # fmt: skip
        assert frame[name].to_numpy() == pytest.approx(expected.to_numpy(dtype=float)), name
    assert eval(query.plan.code, {"visits": visits}).question.key == query.question.key
    described = visits.dp.groupby({"seen": "quarter", "sex": None}).describe("cost", epsilon=1.0).run().frame
    assert len(described) == 8
    several = visits.dp.groupby({"seen": "quarter"}).quantile("cost", [0.25, 0.75], epsilon=1.0).run().frame
    truth = visits.groupby(SPANS["quarter"](visits["seen"]))["cost"]
    assert several["value"].tolist() == [lower(group, q) for _, group in truth for q in (0.25, 0.75)]
    assert several["quantile"].tolist() == [0.25, 0.75] * 4
    cdf = visits.dp.groupby({"seen": "quarter"}).cdf("cost", epsilon=1.0).run().frame
    assert len(cdf) == 4 * 101
    assert cdf["share"].iloc[100::101].tolist() == [1.0] * 4
    counts = [np.cumsum(np.bincount(group, minlength=101)) for _, group in truth]
    assert np.array_equal(cdf["value"].to_numpy(), np.concatenate(counts))


def test_what_is_known_of_days_is_known_of_months():
    rows = made()
    with dpn.Session(dpn.Budget(epsilon=10.0)) as session:
        session.protect(rows, "visits", domain=DOMAIN)
        days = rows.dp.groupby("seen").sum("cost", epsilon=1.0).run().frame
        release = rows.dp.groupby({"seen": "month"}).sum("cost", epsilon=0.01)
        assert release.plan.free
        frame = release.run().frame
        expected = days.groupby(days["seen"].dt.to_period("M"))["value"].sum()
        assert frame["value"].to_numpy() == pytest.approx(expected.to_numpy())
        error = float(days["std_error"].iloc[0])
        assert frame["std_error"].to_numpy() == pytest.approx(error * np.sqrt(frame["seen"].dt.days_in_month))
        first = rows.dp.groupby({"seen": "quarter", "sex": None}).mean("cost", epsilon=1.0).run()
        assert first.paid > 0
        assert rows.dp.groupby({"sex": None, "seen": "quarter"}).mean("cost", epsilon=1.0).run().paid == 0
        assert session.audit().ok


def test_a_month_costs_what_it_does_where_months_are_declared():
    rows = made()
    prices = {}
    for by in ("day", "month"):
        with dpn.Session(dpn.Budget(epsilon=10.0)) as session:
            session.protect(rows, "visits", domain=DOMAIN | {"seen": dpn.Dates("2023", "2023", by=by)}, rows=6_000)
            grouped = rows.dp.groupby({"seen": "month"})
            plans = [grouped.sum("cost", error=500).plan, grouped.mean("cost", error=5).plan]
            plans.append(grouped.median("cost", error=100).plan)
            prices[by] = [plan.cost.epsilon for plan in plans]
    (*linear, ranks), (*declared, of_months) = prices["day"], prices["month"]
    assert linear == pytest.approx(declared, rel=1e-6)
    # What is measured for a quantile is rounded to whole numbers with the groups: finer, where these have weights.
    assert 0.995 * of_months < ranks <= of_months


@pytest.mark.statistical
def test_intervals_hold_the_truth_as_often_as_they_say():
    rows = made(size=3_000)
    month = SPANS["month"](rows["seen"])
    truth = {
        "sum": rows.groupby(month)["cost"].sum().to_numpy(),
        "mean": rows.groupby(month)["cost"].mean().to_numpy(),
    }
    covered, asked = dict.fromkeys(truth, 0), 40
    with dpn.Session(dpn.Budget(epsilon=1_000.0)) as session:
        session.protect(rows, "visits", domain=DOMAIN)
        for _ in range(asked):
            for verb, expected in truth.items():
                grouped = rows.dp.groupby({"seen": "month"})
                frame = getattr(grouped, verb)("cost", epsilon=0.5, fresh=True).run().frame
                covered[verb] += int(((frame["lower"] <= expected) & (expected <= frame["upper"])).sum())
                widths = (frame["upper"] - frame["lower"]).median()
                assert widths < expected.max()
    for verb, count in covered.items():
        assert count >= binom.ppf(1e-7, 12 * asked, 0.95), verb


def test_questions_are_the_same_again_from_json(visits):
    domain = dpn.Domain(DOMAIN)
    for question in (
        visits.dp.groupby({"seen": "month", "sex": None}).sum("cost", epsilon=1.0).question,
        visits.dp.groupby({"sex": None, "seen": "weekday"}).median("cost", epsilon=1.0).question,
    ):
        again = Question.from_json(question.to_json(), domain)
        assert again.key == question.key
        assert again.words == question.words


def test_missing_dates_are_a_group_of_their_own():
    rows = made()
    rows.loc[::7, "seen"] = pd.NaT
    with exact_session(dpn.Budget(epsilon=100.0)) as session:
        seen = dpn.Dates("2023", "2023", nullable=True)
        session.protect(rows, "visits", domain=DOMAIN | {"seen": seen})
        frame = rows.dp.groupby({"seen": "quarter"}).sum("cost", epsilon=1.0).run().frame
        assert frame["seen"].isna().tolist() == [False] * 4 + [True]
        assert frame["value"].iloc[-1] == pytest.approx(rows.loc[::7, "cost"].sum(), rel=1e-12)


def test_cards_write_months_as_months_and_frames_have_their_first_day():
    rows = made()
    rows.loc[::7, "seen"] = pd.NaT
    with exact_session(dpn.Budget(epsilon=1_000.0)) as session:
        seen = dpn.Dates("2023", "2023", nullable=True)
        session.protect(rows, "visits", domain=DOMAIN | {"seen": seen})
        for by, first in {"month": "2023-01", "quarter": "2023-Q1", "year": "2023", "day": "2023-01-01",
                          "week": "2022-12-26/2023-01-01", "weekday": "Monday"}.items():  # fmt: skip
            release = rows.dp.groupby({"seen": by}).sum("cost", epsilon=1.0).run()
            labels = release.labels("seen")
            assert (labels[0], labels[-1]) == (first, None)
            if by != "weekday":
                assert release.frame["seen"].dtype.kind == "M"
            shown = release._repr_mimebundle_()
            for text in (shown["text/plain"], shown["text/html"]):
                assert first in text
                assert by == "day" or "2023-01-01 " not in text.replace("/2023-01-01", "")
        for by, first in {"month": "2023-01", "quarter": "2023-Q1", "day": "2023-01-01"}.items():
            assert rows.dp.groupby({"seen": by}).std("cost", epsilon=1.0).run().labels("seen")[0] == first
        declared = DOMAIN | {"seen": dpn.Dates("2023", "2023", by="month")}
        table = session.protect(rows.copy(), "other", domain=declared)
        assert table.histogram("seen", epsilon=1.0).run().labels("seen")[4] == "2023-05"
