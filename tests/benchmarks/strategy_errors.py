"""What errors that are promised cost, and how they are kept; the selector against every strategy there is.

A part of `strategy.py`: python tests/benchmarks/strategy_errors.py prints these lines alone.
"""

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "strategy"))
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("DPNOTEBOOK_CACHE", "off")

DELTAS = {"Gaussian": 1e-6, "Laplace": 0.0}
NAMES, SIZES = ("age", "sex", "region", "group"), (100, 2, 8, 40)

# What `error=50` cost in epsilon while strategies were chosen for the total, and what weights of parts alone come to:
# Gaussian (delta 1e-6) and Laplace noise, of four columns of 100 x 2 x 8 x 40 levels.
WORST = (
    ("marginals(upto=2)", (1.798, 2.452), (0.432, 0.517)),
    ("marginals(2)", (0.931, 1.105), (0.363, 0.342)),
    ("marginals(upto=1)", (0.650, 0.522), (0.313, 0.256)),
    ('identity("age") + total()', (0.526, 0.347), (0.212, 0.119)),
    ('ranges("age")', None, None),
    ('cdf("age")', None, None),
    ('ranges("age") + marginals(2)', None, None),
    ('ranges("age") + marginals(upto=1)', None, None),
    ("prefix_marginals(2)", None, None),
)
REPETITIONS, ROWS = 20_000, 400
MOST_ANSWERS = 400  # that are looked at for the worst, by two ways to choose them
CDF = 512, {"Gaussian": "cdf 1.399, answer 0.988", "Laplace": None}  # levels, and what an error of 25 cost


def _opened(delta: float, domain: dict[str, int]) -> Any:
    import numpy as np
    import pandas as pd

    import dpnotebook as dpn

    rows = pd.DataFrame({name: np.arange(ROWS) % size for name, size in domain.items()})
    session = dpn.Session(budget=dpn.Budget(epsilon=100, delta=delta), ledger=":memory:")
    return session.protect(rows, "people", domain={name: dpn.Range(0, size - 1) for name, size in domain.items()})


def _workload(asked: str) -> Any:
    import dpnotebook as dpn

    return eval(f"dpn.{asked}".replace("+ ", "+ dpn."), {"dpn": dpn})


def worst_case() -> Iterator[str]:
    """Yield what an error of 50 for every answer costs, planned for the total and for the worst answer."""
    for asked, before, wanted in WORST:
        for place, (law, delta) in enumerate(DELTAS.items()):
            people, found = _opened(delta, dict(zip(NAMES, SIZES, strict=True))), []
            for objective in ("total", "worst"):
                query = people.answer(_workload(asked), error=50, objective=objective)
                started = time.process_time()
                plan = query.plan
                found += [plan.cost.epsilon, time.process_time() - started]
            known = "" if before is None else f"  (was {before[place]:.3f}, wanted {wanted[place]:.3f})"
            saved = 1 - found[2] / (found[0] if before is None else before[place])
            yield (
                f"{asked:36s} {law:8s} total {found[0]:.4f} in {found[1]:.2f} s, worst {found[2]:.4f} in "
                f"{found[3]:.2f} s more, saved {saved:.0%}, within {plan.error:.3f}{known}"
            )


def verbs_and_answers() -> Iterator[str]:
    """Yield what cumulative counts of 512 levels cost within 25 rows, asked as a verb and as a workload."""
    import dpnotebook as dpn

    levels, before = CDF
    for law, delta in DELTAS.items():
        people = _opened(delta, {"age": levels})
        verb, answer = people.cdf("age", error=25), people.answer(dpn.cdf("age"), error=25)
        total = people.cdf("age", error=25, objective="total")
        known = "" if before[law] is None else f" (was {before[law]})"
        yield (
            f"cdf({levels}) within 25, {law:8s}: cdf {verb.plan.cost.epsilon:.4f}, answer "
            f"{answer.plan.cost.epsilon:.4f}, for the total {total.plan.cost.epsilon:.4f}{known}"
        )


def coverage() -> Iterator[str]:
    """Yield how often answers are within the error that was asked for, drawn as often as 20,000 times.

    Of the answer that is off by most, with the package's own noise: 95% +- 0.5%, the worst half-width at the target.
    """
    import numpy as np

    from dpnotebook.privacy.laws import draw_integers
    from dpnotebook.privacy.randomness import random_bytes
    from dpnotebook.workload.terms import row_weights

    for asked, *_ in WORST:
        for law, delta in DELTAS.items():
            plan = _opened(delta, dict(zip(NAMES, SIZES, strict=True))).answer(_workload(asked), error=50).plan
            (item,) = plan.measurements
            # Of the many the worst by an approximation: a sum of few Laplace draws has longer tails for its variance.
            rows = np.unique(np.linspace(0, plan.std_errors.size - 1, MOST_ANSWERS).astype(int))
            rows = np.union1d(rows, np.argsort(plan.std_errors)[-MOST_ANSWERS:])
            weights = item.strategy.answer_weights(rows) / row_weights(item.strategy.workload)[rows, None]
            squares = (weights**2).sum(axis=1)
            alone = (weights**4).sum(axis=1) / squares**2 if law == "Laplace" else np.zeros(rows.size)
            place = int(np.argmax(np.sqrt(squares) * (1.960 + 0.158 * alone)))
            weights = weights[[place]]
            used = np.flatnonzero(np.abs(weights).max(axis=0) > 0)
            off = np.zeros((1, REPETITIONS))
            for start in range(0, used.size, 100):
                some = used[start : start + 100]
                drawn = draw_integers(law.lower(), item.scale * 2**item.bits, some.size * REPETITIONS, random_bytes)
                off += weights[:, some] @ (drawn.reshape(some.size, -1) / 2.0**item.bits)
            held = float((np.abs(off) <= plan.error).mean())
            yield (
                f"{asked:36s} {law:8s} worst half-width {plan.error:.3f} of 50, held in {held:.2%} of "
                f"{REPETITIONS:,} repetitions"
            )


def catalogue(seeds: int = 112, cells: int = 20) -> Iterator[str]:
    """Yield how `select` compares with every strategy in the catalogue over generated workloads of every kind."""
    import numpy as np
    from test_selector import generated

    from dpnotebook.errors import WorkloadError
    from dpnotebook.strategy import select
    from dpnotebook.strategy.catalogue import candidates, made

    for law in DELTAS:
        for objective in ("total", "worst"):
            ratios: dict[str, list[float]] = {}
            for seed in range(seeds):
                _, workload = generated(seed, cells)
                best = select(workload, law.lower(), objective=objective)
                for candidate in candidates(workload, law.lower()):
                    try:
                        other = made(candidate, workload, law.lower())
                    except WorkloadError:
                        continue
                    value = other.objective / best.objective if objective == "total" else other.worst / best.worst
                    ratios.setdefault(candidate.name, []).append(float(np.sqrt(value)))
            least = min((min(found), name) for name, found in ratios.items())
            yield (
                f"select against {len(ratios)} strategies on {seeds} workloads, {law}, {objective}: the best of them "
                f"errs {least[0]:.4f} times as much ({least[1]})"
            )


if __name__ == "__main__":
    for lines in (worst_case(), verbs_and_answers(), coverage(), catalogue()):
        for line in lines:
            print(line, flush=True)
