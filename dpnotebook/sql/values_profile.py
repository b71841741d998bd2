"""How many different values units have, where these are counted: two noisy numbers that later statements use again.

The first statement that counts different values of some rows finds, with a small share of its cost, how many units have
how many of them, and how many of these are new. Each statement counts as many of a unit as suit its own noise then.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from dpnotebook.privacy.accountant import Accountant
from dpnotebook.privacy.laws import Law
from dpnotebook.sql.aggregates.bounds import histogram_scale
from dpnotebook.sql.aggregates.budget_split import (
    OF_NEW_VALUES,
    Shares,
    cost_of,
    cost_of_finding,
    counts_values,
)
from dpnotebook.sql.aggregates.builder import Bounds
from dpnotebook.sql.aggregates.distinct_values import MOST_VALUES, STEP
from dpnotebook.sql.aggregates.new_values import NewValues
from dpnotebook.sql.aggregates.noising import Draw
from dpnotebook.sql.aggregates.row_histogram import RowHistogram, row_edges
from dpnotebook.sql.bounded_sums import Component
from dpnotebook.sql.known_values import OF_NUMBERS, serves
from dpnotebook.sql.profile import Clip, noise_of_one
from dpnotebook.sql.profile_keys import Books, most_precise, values_key
from dpnotebook.sql.rewrite.bounded_aggregation import totals
from dpnotebook.sql.rewrite.different_values import matched, matching_sql, values_of_units
from dpnotebook.sql.run import Run
from dpnotebook.sql.select import PrivateSelect
from dpnotebook.sql.statement import Statement


@dataclass(frozen=True)
class KnownNewValues:
    """How many different values of a unit should count, as was found before: what `KnownValues` is for their bounds."""

    found: NewValues

    @property
    def units(self) -> int:
        """What it cost, in the accountant's units."""
        return self.found.units

    def is_enough(self, wanted: int, law: Law) -> bool:
        """Return whether it serves where it could be found anew for so many units; see `KnownValues`."""
        return serves(self.units, wanted, law, hidden=self.found.told.end is None, coarser=OF_NUMBERS)

    def clip(self, select: PrivateSelect, index: int, costs: Shares, accountant: Accountant) -> Clip:
        """Return how many values of a unit count, as suits what the aggregate may cost, and how many are missed."""
        return chosen(self.found, select, cost_of(select, costs, index), accountant)


def with_one_value(statement: Statement) -> Statement:
    """Return a statement in which one value of each unit counts, as in earlier versions where nobody said how many."""
    selects = []
    for select in statement.selects:
        aggregates = (
            replace(one, bounds=(Fraction(0), Fraction(1)), bounds_from="declared", values=None, by_itself=False)
            if counts_values(select, i)
            else one
            for i, one in enumerate(select.aggregates)
        )
        words = (one.words or one.name for i, one in enumerate(select.aggregates) if counts_values(select, i))
        said = [f"{each}: one value of each unit counts at most, as when this was paid for" for each in words]
        drawn = "; ".join([*filter(None, [select.drawn]), *said])
        selects.append(replace(select, aggregates=tuple(aggregates), drawn=drawn))
    return replace(statement, selects=tuple(selects))


def finds_values(statement: Statement) -> bool:
    """Return whether it is found for a statement how many different values of a unit count."""
    return any(counts_values(select, i) for select in statement.selects for i in range(len(select.aggregates)))


def chosen(found: NewValues, select: PrivateSelect, cost: int, accountant: Accountant) -> Clip:
    """Return how many values of a unit count, and how many are missed then, for a cost in the accountant's units."""
    counted, missed = found.to_count(noise_of_one(cost, accountant), _groups(select))
    return Clip((Fraction(0), Fraction(counted)), missed)


def _groups(select: PrivateSelect) -> int | None:
    """Return over how many groups the values that are missed are shared out; None where nothing is declared."""
    return None if None in select.levels else select.groups_of(select.levels)


def known_new_values(select: PrivateSelect, books: Books) -> dict[int, KnownNewValues]:
    """Return what was found before of how many different values units have, by the numbers of the aggregates.

    Parameters
    ----------
    select, books
        The private aggregation, and the ledger.
    """
    found = {
        i: most_precise(books, values_key(select, aggregate), NewValues.from_json)
        for i, aggregate in enumerate(select.aggregates)
        if counts_values(select, i)
    }
    return {i: KnownNewValues(one) for i, one in found.items() if one is not None}


def still_suit(
    select: PrivateSelect, books: Books, index: int, bounds: Bounds | None, costs: Shares, accountant: Accountant
) -> bool:
    """Return whether as many values of a unit may count for another price as did for the one of a release."""
    known = known_new_values(select, books).get(index)
    if known is None or bounds is None:
        return True
    noise = noise_of_one(cost_of(select, costs, index), accountant)
    return known.found.suits(noise, _groups(select), int(bounds[1]))


def measured_new_values(
    select: PrivateSelect,
    shares: Shares,
    accountant: Accountant,
    wanted: Collection[int],
    secret: str,
    run: Run,
    draw: Draw,
) -> tuple[dict[int, Clip], dict[str, Any]]:
    """Measure how many different values units have, and how many of them are new.

    Parameters
    ----------
    select, shares, accountant
        What is asked, what each part of it costs, and the law of the noise.
    wanted
        The numbers of the aggregates.
    secret
        By which units are drawn into groups.
    run, draw
        Executes a query in DuckDB's SQL; draws noise of a law and a scale.

    Returns
    -------
    How many values of a unit count, by the number of the aggregate, and what is recorded, by what it is found by.
    """
    found: dict[int, Clip] = {}
    told: dict[str, Any] = {}
    for i in wanted:
        aggregate = select.aggregates[i]
        assert aggregate.input is not None
        most = MOST_VALUES if aggregate.values is None else min(MOST_VALUES, int(aggregate.values[1]))
        each = cost_of_finding(select, shares, i) // OF_NEW_VALUES
        scale, wider = histogram_scale(accountant, each), accountant.scale(each, STEP**accountant.law.power)
        exact = values_of_units(select, aggregate.input, row_edges(most), run)
        counts = exact + draw(accountant.noise, scale, exact.size)
        more = _second_values(select, aggregate.input, secret, run) + int(draw(accountant.noise, wider, 1)[0])
        histogram = RowHistogram(most, tuple(map(int, counts)), scale, accountant.noise, each)
        new = NewValues(histogram, more, wider)
        told[values_key(select, aggregate)] = new.to_json()
        found[i] = chosen(new, select, cost_of(select, shares, i), accountant)
    return found, told


def _second_values(select: PrivateSelect, column: int, secret: str, run: Run) -> int:
    """Return how many more values are counted where each unit stands for two of its own than where it does for one."""
    one, two = (Component("matched", column, Fraction(0), Fraction(n), Fraction(1), n) for n in (1, STEP))
    if select.keys:
        counts = totals(select, [one, two], run, secret).numbers
        return int(counts[:, 1].sum() - counts[:, 0].sum())
    found = run(matching_sql(select, two, secret))  # without groups nobody is drawn, and both read the same rows
    return int(matched(found)[1].sum() - matched(found, 1)[1].sum())


def new_values_told(select: PrivateSelect, index: int, profile: Mapping[str, Any]) -> NewValues | None:
    """Return what a recorded profile tells of the different values of units; None where that is not in it."""
    if not counts_values(select, index):
        return None
    told = profile.get(values_key(select, select.aggregates[index]))
    return None if told is None else NewValues.from_json(told)
