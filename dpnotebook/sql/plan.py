"""What a statement will cost and how wrong its answers will be, decided before anything runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol

import numpy as np

from dpnotebook.errors import AccuracyError, SQLError
from dpnotebook.privacy.accountant import Accountant
from dpnotebook.privacy.spend import CellCost, Term
from dpnotebook.question import Accuracy
from dpnotebook.reuse.plan import Alternative, BudgetState, Cost, Plan
from dpnotebook.reuse.setting import Books
from dpnotebook.sql.aggregates.building import measuring
from dpnotebook.sql.aggregates.expected import expected, steps, unit, warnings
from dpnotebook.sql.aggregates.measuring import Measuring
from dpnotebook.sql.aggregates.shares import shares
from dpnotebook.sql.statement import PrivateSelect, Relation, Statement

FACTORS = (0.5, 2.0, 5.0)  # prices beside the chosen one that a plan shows
LEAST_UNITS = 1000
DELTA_STEP = 10**24  # the ledger keeps deltas in whole numbers of its inverse
MOST_TRIES = 60


class StatementBooks(Books, Protocol):
    """The ledger, as planning a statement sees it."""

    @property
    def threshold_delta(self) -> Fraction:
        """The part of the budget's delta that is kept for thresholds."""

    @property
    def delta_remaining(self) -> Fraction:
        """What is left of it."""


@dataclass(frozen=True)
class Part:
    """One aggregate of a statement, and how wrong its answers will be.

    Parameters
    ----------
    name, words, unit
        Its column, how it is written, and what it is counted in.
    std_error, half_width
        Expected, of an answer; NaN while it depends on bounds that are found from the data.
    note
        What that rests on; empty when nothing.
    """

    name: str
    words: str
    unit: str
    std_error: float
    half_width: float
    note: str = ""


@dataclass(frozen=True)
class StatementPlan(Plan):
    """A plan whose question is a statement.

    Parameters
    ----------
    parts
        Its aggregates, in order.
    shares
        The units of each private aggregation.
    deltas
        What the threshold of each takes of the delta that is kept for thresholds.
    delta_left
        What is left of that before the statement.
    """

    parts: tuple[Part, ...] = ()
    shares: tuple[int, ...] = ()
    deltas: tuple[Fraction, ...] = ()
    delta_left: Fraction = Fraction(0)

    @property
    def free(self) -> bool:
        """Whether a recorded release answers the statement at no cost."""
        return self.recorded is not None

    @property
    def threshold_delta(self) -> Fraction:
        """What all thresholds take of the delta that is kept for them."""
        return sum(self.deltas, Fraction(0))


@dataclass(frozen=True)
class Priced:
    """Private aggregations at one price, each with what it measures."""

    shares: tuple[int, ...]
    deltas: tuple[Fraction, ...]
    measurings: tuple[Measuring, ...]
    parts: tuple[Part, ...]


def make_statement_plan(
    statement: Statement,
    accuracy: Accuracy,
    relations: Mapping[str, Relation],
    books: StatementBooks,
    *,
    fresh: bool = False,
    rows: float | None = None,
    alternatives: bool = True,
) -> StatementPlan:
    """Return what a statement costs, how wrong its answers will be, and what each private aggregation gets.

    Parameters
    ----------
    statement, accuracy
        What is asked, and how good the answer must be or what it may cost.
    relations
        What is public about the tables.
    books
        The budget and the record of past answers.
    fresh
        Measure anew although a recorded release answers the statement.
    rows
        About how many rows a group has; what the tables say when None.
    alternatives
        Whether to list other prices.

    Raises
    ------
    AccuracyError
        If the accuracy cannot be planned for.
    SQLError
        If groups are not known beforehand and the budget has no delta for them, or shares pass the whole.
    """
    accountant = books.accountant
    rows = _rows(statement, relations) if rows is None else rows
    units = _units_for(statement, accuracy, books, rows)
    past = None if fresh else _recorded(statement, accuracy, units, books, rows)
    if past is not None:
        number, units = past
    priced = price(statement, units, books, accuracy.confidence, rows)
    first = _leading(priced.parts)
    total = sum(priced.shares)
    paid = 0 if past is not None else total
    spent = books.spent
    delta = sum(priced.deltas, Fraction(0))
    affordable = past is not None or (spent + paid <= accountant.total and delta <= books.delta_remaining)
    others: list[Alternative] = []
    if alternatives:
        others = [Alternative.at(accountant, spent, paid, first.half_width, total, True)]
        others += _other_prices(statement, total, accuracy, books, rows)
    return StatementPlan(
        question=statement,  # type: ignore[arg-type]
        accuracy=accuracy,
        title=statement.words,
        where="",
        unit=first.unit,
        answers=_answers(statement.selects[0]),
        cost=Cost(accountant.epsilon(paid), accountant.delta, paid),
        epsilon=accountant.epsilon(total),
        delta=accountant.delta,
        units=total,
        budget=BudgetState.around(accountant, spent, paid),
        std_errors=np.array([first.std_error]),
        error=first.half_width,
        confidence=accuracy.confidence,
        alternatives=tuple(sorted(others, key=lambda other: other.epsilon)),
        reused=() if past is None else (number,),
        affordable=affordable,
        assumption="; ".join(dict.fromkeys(part.note for part in priced.parts if part.note)),
        warnings=_warnings(statement, priced, relations, accuracy.confidence, rows),
        steps=_steps(statement, priced) if past is None else _repeated_steps(number),
        code=f"session.sql({statement.text.strip()!r}, {accuracy.text})",
        noise=accountant.noise,
        measurements=(),
        cells=everywhere(total),
        recorded=None if past is None else number,
        parts=priced.parts,
        shares=priced.shares,
        deltas=priced.deltas,
        delta_left=books.delta_remaining,
    )


def price(
    statement: Statement, units: int, books: StatementBooks, confidence: float, rows: float | None = None
) -> Priced:
    """Return what each private aggregation of a statement gets of a price in units, and the errors that gives."""
    accountant = books.accountant
    parts, measurings, deltas = [], [], []
    split = _split(statement.selects, units, accountant)
    for select, share in zip(statement.selects, split, strict=True):
        delta = threshold_delta(select, share, books)
        measured = measuring(select, shares(select, share, accountant), accountant, delta)
        measurings.append(measured)
        deltas.append(delta)
        for i, (aggregate, error) in enumerate(
            zip(select.aggregates, expected(measured, confidence, rows), strict=True)
        ):
            std_error = float(np.max(error.std_errors)) if error.std_errors.size else math.nan
            words = aggregate.words or aggregate.name
            parts.append(Part(aggregate.name, words, unit(select, i), std_error, error.half_width, error.note))
    return Priced(split, tuple(deltas), tuple(measurings), tuple(parts))


def threshold_delta(select: PrivateSelect, units: int, books: StatementBooks) -> Fraction:
    """Return what the threshold of a private aggregation takes of the delta that is kept for thresholds.

    As much of it as the aggregation takes of the whole budget: so a budget that is not exceeded always has enough.

    Raises
    ------
    SQLError
        If it needs a threshold, and the budget keeps no delta for one.
    """
    if select.selection != "threshold":
        return Fraction(0)
    if not books.threshold_delta:
        unknown = ", ".join(key.name for key in select.keys if key.levels is None) or "these keys"
        raise SQLError(
            f"which groups of {unknown} exist is not known beforehand, and hiding those of few people takes a budget "
            f"with delta: dpn.Budget(epsilon=..., delta=1e-6). Or declare the levels of {unknown} in domain="
        )
    share = min(books.threshold_delta * units / books.accountant.total, books.threshold_delta)
    if select.delta is not None:
        share = min(share, select.delta)
    delta = Fraction(math.floor(share * DELTA_STEP), DELTA_STEP)
    if not delta:
        raise SQLError("the threshold that hides small groups needs a delta above 0; write delta = 1e-7, for example")
    return delta


def everywhere(units: int) -> CellCost:
    """Return a cost that is the same in every cell: a statement may look at any of them."""
    return CellCost((Term(Fraction(units), {}),))


def _split(selects: Sequence[PrivateSelect], units: int, accountant: Accountant) -> tuple[int, ...]:
    """Share a price among private aggregations: as the statement weighs them, else evenly."""
    given = [None if select.epsilon is None else accountant.units(select.epsilon) for select in selects]
    known = [weight for weight in given if weight is not None]
    usual = max(sum(known) // len(known), 1) if known else 1
    weights = [usual if weight is None else weight for weight in given]
    return tuple(units * weight // sum(weights) for weight in weights)


def _units_for(statement: Statement, accuracy: Accuracy, books: StatementBooks, rows: float | None) -> int:
    if accuracy.relative is not None:
        raise AccuracyError(
            f"error='{accuracy.percent}' is planned from past answers, which questions about declared columns have: "
            "for this statement say error= in the answer's own units, or epsilon="
        )
    if accuracy.epsilon is not None:
        return books.accountant.units(accuracy.epsilon)
    aim = accuracy.error if accuracy.error is not None else math.sqrt(accuracy.variance or 0.0)

    def reached(units: int) -> float:
        parts = price(statement, units, books, accuracy.confidence, rows).parts
        if len(kinds := sorted({part.unit for part in parts})) > 1:
            raise AccuracyError(
                f"{accuracy.text} cannot hold for {' and '.join(kinds)} at once; give epsilon=, or ask them apart"
            )
        worst = max(part.half_width if accuracy.error is not None else part.std_error for part in parts)
        if not math.isfinite(worst):
            raise AccuracyError(
                f"{accuracy.text} cannot be planned: "
                + (parts[0].note or "the error is not known beforehand")
                + "; give epsilon= instead"
            )
        return worst

    return _least(reached, aim, books.accountant)


def _least(reached: Reached, aim: float, accountant: Accountant) -> int:
    """Return the least units, rounded up to four figures, whose error is at most `aim`; errors fall as units rise."""
    power = 1 if accountant.noise == "laplace" else 2
    low, high, units = 0, 0, accountant.total
    for _ in range(MOST_TRIES):
        error = reached(units)
        if error <= aim:
            high = units
        else:
            low = units
        if high and high - low <= max(high // 5000, 1):
            break
        guess = round(units * (error / aim) ** power * 1.0001) if aim > 0 else 2 * units
        lowest = max(low + 1, LEAST_UNITS)
        units = max(guess, lowest) if not high else min(max(guess, lowest), max(high - 1, lowest))
        if high and units >= high:
            break
        if units > accountant.total * 10**9:
            raise AccuracyError("no noise that can be drawn keeps this error; ask for a larger one, or give epsilon=")
    step = 10 ** max(len(str(high)) - 4, 0)
    return max(-(-high // step) * step, LEAST_UNITS)


class Reached(Protocol):
    """The error that a price in units buys."""

    def __call__(self, units: int) -> float:
        """Return it."""


def _recorded(
    statement: Statement, accuracy: Accuracy, units: int, books: StatementBooks, rows: float | None
) -> tuple[int, int] | None:
    """Return number and price of the most accurate release of the very statement, if it is as good as asked."""
    key = statement.key
    past = [*books.records(statement.table, key), *(c for c in books.pending(statement.table) if c.question == key)]
    found = [(int(one.plan["units"]), -one.number) for one in past if int(one.plan["units"]) >= units]
    return (-max(found)[1], max(found)[0]) if found else None


def _other_prices(
    statement: Statement, total: int, accuracy: Accuracy, books: StatementBooks, rows: float | None
) -> list[Alternative]:
    accountant, found = books.accountant, []
    for factor in FACTORS:
        try:
            units = accountant.units(Fraction(repr(float(f"{accountant.epsilon(total) * factor:.3g}"))))
            priced = price(statement, units, books, accuracy.confidence, rows)
        except (AccuracyError, SQLError):  # too little for any noise that can be drawn, or for a threshold
            continue
        paid = sum(priced.shares)
        error = _leading(priced.parts).half_width
        found.append(Alternative.at(accountant, books.spent, paid, error, paid, False))
    return found


def _answers(select: PrivateSelect) -> int:
    """Return how many groups there will be; 1 where that is not known beforehand."""
    levels = [key.levels for key in select.keys]
    return math.prod(len(known) for known in levels if known is not None) if None not in levels else 1


def _leading(parts: Sequence[Part]) -> Part:
    """Return the aggregate whose error stands for the statement: the first that is known before it runs."""
    return next((part for part in parts if math.isfinite(part.half_width)), parts[0])


def _rows(statement: Statement, relations: Mapping[str, Relation]) -> float | None:
    """Return about how many rows an average group has, where the owners of the tables have said what tells it."""
    known = [count for name in statement.tables if (count := relations[name].rows) is not None]
    levels = [key.levels for select in statement.selects for key in select.keys]
    if not known or any(level is None for level in levels):
        return None
    return max(known) / math.prod(len(level) for level in levels if level is not None)


def _warnings(
    statement: Statement,
    priced: Priced,
    relations: Mapping[str, Relation],
    confidence: float,
    rows: float | None,
) -> tuple[str, ...]:
    found = []
    for name in statement.tables:
        if lost := relations[name].unowned:
            rows_of = "1 row" if lost == 1 else f"{lost:,} rows"
            found.append(
                f"{rows_of} of {name} without {relations[name].unit} {'belongs' if lost == 1 else 'belong'} to nobody "
                "and cannot count"
            )
    for measured in priced.measurings:
        found += warnings(measured, confidence, rows)
    return tuple(dict.fromkeys(found))


def _steps(statement: Statement, priced: Priced) -> tuple[str, ...]:
    found = []
    for select, measured in zip(statement.selects, priced.measurings, strict=True):
        found += [*select.notes, *steps(measured)]
    if statement.outer is not None:
        found.append("the rest of the statement is worked out from the noisy answers, which costs nothing")
    return tuple(dict.fromkeys(found))


def _repeated_steps(number: int) -> tuple[str, ...]:
    return (f"release #{number} in the ledger answers this statement; nothing is measured and nothing is spent",)


def at_epsilon(statement: Statement, accountant: Accountant) -> tuple[Statement, float | None]:
    """Return a statement without the epsilon that it says itself, and that epsilon; None where it says none.

    Several private aggregations keep theirs as their weights in the whole.
    """
    given = [select.epsilon for select in statement.selects]
    if all(epsilon is None for epsilon in given):
        return statement, None
    if any(epsilon is None for epsilon in given):
        raise SQLError("one of the private queries says its epsilon and another does not: write it in all, or in none")
    total = sum(accountant.units(epsilon) for epsilon in given)
    if len(given) == 1:
        (epsilon,) = given
        assert epsilon is not None
        return replace(statement, selects=(replace(statement.selects[0], epsilon=None),)), float(epsilon)
    return statement, accountant.epsilon(total)


def conflicting(own: float, given: Mapping[str, object]) -> None:
    """Refuse an accuracy that is given beside a statement that says its epsilon.

    Raises
    ------
    AccuracyError
        If one is.
    """
    for name, value in given.items():
        if value is not None and not (name == "epsilon" and value == own):
            raise AccuracyError(
                f"the statement says epsilon = {own:g} in its OPTIONS, and {name}={value!r} is given beside it: leave "
                "one of them out"
            )
