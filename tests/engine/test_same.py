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
