"""What statements have found of how much units add, as a table: read off the ledger, at no cost."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from dpnotebook.ledger import Ledger

if TYPE_CHECKING:
    import pandas as pd

    from dpnotebook.sql.profile import Norms
    from dpnotebook.sql.select import PrivateSelect

ROWS, GROUPS = "rows of one unit", "groups of one unit"
COLUMNS = ("release", "table", "statement", "of", "groups", "units", "half", "most", "low", "high")


def profiles(ledger: Ledger, tables: Iterable[str]) -> pd.DataFrame:
    """Return what was found of the norms of units' vectors and of the values of rows, one row for each aggregate.

    Parameters
    ----------
    ledger
        Where it was recorded.
    tables
        Names of protected tables.
    """
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for table in tables:
        for record in ledger.records(table):
            if record.plan.get("profiles"):
                rows += _rows(record.number, table, record.plan, record.details["selects"])
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _rows(number: int, table: str, plan: dict[str, Any], selects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    from dpnotebook.sql.known_values import ranges_told
    from dpnotebook.sql.rows_profile import rows_told
    from dpnotebook.sql.statement_json import statement_from_json
    from dpnotebook.sql.values_profile import new_values_told

    found = []
    for told, select in zip(selects, statement_from_json(plan["statement"]).selects, strict=True):
        if (counted := rows_told(select, told.get("profile", {}))) is not None:
            of = GROUPS if select.contribution.kind == "groups" else ROWS
            known = (number, table, plan["words"], of, select.groups_declared)
            found.append(dict(zip(COLUMNS, (*known, *counted.described, math.nan, math.nan), strict=True)))
        for i, norms in _measured(select, told.get("profile", {})).items():
            units, half, most = norms.described
            aggregate = select.aggregates[i]
            said = (number, table, plan["words"], aggregate.words or aggregate.name, norms.groups, units)
            for low, high in _between(norms):
                found.append(dict(zip(COLUMNS, (*said, half, most, low, high), strict=True)))
        for i, aggregate in enumerate(select.aggregates):
            if (new := new_values_told(select, i, told.get("profile", {}))) is not None:
                of = aggregate.words or aggregate.name
                known = (number, table, plan["words"], of, select.groups_declared)
                found.append(dict(zip(COLUMNS, (*known, *new.told.described, math.nan, math.nan), strict=True)))
        for i, low, high in ranges_told(select, told.get("profile", {})):
            of = select.aggregates[i].words or select.aggregates[i].name
            hidden = (math.nan,) * 4  # nothing is said of units, each row counts by itself
            found.append(dict(zip(COLUMNS, (number, table, plan["words"], of, *hidden, low, high), strict=True)))
    return found


def _between(norms: Norms) -> list[tuple[float, float]]:
    """Return between which values the rows lie whose vectors have these norms; of pairs of columns, of both."""
    from dpnotebook.sql.aggregates.centring import each_of, is_centred_pair

    if norms.values is None:
        return [(math.nan, math.nan)]
    columns = each_of(norms.values) if is_centred_pair(norms.values) else (norms.values,)
    return [(float(low), float(high)) for low, high, *_ in columns]


def _measured(select: PrivateSelect, told: dict[str, Any]) -> dict[int, Norms]:
    from dpnotebook.sql.profile import norms_told

    found = ((i, norms_told(select, i, told)) for i in range(len(select.aggregates)))
    return {i: norms for i, norms in found if norms is not None}
