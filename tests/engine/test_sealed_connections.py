"""Connections to the database of the process: shut off from files and settings, and from one another."""

import duckdb
import pandas as pd
import pytest

from dpnotebook.engine import sealed as sealed_module
from dpnotebook.engine.sealed import sealed, without_files

FRAME = pd.DataFrame({"secret": [1, 2, 3]})


def test_what_one_connection_knows_no_other_sees():
    one, other = without_files(), without_files()
    one.register("people", FRAME)
    one.execute("CREATE TEMP VIEW seen AS SELECT secret FROM people")
    one.execute("CREATE TEMP TABLE kept AS SELECT secret FROM people")
    assert one.execute("SELECT sum(secret) FROM seen").fetchone() == (6,)
    for name in ("people", "seen", "kept"):
        with pytest.raises(duckdb.CatalogException):
            other.execute(f"SELECT * FROM {name}")
    assert other.execute("SELECT count(*) FROM duckdb_tables()").fetchone() == (0,)
    assert other.execute("SELECT count(*) FROM duckdb_views() WHERE NOT internal").fetchone() == (0,)


def test_no_file_and_no_setting_is_reached(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("a\n1\n")
    connection = sealed()
    with pytest.raises(duckdb.PermissionException):
        connection.execute(f"SELECT * FROM read_csv('{path}')")
    with pytest.raises(duckdb.InvalidInputException):
        connection.execute("SET enable_external_access = true")
    asked = "SELECT current_setting('TimeZone'), current_setting('enable_progress_bar')"
    assert connection.execute(asked).fetchone() == ("UTC", False)


def test_closing_one_leaves_the_others():
    one, other = without_files(), without_files()
    other.register("people", FRAME)
    one.close()
    assert other.execute("SELECT count(*) FROM people").fetchone() == (3,)


def test_a_database_that_failed_is_opened_anew():
    """After an internal error DuckDB answers nothing any more; closing it stands for that here."""
    sealed_module.empty_database.cache_clear()
    broken = sealed_module.empty_database(sealed_module.os.getpid(), sealed_module.SAMPLE)
    broken.close()
    assert without_files().execute("SELECT 1").fetchone() == (1,)
