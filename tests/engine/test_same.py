"""What is protected cannot be registered as public too, under whatever name it comes."""

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.errors import DomainError


def people():
    return pd.DataFrame({"id": np.arange(50), "ward": list("abcde") * 10, "age": np.arange(50.0)})


@pytest.fixture
def session():
    made = dpn.Session(budget=dpn.Budget(epsilon=1.0), confirm="never")
    yield made
    made.close()


FRAMES = {
    "itself": lambda frame: frame,
    "columns": lambda frame: frame[["ward", "age"]],
    "one column": lambda frame: frame[["age"]].rename(columns={"age": "years"}),
    "some rows": lambda frame: frame[10:40],
    "every other row": lambda frame: frame.iloc[::2],
    "shallow copy": lambda frame: frame.copy(deep=False),
    "copy": lambda frame: frame.copy(),
    "another index": lambda frame: frame.set_axis(np.arange(50) + 5),
    "with more": lambda frame: frame.assign(more=1),
}


@pytest.mark.parametrize("how", FRAMES)
@pytest.mark.parametrize(
    "dtypes", [{}, {"ward": "category", "age": "Float64"}, {"ward": object, "id": "int64[pyarrow]"}]
)
def test_a_frame_that_is_protected_is_not_public(session, how, dtypes):
    frame = people().astype(dtypes)
    session.protect(frame, "people", unit="id", max_rows=1)
    with pytest.raises(DomainError, match="rows of 'people'"):
        session.register(FRAMES[how](frame), "extra", public=True)


def test_other_frames_are_public(session):
    frame = people()
    session.protect(frame, "people", unit="id", max_rows=1)
    session.register(frame[["ward"]].drop_duplicates(), "wards", public=True)
    session.register(pd.DataFrame({"ward": list("abcde"), "beds": 3}), "beds", public=True)
    session.register(pd.DataFrame({"id": np.arange(50)}), "numbers", public=True)


def test_what_is_public_is_not_protected_later(session):
    frame = people()
    session.register(frame, "people", public=True)
    with pytest.raises(DomainError, match="registered as public"):
        session.protect(frame, "patients", unit="id", max_rows=1)
    assert "patients" not in session.ledger.tables()


def test_a_file_that_is_protected_is_not_public(session, tmp_path, monkeypatch):
    people().to_parquet(tmp_path / "people.parquet")
    (tmp_path / "link.parquet").symlink_to(tmp_path / "people.parquet")
    (tmp_path / "hard.parquet").hardlink_to(tmp_path / "people.parquet")
    session.protect(tmp_path / "people.parquet", "people")
    monkeypatch.chdir(tmp_path)
    connection = duckdb.connect()
    connection.execute("CREATE VIEW seen AS SELECT ward FROM read_parquet('people.parquet')")
    for data in ("people.parquet", tmp_path / "link.parquet", tmp_path / "hard.parquet", (connection, "seen")):
        with pytest.raises(DomainError, match="rows of 'people'"):
            session.register(data, "extra", public=True)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("where", ["memory", "file", "open file"])
def test_a_table_that_is_protected_is_not_public(session, tmp_path, where):
    path = tmp_path / "people.duckdb"
    connection = duckdb.connect(":memory:" if where == "memory" else str(path))
    frame = people()  # noqa: F841
    connection.execute("CREATE TABLE people AS SELECT * FROM frame")
    connection.execute("CREATE TABLE beds AS SELECT DISTINCT ward FROM people")
    connection.execute('CREATE VIEW "seen" AS SELECT ward FROM people')
    connection.execute("CREATE VIEW again AS SELECT * FROM seen")
    place = connection
    if where == "file":
        connection.close()
        place = path
    session.protect((place, "people"), "people")
    places = [place] if where == "file" else [place, place.cursor()]
    for here in places:
        session.register((here, "beds"), "beds", public=True)
        for name in ("people", "PEOPLE"):
            with pytest.raises(DomainError, match="rows of 'people'"):
                session.register((here, name), "extra", public=True)
        for name in ("seen", "again"):
            with pytest.raises(DomainError, match="rows of 'people'"):
                session.register((here, name), "extra", public=True)
    other = duckdb.connect()
    other.execute("CREATE TABLE people AS SELECT range AS n FROM range(3)")
    session.register((other, "people"), "others", public=True)


def test_a_table_in_postgresql_that_is_protected_is_not_public(session, postgres):
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as connection:
        for statement in (
            "DROP SCHEMA IF EXISTS same CASCADE",
            "CREATE SCHEMA same",
            "CREATE TABLE same.people (id int, ward text)",
            "INSERT INTO same.people SELECT n, 'a' FROM generate_series(1, 9) AS n",
            "CREATE VIEW same.seen AS SELECT ward FROM same.people",
            "CREATE VIEW same.again AS SELECT count(*) AS n FROM (SELECT * FROM same.seen) AS q",
            "CREATE MATERIALIZED VIEW same.stored AS SELECT * FROM same.people",
            "CREATE TABLE same.parts (id int, ward text) PARTITION BY RANGE (id)",
            "CREATE TABLE same.first PARTITION OF same.parts FOR VALUES FROM (0) TO (100)",
            "CREATE TABLE same.beds AS SELECT ward, 3 AS beds FROM same.people GROUP BY ward",
            "CREATE VIEW same.doubled AS SELECT ward, 2 * beds AS beds FROM same.beds",
        ):
            connection.execute(statement)
    session.protect((postgres, "same.people"), "people", unit="id", max_rows=1)
    session.protect((postgres, "same.parts"), "parts", unit="id", max_rows=1)
    for table in ("people", "seen", "again", "stored", "parts", "first"):
        for place in (postgres, f"{postgres}{'&' if '?' in postgres else '?'}application_name=other"):
            with pytest.raises(DomainError, match=r"rows of 'p"):
                session.register((place, f"same.{table}"), "extra", public=True)
    for table in ("beds", "doubled"):
        session.register((postgres, f"same.{table}"), table, public=True)
    with pytest.raises(DomainError, match="registered as public"):
        session.protect((postgres, "same.beds"), "secret")


def test_a_frame_of_spark_that_is_protected_is_not_public(session, spark):
    frame = spark.createDataFrame([(n, "ab"[n % 2]) for n in range(20)], "id int, ward string")
    frame.createOrReplaceTempView("same_people")
    beds = spark.createDataFrame([("a", 3), ("b", 4)], "ward string, beds int")
    session.protect(frame.join(beds, "ward"), "people", unit="id", max_rows=1)
    session.protect((spark, "same_people"), "table", unit="id", max_rows=1)
    for other in (frame, frame.join(beds, "ward").limit(3), frame.select("ward"), (spark, "same_people")):
        with pytest.raises(DomainError, match=r"rows of '(people|table)'"):
            session.register(other, "extra", public=True)
    session.register(beds, "beds", public=True)
