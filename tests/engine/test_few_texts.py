"""Columns of few different texts reach DuckDB as numbers and a dictionary: the same values, types and digests."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dpnotebook as dpn
import dpnotebook.testing
from dpnotebook.engine import frames
from dpnotebook.engine.row_digest import digest_of, typed_digest_of
from dpnotebook.engine.sealed import without_files
from dpnotebook.engine.source import source_of

ROWS = 3_000
KEY = bytes(range(32))


def table(seed=2):
    rng = np.random.default_rng(seed)
    words = np.array(["", "a", "ä€", "it's", "A", " a", "z" * 50, None], dtype=object)
    moments = pd.Series(pd.date_range("2020-01-01", periods=ROWS, freq="h"))
    return pd.DataFrame({
        "text": pd.Series(rng.choice(words, ROWS), dtype="str"),
        "arrow": pd.Series(rng.choice(words, ROWS), dtype="string[pyarrow]"),
        "large": pd.Series(rng.choice(words, ROWS), dtype=pd.ArrowDtype(pa.large_string())),
        "objects": rng.choice(words, ROWS),
        "nothing": pd.Series([None] * ROWS, dtype="str"),
        "many": pd.Series([f"text {i}" for i in range(ROWS)], dtype="str"),
        "float": np.where(rng.random(ROWS) < 0.1, np.nan, rng.normal(size=ROWS)),
        "small": rng.integers(0, 9, ROWS).astype("uint8"),
        "large_number": np.full(ROWS, 2**64 - 1, dtype="uint64"),
        "true": rng.random(ROWS) < 0.5,
        "nullable": pd.array([1, None, 3] * (ROWS // 3), dtype="Int64"),
        "moment": moments, "zone": moments.dt.tz_localize("UTC").dt.tz_convert("Europe/Berlin"),
        "seconds": moments.astype("datetime64[s]"), "length": pd.to_timedelta(np.arange(ROWS), "s"),
    })  # fmt: skip


def read(data, few, monkeypatch):
    """Return names and types of columns as DuckDB has them, and all rows."""
    monkeypatch.setattr(frames, "MANY_ROWS", 1 if few else 10**9)
    columns = frames.FrameColumns(data)
    columns.convert(columns.names)
    connection = without_files()
    made = columns.register(connection, "read_here", columns.readable())
    described = [row[:2] for row in connection.execute(f"DESCRIBE SELECT * FROM {made.sql}").fetchall()]
    rows = connection.execute(f"SELECT * FROM {made.sql}").fetchall()
    sent = {name: isinstance(column.dtype, pd.ArrowDtype) for name, column in columns._numbered.items()}
    connection.close()
    return described, rows, {name for name, numbered in sent.items() if numbered and name != "large"}


@pytest.mark.parametrize("without", [(), ("arrow", "large"), ("nullable", "arrow", "large", "zone")])
def test_values_and_types_are_the_same(without, monkeypatch):
    data = table().drop(columns=list(without))
    plain, few = (read(data, few, monkeypatch) for few in (False, True))
    assert few[:2] == plain[:2]
    assert not plain[2]
    assert few[2] == {"text", "arrow", "objects", "nothing"} - set(without)


def test_beside_categories_texts_stay_as_they_are(monkeypatch):
    data = table()[["text", "float"]].assign(kind=pd.Categorical(["x", "y", None] * (ROWS // 3)))
    plain, few = (read(data, few, monkeypatch) for few in (False, True))
    assert few[:2] == plain[:2]
    assert not few[2]


@pytest.mark.parametrize("digest", [digest_of, typed_digest_of])
def test_digests_are_the_same(digest, monkeypatch):
    names = ["text", "objects", "nothing", "many", "float", "small"]
    found = set()
    for few in (False, True):
        monkeypatch.setattr(frames, "MANY_ROWS", 1 if few else 10**9)
        found.add(digest(source_of(table()[names]), names, None, KEY))
        assert digest(source_of(table(3)[names]), names, None, KEY) not in found
    assert len(found) == 1


@pytest.mark.usefixtures("same_noise")
def test_conditions_orders_and_groups_are_the_same(monkeypatch):
    text = "SELECT text, COUNT(*) AS n, AVG(float) AS a FROM t WHERE objects > 'A' AND text <> 'a' GROUP BY text"
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    found = []
    for few in (False, True):
        monkeypatch.setattr(frames, "MANY_ROWS", 1 if few else 10**9)
        with dpn.testing.exact_session(dpn.Budget(9.0, 1e-5), ":memory:", confirm="never") as session:
            session.protect(table().assign(who=np.arange(ROWS) // 2), "t", unit="who", max_rows=2)
            found.append(session.sql(text, epsilon=5).run().frame)
    pd.testing.assert_frame_equal(*found, check_exact=True)
    assert len(found[0]) >= 6
