"""People and their shots, protected, beside public tables; and what a database says of them."""

import duckdb
import numpy as np
import pandas as pd

import dpnotebook as dpn

RANDOM = np.random.default_rng(21)
SIZE = 3_000
KINDS = ["a", "b", "c"]
PEOPLE = pd.DataFrame({
    "pid": np.arange(SIZE),
    "kind": RANDOM.choice(KINDS, SIZE),
    "since": pd.Timestamp("2021-01-01") + pd.to_timedelta(RANDOM.integers(0, 900, SIZE), unit="D"),
    "age": RANDOM.integers(0, 90, SIZE),
})  # fmt: skip
WHO = RANDOM.integers(0, SIZE + 200, 2 * SIZE)
SHOTS = pd.DataFrame({"person": WHO, "dose": RANDOM.choice([1, 2], WHO.size)}).groupby("person").head(4)
MONTHS = pd.DataFrame({"day": pd.date_range("2021-12-31", "2023-11-30", freq="ME")})
KIND_NAMES = pd.DataFrame({"kind": KINDS, "name": ["one", "two", "two"]})
NORMS = pd.DataFrame({"kind": KINDS * 3, "year": np.repeat([2021, 2022, 2023], 3)})
TABLES = {"people": PEOPLE, "shots": SHOTS, "months": MONTHS, "names": KIND_NAMES, "norms": NORMS}


def opened(session, rows=False):
    def unit(column):
        return None if rows else dpn.Unit("person", column=column)

    most = {} if rows else {"max_rows": 1}
    session.protect(PEOPLE, "people", unit=unit("pid"), domain={"kind": KINDS, "age": dpn.Range(0, 99)}, **most)
    if not rows:
        session.protect(SHOTS, "shots", unit=unit("person"), max_rows=4, domain={"dose": [1, 2]})
    for name in ("months", "names", "norms"):
        session.register(TABLES[name], name, public=True)
    return session


def truth(statement):
    with duckdb.connect() as plainly:
        for name, table in TABLES.items():
            plainly.register(name, table)
        return plainly.execute(statement).df()


def shown(session, statement, epsilon=2.0):
    release = session.sql(statement, epsilon=epsilon).run()
    return release.frame[list(truth(statement))]
