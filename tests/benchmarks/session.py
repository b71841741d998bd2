"""How fast a person gets an answer: import, plan cards, counts over ten million rows beside plain DuckDB."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import duckdb
import numpy as np
import pandas as pd

import dpnotebook as dpn
from dpnotebook.engine.source import source_of
from dpnotebook.session.query import Query

ROWS = 10**7
RUNS = 7


def median_ms(work: Callable[[], object], runs: int = RUNS) -> float:
    """Return the median time of some runs, in milliseconds."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1000


def processor_seconds(work: Callable[[], object], runs: int = 3) -> float:
    """Return the least processor time of some runs."""
    times = []
    for _ in range(runs):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def import_seconds(statement: str) -> float:
    """Return the median time that an import takes in a fresh interpreter."""
    code = f"import time; start = time.perf_counter(); {statement}; print(time.perf_counter() - start)"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(5)]
    return statistics.median(float(run.stdout) for run in runs)


def people(rows: int) -> pd.DataFrame:
    """Return a made-up table."""
    random = np.random.default_rng()
    return pd.DataFrame(
        {
            "age": random.integers(0, 116, rows),
            "sex": pd.Categorical.from_codes(random.integers(0, 2, rows), ["F", "M"]),
            "income": random.lognormal(10, 1, rows),
        }
    )


def fresh(query: Query) -> Query:
    """Return the query so that it is measured anew at every run."""
    return dpn.Query(query.session, query.question, query.accuracy, fresh=True)


def main() -> None:
    """Print the table."""
    ours, pandas = import_seconds("import dpnotebook"), import_seconds("import pandas")
    print(f"{'import dpnotebook':44}{ours:9.2f} s    {ours / pandas:5.2f} x import pandas")

    frame = people(ROWS)
    session = dpn.Session(dpn.Budget(epsilon=500.0))
    start = time.perf_counter()
    domain = {"age": dpn.Range(0, 115), "sex": ["F", "M"], "income": dpn.Bins(0, 200_000, width=5_000)}
    session.protect(frame, "people", domain=domain)
    print(f"{f'protect a frame of {ROWS:.0e} rows':44}{time.perf_counter() - start:9.2f} s")

    connection = duckdb.connect()
    connection.execute("CREATE TABLE people AS SELECT age, sex::VARCHAR AS sex, income FROM frame")
    times = {}
    for place, source in (("frame", source_of(frame)), ("DuckDB table", source_of((connection, "people")))):
        times[place] = processor_seconds(lambda source=source: source.fingerprint(list(domain), bytes(32)))
        print(
            f"{f'fingerprint of a {place} of {ROWS:.0e} rows':44}{times[place]:9.2f} s of a processor"
            f"{times[place] / times['frame']:8.2f} x the frame"
        )
    connection.close()

    for cells, query in (
        (116, frame.dp.histogram("age", epsilon=0.1)),
        (232, frame.dp.crosstab("age", "sex", error=40)),
        (9_512, frame.dp.crosstab("age", "sex", "income", epsilon=0.1)),
        (116, frame.dp.cdf("age", epsilon=0.1)),
    ):
        card = median_ms(lambda query=query: query._repr_mimebundle_())
        print(f"{f'plan card, {query.question.words}, {cells:,} cells':64.64}{card:9.1f} ms")

    plain = duckdb.connect()
    plain.register("people", frame)
    for where, sql in ((None, ""), ("age >= 65", " WHERE age >= 65"), ("income < 50_000", " WHERE income < 50000")):
        query = fresh(frame.dp.count(where=where, epsilon=0.01))
        query.run()
        private = median_ms(query.run)
        public = median_ms(lambda sql=sql: plain.execute(f"SELECT count(*) FROM people{sql}").fetchall())
        allowed = 1.5 * public + 20
        print(
            f"{f'count over {ROWS:.0e} rows, where {where}':44}{private:9.1f} ms   {private / public:5.2f} x DuckDB "
            f"({public:.1f} ms; allowed {allowed:.1f} ms: {'yes' if private <= allowed else 'NO'})"
        )


if __name__ == "__main__":
    main()
