"""Processor time and memory of pairs of many columns, of 10 levels each: python tests/benchmarks/wide.py.

Beside what ResidualPlanner+ takes for 50 columns and 10^4 rows on a machine like ours, as quoted when this was begun:
0.04 s to plan, 1.5 s to measure, 0.02 s without counts below 0, 335 MiB in all. Before, this package took 7.1, 5.2 and
16 s, and 1.3 GiB. What is aimed at for 50 columns and 10^6 rows is 0.3 s, 3 s and 700 MiB beside the frame; to run 20
columns of 10^5 rows, 0.5 s. Behind them the 79 million counts of all triples of 40 columns of 20 levels, read by table.
"""

import os
import resource
import subprocess
import sys
import time
from itertools import pairwise

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

SHAPES = ((20, 10**5), (50, 10**4), (50, 10**6))


def measured(columns: int, rows: int) -> None:
    """Print a line for one table; in a process of its own, whose memory is that of nothing else."""
    import numpy as np
    import pandas as pd

    import dpnotebook as dpn
    from dpnotebook.domain import Range
    from dpnotebook.privacy.budget import Budget
    from dpnotebook.session.session import Session

    random = np.random.default_rng(0)
    table = np.empty((rows, columns), dtype=np.int64, order="F")
    for place in range(columns):
        table[:, place] = np.minimum(random.zipf(1.5, rows) - 1, 9)
    frame = pd.DataFrame(table, columns=[f"c{i}" for i in range(columns)], copy=False)
    session = Session(Budget(100, 1e-6))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    times = [time.process_time()]
    session.protect(frame, "wide", domain={name: Range(0, 9) for name in frame})
    times.append(time.process_time())
    query = frame.dp.answer(dpn.marginals(2), epsilon=1.0)
    assert query.plan is not None
    times.append(time.process_time())
    release = query.run()
    times.append(time.process_time())
    ran = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    release.nonnegative()
    times.append(time.process_time())
    grown = [(peak - before) / 1024 for peak in (ran, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)]
    spent = "  ".join(f"{after - start:8.2f}" for start, after in pairwise(times))
    print(f"{columns:7} {rows:9,}  {spent}  {grown[0]:10.0f} {grown[1]:10.0f}", flush=True)


def read_by_table(columns: int, levels: int, way: int, rows: int, delta: float) -> None:
    """Print a line for marginals of more counts than a frame has, read table by table."""
    import tempfile

    import numpy as np
    import pandas as pd

    import dpnotebook as dpn

    random = np.random.default_rng(0)
    frame = pd.DataFrame({f"c{i}": random.integers(0, levels, rows).astype(np.int16) for i in range(columns)})
    with tempfile.TemporaryDirectory() as folder:
        ledger = os.path.join(folder, "wide.ledger")
        session = dpn.Session(budget=dpn.Budget(4.0, delta), ledger=ledger)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        table = session.protect(frame, "wide", domain={name: dpn.Range(0, levels - 1) for name in frame})
        times = [time.process_time()]
        query = table.answer(dpn.marginals(way), epsilon=1.0)
        answers = query.plan.answers
        times.append(time.process_time())
        release = query.run()
        times.append(time.process_time())
        read = release.marginal(*list(frame)[:way])
        times.append(time.process_time())
        ran = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        width = float(read.frame["upper"][0] - read.frame["value"][0])
        again = table.crosstab(*list(frame)[:way], error=1.02 * width)  # other bounds of Laplace sums
        assert again.plan.free, again.plan
        found = again.run()
        times.append(time.process_time())
        away = float(np.abs(found.frame["value"] - read.frame["value"]).max())
        spent = "  ".join(f"{after - start:.2f}" for start, after in pairwise(times))
        most, kept = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, os.path.getsize(ledger) / 2**20
        session.close()
    noise = "Gaussian" if delta else "Laplace"
    print(
        f"{columns} x {levels}, marginals({way}), {noise} noise: {answers:,} answers; "
        f"seconds to plan, run, read a table, ask for it again for nothing: {spent}; {ran:.0f} MiB until read, "
        f"{most:.0f} in all, {(ran - before) * 2**20 / answers:.0f} bytes an answer; ledger {kept:.0f} MiB; "
        f"the tables differ by {away:g}",
        flush=True,
    )


def main() -> None:
    """Print the time of each step in seconds, and by how many MiB memory grew until after the run and at the end."""
    print("columns      rows   protect      plan       run  nonnegative   MiB run    MiB all")
    for columns, rows in SHAPES:
        subprocess.run([sys.executable, __file__, str(columns), str(rows)], check=True)
    for columns, delta in ((20, "0"), (20, "1e-6"), (40, "0"), (40, "1e-6")):
        subprocess.run([sys.executable, __file__, str(columns), "20", "3", "20000", delta], check=True)


if __name__ == "__main__":
    if len(sys.argv) > 3:
        read_by_table(*map(int, sys.argv[1:5]), float(sys.argv[5]))
    elif len(sys.argv) > 1:
        measured(int(sys.argv[1]), int(sys.argv[2]))
    else:
        main()
