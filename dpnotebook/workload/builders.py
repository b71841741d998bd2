"""Sets of marginals over attributes given by their numbers of cells.

Source: HDMM, Example 7 (marginals, prefix-marginals) and the workloads of its section 11.2.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import combinations

from dpnotebook.errors import WorkloadError, shorten
from dpnotebook.workload.base import Workload, whole
from dpnotebook.workload.contiguous import Identity, Prefix
from dpnotebook.workload.marginals import Marginals, Subset

MOST_MARGINALS = 10**6  # some seconds, and some 200 MB of subsets


def marginals(shape: Iterable[int], k: int | None = None, *, upto: int | None = None) -> Marginals:
    """Return the counts of every combination of levels of each k attributes.

    Parameters
    ----------
    shape
        Cells of each attribute.
    k
        Number of attributes of each marginal; 0 is the total.
    upto
        Instead of `k`: marginals of 0 to `upto` attributes, the total first.

    Raises
    ------
    WorkloadError
        If not exactly one of k and upto is given, there are fewer attributes than that or none, or too many marginals.

    Examples
    --------
    >>> from dpnotebook.workload import marginals
    >>> marginals((2, 3), 1).dense()
    array([[1, 1, 1, 0, 0, 0],
           [0, 0, 0, 1, 1, 1],
           [1, 0, 0, 1, 0, 0],
           [0, 1, 0, 0, 1, 0],
           [0, 0, 1, 0, 0, 1]])
    """
    sizes = checked_sizes(shape)
    return Marginals(map(Identity, sizes), [(subset, 1) for subset in subsets(len(sizes), k, upto)])


def prefix_marginals(
    shape: Iterable[int], k: int | None = None, prefix: Iterable[int] | None = None, *, upto: int | None = None
) -> Marginals:
    """Return marginals with cumulative counts along the ordered attributes (HDMM, Example 7).

    Parameters
    ----------
    shape
        Cells of each attribute.
    k, upto
        As for `marginals`.
    prefix
        Positions of the ordered attributes; all, unless said otherwise.

    Raises
    ------
    WorkloadError
        As `marginals`; or if a position names no attribute.

    Examples
    --------
    >>> from dpnotebook.workload import prefix_marginals
    >>> prefix_marginals((2, 3), 1, prefix=[1]).dense()  # the second attribute has an order
    array([[1, 1, 1, 0, 0, 0],
           [0, 0, 0, 1, 1, 1],
           [1, 0, 0, 1, 0, 0],
           [1, 1, 0, 1, 1, 0],
           [1, 1, 1, 1, 1, 1]])
    """
    sizes = checked_sizes(shape)
    factors = _factors(sizes, range(len(sizes)) if prefix is None else prefix)
    return Marginals(factors, [(subset, 1) for subset in subsets(len(sizes), k, upto)])


def small_marginals(shape: Iterable[int], cells: int, prefix: Iterable[int] = ()) -> Marginals:
    """Return every marginal of at most `cells` cells, the total included, those of fewer attributes first.

    Parameters
    ----------
    shape
        Cells of each attribute.
    cells
        Most cells of a marginal.
    prefix
        Positions of ordered attributes, whose counts are cumulative; none, unless said otherwise.

    Raises
    ------
    WorkloadError
        If there is no attribute, a position names none, `cells` is no whole number above 0, or there are too many.

    Examples
    --------
    >>> from dpnotebook.workload import small_marginals
    >>> small_marginals((2, 3, 100), 6)
    Marginals(4 subsets of 3 attributes, 12 queries)
    """
    sizes = checked_sizes(shape)
    factors = _factors(sizes, prefix)
    return Marginals(factors, [(subset, 1) for subset in small_subsets(sizes, cells)])


def checked_sizes(shape: Iterable[int]) -> tuple[int, ...]:
    """Return the cells of each attribute as ints, or raise WorkloadError."""
    if isinstance(shape, str) or hasattr(shape, "iloc") or not isinstance(shape, Iterable):
        raise WorkloadError(
            f"a shape is the number of cells of each attribute, such as (2, 5, 50), not {shorten(shape)}"
        )
    sizes = tuple(whole(size, "the number of cells of an attribute") for size in shape)
    if not sizes:
        raise WorkloadError("a domain without attributes has no marginals: give the cells of at least one attribute")
    return sizes


def subsets(attributes: int, k: int | None, upto: int | None) -> Iterator[Subset]:
    """Return the subsets of k attributes, or of 0 to `upto`, in the order of their size and then of their attributes.

    Raises
    ------
    WorkloadError
        As `marginals`.
    """
    checked_count(k, upto)
    most = whole(upto if k is None else k, "upto" if k is None else "k", 0)
    if most > attributes:
        raise WorkloadError(
            f"marginals of {most} attributes need at least as many, and there "
            f"{'is 1' if attributes == 1 else f'are {attributes}'}; write {'upto' if k is None else 'k'}={attributes}"
        )
    ranks = range(most + 1) if k is None else (most,)
    count = sum(math.comb(attributes, rank) for rank in ranks)
    if count > MOST_MARGINALS:
        raise WorkloadError(
            f"these are {count:,} marginals, and at most {MOST_MARGINALS:,} are possible; ask for fewer attributes at "
            "a time, or for small_marginals"
        )
    return (subset for rank in ranks for subset in combinations(range(attributes), rank))


def checked_count(k: int | None, upto: int | None) -> None:
    """Raise WorkloadError unless exactly one of `k` and `upto` is a whole number of at least 0."""
    if (k is None) == (upto is None):
        raise WorkloadError(
            "say how many attributes a marginal has: exactly one of k and upto=, such as marginals(2) or "
            "marginals(upto=2)"
        )
    whole(upto if k is None else k, "upto" if k is None else "k", 0)


def small_subsets(sizes: tuple[int, ...], cells: int) -> list[Subset]:
    """Return the subsets whose product of sizes is at most `cells`, those of fewer attributes first.

    Raises
    ------
    WorkloadError
        If `cells` is no whole number above 0, or there are too many.
    """
    most = whole(cells, "the most cells of a marginal")
    counted = {1: 1}  # how many subsets of the attributes so far have a product of sizes
    for size in sizes:
        for product, count in list(counted.items()):
            if product * size <= most and size > 1:
                counted[product * size] = counted.get(product * size, 0) + count
    count = sum(counted.values()) * 2 ** sizes.count(1)
    if count > MOST_MARGINALS:
        raise WorkloadError(
            f"{count:,} marginals have at most {most:,} cells, and at most {MOST_MARGINALS:,} are possible; write a "
            "smaller number of cells"
        )
    found: list[Subset] = [()]
    level: list[tuple[Subset, int]] = [((), 1)]
    while level:
        # Every part of a small subset is small: grow each by one attribute at its end.
        level = [
            ((*subset, i), product * sizes[i])
            for subset, product in level
            for i in range(subset[-1] + 1 if subset else 0, len(sizes))
            if product * sizes[i] <= most
        ]
        found += [subset for subset, _ in level]
    return found


def _factors(sizes: tuple[int, ...], prefix: Iterable[int]) -> list[Workload]:
    if isinstance(prefix, str) or not isinstance(prefix, Iterable):
        raise WorkloadError(f"prefix= lists positions of ordered attributes, such as (0, 1), not {shorten(prefix)}")
    ordered = {whole(position, "the position of an ordered attribute", 0) for position in prefix}
    if ordered and max(ordered) >= len(sizes):
        raise WorkloadError(f"prefix= lists positions of attributes, 0 to {len(sizes) - 1}, not {max(ordered)}")
    return [Prefix(size) if i in ordered else Identity(size) for i, size in enumerate(sizes)]
