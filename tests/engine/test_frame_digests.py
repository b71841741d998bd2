"""Digests of a frame's columns: equal only where all that is read is equal, so that no noise is used twice."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpnotebook as dpn
from dpnotebook.engine.frame_source import ROWS
from dpnotebook.engine.source import source_of
from dpnotebook.errors import FrameChanged, LedgerMismatch

KEY = b"k" * 32
BIG = 2**53


def digest(column, known=None):
    return source_of(pd.DataFrame({"v": column})).fingerprint_like(known, ["v"], KEY)


def arrow(values, kind):
    return pd.Series(pd.array(values, dtype=pd.ArrowDtype(kind)))


def objects(*values):
    found = pd.Series([None] * len(values), dtype=object)
    for i, value in enumerate(values):
        found.iat[i] = value
    return found


STRUCT, MAP = pa.struct([("a", pa.int64())]), pa.map_(pa.string(), pa.int64())
LONG = list(range(5000))
APART = {
    "structures": [arrow([{"a": n}, None], STRUCT) for n in (1, 2, None)] + [arrow([None, None], STRUCT)],
    "maps": [arrow([[("a", n)], None], MAP) for n in (1, 2)] + [arrow([None, None], MAP)],
    "lists of structures": [arrow([[{"a": n}]], pa.list_(STRUCT)) for n in (1, 2)] + [arrow([[]], pa.list_(STRUCT))],
    "lists": [arrow([v], pa.list_(pa.int64())) for v in ([1], [2], [1, 2], [], None, LONG, [*LONG[:2500], 7])],
    "lists of lists": [arrow([v], pa.list_(pa.list_(pa.int64()))) for v in ([[1], [2]], [[1, 2]], [[1, 2], []])],
    "objects": [objects(1, v) for v in (True, 1, None, BIG, BIG + 1, [1], (1, 2), b"1", Decimal("1.5"), 1.25)],
    "arrays": [objects(np.array(v)) for v in (LONG, [*LONG[:2500], 7, *LONG[2501:]], [[1], [2]])],
    "whole numbers": [arrow([v, None], pa.int64()) for v in (BIG, BIG + 1)] + [arrow([BIG, 0], pa.int64())],
    "large numbers": [arrow([v, None], pa.uint64()) for v in (2**63, 2**63 + 1)] + [arrow([2**63, 0], pa.uint64())],
    "missing": [pd.Series([v, 1], dtype="Int64") for v in (0, 1, None)],
    "truths": [pd.Series([v, True], dtype="boolean") for v in (False, True, None)],
    "signs": [pd.Series([2**64 - 1], dtype="uint64"), pd.Series([-1], dtype="int64"), pd.Series([255], dtype="uint8")],
    "numbers": [pd.Series([1.0]), pd.Series([np.float64(1).view(np.int64)]), pd.Series([None], dtype="float64")],
    "times": [pd.Series(np.array([1, 2], dtype=f"M8[{unit}]")) for unit in ("s", "ms", "us", "ns")],
    "durations": [pd.Series(np.array([1, 2], dtype=f"m8[{unit}]")) for unit in ("s", "ms")],
    "zones": [pd.Series(pd.to_datetime(["2020"])), pd.Series(pd.to_datetime(["2020"]).tz_localize("Europe/Paris"))],
    "times of Arrow": [
        arrow([pd.Timestamp(v) if v else None], pa.timestamp("ns")) for v in (1577836800000001, 1577836800000002, 0)
    ],
    "dates": [arrow([datetime.date(2020, 1, d), None], pa.date32()) for d in (1, 2)],
    "far dates": [pd.Series(pd.arrays.ArrowExtensionArray(pa.array([d], pa.date32()))) for d in (10**7, 10**7 + 1)],
    "decimals": [arrow([Decimal(v)], pa.decimal128(38, 20)) for v in ("1.1", "1.10000000000000000001")],
    "bytes": [arrow([v], pa.binary()) for v in (b"a", b"\xff", b"", None)],
    "texts": [pd.Series([v, "a"], dtype="str") for v in ("", "a\0", "nan", None, "a", "A", "é", "e\u0301")],
    "categories": [
        pd.Series(pd.Categorical([v, "x"], categories=["nan", "", "x"])) for v in ("nan", "", "x", None)
    ],
    "lengths": [pd.Series([1] * n) for n in range(3)],
    "order": [pd.Series(v) for v in (["a", "b"], ["b", "a"], [1, 2], [2, 1])],
}  # fmt: skip
ALIKE = {
    "whole numbers": [
        *(pd.Series([1, 2, 100], dtype=kind) for kind in ("int8", "uint8", ">i4", "int64", "Int16", "UInt64")),
        arrow([1, 2, 100], pa.int64()), pd.Series(pd.arrays.SparseArray([1, 2, 100])), pd.Series([100, 2, 1])[::-1],
    ],
    "missing": [pd.Series([1, None, 3], dtype="Int64"), arrow([1, None, 3], pa.int32())],
    "truths": [pd.Series([True, False]), pd.Series([True, False], dtype="boolean"), arrow([True, False], pa.bool_())],
    "texts": [
        *(pd.Series(["b", None, "a", "b"], dtype=kind) for kind in ("str", "string", "string[python]", "category")),
        objects("b", None, "a", "b"), objects("b", np.nan, "a", "b"), arrow(["b", None, "a", "b"], pa.large_string()),
        pd.Series(pd.Categorical(["b", None, "a", "b"], categories=["unused", "a", "b"])),
        arrow(["b", None, "a", "b"], pa.dictionary(pa.int8(), pa.string())),
    ],
    "objects": [objects(1, BIG, "x"), objects(1.0, float(BIG), "x"), objects("1", Decimal(BIG), "x")],
    "a slice": [arrow([9, 1, None, 9], pa.int64()).iloc[1:3], arrow([1, None], pa.int64())],
    "a list": [arrow([[9], [1], None], pa.list_(pa.int8())).iloc[1:], arrow([[1], None], pa.list_(pa.int8()))],
}  # fmt: skip


@pytest.mark.parametrize("name", APART)
def test_what_differs_is_told_apart(name):
    found = [digest(column) for column in APART[name]]
    assert len(set(found)) == len(found)
    assert found == [digest(column.copy()) for column in APART[name]]


@pytest.mark.parametrize("name", ALIKE)
def test_the_form_of_what_is_the_same_does_not_count(name):
    assert len({digest(column) for column in ALIKE[name]}) == 1


VALUES = st.one_of(
    *(st.none(), st.booleans(), st.integers(-2, 2), st.sampled_from([BIG, BIG + 1, 2**63])),
    *(st.sampled_from([0.5, -0.0, 1.0, float("nan"), 1e300]), st.sampled_from(["", "1", "a", "True", "\0", "\ud800"])),
    *(st.sampled_from([b"a", Decimal(1), Decimal("0.5"), datetime.date(2020, 1, 1)]), st.lists(st.integers(0, 1))),
)
COLUMNS = st.one_of(
    st.lists(VALUES, min_size=2, max_size=2).map(lambda values: objects(*values)),
    st.lists(st.sampled_from([0, 1, BIG, BIG + 1, None]), min_size=2, max_size=2).flatmap(
        lambda values: st.sampled_from(["Int64", "int64[pyarrow]", "uint64[pyarrow]", "object"]).map(
            lambda kind: pd.Series(values, dtype=kind)
        )
    ),
    st.lists(st.sampled_from([0.0, 1.0, 0.5, None]), min_size=2, max_size=2).flatmap(
        lambda values: st.sampled_from(["float64", "Float64", "double[pyarrow]", "category", "float32"]).map(
            lambda kind: pd.Series(values, dtype=kind)
        )
    ),
)


@settings(max_examples=100, deadline=None)
@given(COLUMNS, COLUMNS)
def test_equal_digests_are_read_alike(one, other):
    """What DuckDB is given of both, value by value, is the judge."""
    if digest(one) == digest(other):
        assert _read(one) == _read(other)
    if one.dtype == other.dtype == object and _read(one) == _read(other):
        assert digest(one) == digest(other)


def _read(column):
    executor, relation = source_of(pd.DataFrame({"v": column})).connect()
    try:
        rows = executor.connection.execute(
            f"SELECT CASE WHEN v::VARCHAR <> 'nan' THEN v END FROM {relation}"
        ).fetchall()
        return repr(rows).replace("-0.0", "0.0")
    finally:
        executor.close()


UNDECLARED = {
    "a structure": [arrow([{"a": n}] * 40, STRUCT) for n in (1, None)],
    "an object": [objects(*[1, v] * 20) for v in (True, 1)],
    "numbers": [arrow([BIG + n, *[None] * 39], pa.int64()) for n in (0, 1)],
    "lists": [objects(*[[n]] * 40) for n in (1, 2)],
}


@pytest.mark.parametrize("name", UNDECLARED)
def test_nothing_that_is_asked_again_changed_unnoticed(name, tmp_path):
    """Whatever column a statement reads, another one in its place has no answer that was paid for before."""
    before, after = (pd.DataFrame({"age": range(40), "v": column}) for column in UNDECLARED[name])
    statement = "SELECT COUNT(v) AS n FROM t WHERE age >= 0 AND 'a' = lower('A')"

    def opened(frame):
        session = dpn.Session(dpn.Budget(epsilon=4.0), ledger=tmp_path / "t.ledger", confirm="never")
        session.protect(frame, "t", domain={"age": dpn.Range(0, 99)})
        return session

    session = opened(before)
    first = session.sql(statement, epsilon=0.5).run().frame
    session.close()
    again = opened(before.copy())
    release = again.sql(statement, epsilon=0.5).run()
    assert release.paid == 0
    pd.testing.assert_frame_equal(release.frame, first)
    again.close()
    other = opened(after)
    with pytest.raises(FrameChanged, match="a column that is not declared of t was another"):
        other.sql(statement, epsilon=0.5).run()
    assert other.spent.epsilon == 0.5
    other.close()


def test_a_frame_of_an_earlier_version_is_known():
    """By the hashes of pandas; of a column that they cannot hash, by its name."""
    for column in (pd.Series([1, 2]), pd.Series(["a", None]), objects("a", 1), objects([1], 2)):
        source = source_of(pd.DataFrame({"v": column}))
        known = source.fingerprint_by_pandas(["v"], KEY)
        assert not known.startswith(ROWS)
        assert digest(column, known) == known
        assert digest(column[::-1], known) != known or column.dtype == object
        assert digest(column, digest(column)) == digest(column) != known


def test_a_declared_column_that_changed_is_another_table(tmp_path):
    session = dpn.Session(dpn.Budget(epsilon=1.0), ledger=tmp_path / "t.ledger")
    session.protect(pd.DataFrame({"v": objects(1, True)}), "t", domain={"v": ["1", "True"]})
    session.close()
    session = dpn.Session(dpn.Budget(epsilon=1.0), ledger=tmp_path / "t.ledger")
    with pytest.raises(LedgerMismatch, match="its data differ"):
        session.protect(pd.DataFrame({"v": objects(1, 1)}), "t", domain={"v": ["1", "True"]})
    session.close()
