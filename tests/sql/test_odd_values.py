"""One person's value of another kind in a column of a frame: nobody else's answers change."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.testing import exact_session

pytestmark = pytest.mark.usefixtures("exact")
PEOPLE, ROWS = 120, 4
SIZE = PEOPLE * ROWS


def rows(zone="Asia/Tokyo"):
    rng = np.random.default_rng(5)
    minutes = rng.integers(0, 365 * 24 * 60, SIZE)
    return pd.DataFrame(
        {
            "pid": np.repeat(np.arange(PEOPLE), ROWS),
            "at": pd.Series(pd.Timestamp("2023-01-01") + pd.to_timedelta(minutes, unit="min")).dt.tz_localize(zone),
            "amount": rng.integers(0, 20, SIZE) + 0.0,
            "kind": rng.choice(["a", "b", "c"], SIZE),
        }
    )


def with_one(name, value, zone="Asia/Tokyo"):
    """Return the rows with one value of the first row, in a column of objects."""
    frame = rows(zone)
    values = np.empty(SIZE, dtype=object)
    values[:] = list(frame[name])
    values[0] = value
    return frame.assign(**{name: pd.Series(values, dtype=object)})


def asked_of(frame):
    session = exact_session(dpn.Budget(1e6, 1e-6))
    session.protect(frame, "t", unit="pid", max_rows=ROWS)
    return lambda text: session.sql(text, epsilon=1.0).run().frame


def groups(frame):
    """Return the rows of each group, of groups that have some."""
    keys = [key.to_pydatetime() if isinstance(key, pd.Timestamp) else key for key in frame["k"]]
    return {key: n for key, n in zip(keys, frame["n"], strict=True) if not pd.isna(key)}


MOMENTS = {
    "naive": datetime.datetime(2023, 5, 1, 12),
    "of another place": pd.Timestamp("2023-05-01 12:00", tz="America/New_York"),
    "a text": "unknown",
}
BY_CLOCK = (
    "EXTRACT(HOUR FROM at)",
    "DATE_TRUNC('month', at)",
    "CAST(at AS DATE)",
    "DAYNAME(at)",
)
WHERE = (
    "at >= '2023-07-01 06:30'",
    "at >= '2023-07-01T06:30'",
    "at < '2023-07-01'",
    "at BETWEEN '2023-03-01' AND '2023-07-01T09:00:00'",
    "at > TIMESTAMP '2023-07-01 06:30:00'",
    "EXTRACT(HOUR FROM at) < 6",
    "CAST(at AS DATE) = DATE '2023-07-01' OR DAYNAME(at) = 'Monday'",
)


@pytest.mark.parametrize(
    ("zone", "kind"), [*(("Asia/Tokyo", kind) for kind in MOMENTS), ("UTC+09:00", "naive"), ("Europe/Berlin", "naive")]
)
def test_moments_stay_on_the_clock_of_their_place(zone, kind):
    before, after = asked_of(rows(zone)), asked_of(with_one("at", MOMENTS[kind], zone))
    for key in BY_CLOCK:
        text = f"SELECT {key} AS k, COUNT(*) AS n FROM t GROUP BY k"
        first, second = groups(before(text)), groups(after(text))
        assert len(first) > 3
        assert sum(abs(first.get(key, 0) - second.get(key, 0)) for key in first.keys() | second.keys()) <= 2
    for condition in WHERE:
        text = f"SELECT COUNT(*) AS n FROM t WHERE {condition}"
        first, second = before(text)["n"][0], after(text)["n"][0]
        assert first > 10
        assert abs(first - second) <= 1


def test_units_that_are_moments_are_the_same_moment_everywhere():
    """A unit is who has it: one moment is told by the clocks of two places."""
    moments = [pd.Timestamp("2023-01-01", tz="UTC") + pd.Timedelta(hours=hour) for hour in range(200)]
    both = [*moments, *(moment.tz_convert("Asia/Tokyo") for moment in moments)]
    frame = pd.DataFrame({"pid": pd.Series(both, dtype=object), "x": 1})
    session = exact_session(dpn.Budget(1e6, 1e-6))
    session.protect(frame, "t", unit="pid", max_rows=ROWS)
    assert session.sql("SELECT COUNT(DISTINCT pid) AS n FROM t", epsilon=1.0).run().frame["n"][0] == 200


ODD = {
    "a list": [1, 2],
    "a dict": {"a": 1},
    "no number": Decimal("NaN"),
    "a signal": Decimal("sNaN"),
    "bytes": b"\xff",
    "an object": object(),
    "a table": np.ones((2, 2)),
    "a month": pd.Period("2024-01"),
    "complex": 2 + 3j,
}


@pytest.fixture(scope="module")
def usual(exact):
    return asked_of(rows())


@pytest.mark.parametrize("odd", ODD)
def test_a_value_that_is_none_is_missing(usual, odd):
    before = usual
    numbers, texts = (asked_of(with_one(name, ODD[odd])) for name in ("amount", "kind"))
    total = "SELECT SUM(amount, contribution_bounds_per_group => (0, 100)) AS n FROM t"
    assert abs(before(total)["n"][0] - numbers(total)["n"][0]) <= 100
    for condition, after in {"amount >= 10": numbers, "kind = 'a'": texts, "kind < 'b'": texts}.items():
        text = f"SELECT COUNT(*) AS n FROM t WHERE {condition}"
        assert abs(before(text)["n"][0] - after(text)["n"][0]) <= 1
    counted = "SELECT kind AS k, COUNT(*) AS n FROM t GROUP BY k"
    first, second = groups(before(counted)), groups(texts(counted))
    assert {key: second[key] for key in first} == pytest.approx(first, abs=1)


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
@pytest.mark.parametrize("declared", [False, True])
def test_a_complex_number_is_missing_and_all_others_are_numbers(dtype, declared):
    """One complex number makes a frame's column one of complex numbers, and none of it was read."""
    frame = rows()
    values = frame["amount"].to_numpy().astype(dtype)
    values[0] += 3j
    domain = {"amount": dpn.Range(0, 19)} if declared else None
    asked = []
    for one in (frame, frame.assign(amount=values)):
        session = exact_session(dpn.Budget(1e6, 1e-6))
        session.protect(one, "t", unit="pid", max_rows=ROWS, domain=domain)
        texts = (
            "SELECT SUM(amount, contribution_bounds_per_group => (0, 100)) AS n FROM t",
            "SELECT COUNT(*) AS n FROM t WHERE amount > 9.5",
            "SELECT COUNT(amount) AS n FROM t",
        )
        found = [session.sql(text, epsilon=1.0).run().frame["n"][0] for text in texts]
        keys = session.sql("SELECT amount AS k, COUNT(*) AS n FROM t GROUP BY k", epsilon=1.0).run().frame["k"]
        asked.append((*found, list(keys.dropna())))
    assert asked[0][0] > 1_000
    for first, second, most in zip(asked[0], asked[1], (100, 1, 1), strict=False):
        assert abs(first - second) <= most
    assert asked[0][-1] == asked[1][-1]


def keyed():
    rng = np.random.default_rng(6)
    return pd.DataFrame(
        {
            "pid": np.repeat(np.arange(PEOPLE), ROWS),
            "whole": rng.integers(1, 13, SIZE),
            "number": rng.integers(1, 13, SIZE) / 4,
            "flag": rng.random(SIZE) < 0.4,
            "day": pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 5, SIZE), unit="D"),
            "code": rng.choice(["0012", "7", "12", "x1"], SIZE),
        }
    )


KEYS = {
    "whole": (
        "whole",
        "whole * 2",
        "CAST(whole AS VARCHAR)",
        "COALESCE(whole, 3)",
        "CASE WHEN whole > 4 THEN whole END",
    ),
    "number": ("number", "CAST(number AS VARCHAR)", "FLOOR(number)"),
    "flag": ("flag", "NOT flag", "CAST(flag AS VARCHAR)"),
    "day": ("day", "CAST(day AS DATE)"),
    "code": ("code", "LOWER(code)", "SUBSTR(code, 1, 1)"),
}


@pytest.mark.parametrize("other", ["n/a", None, 2**70, 9])
@pytest.mark.parametrize("name", KEYS)
def test_keys_of_all_others_have_the_same_form(name, other):
    frame = keyed()
    values = np.empty(SIZE, dtype=object)
    values[:] = list(frame[name])
    values[0] = other
    before, after = asked_of(frame), asked_of(frame.assign(**{name: pd.Series(values, dtype=object)}))
    for key in KEYS[name]:
        text = f"SELECT {key} AS k, COUNT(*) AS n FROM t GROUP BY k"
        first, second = groups(before(text)), groups(after(text))
        common = [one for one in second if one in first]
        assert len(common) == len(first) > 1, (key, first, second)
        assert [(type(one), one) for one in common] == [(type(one), one) for one in first], key
        assert sum(abs(first.get(one, 0) - second.get(one, 0)) for one in first.keys() | second.keys()) <= 2


def test_keys_are_as_they_were_when_a_release_is_shown_again(tmp_path):
    frame = keyed().astype({"whole": object})
    frame.at[0, "whole"] = "n/a"
    text, path = "SELECT whole, COUNT(*) AS n FROM t GROUP BY whole", tmp_path / "a.ledger"
    shown = []
    for _ in range(2):
        with dpn.Session(dpn.Budget(1e4, 1e-6), path, confirm="never") as session:
            session.protect(frame, "t", unit="pid", max_rows=ROWS)
            shown.append(session.sql(text, epsilon=10.0).run())
    assert shown[1].paid == 0
    assert list(shown[0].frame["whole"]) == list(shown[1].frame["whole"]) == list(range(1, 13))
