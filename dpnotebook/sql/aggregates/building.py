"""What is measured for all aggregates of a private aggregation together, and where its threshold is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from dpnotebook.errors import SQLError
from dpnotebook.planner.plan import MANY_ROWS
from dpnotebook.privacy.accountant import Accountant
from dpnotebook.privacy.laws import Law
from dpnotebook.privacy.noise import checked_scale
from dpnotebook.sql.aggregates.added import row_count
from dpnotebook.sql.aggregates.budget_split import (
    Shares,
    averages_units,
    cost_of,
    found_with,
    has_range,
    needs_bounds,
    of_range,
    of_units,
    operands,
)
from dpnotebook.sql.aggregates.builder import Bounds, Builder
from dpnotebook.sql.aggregates.catalogue import function_of
from dpnotebook.sql.aggregates.measuring import AggregateInput, Measuring
from dpnotebook.sql.aggregates.partitions import PARTS, clipped_spread, threshold, weighted_threshold
from dpnotebook.sql.select import Aggregate, Contribution, PrivateSelect

UNKNOWN = (Fraction(0), Fraction(1))  # stands for bounds that are not known; no answer is worked out with it


def measuring(
    select: PrivateSelect,
    shares: Shares,
    accountant: Accountant,
    delta: Fraction = Fraction(0),
    found: Mapping[int, Bounds | None] | None = None,
) -> Measuring:
    """Return what is measured for a private aggregation, and with how much noise.

    Parameters
    ----------
    select
        What is asked.
    shares
        What each of its parts may cost.
    accountant
        What the costs are, and the law of the noise.
    delta
        Probability with which a unit's own group may show; used where groups are not declared.
    found
        Bounds that were found from the data, by the number of the aggregate; None where they were sought in vain.

    Raises
    ------
    SQLError
        If an aggregate cannot be measured as its contribution is bounded, or a threshold has no delta.
    AccuracyError
        If the noise would be out of its range.
    """
    found = found or {}
    every = select.selection == "all" and None not in select.levels
    builder = Builder(select.contribution, accountant, select.groups_declared if every else 0)
    shares = _without_hidden(select, shares, found)
    by = shares.measured_by
    of_itself: dict[int, AggregateInput] = {}
    for i, aggregate in enumerate(select.aggregates):
        if by[i] != i:  # whatever bounds have its measurement is paid for
            continue
        builder.contribution = contribution = select.contribution_of(i)
        builder.read_off = tuple((select.aggregates[j], shares.main[j]) for j, of in enumerate(by) if of == i != j)
        _check_contribution(aggregate, contribution, accountant.law)
        bounds = found.get(i) if needs_bounds(select, i) else aggregate.all_bounds
        function = function_of(aggregate.kind)
        clipping, rows = contribution.kind == "l2", contribution.most
        if clipping:
            usual = function.usual_norm(aggregate.values or aggregate.within, rows) if rows > 1 else None
        else:
            ends = [one.bounds or one.within for one in aggregate.operands]
            declared = sum((one for one in ends if one is not None), ()) if aggregate.inside else ()
            usual = declared or function.usual_bounds(aggregate)
        known = bounds or usual or UNKNOWN * len(aggregate.operands) + UNKNOWN[1:] * (clipping and function.centres)
        part = function.build(builder, aggregate, known, cost_of(select, shares, i))
        if bounds is None and needs_bounds(select, i):  # counts of rows and of units have none
            if i in found:
                part = replace(part, found=False)
            else:
                sought = max(accountant.scale(units, 1) for units in _finding(select, shares, i))
                shown = None if clipping and rows > MANY_ROWS else usual  # of many that are declared, a few are usual
                part = replace(part, bounds=None, sought=None if usual and clipping else sought, usual=shown)
                part = replace(part, inside=aggregate.inside)
                for beside, _ in builder.read_off:  # if noise hides these bounds it counts the same rows by itself
                    if not function_of(beside.kind).needs_bounds(contribution):
                        builder.column(row_count(beside.input))
        of_itself[i] = part
    parts = [
        part if of == i else function_of(aggregate.kind).read_off(part, aggregate)
        for i, (of, aggregate) in enumerate(zip(by, select.aggregates, strict=True))
        for part in (of_itself[of],)
    ]
    for block in builder.blocks:
        checked_scale(block.scale)
    if select.selection != "threshold":
        return replace(builder.measuring(tuple(parts), bool(select.keys)), weights=select.weights)
    if delta <= 0:
        raise SQLError(
            "the groups of this query are not declared, and showing only those of enough units needs a delta: "
            "give the session a Budget(epsilon, delta), or declare the levels of the keys"
        )
    builder.contribution = bounded = select.counted_by
    counted = builder.units(shares.selection) if shares.serving is None else parts[shares.serving].blocks[0]
    scale = builder.blocks[counted].scale
    if bounded.kind == "l2":
        tau = weighted_threshold(accountant.noise, scale, clipped_spread(), delta)
    else:
        tau = threshold(accountant.noise, scale, bounded.most, delta)
    one = PARTS if bounded.kind == "l2" else 1
    return replace(
        builder.measuring(tuple(parts), True),
        counted=counted,
        tau=tau,
        min_units=max(select.min_units, 1),
        one=one,
        weights=select.weights,
    )


def _without_hidden(select: PrivateSelect, shares: Shares, found: Mapping[int, Bounds | None]) -> Shares:
    """Return shares by which a count has its own measurement beside an average that noise hides: it needs no bounds."""
    hidden = {of for of in shares.measured_by if of in found and found[of] is None}
    by = (i if of in hidden and not needs_bounds(select, i) else of for i, of in enumerate(shares.measured_by))
    return replace(shares, measured_by=tuple(by))


def _finding(select: PrivateSelect, shares: Shares, index: int) -> list[int]:
    """Return what the histograms cost that the bounds of an aggregate are found from, or not: those of magnitudes."""
    mine = [at for at, (i, operand) in enumerate(operands(select)) if i == index and operand.bounds is None]
    costs = [shares.auto[found_with(select, at, shares.known)] for at in mine]
    costs = costs[:1] if select.clips(index) else costs  # of pairs, both columns of one vector
    if averages_units(select, index):
        return [max(of_range(of_units(cost).away).tries[-1], 1) for cost in costs]
    return [max(of_range(cost).tries[-1], 1) for cost in costs] if has_range(select, index) else costs


def _check_contribution(aggregate: Aggregate, contribution: Contribution, law: Law) -> None:
    if contribution.kind == "l2" and not law.euclidean:
        raise SQLError(
            'contribution="l2" clips vectors by their Euclidean length, which Gaussian noise hides: '
            "it needs a Budget(epsilon, delta) with Gaussian noise"
        )
    function = function_of(aggregate.kind)
    if contribution.kind == "l2" and not function.clipped and not function.by_itself:
        words = aggregate.words or aggregate.name
        raise SQLError(
            f'contribution="l2" bounds counts, sums, averages, variances and correlations, and {words} is none; '
            "ask for it in a statement of its own, with max_groups_contributed"
        )
