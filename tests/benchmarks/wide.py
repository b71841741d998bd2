"""Processor time and memory of pairs of many columns, of 10 levels each: python tests/benchmarks/wide.py.

Beside what ResidualPlanner+ takes for 50 columns and 10^4 rows on a machine like ours, as quoted when this was begun:
0.04 s to plan, 1.5 s to measure, 0.02 s without counts below 0, 335 MiB in all. Before, this package took 7.1, 5.2 and
16 s, and 1.3 GiB. What is aimed at for 50 columns and 10^6 rows is 0.3 s, 3 s and 700 MiB beside the frame; to run 20
columns of 10^5 rows, 0.5 s.
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


def main() -> None:
    """Print the time of each step in seconds, and by how many MiB memory grew until after the run and at the end."""
    print("columns      rows   protect      plan       run  nonnegative   MiB run    MiB all")
    for columns, rows in SHAPES:
        subprocess.run([sys.executable, __file__, str(columns), str(rows)], check=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measured(int(sys.argv[1]), int(sys.argv[2]))
    else:
        main()
