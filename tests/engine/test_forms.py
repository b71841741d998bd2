"""A table is the same in any form: in another order, in another database, with a further column; and no other one is.

A table that is taken for another one costs what it costs; one that is taken for this one would be answered with noise
that is not its own. So what differs must be told apart everywhere, and what is the same where our types say so.
"""

import contextlib
import datetime
import itertools
import math
import shutil
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from same_table import forms, in_duckdb, in_parquet, made

import dpnotebook as dpn
from dpnotebook.dialect.canonical import canonical, with_parts
from dpnotebook.domain import Domain
from dpnotebook.engine import table
from dpnotebook.engine.row_digest import FORMLESS, digest_of
from dpnotebook.engine.source import source_of
from dpnotebook.engine.table import TableEngine
from dpnotebook.errors import FrameChanged, LedgerMismatch

KEY = bytes(range(32))
DOMAIN = {"age": dpn.Range(0, 99), "fee": dpn.Bins(0, 100, width=10), "sex": ["F", "M"]}

# Written at commit ecc093a, where the digest of a frame was that of its rows in their order, the digest of a file that
# of its bytes, and the sample was drawn by how values were written: see `make_earlier`.
BEFORE_FORMS = Path(__file__).parents[1] / "data" / "ledger_before_forms.sqlite"


def digest(data, columns, unit=None):
    return digest_of(source_of(data), columns, unit, KEY)


def engine(data, unit="who", max_rows=2, **given):
    source = source_of(data)
    used = [*DOMAIN, unit] if unit else [*DOMAIN]
    return TableEngine(source.select(used) if hasattr(source, "select") else source, Domain(DOMAIN), unit, max_rows,
                       KEY, **given)  # fmt: skip


def sample(data, **given):
    """Return the rows that count, each as a text that is the same for equal values."""
    made = engine(data, **given)
    try:
        columns = made._columns(f"SELECT {', '.join(f'c{i}' for i in range(4))} FROM {made._relation} AS r")
        rows = zip(
            *(np.ma.filled(np.ma.asarray(column, dtype=object), None) for column in columns.values()), strict=True
        )
        return sorted(repr([float(v) if isinstance(v, (int, float, np.number)) else v for v in row]) for row in rows)
    finally:
        made.close()


@pytest.fixture
def opened(tmp_path):
    """Return a function that opens a session on one ledger and protects a table by the same name."""
    sessions = []

    def opened(data, domain=DOMAIN, **given):
        while sessions:
            sessions.pop().close()
        sessions.append(dpn.Session(dpn.Budget(epsilon=8.0), ledger=tmp_path / "t.ledger", confirm="never"))
        return sessions[-1], sessions[-1].protect(data, "t", domain=domain, **given)

    yield opened
    for session in sessions:
        session.close()


def test_what_is_written_of_a_number_is_the_number():
    """Texts of doubles: equal for equal numbers alone, whole ones as whole numbers are, exact in all their bits."""
    rng = np.random.default_rng(2)
    any_bits = rng.integers(0, 2**64, 20_000, dtype=np.uint64).view(np.float64)
    near = rng.normal(0, 1, 5_000) * 10.0 ** rng.integers(-20, 20, 5_000)
    ends = [
        0.0,
        0.5,
        -0.5,
        1.0,
        -1.0,
        2.0**53,
        2.0**53 - 1,
        -(2.0**53),
        1e300,
        5e-324,
        math.inf,
        -math.inf,
        0.1 + 0.2,
        0.3,
    ]
    values = np.unique(np.concatenate([any_bits[~np.isnan(any_bits)], near, np.round(near), ends]))
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t (x DOUBLE)")
    connection.register("frame", pd.DataFrame({"x": values}))
    connection.execute("INSERT INTO t SELECT x FROM frame")
    rows = connection.execute(f"SELECT x, {canonical('x', 'DOUBLE')} FROM t").fetchall()
    texts = [text for _, text in rows]
    assert len(set(texts)) == len(rows) == len(values)
    for value, text in rows:
        if text[0] == "D":
            assert float(text[1:]) == value
            continue
        whole, *rest = text.lstrip("-").split(".")
        found = sum(int(part) * 2.0 ** (-53 * place) for place, part in enumerate([whole, *rest]))
        assert (-found if text[0] == "-" else found) == value
        assert bool(rest) == (not float(value).is_integer())
    assert connection.execute(f"SELECT {canonical('(-0.0)::DOUBLE', 'DOUBLE')}").fetchall() == [("0",)]
    connection.execute("INSERT INTO t VALUES (-0.0), (NULL)")
    connection.execute("CREATE TABLE f AS SELECT CASE WHEN abs(x) < 1e38 THEN x END::FLOAT AS x FROM t")
    for name, kind in (("t", "DOUBLE"), ("f", "FLOAT")):  # digests are made of the parts as columns
        parted, written = canonical("x", kind, parts=True), canonical("x", kind)
        query = f"SELECT count(*), count(*) FILTER (WHERE {parted} IS DISTINCT FROM {written}) FROM"
        assert connection.execute(f"{query} {with_parts(name, ['x'])} AS r").fetchone() == (len(values) + 2, 0)


def test_every_form_of_a_table_has_one_digest(tmp_path):
    frame = made()
    columns = ["age", "fee", "sex", "who", "note", "seen"]
    known = digest(frame, columns, "who")
    assert known.startswith(FORMLESS)
    for name, form in forms(frame, tmp_path):
        assert digest(form, columns, "who") == known, name
    assert digest(frame, columns[::-1], "who") != known
    assert digest_of(source_of(frame), columns, "who", bytes(32)) != known


def test_every_form_has_the_same_sample_and_no_unit_has_two(tmp_path):
    frame = made()
    known, kept = sample(frame), engine(frame).fingerprint
    counts = frame.groupby("who").size().clip(upper=2).sum()
    assert len(known) == counts - sample_less(frame)
    for name, form in forms(frame, tmp_path):
        assert sample(form) == known, name
        assert engine(form).fingerprint == kept, name
    assert sample(frame, max_rows=3) != known
    assert engine(frame, max_rows=3).fingerprint != kept


def sample_less(frame):
    """Return how many rows fewer count than the bound lets in, because a value of theirs has no level."""
    inside = frame[frame["fee"].notna()]
    return frame.groupby("who").size().clip(upper=2).sum() - inside.groupby("who").size().clip(upper=2).sum()


def test_twins_do_not_change_what_is_drawn():
    """Rows that are equal in all that is declared can stand for one another: what else they hold does not count."""
    frame = pd.concat([made().assign(note=text) for text in "abc"])
    other = frame.sample(frac=1, random_state=8)
    assert sample(frame) == sample(other)
    assert engine(frame).fingerprint == engine(other).fingerprint


def test_another_sample_is_another_table(monkeypatch):
    """Were the draw ever another one, in another version or by a database's mistake, the spend of both would add up."""
    frame = made()
    known = engine(frame).fingerprint
    whole = engine(frame, max_rows=1000).fingerprint
    monkeypatch.setattr(table, "in_row", lambda text: f"'other' || coalesce({text}, '')")
    assert engine(frame).fingerprint != known
    assert engine(frame, max_rows=1000).fingerprint == whole


# Columns that are all different things, whatever holds them; None is a missing value.
APART = [
    [None, None], ["NULL", None], ["null", None], ["", None], ["nan", None], ["None", None], ["NaN", None],
    ["1", None], [" 1", None], ["1.0", None], ["True", None], ["true", None], ["é", None], ["e\u0301", None],
    ["E", None], ["a\0", None], ["a", None], ["a ", None], ["null4:null", None], ["t1:1", None],
    [1, None], [0, None], [2**53 - 1, None], [2**53, None], [2**53 + 1, None], [2**63 - 1, None], [-1, None],
    [0.5, None], [-0.5, None], [0.1, None], [np.nextafter(0.1, 1), None], [5e-324, None], [1e-300, None],
    [math.inf, None], [-math.inf, None], [2.0**53, None], [1e300, None], [np.nextafter(1e300, 0), None],
    [True, None], [False, None], [datetime.datetime(1970, 1, 1, 0, 0, 0, 1), None],
    [datetime.datetime(1970, 1, 1), None], [datetime.date(1970, 1, 1), None], ["1970-01-01", None],
    ["1970-01-01 00:00:00", None],
]  # fmt: skip


def column(values):
    """Return values as a column of the type that is theirs."""
    kind = {str: "str", int: "Int64", float: "float64", bool: "boolean", type(None): object}.get(type(values[0]))
    if isinstance(values[0], datetime.datetime):
        return pd.Series(values, dtype="datetime64[us]")
    if isinstance(values[0], datetime.date):
        return pd.Series(values, dtype=pd.ArrowDtype(pa.date32()))
    return pd.Series(values, dtype=kind)


def test_what_differs_is_told_apart_in_every_form(tmp_path):
    """By the digests of all forms: one form of one table and another form of another one are never taken for one."""
    seen = {}
    for i, values in enumerate(APART):
        frame = pd.DataFrame({"v": column(values)})
        found = {digest(frame, ["v"]), digest(frame[::-1], ["v"]), digest(in_duckdb(frame), ["v"])}
        found.add(digest(in_parquet(frame, tmp_path / f"{i}.parquet"), ["v"]))
        assert len(found) == 1, values
        assert seen.setdefault(found.pop(), i) == i, values
    assert len(seen) == len(APART)


def test_a_missing_value_does_not_change_the_others():
    """pandas makes whole numbers beside a missing one floating-point; no number in DuckDB is NaN, but missing."""
    frame = pd.DataFrame({"v": [3.0, np.nan, 5.0]})
    for other in ([3, None, 5], [5, None, 3]):
        assert digest(pd.DataFrame({"v": pd.Series(other, dtype="Int64")}), ["v"]) == digest(frame, ["v"])
    zeros = [digest(pd.DataFrame({"v": [3.0, value, 5.0]}), ["v"]) for value in (0.0, -0.0, np.nan)]
    assert zeros[0] == zeros[1] != zeros[2]
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT unnest([3, 5, 'nan'::DOUBLE]) AS v")
    assert digest((connection, "t"), ["v"]) == digest(frame, ["v"])


ROWS = st.lists(
    st.tuples(st.sampled_from([0, 1, 2]), st.sampled_from(["F", "M", ""]), st.sampled_from([0.5, 1.0, None])),
    max_size=5,
)


def rows_of(rows):
    frame = pd.DataFrame(rows, columns=["who", "sex", "fee"])
    return frame.astype({"who": "int64", "sex": "str", "fee": "float64"})


@settings(max_examples=20, deadline=None)
@given(ROWS, ROWS, st.randoms(use_true_random=False))
def test_digests_are_equal_where_the_rows_are(one, other, random):
    """Values changed, values paired otherwise, a row more, two units that swap: all are other sets of rows."""
    names = ["sex", "fee", "who"]
    mixed = random.sample(one, len(one))
    assert digest(rows_of(one), names, "who") == digest(in_duckdb(rows_of(mixed)), names, "who")
    alike = sorted(map(repr, one)) == sorted(map(repr, other))
    assert (digest(rows_of(one), names, "who") == digest(in_duckdb(rows_of(other)), names, "who")) == alike


def test_the_secret_is_in_every_digest_and_none_of_it_in_logs():
    """A digest tells nothing: without the key nobody can make one of rows that are guessed."""
    frame = made(20)
    assert len({digest_of(source_of(frame), ["age"], None, key) for key in (KEY, bytes(32), b"x" * 32)}) == 3


def test_history_outlives_the_form(tmp_path, opened):
    frame = made()
    session, table = opened(frame, unit="who", max_rows=2)
    first = table.histogram("age", epsilon=1.0).run()
    spent = session.spent.epsilon
    for name, form in forms(frame, tmp_path):
        session, table = opened(form, unit="who", max_rows=2)
        assert session.spent.epsilon == spent, name
        again = table.histogram("age", epsilon=1.0)
        assert again.plan.cost.epsilon == 0, name
        pd.testing.assert_frame_equal(again.run().frame, first.frame)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("change", ["value", "paired", "doubled", "missing", "units", "text", "less"])
def test_another_table_has_no_history(change, opened):
    frame = made()
    other = frame.copy()
    first, second = 20, 21
    assert (frame.loc[first] != frame.loc[second]).all()
    match change:
        case "value":
            other.loc[first, "age"] = (other.loc[first, "age"] + 1) % 100
        case "paired":
            other.loc[[first, second], "age"] = other.loc[[second, first], "age"].to_numpy()
        case "doubled":
            other = pd.concat([other, other.loc[[first]]])
        case "missing":
            other.loc[first, "fee"] = np.nan
        case "units":
            other["who"] = other["who"].replace({1: 2, 2: 1})
        case "text":
            other["sex"] = other["sex"].where(other.index != first, "")
        case "less":
            other = other.drop(first)
    _, table = opened(frame, unit="who", max_rows=2)
    table.count(epsilon=0.5).run()
    with pytest.raises(LedgerMismatch, match="its data differ"):
        opened(other, unit="who", max_rows=2)
    with pytest.raises(LedgerMismatch, match="its data differ"):
        opened(in_duckdb(other), unit="who", max_rows=2)


STATEMENT = "SELECT COUNT(note) AS n FROM t WHERE age >= 0 AND lower(note) <> 'x'"


def test_a_statement_is_answered_again_in_any_form(tmp_path, opened):
    frame = made()
    session, _ = opened(frame, unit="who", max_rows=2)
    first = session.sql(STATEMENT, epsilon=1.0).run()
    assert first.paid > 0
    for name, form in forms(frame, tmp_path):
        session, _ = opened(form, unit="who", max_rows=2)
        again = session.sql(STATEMENT, epsilon=1.0).run()
        assert (again.number, again.paid) == (first.number, 0), name
        pd.testing.assert_frame_equal(again.frame, first.frame)


def test_only_columns_that_a_statement_reads_must_be_as_they_were(opened):
    frame = made()
    session, _ = opened(frame)
    session.sql(STATEMENT, epsilon=1.0).run()
    session, _ = opened(frame.assign(seen=frame["seen"][::-1].to_numpy()))
    assert session.sql(STATEMENT, epsilon=1.0).run().paid == 0
    turned = frame.assign(note=frame["note"][::-1].to_numpy())
    changed = frame.assign(note=frame["note"].where(frame.index != 20, "other"))
    for other in (turned, changed, in_duckdb(turned)):
        session, _ = opened(other)
        with pytest.raises(FrameChanged, match="a column that is not declared of t was another"):
            session.sql(STATEMENT, epsilon=1.0).run()
    assert session.spent.epsilon == 1.0


def test_two_columns_of_a_statement_cannot_trade_rows(opened):
    """Either column goes with the declared ones as it did; only the two of them are paired otherwise."""
    frame = pd.DataFrame({"age": [7] * 4, "a": ["x", "x", "y", "y"], "b": ["x", "x", "y", "y"]})
    other = frame.assign(b=["x", "y", "x", "y"])
    text = "SELECT COUNT(*) AS n FROM t WHERE lower(a) = lower(b)"
    session, _ = opened(frame, {"age": dpn.Range(0, 9)})
    session.sql(text, epsilon=1.0).run()
    session, _ = opened(other, {"age": dpn.Range(0, 9)})
    with pytest.raises(FrameChanged, match="not declared"):
        session.sql(text, epsilon=1.0).run()


def test_where_nothing_is_declared_every_column_counts(opened):
    frame = made()[["age", "note"]]
    session, _ = opened(frame, None)
    text = "SELECT ANON_SUM(age, 0, 100) AS n FROM t"
    session.sql(text, epsilon=1.0).run()
    session, _ = opened(in_duckdb(frame[::-1]), None)
    assert session.sql(text, epsilon=1.0).run().paid == 0
    for other in (frame.assign(note=frame["note"][::-1].to_numpy()), frame.assign(more=1)):
        with pytest.raises(LedgerMismatch, match="its data differ"):
            opened(other, None)


def test_what_is_no_single_value_is_known_in_its_form_alone(opened):
    """Of lists there is no canonical text: they are told apart more than they must be."""
    kind = pd.ArrowDtype(pa.list_(pa.int64()))
    frame = made(20)[["age"]].assign(many=pd.Series([[i] for i in range(20)], dtype=kind))
    text = "SELECT COUNT(many) AS n FROM t WHERE age >= 0 AND 'a' = lower('A')"
    domain = {"age": dpn.Range(0, 99)}
    session, _ = opened(frame, domain)
    session.sql(text, epsilon=1.0).run()
    session, _ = opened(frame.copy(), domain)
    assert session.sql(text, epsilon=1.0).run().paid == 0
    session, _ = opened(frame[::-1], domain)
    with pytest.raises(FrameChanged, match="not declared"):
        session.sql(text, epsilon=1.0).run()


def make_earlier(path):
    """Write the ledger of the version before; run at commit ecc093a."""
    session = dpn.Session(dpn.Budget(epsilon=8.0), ledger=path)
    frame = made()
    session.protect(frame, "frame", domain=DOMAIN, unit="who", max_rows=2).histogram("age", epsilon=1.0).run()
    session.protect(in_duckdb(frame), "table", domain=DOMAIN, unit="who", max_rows=2).count(epsilon=0.5).run()
    session.sql(STATEMENT.replace("FROM t", "FROM frame"), epsilon=1.0).run()
    session.close()


@pytest.fixture
def earlier(tmp_path):
    path = tmp_path / "earlier.ledger"
    shutil.copy(BEFORE_FORMS, path)
    path.chmod(0o600)
    with contextlib.closing(dpn.Session(dpn.Budget(epsilon=8.0), ledger=path)) as session:
        yield session


def test_a_table_of_an_earlier_ledger_is_known_as_it_was(earlier):
    frame = made()
    table = earlier.protect(frame, "frame", domain=DOMAIN, unit="who", max_rows=2)
    assert table.histogram("age", epsilon=1.0).run().paid == 0
    assert earlier.sql(STATEMENT.replace("FROM t", "FROM frame"), epsilon=1.0).run().paid == 0
    assert not table.fingerprint.startswith(FORMLESS)
    other = earlier.protect(in_duckdb(frame), "table", domain=DOMAIN, unit="who", max_rows=2)
    assert other.count(epsilon=0.5).run().paid == 0
    assert earlier.spent.epsilon == 2.5
    assert earlier.protect(frame, "new", domain=DOMAIN).fingerprint.startswith(FORMLESS)


def test_a_table_of_an_earlier_ledger_keeps_its_sample(earlier):
    """It was drawn by how values are written; whoever counted then counts now, and nobody else."""
    frame, key = made(), earlier.ledger.key
    table = earlier.protect(frame, "frame", domain=DOMAIN, unit="who", max_rows=2)
    drawn = table.engine._columns(f"SELECT c0 FROM {table.engine._relation} AS r")["c0"]
    source = source_of(frame).select([*DOMAIN, "who"])
    old = TableEngine(source, Domain(DOMAIN), "who", 2, key, as_written=True)
    new = TableEngine(source, Domain(DOMAIN), "who", 2, key)
    for made_by, same in ((old, True), (new, False)):
        found = made_by._columns(f"SELECT c0 FROM {made_by._relation} AS r")["c0"]
        assert (sorted(found) == sorted(drawn)) is same


def test_an_earlier_table_in_another_form_is_another(earlier):
    frame = made()
    for name, other in itertools.product(("frame",), (frame[::-1], in_duckdb(frame))):
        with pytest.raises(LedgerMismatch, match="its data differ"):
            earlier.protect(other, name, domain=DOMAIN, unit="who", max_rows=2)


@pytest.mark.parametrize("place", ["in_postgres", "in_spark"])
def test_databases_elsewhere_know_the_same_table(place, request, opened):
    """The same rows in PostgreSQL and in Spark: one digest, one sample, one history, for statements too."""
    frame = made(60, 12)
    columns = ["age", "fee", "sex", "who", "note", "seen"]
    frame.loc[:3, "fee"] = [1.5, -0.1, 1e-9, 2.0**52 + 1]  # each has its own words for what is farther from 1
    form = request.getfixturevalue(place)(frame)
    assert digest(form, columns, "who") == digest(frame, columns, "who")
    assert sample(form) == sample(frame)
    session, table = opened(frame, unit="who", max_rows=2)
    first = table.histogram("age", epsilon=1.0).run()
    asked = session.sql(STATEMENT, epsilon=1.0).run()
    session, table = opened(form, unit="who", max_rows=2)
    again = table.histogram("age", epsilon=1.0).run()
    assert again.paid == 0
    pd.testing.assert_frame_equal(again.frame, first.frame)
    found = session.sql(STATEMENT, epsilon=1.0).run()
    assert (found.number, found.paid) == (asked.number, 0)
    other = request.getfixturevalue(place)(frame.assign(age=frame["age"].where(frame.index != 7, 99)))
    with pytest.raises(LedgerMismatch, match="its data differ"):
        opened(other, unit="who", max_rows=2)


@pytest.fixture
def in_postgres(postgres):
    """Return a function that puts rows into PostgreSQL."""
    import psycopg

    numbers = itertools.count()

    def put(frame):
        name = f"forms{next(numbers)}"
        kinds = {"i": "bigint", "f": "double precision", "M": "timestamp"}
        columns = ", ".join(f'"{n}" {kinds.get(frame[n].dtype.kind, "text")}' for n in frame)
        with psycopg.connect(postgres, autocommit=True) as connection:
            connection.execute(f"DROP TABLE IF EXISTS {name}")
            connection.execute(f"CREATE TABLE {name} ({columns})")
            with connection.cursor().copy(f"COPY {name} FROM STDIN") as copy:
                for row in rows_in_any_order(frame):
                    copy.write_row(row)
        return postgres, name

    return put


@pytest.fixture
def in_spark(spark):
    """Return a function that puts rows into Spark."""

    def zoned(value):
        return value.to_pydatetime().replace(tzinfo=datetime.UTC) if isinstance(value, pd.Timestamp) else value

    def put(frame):
        kinds = {"i": "bigint", "f": "double", "M": "timestamp"}
        schema = ", ".join(f"{n} {kinds.get(frame[n].dtype.kind, 'string')}" for n in frame)
        return spark.createDataFrame([tuple(map(zoned, row)) for row in rows_in_any_order(frame)], schema)

    return put


def rows_in_any_order(frame):
    rows = frame.sample(frac=1, random_state=3).astype(object).itertuples(index=False)
    return [[None if value is None or value != value else value for value in row] for row in rows]
