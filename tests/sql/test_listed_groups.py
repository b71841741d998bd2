"""Groups that the conditions of a statement list, where no budget hides others: as if they had been declared."""

import datetime

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.errors import SQLError
from dpnotebook.testing import exact_session

KINDS = ["Housing", "Child", "child", "Disability"]
DAYS = pd.date_range("2021-01-01", "2023-12-31")


def payments(people=400, seed=3):
    """Return a few rows each of some people."""
    random = np.random.default_rng(seed)
    who = np.repeat(np.arange(people), random.integers(1, 4, people))
    return pd.DataFrame(
        {
            "who": who,
            "kind": random.choice([*KINDS, None], who.size),
            "size": random.integers(1, 7, who.size),
            "late": pd.array(random.choice([True, False, None], who.size), dtype="boolean"),
            "paid": random.choice(DAYS, who.size) + pd.to_timedelta(random.integers(0, 86_400, who.size), unit="s"),
            "amount": random.integers(0, 100, who.size),
        }
    )


TABLE = payments()


@pytest.fixture
def exact(monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    with exact_session(dpn.Budget(1_000.0), ":memory:", confirm="never") as session:
        session.protect(TABLE, "payments", unit="who", max_rows=3)
        yield session


@pytest.fixture
def session():
    with dpn.Session(dpn.Budget(10.0), ":memory:", confirm="never") as made:
        made.protect(TABLE, "payments", unit="who", max_rows=3)
        yield made


def counted(session, key, where):
    """Return how many rows each group is said to have."""
    release = session.sql(f"SELECT {key} AS k, COUNT(*) AS n FROM payments WHERE {where} GROUP BY k", epsilon=5).run()
    return dict(zip(release.frame["k"], release.frame["n"], strict=True))


@pytest.mark.parametrize(
    ("where", "groups"),
    [
        ("kind IN ('Housing', 'Child', 'nobody')", ["Housing", "Child", "nobody"]),
        ("kind = 'child'", ["child"]),
        ("'child' = kind AND amount > 20", ["child"]),
        ("kind IN ('Housing', 'Child') AND kind IN ('Child', 'child')", ["Child"]),
        ("kind IN ('Housing', NULL)", ["Housing"]),
        ("(kind IN ('Housing')) AND size < 3", ["Housing"]),
    ],
)
def test_texts_that_a_condition_lists_are_groups(exact, where, groups):
    kept = TABLE.assign(kind=TABLE["kind"].astype(object)).query(
        {"(kind IN ('Housing')) AND size < 3": "size < 3", "'child' = kind AND amount > 20": "amount > 20"}.get(
            where, "size > 0"
        )
    )
    assert counted(exact, "kind", where) == {name: float((kept["kind"] == name).sum()) for name in groups}


def test_numbers_that_a_condition_lists_are_groups(exact):
    assert counted(exact, "size", "size IN (1, 2, 40)") == {
        size: float((TABLE["size"] == size).sum()) for size in (1, 2, 40)
    }


def test_whole_numbers_between_two_are_groups(exact):
    text = (
        "SELECT k, COUNT(*) AS n FROM (SELECT who, COUNT(*) AS k FROM payments GROUP BY who) "
        "WHERE k > 1 AND k <= 4 GROUP BY k"
    )
    frame = exact.sql(text, epsilon=5).run().frame
    rows = TABLE.groupby("who").size()
    assert dict(zip(frame["k"], frame["n"], strict=True)) == {k: float((rows == k).sum()) for k in (2, 3, 4)}


def test_a_range_of_numbers_with_decimals_lists_nothing(session):
    with pytest.raises(SQLError, match="WHERE column IN"):
        _ = session.sql("SELECT size, COUNT(*) FROM payments WHERE size BETWEEN 1 AND 3 GROUP BY size", epsilon=1).plan


def test_truth_values_are_two_or_missing(exact):
    frame = exact.sql("SELECT late, COUNT(*) AS n FROM payments GROUP BY late", epsilon=5).run().frame
    found = {None if pd.isna(late) else bool(late): n for late, n in zip(frame["late"], frame["n"], strict=True)}
    assert found == {
        True: float((TABLE["late"] == True).sum()),  # noqa: E712
        False: float((TABLE["late"] == False).sum()),  # noqa: E712
        None: float(TABLE["late"].isna().sum()),
    }


@pytest.mark.parametrize(
    ("key", "of"),
    [
        ("DATE_TRUNC('month', paid)", lambda paid: paid.dt.to_period("M").dt.to_timestamp()),
        ("YEAR(paid)", lambda paid: paid.dt.year),
        ("CAST(paid AS DATE)", lambda paid: paid.dt.normalize()),
        ("STRFTIME(paid, '%Y-%m')", lambda paid: paid.dt.strftime("%Y-%m")),
        ("EXTRACT(QUARTER FROM paid)", lambda paid: paid.dt.quarter),
    ],
)
@pytest.mark.parametrize(
    ("where", "first", "after"),
    [
        ("paid >= '2021-03-01' AND paid < '2022-02-01'", "2021-03-01", "2022-02-01"),
        ("paid >= DATE '2021-03-10' AND paid < TIMESTAMP '2021-06-01 00:00:00'", "2021-03-10", "2021-06-01"),
    ],
)
def test_days_that_a_condition_leaves_are_groups(exact, key, of, where, first, after):
    found = {str(k): n for k, n in counted(exact, key, where).items()}
    inside = TABLE["paid"][(TABLE["paid"] >= first) & (TABLE["paid"] < after)]
    there = {str(k): float(n) for k, n in of(inside).value_counts().items()}
    assert {k: n for k, n in found.items() if n} == there
    if key.startswith("CAST"):
        assert len(found) == (pd.Timestamp(after) - pd.Timestamp(first)).days


def test_what_a_condition_lists_of_an_expression_is_its_groups(exact):
    found = counted(exact, "LOWER(kind)", "LOWER(kind) IN ('child', 'housing')")
    assert found == {kind: float((TABLE["kind"].str.lower() == kind).sum()) for kind in ("child", "housing")}


@pytest.mark.parametrize(
    "where",
    ["kind IN ('Child') OR size = 1", "kind <> 'Child'", "kind LIKE 'C%'", "NOT kind IN ('Child')", "size = 1"],
)
def test_what_does_not_list_all_groups_is_refused_and_says_what_would(session, where):
    with pytest.raises(SQLError, match=r"WHERE column IN \('a', 'b'\)"):
        _ = session.sql(f"SELECT kind, COUNT(*) AS n FROM payments WHERE {where} GROUP BY kind", epsilon=1).plan


def test_each_list_is_paid_for_and_asked_again_is_free(session):
    text = "SELECT kind, COUNT(*) AS n FROM payments WHERE kind IN ('Housing', 'Child') GROUP BY kind"
    session.sql(text, epsilon=1).run()
    assert session.sql(text, epsilon=1).plan.free
    other = session.sql(text.replace("Child", "child"), epsilon=1)
    assert other.plan.cost.epsilon == pytest.approx(1.0)
    other.run()
    assert session.spent.epsilon == pytest.approx(2.0)


def test_with_a_delta_groups_are_those_that_enough_people_share():
    with dpn.Session(dpn.Budget(10.0, 1e-6), ":memory:", confirm="never") as session:
        session.protect(TABLE, "payments", unit="who", max_rows=3)
        release = session.sql(
            "SELECT kind, COUNT(*) AS n FROM payments WHERE kind IN ('Housing', 'nobody') GROUP BY kind", epsilon=5
        ).run()
    assert list(release.frame["kind"]) == ["Housing"]


def test_beside_declared_columns(exact):
    exact.protect(TABLE, "declared", unit=dpn.Unit("others", column="who"), max_rows=3, domain={"kind": KINDS})
    text = (
        "SELECT kind, YEAR(paid) AS y, COUNT(*) AS n FROM declared WHERE paid >= '2022-01-01' AND paid <= '2023-12-31' "
    )
    frame = exact.sql(f"{text} GROUP BY kind, y", epsilon=5).run().frame
    assert len(frame) == 2 * len(KINDS)
    later = TABLE[(TABLE["paid"] >= "2022-01-01") & (TABLE["paid"] <= datetime.datetime(2023, 12, 31))]
    assert frame["n"].sum() == later["kind"].isin(KINDS).sum()


def test_an_error_that_cannot_be_foretold_says_first_what_no_price_can(session):
    totals = "SELECT kind, n / SUM(n) OVER () AS share FROM (SELECT kind, COUNT(*) AS n FROM payments GROUP BY kind)"
    with pytest.raises(SQLError, match="which groups of kind exist is not known"):
        _ = session.sql(totals, error=0.1).plan


def test_days_that_a_condition_lists_leave_all_their_months(monkeypatch):
    """From the first to the last: the months of all but the one that is written first were left out."""
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    days = TABLE["paid"].dt.normalize()
    listed = days.sort_values().iloc[[400, 5, 700]]
    texts = ", ".join(f"'{day:%Y-%m-%d}'" for day in listed)
    with exact_session(dpn.Budget(1_000.0), ":memory:", confirm="never") as session:
        session.protect(TABLE.assign(day=days), "payments", unit="who", max_rows=3)
        found = counted(session, "DATE_TRUNC('month', day)", f"day IN ({texts})")
    wanted = days[days.isin(listed)].groupby(days.dt.to_period("M")).size()
    assert len(wanted) == 3
    assert {pd.Period(month, "M"): n for month, n in found.items() if n} == wanted.to_dict()
