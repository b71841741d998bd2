"""Coarser groups, and narrower ranges, of what was released: free where they follow, with the noise of their parts."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.sql.aggregates.added_up import added_up
from dpnotebook.sql.aggregates.estimating import estimate
from dpnotebook.sql.aggregates.expected import expected
from dpnotebook.sql.aggregates.measuring import Measuring
from dpnotebook.sql.aggregates.taken import REACH
from dpnotebook.testing import exact_session

DOMAIN = {
    "ts": dpn.Dates("2024-01-01", "2025-12-31"),
    "age": dpn.Range(0, 99),
    "city": ["Bern", "Oslo"],
}
DAY, MONTH, QUARTER, YEAR = "CAST(ts AS DATE)", "DATE_TRUNC('month', ts)", "DATE_TRUNC('quarter', ts)", "YEAR(ts)"
WRITTEN, NUMBER = "STRFTIME(ts, '%Y-%m')", "EXTRACT(YEAR FROM ts) * 100 + EXTRACT(MONTH FROM ts)"
IN_YEARS = "ts >= '2024-01-01' AND ts < '2026-01-01'"


def made(rows=3_000, people=700, seed=3):
    """Return rows with moments at midnight and beside it, missing ones, and some that are not declared."""
    random = np.random.default_rng(seed)
    days = pd.Timestamp("2023-12-20") + pd.to_timedelta(random.integers(0, 760, rows), "D")
    ts = pd.Series(days + pd.to_timedelta(random.choice([0, 1, 43_200_000_000, 86_399_999_999], rows), "us"))
    ts[random.random(rows) < 0.03] = pd.NaT
    return pd.DataFrame({
        "who": random.integers(0, people, rows),
        "ts": ts,
        "age": pd.array(np.where(random.random(rows) < 0.04, np.nan, random.integers(-3, 105, rows)), dtype="Int64"),
        "city": random.choice([*DOMAIN["city"], "Rome", None], rows),
        "paid": random.gamma(2.0, 20.0, rows).round(2),
    })  # fmt: skip


FRAME = made()


@pytest.fixture(autouse=True)
def made_up(monkeypatch):
    """Allow sessions without noise: there are no people here."""
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")


def protected(session=None, **more):
    session = session or exact_session(dpn.Budget(1e6, 1e-6))
    session.protect(FRAME, "t", unit="who", domain=DOMAIN, **more)
    return session


def written(key, aggregate, where=None):
    condition = f" WHERE {where}" if where else ""
    return f"SELECT {key} AS k, {aggregate} AS v FROM t{condition} GROUP BY k ORDER BY k"


FOLLOWS = [
    (DAY, None, MONTH, IN_YEARS),
    (DAY, None, "DATE_TRUNC('week', ts)", "ts >= '2024-03-04' AND ts < '2024-06-03'"),
    (DAY, None, "EXTRACT(DOW FROM ts)", IN_YEARS),
    (MONTH, None, QUARTER, None),
    (MONTH, None, YEAR, IN_YEARS),
    (WRITTEN, None, QUARTER, None),
    (MONTH, None, WRITTEN, None),
    (MONTH, None, NUMBER, "ts >= '2024-04-01' AND ts < '2024-07-01'"),
    (WRITTEN, None, WRITTEN, "STRFTIME(ts, '%Y-%m') >= '2025-04'"),
    ("FLOOR(age / 10) * 10", None, "FLOOR(age / 20) * 20", None),
    ("age", None, "FLOOR(age / 15) * 15", "age >= 15 AND age < 60"),
    (DAY, "ts >= '2024-03-01'", DAY, "ts >= '2024-03-10'"),
    (DAY, "ts >= '2024-03-01'", DAY, "ts >= '2024-03-10' AND ts < '2024-05-01'"),
    (DAY, "ts >= '2024-03-01' AND city = 'Oslo'", MONTH, "city = 'Oslo' AND ts >= '2024-05-01' AND ts < '2025-02-01'"),
    (MONTH, "YEAR(ts) = 2024", QUARTER, "YEAR(ts) = 2024"),
    (MONTH, "YEAR(ts) >= 2024", MONTH, "ts >= '2024-04-01' AND ts < '2024-07-01'"),
    ("age // 10", "age >= 20", "age // 10", "age BETWEEN 30 AND 49"),
]


@pytest.mark.one_in(16)
@pytest.mark.parametrize(
    "aggregate",
    ["COUNT(*)", "AVG(age)", *(pytest.param(one, marks=pytest.mark.slow) for one in ("SUM(age)", "VAR_POP(age)"))],
)
@pytest.mark.parametrize("follows", FOLLOWS)
def test_coarser_and_narrower_groups_are_free_and_what_a_fresh_answer_is(follows, aggregate):
    finer, within, coarser, also = follows
    if aggregate != "COUNT(*)" and "age" in finer:
        aggregate = aggregate.replace("(age)", "(paid)")
    session = protected(exact_session(dpn.Budget(1e6, 1e-6)))
    session.sql(written(finer, aggregate, within), epsilon=9_000.0).run()
    asked = written(coarser, aggregate, also)
    query = session.sql(asked, epsilon=1.0)
    assert query.plan.free
    found = query.run().frame
    fresh = session.sql(asked, epsilon=9_000.0, fresh=True).run().frame
    pd.testing.assert_series_equal(found["k"], fresh["k"])
    values, again = (frame["v"].to_numpy(float) for frame in (found, fresh))
    if aggregate.startswith(("AVG", "VAR")):  # of no values it is the middle of what is known of all
        column = aggregate[aggregate.index("(") + 1 : -1]
        counts = session.sql(written(coarser, f"COUNT({column})", also), epsilon=9_000.0, fresh=True).run().frame
        there = counts["v"].to_numpy(float) > 0.5
        assert there.sum() > 0
        values, again = values[there], again[there]
    assert values == pytest.approx(
        again, rel=1e-6 if aggregate.startswith(("COUNT", "SUM")) else 0.01, abs=0.6, nan_ok=True
    )


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    "follows",
    [
        (DAY, None, DAY, "ts >= '2024-03-01 12:00:00'"),  # not at the edge of a day
        (MONTH, None, "DATE_TRUNC('week', ts)", None),  # finer, and across months
        (DAY, None, "EXTRACT(DOW FROM ts)", None),  # has rows of days that are not declared
        (DAY, "ts >= '2024-03-01'", DAY, "ts >= '2024-02-20'"),
        (DAY, "ts >= '2024-03-01'", MONTH, None),
        (DAY, "ts >= '2024-03-10'", MONTH, "ts >= '2024-03-01' AND ts < '2025-01-01'"),
        (DAY, "city = 'Oslo'", MONTH, IN_YEARS),
        (MONTH, None, "EXTRACT(HOUR FROM ts)", None),
        ("age // 10", None, "CASE WHEN age < 20 THEN 'young' ELSE 'old' END", None),  # the old have missing ages too
        ("age // 10", None, "age // 15", None),
        (QUARTER, None, MONTH, None),
    ],
)
def test_what_does_not_follow_is_paid_for(follows):
    finer, within, coarser, also = follows
    session = protected(exact_session(dpn.Budget(1e6, 1e-6)))
    session.sql(written(finer, "COUNT(*)", within), epsilon=9_000.0).run()
    assert not session.sql(written(coarser, "COUNT(*)", also), epsilon=0.01).plan.free


def test_people_of_several_days_are_counted_anew():
    session = protected(exact_session(dpn.Budget(1e6, 1e-6)))
    session.sql(written(MONTH, "COUNT(DISTINCT who)"), epsilon=9_000.0).run()
    assert not session.sql(written(QUARTER, "COUNT(DISTINCT who)"), epsilon=0.01).plan.free
    assert session.sql(written(WRITTEN, "COUNT(DISTINCT who)"), epsilon=0.01).plan.free  # the same months


def test_groups_that_a_threshold_hides_are_in_no_sum():
    session = dpn.Session(dpn.Budget(50.0, 1e-5), ":memory:")
    session.protect(FRAME, "t", unit="who")  # no day is declared
    session.sql(written(DAY, "COUNT(*)"), epsilon=20.0).run()
    assert not session.sql(written(MONTH, "COUNT(*)"), epsilon=0.01).plan.free


def test_each_group_has_the_noise_of_its_days_and_the_worst_is_promised():
    """A month of 31 days errs sqrt(31 / 28) times as much as one of 28, and an error is promised for the worst."""
    session = protected(dpn.Session(dpn.Budget(500.0, 1e-6), ":memory:"), max_rows=4)
    asked = {"contribution": "rows"}
    days = session.sql(written(DAY, "SUM(paid)"), epsilon=5.0, **asked).run().frame
    query = session.sql(written(MONTH, "SUM(paid)", IN_YEARS), epsilon=0.05, **asked)
    assert query.plan.free
    months = query.run().frame
    lengths = pd.to_datetime(months["k"]).dt.days_in_month
    assert months["v_std_error"].to_numpy() == pytest.approx(np.sqrt(lengths) * days["v_std_error"].iloc[0], rel=1e-6)
    widths = ((months["v_upper"] - months["v_lower"]) / 2).to_numpy()
    assert query.plan.error == pytest.approx(widths.max())
    within = REACH * float(months["v_std_error"].max())  # an error that is asked for is one of noise
    assert session.sql(written(MONTH, "SUM(paid)", IN_YEARS), error=within * 1.001, **asked).plan.free
    closer = session.sql(written(MONTH, "SUM(paid)", IN_YEARS), error=within * 0.98, **asked).plan
    assert closer.rest is not None  # measuring anew has to find bounds first


def in_months(session, aggregate, **more):
    """Return a release by day, and the noisy numbers of its months with what was measured of these."""
    record = session.ledger.get(session.sql(written(DAY, aggregate), epsilon=3.0, **more).run().number)
    (told,) = record.details["selects"]
    measured = Measuring.from_json(told["measuring"])
    numbers = np.asarray(record.answers[0], dtype=np.int64).reshape(-1, measured.measured)
    lengths = [31, 29, 31, 30]
    return measured, numbers[: sum(lengths)], lengths


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    ("aggregate", "rows", "more"),
    [("SUM(paid)", {"max_rows": 4}, {"contribution": "rows"}), ("AVG(age)", {}, {}), ("COUNT(*)", {}, {})],
)
def test_months_err_as_their_noise_does(aggregate, rows, more):
    """Noise of days that is drawn again, added up: intervals hold, and errors are as large as they are said."""
    session = protected(dpn.Session(dpn.Budget(500.0, 1e-6), ":memory:"), **rows)
    measured, numbers, lengths = in_months(session, aggregate, **more)
    parts = tuple(replace(part, moved=0.0, moved_down=None, lost=()) for part in measured.parts)
    measured = replace(measured, parts=parts)  # intervals hold what bounds take, beside the noise
    numbers = numbers * 40 if aggregate == "AVG(age)" else numbers  # means of many rows err as a ratio hardly does
    starts = np.cumsum([0, *lengths[:-1]])
    months = added_up(measured, np.split(np.arange(sum(lengths)), starts[1:]))
    assert months.together == tuple(lengths)
    assert Measuring.from_json(months.to_json()) == months
    random = np.random.default_rng(11)
    draws = 3_000
    scales = np.array([math.sqrt(measured.law.variance(scale)) for scale in measured.scales])
    noise = np.rint(random.normal(size=(draws, *numbers.shape)) * scales).astype(np.int64)
    drawn = np.add.reduceat(numbers + noise, starts, axis=1).reshape(-1, measured.measured)
    (truth,), (found,) = estimate(months, np.add.reduceat(numbers, starts), 0.95), estimate(months, drawn, 0.95)
    away = found.value.reshape(draws, -1) - truth.value
    errors = found.std_error.reshape(draws, -1)
    inside = (found.lower.reshape(draws, -1) <= truth.value) & (truth.value <= found.upper.reshape(draws, -1))
    if not measured.parts[0].layers:
        assert np.sqrt((away**2).mean(axis=0)) == pytest.approx(errors.mean(axis=0), rel=0.06)
        assert inside.mean(axis=0) == pytest.approx(np.full(4, 0.95), abs=0.015)
    else:  # of two layers, errors and intervals hold more than the noise: what shrinking moves
        assert (np.sqrt((away**2).mean(axis=0)) <= errors.mean(axis=0) * 1.05).all()
        assert (inside.mean(axis=0) >= 0.94).all()
    (worst,) = expected(months, 0.95)
    for length in set(lengths):
        (alike,) = estimate(added_up(measured, [range(length), range(length)]), drawn[:2], 0.95)
        (mixed,) = estimate(added_up(measured, [range(length), range(length + 1)]), drawn[:2], 0.95)
        assert mixed.std_error[0] == pytest.approx(alike.std_error[0])
        assert mixed.upper[0] == pytest.approx(alike.upper[0])
        assert expected(added_up(measured, [range(length)]), 0.95)[0].std_error <= worst.std_error * (1 + 1e-9)


def test_what_is_worked_out_of_months_has_the_noise_of_their_days():
    session = protected(dpn.Session(dpn.Budget(500.0, 1e-6), ":memory:"), max_rows=4)
    session.sql(written(DAY, "SUM(paid)"), epsilon=5.0, contribution="rows").run()
    inner = written(MONTH, "SUM(paid)", IN_YEARS)
    answer = session.sql(inner, epsilon=0.05, contribution="rows").run()
    months = answer.frame
    drawn = answer.samples(2_000)["v"].to_numpy(dtype=float).reshape(2_000, -1)
    reached = np.quantile(drawn, 0.975, axis=0) - np.quantile(drawn, 0.025, axis=0)
    beside = reached / (months["v_upper"] - months["v_lower"]).to_numpy()  # what is lost is a part of what is redrawn
    assert np.median(beside) == pytest.approx(1.0, abs=0.06)
    assert beside == pytest.approx(np.ones(len(months)), abs=0.2)
    query = session.sql(
        f"SELECT k, v / 4 AS w, SUM(v) OVER () AS whole FROM ({inner})", epsilon=0.05, contribution="rows"
    )
    assert query.plan.free
    worked_out = query.run().frame
    lengths = (months["v_upper"] - months["v_lower"]).to_numpy() / 4
    drawn_again = (worked_out["w_upper"] - worked_out["w_lower"]).to_numpy() / lengths
    assert np.median(drawn_again) == pytest.approx(1.0, abs=0.06)
    # Noise adds up in squares; what bounds take is one thing, of which all months have lost their part.
    noise = REACH * months["v_std_error"]
    lost = np.sqrt(np.maximum((months["v_upper"] - months["v"]) ** 2 - noise**2, 0.0)).sum()
    above = float(worked_out["whole_upper"].iloc[0] - worked_out["whole"].iloc[0])
    squares = float((noise**2).sum())
    assert math.sqrt(squares + (0.6 * lost) ** 2) < above < math.sqrt(squares + (1.1 * lost) ** 2)
