"""About how many values the groups of a private aggregation have, as releases tell: what errors of means depend on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpnotebook.sql.aggregates.catalogue import function_of
from dpnotebook.sql.aggregates.expected import KnownSizes
from dpnotebook.sql.aggregates.function import Sizes
from dpnotebook.sql.aggregates.measuring import Measuring
from dpnotebook.sql.prices import StatementBooks
from dpnotebook.sql.reuse.cover import groups_of
from dpnotebook.sql.reuse.rows import RowsText, read_rows, wider_keys
from dpnotebook.sql.select import ContributionKind, PrivateSelect
from dpnotebook.sql.statement_json import keys_from_json, statement_from_json

KINDS: tuple[ContributionKind, ...] = ("l2", "groups", "rows")
LATEST = 20  # releases of the same rows that are looked at, so that a plan beside a thousand takes no longer


@dataclass(frozen=True)
class _Counted:
    """A release that counted the values of groups.

    Parameters
    ----------
    number
        Of the release.
    column
        SQL of the column whose values were counted; None where all rows were.
    sizes
        How many there are in each group of what is asked, shape (groups,).
    """

    number: int
    column: str | None
    sizes: Sizes


def known_sizes(select: PrivateSelect, books: StatementBooks) -> list[KnownSizes | None]:
    """Return about how many values the groups of each aggregate have, as the latest release that tells it has them.

    Parameters
    ----------
    select, books
        What is asked, and the ledger.

    Returns
    -------
    One for each aggregate; None where its errors do not depend on that, or no release tells.
    """
    wanted = [function_of(aggregate.kind).sized for aggregate in select.aggregates]
    rows = read_rows(select.rows) if any(wanted) else None
    if rows is None:
        return [None] * len(wanted)
    told = list(_counts(select, rows, books))
    found: list[KnownSizes | None] = []
    for aggregate, sized in zip(select.aggregates, wanted, strict=True):
        column = None if aggregate.input is None else rows.inputs[aggregate.input]
        fit = [one for one in told if sized and one.column in (column, None)]
        # The values of the column itself, where they were counted, and not its rows; the latest of these.
        best = max(fit, key=lambda one: (one.column is not None, one.number), default=None)
        found.append(None if best is None else KnownSizes(best.sizes, f"as release #{best.number} has them"))
    return found


def _counts(select: PrivateSelect, rows: RowsText, books: StatementBooks) -> Iterator[_Counted]:
    """Yield what releases of the same rows, or of more of them, counted in the groups of what is asked."""
    alike = [replace(select, contribution=replace(select.contribution, kind=kind)) for kind in KINDS]
    records = {record.number: record for one in alike for key in wider_keys(one) for record in books.records(key)}
    for record in sorted(records.values(), key=lambda record: -record.number)[:LATEST]:
        asked = statement_from_json(record.plan["statement"])
        for place, (released, told) in enumerate(zip(asked.selects, record.details["selects"], strict=True)):
            keys, others = keys_from_json(told["keys"]), read_rows(released.rows)
            groups = None if others is None else groups_of(select, released, keys)
            if not groups or others is None:
                continue
            measured = Measuring.from_json(told["measuring"])
            noisy = np.asarray(record.answers[place], dtype=np.int64).reshape(-1, measured.measured)
            for aggregate, part in zip(released.aggregates, measured.parts, strict=True):
                function = function_of(aggregate.kind)
                counted = function.sizes(measured, part, noisy) if part.found else None
                if counted is None or (function.sized and released.contribution.kind != select.contribution.kind):
                    continue  # means count units, or samples of rows, as these are bounded
                column = None if aggregate.input is None else others.inputs[aggregate.input]
                together = np.array([counted[numbers].sum() for numbers in map(list, groups.values())])
                yield _Counted(record.number, column, np.maximum(together, 1.0))


def assumed(sizes: Sequence[KnownSizes | None], rows: float | None) -> list[KnownSizes | None]:
    """Return known sizes, and about how many rows an average group has where these are not known."""
    usual = None if rows is None else KnownSizes(np.array([max(rows, 1.0)]))
    return [usual if one is None else one for one in sizes]
