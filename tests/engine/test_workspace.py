"""Statements reach every column of every table under its name, whatever it is made of, and nothing else."""

import datetime
import decimal
import itertools
import os
import signal
import threading
import time

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dpnotebook.dialect.types import ROW_UNIT
from dpnotebook.engine.executor import named
from dpnotebook.engine.source import source_of
from dpnotebook.engine.workspace import Workspace
from dpnotebook.errors import DomainError, EngineError, FrameChanged

DAYS = pd.to_datetime(["2020-01-01 12:00"] * 3)
ODD = pd.DataFrame(
    {
        "whole": [1, 2, 3],
        "day": [datetime.date(1, 1, 1), None, datetime.date(9999, 12, 31)],
        "decimal": [decimal.Decimal("1.5"), None, decimal.Decimal(2)],
        "integers": pd.Series([1, None, 2**40], dtype=object),
        "flags": pd.Series([True, None, False], dtype=object),
        "texts": pd.Series(["a'b", None, "é\n"], dtype=object),
        "mixed": [1, "x", None],
        "lists": [[1, 2], [3], None],
        "listed": pd.Series([["a", "b"], [], None], dtype=pd.ArrowDtype(pa.list_(pa.string()))),
        "nothing": pd.Series([None] * 3, dtype=object),
        "codes": pd.Categorical([1, None, 2]),
        "wards": pd.Categorical(["a", "b", None]),
        "half": np.array([1, np.nan, 2], np.float16),
        "masked": pd.array([1.0, None, 2.0], "Float64"),
        "arrow": pd.array([1.0, None, float("nan")], "double[pyarrow]"),
        "paris": DAYS.tz_localize("Europe/Paris"),
        "backwards": np.arange(3)[::-1],
        "foreign": np.arange(3, dtype=">i8"),
        "sparse": pd.arrays.SparseArray([0.0, 1.0, np.nan]),
        'quo"te': [1, 2, 3],
        "ends": [np.inf, -np.inf, np.nan],
        "sets": [{1}, 2, 3],
        "bytes": [b"a", b"b", None],
        "complex": np.array([1j, 2, 3]),
        "period": pd.period_range("2020", periods=3),
        "span": pd.interval_range(0, 3),
        17: [1, 2, 3],
    }
)
READ = {
    "whole": ("number", [1, 2, 3]),
    "day": ("text", ["0001-01-01", None, "9999-12-31"]),
    "decimal": ("text", ["1.5", None, "2"]),
    "integers": ("text", ["1", None, str(2**40)]),
    "flags": ("text", ["True", None, "False"]),
    "texts": ("text", ["a'b", None, "é\n"]),
    "mixed": ("text", ["1", "x", None]),
    "lists": ("text", ["['1', '2']", "['3']", None]),
    "sets": ("text", [None, "2", "3"]),
    "bytes": ("text", ["b'a'", "b'b'", None]),
    "listed": ("other", [["a", "b"], [], None]),
    "nothing": ("text", [None, None, None]),
    "codes": ("number", [1, None, 2]),
    "wards": ("text", ["a", "b", None]),
    "half": ("number", [1.0, None, 2.0]),
    "masked": ("number", [1.0, None, 2.0]),
    "arrow": ("number", [1.0, None, None]),
    "paris": ("time", [datetime.datetime(2020, 1, 1, 11)] * 3),
    "backwards": ("number", [2, 1, 0]),
    "foreign": ("number", [0, 1, 2]),
    "sparse": ("number", [0.0, 1.0, None]),
    'quo"te': ("number", [1, 2, 3]),
    "ends": ("number", [np.inf, -np.inf, None]),
    "complex": ("number", [None, 2, 3]),
}
UNREADABLE = ["period", "span"]


def workspace(**tables):
    made = Workspace()
    for name, data in tables.items():
        frame, unit, private = data if isinstance(data, tuple) and len(data) == 3 else (data, None, True)
        made.add(name, source_of(frame), unit, private)
    return made


def listed(column):
    return [value.tolist() if isinstance(value, np.ndarray) else value for value in column.tolist()]


def test_every_column_of_a_frame_is_read_for_what_it_is():
    tables = workspace(odd=ODD)
    kinds = tables.kinds("odd")
    assert list(kinds) == [name for name in ODD if isinstance(name, str)]
    for name, (kind, values) in READ.items():
        quoted = name.replace('"', '""')
        assert kinds[name] == kind
        assert listed(tables.run(f'SELECT "{quoted}" AS v FROM "odd"', ["odd"])["v"]) == values, name
    assert tables.run('SELECT v FROM (SELECT unnest("listed") AS v FROM "odd")', ["odd"])["v"].tolist() == ["a", "b"]


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_column_that_cannot_be_read_is_an_error_only_where_it_is_named(name):
    tables = workspace(odd=ODD)
    tables.check(["odd"], ['SELECT "whole" FROM "odd"'])
    assert tables.kinds("odd")[name] == "other"
    for query in (f'SELECT "{name}" FROM "odd"', f"SELECT {name.upper()} FROM odd"):
        with pytest.raises(DomainError, match=f"'{name}' holds values of type .*convert it"):
            tables.check(["odd"], [query])
    assert tables.run('SELECT sum("whole") AS n FROM "odd"', ["odd"])["n"][0] == 6


def test_names_that_differ_only_in_case_are_an_error_only_where_they_are_named():
    tables = workspace(people=pd.DataFrame({"Id": [1, 2], "id": [3, 4], "age": [5, 6]}), People=ODD)
    assert tables.run('SELECT max("age") AS n FROM "people"', ["people"])["n"][0] == 6
    with pytest.raises(DomainError, match="'Id' and 'id' of 'people' differ only in case"):
        tables.check(["people"], ['SELECT "id" FROM "people"'])
    assert tables.run('SELECT count(*) AS n FROM "People"', ["People"])["n"][0] == 3
    with pytest.raises(EngineError, match="'people' and 'People' differ only in case"):
        tables.check(["people", "People"])


def test_rows_that_are_units_are_numbered():
    tables = workspace(people=ODD, visits=(ODD, "whole", True), regions=(ODD, None, False))
    query = f'SELECT count(DISTINCT "{ROW_UNIT}") AS n, count("{ROW_UNIT}") AS m FROM '
    found = tables.run(query + '"people"', ["people"])
    assert (found["n"][0], found["m"][0]) == (3, 3)
    for name in ("visits", "regions"):
        with pytest.raises(EngineError):
            tables.run(f'{query}"{name}"', [name])


def places(folder, frame):
    """Return the same rows as a frame, a Parquet file, a table in a file, and one in a connection."""
    frame.to_parquet(folder / "rows.parquet")
    connections = [duckdb.connect(str(folder / "rows.duckdb")), duckdb.connect(), duckdb.connect()]
    for connection in connections:
        connection.register("incoming", frame)
        connection.execute("CREATE TABLE people AS SELECT * FROM incoming")
    connections[0].close()
    return {
        "frame": frame,
        "parquet": folder / "rows.parquet",
        "file": (folder / "rows.duckdb", "people"),
        "file_again": (folder / "rows.duckdb", "people"),
        "connection": (connections[1], "people"),
        "people": (connections[1], "people"),
        "other_connection": (connections[2], "people"),
    }


def test_tables_of_any_place_are_joined(tmp_path):
    frame = pd.DataFrame({"u": [1, 2, 2, None, 5], "x": [1.5, np.nan, np.inf, 4.0, 5.0], "g": list("aabbc")})
    tables = workspace(**{name: (data, "u", True) for name, data in places(tmp_path, frame).items()})
    for name in ("frame", "parquet", "file", "connection", "people"):
        assert dict(tables.kinds(name)) == {"u": "number", "x": "number", "g": "text"}
    for one, other in itertools.permutations(tables._tables, 2):
        query = f'SELECT count(*) AS n, count(a."x") AS x FROM "{one}" AS a JOIN "{other}" AS b ON a."u" = b."u"'
        found = tables.run(query, [one, other])
        assert (found["n"][0], found["x"][0]) == (6, 4), (one, other)


TIMES = {
    "DATE": ["2020-01-02", "infinity", "-infinity", "12000-01-01", "0044-01-01 (BC)"],
    "TIMESTAMP": ["2020-01-02 00:00:00", "infinity", "-infinity", "12000-01-01 00:00:00"],
    "TIMESTAMP_S": ["2020-01-02 00:00:00", "infinity", "-infinity", "12000-01-01 00:00:00"],
    "TIMESTAMP_MS": ["2020-01-02 00:00:00", "infinity", "-infinity", "12000-01-01 00:00:00"],
    "TIMESTAMP_NS": ["2020-01-02 00:00:00", "infinity", "-infinity", "2200-01-01 00:00:00"],
    "TIMESTAMPTZ": ["2020-01-02 00:00:00+00", "infinity", "-infinity", "12000-01-01 00:00:00+00"],
}


@pytest.mark.parametrize("kind", TIMES)
def test_no_time_makes_a_statement_fail(kind):
    connection = duckdb.connect()
    values = ", ".join(f"(CAST('{value}' AS {kind}))" for value in TIMES[kind])
    connection.execute(f"CREATE TABLE people AS SELECT t FROM (VALUES {values}) AS v(t)")
    tables = workspace(people=(connection, "people"))
    assert dict(tables.kinds("people")) == {"t": "time"}
    plain = [datetime.datetime(2020, 1, 2)] + [None] * (len(TIMES[kind]) - 1)
    if kind == "TIMESTAMP_NS":
        plain[-1] = datetime.datetime(2200, 1, 1)
    assert listed(tables.run('SELECT "t" FROM "people"', ["people"])["t"]) == plain
    query = "SELECT count(*) AS n FROM people WHERE t BETWEEN DATE '2019-01-01' AND DATE '9999-12-31'"
    assert tables.run(query, ["people"])["n"][0] == len([time for time in plain if time is not None])


@pytest.mark.parametrize(
    ("kind", "as_unit", "texts", "as_value"),
    [
        ("DECIMAL(18,0)", "number", ["1", "9007199254740993"], "integer"),
        ("DECIMAL(30,0)", "text", ["1", "9007199254740993"], "number"),
        ("DECIMAL(20,1)", "text", ["1", "9007199254740993"], "number"),
    ],
)
def test_decimals_stay_apart(kind, as_unit, texts, as_value):
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE people (d {kind})")
    connection.execute("INSERT INTO people VALUES (1), (9007199254740993)")
    tables = workspace(people=((connection, "people"), "d", True))
    assert tables.kinds("people")["d"] == as_unit
    assert tables.rounded("people") == frozenset()
    query = 'SELECT CAST("d" AS VARCHAR) AS d FROM "people" ORDER BY 1'
    assert listed(tables.run(query, ["people"])["d"]) == texts
    tables = workspace(people=((connection, "people"), None, True))
    assert tables.kinds("people")["d"] == as_value
    assert tables.rounded("people") == (frozenset("d") if as_value == "number" else frozenset())


def test_only_a_public_table_is_shown_whole(tmp_path):
    frame = pd.DataFrame({"u": [1, 2], "g": ["a", None]})
    made = places(tmp_path, frame)
    tables = workspace(**{name: (data, None, False) for name, data in made.items()}, secret=frame)
    for name in made:
        pd.testing.assert_frame_equal(tables.frame(name), frame, check_dtype=False)
    with pytest.raises(EngineError, match="'secret' is protected"):
        tables.frame("secret")


def test_a_file_that_was_replaced_is_refused(tmp_path):
    ODD[["whole"]].to_parquet(tmp_path / "rows.parquet")
    tables = workspace(rows=tmp_path / "rows.parquet")
    ODD[["whole", "masked"]].to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(FrameChanged, match="was changed after it was protected"):
        tables.check(["rows"])


def test_a_file_that_is_replaced_while_it_is_read_gives_no_answer(tmp_path, monkeypatch):
    for kind, data in (("parquet", tmp_path / "rows.parquet"), ("duckdb", (tmp_path / "rows.duckdb", "rows"))):
        path = tmp_path / f"rows.{kind}"

        def write(values, path=path, kind=kind):
            if kind == "parquet":
                pd.DataFrame({"u": values}).to_parquet(path)
            else:
                with duckdb.connect(str(path) + str(len(values))) as connection:
                    connection.execute("CREATE TABLE rows AS SELECT unnest($1) AS u", [values])
                os.replace(str(path) + str(len(values)), path)

        write([1, 2])
        tables = workspace(rows=data)
        home = tables._home([tables._tables["rows"]])
        run = home.run
        monkeypatch.setattr(home, "run", lambda query, run=run, write=write: (run(query), write([1, 2, 3]))[0])
        with pytest.raises(EngineError, match="changed while it was read"):
            tables.run('SELECT count(*) AS n FROM "rows"', ["rows"])
        with pytest.raises(FrameChanged, match="nothing was spent"):
            tables.check(["rows"])
        tables.close()


def test_a_connection_shows_the_rows_of_the_moment_it_was_protected():
    connection = duckdb.connect()
    connection.execute("CREATE TABLE people AS SELECT range AS u FROM range(10)")
    tables = workspace(people=((connection, "people"), "u", True), more=pd.DataFrame({"u": [1, 2]}))
    connection.execute("INSERT INTO people VALUES (100)")
    connection.execute("CREATE TABLE visits AS SELECT range AS u FROM range(90, 101)")
    tables.add("visits", source_of((connection, "visits")), "u", True)
    connection.execute("DELETE FROM visits")
    query = 'SELECT count(*) AS n FROM "people"'
    connection.close()
    for _ in range(2):
        assert tables.run(query, ["people"])["n"][0] == 10
        assert tables.run(query + ' JOIN "more" USING ("u")', ["people", "more"])["n"][0] == 2
        assert tables.run('SELECT count(*) AS n FROM "visits"', ["visits"])["n"][0] == 11
        assert tables.run(query + ' JOIN "visits" USING ("u")', ["people", "visits"])["n"][0] == 0
        with pytest.raises(EngineError):
            tables.run("SELECT error('Ada') AS n FROM people", ["people"])


VOLATILE = {
    "random": "SELECT range AS u FROM range(1000) WHERE random() < 0.5",
    "sample": "SELECT u FROM base TABLESAMPLE 50% (bernoulli)",
    "sequence": "SELECT nextval('numbers') AS u FROM range(1000)",
    "file": "SELECT u FROM read_parquet('{folder}/rows.parquet')",
    "view": "SELECT u FROM sample",
}


def volatile(folder, connection):
    pd.DataFrame({"u": np.arange(500)}).to_parquet(folder / "rows.parquet")
    connection.execute("CREATE SEQUENCE numbers")
    connection.execute("CREATE TABLE base AS SELECT range AS u FROM range(1000)")
    connection.execute("CREATE TABLE generated (a INTEGER, u DOUBLE AS (random()))")
    connection.execute("INSERT INTO generated SELECT range FROM range(1000)")
    for name, body in VOLATILE.items():
        connection.execute(f'CREATE VIEW "{name}" AS {body.format(folder=folder)}')


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", [*VOLATILE, "generated"])
def test_a_view_is_one_set_of_rows(name, tmp_path):
    """Of views in a connection, and in a file where they read no other one."""
    connections = [duckdb.connect(), duckdb.connect(str(tmp_path / "rows.duckdb"))]
    for connection in connections:
        volatile(tmp_path, connection)
    connections[1].close()
    asked = [(connections[0], name)]
    if name not in ("file", "sequence"):
        asked.append((tmp_path / "rows.duckdb", name))
    for data in asked:
        source = source_of(data)
        tables = Workspace()
        tables.add("rows", source, None, True)
        pd.DataFrame({"u": np.arange(700)}).to_parquet(tmp_path / "rows.parquet")
        query = 'SELECT count(*) AS n, sum("u") AS s, count(a."u") AS m FROM "rows" AS a'
        found = {tuple(column[0] for column in tables.run(query, ["rows"]).values()) for _ in range(3)}
        executor, relation = source.connect()  # as the planner reads it
        found.add(tuple(column[0] for column in executor.columns(query.replace('"rows"', relation)).values()))
        assert len(found) == 1
        assert found.pop()[0] > 100


def test_a_file_that_is_gone_is_an_error_of_its_own_table_only(tmp_path):
    with duckdb.connect(str(tmp_path / "rows.duckdb")) as connection:
        connection.execute("CREATE TABLE people AS SELECT range AS u FROM range(10)")
    tables = workspace(people=((str(tmp_path / "rows.duckdb"), "people"), "u", True))
    (tmp_path / "rows.duckdb").unlink()
    tables.add("odd", source_of(ODD), None, True)
    assert tables.run('SELECT count(*) AS n FROM "odd"', ["odd"])["n"][0] == 3
    with pytest.raises(EngineError, match="can no longer be opened as a DuckDB database"):
        tables.check(["people"])


def test_the_connection_is_sealed(tmp_path):
    FRAME = ODD  # noqa: F841 - a variable that SQL must not see
    (tmp_path / "secret.csv").write_text("a\n1\n")
    ODD[["whole"]].to_parquet(tmp_path / "in.parquet")
    ODD[["whole"]].to_parquet(tmp_path / "out.parquet")
    tables = workspace(odd=ODD[["whole"]], file=tmp_path / "in.parquet")
    for query in (
        f"SELECT * FROM read_csv('{tmp_path / 'secret.csv'}')",
        f"SELECT * FROM read_parquet('{tmp_path / 'out.parquet'}')",
        f"COPY (SELECT 1) TO '{tmp_path / 'x.csv'}'",
        "SET enable_external_access = true",
        "SELECT * FROM FRAME",
    ):
        with pytest.raises(EngineError):
            tables.run(query, ["odd"])
    assert tables.run('SELECT sum("whole") AS n FROM "file"', ["file"])["n"][0] == 6


def test_a_failure_never_quotes_a_value():
    tables = workspace(people=pd.DataFrame({"name": ["Ada Lovelace"]}))
    for query in ('SELECT CAST("name" AS INTEGER) AS n FROM "people"', "SELECT error('Ada') AS n"):
        with pytest.raises(EngineError) as caught:
            tables.run(query, ["people"])
        assert "Ada" not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__
    assert tables.run('SELECT count(*) AS n FROM "people"', ["people"])["n"][0] == 1


def test_a_table_of_the_same_name_takes_the_place_of_the_first():
    tables = workspace(people=pd.DataFrame({"a": [1]}))
    tables.add("people", source_of(pd.DataFrame({"b": [1, 2]})), None, True)
    assert list(tables.kinds("people")) == ["b"]
    assert tables.run('SELECT count(*) AS n FROM "people"', ["people"])["n"][0] == 2
    with pytest.raises(DomainError):
        tables.add("people", source_of(ODD), "period", True)
    assert list(tables.kinds("people")) == ["b"]


def test_a_frame_is_asked_as_it_was_and_stays_as_it_is():
    memory = np.arange(1000)
    frame = pd.DataFrame({"u": pd.Series(memory, copy=False), "t": pd.Series(["x"] * 1000, dtype=object)})
    before = frame.copy()
    tables = workspace(people=(frame, "u", True))
    tables.run('SELECT max("t") AS t FROM "people"', ["people"])
    pd.testing.assert_frame_equal(frame, before)
    memory[1] = 10**6  # past pandas
    frame.loc[0, "u"] = 10**6
    assert tables.run('SELECT max("u") AS u FROM "people"', ["people"])["u"][0] == 999


def test_a_query_stops_when_it_is_interrupted():
    tables = workspace(people=(pd.DataFrame({"u": np.arange(10**5)}), "u", True))
    query = 'SELECT count(*) AS n FROM "people" AS a, "people" AS b WHERE sin(a."u" * b."u") > 0.5'
    # A process that was started in the background ignores interrupts, and so does every test that runs in it.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    before = time.process_time()
    try:
        with pytest.raises(KeyboardInterrupt):
            tables.run(query, ["people"])
    finally:
        signal.signal(signal.SIGINT, handler)
    assert time.process_time() - before < 20  # the query alone takes minutes
    assert tables.run('SELECT count(*) AS n FROM "people"', ["people"])["n"][0] == 10**5


def test_words_of_a_query_are_found_however_they_are_quoted():
    assert named(['SELECT "A b""c", Plain, t."ü" FROM x']) >= {'a b"c', "plain", "ü", "t", "x"}


def test_after_closing_it_can_be_used_again_or_closed_again():
    tables = workspace(people=ODD[["whole"]])
    tables.close()
    tables.close()
    assert tables.run('SELECT count(*) AS n FROM "people"', ["people"])["n"][0] == 3
