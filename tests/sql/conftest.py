"""Gives the tests of SQL what several of them use: private aggregations, and tables with awkward values."""

import importlib.util
import sys
from pathlib import Path

import pytest

for _name in (
    "added_up",
    "private_selects",
    "strange_units",
    "ownership_data",
    "random_statements",
    "joined_tables",
    "padded_statements",
    "reused_visits",
    "noise_studies",
    "messy_tables",
    "skewed_people",
    "people_and_shots",
    "public_spells",
):
    _spec = importlib.util.spec_from_file_location(_name, Path(__file__).parent / f"{_name}.py")
    _module = importlib.util.module_from_spec(_spec)
    sys.modules[_name] = _module
    _spec.loader.exec_module(_module)


@pytest.fixture(scope="module")
def exact():
    """Sessions without noise are allowed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPNOTEBOOK_UNSAFE", "1")
        yield


@pytest.fixture
def spells_in_databases(postgres, tmp_path):
    """The spells of `public_spells` in a file of DuckDB, and in PostgreSQL."""
    import duckdb
    import pandas as pd
    import psycopg
    from public_spells import SPELLS

    path = str(tmp_path / "spells.duckdb")
    with duckdb.connect(path) as connection:
        connection.register("frame", SPELLS)
        connection.execute("CREATE TABLE spells AS SELECT * FROM frame")
    name = f"public_spells_{tmp_path.name}"[:60].lower()
    with psycopg.connect(postgres, autocommit=True) as server:
        server.execute(f"DROP TABLE IF EXISTS {name}")
        server.execute(f"CREATE TABLE {name} (person BIGINT, begin TIMESTAMP, until TIMESTAMP, code TEXT, sex TEXT)")
        with server.cursor().copy(f"COPY {name} FROM STDIN") as copy:
            for row in SPELLS.itertuples(index=False):
                copy.write_row([None if pd.isna(value) else value for value in row])
    return [(duckdb.connect(path, read_only=True), "spells"), (postgres, name)]
