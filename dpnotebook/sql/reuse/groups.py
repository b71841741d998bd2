"""How large the groups of a private aggregation are, as releases tell: errors of means and quantiles depend on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dpnotebook.sql.aggregates.catalogue import function_of
from dpnotebook.sql.aggregates.counted_rows import kept_of
from dpnotebook.sql.aggregates.function import KnownGroups
from dpnotebook.sql.aggregates.measuring import Measuring
from dpnotebook.sql.prices import StatementBooks
from dpnotebook.sql.reuse.cover import groups_of
from dpnotebook.sql.reuse.outlines import outline
from dpnotebook.sql.reuse.rows import RowsText, read_rows, wider_keys
from dpnotebook.sql.select import Aggregate, ContributionKind, PrivateSelect
from dpnotebook.sql.statement_json import keys_from_json, statement_from_json

KINDS: tuple[ContributionKind, ...] = ("l2", "groups", "rows")
LATEST = 8  # releases of the same rows that are looked at, so that a plan beside a thousand takes no longer


@dataclass(frozen=True)
class _Counted:
    """What a release says of the groups of what is asked.

    Parameters
    ----------
    number
        Of the release.
    column
        SQL of the column whose values it is about; None where it is about all rows.
    groups
        What it says.
    kind
        How what it was read off is bounded: means are of units, or of samples of rows, as these are. None where that is
        no matter.
    """

    number: int
    column: str | None
    groups: KnownGroups
    kind: ContributionKind | None


def known_groups(select: PrivateSelect, books: StatementBooks) -> list[KnownGroups | None]:
    """Return what is known of the groups of each aggregate, by the latest release that tells most.

    Parameters
    ----------
    select, books
        What is asked, and the ledger.

    Returns
    -------
    One for each aggregate; None where its errors do not depend on that, or no release tells.
    """
    functions = [function_of(aggregate.kind) for aggregate in select.aggregates]
    # Vectors of counts and sums may be measured in two layers.
    wanted = [
        function.sized or (select.clips(i) and bool(select.keys) and function.adds)
        for i, function in enumerate(functions)
    ]
    rows = read_rows(select.rows) if any(wanted) else None
    if rows is None:
        return [None] * len(wanted)
    told = list(_counted(select, rows, books))
    found: list[KnownGroups | None] = []
    for i, (aggregate, sized) in enumerate(zip(select.aggregates, wanted, strict=True)):
        columns = (None, *dict.fromkeys((_column(aggregate, rows), _column(replace(aggregate, other=None), rows))))
        if function_of(aggregate.kind).weighted:  # its groups are as large as the weights add up to
            columns = (_column(aggregate, rows),)
        kinds = None, select.contribution_of(i).kind
        fit = [one for one in told if sized and one.column in columns and one.kind in kinds]
        best = max(fit, key=partial(_tells, function_of(aggregate.kind).levelled), default=None)
        found.append(
            None if best is None else replace(best.groups, source=f"groups as release #{best.number} has them")
        )
    return found


def _tells(levelled: bool, one: _Counted) -> tuple[bool, bool, int, int]:
    """Return how much a release tells: of the column and not of all rows, where its values lie, and how late it is.

    In which bins they lie is what counts for aggregates of `levelled` values, and for no other.
    """
    parts = (one.groups.means, one.groups.variances)
    told = 3 * (one.groups.pairs is not None) + sum(not np.isnan(part).any() for part in parts)
    return one.column is not None, levelled and one.groups.binned is not None, told, one.number


def _column(aggregate: Aggregate, rows: RowsText) -> str | None:
    """Return the SQL of the column whose values an aggregate is of, or of both; None where it is of all rows."""
    columns = [rows.inputs[one.input] for one in aggregate.operands if one.input is not None]
    between = " weighted by " if function_of(aggregate.kind).weighted else ", "
    return between.join(columns) or None


def _counted(select: PrivateSelect, rows: RowsText, books: StatementBooks) -> Iterator[_Counted]:
    """Yield what releases of the same rows, or of more of them, say of the groups of what is asked."""
    alike = [replace(select, contribution=replace(select.contribution, kind=kind), apart=None) for kind in KINDS]
    numbers = {told.number for one in alike for key in wider_keys(one) for told in books.told(key, outline)}
    for number in sorted(numbers, reverse=True)[:LATEST]:
        record = books.get(number)
        asked = statement_from_json(record.plan["statement"])
        for place, (released, told) in enumerate(zip(asked.selects, record.details["selects"], strict=True)):
            keys, others = keys_from_json(told["keys"]), read_rows(released.rows)
            groups = None if others is None else groups_of(select, released, keys)
            if not groups or others is None:
                continue
            measured = Measuring.from_json(told["measuring"])
            noisy = np.asarray(record.answers[place], dtype=np.int64).reshape(-1, measured.measured)
            units = np.full(len(noisy), np.nan)
            if measured.counted is not None:
                units = noisy[:, measured.place(measured.counted).start] / measured.one
            for i, (aggregate, part) in enumerate(zip(released.aggregates, measured.parts, strict=True)):
                function = function_of(aggregate.kind)
                known = function.known(measured, part, noisy) if part.found else None
                if known is None:
                    continue
                column = _column(aggregate, others)
                sizes = known.sizes / kept_of(told, i)  # all values, and not those that counted
                known = replace(known, sizes=sizes, units=units).together(list(groups.values()))
                if select.weights is not None:
                    known = replace(
                        known, weighing=np.array(select.weights.of(select.levels, list(groups)), dtype=float)
                    )
                kind = released.contribution_of(i).kind if function.sized else None
                yield _Counted(record.number, column, known, kind)


def assumed(groups: Sequence[KnownGroups | None], rows: float | None) -> list[KnownGroups | None]:
    """Return known groups, and one with about so many rows where these are not known."""
    usual = None if rows is None else KnownGroups.of(np.array([max(rows, 1.0)]))
    return [usual if one is None else one for one in groups]
