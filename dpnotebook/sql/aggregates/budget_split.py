"""How the cost of a private aggregation is shared between what it measures."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
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
BESIDE = 12  # parts of that: their means, and what else they have, get so many
OF_MEANS = (4, 1, 1)
FIRST_OF_VALUES = Fraction(1, 5)  # of what finds bounds of means, what the first histogram of values costs
SHARED_LEAST = 100  # units: what finds bounds is half of that at most, and no histogram is for nothing

# Where rows count one by one, the first histogram is of magnitudes, without which nothing is found: it has most of what
# is given for finding bounds, and that is enough for its noise to be no more than this, but for half of all.
FIRST = Fraction(3, 5)
QUIET_RANGE = 10


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
    """

    main: tuple[int, ...]
    auto: tuple[int, ...]
    selection: int = 0
    serving: int | None = None
    known: frozenset[int] = frozenset()

    @property
    def total(self) -> int:
        """What all of it costs."""
        return sum(self.main) + sum(self.auto) + self.selection


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
    serving = serving_aggregate(select)
    hidden = select.selection == "threshold" and serving is None
    own = [_own(accountant, aggregate.epsilon) for aggregate in select.aggregates]
    own_selection = _own(accountant, select.selection_epsilon) if hidden else 0
    claimed = sum(share for share in own if share is not None) + (own_selection or 0)
    if claimed > units:
        raise SQLError(_passed(select, claimed, units, accountant))
    weight = HIDDEN_L2 if select.contribution.kind == "l2" else Fraction(1)
    sharing = sum(share is None for share in own) + (weight if own_selection is None else 0)
    each = math.floor((units - claimed) / Fraction(sharing)) if sharing else 0
    least = max(_least(select, aggregate) for aggregate in select.aggregates)
    if sharing and each < least:
        raise SQLError(_nothing_left(select, own, units, accountant) if claimed else TOO_SMALL)
    given = [each if share is None else share for share in own]
    columns = operands(select)
    sought = [at for at, (i, operand) in enumerate(columns) if i not in known and _is_sought(select, operand)]
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
    return Shares(tuple(main), tuple(auto), selection if hidden else 0, serving, frozenset(known))


def has_range(select: PrivateSelect, index: int) -> bool:
    """Return whether bounds of an aggregate are those of the values of rows, each of which counts by itself."""
    function = function_of(select.aggregates[index].kind)
    of_rows = select.contribution.kind == "rows" and function.of == "numbers" and function.operands == 1
    return of_rows and needs_bounds(select, index)


def _least(select: PrivateSelect, aggregate: Aggregate) -> int:
    """Return the least that an aggregate can cost."""
    function = function_of(aggregate.kind)
    shared = select.contribution.kind == "l2" and function.centres
    return max(function.least, SHARED_LEAST) if shared else function.least


def _finding(select: PrivateSelect, index: int, share: int, law: Law) -> int:
    """Return what of the share of an aggregate is for finding its bounds.

    Little where they are found inside declared ones: these hold where noise hides them.
    """
    inside = select.aggregates[index].within is not None
    if has_range(select, index) and inside:
        return math.floor(share * PROFILE)
    if has_range(select, index):
        quiet = UNITS * Fraction(law.cost(1 / QUIET_RANGE**2)) / FIRST
        return math.floor(min(max(share * PROFILE, quiet), Fraction(share, 2)))
    if select.contribution.kind != "l2":
        return share // 2
    aggregate = select.aggregates[index]
    histograms = 1
    if function_of(aggregate.kind).centres:
        histograms = OF_NORMS + OF_VALUES * (aggregate.values is None and not inside)
    return math.floor(min(max(share * PROFILE, Fraction(histograms * UNITS, QUIET**2)), Fraction(share, 2)))


def needs_bounds(select: PrivateSelect, index: int, known: Collection[int] = ()) -> bool:
    """Return whether bounds of an aggregate must be found from the data, unless they are known."""
    return index not in known and any(_is_sought(select, operand) for operand in select.aggregates[index].operands)


def of_values(cost: int) -> tuple[int, int]:
    """Return what the first histogram of values costs, which finds them or not, and what each of the others does."""
    all_of_them = cost // (OF_VALUES + OF_NORMS) * OF_VALUES
    first = math.floor(cost * FIRST_OF_VALUES)
    return first, (all_of_them - first) // (OF_VALUES - 1)


def of_range(cost: int) -> tuple[int, int]:
    """Return the same where rows count one by one, and values are all that is to be found."""
    first = math.floor(cost * FIRST)
    return first, (cost - first) // (OF_VALUES - 1)


def cost_of(select: PrivateSelect, shares: Shares, index: int) -> int:
    """Return what an aggregate may cost, with what those pay that are read off the same measurement."""
    aggregate = select.aggregates[index]
    read_off = function_of(aggregate.kind).measured_with
    others = (i for i, other in enumerate(select.aggregates) if i != index and read_off(aggregate, other))
    return shares.main[index] + sum(shares.main[i] for i in others)


def operands(select: PrivateSelect) -> list[tuple[int, Aggregate]]:
    """Return the columns that aggregates are of, with the number of the aggregate; only pairs are of several."""
    return [(i, operand) for i, aggregate in enumerate(select.aggregates) for operand in aggregate.operands]


def _is_sought(select: PrivateSelect, operand: Aggregate) -> bool:
    return operand.bounds is None and function_of(operand.kind).needs_bounds(select.contribution)


def found_with(select: PrivateSelect, index: int, known: Collection[int] = ()) -> int:
    """Return the number of the first of `operands` whose bounds are found from the same histogram as those of one."""
    mine, columns = _histogram(select, index), operands(select)
    before = (i for i in range(index) if mine is not None and columns[i][0] not in known)
    return next((i for i in before if _histogram(select, i) == mine), index)


def _histogram(select: PrivateSelect, index: int) -> tuple[str, int | None] | None:
    """Return what the histogram is of that bounds are found from; None where they are known."""
    _, operand = operands(select)[index]
    if not _is_sought(select, operand):
        return None
    rows = select.contribution.kind == "rows" or function_of(operand.kind).rowwise
    return ("rows" if rows else operand.kind), operand.input


def serving_aggregate(select: PrivateSelect) -> int | None:
    """Return the number of the aggregate that counts units anyway, for a threshold to use; None where there is none."""
    if select.selection != "threshold":
        return None
    for i, aggregate in enumerate(select.aggregates):
        if function_of(aggregate.kind).counts_units(aggregate, select.contribution):
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
