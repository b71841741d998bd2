"""Steps that are paid for before they are measured: what a part of a table costs in all steps that will read it.

Running counts are a matrix of queries, measured row by row as parts arrive. All rows together cost what the columns of
the matrix say (`Measurement.cost`), and whoever charges the whole column of a part before the first of its noise is
drawn has charged every row for it. What that takes to be true is held here: all steps of one key are rows of one
matrix, of the same cells and with the same noise, each is measured once for it, and none before the one before it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dpnotebook.errors import LedgerConflict, shorten
from dpnotebook.planner.ledger_view import LedgerView
from dpnotebook.planner.plan import BudgetState, Comparisons, Cost, Plan, Planned
from dpnotebook.planner.pricing import cost_of, units_in
from dpnotebook.planner.table import TableSchema
from dpnotebook.privacy.spend import CellCost


@dataclass(frozen=True)
class PrepaidStep:
    """One row of a matrix of queries that parts pay for column by column.

    Parameters
    ----------
    key
        Which row of which matrix: the name under which it is charged.
    before
        The key of the row before it; None of the first.
    scale
        Of its noise.
    pays
        What the parts that it is the first to read are charged for: all rows, of these parts; empty if there are none.
    """

    key: str
    before: str | None
    scale: Fraction
    pays: tuple[Planned, ...]


def prepaid_plan(
    plan: Plan,
    step: PrepaidStep,
    table: TableSchema,
    ledger: LedgerView,
    *,
    charged: Sequence[int],
    answered: Sequence[int],
    follows: bool,
) -> Plan:
    """Return the plan of a step, from that of its query measured by itself.

    Parameters
    ----------
    plan
        Of the same query, as if nothing was paid or known.
    step, table, ledger
        The step, what is public about the table, and what is recorded.
    charged, answered
        The numbers of the charges that were made for the step, and of those that have an answer or will get one.
    follows
        Whether the step before it has an answer.

    Raises
    ------
    LedgerConflict
        If it has none.
    """
    accountant = ledger.accountant
    law = accountant.law
    (own,) = plan.measurements
    item = replace(own, scale=step.scale, bits=law.grid_bits(step.scale))
    std_error = math.sqrt(law.count_variance(step.scale)) / math.sqrt(law.count_variance(own.scale)) * plan.std_errors
    error = float(law.farthest(np.array([std_error.max()]), plan.confidence, 1.0, float(step.scale))[0])
    items: tuple[Planned, ...] = ()
    if answered:
        cells, words = CellCost(()), f"measured as release {answered[0]}"
    elif not follows:
        raise LedgerConflict(
            f"the steps of a running count of {shorten(table.name)} are measured one after another, and the one before "
            "this has no answer: .run() of the running count measures all that are missing"
        )
    elif charged:  # what it was paid for before is gone, with its noise
        cells, items = cost_of((item,), table, accountant), (item,)
        words = f"release {charged[0]} can no longer be measured, so this step is paid for once more"
    else:
        cells, items = cost_of(step.pays, table, accountant) if step.pays else CellCost(()), (item,)
        words = (
            "a part that is read for the first time pays at once for all steps up to the horizon; others have paid"
            if step.pays
            else "all parts that it reads have paid for it"
        )
    price, units = ledger.price(cells), units_in(cells, table)
    return replace(
        plan,
        cost=Cost(accountant.epsilon(price), accountant.delta, price),
        epsilon=accountant.epsilon(units),
        units=units,
        budget=BudgetState.around(accountant, ledger.spent, price),
        std_errors=std_error,
        error=error,
        reused=tuple(answered[:1]),
        recorded=answered[0] if answered else None,
        affordable=ledger.spent + price <= accountant.total,
        steps=(*plan.steps, words),
        measurements=items,
        cells=cells,
        actions=(),
        without_reuse=None,
        own=False,
        target=0.0,
        kind=None,
        prepaid=step.key,
        comparisons=Comparisons(),
    )
