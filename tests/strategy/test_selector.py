"""`select` is never worse than any strategy in the catalogue, on workloads of every kind that people ask.

Where a bound proves that nothing is better by more than 0.05% (of the worst answer by 0.5%) nothing else is looked at,
so that something may be better by as much.
"""

import json
import math
from pathlib import Path

import numpy as np
import pytest

import dpnotebook as dpn
from dpnotebook.errors import WorkloadError
from dpnotebook.strategy import identity, opt_product, select
from dpnotebook.strategy.catalogue import candidates, made
from dpnotebook.strategy.gaussian import gaussian_optimum
from dpnotebook.workload import (
    AllRange,
    Explicit,
    Identity,
    Kron,
    Marginals,
    Permuted,
    Predicates,
    Prefix,
    Stack,
    Total,
    WidthRange,
    marginals,
    prefix_marginals,
)


def generated(seed, cells):
    """Return the kind and the workload of a seed, over about so many cells, up to twice or half."""
    rng = np.random.default_rng([seed, cells])
    kind = list(KINDS)[seed % len(KINDS)]
    return kind, KINDS[kind](rng, cells)


def _size(rng, cells):
    return int(rng.integers(max(4, cells // 2), cells + 1))


def _sizes(rng, cells):
    """Return sizes of two to four attributes, whose product is at most so many cells."""
    d = int(rng.integers(2, 5))
    found = []
    for left in range(d, 0, -1):
        most = max(2, round((cells / math.prod(found)) ** (1 / left) * rng.uniform(0.6, 1.4)))
        found.append(int(min(most, max(2, cells // math.prod(found) // 2 ** (left - 1)))))
    return tuple(found)


def _run(rng, n):
    first, last = sorted(rng.integers(0, n, 2))
    return int(first), int(last) + 1


def _runs(rng, n, m):
    return Predicates([[_run(rng, n)] for _ in range(m)], n)


def _factor(rng, n):
    kinds = (Identity, Total, Prefix, AllRange, lambda n: _runs(rng, n, 3), lambda n: Stack(Total(n), Identity(n)))
    return kinds[rng.integers(len(kinds))](n)


def _in_order(rng, cells):
    n = _size(rng, cells)
    return (Prefix, AllRange)[rng.integers(2)](n)


def _ranges(rng, cells):
    n = _size(rng, cells)
    return _runs(rng, n, int(rng.integers(2, 2 * n)))


def _explicit_ranges(rng, cells):
    n = _size(rng, cells)
    return Explicit(_runs(rng, n, int(rng.integers(n // 2, n + 2))).dense()[:, rng.permutation(n)])


def _permuted(rng, cells):
    n = _size(rng, cells)
    return Permuted((Prefix, AllRange)[rng.integers(2)](n), int(rng.integers(1000)))


def _widths(rng, cells):
    n = _size(rng, cells)
    return WidthRange(n, int(rng.integers(2, n)))


def _stacked(rng, cells):
    n = _size(rng, cells)
    return Stack(float(rng.uniform(0.5, 4)) * Prefix(n), Identity(n), *([Total(n)] if rng.integers(2) else []))


def _product(rng, cells):
    return Kron(*(_factor(rng, n) for n in _sizes(rng, cells)))


def _union(rng, cells):
    sizes = _sizes(rng, cells)
    count = int(rng.integers(2, 6))
    return Stack(*(int(rng.integers(1, 4)) * Kron(*(_factor(rng, n) for n in sizes)) for _ in range(count)))


def _boxes(rng, cells):
    sizes = _sizes(rng, cells)
    return Stack(*(Kron(*(_runs(rng, n, 1) for n in sizes)) for _ in range(int(rng.integers(3, 40)))))


def _marginals(rng, cells):
    sizes = _sizes(rng, cells)
    subsets = [tuple(np.flatnonzero(rng.integers(0, 2, len(sizes))).tolist()) for _ in range(4)]
    return Marginals([Identity(n) for n in sizes], {subset: int(rng.integers(1, 6)) for subset in subsets}.items())


def _all_marginals(rng, cells):
    return marginals(_sizes(rng, cells), upto=2)


def _prefix_marginals(rng, cells):
    return prefix_marginals(_sizes(rng, cells), 2)


def _predicates(rng, cells):
    """Queries of several attributes of no common form: disjunctions, and sets of cells."""
    n = math.prod(_sizes(rng, cells))
    return Predicates(rng.random((int(rng.integers(2, 30)), n)) < rng.uniform(0.1, 0.6))


def _numbers(rng, cells):
    n = _size(rng, cells)
    return Explicit(rng.integers(-3, 4, (int(rng.integers(1, n)), n)) + np.eye(1, n, dtype=int))


KINDS = {
    "in order": _in_order,
    "ranges": _ranges,
    "ranges of cells in no order": _explicit_ranges,
    "permuted": _permuted,
    "of one width": _widths,
    "stacked": _stacked,
    "product": _product,
    "union": _union,
    "boxes": _boxes,
    "weighted marginals": _marginals,
    "marginals": _all_marginals,
    "prefix marginals": _prefix_marginals,
    "predicates": _predicates,
    "numbers": _numbers,
}

SLOW = [(seed, cells) for cells, count in ((250, 56), (1000, 28), (3000, 14)) for seed in range(count)]
TOTAL, WORST = 1.0005, 1.005
FEW_CELLS, OF_FEW = 64, 1.00006  # of so few cells, the total is at most what rounding to integers costs above any


@pytest.mark.one_in(24)
@pytest.mark.parametrize("seed", range(112))
def test_no_strategy_is_better(seed):
    never_worse(generated(seed, 20)[1])


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "cells"), SLOW)
def test_no_strategy_over_many_cells_is_better(seed, cells):
    never_worse(generated(seed, cells)[1])


def never_worse(workload):
    most = OF_FEW if workload.shape[1] <= FEW_CELLS else TOTAL
    for noise in ("laplace", "gaussian"):
        total, worst = select(workload, noise), select(workload, noise, objective="worst")
        assert worst.worst <= total.worst * (1 + 1e-9)
        assert total.objective >= total.bound * (1 - 1e-6)
        assert worst.worst >= worst.worst_bound * (1 - 1e-6)
        for candidate in candidates(workload, noise):
            try:
                other = made(candidate, workload, noise)
            except WorkloadError:
                continue
            assert total.objective <= other.objective * most**2, candidate.name
            assert worst.worst <= other.worst * WORST**2, candidate.name


def random_ranges(n, m, seed):
    rng = np.random.default_rng(seed)
    return Predicates([[_run(rng, n)] for _ in range(m)], n)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("noise", "gain"), [("laplace", 2.0), ("gaussian", 4.0)])
def test_random_ranges_of_thousands_of_cells_in_any_order_get_the_strategy_of_runs(noise, gain):
    ranges = random_ranges(1500, 400, 0)
    shuffled = Explicit(ranges.dense()[:, np.random.default_rng(1).permutation(1500)])
    found = select(shuffled, noise, "quick")
    # Cells that no query tells apart may stand in another order, and trees are then cut elsewhere.
    assert found.objective == pytest.approx(select(ranges, noise, "quick").objective, rel=0.01)
    assert found.objective * gain**2 < identity(ranges, noise).objective


@pytest.mark.parametrize(("noise", "most"), [("laplace", 16.8), ("gaussian", 19.6)])
def test_permuted_ranges_cost_what_ranges_cost(noise, most):
    privacy = (1.0, 1e-6) if noise == "gaussian" else (1.0,)
    permuted = select(Permuted(AllRange(5000), 7), noise)
    assert permuted.rmse(*privacy) < most
    assert permuted.objective == pytest.approx(select(AllRange(5000), noise).objective, rel=1e-9)


def test_boxes_over_several_attributes_get_the_optimum_over_all_cells():
    rng = np.random.default_rng(0)
    boxes = Stack(*(Kron(*(_runs(rng, 7, 1) for _ in range(3))) for _ in range(60)))
    as_matrix = Explicit(boxes.dense())
    assert select(boxes, "gaussian").objective == pytest.approx(select(as_matrix, "gaussian").objective, rel=1e-4)
    assert select(boxes, "gaussian").optimality < 1.0001


@pytest.mark.slow
def test_a_census_cut_to_a_thousand_cells_gets_the_optimum_over_all_cells():
    """SF1 by its first levels, 751 answers: the issue's own draw, which it does not name, had 9.43 and 8.34."""
    cut = _census((2, 2, 12, 21))
    found = select(cut, "gaussian")
    gram = cut.gram().astype(float)
    half = np.sqrt(gaussian_optimum(gram, tolerance=3e-3).v)
    # Whatever the multipliers are, no strategy is below this (the dual of HDMM, Definition 12), by numpy alone.
    values = np.linalg.eigvalsh(gram * half * half[:, None])
    bound = np.sqrt(np.maximum(values, 0)).sum() ** 2 / (half**2).sum()
    assert bound <= found.objective <= 1.004 * bound
    assert found.optimality < 1.0001
    assert found.rmse(1.0, 1e-6) == pytest.approx(8.545, abs=0.001)
    # One product for all, which was the best before there was a search over all cells.
    assert opt_product(cut, "gaussian").rmse(1.0, 1e-6) > 1.1 * found.rmse(1.0, 1e-6)


def _census(sizes):
    """Return SF1 with attributes cut to their first levels; what is left of nothing is not asked."""
    found = []
    for product in json.loads((Path(__file__).parents[2] / "notebooks/data/sf1.json").read_text())["products"]:
        rows = [
            [[(first, min(last + 1, n)) for first, last in row if first < n] for row in rows]
            for rows, n in zip(product["rows"], sizes, strict=True)
        ]
        left = [[row for row in some if row] for some in rows]
        if all(left):
            found.append(Kron(*(Predicates(some, n) for some, n in zip(left, sizes, strict=True))))
    return Stack(*found)


def test_running_counts_beyond_all_searches_are_the_square_root_for_whoever_asks():
    for effort in ("quick", "full"):
        assert select(Prefix(10_000), "gaussian", effort).name == "Toeplitz square root"
        assert select(Prefix(10_000), "gaussian", effort).rmse(1.0, 1e-6) == pytest.approx(16.20, abs=0.01)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_verb_and_answer_cost_the_same(delta):
    import pandas as pd

    people = pd.DataFrame({"age": range(300)})
    with dpn.Session(budget=dpn.Budget(epsilon=100, delta=delta), ledger=":memory:") as session:
        table = session.protect(people, "people", domain={"age": dpn.Range(0, 299)})
        verb, answer = table.cdf("age", error=25), table.answer(dpn.cdf("age"), error=25)
        assert verb.plan.cost.epsilon == answer.plan.cost.epsilon
