"""Times that are written in texts are read by a format, as DuckDB reads them; what is not written so is no time."""

from contextlib import closing

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.errors import SQLError
from dpnotebook.testing import exact_session

TEXTS = [
    *("05.01.2024", "5.1.2024", "31.12.2023", "31.02.2024", "29.02.2024", "29.02.2023", "", "x", "05.01.24", None),
    *("05.01.2024 10:00", "05-01-2024", "05.01.2024.", "00.01.2024", "1.13.2024", "2024-01-05", "2024-1-5", "20240105"),
    *("05.01.2024.7", "+5.01.2024", "-5.01.2024", "005.1.2024", "05.01.02024", "a.b.cdef", "05..2024", " 05.01.2024 "),
    *("2024-01-05 10:30", "2024-01-05 10:30:59", "2024-01-05T10:30:59", "2024-01-05 24:30", "2024-01-05 10:61"),
    *("01/05/2024", "13/05/2024", "2024-01-05 10:30:59 ", "2024-01-05 1:30", "٠٥.٠١.٢٠٢٤", "20241305", "2024015"),
]
FORMATS = ["%d.%m.%Y", "%Y-%m-%d", "%m/%d/%Y", "%Y%m%d", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S"]
# DuckDB takes these as well: hours of one digit, days of one where nothing stands between, years of the first century.
ELSE = {("2024-01-05 1:30", "%Y-%m-%d %H:%M"), ("2024015", "%Y%m%d"), ("05.01.24", "%d.%m.%Y")}


def bills(texts=TEXTS):
    return pd.DataFrame({"person": np.arange(len(texts)), "place": np.arange(len(texts)), "filled": texts})


@pytest.mark.parametrize("written", FORMATS)
@pytest.mark.parametrize("name", ["TRY_STRPTIME", "strptime"])
def test_they_are_read_as_duckdb_reads_them(name, written, monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    frame = bills([text for text in TEXTS if (text, written) not in ELSE])
    text = "SELECT place, COUNT({0}) AS n, MAX(EXTRACT(EPOCH FROM {0})) AS at FROM bills GROUP BY place ORDER BY place"
    connection = duckdb.connect()
    connection.register("bills", frame)
    exact = connection.execute(text.format(f"TRY_STRPTIME(filled, '{written}')")).df()
    domain = {"place": range(len(frame))}
    with closing(exact_session(dpn.Budget(9.0))) as session:
        session.protect(frame, "bills", unit="person", max_rows=1, domain=domain)
        read = f"{name}(filled, '{written}')"
        asked = f"SELECT place, COUNT({read}) AS n FROM bills GROUP BY place ORDER BY place"
        found = session.sql(asked, epsilon=1.0).run().frame
        assert found.n.tolist() == exact.n.tolist()
        days = f"SELECT COUNT(*) AS n FROM bills WHERE {read} BETWEEN '2024-01-05' AND '2024-01-05 23:59:59'"
        of_day = connection.execute(days.replace(name, "TRY_STRPTIME")).fetchone()[0]
        assert session.sql(days, epsilon=1.0).run().frame.n[0] == of_day


def test_formats_are_tried_one_after_the_other(monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    frame = bills([text for text in TEXTS if text != "05.01.24"])
    connection = duckdb.connect()
    connection.register("bills", frame)
    either = "TRY_STRPTIME(filled, ['%Y-%m-%d', '%d.%m.%Y'])"
    by_hand = "COALESCE(TRY_STRPTIME(filled, '%Y-%m-%d'), TRY_STRPTIME(filled, '%d.%m.%Y'))"
    with closing(exact_session(dpn.Budget(9.0))) as session:
        session.protect(frame, "bills", unit="person", max_rows=1, domain={"place": range(len(frame))})
        for read in (either, by_hand):
            text = f"SELECT COUNT({read}) AS n, COUNT(*) FILTER (WHERE YEAR({read}) = 2024) AS m FROM bills"
            exact = connection.execute(text).df()
            found = session.sql(text, epsilon=1.0).run().frame
            assert found[["n", "m"]].to_numpy().tolist() == exact.to_numpy().tolist()


@pytest.mark.parametrize("written", ["'%d/%b/%Y'", "'%d.%m-%Y'", "'%Y-%m'", "'%d.%m.%y'", "filled", "'%Y-%d-%d'", "''"])
def test_other_formats_are_refused_with_what_to_write(written):
    with closing(dpn.Session(dpn.Budget(1.0), ":memory:")) as session:
        session.protect(bills(), "bills", unit="person", max_rows=1)
        with pytest.raises(SQLError, match=r"a format to read times by is a text .* as '%d.%m.%Y' or '%Y%m%d'"):
            session.sql(f"SELECT COUNT(TRY_STRPTIME(filled, {written})) AS n FROM bills", epsilon=0.5)


def test_in_bigquerys_words(monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    with closing(exact_session(dpn.Budget(9.0))) as session:
        session.protect(bills(), "bills", unit="person", max_rows=1)
        for read in ("PARSE_DATE('%d.%m.%Y', filled)", "STRPTIME(filled, '%d.%m.%Y')"):
            text = f"SELECT COUNT(*) AS n FROM bills WHERE {read} IS NOT NULL"
            assert session.sql(text, epsilon=1.0).run().frame.n[0] == 5


def test_postgresql_reads_them_alike(postgres, monkeypatch):
    import psycopg

    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    frame = bills()
    with psycopg.connect(postgres, autocommit=True) as server:
        server.execute("DROP TABLE IF EXISTS read_bills")
        server.execute("CREATE TABLE read_bills (person BIGINT, place BIGINT, filled TEXT)")
        with server.cursor().copy("COPY read_bills FROM STDIN") as copy:
            for row in frame.astype(object).where(frame.notna(), None).itertuples(index=False):
                copy.write_row(row)
    read = [f"COUNT(TRY_STRPTIME(filled, '{written}')) AS n{i}" for i, written in enumerate(FORMATS)]
    text = f"SELECT place, {', '.join(read)} FROM bills GROUP BY place ORDER BY place"
    found = []
    for source in (frame, (postgres, "read_bills")):
        with closing(exact_session(dpn.Budget(9.0))) as session:
            session.protect(source, "bills", unit="person", max_rows=1, domain={"place": range(len(frame))})
            found.append(session.sql(text, epsilon=2.0).run().frame)
    columns = [f"n{i}" for i in range(len(FORMATS))]
    assert found[0][columns].to_numpy().sum() > 12
    assert found[0][columns].to_numpy().tolist() == found[1][columns].to_numpy().tolist()
