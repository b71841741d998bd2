"""Texts that a collation takes for equal are keys, levels and units of their own: what differs stays apart."""

import duckdb
import pytest

import dpnotebook as dpn
from dpnotebook.testing import exact_session

WAYS = {
    "of the column": ("", "VARCHAR COLLATE NOCASE"),
    "of the column, without accents": ("", "VARCHAR COLLATE NOACCENT"),
    "of the connection": ("SET default_collation = 'NOCASE'", "VARCHAR"),
}


@pytest.mark.parametrize("domain", [None, {"v": ["a", "A", "ä"]}], ids=["unknown", "declared"])
@pytest.mark.parametrize("way", WAYS)
def test_a_collation_makes_no_two_texts_one(way, domain, monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    setting, kind = WAYS[way]
    connection = duckdb.connect()
    connection.execute(f"{setting}; CREATE TABLE t (v {kind}, other INTEGER)")
    connection.execute("INSERT INTO t VALUES ('a', 1), ('a', 1), ('a', 1), ('A', 1), ('A', 1), ('ä', 1)")
    session = exact_session(budget=dpn.Budget(epsilon=90.0, delta=1e-4))
    session.protect((connection, "t"), "t", domain=domain)
    found = session.sql("SELECT v, COUNT(*) AS n FROM t GROUP BY v", epsilon=1.0).run().frame
    assert dict(zip(found["v"], found["n"].round(), strict=True)) == {"a": 3, "A": 2, "ä": 1}
    session.protect((connection, "t"), "units", unit="v", max_rows=1)
    for asked in ("COUNT(DISTINCT v)", "COUNT(*)"):
        units = session.sql(f"SELECT {asked} AS n FROM units WHERE other = 1", epsilon=1.0).run().frame
        assert round(units["n"][0]) == 3
    session.close()
