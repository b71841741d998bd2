"""Tables of pyarrow and frames of polars are asked like the pandas frame of the same rows."""

import contextlib
import importlib.util
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.errors import DomainError
from dpnotebook.testing import exact_session

pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")

_spec = importlib.util.spec_from_file_location("everywhere", Path(__file__).parent / "everywhere.py")
everywhere = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(everywhere)

ROWS = everywhere.frame(everywhere.made())[["who", "ward", "stay", "fee", "urgent"]]
DOMAIN = {
    "ward": dpn.Categories(["north", "east", "so'uth"], other="elsewhere", nullable=True),
    "stay": dpn.Range(0, 40, nullable=True),
    "fee": dpn.Bins(0, 500, width=50, nullable=True),
}
STATEMENT = (
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_groups_contributed = 60) urgent, "
    "COUNT(*, contribution_bounds_per_group => (0, 100)) AS n, "
    "SUM(fee, contribution_bounds_per_group => (0, 50000)) AS s FROM visits GROUP BY urgent"
)


def in_pieces(table):
    """Return a table of Arrow whose columns are in several chunks, one of them empty."""
    middle = table.num_rows // 3
    return pa.concat_tables([table.slice(0, middle), table.slice(0, 0), table.slice(middle)])


FORMS = {
    "pyarrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "pyarrow in pieces": lambda frame: in_pieces(pa.Table.from_pandas(frame, preserve_index=False)),
    "pyarrow with a dictionary": lambda frame: pa.Table.from_pandas(
        frame.assign(ward=frame["ward"].astype("category")), preserve_index=False
    ),
    "a batch": lambda frame: pa.RecordBatch.from_pandas(frame, preserve_index=False),
    "polars": pl.from_pandas,
    "polars with categories": lambda frame: pl.from_pandas(frame).with_columns(pl.col("ward").cast(pl.Categorical)),
}


@contextlib.contextmanager
def opened(data, monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    with contextlib.closing(exact_session(dpn.Budget(900, 1e-6))) as session:
        session.protect(data, "visits", unit="who", max_rows=100, domain=DOMAIN)
        yield session


def answers(session):
    table = session.table("visits")
    yield table.count(where="stay >= 10", epsilon=1.0).run().frame
    yield table.crosstab("ward", "stay", epsilon=1.0).run().frame
    yield table.groupby("ward").mean("fee", epsilon=1.0).run().frame
    yield session.sql(STATEMENT, epsilon=1.0).run().frame.sort_values("urgent", ignore_index=True)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("form", FORMS)
def test_answers_are_those_of_the_pandas_frame(form, monkeypatch):
    with opened(ROWS, monkeypatch) as session:
        expected = list(answers(session))
    with opened(FORMS[form](ROWS), monkeypatch) as session:
        for found, known in zip(answers(session), expected, strict=True):
            pd.testing.assert_frame_equal(found, known)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("form", FORMS)
def test_another_kernel_knows_the_rows_again(form, tmp_path):
    for _ in range(2):
        with contextlib.closing(dpn.Session(dpn.Budget(3.0), ledger=tmp_path / "visits.ledger")) as session:
            session.protect(FORMS[form](ROWS), "visits", unit="who", max_rows=100, domain=DOMAIN)
            assert session.table("visits").count(epsilon=0.5).run().number == 1
    changed = ROWS.copy()
    changed.loc[1, "stay"] = changed.loc[1, "stay"] + 1
    session = dpn.Session(dpn.Budget(3.0), ledger=tmp_path / "visits.ledger")
    with contextlib.closing(session), pytest.raises(dpn.LedgerMismatch):
        session.protect(FORMS[form](changed), "visits", unit="who", max_rows=100, domain=DOMAIN)


@pytest.mark.parametrize("form", FORMS)
def test_a_protected_table_is_not_registered_as_public(form, monkeypatch):
    data = FORMS[form](ROWS)
    with opened(data, monkeypatch) as session, pytest.raises(DomainError, match="which is protected"):
        session.register(data, "everyone", public=True)


def test_a_public_table_may_be_of_polars(monkeypatch):
    wards = pl.DataFrame({"ward": ["north", "east"], "beds": [10, 20]})
    with opened(ROWS, monkeypatch) as session:
        session.register(wards, "wards", public=True)
        query = "SELECT beds, COUNT(*) AS n FROM visits JOIN wards ON visits.ward = wards.ward GROUP BY beds"
        found = session.sql(query, epsilon=1.0).run().frame.set_index("beds")["n"]
    counts = ROWS["ward"][ROWS["who"].notna()].value_counts()
    assert found.to_dict() == {10: counts["north"], 20: counts["east"]}


def test_rows_are_those_of_when_it_was_protected(monkeypatch):
    """What becomes of the memory that a table shares changes nothing."""
    values = np.arange(100) % 10
    table = pa.table({"age": pa.array(values)})
    shared = np.frombuffer(table["age"].chunk(0).buffers()[1], dtype=np.int64)
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    with contextlib.closing(exact_session(dpn.Budget(900))) as session:
        people = session.protect(table, "people", domain={"age": dpn.Range(0, 9)})
        if shared.flags.writeable:
            shared[:] = 0
        else:
            values[:] = 0
        assert people.histogram("age", epsilon=1.0).run().frame["value"].tolist() == [10.0] * 10


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (lambda: pl.from_pandas(ROWS).lazy(), "give .collect"),
        (lambda: pl.Series([1, 2]), "cannot be read as a table"),
        (lambda: pa.table({"ward": ["a"]}).to_reader(), "read_all"),
        (lambda: pa.table([[1], [2]], names=["ward", "ward"]), "two columns of the same name"),
        (lambda: pa.array([1, 2]), "cannot protect|cannot be read"),
    ],
    ids=["lazy", "series", "reader", "twins", "array"],
)
def test_what_is_no_table_is_refused(data, words):
    session = dpn.Session(dpn.Budget(1.0))
    with contextlib.closing(session), pytest.raises(DomainError, match=words):
        session.protect(data(), "visits", domain={"ward": ["a"]})
