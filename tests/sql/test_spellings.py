"""Functions written in DuckDB's ways say what DuckDB says, and mean the same on every engine."""

from __future__ import annotations

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.sql.parse.statement_parser import read_surface

SPELLED = [
    *("DAYNAME(seen)", "MONTHNAME(seen)", "DAYOFWEEK(seen)", "WEEKDAY(seen)", "ISODOW(seen)", "DAYOFYEAR(seen)"),
    *("DAYOFMONTH(seen)", "WEEK(seen)", "WEEKOFYEAR(seen)", "DATE_PART('year', seen)", "DATEPART('hour', seen)"),
    *("STRFTIME(seen, '%Y-%m')", "STRFTIME(seen, '%Y-%m-%d')", "STRFTIME(seen, '%d. %B %Y, %H:%M')", "n // 7"),
    *("STRFTIME(seen, '%a %A %b %j')", "STRFTIME(seen, 'year %Y')", "STRFTIME(seen, 'week %V')", "-n // 7"),
    *("STRFTIME(seen, '%u')", "STRFTIME(seen, 'none')"),
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("written", SPELLED)
def test_it_is_what_duckdb_says(written):
    random = np.random.default_rng(5)
    seen = pd.Timestamp("1952-01-01") + pd.to_timedelta(random.integers(0, 3 * 10**9, 3_000), unit="s")
    frame = pd.DataFrame({"seen": seen, "n": random.integers(-100, 100, 3_000)})
    frame.loc[::50, "seen"] = None
    made = read_surface(f"SELECT {written} AS x FROM t", {}).tree.expressions[0].this.sql("duckdb")
    with duckdb.connect() as engine:
        engine.register("t", frame)
        differing = engine.execute(
            f"SELECT COUNT(*) FROM t WHERE CAST({made} AS VARCHAR) IS DISTINCT FROM CAST({written} AS VARCHAR) "
            "AND seen IS NOT NULL"
        ).fetchone()
    assert differing == (0,)


@pytest.fixture
def session():
    random = np.random.default_rng(5)
    seen = pd.Timestamp("2023-01-01") + pd.to_timedelta(random.integers(0, 730 * 86_400, 4_000), unit="s")
    frame = pd.DataFrame({"seen": seen, "ward": random.choice(["A", "B"], 4_000)})
    with dpn.Session(budget=dpn.Budget(epsilon=50.0), ledger=":memory:") as session:  # groups cannot be hidden here
        session.protect(frame, "visits", domain={"ward": ["A", "B"]})
        session.frame = frame
        yield session


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("MONTH(seen)", lambda seen: seen.dt.month),
        ("HOUR(seen)", lambda seen: seen.dt.hour),
        ("DAYOFWEEK(seen)", lambda seen: (seen.dt.day_of_week + 1) % 7),
        ("DAYNAME(seen)", lambda seen: seen.dt.day_name()),
        ("EXTRACT(QUARTER FROM seen)", lambda seen: seen.dt.quarter),
    ],
)
def test_parts_of_times_are_known_groups(session, key, expected):
    release = session.sql(f"SELECT {key} AS part, COUNT(*) AS n FROM visits GROUP BY part", epsilon=10.0).run()
    truth = expected(session.frame["seen"]).value_counts()
    shown = release.frame[release.frame["part"].notna()].set_index("part")["n"]
    assert set(truth.index) <= set(shown.index)
    assert (shown - truth.reindex(shown.index).fillna(0)).abs().max() < 6  # e^-60


def test_group_by_all_is_every_column_that_is_listed(session):
    one, other = (
        session.sql(f"SELECT ward, HOUR(seen) AS h, COUNT(*) AS n FROM visits GROUP BY {keys}", epsilon=1.0)
        for keys in ("ALL", "ward, h")
    )
    assert one.run().keys == ("ward", "h")
    assert other.plan.free
    alone = session.sql("SELECT COUNT(*) AS n FROM visits GROUP BY ALL", epsilon=1.0).run()
    assert len(alone.frame) == 1
    linear = session.sql("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ALL", epsilon=1.0)
    assert list(linear.run().frame["ward"]) == ["A", "B"]
