"""The same made-up table as a pandas frame, in PostgreSQL and in Spark."""

import datetime

import numpy as np
import pandas as pd
import pyarrow as pa

SIZE = 700
KINDS = {
    "who": "integer",
    "ward": "text",
    "stay": "integer",
    "fee": "number",
    "price": "number",
    "since": "time",
    "seen": "time",
    "urgent": "boolean",
    "note": "text",
}
POSTGRES = {
    "who": "bigint",
    "ward": "text",
    "stay": "integer",
    "fee": "double precision",
    "price": "numeric(12, 2)",
    "since": "date",
    "seen": "timestamp with time zone",
    "urgent": "boolean",
    "note": "varchar(40)",
}
SPARK = {
    "who": "bigint",
    "ward": "string",
    "stay": "int",
    "fee": "double",
    "price": "decimal(12, 2)",
    "since": "date",
    "seen": "timestamp",
    "urgent": "boolean",
    "note": "string",
}


def made(size=SIZE, seed=3):
    """Return rows with everything that may be odd about a value."""
    rng = np.random.default_rng(seed)
    day = datetime.date(2019, 12, 25)
    fee = rng.normal(100, 300, size)
    fee[:6] = [np.nan, np.inf, -np.inf, 1.7e308, 1.7e308, -0.0]
    notes = ["", "a", "A", "é'\"\\", "12", " 1.5 ", "x" * 40, "1e400", "2.5", "nan", "%_", "ünï", None]
    rows = []
    for i in range(size):
        rows.append(
            {
                "who": None if i % 97 == 0 else int(rng.exponential(25)),
                "ward": ["north", "east", "so'uth", None][rng.choice(4, p=[0.5, 0.3, 0.15, 0.05])],
                "stay": None if i % 31 == 0 else int(rng.integers(-3, 40)),
                "fee": None if i % 41 == 40 else float(fee[i]),
                "price": None if i % 43 == 0 else round(float(rng.uniform(-5, 500)), 2),
                "since": None if i % 53 == 0 else day + datetime.timedelta(days=int(rng.integers(0, 400))),
                "seen": datetime.datetime(2020, 1, 1, 23, 59, 58) + datetime.timedelta(minutes=7 * i),
                "urgent": [True, False, None][i % 3],
                "note": notes[i % len(notes)],
            }
        )
    return rows


def frame(rows):
    """Return the rows as a pandas frame."""
    columns = {name: [row[name] for row in rows] for name in KINDS}
    table = pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()})
    table = table.astype({"ward": "str", "note": "str", "price": float, "urgent": "boolean"})
    table["since"] = pd.Series(columns["since"], dtype=pd.ArrowDtype(pa.date32()))
    table["who"] = table["who"].astype("Int64")
    table["stay"] = table["stay"].astype("Int64")
    table["fee"] = table["fee"].astype(float)
    table["seen"] = pd.to_datetime(table["seen"])
    return table


def put_into_postgres(address, name, rows):
    """Make a table of the rows, and return what `protect` takes."""
    import psycopg

    columns = ", ".join(f'"{column}" {kind}' for column, kind in POSTGRES.items())
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f'DROP TABLE IF EXISTS "{name}"')
        connection.execute(f'CREATE TABLE "{name}" ({columns})')
        with connection.cursor().copy(f'COPY "{name}" FROM STDIN') as copy:
            for row in rows:
                copy.write_row([row[column] for column in POSTGRES])
    return address, name


def put_into_spark(session, rows):
    """Return a DataFrame of the rows."""
    import decimal

    def value(name, found):
        return decimal.Decimal(str(found)) if name == "price" and found is not None else found

    zone = datetime.UTC
    listed = [
        tuple(
            row[name].replace(tzinfo=zone) if name == "seen" and row[name] is not None else value(name, row[name])
            for name in SPARK
        )
        for row in rows
    ]
    return session.createDataFrame(listed, ", ".join(f"{name} {kind}" for name, kind in SPARK.items()))
