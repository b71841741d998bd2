"""What Pioneer does for one question: which past answers it refines, and what it measures anew.

The reading of the paper. Groups of past queries are extended to the question as in Fig. 12, each by itself: by the
part of the question outside the group, at the group's variance, where that is free; and by what sticks out of the
question, at a variance of its own. Free is what raises no atom's spend above the dearest atom's: pairwise freedom, as
in the paper, would call the k-th repetition of a disjoint query free too. Past queries of any groups that add up to
the question are one more way to answer it, and ways that share queries are merged (CCP). Among the question alone, the
plans for the best 1, 2, ... k groups and the stages of the composite plan, the one that raises the spend of the dearest
atom least is taken; between equal ones, one that uses a group, so that disjoint queries are coalesced, and of those the
one that spends less in all.

On the paper's default workload this reading costs epsilon 0.17, 0.51 and 1.08 after 100, 500 and 2,000 questions (one
by one: 0.28, 1.42, 5.67; without composite plans: 0.18, 0.60, 1.41). Plans with k groups always (`exactly`) cost more
at a time and less in the long run: 0.13, 0.39, 1.0. The literal algorithm (Fig. 14) lets all groups share one new
query, of the variance of the rougher question; then no plan with such a query costs less than the question alone
divided by sqrt(2).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpnotebook.planner.pioneer.composite import composite
from dpnotebook.planner.pioneer.groups import Floats, Groups, Mask, PastQuery, Use
from dpnotebook.planner.pioneer.plans import Past, flat, stages, top_branching
from dpnotebook.planner.pioneer.subsets import subsets

_EQUAL = 1e-12  # epsilon: prices that differ by less differ by rounding
_WAYS = 2  # to write the question as a sum are merged at most, for each group that a plan may use


@dataclass(frozen=True)
class NewMeasurement:
    """A selection to measure with Laplace noise of a variance.

    It belongs to the recorded group number `group`; where that is None, to the new group number `new` of its plan.
    """

    mask: Mask
    variance: float
    group: int | None = None
    new: int = 0


@dataclass(frozen=True)
class PioneerPlan:
    """A plan: groups to refine, with their new variance, and selections to measure.

    `kind` is "free", "alone" (the question as it is), "top" (a rougher question beside past answers), "refine" or
    "composite" (sums of past answers that may share some; with a rougher question, refined, or both).
    """

    kind: str
    refine: tuple[tuple[int, float], ...] = ()
    measure: tuple[NewMeasurement, ...] = ()


@dataclass(frozen=True)
class Choice:
    """What Pioneer does for a question.

    Parameters
    ----------
    refine
        Past queries to make more accurate, by position, with their new variance.
    measure
        Selections to measure, with their variance.
    groups
        For each selection the group that it joins: the label of a past query's group, ("alone", position) for a past
        query without one, or ("new", number).
    epsilon
        By how much the spend of the dearest atom rises.
    kind
        See `PioneerPlan`.
    """

    refine: tuple[tuple[int, float], ...]
    measure: tuple[tuple[Mask, float], ...]
    groups: tuple[Hashable, ...]
    epsilon: float
    kind: str


def choose(
    asked: Mask, variance: float, past: Sequence[PastQuery], k: int = 4, *, spend: Floats | None = None
) -> Choice:
    """Return what Pioneer does for a count, given all past counts.

    Parameters
    ----------
    asked
        Which atoms the question selects, at least one; shape (atoms,).
    variance
        What its answer may have.
    past
        Counts that were measured with Laplace noise.
    k
        Most groups that a plan may use.
    spend
        What has been spent on each atom, in epsilon, `past` and everything else included; that of `past` unless given.

    Raises
    ------
    ValueError
        If the question selects nothing.

    Notes
    -----
    Peng et al. (ICDE 2013), with the corrections that the module's text names. The best linear estimate from all that
    was measured has at most the variance asked for.
    """
    if not asked.any():
        raise ValueError("a question that selects nothing needs no plan")
    groups, where = Groups.of(past, asked.size, spend)
    step = decide(groups, asked, variance, k)
    labels = {at: query.label(i) for i, (query, at) in enumerate(zip(past, where, strict=True))}
    after = dict(step.refine)
    refined = [(i, after[at]) for i, at in enumerate(where) if at in after]
    added = [(m.mask, m.variance if m.group is None else after.get(m.group, m.variance)) for m in step.measure]
    return Choice(
        tuple(refined),
        tuple(added),
        tuple(("new", m.new) if m.group is None else labels[m.group] for m in step.measure),
        max(float(groups.after(step.refine, _masks(step)).max()) - groups.epsilon, 0.0),
        step.kind,
    )


def decide(groups: Groups, asked: Mask, variance: float, k: int = 4, *, exactly: bool = False) -> PioneerPlan:
    """Return the plan that raises the spend of the dearest atom least.

    Parameters
    ----------
    groups, asked, variance, k
        See `choose`.
    exactly
        Whether plans use k groups always, not fewer where fewer are cheaper now, nor sums across groups. It spends
        more on a question, and less on a long sequence.
    """
    uses = groups.uses(asked, variance, k)
    numbers = [len(uses)] if exactly and uses else range(1, len(uses) + 1)
    best = PioneerPlan("alone", (), (NewMeasurement(asked, variance),))
    least = _price(groups, best)
    plans = (step for number in numbers for step in _plans(groups, asked, variance, uses[:number]))
    merged = iter(()) if exactly else _composite(groups, asked, variance, uses, _WAYS * k)
    for step in itertools.chain(plans, merged):
        price = _price(groups, step)
        equal = price[0] < least[0] + _EQUAL
        if price[0] < least[0] - _EQUAL or (equal and (best.kind == "alone" or price[1] < least[1])):
            best, least = step, price
    return best


def carry_out(groups: Groups, step: PioneerPlan) -> None:
    """Add a plan's measurements and refinements to the groups."""
    new: dict[int, int] = {}
    for measure in step.measure:
        if measure.group is not None:
            groups.extend(measure.group, measure.mask)
        elif measure.new in new:
            groups.extend(new[measure.new], measure.mask)
        else:
            new[measure.new] = groups.add(measure.mask, measure.variance)
    for group, variance in step.refine:
        groups.refine(group, variance)


def _masks(step: PioneerPlan) -> list[tuple[Mask, float, int | None]]:
    return [(measure.mask, measure.variance, measure.group) for measure in step.measure]


def _price(groups: Groups, step: PioneerPlan) -> tuple[float, float]:
    """Return the rise of the dearest atom's spend, and the spend of all atoms together."""
    after = groups.after(step.refine, _masks(step))
    return max(float(after.max()) - groups.epsilon, 0.0), float(after.sum())


def _plans(groups: Groups, asked: Mask, variance: float, uses: Sequence[Use]) -> Iterator[PioneerPlan]:
    """Go over the stages of the hybrid plan for these groups, as they are when all answers of a group are alike.

    The cost of accuracy is then concave in every group's share of it, so the best plan puts all that is missing in one
    place: the rougher question, or one group.
    """
    extras = {use.group: NewMeasurement(use.extra, use.variance, use.group) for use in uses if use.extends}
    parts = [[Past(use.variance, math.sqrt(use.terms)), *[Past(None)] * use.sticks_out] for use in uses]
    new = top_branching(*flat(parts), variance).variance
    inside = [use for use in uses if not use.sticks_out]
    if math.isinf(new):
        yield PioneerPlan("free", (), tuple(extras[use.group] for use in inside if use.extends))
        return
    yield PioneerPlan("top", (), (*extras.values(), *_beside(asked, new, uses)))
    for use in uses:
        if groups.refinable[use.group]:
            missing = 1 / variance - sum(1 / other.total for other in inside if other is not use)
            used = [*inside, use] if use.sticks_out else inside
            extended = [extras[other.group] for other in used if other.extends]
            after, rest = _split(use, 1 / missing)
            refine = ((use.group, after),) if after < use.variance else ()
            beyond = [NewMeasurement(use.beyond, rest)] if use.sticks_out else []
            yield PioneerPlan("refine", refine, (*extended, *beyond))


def _composite(groups: Groups, asked: Mask, variance: float, uses: Sequence[Use], count: int) -> Iterator[PioneerPlan]:
    """Go over the stages of the composite plan (Fig. 8 to 11) of past queries, and of what extends groups for free.

    A group has one variance, so what refines one of its answers refines all; the new query is as rough as that allows.
    """
    owners, rows = groups.inside(asked)
    past = len(owners)
    extending = [use for use in uses if use.extends]
    owners = [*owners, *(use.group for use in extending)]
    rows = np.vstack([rows, *(use.extra[None] for use in extending)])
    queries = [Past(groups.variances[group], refinable=groups.refinable[group]) for group in owners]
    variances = np.array([groups.variances[group] for group in owners])
    ways = subsets(rows, variances, asked, variance, count)
    plan = composite(variances.tolist(), ways)
    used = set().union(*ways)
    extras = [NewMeasurement(use.extra, use.variance, use.group) for i, use in enumerate(extending, past) if i in used]
    for stage in stages(queries, plan, variance) if plan else ():
        after: dict[int, float] = {}
        for group, before, refined in zip(owners, variances, stage.refined, strict=True):
            if refined < before:
                after[group] = min(refined, after.get(group, refined))
        lowered = [
            replace(query, variance=after.get(group, query.variance))
            for query, group in zip(queries, owners, strict=True)
        ]
        new = top_branching(lowered, plan, variance).variance
        rough = [] if math.isinf(new) else [NewMeasurement(asked, new)]
        yield PioneerPlan("composite", tuple(after.items()), (*extras, *rough))


def _beside(asked: Mask, variance: float, uses: Sequence[Use]) -> list[NewMeasurement]:
    """Return the rougher question and what sticks out of it, disjoint selections in one group."""
    measures, unions = [NewMeasurement(asked, variance)], [asked]
    for use in uses:
        if use.sticks_out:
            at = next((i for i, union in enumerate(unions) if not (union & use.beyond).any()), len(unions))
            if at == len(unions):
                unions.append(use.beyond)
            else:
                unions[at] = unions[at] | use.beyond
            measures.append(NewMeasurement(use.beyond, variance, None, at))
    return measures


def _split(use: Use, total: float) -> tuple[float, float]:
    """Return the variances of a group's answers and of what sticks out that cost least in all (eq. 23)."""
    share = min(1 / (1 + math.pow(use.terms, -1 / 3)), use.total / total) if use.sticks_out else 1.0
    return share * total / use.terms, (1 - share) * total
