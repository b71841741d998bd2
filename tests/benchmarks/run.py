"""Print every benchmark: `python tests/benchmarks/run.py`."""

import ledger
import many
import marginals
import noise
import nonnegative
import planning
import reuse
import session
import sql
import strategy
import wide

if __name__ == "__main__":
    for benchmark in (session, noise, ledger, planning, many, strategy, marginals, reuse, sql, nonnegative, wide):
        print(f"\n{benchmark.__doc__.splitlines()[0]}")
        benchmark.main()
