"""What a session has spent and what it could still buy, as plain numbers for the dashboard; reads no data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpnotebook.errors import DPError

if TYPE_CHECKING:
    import pandas as pd

    from dpnotebook.session.query import Query
    from dpnotebook.session.session import Session

LEAST = 1e-6  # below this nothing useful can be bought
MOST_TABLES = 4  # for which the dashboard says what can still be afforded
MOST_LEVELS = 2_000  # of an ordered attribute that is asked about for it


@dataclass(frozen=True)
class SpendingStep:
    """The total after a release, as epsilon and as a share of the budget, and what was asked."""

    number: int
    question: str
    epsilon: float
    share: float


@dataclass(frozen=True)
class AttributeSpending:
    """The spend on one attribute: of its dearest and of its cheapest level, as epsilon."""

    table: str
    attribute: str
    most: float
    least: float


@dataclass(frozen=True)
class AffordableError:
    """An error that the rest of the budget could buy: with all of it, and with half its epsilon."""

    table: str
    question: str
    unit: str
    epsilon: float
    error: float
    error_at_half: float


def timeline(session: Session, history: pd.DataFrame | None = None) -> list[SpendingStep]:
    """Return the total after every release, in the order of the ledger."""
    history = session.history() if history is None else history
    accountant = session.ledger.accountant
    units = np.cumsum([entry["units"] for entry in session.ledger.history()], dtype=object)
    return [
        SpendingStep(int(number), str(question), accountant.epsilon(int(total)), int(total) / accountant.total)
        for number, question, total in zip(history["number"], history["question"], units, strict=True)
    ]


def columns(session: Session) -> list[AttributeSpending]:
    """Return the spend of every declared attribute of every protected table."""
    return [
        AttributeSpending(table, attribute, float(np.max(spent)), float(np.min(spent)))
        for (table, attribute), spent in session.spend_by_column().items()
    ]


def offers(session: Session) -> list[AffordableError]:
    """Return what the rest of the budget could buy, by planning a few questions at what is left."""
    left = session.remaining.epsilon
    if left < LEAST:
        return []
    found = []
    for name in list(session.tables()["table"])[:MOST_TABLES]:
        for words, query in _samples(session, name, left):
            try:
                plan = query.plan
                half = query.at(epsilon=left / 2).plan
            except DPError:
                continue  # such a question cannot be asked of this table
            found.append(AffordableError(name, words, plan.unit, left, plan.error, half.error))
    return found


def _samples(session: Session, name: str, epsilon: float) -> Iterator[tuple[str, Query]]:
    protected = session.table(name)
    asked: dict[str, Any] = {"epsilon": epsilon, "fresh": True}
    yield "a count", protected.count(**asked)
    domain = protected.table.domain
    ordered = [column for column in domain.names if domain[column].ordered and domain[column].size <= MOST_LEVELS]
    if ordered:
        widest = max(ordered, key=lambda column: domain[column].size)
        yield f"the cumulative counts of {widest}", protected.cdf(widest, **asked)
        if protected.table.rows is not None and domain[widest].bounds is not None:
            yield f"the mean of {widest}", protected.mean(widest, **asked)
