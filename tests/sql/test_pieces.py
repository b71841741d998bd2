"""Conditions on what keys are worked out from: months by days, bands by ages. What is told holds for all rows."""

import datetime
import itertools

import duckdb
import numpy as np
import pandas as pd
import pytest
import sqlglot

import dpnotebook as dpn
from dpnotebook.dialect.attributes import FEW_SPANS, moment
from dpnotebook.sql.analysis.analyse import analyse
from dpnotebook.sql.analysis.keys import level_sql
from dpnotebook.sql.reuse.cover import groups_of
from dpnotebook.sql.reuse.levels import NotTold
from dpnotebook.sql.reuse.pieces import piece_levels
from dpnotebook.sql.reuse.possible import possible_levels
from dpnotebook.sql.reuse.rows import read_rows
from dpnotebook.sql.reuse.spelling import with_counted_spans
from dpnotebook.sql.statement import Relation
from dpnotebook.testing import exact_session

FIRST, LAST = "2023-02-15", "2025-05-20"
DOMAIN = {
    "came": dpn.Dates(FIRST, LAST),
    "day": dpn.Dates(FIRST, LAST),
    "left_at": dpn.Dates("2024-01-01", "2024-12-31", outside="clamp", nullable=True),
    "age": dpn.Range(0, 60, nullable=True),
    "cost": dpn.Bins(0, 100, width=12.5),
}
KEYS = {
    "came": [
        *("CAST(came AS DATE)", "DATE_TRUNC('month', came)", "DATE_TRUNC('week', came)", "YEAR(came)"),
        *("DATE_TRUNC('quarter', came)", "EXTRACT(MONTH FROM came)", "EXTRACT(DOW FROM came)", "DAYNAME(came)"),
        *("STRFTIME(came, '%Y-%m')", "EXTRACT(HOUR FROM came)", "DATE_TRUNC('year', came)"),
        "CASE WHEN came < '2024-03-01' THEN 'before' WHEN came < '2025-01-01' THEN 'then' ELSE 'after' END",
    ],
    "left_at": ["CAST(left_at AS DATE)", "DATE_TRUNC('month', left_at)", "DATE_TRUNC('week', left_at)"],
    "day": ["day", "DATE_TRUNC('month', day)", "DATE_TRUNC('week', day)", "MONTH(day)", "STRFTIME(day, '%Y')"],
    "age": ["age // 10", "age", "FLOOR(age / 20) * 20", "age % 7", "CASE WHEN age < 18 THEN 'young' ELSE 'old' END"],
    "cost": ["cost"],
}
MOMENTS = ["DATE '2024-03-01'", "'2023-12-31'", "TIMESTAMP '2024-06-15 12:30:00'", "DATE '2025-01-01'", "'2024-12-30'"]
CONDITIONS = {
    "came": [
        *("came >= {a}", "came < {a}", "{a} < came", "came <= {a}", "came BETWEEN {a} AND {b}", "came = {a}"),
        *("CAST(came AS DATE) <= {d}", "DATE(came) = {d}", "came >= {d} AND came < {d} + INTERVAL 1 MONTH"),
        *("YEAR(came) = 2024", "YEAR(came) > 2023", "MONTH(came) IN (1, 2, 3)", "EXTRACT(DOW FROM came) = 0"),
        *(
            "DATE_TRUNC('month', came) = {d}",
            "DATE_TRUNC('quarter', came) < {d}",
            "HOUR(came) < 12",
            "came IS NOT NULL",
        ),
        *("YEAR(came) IN (2020, 2024)", "YEAR(came) * 12 + MONTH(came) > 24288", "NOT came >= {a}", "came <> {a}"),
        *("(came < {a} OR came >= {b})", "DATE_DIFF('day', came, {d}) > 30", "QUARTER(came) BETWEEN 2 AND 3"),
    ],
    "age": [
        *("age >= 30", "age < 30", "age BETWEEN 20 AND 39", "age IN (10, 11)", "age <> 5", "age < 29.5", "30 > age"),
        *(
            "age IS NULL",
            "age % 2 = 0",
            "age + 1 > 20",
            "age > -5",
            "age > 80",
            "NOT age < 40",
            "(age < 9 OR age >= 50)",
        ),
    ],
    "cost": [
        "cost < 25",
        "cost >= 50",
        "cost BETWEEN 12.5 AND 50",
        "cost > 99",
        "cost <= 37.5",
        "FLOOR(cost) <= 12",
        "CAST(cost AS BIGINT) < 25",
        "FLOOR(cost) < 25",
        "CAST(cost AS DOUBLE) >= 37.5",
        "cost < 30",
        "cost < 0",
    ],
}
for column in ("left_at", "day"):
    CONDITIONS[column] = [one.replace("came", column) for one in CONDITIONS["came"] if "HOUR" not in one]


def made(rows=4_000, seed=5):
    """Return rows with values beyond what is declared, at the ends of spans, and missing ones."""
    random = np.random.default_rng(seed)
    days = pd.Timestamp("2019-12-20") + pd.to_timedelta(random.integers(0, 3_000, rows), "D")
    clock = random.choice([0, 1, 45_000_000_000, 86_399_999_999], rows)  # microseconds: midnight and around it too
    age = random.integers(-4, 70, rows).astype(float)
    frame = pd.DataFrame({
        "who": np.arange(rows),
        "came": days + pd.to_timedelta(clock, "us"),
        "day": days.date,
        "left_at": days + pd.to_timedelta(random.permutation(clock), "us"),
        "age": pd.array(np.where(random.random(rows) < 0.05, np.nan, age), dtype="Int64"),
        "bill": random.integers(0, 50, rows),
        "cost": random.choice([*np.arange(-12.5, 130, 6.25), 29.999, 1e9], rows),
    })  # fmt: skip
    for name in ("came", "left_at", "day", "cost"):
        frame.loc[random.random(rows) < 0.03, name] = None
    return frame


FRAME = made()
RELATIONS = {
    "visits": Relation(
        "visits",
        {
            "who": "integer",
            "came": "time",
            "left_at": "time",
            "day": "time",
            "age": "integer",
            "bill": "integer",
            "cost": "number",
        },
        unit="who",
        domain=dpn.Domain(DOMAIN),
        dates=frozenset({"day"}),
    )
}


@pytest.fixture(autouse=True)
def made_up(monkeypatch):
    """Allow sessions without noise: there are no people here."""
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")


@pytest.fixture(scope="module")
def database():
    """Return a connection to the rows."""
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE visits AS SELECT * FROM FRAME")
        yield connection


def select_of(key, condition=None):
    where = f" WHERE {condition}" if condition else ""
    written = f"SELECT {key} AS k, COUNT(DISTINCT who) AS n FROM visits{where} GROUP BY k"
    return analyse(written, RELATIONS).selects[0]


def cases(part):
    """Return keys with conditions on their columns: one of twelve parts of them."""
    found = []
    for column, keys in KEYS.items():
        for key, condition in itertools.product(keys, CONDITIONS[column]):
            for a, b in (MOMENTS[:2][::-1], MOMENTS[2:4]) if "{" in condition else (("", ""),):
                found.append((key, condition.format(a=a, b=b, d=MOMENTS[0 if a == MOMENTS[1] else 3])))
    return [found[i] for i in np.random.default_rng(7).permutation(len(found))[part::12]]


PARTS = [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, 12))]


def numbers_and_truths(database, select, conditions):
    """Return of each row the number of its level, and of every condition whether it is true."""
    rows = read_rows(select.rows)
    truths = [f"({one.sql('duckdb')}) IS TRUE" for one in conditions]
    found = sqlglot.parse_one(select.rows, read="duckdb")
    found.set("where", None)
    tree = found.select(*truths, append=True, dialect="duckdb")
    assert rows is not None
    return [row[1:] for row in database.execute(tree.sql("duckdb")).fetchall()]


@pytest.mark.parametrize("part", PARTS)
def test_what_is_told_of_a_condition_holds_for_all_rows(database, part):
    """Of every group of which it is told whether a condition holds, all rows say so, and none that is in no group."""
    told_of, groups, everything = 0, 0, 0
    for key, condition in cases(part):
        select = select_of(key, condition)
        (levels,) = (one.levels for one in select.keys)
        conditions = list(read_rows(select.rows).conditions.values())
        try:
            found = piece_levels(select.rows, 0, len(levels), conditions)
        except NotTold:
            continue
        rows = numbers_and_truths(database, select, conditions)
        for place, one in enumerate(conditions):
            try:
                told = found.told(one)
            except NotTold:
                continue
            told_of += 1
            for number, pieces in enumerate(found.values):
                try:
                    holds = told(pieces)
                except NotTold:
                    continue
                groups += 1
                assert {row[1 + place] for row in rows if row[0] == number} <= {holds}, (key, condition, levels[number])
            if found.has_all([told]):
                everything += 1
                assert not any(row[1 + place] for row in rows if row[0] is None), (key, condition)
    assert told_of > 30
    assert groups > 800
    assert everything > 6


@pytest.mark.parametrize("part", PARTS)
def test_groups_are_ruled_out_only_where_no_row_can_be(database, part):
    """Levels that conditions rule out have no row; of those without a row most are ruled out."""
    ruled_out, empty = 0, 0
    for key, condition in cases(part):
        select = select_of(key, condition)
        (levels,) = (one.levels for one in select.keys)
        (possible,) = possible_levels(select)
        counted = {number for number, *_ in database.execute(f"SELECT DISTINCT k0 FROM ({select.rows})").fetchall()}
        there = {levels[number] for number in counted if number is not None}
        assert there <= set(possible), (key, condition)
        of_clocks = "HOUR" in key  # there are four of them
        if there and len(levels) <= 60 and not of_clocks:  # of all days some have no row in so small a table
            ruled_out += len(levels) - len(possible)
            empty += len(set(possible) - there)
    assert ruled_out > 150
    assert ruled_out > empty  # some conditions and keys are not understood, as STRFTIME


@pytest.mark.one_in(16)
@pytest.mark.parametrize("by", ["day", "week", "month", "quarter", "year"])
@pytest.mark.parametrize("outside", ["drop", "clamp"])
def test_spans_are_counted_as_they_were_looked_for(by, outside):
    """Every moment is in the span that a search among their first moments finds, as earlier versions wrote it."""
    from dpnotebook.dialect.attributes import _bin_search

    first = {"day": FIRST, "week": FIRST, "month": "2020-11-01", "quarter": "2012-01-01", "year": "1970-01-01"}[by]
    last = LAST if by in ("day", "week") else {"month": "2025-05", "quarter": "2025-Q2", "year": "2025"}[by]
    attribute = dpn.Dates(first, last, by=by, outside=outside)
    assert attribute.regular > FEW_SPANS
    counted = level_sql(attribute, "t", "time")
    found = _bin_search("t", [moment(start) for start in attribute.starts[1:-1]], range(attribute.regular))
    inside = counted.index(" ELSE ") + len(" ELSE ")
    searched = f"{counted[:inside]}{found} END"
    around = pd.date_range(pd.Timestamp(first) - pd.Timedelta(days=800), "2027-08-01", freq="6h")
    days = around.union(attribute.starts - np.timedelta64(1, "us"))
    moments = pd.DataFrame({"t": [*days, None]})  # noqa: F841
    both = duckdb.sql(f"SELECT {counted} AS a, {searched} AS b FROM moments").fetchall()
    assert [a for a, _ in both] == [b for _, b in both]
    assert {a for a, _ in both if a is not None} == set(range(attribute.regular))
    trees = [sqlglot.parse_one(text, read="duckdb") for text in (searched, counted)]
    assert with_counted_spans(trees[0]).sql("duckdb") == trees[1].sql("duckdb")
    assert with_counted_spans(trees[1]) == trees[1]


def protected(budget=None):
    """Return a session without noise in which a person has up to four rows."""
    session = exact_session(budget or dpn.Budget(1e6, 1e-6))
    frame = FRAME.assign(who=FRAME["who"] // 4, day=FRAME["day"].astype("date32[pyarrow]"))
    session.protect(frame, "visits", unit="who", max_rows=4, domain=DOMAIN)
    return session


@pytest.mark.one_in(24)
@pytest.mark.parametrize(
    ("key", "where", "kept"),
    [
        ("DATE_TRUNC('month', came)", "came >= '2024-03-01' AND came < '2024-06-01'", 3),
        ("CAST(came AS DATE)", "came >= '2024-02-20' AND came < '2024-03-05'", 14),
        ("DATE_TRUNC('week', came)", "came >= '2024-03-04' AND came < '2024-03-18'", 2),
        ("DATE_TRUNC('month', came)", "YEAR(came) = 2024 AND MONTH(came) <= 4", 4),
        ("DATE_TRUNC('quarter', came)", "YEAR(came) = 2024", 4),
        ("EXTRACT(DOW FROM came)", "EXTRACT(DOW FROM came) IN (0, 6)", 2),
        ("day", "day >= '2024-02-20' AND day <= '2024-03-04'", 14),
        ("DATE_TRUNC('month', day)", "day BETWEEN '2024-03-01' AND '2024-05-31'", 3),
        ("age // 10", "age >= 20 AND age < 40", 2),
        ("cost", "cost >= 25 AND cost < 50", 2),
    ],
)
@pytest.mark.parametrize("aggregate", ["COUNT(*)", "SUM(age)", "COUNT(DISTINCT who)"])
def test_some_of_the_groups_are_shown_and_cost_nothing_afterwards(key, where, kept, aggregate):
    """What is asked with a condition shows its groups alone, and is free after all groups, with the same numbers."""
    session = protected()
    some = f"SELECT {key} AS k, {aggregate} AS n FROM visits WHERE {where} GROUP BY k ORDER BY k"
    fresh = session.sql(some, epsilon=9_000.0).run().frame
    assert len(fresh) == kept
    other = protected()
    whole = other.sql(f"SELECT {key} AS k, {aggregate} AS n FROM visits GROUP BY k ORDER BY k", epsilon=9_000.0).run()
    assert len(whole.frame) > kept
    again = other.sql(some, epsilon=1.0)
    assert again.plan.free
    found = again.run().frame
    assert list(found["k"]) == list(fresh["k"])
    assert np.allclose(found["n"], fresh["n"], atol=5)


def test_a_condition_within_a_group_is_paid_for():
    session = protected()
    session.sql("SELECT DATE_TRUNC('month', came) AS k, COUNT(*) AS n FROM visits GROUP BY k", epsilon=9_000.0).run()
    for where in ("came >= '2024-03-02'", "came <= '2024-03-01'", "HOUR(came) < 12", "came < '2024-03-01' OR age = 3"):
        asked = f"SELECT DATE_TRUNC('month', came) AS k, COUNT(*) AS n FROM visits WHERE {where} GROUP BY k"
        assert not session.sql(asked, epsilon=1.0).plan.free, where


def test_a_total_of_months_has_no_rows_that_were_in_none():
    """Rows of other years are in no month: the total over a condition that lets them in was not measured."""
    session = protected()
    asked = "SELECT DATE_TRUNC('month', came) AS k, SUM(bill) AS n FROM visits GROUP BY k"
    whole = session.sql(asked, epsilon=9_000.0).run()
    inside = "SELECT SUM(bill) AS n FROM visits WHERE came >= '2024-03-01' AND came < '2025-01-01'"
    answer = session.sql(inside, epsilon=1.0)
    assert answer.plan.free
    months = whole.frame[pd.to_datetime(whole.frame["k"]).between("2024-03-01", "2024-12-31")]
    assert len(months) == 10
    assert float(answer.run().frame["n"].iloc[0]) == pytest.approx(months["n"].sum(), abs=1e-6)
    for where in ("came >= '2024-03-01'", "MONTH(came) = 3", "YEAR(came) IN (2020, 2024)", "came IS NOT NULL"):
        assert not session.sql(f"SELECT SUM(bill) AS n FROM visits WHERE {where}", epsilon=1.0).plan.free, where


def test_ten_years_of_days_are_planned_without_reading_each():
    """The text of the rows does not grow with the number of days."""
    lengths = []
    for last in ("2016-12-31", "2025-12-31"):
        domain = dpn.Domain({"came": dpn.Dates(datetime.date(2016, 1, 1), last)})
        relations = {"visits": Relation("visits", {"who": "integer", "came": "time"}, unit="who", domain=domain)}
        written = "SELECT CAST(came AS DATE) AS day, COUNT(DISTINCT who) AS n FROM visits GROUP BY day"
        lengths.append(len(analyse(written, relations).selects[0].rows))
    assert lengths[1] - lengths[0] < 5


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("key", "groups"),
    [
        ("DAYNAME(day)", 7),
        ("CASE WHEN MONTH(day) < 7 THEN 'first' WHEN MONTH(day) >= 7 THEN 'second' END", 2),
        ("CASE WHEN MONTH(day) < 7 THEN 'first' WHEN MONTH(day) > 7 THEN 'second' END", 3),
        ("CASE WHEN age < 18 THEN 'young' WHEN age >= 18 THEN 'old' END", 3),  # it may be missing, as is declared
        ("CASE WHEN bill < 18 THEN 'low' WHEN bill >= 18 THEN 'high' END", 3),  # nothing is declared
    ],
)
def test_what_no_declared_value_leaves_out_has_no_group_for_the_rest(key, groups):
    frame = protected().sql(f"SELECT {key} AS k, SUM(bill) AS n FROM visits GROUP BY k", epsilon=9_000.0).run().frame
    assert len(frame) == groups
    assert frame["k"].isna().sum() == (groups == 3)


MONTHLY = "EXTRACT(YEAR FROM came) * 100 + EXTRACT(MONTH FROM came)"
COARSER = {
    "came": [
        *(*KEYS["came"], "STRFTIME(came, '%Y')", "STRFTIME(came, '%Y-%m-%d')", MONTHLY, "came", "QUARTER(came)"),
        *("YEAR(came) - 2000", "CASE WHEN YEAR(came) < 2025 THEN 'old' ELSE 'new' END", "FLOOR(YEAR(came) / 2) * 2"),
    ],
    "day": [*KEYS["day"], "STRFTIME(day, '%Y-%m')", "DATE_TRUNC('quarter', day)", "YEAR(day)"],
    "age": [
        *KEYS["age"],
        "FLOOR(age / 10) * 10",
        "age // 20",
        "CASE WHEN age < 20 THEN 'a' WHEN age < 40 THEN 'b' END",
    ],
    "left_at": [*KEYS["left_at"], "DATE_TRUNC('year', left_at)"],
}
WITHIN = {
    "came": [
        *("came >= '2024-03-01'", "came >= '2024-03-10'", "came < '2024-06-01'", "came < '2025-01-01'"),
        *("came >= '2023-03-01' AND came < '2025-05-01'", "came BETWEEN '2024-01-01' AND '2024-12-31'"),
        *("STRFTIME(came, '%Y-%m') >= '2024-04'", "YEAR(came) * 100 + MONTH(came) < 202409", "YEAR(came) = 2024"),
        *("STRFTIME(came, '%Y-%m') = '2024-04'", "STRFTIME(came, '%Y-%m-%d') < '2025-02-03'", "MONTH(came) <= 6"),
        *("STRFTIME(came, '%Y-%m') IN ('2024-01', '2024-02')", "came >= '2024-03-01 00:00:00.000001'"),
        *("came >= '2024-01-01' AND STRFTIME(came, '%Y') <= '2024'", "came IS NOT NULL"),
        "CAST(came AS DATE) < '2024-07-01'",
    ],
    "age": [
        *("age >= 20", "age < 40", "age BETWEEN 20 AND 39", "age >= 10 AND age < 60", "age IS NOT NULL"),
        "age // 10 = 2",
    ],
}
for column in ("left_at", "day"):
    WITHIN[column] = [one.replace("came", column) for one in WITHIN["came"] if ":00" not in one]


def counted(database, select):
    """Return the number of rows of each group, by the numbers of its levels."""
    names = ", ".join(f"k{i}" for i in range(len(select.keys)))
    rows = database.execute(f"SELECT {names}, count(*) FROM ({select.rows}) GROUP BY {names}").fetchall()
    return {row[:-1]: row[-1] for row in rows if None not in row[:-1]}


def written_with(keys, where):
    """Return a statement that groups by some keys, of rows of which some conditions are true."""
    names = ", ".join(f"{key} AS k{i}" for i, key in enumerate(keys))
    condition = f" WHERE {' AND '.join(where)}" if where else ""
    by = ", ".join(f"k{i}" for i in range(len(keys)))
    return f"SELECT {names}, COUNT(DISTINCT who) AS n FROM visits{condition} GROUP BY {by}"


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 12))])
def test_groups_consist_of_the_released_ones_that_are_told(database, seed):
    """What is told to be the rows of released groups is: counted in the database, of rows with all kinds of values."""
    random = np.random.default_rng(seed)
    told = 0
    for _ in range(35):
        column = str(random.choice(list(COARSER)))
        also = ["age // 10" if column != "age" else "YEAR(came)"] if random.random() < 0.2 else []
        finer = list(random.choice(COARSER[column], random.integers(1, 3), replace=False)) + also
        within = list(random.choice(WITHIN[column], random.integers(0, 2), replace=False))
        keys = [str(random.choice([*finer, *COARSER[column]])), *(also * int(random.integers(2)))]
        more = list(random.choice(WITHIN[column], random.integers(0, 3), replace=False))
        both = written_with(finer, within), written_with(keys, more + within * int(random.integers(2)))
        released, asked = (analyse(written, RELATIONS).selects[0] for written in both)
        if any(key.levels is None for select in (released, asked) for key in select.keys):
            continue
        levels = [
            [(i, one) for i, one in enumerate(key.levels) if one in kept]
            for key, kept in zip(released.keys, map(set, possible_levels(released)), strict=True)
        ]
        every = list(itertools.product(*levels))
        groups = groups_of(asked, released, [tuple(label for _, label in group) for group in every])
        if not groups:
            continue
        told += 1
        known, truth = counted(database, released), counted(database, asked)
        numbers = [tuple(number for number, _ in group) for group in every]
        for group in itertools.product(*(enumerate(key.levels) for key in asked.keys)):
            place, labels = tuple(number for number, _ in group), tuple(label for _, label in group)
            added = sum(known.get(numbers[number], 0) for number in groups.get(labels, ()))
            assert added == truth.get(place, 0), (both, labels)
    assert told > 5
