"""A frame's column of objects: whatever value of one person made it one, all others' stay what they are."""

import datetime

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.errors import SQLError
from dpnotebook.testing import exact_session

pytestmark = pytest.mark.usefixtures("exact")
PEOPLE, ROWS = 120, 4
# Of one row: a value that makes a column of numbers one of objects. It is no number itself, but for the last.
VALUES = {"a text": "n/a", "a large number": 2**70}
CONDITIONS = (
    "amount > 900",
    "900 < amount",
    "NOT amount > 900",
    "amount <> 900",
    "amount IN (4, 900, 901) OR amount > 1500",
    "amount BETWEEN 90 AND 1000",
    "amount < kids * 100",
    "amount IN (SELECT k FROM codes)",
    "CASE WHEN amount > 100 THEN amount ELSE 0 END > 1000",
    "COALESCE(amount, 0) > 70",
    "LEAST(amount, 1000) > 99",
    "flag",
    "flag = TRUE",
    "CAST(flag AS VARCHAR) = 'true'",
)
COUNTS = (
    "SELECT COUNT(*) AS n FROM (SELECT pid, MAX(amount) AS most FROM t GROUP BY pid) WHERE most > 1500",
    "SELECT COUNT(*) AS n FROM (SELECT pid, MIN(amount) AS least FROM t GROUP BY pid) WHERE least < 200",
    "SELECT COUNT(*) AS n FROM (SELECT pid, amount, LAG(amount) OVER (PARTITION BY pid ORDER BY at) AS b FROM t) "
    "WHERE amount > b",
    "SELECT COUNT(*) AS n FROM (SELECT pid, kids, ROW_NUMBER() OVER (PARTITION BY pid ORDER BY amount) AS nth FROM t) "
    "WHERE nth = 1 AND kids < 8",
    "SELECT COUNT(*) AS n FROM (SELECT pid, BOOL_OR(flag) AS ever FROM t GROUP BY pid) WHERE ever",
    "SELECT COUNT(*) AS n FROM t JOIN codes ON amount = k",
    "SELECT COUNT(*) AS n FROM (SELECT pid, at, LAG(at) OVER (PARTITION BY pid ORDER BY at) AS before FROM t) "
    "WHERE at - before < INTERVAL 30 DAY",
    "SELECT COUNT(*) AS n FROM t WHERE at >= TIMESTAMP '2023-07-01 00:00:00'",
)
SUMS = (
    "SELECT SUM(amount, contribution_bounds_per_group => (0, 10000)) AS n FROM t",
    "SELECT SUM(LEAST(amount, 3), contribution_bounds_per_group => (0, 10000)) AS n FROM t",
    "SELECT SUM(GREATEST(amount, 1000), contribution_bounds_per_group => (0, 10000)) AS n FROM t",
    "SELECT SUM(most, contribution_bounds_per_group => (0, 10000)) AS n FROM "
    "(SELECT pid, MAX(amount) AS most FROM t GROUP BY pid)",
)


def rows():
    rng = np.random.default_rng(3)
    size = PEOPLE * ROWS
    return pd.DataFrame(
        {
            "pid": np.repeat(np.arange(PEOPLE), ROWS),
            "amount": rng.integers(0, 2_000, size),
            "kids": rng.integers(0, 20, size),
            "flag": rng.random(size) < 0.4,
            "at": pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 365 * 24 * 60, size), unit="min"),
        }
    )


def with_one(value):
    """Return the rows, one row's amount a value of another kind, its flag missing and its time a text."""
    frame = rows().astype({"amount": object, "flag": object, "at": object})
    frame.at[0, "amount"] = value
    frame.at[0, "flag"] = None
    frame.at[0, "at"] = "unknown"
    return frame


def asked_of(frame):
    session = exact_session(dpn.Budget(1e6, 1e-6))
    session.protect(frame, "t", unit="pid", max_rows=ROWS)
    session.register(pd.DataFrame({"k": np.arange(0, 2_000, 7)}), "codes", public=True)
    return lambda text: session.sql(text, epsilon=1.0).run().frame["n"][0]


@pytest.fixture(scope="module")
def before(exact):
    return asked_of(rows())


@pytest.fixture(scope="module", params=list(VALUES))
def after(exact, request):
    return asked_of(with_one(VALUES[request.param]))


@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions_are_true_of_the_same_rows_of_all_others(before, after, condition):
    text = f"SELECT COUNT(*) AS n FROM t WHERE {condition}"
    assert before(text) > 10
    assert abs(before(text) - after(text)) <= 1


@pytest.mark.parametrize("text", COUNTS)
def test_counts_differ_by_what_one_row_is(before, after, text):
    assert before(text) > 10
    assert abs(before(text) - after(text)) <= 2


@pytest.mark.parametrize("text", SUMS)
def test_sums_differ_by_what_one_person_adds(before, after, text):
    assert before(text) > 1_000
    assert abs(before(text) - after(text)) <= 10_000


def test_texts_stay_texts():
    frame = pd.DataFrame({"code": ["0012", "7", "x1", "x1"] * 50})
    frame["code"] = frame["code"].astype(object)
    frame.at[0, "code"] = datetime.date(2024, 1, 1)
    asked = asked_of(frame.assign(pid=np.arange(200) // ROWS))
    assert asked("SELECT COUNT(*) AS n FROM t WHERE code = 'x1'") == 100
    assert asked("SELECT COUNT(*) AS n FROM t WHERE code LIKE 'x%' OR LENGTH(code) = 4") == 149
    assert asked("SELECT COUNT(*) AS n FROM t WHERE code > 'x'") == 100


def test_texts_of_a_column_of_texts_are_not_numbers():
    frame = rows().assign(code=rows()["amount"].astype(str))
    with pytest.raises(SQLError, match="numbers with texts"):
        asked_of(frame)("SELECT COUNT(*) AS n FROM t WHERE code > 900")


def test_numbers_of_a_table_of_which_one_is_a_text_are_asked_by_verbs():
    session = exact_session(dpn.Budget(1e6, 1e-6))
    table = session.protect(with_one("n/a"), "t", unit="pid", max_rows=ROWS)
    assert 1_000 < table.max("amount", epsilon=1.0).run().value < 2_100  # where bounds are found, it is not exact
