"""Shares of rows that satisfy a condition, as pandas users write them: right, and free once they are known."""

from contextlib import closing
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.errors import AccuracyError, DomainError, DPError, SQLError
from dpnotebook.planner.items import item_of
from dpnotebook.privacy.laws import law_of
from dpnotebook.query.question import Question
from dpnotebook.testing import exact_session

DOMAIN = {
    "line": list("ABC"),
    "fare": dpn.Categories(["adult", "child", "staff"], other="another", nullable=True),
    "minutes": dpn.Range(0, 60, nullable=True),
    "price": dpn.Bins(0, 4, width=0.5, nullable=True),
    "late": dpn.Boolean(nullable=True),
    "day": dpn.Dates("2025-01-01", "2025-03-31", nullable=True),
}
ROWS = 1_500


def trips():
    """Return rows whose values are missing, outside what is declared, or between whole numbers."""
    rng = np.random.default_rng(8)
    day = pd.Series(pd.Timestamp("2024-12-28") + pd.to_timedelta(rng.integers(0, 100, ROWS), unit="D"))
    return pd.DataFrame(
        {
            "line": rng.choice(list("ABC"), ROWS),
            "fare": rng.choice(np.array(["adult", "child", "staff", "dog", None], dtype=object), ROWS),
            "minutes": np.where(rng.random(ROWS) < 0.1, np.nan, rng.normal(30, 20, ROWS).round(1)),
            "price": np.where(rng.random(ROWS) < 0.1, np.nan, rng.uniform(-0.4, 4.4, ROWS).round(2)),
            "late": pd.array(rng.choice(np.array([True, False, None], dtype=object), ROWS), dtype="boolean"),
            "day": day.mask(rng.random(ROWS) < 0.1),
        }
    )


@pytest.fixture
def rows(monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    return trips()


def counted(rows):
    """Return the rows that count: those of an undeclared day do not."""
    return rows[rows["day"].isna() | rows["day"].between("2025-01-01", "2025-03-31")]


def exact(rows, **options):
    session = exact_session(dpn.Budget(900.0))
    session.protect(rows, "trips", domain=DOMAIN, **options)
    return closing(session)


def whole(column):
    """Return numbers as a Range has them: whole, and between its ends."""
    return np.floor(column).clip(0, 60)


CONDITIONS = {
    "fare == 'staff'": lambda t: t["fare"] == "staff",
    "fare != 'adult'": lambda t: t["fare"] != "adult",
    "fare in ['child', 'staff']": lambda t: t["fare"].isin(["child", "staff"]),
    "fare.isin(['child', 'staff'])": lambda t: t["fare"].isin(["child", "staff"]),
    "fare.str.startswith('s')": lambda t: t["fare"].str.startswith("s", na=False),
    "fare.isna()": lambda t: t["fare"].isna(),
    "minutes >= 20 and minutes < 40": lambda t: whole(t["minutes"]).between(20, 39),
    "minutes >= 60": lambda t: whole(t["minutes"]) >= 60,
    "price >= 2": lambda t: t["price"] >= 2,
    "late == True": lambda t: t["late"].fillna(False).astype(bool),
    "day >= '2025-02-01'": lambda t: t["day"] >= "2025-02-01",
    "minutes >= 20 and line == 'A'": lambda t: (t["minutes"] >= 20) & (t["line"] == "A"),  # of two columns: as in SQL
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("text", CONDITIONS)
@pytest.mark.parametrize("keys", [(), ("line",)])
def test_the_share_is_the_one_that_pandas_gives(rows, text, keys):
    kept = rows if text.endswith("'A'") else counted(rows)  # as in SQL, where every row has its value
    wanted = CONDITIONS[text](kept)
    with exact(rows) as session:
        verbs = session.table("trips")
        found = (verbs.groupby(list(keys)) if keys else verbs).mean(text, epsilon=1.0).run().frame["value"]
    wanted = wanted.groupby(kept["line"]).mean() if keys else pd.Series([wanted.mean()])
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


@pytest.mark.parametrize("text", ["late and staff", "late or staff", "not late and staff", "~late", "late & staff"])
def test_conditions_of_truth_values_alone_are_conditions(monkeypatch, text):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    rows = pd.DataFrame({"late": [True, False, False, True] * 25, "staff": [True, True, False, False] * 25})
    with closing(exact_session(dpn.Budget(900.0))) as session:
        table = session.protect(rows, "trips", domain={"late": bool, "staff": bool})
        wanted = rows.eval(text).mean()
        assert table.mean(text, epsilon=1.0).run().value == pytest.approx(wanted)
        assert table.sum(text, epsilon=1.0).run().value == pytest.approx(100 * wanted)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("text", list(CONDITIONS)[:-1])
def test_how_many_satisfy_it_is_a_sum_too(rows, text):
    with exact(rows) as session:
        found = session.table("trips").groupby("line").sum(text, where="minutes.notna()", epsilon=1.0)
        there = counted(rows[rows["minutes"].notna()])
        wanted = CONDITIONS[text](there).groupby(there["line"]).sum()
        np.testing.assert_allclose(found.run().frame["value"], wanted, rtol=1e-9)


IN_SQL = {
    # Rows without a value are left out, as in SQL.
    "AVG(fare = 'staff')": lambda t: (t["fare"] == "staff")[t["fare"].notna()],
    "AVG((fare = 'staff')::INT)": lambda t: (t["fare"] == "staff")[t["fare"].notna()],
    "AVG(CAST(fare <> 'adult' AS DOUBLE))": lambda t: (t["fare"] != "adult")[t["fare"].notna()],
    # An ELSE counts them.
    "AVG(CASE WHEN fare = 'staff' THEN 1 ELSE 0 END)": lambda t: t["fare"] == "staff",
    "AVG(CASE WHEN fare <> 'adult' THEN 1.0 ELSE 0.0 END)": lambda t: (t["fare"] != "adult") & t["fare"].notna(),
    "AVG(IF(fare IN ('child', 'staff'), 1, 0))": lambda t: t["fare"].isin(["child", "staff"]),
    "AVG(CASE WHEN fare IS NULL THEN 1 ELSE 0 END)": lambda t: t["fare"].isna(),
    "AVG(fare IS NULL)": lambda t: t["fare"].isna(),
    "AVG((NOT fare = 'staff')::INT)": lambda t: (t["fare"] != "staff")[t["fare"].notna()],
    "AVG(late::INT)": lambda t: t["late"].dropna().astype(float),
    "SUM((fare = 'staff')::INT)": None,
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("call", IN_SQL)
@pytest.mark.parametrize("where", ["", " WHERE price >= 1"])
def test_statements_ask_the_same_question(rows, call, where):
    there = counted(rows[rows["price"] >= 1] if where else rows)
    text = f"SELECT line, {call} AS value FROM trips{where} GROUP BY line"
    with exact(rows) as session:
        query = session.sql(text, epsilon=1.0)
        assert isinstance(query.question, Question)
        found = query.run().frame["value"]
    if call.startswith("SUM"):
        np.testing.assert_allclose(found, (there["fare"] == "staff").groupby(there["line"]).sum())
        return
    shares = IN_SQL[call](there)
    np.testing.assert_allclose(found, shares.groupby(there["line"].loc[shares.index]).mean(), rtol=1e-9)


NO_QUESTION = [
    "SELECT line, AVG(CASE WHEN fare = 'staff' THEN 1 END) AS v FROM trips GROUP BY line",
    "SELECT line, AVG(CASE WHEN fare = 'staff' THEN 2 ELSE 0 END) AS v FROM trips GROUP BY line",
    "SELECT line, AVG(fare = 'staff' AND line = 'A') AS v FROM trips GROUP BY line",
    "SELECT fare, AVG(fare = 'staff') AS v FROM trips WHERE fare IS NOT NULL GROUP BY fare",
    "SELECT line, AVG(fare = 'staff') AS v FROM trips WHERE fare = 'staff' GROUP BY line",
    "SELECT line, AVG(CAST(minutes AS INTEGER)) AS v FROM trips GROUP BY line",
]


@pytest.mark.parametrize("text", NO_QUESTION)
def test_what_is_no_share_of_one_column_is_measured_by_itself_or_refused(rows, text):
    with exact(rows) as session:
        try:
            assert not isinstance(session.sql(text, epsilon=1.0).question, Question)
        except SQLError:
            return


def noisy(budget=None, **options):
    session = dpn.Session(budget or dpn.Budget(50.0))
    session.protect(trips(), "trips", domain=DOMAIN, **options)
    return closing(session)


SPELLINGS = [
    "AVG(fare = 'staff')",
    "AVG((fare = 'staff')::INT)",
    "AVG(CAST('staff' = fare AS INTEGER))",
    "AVG(IF(fare = 'staff', 1, 0))",
    "AVG(CASE WHEN fare = 'staff' THEN 1.0 ELSE 0 END)",
]


@pytest.mark.parametrize("budget", [dpn.Budget(50.0), dpn.Budget(50.0, 1e-6)], ids=["pure", "gaussian"])
def test_every_spelling_is_paid_for_once(budget):
    """Where nobody lacks a fare these are the same."""
    domain = DOMAIN | {"fare": ["adult", "child", "staff"]}
    with closing(dpn.Session(budget)) as session:
        session.protect(trips().dropna(), "trips", domain=domain)
        session.table("trips").groupby("line").count(error=20).run()
        for number, call in enumerate(SPELLINGS):
            query = session.sql(f"SELECT line, {call} AS v FROM trips GROUP BY line", error=0.1)
            assert query.plan.free == (number > 0), call
            query.run()
        assert session.table("trips").groupby("line").mean("fare == 'staff'", error=0.1).plan.free


def test_it_follows_from_counts_and_counts_follow_from_it():
    with noisy() as session:
        table = session.table("trips")
        table.groupby(["line", "fare"]).count(error=8).run()
        for text in ("fare == 'staff'", "fare in ['adult', 'child']"):
            plan = table.groupby("line").mean(text, error=0.15).plan
            assert plan.free
            assert plan.reused == (1,)
    with noisy() as session:
        table = session.table("trips")
        table.groupby("line").mean("minutes >= 30", epsilon=1.0).run()
        assert table.groupby("line").count(where="minutes >= 30", error=12).plan.free
        assert table.groupby("line").count(error=20).plan.free
        assert table.mean("minutes >= 30", error=0.05).plan.free
        assert not table.groupby("line").count(where="minutes >= 31", error=12).plan.free


@pytest.mark.privacy
@pytest.mark.parametrize("budget", [dpn.Budget(900.0), dpn.Budget(900.0, 1e-6)], ids=["pure", "gaussian"])
def test_its_noise_is_that_of_two_counts(budget):
    """Of 1,800 noisy numbers; noise that is a tenth too small is 4 standard errors and more away."""
    epsilon, found = 0.5, []
    kept = counted(trips())
    kept = kept.assign(holds=kept["fare"] == "staff", fails=kept["fare"] != "staff")
    kept["late"] = kept["late"].astype("object").fillna("none").astype(str)
    groups = pd.MultiIndex.from_product([list("ABC"), ["False", "True", "none"]])
    exact = kept.groupby(["line", "late"])[["holds", "fails"]].sum().reindex(groups).to_numpy().T
    with closing(dpn.Session(budget)) as session:
        session.protect(trips(), "trips", domain=DOMAIN)
        for _ in range(100):
            query = (
                session.table("trips").groupby(["line", "late"]).mean("fare == 'staff'", epsilon=epsilon, fresh=True)
            )
            (measured,) = query.plan.measurements
            release = query.run()
            noisy = item_of(measured, (1, 0), session.ledger.get(release.number).answers[0], law_of(query.plan.noise))
            found.append(noisy.noisy.reshape(2, 9) - exact)
        accountant, noise = session.ledger.accountant, np.concatenate(found).ravel()
        assert noise.std() == pytest.approx(
            np.sqrt(item_of(measured, (1, 0), np.zeros(18), law_of(query.plan.noise)).variance), rel=0.07
        )
        # A row is in one of both counts: what is paid is what the noise pays for.
        assert query.plan.cost.units == pytest.approx(accountant.units(Fraction(1, 2)), rel=1e-3)
        if not accountant.law.euclidean:
            assert measured.scale == 2


def test_it_runs_for_people_with_many_rows():
    frame = trips()
    frame["person"] = np.arange(ROWS) % 500
    with closing(dpn.Session(dpn.Budget(20.0, 1e-6))) as session:
        session.protect(frame, "trips", domain=DOMAIN, unit="person")
        release = session.table("trips").groupby("line").mean("fare == 'staff'", epsilon=5.0).run()
        wanted = (frame["fare"] == "staff").groupby(frame["line"]).mean()
        np.testing.assert_allclose(release.frame["value"], wanted, atol=0.1)


def test_it_is_said_as_a_share_and_as_code():
    with noisy() as session:
        query = session.table("trips").groupby("line").mean("fare == 'staff'", epsilon=0.5)
        assert query.question.words == "SHARE of (fare == 'staff') by line"
        release = query.run()
        code = session.code(release.number)
        assert code == "trips.dp.groupby(['line']).mean(\"fare == 'staff'\", epsilon=0.5)"
        assert "clamp" not in str(release)
        assert " fare" not in str(query.plan).split("error")[1].splitlines()[0]
        again = session.table("trips").groupby("line").mean("fare == 'staff'", epsilon=0.5)
        assert again.plan.free


BAD = {
    "fare == 'stuff'": (DPError, "staff"),
    "fare = 'staff'": (DPError, "=="),
    "fair == 'staff'": (DPError, "fare"),
}


@pytest.mark.parametrize("text", BAD)
def test_a_condition_that_means_nothing_says_what_to_write(text):
    kind, hint = BAD[text]
    with noisy() as session, pytest.raises(kind, match=hint):
        session.table("trips").mean(text, epsilon=0.1)


def test_what_does_not_go_with_a_condition_is_refused():
    with noisy() as session:
        table = session.table("trips")
        for options in ({"bounds": (0, 1)}, {"granularity": 1}, {"weights": "minutes"}):
            with pytest.raises(DomainError, match="leave"):
                table.mean("fare == 'staff'", epsilon=0.1, **options)
        with pytest.raises(DomainError, match="leave"):
            table.sum("fare == 'staff'", epsilon=0.1, bounds=(0, 1))
        with pytest.raises(AccuracyError, match="objective"):
            table.mean("fare == 'staff' and line == 'A'", epsilon=0.1, objective="worst")


def test_statements_that_were_measured_by_themselves_stay_free(tmp_path):
    """A ledger of before has the statement; here a statement by itself stands for it."""
    text = "SELECT line, AVG(fare = 'staff') AS v FROM trips GROUP BY line"
    with closing(dpn.Session(dpn.Budget(20.0), ledger=tmp_path / "ledger")) as session:
        session.protect(trips(), "trips", domain=DOMAIN)
        statement = session.sql(text, epsilon=0.5).statement
        assert statement is not None
        alone = replace(session.sql(text, epsilon=0.5), question=statement, statement=None)
        alone.run()
        assert session.sql(text, epsilon=0.5).plan.free


OF_ALL = [
    "AVG(CASE WHEN fare = 'staff' THEN 1 ELSE 0 END)",
    "AVG(IF(fare = 'staff', 1, 0))",
    "AVG(CASE WHEN 'staff' = fare THEN 1.0 ELSE 0.0 END)",
]
OF_KNOWN = [
    "AVG(fare = 'staff')",
    "AVG((fare = 'staff')::INT)",
    "AVG(CAST('staff' = fare AS DOUBLE))",
    "AVG(CASE WHEN fare = 'staff' THEN 1 WHEN fare <> 'staff' THEN 0 END)",
]


@pytest.mark.parametrize("calls", [OF_ALL, OF_KNOWN], ids=["of all rows", "of rows with a fare"])
def test_every_spelling_is_paid_for_once_where_people_have_many_rows(calls):
    frame = trips()
    frame["person"] = np.arange(ROWS) % 500
    others = OF_KNOWN if calls is OF_ALL else OF_ALL
    with closing(dpn.Session(dpn.Budget(20.0, 1e-6))) as session:
        session.protect(frame, "trips", domain=DOMAIN, unit="person")
        first = session.sql(f"SELECT line, {calls[0]} AS v FROM trips GROUP BY line", epsilon=1.0).run().frame
        for call in calls[1:]:
            query = session.sql(f"SELECT line, {call} AS v FROM trips GROUP BY line", epsilon=1.0)
            assert query.plan.free, call
            assert query.run().frame["v"].tolist() == first["v"].tolist()
        for call in [*others, calls[0].replace("'staff'", "'adult'")]:
            assert not session.sql(f"SELECT line, {call} AS v FROM trips GROUP BY line", epsilon=1.0).plan.free, call


def test_the_name_of_a_column_is_no_condition():
    frame = trips().assign(**{"cost in €": 3.0, "a == b": 2.0, "person": np.arange(ROWS)})
    with closing(dpn.Session(dpn.Budget(20.0, 1e-6))) as session:
        session.protect(frame, "trips", domain=DOMAIN | {"a == b": dpn.Bins(0, 4, width=1)}, unit="person", max_rows=1)
        table = session.table("trips")
        assert table.mean("cost in €", bounds="auto", epsilon=2.0).run().value == pytest.approx(3.0, abs=0.5)
        assert table.mean("a == b", epsilon=2.0).run().value == pytest.approx(2.0, abs=0.5)


@pytest.mark.usefixtures("same_noise")
def test_hidden_shares_are_from_0_to_1():
    """Of a few people noise hides of how many shares are: they may be any, but no more than all."""
    frame = pd.DataFrame({"ward": ["a"] * 500 + ["b"] * 3, "sex": ["F", "M"] * 251 + ["F"]})
    with closing(dpn.Session(dpn.Budget(5.0), ":memory:", confirm="never")) as session:
        session.protect(frame, "visits", domain={"ward": ["a", "b"], "sex": ["F", "M"]})
        release = frame.dp.crosstab("ward", "sex", normalize="index", epsilon=0.05).run()
    hidden = release.frame[release.frame["ward"] == "b"]
    assert np.isfinite(release.frame[["value", "std_error", "lower", "upper"]].to_numpy()).all()
    assert (hidden["lower"] <= hidden["value"]).all()
    assert (hidden["value"] <= hidden["upper"]).all()
    assert (release.frame.groupby("ward")["upper"].max() <= 1.0).loc["b"]
    assert "shares may be any, from 0 to 1" in str(release)
