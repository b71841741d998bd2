"""How many rows units have, where rows are drawn: a noisy histogram that later statements use for nothing.

Where noise is not Gaussian, what a unit adds cannot be clipped to an L2 norm: some of its rows are drawn at random, and
noise is in proportion to their number. The first statement of some rows measures, with a small share of its cost, how
many units have how many; each statement draws as many as suit its own noise then.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from dpnotebook.privacy.accountant import Accountant
from dpnotebook.privacy.laws import Law
from dpnotebook.sql.aggregates.bounds import histogram_scale
from dpnotebook.sql.aggregates.budget_split import Shares, cost_of, of_rows
from dpnotebook.sql.aggregates.catalogue import function_of
from dpnotebook.sql.aggregates.counted_rows import CountedRows
from dpnotebook.sql.aggregates.noising import Draw
from dpnotebook.sql.aggregates.row_histogram import RowHistogram, row_edges
from dpnotebook.sql.aggregates.units_rows import Addend, Averaged, nearly_best, rows_to_count
from dpnotebook.sql.aggregates.weights_moved import AVERAGED, PAIRED, RANKED
from dpnotebook.sql.known_values import OF_NUMBERS, serves
from dpnotebook.sql.level_texts import dumps, level_texts
from dpnotebook.sql.profile import noise_of_one
from dpnotebook.sql.profile_keys import Books, recorded
from dpnotebook.sql.reuse.rows import read_rows
from dpnotebook.sql.rewrite.profiles import rows_of_units
from dpnotebook.sql.run import Run
from dpnotebook.sql.select import Aggregate, PrivateSelect

USUAL_WORTH = 0.5  # of the largest value, what a row adds to a sum where nobody knows
LEAST_WORTH = 0.25  # the same, where values of either sign are declared


@dataclass(frozen=True)
class KnownRows:
    """A histogram that was measured before.

    Parameters
    ----------
    told
        What it says.
    number
        Of the release that measured it.
    """

    told: RowHistogram
    number: int


def rows_key(select: PrivateSelect) -> str:
    """Return by what is found how many rows units have, whatever is asked of them; or groups, of the same keys."""
    rows = read_rows(select.rows)
    told: list[Any] = [select.rows] if rows is None else [rows.source, sorted(rows.conditions)]
    if select.contribution.kind == "groups":
        keys = [str(place) for place in range(len(select.keys))] if rows is None else rows.key_texts
        levels = [None if key.levels is None else level_texts(key.levels) for key in select.keys]
        told.append(sorted(zip(keys, map(dumps, levels), strict=True)))
    return "profile " + hashlib.sha256(json.dumps(["rows", *told, select.groups]).encode()).hexdigest()


def known_rows(select: PrivateSelect, books: Books) -> KnownRows | None:
    """Return what was measured before of how many rows units have; None where nothing was, or need not be known."""
    if not select.rows_if_hidden:
        return None
    key = rows_key(select)
    found = [
        KnownRows(RowHistogram.from_json(told), record.number)
        for record in books.records(key)
        for told in recorded([record], key)
    ]
    enough = (one for one in found if one.told.most >= select.most_counted)
    return max(enough, key=lambda one: (one.told.end is not None, one.told.units, one.number), default=None)


def is_enough(known: KnownRows, wanted: int, law: Law) -> bool:
    """Return whether a histogram serves where another one could be measured for so many units."""
    return serves(known.told.units, wanted, law, hidden=known.told.end is None, coarser=OF_NUMBERS)


def counted_rows(told: RowHistogram, select: PrivateSelect, costs: Shares, accountant: Accountant) -> CountedRows:
    """Return how many rows of a unit count, of a private aggregation that looks for that.

    Parameters
    ----------
    told
        How many units have how many.
    select, costs, accountant
        What is asked, and what each part of it may cost, which decides about its noise.
    """
    asked = _asked(select, costs, accountant)
    of_groups = select.contribution.kind == "groups"
    found = rows_to_count(told, asked, select.groups_declared, select.most_counted)
    if found is None:
        most = min(select.rows_if_hidden, select.most_counted)
        adds = any(isinstance(one, Addend) for one in asked)
        found = CountedRows(most, hidden=True, unbounded=adds and most < select.most_counted)
    return replace(found, of_groups=True) if of_groups else found


def rows_still_suit(
    known: KnownRows | None, select: PrivateSelect, rows: int, costs: Shares, accountant: Accountant
) -> bool:
    """Return whether rows that were drawn for one price may stay so for another; arguments as for `counted_rows`."""
    if known is None:
        return True
    asked = _asked(select, costs, accountant)
    return nearly_best(known.told, asked, select.groups_declared, select.most_counted, rows)


def measured_rows(
    select: PrivateSelect, costs: Shares, accountant: Accountant, run: Run, draw: Draw
) -> tuple[CountedRows, dict[str, Any]]:
    """Measure how many rows units have; return how many of them count, and what is recorded, by what it is found by.

    Parameters
    ----------
    select, costs, accountant
        As for `counted_rows`.
    run, draw
        Executes a query in DuckDB's SQL; draws noise of a law and a scale.
    """
    most, scale = select.most_counted, histogram_scale(accountant, costs.rows)
    exact = rows_of_units(select, row_edges(most), run)
    noisy = exact + draw(accountant.noise, scale, exact.size)
    told = RowHistogram(most, tuple(map(int, noisy)), scale, accountant.noise, costs.rows)
    return counted_rows(told, select, costs, accountant), {rows_key(select): told.to_json()}


def rows_told(select: PrivateSelect, profile: Mapping[str, Any]) -> RowHistogram | None:
    """Return how many rows units have by a recorded profile; None where that was not measured with it."""
    told = profile.get(rows_key(select)) if select.rows_if_hidden else None
    return None if told is None else RowHistogram.from_json(told)


def rows_sought(select: PrivateSelect, books: Books, units: int, law: Law, *, renew: bool = True) -> KnownRows | None:
    """Return the histogram that a private aggregation of so many units goes by; None where it measures its own.

    Parameters
    ----------
    select, books
        What is asked, and the ledger.
    units, law
        What it costs in all, and the law of its noise.
    renew
        Whether it measures its own where the one that is known is much noisier; never for an error.
    """
    known = known_rows(select, books)
    if known is None or (renew and not is_enough(known, of_rows(select, units), law)):
        return None
    return known


def _asked(select: PrivateSelect, costs: Shares, accountant: Accountant) -> list[Addend | Averaged]:
    """Return what depends on how many rows count, with its noise."""
    found: list[Addend | Averaged] = []
    for i, aggregate in enumerate(select.aggregates):
        function = function_of(aggregate.kind)
        if select.clips(i) or function.by_itself:
            continue
        noise = noise_of_one(cost_of(select, costs, i), accountant)
        if function.adds:
            drawn = select.contribution.kind == "rows"  # of which several may be in one group
            once = select.groups_declared if function.of == "units" and drawn else None
            found.append(Addend(noise, _worth(aggregate), once, function.of == "numbers"))
        else:
            times = RANKED if function.levelled else PAIRED if function.paired else AVERAGED
            found.append(Averaged(noise * times, function.errors_of))
    return found


def _worth(aggregate: Aggregate) -> float:
    """Return what a row adds on average to a count or a sum, in its largest values."""
    if function_of(aggregate.kind).of != "numbers":
        return 1.0
    if aggregate.bounds is None or not any(aggregate.bounds):
        return USUAL_WORTH
    low, high = aggregate.bounds
    middle = abs(low + high) / (2 * max(abs(low), abs(high)))
    return max(float(Fraction(middle)), LEAST_WORTH)
