"""How the cost of a private aggregation is shared between what it measures."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from dpnotebook.errors import SQLError
from dpnotebook.privacy.accountant import UNITS, Accountant
from dpnotebook.privacy.laws import Law
from dpnotebook.sql.aggregates.catalogue import function_of
from dpnotebook.sql.select import Aggregate, PrivateSelect

TOO_SMALL = "this epsilon is too small to be shared between all that is asked; ask for a larger one, or for less"

# What the count that only the threshold needs gets beside each function, where vectors are clipped to a length. A group
# that more noise on its units hides is then one whose clipped sum is all noise, and the sums keep 4/5 of the cost.
HIDDEN_L2 = Fraction(1, 4)

# What an aggregate gives, where vectors are clipped to a length, for finding that length: a tenth, and more as far as
# the histograms would be noisier than this, so that a few hundred units are found; never more than half.
PROFILE = Fraction(1, 10)
QUIET = 20
OF_VALUES = 4  # histograms of values between which vectors are centred, at finer and finer bins
OF_NORMS = 2  # as much as so many of these is for norms then, and what units of each norm have on average
OF_SQUARES = 2  # times as much finds bounds of variances, to which hidden far values matter more than to means
BESIDE = 12  # parts of that: their means, and what else they have, get so many
OF_MEANS = (4, 1, 1)
FIRST_OF_VALUES = Fraction(1, 5)  # of what finds bounds of means, what the first histogram of values costs
SHARED_LEAST = 100  # units: what finds bounds is half of that at most, and no histogram is for nothing

# One part of so many of a price tells which groups are to be multiplied, before norms are found.
OF_WEIGHTS = 40

# Where rows count one by one, the first histogram is of magnitudes, without which nothing is found. A small part of
# what is given for finding bounds tells those of thousands of units. Only where noise hides them it is measured once
# more, so that its noise is no more than this, but for half of all.
FIRST = (Fraction(1, 10), Fraction(1, 2))
QUIET_RANGE = 10
MOST_INSIDE = Fraction(1, 4)  # in place of half, of quantiles: declared bounds hold if noise hides what is inside

# Of a price, what finds how many rows of a unit should count. What is not known of that tells on every group, less so
# the more groups there are: with few of them it gets more.
OF_ROWS = Fraction(1, 10)
MANY_GROUPS = 20
MOST_OF_ROWS = Fraction(1, 4)

# Of what counts different values, at most what finds how many of a unit should count: two noisy parts, of which the one
# tells how many a unit has, and the other how many of them are new.
MOST_OF_VALUES = Fraction(1, 4)
OF_NEW_VALUES = 2

# Of what finds bounds of averages by unit: for the magnitudes of the means of units, tried twice, for each of two finer
# histograms of these, for what values come to beside the centre, and for the magnitudes of how many they are.
OF_UNITS = tuple(Fraction(part, 100) for part in (3, 12, 20, 30, 15))
OF_AWAY = OF_UNITS[3]
MOST_OF_UNITS = Fraction(13, 20)  # of a share, for all of them

# Units that the other histograms are planned for. Where more are found these cost as much less, but no less than their
# part of a tenth of all, and what is not spent is the answer's.
PLANNED_UNITS = 10_000

# All of them together cost no more than a tenth where the last one's noise is such a part of the units found then, or
# is as seldom far out as Gaussian noise of that: with more noise, tails of a few thousand units are hidden.
TOLD_TAILS = 0.0033

# Those that only tell where most values lie need no more than noise whose standard deviation in a bin is such a part of
# the units, or that is as seldom far out as Gaussian noise of that: the farthest of many bins' noise hides values. But
# at least such a part of what the last one may cost least, which tells how far bounds go.
LOCATED = 0.01
LEAST_LOCATING = 25


@dataclass(frozen=True)
class Shares:
    """Costs in the accountant's units.

    Parameters
    ----------
    main
        Of each aggregate's own measurements, in the order of the aggregates.
    auto
        Of finding bounds, in the order of `operands`; 0 where they are known, or found with those of an earlier one:
        the first of several that are found from one histogram has the shares of all.
    selection
        Of the count of units that only the threshold needs; 0 where there is none.
    serving
        Number of the aggregate whose count the threshold uses; None where it needs one of its own, or none.
    known
        Numbers of the aggregates whose bounds were found before.
    finding
        What of the share of each aggregate is in `auto`.
    rows
        Of finding how many rows of a unit count; 0 where that is not to be found.
    weights
        Of finding which groups are to be multiplied before vectors are clipped; 0 where that is not to be found.
    measured_by
        As `measured_by` has it.
    """

    main: tuple[int, ...]
    auto: tuple[int, ...]
    selection: int = 0
    serving: int | None = None
    known: frozenset[int] = frozenset()
    finding: tuple[int, ...] = ()
    rows: int = 0
    weights: int = 0
    measured_by: tuple[int, ...] = ()

    @property
    def total(self) -> int:
        """What all of it costs."""
        return sum(self.main) + sum(self.auto) + self.selection + self.rows + self.weights


def shares(select: PrivateSelect, units: int, accountant: Accountant, known: Collection[int] = ()) -> Shares:
    """Share a cost evenly between the functions and the threshold's count, but for those that say their own.

    Parameters
    ----------
    select
        What is measured.
    units
        What it may cost in all, in the accountant's units.
    accountant
        What the units are.
    known
        Numbers of the aggregates whose bounds were found before.

    Raises
    ------
    SQLError
        If the functions' own epsilons pass the total, or leave nothing for the others.
    """
    rows = of_rows(select, units)
    units -= rows
    serving = serving_aggregate(select)
    hidden = select.selection == "threshold" and serving is None
    own = [_own(accountant, aggregate.epsilon) for aggregate in select.aggregates]
    own_selection = _own(accountant, select.selection_epsilon) if hidden else 0
    claimed = sum(share for share in own if share is not None) + (own_selection or 0)
    if claimed > units:
        raise SQLError(_passed(select, claimed, units, accountant))
    weight = HIDDEN_L2 if select.counted_by.kind == "l2" else Fraction(1)
    sharing = sum(share is None for share in own) + (weight if own_selection is None else 0)
    each = math.floor((units - claimed) / Fraction(sharing)) if sharing else 0
    least = max(_least(select, i) for i in range(len(select.aggregates)))
    if sharing and each < least:
        raise SQLError(_nothing_left(select, own, units, accountant) if claimed else TOO_SMALL)
    given = [each if share is None else share for share in own]
    columns = operands(select)
    sought = [at for at, (i, operand) in enumerate(columns) if i not in known and _is_sought(select, i, operand)]
    law = accountant.law
    finding = [
        _finding(select, i, share, law) if needs_bounds(select, i, known) else 0 for i, share in enumerate(given)
    ]
    main = [share - spent for share, spent in zip(given, finding, strict=True)]
    auto = [0] * len(columns)
    for at in sought:
        i = columns[at][0]
        auto[found_with(select, at, known)] += finding[i] // sum(columns[other][0] == i for other in sought)
    if min(given) < least:
        raise SQLError(TOO_SMALL)
    selection = math.floor(each * weight) if own_selection is None else own_selection
    found = frozenset(known), tuple(finding), rows
    of_threshold = selection if hidden else 0
    return Shares(tuple(main), tuple(auto), of_threshold, serving, *found, measured_by=measured_by(select))


def of_rows(select: PrivateSelect, units: int) -> int:
    """Return what of a cost finds how many rows of a unit should count; 0 where that is not to be found."""
    if not select.rows_if_hidden:
        return 0
    functions = [function_of(one.kind) for i, one in enumerate(select.aggregates) if not select.clips(i)]
    drawn = [function for function in functions if not function.by_itself]
    units = units * len(drawn) // len(select.aggregates)
    adds = any(function.adds for function in drawn)
    more = math.sqrt(MANY_GROUPS / select.groups_declared) if adds else 1.0
    return max(math.floor(units * min(OF_ROWS * Fraction(max(more, 1.0)).limit_denominator(100), MOST_OF_ROWS)), 1)


def for_weights(select: PrivateSelect, shares: Shares) -> tuple[Shares, int]:
    """Return shares where a small part of each tells which groups are to be multiplied, and what that costs."""
    main = list(shares.main)
    for i, given in enumerate(shares.finding):
        if select.clips(i) and i not in shares.known:
            main[i] -= (shares.main[i] + given) // OF_WEIGHTS
    spent = sum(shares.main) - sum(main)
    return replace(shares, main=tuple(main), weights=spent), spent


def with_rest(select: PrivateSelect, shares: Shares, rest: Mapping[int, int]) -> Shares:
    """Return shares where what finding bounds did not cost goes to the answers of those that paid for it.

    How much that is follows from noisy numbers, and what is spent is in all what was charged: noise that is chosen by
    what was measured before, so that the costs add up to what was fixed first, is as private as if it was fixed first.

    Parameters
    ----------
    select, shares
        The private aggregation, and what is given for each of its parts.
    rest
        What is left of `auto`, by the numbers of the operands.

    Notes
    -----
    For Gaussian noise this is Smith and Thakurta, Fully adaptive composition for Gaussian differential privacy (2022).
    """
    main, auto, columns = list(shares.main), list(shares.auto), operands(select)
    for first, left in rest.items():
        paid = {columns[at][0] for at in range(len(columns)) if _pays(select, shares, at, first)}
        given = sum(shares.finding[i] for i in paid)
        for i in paid:
            main[i] += left * shares.finding[i] // max(given, 1)
        auto[first] -= left
    return replace(shares, main=tuple(main), auto=tuple(auto))


def whole_of(select: PrivateSelect, shares: Shares, first: int) -> int:
    """Return what a histogram and the answers cost together that are paid for by the same aggregates."""
    columns = operands(select)
    paid = {columns[at][0] for at in range(len(columns)) if _pays(select, shares, at, first)}
    return shares.auto[first] + sum(shares.main[i] for i in paid)


def _pays(select: PrivateSelect, shares: Shares, at: int, first: int) -> bool:
    """Return whether a column's bounds are found from the histogram of another, or of its own."""
    i, operand = operands(select)[at]
    return i not in shares.known and _is_sought(select, i, operand) and found_with(select, at, shares.known) == first


def has_range(select: PrivateSelect, index: int) -> bool:
    """Return whether bounds of an aggregate are those of the values of rows, each of which counts by itself."""
    function = function_of(select.aggregates[index].kind)
    of_values = function.of == "numbers" and (function.operands == 1 or function.paired)
    return select.contribution_of(index).kind == "rows" and of_values and needs_bounds(select, index)


def averages_units(select: PrivateSelect, index: int) -> bool:
    """Return whether an aggregate is an average of what each unit has, which has bounds of its own."""
    return function_of(select.aggregates[index].kind).by_units and needs_bounds(select, index)


@dataclass(frozen=True)
class UnitCosts:
    """What finding the bounds of an average by unit costs.

    Parameters
    ----------
    tries
        Of the magnitudes of the means of units: the second one is measured only where the first one hides them all.
    centre
        Of each of the finer histograms of these, at most.
    away, rows
        Of what values come to beside the centre, and of how many they are, at most.
    """

    tries: tuple[int, ...]
    centre: int
    away: int
    rows: int

    @property
    def alone(self) -> int:
        """What finding what values come to may cost where noise hides the centre, and nothing finer was looked at."""
        return self.away + 2 * self.centre

    @property
    def least(self) -> tuple[int, ...]:
        """What each of them costs at least."""
        return (*self.tries, *(max(most // LEAST_LOCATING, 1) for most in (self.centre, self.away, self.rows)))

    def of_locating(self, units: float, law: Law) -> int:
        """Return what each of the finer histograms costs where about so many units are found."""
        return _enough(self.centre, units, LOCATED, law)

    def of_rows(self, units: float, law: Law) -> int:
        """Return what the histogram of numbers of rows costs then."""
        return _enough(self.rows, units, LOCATED, law)

    def of_away(self, units: float, law: Law) -> int:
        """Return what that of values beside the centre costs, which tells of the tails."""
        return _enough(self.away, units, TOLD_TAILS, law)


def of_units(cost: int) -> UnitCosts:
    """Return what the histograms of an average by unit cost, given what all of them do."""
    first, again, centre, away, rows = (max(math.floor(cost * part), 1) for part in OF_UNITS)
    return UnitCosts((first, again), centre, away, rows)


def _enough(most: int, units: float, part: float, law: Law) -> int:
    """Return the cost of noise that is such a part of the units; at most what there is, and a small part at least."""
    noise = part * max(units, 1.0) / law.tail_ratio
    return max(min(most, math.ceil(UNITS * float(law.cost(noise**-2.0)))), most // LEAST_LOCATING, 1)


def counts_values(select: PrivateSelect, index: int) -> bool:
    """Return whether it is to be found how many different values of a unit count, of what counts these."""
    return function_of(select.aggregates[index].kind).by_itself and needs_bounds(select, index)


def _least(select: PrivateSelect, index: int) -> int:
    """Return the least that an aggregate can cost."""
    function = function_of(select.aggregates[index].kind)
    shared = select.clips(index) and function.centres
    return max(function.least, SHARED_LEAST) if shared else function.least


def _finding(select: PrivateSelect, index: int, share: int, law: Law) -> int:
    """Return what of the share of an aggregate is for finding its bounds.

    Little of a quantile's where they are found inside declared ones: it hardly errs the more, the wider these are.
    """
    inside = select.aggregates[index].inside and function_of(select.aggregates[index].kind).levelled
    if has_range(select, index):
        columns = sum(_is_sought(select, index, one) for one in select.aggregates[index].operands)
        quiet = columns * UNITS * Fraction(law.cost(1 / QUIET_RANGE**2)) / FIRST[-1]
        wanted = max(columns * share * PROFILE, quiet)
        return math.floor(min(wanted, share * (MOST_INSIDE if inside else Fraction(1, 2))))
    if averages_units(select, index):
        quiet = UNITS * Fraction(law.cost(1 / QUIET_RANGE**2)) / FIRST[-1]
        return math.floor(min(max(share * PROFILE, quiet / 2) / OF_AWAY, share * MOST_OF_UNITS))
    if counts_values(select, index):
        return math.floor(min(max(share * PROFILE, Fraction(OF_NEW_VALUES * UNITS, QUIET**2)), share * MOST_OF_VALUES))
    if not select.clips(index):
        return share // 2
    aggregate = select.aggregates[index]
    histograms = 1
    if function_of(aggregate.kind).centres:
        centred = aggregate.operands if function_of(aggregate.kind).paired else (aggregate,)
        histograms = OF_NORMS + OF_VALUES * sum(one.values is None and one.within is None for one in centred)
    times = OF_SQUARES if function_of(aggregate.kind).squares or function_of(aggregate.kind).paired else 1
    return math.floor(min(max(share * PROFILE * times, Fraction(histograms * UNITS, QUIET**2)), Fraction(share, 2)))


def needs_bounds(select: PrivateSelect, index: int, known: Collection[int] = ()) -> bool:
    """Return whether bounds of an aggregate must be found from the data, unless they are known."""
    return index not in known and any(
        _is_sought(select, index, operand) for operand in select.aggregates[index].operands
    )


@dataclass(frozen=True)
class ValueCosts:
    """What histograms cost that values of rows are found with.

    Parameters
    ----------
    tries
        Of magnitudes: each but the first is measured only where the one before hides them all.
    other
        Of each of the others, at most.
    least
        The same where so many units are found that more noise hides nothing.
    spare
        What the last one may cost beside, which tells of the tails, where the first try was enough.
    all_told
        What all of them may cost where that is enough.
    of_sums
        Where the tries hide all, of one of what units add up; 0 where there is none.
    """

    tries: tuple[int, ...]
    other: int
    least: int = 0
    spare: int = 0
    all_told: int = 0
    of_sums: int = 0

    def after_sums(self) -> ValueCosts:
        """Return what the others cost where one of what units add up was measured too: as much less."""
        return replace(self, other=max(self.other - math.ceil(self.of_sums / (OF_VALUES - 1)), 1))

    def of_others(self, units: float) -> int:
        """Return what each of the others costs where about so many units are found."""
        of_units = math.floor(self.other * min(PLANNED_UNITS / max(units, 1.0), 1.0))
        return max(min(self.least, self.other), of_units)

    def of_tails(self, units: float, spent: int, law: Law) -> int:
        """Return what the last one costs, which tells of the tails, where others have cost so much.

        Parameters
        ----------
        units
            About how many units are found.
        spent
            What the others cost.
        law
            Of the noise.
        """
        each = self.of_others(units)
        noise = TOLD_TAILS * max(units, 1.0) / law.tail_ratio
        enough = math.floor(UNITS * float(law.cost(noise**-2.0)))
        return max(each, min(each + min(each, self.spare), max(enough, self.all_told - spent)))

    @property
    def least_locating(self) -> int:
        """What each costs at least that is followed by another one."""
        return max(min(self.least // LEAST_LOCATING, self.other), 1)

    def of_locating(self, units: float, law: Law) -> int:
        """Return what each costs that is followed by another one, where about so many units are found."""
        noise = LOCATED * max(units, 1.0) / law.tail_ratio
        enough = math.floor(UNITS * float(law.cost(noise**-2.0)))
        return max(min(enough, self.of_others(units)), self.least_locating)


def of_values(cost: int, whole: int = 0) -> ValueCosts:
    """Return what the histograms of values cost, the first of which finds them or not, where norms are found too.

    Parameters
    ----------
    cost
        Of all that finds bounds.
    whole
        That, and what the answers cost.
    """
    all_of_them = cost // (OF_VALUES + OF_NORMS) * OF_VALUES
    first = math.floor(cost * FIRST_OF_VALUES)
    other, least = (all_of_them - first) // (OF_VALUES - 1), _least_of(whole, OF_VALUES + OF_NORMS)
    return ValueCosts((first,), other, least, of_sums=first)


def of_norms(cost: int, columns: int = 1) -> int:
    """Return what the histogram of norms costs, with what it has beside, where values are found too.

    It tells by how much units with many rows move a mean: the more units there are, the more that is beside the noise.
    """
    return cost // (OF_VALUES * columns + OF_NORMS) * OF_NORMS


def of_columns(cost: int, columns: int, whole: int = 0) -> ValueCosts:
    """Return `of_values` for each of several columns, where norms are found too for what is left."""
    return of_values(cost // (OF_VALUES * columns + OF_NORMS) * (OF_VALUES + OF_NORMS), whole)


def of_range(cost: int, whole: int = 0) -> ValueCosts:
    """Return the same as `of_values` where rows count one by one, and values are all that is to be found."""
    tries = [math.floor(cost * part) for part in FIRST]
    if not tries[0]:
        tries = [math.floor(cost * sum(FIRST))]
    other = (cost - sum(tries)) // (OF_VALUES - 1)
    # Tails that are hidden cost an answer far more than what this takes from it, above all with Laplace noise.
    spare, all_told = min(sum(tries[1:]), other), math.floor(whole * PROFILE)
    return ValueCosts(tuple(tries), other, _least_of(whole, OF_VALUES), spare, all_told)


def _least_of(whole: int, histograms: int) -> int:
    return max(math.floor(whole * PROFILE / histograms), 1)


def cost_of(select: PrivateSelect, shares: Shares, index: int) -> int:
    """Return what an aggregate may cost, with what those pay that are read off the same measurement."""
    by = shares.measured_by
    return sum(share for share, other in zip(shares.main, by, strict=True) if other == by[index])


def cost_of_finding(select: PrivateSelect, shares: Shares, index: int) -> int:
    """Return what a histogram costs that is for an aggregate, or for several alike."""
    at = next(at for at, (i, _) in enumerate(operands(select)) if i == index)
    return shares.auto[found_with(select, at, shares.known)]


def measured_by(select: PrivateSelect) -> tuple[int, ...]:
    """Return of each aggregate the number of the one from whose measurement it is read off; its own where it has one.

    That is the first one where each could be read off the other. What a threshold uses has a measurement of its own.
    """
    serving = serving_aggregate(select)
    every = [i for i in range(len(select.aggregates)) if i != serving]
    found = list(range(len(select.aggregates)))
    for i in every:
        others = (j for j in every if _read_off(select, i, j) and (j < i or not _read_off(select, j, i)))
        found[i] = next(others, i)
    return tuple(found)


def _read_off(select: PrivateSelect, index: int, other: int) -> bool:
    aggregate, contribution = select.aggregates[index], select.contribution_of(index)
    measured = function_of(aggregate.kind).measured_with(aggregate, select.aggregates[other], contribution)
    return index != other and measured and contribution == select.contribution_of(other)


def operands(select: PrivateSelect) -> list[tuple[int, Aggregate]]:
    """Return the columns that aggregates are of, with the number of the aggregate; only pairs are of several."""
    return [(i, operand) for i, aggregate in enumerate(select.aggregates) for operand in aggregate.operands]


def _is_sought(select: PrivateSelect, index: int, operand: Aggregate) -> bool:
    """Return whether bounds of a column of an aggregate must be found; where pairs are clipped, with the first one."""
    if select.clips(index) and operand is select.aggregates[index].other:
        return False
    return operand.bounds is None and function_of(operand.kind).needs_bounds(select.contribution_of(index))


def found_with(select: PrivateSelect, index: int, known: Collection[int] = ()) -> int:
    """Return the number of the first of `operands` whose bounds are found from the same histogram as those of one."""
    mine, columns = _histogram(select, index), operands(select)
    before = (i for i in range(index) if mine is not None and columns[i][0] not in known)
    return next((i for i in before if _histogram(select, i) == mine), index)


def _histogram(select: PrivateSelect, index: int) -> tuple[bool, bool, str, int | None, int | None] | None:
    """Return what the histogram is of that bounds are found from, and how they are; None where they are known."""
    i, operand = operands(select)[index]
    if not _is_sought(select, i, operand):
        return None
    rows = select.contribution_of(i).kind == "rows" or function_of(operand.kind).rowwise
    rows = rows and not function_of(operand.kind).by_itself
    vectors = select.clips(i) and operand.other is not None  # of pairs of columns
    other = operand.other.input if vectors and operand.other is not None else None
    kind = "rows" if rows and not vectors else operand.kind
    return select.clips(i), has_range(select, i), kind, operand.input, other


def serving_aggregate(select: PrivateSelect) -> int | None:
    """Return the number of the aggregate that counts units anyway, for a threshold to use; None where there is none."""
    if select.selection != "threshold":
        return None
    for i, aggregate in enumerate(select.aggregates):
        bounded = select.contribution_of(i)
        if bounded == select.counted_by and function_of(aggregate.kind).counts_units(aggregate, bounded):
            return i
    return None


def _own(accountant: Accountant, epsilon: Fraction | None) -> int | None:
    return None if epsilon is None else accountant.units(epsilon)


def _passed(select: PrivateSelect, claimed: int, units: int, accountant: Accountant) -> str:
    functions = ", ".join(
        f"{aggregate.words or aggregate.name} {float(aggregate.epsilon):g}"
        for aggregate in select.aggregates
        if aggregate.epsilon is not None
    )
    if select.selection_epsilon is not None:
        functions += f"{', ' if functions else ''}group_selection_epsilon {float(select.selection_epsilon):g}"
    return (
        f"the functions' own epsilons ({functions}) come to {accountant.epsilon(claimed):.6g} together, and the whole "
        f"query has {accountant.epsilon(units):.6g}; lower one of them, or give the query more"
    )


def _nothing_left(select: PrivateSelect, own: list[int | None], units: int, accountant: Accountant) -> str:
    rest = [
        aggregate.words or aggregate.name
        for aggregate, share in zip(select.aggregates, own, strict=True)
        if share is None
    ]
    whose = ", ".join(rest) if rest else "the count of units that decides which groups are shown"
    return (
        f"the functions' own epsilons take all of the query's {accountant.epsilon(units):.6g}, and nothing is left for "
        f"{whose}; lower one of them, or give the query more"
    )
