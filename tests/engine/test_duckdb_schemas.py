"""Tables in the schemas of a DuckDB database: named as in SQL, and as private as any."""

import duckdb
import pytest

import dpnotebook as dpn
from dpnotebook.testing import exact_session

SCHEMAS = '''
CREATE SCHEMA "Klinik ""Süd""";
CREATE TABLE "Klinik ""Süd"""."Bésuche" AS SELECT i AS id, i % 100 AS age FROM range(500) t(i);
CREATE SCHEMA clinic; CREATE TABLE clinic.visits AS SELECT i AS id, i % 100 AS age FROM range(300) t(i);
CREATE VIEW clinic.shown AS SELECT id, age + 0 AS age FROM clinic.visits;
CREATE SCHEMA other; CREATE VIEW other.shown AS SELECT 1 AS id; CREATE VIEW other.behind AS SELECT * FROM clinic.shown;
CREATE TABLE visits AS SELECT i AS id, i % 100 AS age FROM range(100) t(i);
CREATE TABLE "a.b" AS SELECT i AS id, i % 100 AS age FROM range(50) t(i);
'''


@pytest.fixture(params=["a connection", "a file"])
def with_schemas(request, tmp_path):
    path = tmp_path / "schemas.duckdb"
    with duckdb.connect(path) as connection:
        connection.execute(SCHEMAS)
        if request.param == "a connection":
            yield connection
    if request.param == "a file":
        yield path


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ('"Klinik ""Süd"""."Bésuche"', 500),
        ("clinic.visits", 300),
        ('"clinic"."visits"', 300),
        ("CLINIC.shown", 300),
        ("other.behind", 300),
        ("visits", 100),
        ("main.visits", 100),
        ("a.b", 50),
        ('"a.b"', 50),
    ],
)
def test_tables_in_schemas_are_named_as_in_sql(with_schemas, name, rows, monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    session = exact_session(dpn.Budget(10.0))
    table = session.protect((with_schemas, name), "t", domain={"age": dpn.Range(0, 99)})
    assert table.count(epsilon=1.0).run().value == rows
    assert session.sql("SELECT COUNT(*) FROM t WHERE id >= 10", epsilon=1.0).run().value == rows - 10


@pytest.mark.parametrize("name", ["other.visits", "clinic.", ".visits", "x.y.z.visits", '"clinic.visits"', '"'])
def test_a_table_that_is_in_no_such_schema(with_schemas, name):
    session = dpn.Session(dpn.Budget(1.0))
    with pytest.raises(dpn.DomainError, match="there is no table or view"):
        session.protect((with_schemas, name), "t")


@pytest.mark.parametrize("name", ["clinic.visits", 'Clinic."VISITS"', "clinic.shown", "other.behind"])
def test_a_protected_table_of_a_schema_is_not_registered_as_public(with_schemas, name):
    session = dpn.Session(dpn.Budget(1.0))
    session.protect((with_schemas, "clinic.visits"), "t", domain={"age": dpn.Range(0, 99)})
    with pytest.raises(dpn.DomainError, match="these are the rows of 't'"):
        session.register((with_schemas, name), "public", public=True)
    session.register((with_schemas, "a.b"), "public", public=True)


SAME_NAME = """
CREATE SCHEMA codes; CREATE TABLE codes.visits AS SELECT i AS age, 'g' || i AS word FROM range(9) t(i);
CREATE SCHEMA views; CREATE VIEW views.seen AS SELECT age FROM main.visits;
CREATE VIEW views.other AS SELECT age FROM views.seen;
"""


@pytest.mark.parametrize("private", ["visits", "main.visits"])
def test_a_table_of_the_same_name_in_another_schema_is_another_table(private, tmp_path):
    with duckdb.connect(tmp_path / "a.duckdb") as connection:
        connection.execute(SCHEMAS + SAME_NAME)
        for source in (connection, connection.cursor()):
            session = dpn.Session(dpn.Budget(1.0))
            session.protect((source, private), "t", domain={"age": dpn.Range(0, 99)})
            session.register((connection, "codes.visits"), "words", public=True)
            for name in ("visits", "VISITS", "main.visits", "a.main.visits", "views.seen", "views.other"):
                with pytest.raises(dpn.DomainError, match="these are the rows of 't'"):
                    session.register((connection, name), "public", public=True)
    file = tmp_path / "a.duckdb"
    session = dpn.Session(dpn.Budget(1.0))
    session.protect((file, private), "t", domain={"age": dpn.Range(0, 99)})
    session.register((file, "codes.visits"), "words", public=True)
    with pytest.raises(dpn.DomainError, match="these are the rows of 't'"):
        session.register((file, "main.visits"), "public", public=True)
