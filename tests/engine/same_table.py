"""One table in several forms: what tells tables apart has to be the same for all of them."""

import datetime

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa


def made(size=120, units=30):
    """Return rows with all that the declared columns may hold."""
    rng = np.random.default_rng(9)
    frame = pd.DataFrame({"who": rng.integers(0, units, size), "age": rng.integers(0, 100, size)})
    frame["fee"] = np.round(rng.uniform(-10, 120, size), 2) / 3
    frame.loc[::17, "fee"] = np.nan
    frame.loc[:3, "fee"] = [1e300, 1e-300, -0.0, 2.0**60]
    frame["sex"] = np.where(rng.integers(0, 2, size) > 0, "F", "M")
    frame["note"] = [f"é{i % 7}" for i in range(size)]
    frame["seen"] = datetime.datetime(2020, 1, 1) + pd.to_timedelta(rng.integers(0, 10**9, size), unit="s")
    return frame


def in_duckdb(frame, path=None, order=""):
    """Return the rows as a table of DuckDB, in memory or in a file."""
    connection = duckdb.connect(*([] if path is None else [str(path)]))
    connection.register("frame", frame.sort_index())  # DuckDB reads no texts backwards
    connection.execute(f"CREATE TABLE t AS SELECT * FROM frame {order}")
    connection.unregister("frame")
    if path is None:
        return connection, "t"
    connection.close()
    return str(path), "t"


def in_parquet(frame, path):
    frame.to_parquet(path, index=False)
    return str(path)


def forms(frame, folder):
    """Return the same table in other forms."""
    shuffled = frame.sample(frac=1, random_state=4)
    yield "shuffled", shuffled
    yield "other columns", shuffled[list(frame.columns)[::-1]].assign(more=range(len(frame)))
    yield "other types", frame.astype({"age": "float64", "sex": "category", "who": "Int64"})
    yield "arrow", pa.Table.from_pandas(shuffled, preserve_index=False)
    yield "parquet", in_parquet(shuffled, folder / "t.parquet")
    yield "duckdb", in_duckdb(frame, order="ORDER BY fee DESC")
    yield "duckdb file", in_duckdb(frame.assign(more="x"), folder / "t.duckdb", "ORDER BY sex, age")
