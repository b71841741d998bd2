"""What is distinct in a frame or a Parquet file is distinct in an answer, and what is equal is equal: every dtype."""

import datetime
import math
import uuid
from collections import Counter
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dpnotebook as dpn
from dpnotebook.errors import DPError
from dpnotebook.testing import exact_session

UTC, PARIS = "UTC", "Europe/Paris"
WHOLE = [2**53, 2**53 + 1, 0, -5, 2**53]
REAL = [0.1, 0.30000000000000004, 0.3, 0.0, -0.0, math.nan, 1e300, math.inf, -math.inf]
TEXT = ["a", "A", "a ", "", "1", "1.0", "\u00e9", "e\u0301", "\0", "a\0", None, "x" * 4000, "ß", "ss"]
MOMENTS = ["2024-02-29 12:00:00.000001", "2024-02-29 12:00:00.000002", "0001-01-01", "9999-12-31", None]


def whole(kind):
    low, high = np.iinfo(kind.lower()).min, np.iinfo(kind.lower()).max
    values = [low, high, high - 1, 0, high]
    return pd.Series(values, dtype=kind), values


def moments(dtype, values):
    return pd.Series(pd.DatetimeIndex(pd.to_datetime(values, format="mixed")).astype(dtype))


def texts(dtype):
    return pd.Series(TEXT, dtype=dtype), TEXT


# A column, and what its values are as keys (None is missing); equal ones are one key.
ACCEPTED = {
    "bool": (pd.Series([True, False, True]), [True, False, True]),
    "boolean": (pd.Series([True, None, True], dtype="boolean"), [True, None, True]),
    **{kind: whole(kind) for kind in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")},
    **{kind: whole(kind) for kind in ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64")},
    "Int64 missing": (pd.Series([*WHOLE, None], dtype="Int64"), [*WHOLE, None]),
    "int64[pyarrow]": (pd.Series([*WHOLE, None], dtype="int64[pyarrow]"), [*WHOLE, None]),
    "big-endian": (pd.Series(np.array(WHOLE, dtype=">i8")), WHOLE),
    "backwards": (pd.Series(np.array(WHOLE)[::-1]), WHOLE[::-1]),
    "float64": (pd.Series(REAL), REAL),
    "Float64": (pd.Series(REAL, dtype="Float64"), REAL),
    "double[pyarrow]": (pd.Series(REAL, dtype="double[pyarrow]"), REAL),
    "float32": (pd.Series([0.1, 0.2, 0.1, None], dtype="float32"), [0.1, 0.2, 0.1, None]),
    "Float32": (pd.Series([0.1, 0.2, 0.1, None], dtype="Float32"), [0.1, 0.2, 0.1, None]),
    "float16": (pd.Series([0.5, 1.5, -0.0, 0.0], dtype="float16"), [0.5, 1.5, 0, 0]),
    **{kind: texts(kind) for kind in ("str", "string", "string[python]", "string[pyarrow]")},
    "large_string": texts(pd.ArrowDtype(pa.large_string())),
    "category": (pd.Series(TEXT, dtype="category"), TEXT),
    "category of numbers": (pd.Series(pd.Categorical([*WHOLE, None])), [*WHOLE, None]),
    "category of truths": (pd.Series(pd.Categorical([True, False, None])), [True, False, None]),
    "category of nothing": (pd.Series(pd.Categorical([None, None])), [None, None]),
    "dictionary": (
        pd.Series(TEXT[:6], dtype=pd.ArrowDtype(pa.dictionary(pa.int8(), pa.string()))),
        TEXT[:6],
    ),
    **{f"datetime64[{unit}]": (moments(f"datetime64[{unit}]", MOMENTS[:2]), None) for unit in ("s", "ms")},
    "datetime64[us]": (moments("datetime64[us]", MOMENTS), [m and pd.Timestamp(m).to_pydatetime() for m in MOMENTS]),
    "datetime64[ns]": (
        pd.Series(np.array([1, 1_000, 1_001, 1_499, -1_000], dtype="datetime64[ns]")),
        [datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=m) for m in (0, 1, 1, 1, -1)],
    ),
    "far away": (pd.Series(np.array(["20000-01-01", "30000-01-01"], dtype="datetime64[s]")), [None, None]),
    "datetime64[us, Paris]": (
        pd.Series(
            pd.to_datetime(["2024-10-27 00:30", "2024-10-27 01:30"]).tz_localize(UTC).tz_convert(PARIS).as_unit("us")
        ),
        [datetime.datetime(2024, 10, 27, 0, 30), datetime.datetime(2024, 10, 27, 1, 30)],
    ),
    "date32": (
        pd.Series([datetime.date(2024, 2, 29), None], dtype=pd.ArrowDtype(pa.date32())),
        [datetime.datetime(2024, 2, 29), None],
    ),
    "timestamp[pyarrow]": (
        pd.Series(pd.to_datetime(["2024-02-29", None])).astype(pd.ArrowDtype(pa.timestamp("us"))),
        [datetime.datetime(2024, 2, 29), None],
    ),
    "decimal": (
        pd.Series([Decimal("1.10"), Decimal("1.11"), None], dtype=pd.ArrowDtype(pa.decimal128(9, 2))),
        [1.1, 1.11, None],
    ),
    "null": (pd.Series([None, None], dtype=pd.ArrowDtype(pa.null())), [None, None]),
    "sparse": (pd.Series(pd.arrays.SparseArray([0.0, 1.5, np.nan])), [0.0, 1.5, None]),
    "object": (
        pd.Series(
            ["a", None, math.nan, pd.NA, pd.NaT, "1", 1, 1.0, True, Decimal("1.00"), Fraction(1), b"a"], dtype=object
        ),
        ["a", None, None, None, None, "1", "1", "1", "True", "1", "1", "b'a'"],
    ),
    "object of numbers": (
        pd.Series([2**53, float(2**53), 2**53 + 1, 10**30, 0.1, Decimal("0.1"), -0.0, 0, 1e300], dtype=object),
        [str(2**53)] * 2 + [str(2**53 + 1), str(10**30), "0.1", "0.1", "0", "0", str(int(1e300))],
    ),
    "object of times": (
        pd.Series(
            [
                datetime.date(2024, 1, 1),
                datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC),
                datetime.datetime(2024, 1, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=2))),
                datetime.time(1, 2),
                datetime.timedelta(days=1),
            ],
            dtype=object,
        ),
        ["2024-01-01", *["2024-01-01 00:00:00+00:00"] * 2, "01:02:00", "1 day, 0:00:00"],
    ),
    "object of anything": (
        pd.Series(
            [[1, "a"], (1.0, "a"), np.array(["x"]), {1}, {"a": 1}, object(), "\ud800", "\0", uuid.UUID(int=7)],
            dtype=object,
        ),
        ["['1', 'a']"] * 2 + ["['x']", None, None, None, "\\ud800", "\0", str(uuid.UUID(int=7))],
    ),
}
REFUSED = {
    "timedelta": pd.Series(pd.to_timedelta([1, 2], unit="D")),
    "period": pd.Series(pd.period_range("2020", periods=2)),
    "interval": pd.Series(pd.interval_range(0, 2)),
    "cut": pd.Series(pd.cut([1, 5], [0, 3, 9])),
    "list": pd.Series([[0.123456789], [0.123456788]], dtype=pd.ArrowDtype(pa.list_(pa.float64()))),
    "struct": pd.Series([{"a": 1}, {"a": 2}], dtype=pd.ArrowDtype(pa.struct([("a", pa.int64())]))),
    "time64": pd.Series([datetime.time(1), datetime.time(2)], dtype=pd.ArrowDtype(pa.time64("us"))),
    "duration": pd.Series([datetime.timedelta(1), None], dtype=pd.ArrowDtype(pa.duration("us"))),
    "binary": pd.Series([b"a", b"\xff"], dtype=pd.ArrowDtype(pa.binary())),
    "wide decimal": pd.Series([Decimal(1), Decimal(2)], dtype=pd.ArrowDtype(pa.decimal128(38, 10))),
    "wider decimal": pd.Series([Decimal(1), Decimal(2)], dtype=pd.ArrowDtype(pa.decimal256(60, 10))),
    "longdouble": pd.Series(np.array([1, 2], dtype=np.longdouble)),
}
NOT_IN_PARQUET = {
    "far away",
    "big-endian",
    "object of anything",
    "object",
    "object of numbers",
    "object of times",
    "float16",
    "sparse",
}


@pytest.fixture(autouse=True)
def _unsafe(monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")


def opened(data, **how):
    session = exact_session(budget=dpn.Budget(epsilon=100.0, delta=1e-3), confirm="never")
    session.protect(data, "t", **how)
    return session


def keys(session, statement="SELECT v, COUNT(*) AS n FROM t GROUP BY v"):
    frame = session.sql(statement, epsilon=1.0).run().frame
    return Counter(dict(zip(map(plain, frame.iloc[:, 0]), frame["n"].round().astype(int), strict=True)))


def plain(value):
    if value is None or value is pd.NaT or value != value:
        return None
    return value.to_pydatetime() if isinstance(value, pd.Timestamp) else value


@pytest.mark.one_in(12)
@pytest.mark.parametrize("name", ACCEPTED)
def test_keys_of_a_frame_are_its_values(name):
    column, expected = ACCEPTED[name]
    found = keys(opened(pd.DataFrame({"v": column})))
    if expected is None:
        expected = column.dt.as_unit("us").dt.to_pydatetime().tolist()
    assert found == Counter(map(plain, expected))


@pytest.mark.one_in(24)
@pytest.mark.parametrize("name", sorted(set(ACCEPTED) - NOT_IN_PARQUET))
def test_keys_of_a_parquet_file_are_its_values(name, tmp_path):
    column, expected = ACCEPTED[name]
    pd.DataFrame({"v": column}).to_parquet(tmp_path / "t.parquet")
    found = keys(opened(tmp_path / "t.parquet"))
    if expected is None:
        expected = column.dt.as_unit("us").dt.to_pydatetime().tolist()
    assert found == Counter(map(plain, expected))


@pytest.mark.one_in(24)
@pytest.mark.parametrize("name", ACCEPTED)
def test_units_of_a_frame_are_its_values(name):
    column, expected = ACCEPTED[name]
    session = opened(pd.DataFrame({"v": column, "g": "x"}), unit="v", max_rows=1, domain={"g": ["x"]})
    expected = column.dt.as_unit("us").tolist() if expected is None else expected
    people = len({plain(value) for value in expected} - {None})
    for asked in ("COUNT(DISTINCT v)", "COUNT(*)"):
        assert (
            round(
                session.sql(f"SELECT {asked} AS n FROM t WHERE g = 'x' AND 'a' = lower('A')", epsilon=1.0)
                .run()
                .frame["n"][0]
            )
            == people
        )
    assert session.table("t").count(epsilon=1.0).run().frame["value"][0] == people


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_canonical_form_is_refused(name):
    frame = pd.DataFrame({"v": REFUSED[name], "g": [1, 2]})
    session = opened(frame)
    with pytest.raises(DPError, match=r"CAST|convert"):
        session.sql("SELECT v, COUNT(*) AS n FROM t GROUP BY v", epsilon=1.0).run()
    assert session.spent.epsilon == 0
    assert keys(session, "SELECT g, COUNT(*) AS n FROM t GROUP BY g") == {1: 1, 2: 1}
    if name not in ("wide decimal",):
        with pytest.raises(DPError, match=r"told apart|convert"):
            opened(frame, unit="v", max_rows=1)


def test_units_of_two_frames_are_the_same_exactly():
    """Identities beyond 2^53, of which one frame has a missing one: its numbers are floats."""
    big = 2**53
    ids = [big, big + 1, big + 2, 7]
    left = pd.DataFrame({"id": pd.Series(ids, dtype="int64"), "a": 1})
    right = pd.DataFrame({"id": [float(big), float(big + 2), 7.0, math.nan, 1.5], "b": 1})
    session = exact_session(budget=dpn.Budget(epsilon=100.0, delta=1e-3), confirm="never")
    session.protect(left, "l", unit="id", max_rows=1)
    session.protect(right, "r", unit="id", max_rows=1)
    for statement, people in (
        ("SELECT COUNT(DISTINCT l.id) AS n FROM l JOIN r ON l.id = r.id", 3),
        ("SELECT COUNT(*) AS n FROM l JOIN r USING (id)", 3),
        ("SELECT COUNT(*) AS n FROM l JOIN r USING (id) WHERE l.id = 7 AND r.id + 1 > 7.5", 1),
        ("SELECT COUNT(*) AS n FROM r WHERE id = 1.5", 1),
    ):
        assert round(session.sql(statement, epsilon=1.0).run().frame["n"][0]) == people, statement


LEVELS = {
    "int64": (pd.Series([1, 2, 3, 1]), [1, 2], {1: 2, 2: 1}),
    "float64": (pd.Series([1.0, math.nan, -0.0, 0.5]), [0, 0.5, 1], {0: 1, 0.5: 1, 1: 1}),
    "text": (pd.Series(["a", "A", "e\u0301", "a ", "\u00e9"]), ["a", "\u00e9"], {"a": 1, "\u00e9": 1}),
    "bool": (pd.Series([True, False, True]), [True, False], {True: 2, False: 1}),
    "object of truths": (pd.Series([True, None, False, 1, "True"], dtype=object), [True, False], {True: 3, False: 1}),
    "object of numbers": (pd.Series([1, None, "2", Decimal(1), "x"], dtype=object), [1, 2], {1: 2, 2: 1}),
    "object of texts": (pd.Series(["a", None, 1, b"a"], dtype=object), ["a", "1"], {"a": 1, "1": 1}),
    "category": (pd.Series(["a", "b", None], dtype="category"), ["a", "b"], {"a": 1, "b": 1}),
    "wide decimal": (
        pd.Series([Decimal("0.1"), Decimal("2")], dtype=pd.ArrowDtype(pa.decimal128(38, 10))),
        [0.1, 2],
        {0.1: 1, 2: 1},
    ),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", LEVELS)
def test_levels_are_told_apart_by_the_planner_and_in_statements(name):
    column, levels, expected = LEVELS[name]
    session = opened(pd.DataFrame({"v": column, "other": range(len(column))}), domain={"v": levels})
    answers = [
        session.table("t").groupby("v").count(epsilon=1.0).run().frame,
        session.sql("SELECT v, COUNT(*) AS value FROM t GROUP BY v", epsilon=1.0).run().frame,
        session.sql("SELECT v, COUNT(*) AS value FROM t WHERE other >= 0 GROUP BY v", epsilon=1.0).run().frame,
    ]
    for frame in answers:
        found = dict(zip(frame["v"], frame["value"].round().astype(int), strict=True))
        assert found == expected
    for level, n in expected.items():
        where = f"v == {level!r}" if name not in ("bool", "object of truths") else f"v == {level}"
        assert session.table("t").count(where=where, epsilon=1.0).run().frame["value"][0] == n
