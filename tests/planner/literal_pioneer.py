"""Pioneer to the letter, where this package does better: CHP's choice by the price in sequence, and CQ (Fig. 14).

CQ extends all groups to one union, less one new query.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from dpnotebook.planner.pioneer.groups import Groups, Mask
from dpnotebook.planner.pioneer.plans import Past, Stage, SumOfQueries, stages


def hybrid(queries: Sequence[Past], totals: Sequence[SumOfQueries], variance: float, sensitivity: float = 1.0) -> Stage:
    """Return the cheapest of all stages (Fig. 6; CHP, Fig. 7): the plan for composite structures too (eq. 23)."""
    return min(stages(queries, totals, variance, sensitivity), key=lambda stage: stage.epsilon)


def shared_union(groups: Groups, chosen: Sequence[int], asked: Mask) -> tuple[list[Past], tuple[SumOfQueries, ...]]:
    """Return the queries and the sums that groups give when all are extended to the union of everything.

    Parameters
    ----------
    groups
        Past queries.
    chosen
        Numbers of the groups to use.
    asked
        The question; the union contains it (in the published algorithm it need not).

    Returns
    -------
    tuple
        For `hybrid`. Every group's queries count as one, refined together, and so does the query that extends
        it. All sums share the new query "union without the question", so they form one composite plan: the average of
        what the groups say of the union, less the new query.
    """
    union = asked.copy()
    for group in chosen:
        union |= groups.union(group)
    queries, sides = [], []
    for group in chosen:
        count = groups.members.count(group) + bool((union & ~groups.union(group)).any())
        queries.append(Past(groups.variances[group], count**0.5, refinable=groups.refinable[group]))
        sides.append(SumOfQueries((len(queries) - 1,)))
    if not (union & ~asked).any():
        return queries, tuple(sides)
    return [*queries, Past(None, -1.0)], (SumOfQueries((len(queries),), (tuple(sides),)),)


def literal_plan(groups: Groups, chosen: Sequence[int], asked: Mask, variance: float) -> Stage:
    """Return the plan of the published algorithm, which takes every extension to be free."""
    return hybrid(*shared_union(groups, chosen, asked), variance)


def answer_literally(groups: Groups, asked: Mask, variance: float, k: int = 4) -> None:
    """Answer as published: the k groups of least total variance, extended to one union, and the plan carried out.

    The groups' spend counts what that costs each atom; the paper counts only what its plan asks and refines.
    """
    counts = [groups.members.count(group) for group in range(len(groups.variances))]
    chosen = sorted(range(len(counts)), key=lambda group: counts[group] * groups.variances[group])[:k]
    plan = literal_plan(groups, chosen, asked, variance)
    union = asked.copy()
    for group in chosen:
        union |= groups.union(group)
    for group, refined in zip(chosen, plan.refined, strict=False):
        if (extra := union & ~groups.union(group)).any():
            groups.extend(group, extra)
        if refined < groups.variances[group]:
            groups.refine(group, refined)
    if plan.variance < float("inf"):
        new = groups.add(asked, plan.variance)
        if (beyond := union & ~asked).any():
            groups.extend(new, beyond)


def running_literally(ranges: Sequence[tuple[int, int, float]]) -> Iterator[float]:
    """Go over the total epsilon after each range, as `simulate.running_epsilon` does for what is planned."""
    cuts = np.unique([cut for start, end, _ in ranges for cut in (start, end)])
    groups, answers = Groups(len(cuts) - 1), {}
    for start, end, variance in ranges:
        if answers.get((start, end), np.inf) > variance:
            answer_literally(groups, (cuts[:-1] >= start) & (cuts[:-1] < end), variance)
            answers[start, end] = variance
        yield groups.epsilon
