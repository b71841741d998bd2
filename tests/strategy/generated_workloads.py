"""Workloads of every kind that people ask, drawn from a seed: what `select` is compared on with the whole catalogue."""

import math

import numpy as np

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
    Workload,
    marginals,
    prefix_marginals,
)


def generated(seed: int, cells: int) -> tuple[str, Workload]:
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
