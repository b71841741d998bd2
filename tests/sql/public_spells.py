"""Spells of people, months and jobs: protected rows beside public tables, and what a database says of them."""

import datetime

import duckdb
import numpy as np
import pandas as pd

RANDOM = np.random.default_rng(8)
SIZE = 4_000
WHO = np.arange(SIZE) // 2
DAYS = pd.to_timedelta(RANDOM.integers(1, 300, SIZE), unit="D")
BEGIN = pd.Timestamp("2023-01-05") + pd.to_timedelta(RANDOM.integers(0, 700, SIZE), unit="D")
CODES = [f"{number:03d}" for number in range(60)]
SPELLS = pd.DataFrame({
    "person": WHO,
    "begin": BEGIN,
    "until": pd.Series(BEGIN + DAYS).where(RANDOM.random(SIZE) < 0.8),
    "code": RANDOM.choice([*CODES[:50], "none"], SIZE),
    "sex": np.array(["F", "M"])[WHO % 2],
})  # fmt: skip
MONTHS = pd.DataFrame({"day": pd.date_range("2022-11-30", "2024-10-31", freq="ME"), "seen": [False, True] * 12})
JOBS = pd.DataFrame({
    "code": CODES,
    "job": [["baker's", "cook", "smith", "none left", None][place % 5] for place in range(60)],
    "grade": np.arange(60) % 7,
    "field": [f"field {place % 30}" for place in range(60)],
    "manual": np.arange(60) % 3 == 0,
    "wage": np.arange(60) / 3,
})  # fmt: skip
STOCK = "FROM spells JOIN months ON begin <= day AND (until > day OR until IS NULL)"


def opened(session, data=SPELLS, **options):
    session.protect(data, "spells", unit="person", domain={"sex": ["F", "M"]}, **options)
    session.register(MONTHS, "months", public=True)
    session.register(JOBS, "jobs", public=True)
    return session


def plain(value):
    if value is None or value is pd.NaT or (not isinstance(value, str) and pd.isna(value)):
        return None
    return str(pd.Timestamp(value)) if isinstance(value, (datetime.date, np.datetime64)) else value


def groups_of(frame):
    """Return the groups of an answer, in its order."""
    beside = ("_std_error", "_lower", "_upper")
    keys = [name for name in frame if name not in ("n", "people", "d") and not name.endswith(beside)]
    return [tuple(map(plain, row)) for row in frame[keys].astype(object).to_numpy() if keys]


def of_public_tables(question):
    """Return the rows of a question about the public tables alone."""
    with duckdb.connect() as plainly:
        for name, frame in (("months", MONTHS), ("jobs", JOBS)):
            plainly.register(name, frame)
        return {tuple(map(plain, row)) for row in plainly.execute(question).fetchall()}


def held(frame, counts):
    """Return rows by their keys, without groups in which nothing is."""
    numbers = [name for name in counts if name in frame]
    keys = [name for name in frame if name not in numbers and not name.endswith(("_std_error", "_lower", "_upper"))]
    rows = {tuple(map(plain, row[keys])): tuple(row[numbers]) for _, row in frame.iterrows()}
    return {key: numbers for key, numbers in rows.items() if not np.allclose(np.nan_to_num(numbers), 0, atol=0.2)}


def is_what_a_database_says(session, question):
    asked = session.sql(question, epsilon=200.0)
    with duckdb.connect() as plainly:
        for name, frame in (("spells", SPELLS), ("months", MONTHS), ("jobs", JOBS)):
            plainly.register(name, frame)
        truth = plainly.execute(question).df()
    answer = asked.run().frame
    mine, theirs = (held(frame, ("n", "people", "d")) for frame in (answer, truth))
    assert mine.keys() == theirs.keys()
    for key, numbers in theirs.items():
        np.testing.assert_allclose(mine[key], numbers, atol=0.5)
    return asked, answer
