"""Digests by typed values: equal for a table in any form, told apart from any other, and beside those of texts."""

import contextlib
import datetime

import duckdb
import numpy as np
import pandas as pd
import pytest
from same_table import forms, in_duckdb, made

import dpnotebook as dpn
from dpnotebook.engine.executor import DuckDBExecutor
from dpnotebook.engine.row_digest import FORMLESS, TYPED, digest_of, typed_digest_of
from dpnotebook.engine.source import source_of
from dpnotebook.engine.typed_digest import typed_sums
from dpnotebook.errors import FrameChanged

KEY = bytes(range(32))
COLUMNS = ["age", "fee", "sex", "who", "note", "seen"]


def typed(data, columns, unit=None, like=""):
    return typed_digest_of(source_of(data), columns, unit, KEY, like)


def of_column(values, kind=None):
    """Return the digest of a table of one column."""
    frame = pd.DataFrame({"c": pd.Series(values, dtype=kind)})
    return typed(frame, ["c"])


def test_every_form_of_a_table_has_one_typed_digest(tmp_path):
    frame = made()
    known = typed(frame, COLUMNS, "who")
    assert known.startswith(TYPED)
    for name, form in forms(frame, tmp_path):
        assert typed(form, COLUMNS, "who") == known, name
    assert typed(frame, COLUMNS[::-1], "who") != known
    assert typed_digest_of(source_of(frame), COLUMNS, "who", bytes(32)) != known


def test_it_does_not_depend_on_what_is_read_at_a_time(monkeypatch):
    """Also where only some of the chunks have missing values."""
    frame = made(20_000).sort_values("fee")
    known = typed(frame, COLUMNS, "who")
    monkeypatch.setattr("dpnotebook.engine.typed_digest.VECTORS", 1)
    assert typed(frame, COLUMNS, "who") == known
    assert typed(frame.sample(frac=1, random_state=2), COLUMNS, "who") == known


def test_whatever_is_changed_is_seen():
    """One value, one row more, two values that trade places, one that is missing, a value of another kind."""
    frame = made()
    known, found = typed(frame, COLUMNS, "who"), []
    for name in COLUMNS:
        other = frame.copy()
        other.loc[5, name] = frame[name][frame[name] != frame.loc[5, name]].iloc[0]
        swapped = frame.copy()
        at = frame.index[frame[name] != frame.loc[7, name]][0]
        swapped.loc[[7, at], name] = frame.loc[[at, 7], name].to_numpy()
        missing = frame.copy()
        missing[name] = frame[name].where(frame.index != 9)
        found += [typed(one, COLUMNS, "who") for one in (other, swapped, missing)]
    found += [typed(pd.concat([frame, frame.iloc[:1]]), COLUMNS, "who"), typed(frame.iloc[1:], COLUMNS, "who")]
    assert known not in found
    assert len(set(found)) == len(found)


def test_values_of_other_kinds_are_others():
    one = [of_column([1, 0]), of_column([True, False]), of_column(["1", "0"]), of_column([1.0, None])]
    one += [of_column([1.5, 0.0]), of_column(["1", None]), of_column([datetime.datetime(2020, 1, 1), None])]
    assert len(set(one)) == len(one)
    assert of_column([1, 0]) == of_column([1.0, 0.0]) == of_column([1, -0.0]) == of_column([1, 0], "Int8")
    assert of_column([0.5], "float32") == of_column([0.5], "float64")
    assert of_column([0.1], "float32") != of_column([0.1], "float64")
    assert of_column([2**53 + 1]) != of_column([2.0**53]) != of_column([2**53])
    assert len({of_column([value]) for value in (float("inf"), -float("inf"), float("nan"), 0.0, 5e-324)}) == 5


class Elsewhere:
    """A database of another kind: it gives columns, and no chunks of them."""

    dialect = "postgres"

    def __init__(self, executor):
        self.columns = executor.columns


def test_a_database_elsewhere_gives_the_same():
    """The texts that are hashed here, and those that DuckDB hashes, few and many of them."""
    random, size = np.random.default_rng(4), 5_000
    connection = duckdb.connect()
    frame = pd.DataFrame({
        "c0": random.integers(0, 9, size), "c1": random.normal(size=size).round(1) * 5,
        "c2": [f"é{i}" if i % 9 else None for i in range(size)], "c3": random.choice(["a", "", "ß"], size),
        "c4": pd.Timestamp("2020-01-01") + pd.to_timedelta(random.integers(0, 10**9, size), unit="s"),
        "c5": random.random(size) < 0.5,
    })  # fmt: skip
    connection.register("f", frame)
    connection.execute("CREATE TABLE t AS SELECT * FROM f")
    kinds = ["BIGINT", "DOUBLE", "VARCHAR", "VARCHAR", "TIMESTAMP", "BOOLEAN"]
    columns, here = [(f"c{i}", kind) for i, kind in enumerate(kinds)], DuckDBExecutor(connection)
    assert typed_sums(Elsewhere(here), "t", columns, KEY) == typed_sums(here, "t", columns, KEY)


def test_what_is_compared_with_a_digest_of_texts_is_one():
    frame = made()
    texts = digest_of(source_of(frame), COLUMNS, "who", KEY)
    assert texts.startswith(FORMLESS)
    assert not texts.startswith(TYPED)
    assert typed(frame, COLUMNS, "who", like=texts) == texts
    assert typed(frame, COLUMNS, "who", like=TYPED) == typed(frame, COLUMNS, "who")


TEXT = "SELECT sex, AVG(fee) AS m FROM t GROUP BY sex"


@pytest.mark.one_in(2)
@pytest.mark.parametrize("before", ["texts", "values"])
def test_a_ledger_of_either_digest_goes_on(tmp_path, monkeypatch, before):
    """Its profile is used while the rows are the same, in another form too, and refused when they are not."""
    frame = made(4_000, 1_000)

    def session():
        return contextlib.closing(dpn.Session(dpn.Budget(40.0, 1e-5), tmp_path / "t.ledger", confirm="never"))

    with monkeypatch.context() as patch:
        if before == "texts":
            patch.setattr("dpnotebook.session.protected_rows.typed_digest_of", lambda *told: digest_of(*told[:4]))
        with session() as one:
            one.protect(frame, "t", unit="who", max_rows=8)
            one.sql(TEXT, epsilon=10).run()
            told = one.ledger.get(1).details["columns"]["t"]["digest"]
    assert told.startswith(TYPED if before == "values" else FORMLESS)
    assert told.startswith(TYPED) == (before == "values")
    with session() as one:
        one.protect(in_duckdb(frame, order="ORDER BY fee"), "t", unit="who", max_rows=8)
        one.sql(TEXT, epsilon=12, fresh=True).run()
    changed = frame.assign(fee=frame["fee"].where(frame.index != 100, 1.0))
    with session() as one:
        one.protect(changed, "t", unit="who", max_rows=8)
        spent = one.spent
        with pytest.raises(FrameChanged, match="not declared"):
            one.sql(TEXT, epsilon=14, fresh=True).run()
        assert one.spent == spent


def test_it_is_worked_out_once_in_a_session(monkeypatch):
    """Also where a later statement holds it against the one that the first recorded."""
    frame, asked = made(), []

    def counted(*told):
        asked.append(told[1])
        return typed_digest_of(*told)

    monkeypatch.setattr("dpnotebook.session.protected_rows.typed_digest_of", counted)
    with contextlib.closing(dpn.Session(dpn.Budget(40.0, 1e-5), ":memory:", confirm="never")) as session:
        session.protect(frame, "t", unit="who", max_rows=8)
        for epsilon in (10, 12):
            session.sql(TEXT, epsilon=epsilon, fresh=True).run()
    assert asked == [["who", "fee", "sex"]]
