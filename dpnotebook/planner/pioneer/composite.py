"""Composite plans: sums that share queries, merged into averages of what differs (CCP, Fig. 11)."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence

from dpnotebook.planner.pioneer.plans import SumOfQueries


def composite(variances: Sequence[float], subsets: Sequence[Collection[int]]) -> tuple[SumOfQueries, ...]:
    """Return a composite plan's structure for sums that may share queries.

    Parameters
    ----------
    variances
        Noise variance of every past query.
    subsets
        For each way to write the question as a sum of queries, which queries these are, by position.

    Returns
    -------
    tuple of SumOfQueries
        Sums without a common query. The subsets are taken up by increasing variance. One that shares no query with
        the plan becomes a sum of its own. One that shares queries with one sum T is merged if it differs from a way
        of writing T in terms that are leaves of one sum: those are averaged with what replaces them. Any other subset
        is left out. (The published condition, "all queries of the plan that are not in the subset are leaves of one
        simple plan", would also merge a subset that shares queries with two sides of an average, which is wrong.)
    """
    plan: list[SumOfQueries] = []
    for subset in sorted(subsets, key=lambda subset: sum(variances[i] for i in subset)):
        shared = [total for total in plan if _queries(total) & set(subset)]
        if not shared:
            plan.append(SumOfQueries(tuple(subset)))
        elif len(shared) == 1 and (merged := _merge(shared[0], frozenset(subset))) is not None:
            plan[plan.index(shared[0])] = merged
    return tuple(plan)


def _queries(total: SumOfQueries) -> frozenset[int]:
    return frozenset(total.leaves).union(*(_queries(term) for terms in total.averages for term in terms))


def _merge(total: SumOfQueries, subset: frozenset[int]) -> SumOfQueries | None:
    """Return the sum with the subset merged in, None where it does not fit."""
    common = _queries(total) & subset
    for written in _written(total):
        if common <= written and (differ := written - subset):
            return _replace(total, differ, tuple(sorted(subset - common)))
    return None


def _written(total: SumOfQueries) -> Iterator[frozenset[int]]:
    """Go over all ways to write a sum as a sum of queries: one side of every average."""
    for sides in itertools.product(*total.averages):
        for below in itertools.product(*(tuple(_written(side)) for side in sides)):
            yield frozenset(total.leaves).union(*below)


def _replace(total: SumOfQueries, differ: frozenset[int], other: tuple[int, ...]) -> SumOfQueries | None:
    """Return the sum with the leaves `differ`, all of one sum, averaged with `other`."""
    if not other:
        return None
    if differ <= set(total.leaves):
        kept = tuple(i for i in total.leaves if i not in differ)
        average = (SumOfQueries(tuple(i for i in total.leaves if i in differ)), SumOfQueries(other))
        return SumOfQueries(kept, (*total.averages, average))
    for at, terms in enumerate(total.averages):
        for which, term in enumerate(terms):
            if (inner := _replace(term, differ, other)) is not None:
                changed = (*terms[:which], inner, *terms[which + 1 :])
                return SumOfQueries(total.leaves, (*total.averages[:at], changed, *total.averages[at + 1 :]))
    return None
