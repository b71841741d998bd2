"""What is worked out from releases is DuckDB's answer over them, arrays included, and sees nothing else."""

import numpy as np
import pandas as pd
import pytest

from dpnotebook.engine.post_processing import outer
from dpnotebook.errors import SQLError

RELEASE = pd.DataFrame(
    {
        "region": ["north", None, "south"],
        "n": [10.5, 20.0, np.nan],
        "spread": [[1.0, 2.0], [3.0], None],
        "when": pd.to_datetime(["2020-01-01", None, "2021-01-01"]),
    }
)
REGIONS = pd.DataFrame({"region": ["north", "south"], "people": [100, 200]})


def test_sql_over_releases_and_public_tables():
    query = 'SELECT region, n / people AS share FROM release_0 JOIN "regions" USING (region) ORDER BY people DESC'
    found = outer(query, {"release_0": RELEASE, "regions": REGIONS})
    assert found["region"].tolist() == ["south", "north"]
    assert found["share"].isna().tolist() == [True, False]
    assert found["share"][1] == 0.105


@pytest.mark.parametrize("arrays", [list, np.array, tuple])
def test_arrays_stay_lists(arrays):
    release = RELEASE.assign(spread=[arrays([1.0, 2.0]), arrays([3.0]), None])
    found = outer("SELECT spread, spread[1] AS first FROM release_0", {"release_0": release})
    assert found["spread"][:2].tolist() == [[1.0, 2.0], [3.0]]
    assert found["first"][:2].tolist() == [1.0, 3.0]
    assert found["spread"].isna()[2]


def test_an_empty_release_has_an_empty_answer():
    found = outer("SELECT region, n * 2 AS twice FROM release_0 WHERE n > 3", {"release_0": RELEASE[:0]})
    assert list(found.columns) == ["region", "twice"]
    assert len(found) == 0


@pytest.mark.parametrize(
    "query",
    [
        "SELECT nothing FROM release_0",
        "SELECT * FROM RELEASE",
        "SELECT * FROM read_csv('/etc/passwd')",
        "COPY release_0 TO '/tmp/x.csv'",
        "SET enable_external_access = true",
        "SELECT CAST(region AS INTEGER) FROM release_0",
    ],
)
def test_what_cannot_be_worked_out_is_an_error_of_the_statement(query):
    with pytest.raises(SQLError):
        outer(query, {"release_0": RELEASE})
