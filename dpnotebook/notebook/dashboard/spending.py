"""What a session has spent and what it could still buy, as plain numbers for the dashboard; reads no data."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpnotebook.errors import DPError
from dpnotebook.notebook import formatting
from dpnotebook.privacy.spend import same_slices

if TYPE_CHECKING:
    from dpnotebook.privacy.accountant import Accountant
    from dpnotebook.session.query import Query
    from dpnotebook.session.session import Session

ACCURACY = re.compile(r"error=([0-9.e+-]+)|error='([0-9.]+%)'|variance=([0-9.e+-]+)")
LEAST = 1e-6  # below this nothing useful can be bought
MOST_ASKED = 8  # questions whose price is said again
MOST_TABLES = 4  # for which the dashboard says what can still be afforded
MOST_CELLS = 8  # kinds of cells that are listed, the dearest
MOST_LEVELS = 2_000  # of an ordered attribute that is asked about for it


@dataclass(frozen=True)
class SpendingStep:
    """The total after a release in units, and what was asked."""

    number: int
    question: str
    units: int
    accountant: Accountant

    @property
    def epsilon(self) -> float:
        """The total as epsilon; with delta it takes a search, which only those that are shown are worth."""
        return self.accountant.epsilon(self.units)

    @property
    def share(self) -> float:
        """The total as a share of the budget."""
        return self.units / self.accountant.total


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


@dataclass(frozen=True)
class LevelSpending:
    """The spend on the dearest cell of one level of an attribute, as epsilon."""

    level: str
    epsilon: float


@dataclass(frozen=True)
class CellSpending:
    """What cells have paid that are alike in all that was charged, as epsilon; which, in words, and how many they are.

    `cells` counts those of the attributes that some charge told apart.
    """

    table: str
    words: str
    cells: int
    epsilon: float


@dataclass(frozen=True)
class AskedPrice:
    """What measuring a question that was asked costs, as accurately as it was asked for, and how often that still fits.

    Parameters
    ----------
    number
        Of the last release of it.
    table, question, accuracy
        What was asked, and how accurately, in words.
    epsilon
        The price of measuring such a question by itself.
    times
        How many of these the rest of the budget pays for, one after the other.
    """

    number: int
    table: str
    question: str
    accuracy: str
    epsilon: float
    times: int


def timeline(session: Session) -> list[SpendingStep]:
    """Return the total after every release, in the order of the ledger."""
    charges, accountant = session.charges, session.ledger.accountant
    totals = itertools.accumulate(charge.units for charge in charges)
    return [
        SpendingStep(charge.number, charge.words, total, accountant)
        for charge, total in zip(charges, totals, strict=True)
    ]


def columns(session: Session) -> list[AttributeSpending]:
    """Return the spend of every declared attribute of every protected table."""
    return [
        AttributeSpending(table, attribute, float(np.max(spent)), float(np.min(spent)))
        for (table, attribute), spent in session.spend_by_column().items()
    ]


def levels(session: Session, table: str, attribute: str) -> list[LevelSpending]:
    """Return the spend on every level of an attribute, the dearest first, equal ones in the order of the domain."""
    spent = session.spend_by_column()[table, attribute]
    labels = session.table(table).table.domain[attribute].labels
    order = np.argsort(-spent, kind="stable")
    return [LevelSpending("missing" if labels[i] is None else str(labels[i]), float(spent[i])) for i in order]


def cells(session: Session, most: int = MOST_CELLS) -> list[CellSpending]:
    """Return the dearest cells of all tables, those that have paid alike together, the dearest first."""
    accountant, found = session.ledger.accountant, []
    for name in session.tables()["table"]:
        spend, domain = session.ledger.spend(name), session.table(name).table.domain
        paid, classes = spend.cells, []
        for axis, attribute in enumerate(spend.axes):
            _, firsts, index = np.unique(same_slices(paid, axis), return_index=True, return_inverse=True)
            paid = paid.take(firsts, axis=axis)
            classes.append(index.reshape(-1)[spend.labels.get(attribute, slice(None))])
        for flat in np.argsort(-paid, axis=None, kind="stable")[:most]:
            place = np.unravel_index(flat, paid.shape)
            masks = {attribute: label == at for attribute, label, at in zip(spend.axes, classes, place, strict=True)}
            words = [
                f"{domain.label_of(attribute)} {domain[attribute].describe(mask)}"
                for attribute, mask in masks.items()
                if not mask.all()
            ]
            units = spend.everywhere + int(paid[place])
            if units:
                many = math.prod(int(mask.sum()) for mask in masks.values())
                found.append(CellSpending(name, " · ".join(words), many, accountant.epsilon(units)))
    return sorted(found, key=lambda one: -one.epsilon)[:most]


def asked_prices(session: Session, most: int = MOST_ASKED) -> list[AskedPrice]:
    """Return what the questions that were asked last would cost by themselves, each at the accuracy of its last time.

    It is worked out from the ledger alone; whether such a question can be answered for less, its plan says.
    """
    accountant, found = session.ledger.accountant, {}
    left = max(accountant.total - session.ledger.spent, 0)
    for charge in reversed(session.charges):
        key = charge.question, charge.accuracy
        if charge.alone > 0 and key not in found:
            epsilon = accountant.epsilon(charge.alone)
            said = accuracy_in_words(charge.accuracy) or f"for ε {formatting.cost(epsilon)}"
            found[key] = AskedPrice(charge.number, charge.table, charge.words, said, epsilon, left // charge.alone)
        if len(found) == most:
            break
    return list(found.values())


def accuracy_in_words(written: str) -> str:
    """Return an accuracy as the ledger keeps it in words: `error=25` is `within ±25`; empty for one by its price."""
    match = ACCURACY.match(written)
    if match is None:
        return ""
    error, percent, variance = match.groups()
    if percent:
        return f"within {percent}"
    return f"within ±{formatting.rounded(float(error))}" if error else f"variance {formatting.rounded(float(variance))}"


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
            if math.isfinite(plan.error) and math.isfinite(half.error):  # of many rows a person no error is known yet
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
