"""The same statements asked of tables in PostgreSQL and in Spark, and what is sent there; these need the servers."""

import contextlib
import tempfile
from pathlib import Path

from golden import shown
from golden.rows import PATIENT, VISITS, drugs, patients, visits, wards
from golden.seam import fixed_randomness, listening_to_postgres, listening_to_spark, plain
from golden.statements import LINEAR, NORM, OWN, PAIRS

import dpnotebook as dpn

ASKED = LINEAR | {
    name: OWN[name]
    for name in (
        *("found keys", "several aggregates", "bounds that are written", "rows of a unit", "quantiles", "join"),
        *("left join", "public join", "unit by unit", "union of units", "except", "months", "years", "a sample"),
        *("cases of text", "arithmetic", "conditions", "bounds to be found", "spread"),
    )
}
TYPES = {
    "patient_id": "bigint",
    "ward": "text",
    "age": "integer",
    "minutes": "integer",
    "urgent": "boolean",
    "drug": "text",
    "cost": "double precision",
    "day": "timestamp",
    "note": "text",
    "sex": "text",
    "town": "text",
}
SPARK_TYPES = {"text": "string", "integer": "int", "double precision": "double", "timestamp": "timestamp"}
VERBS = {
    "verb count": lambda t: t.count(where="urgent and age >= 30", epsilon=0.5),
    "verb histogram": lambda t: t.histogram("ward", epsilon=0.5),
    "verb mean": lambda t: t.groupby("ward").mean("minutes", bounds=(0, 200), epsilon=0.5),
}
# Spark takes a second for a statement: these have the same words as others.
SLOW_THERE = (
    *("ratio ordered", "case", "having", "again, less accurate", "found keys", "rows of a unit", "public join"),
    *("left join", "except", "years", "a sample", "conditions", "spread", "unit by unit", "union of units"),
    *("count by one norm", "verb count", "verb histogram"),
)
CHECKED = 'AS "described" LIMIT 0'  # whether a query can run, before it is charged
BUDGET = dpn.Budget(80.0, 1e-5)


def in_postgres(address):
    """Return what is sent to PostgreSQL, and what is answered."""
    import psycopg

    with psycopg.connect(address, autocommit=True) as connection:
        for name, frame in (("golden_visits", visits()), ("golden_patients", patients())):
            columns = ", ".join(f'"{column}" {TYPES[column]}' for column in frame)
            connection.execute(f'DROP TABLE IF EXISTS "{name}"')
            connection.execute(f'CREATE TABLE "{name}" ({columns})')
            with connection.cursor().copy(f'COPY "{name}" FROM STDIN') as copy:
                for row in _rows(frame):
                    copy.write_row(row)
    with listening_to_postgres() as heard:
        return _asked("postgres", (address, "golden_visits"), (address, "golden_patients"), heard)


def in_spark(session):
    """Return what is sent to Spark, and what is answered."""

    def made(frame):
        kinds = [SPARK_TYPES.get(TYPES[column], TYPES[column]) for column in frame]
        schema = ", ".join(f"{column} {kind}" for column, kind in zip(frame, kinds, strict=True))
        return session.createDataFrame(_rows(frame), schema)

    tables = made(visits()), made(patients())
    with listening_to_spark() as heard:
        return _asked("spark", *tables, heard, SLOW_THERE)


def _rows(frame):
    """Return rows of plain values."""
    columns = [[None if value != value else value for value in frame[name].tolist()] for name in frame]
    columns = [[getattr(value, "to_pydatetime", lambda value=value: value)() for value in one] for one in columns]
    return list(zip(*columns, strict=True))


def _asked(dialect, visits_there, patients_there, heard, left_out=()):
    found, known = {}, set()
    with (
        fixed_randomness(dialect),
        tempfile.TemporaryDirectory(prefix="golden") as folder,
        contextlib.closing(dpn.Session(BUDGET, ledger=Path(folder) / "a.ledger")) as session,
    ):
        table = session.protect(visits_there, "visits", unit=PATIENT, max_rows=4, domain=VISITS, rows=600)
        session.protect(patients_there, "patients", unit=PATIENT, max_rows=1, domain={"sex": ["F", "M"]}, rows=135)
        session.register(drugs(), "drugs", public=True)
        session.register(wards(), "wards", public=True)
        queries = {
            name: lambda text=text, given=given: session.sql(text, **given) for name, (text, given) in ASKED.items()
        }
        queries |= {
            name: lambda text=text, given=given: session.sql(text, **given) for name, (text, given) in NORM.items()
        }
        queries |= {name: lambda verb=verb: verb(table) for name, verb in VERBS.items()}
        queries |= {
            name: lambda text=text, given=given: session.sql(text, **given) for name, (text, given) in PAIRS.items()
        }
        queries = {name: query for name, query in queries.items() if name not in left_out}
        for name, query in {"(opened)": None, **queries}.items():
            shows = {} if query is None else _answered(query, folder)
            texts = [plain(text, folder) for text in heard.texts]
            heard.texts.clear()
            asked = [text for text in dict.fromkeys(texts) if text not in known and not text.endswith(CHECKED)]
            known |= {*asked}
            found[name] = shows | {"sql": [shown.sql(text, dialect) for text in asked]}
    return found


def _answered(query, folder):
    try:
        made = query()
        return {"units": made.plan.units, "release": shown.release(made.run())}
    except dpn.DPError as error:
        return shown.error(error, folder)
