"""The planner: from a question, an accuracy and the books to a plan, without touching any data.

It knows the declared domain, the budget and what earlier releases recorded: a plan is a function of the ledger.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from dpnotebook.domain import Domain
from dpnotebook.errors import AccuracyError
from dpnotebook.inference.answers import Answers, Expected, grid_bits
from dpnotebook.measurement import norm_power
from dpnotebook.privacy.accountant import Accountant
from dpnotebook.privacy.spend import CellCost
from dpnotebook.question import Accuracy, Question
from dpnotebook.reuse import words
from dpnotebook.reuse.plan import Alternative, BudgetState, Cost, Plan, Planned
from dpnotebook.reuse.prepare import Assumption, as_asked, prepare
from dpnotebook.reuse.table import Table
from dpnotebook.strategy import Strategy

# Prices beside the chosen one that a plan shows.
FACTORS = (0.5, 2.0, 5.0)


class PastRelease(Protocol):
    """A recorded answer, as the planner sees it."""

    @property
    def number(self) -> int:
        """Its number in the ledger."""

    @property
    def question(self) -> str:
        """The key of its question."""

    @property
    def plan(self) -> Mapping[str, Any]:
        """What was planned, as `plan_to_json` wrote it."""


class Books(Protocol):
    """The read-only side of a ledger."""

    accountant: Accountant

    @property
    def spent(self) -> int:
        """Units spent so far."""

    def price(self, table: str, cost: CellCost) -> int:
        """Return by how many units the total would rise."""

    def records(self, table: str, question: str | None = None) -> Sequence[PastRelease]:
        """Return the recorded answers to a question."""

    def pending(self, table: str) -> Sequence[PastRelease]:
        """Return what was charged and is still to be measured."""


def make_plan(
    question: Question,
    accuracy: Accuracy,
    table: Table,
    books: Books,
    *,
    fresh: bool = False,
    assumption: Assumption | None = None,
    strategy: Strategy | None = None,
    alternatives: bool = True,
) -> Plan:
    """Return how a question will be answered, what that costs and how wrong the answer will be.

    Parameters
    ----------
    question, accuracy
        What is asked, and how good the answer must be or what it may cost.
    table
        What is public about the table.
    books
        The budget and the record of past answers.
    fresh
        Measure anew although a recorded release answers the question.
    assumption
        For means: how many rows and which mean to expect.
    strategy
        What to measure for a workload; None for the best that is found.
    alternatives
        Whether to list other prices: pricing them takes longer than the plan itself.

    Raises
    ------
    AccuracyError
        If the accuracy cannot be planned for, or fits no mechanism.
    DomainError
        If the question cannot be asked of the declared domain.
    """
    accountant = books.accountant
    assumption = assumption or Assumption()
    if assumption.rows is None:
        assumption = Assumption(table.rows, assumption.value)
    _check_accuracy(question, accuracy, table, assumption)
    past = None if fresh else _best_release(question, accuracy, table, books, assumption)
    answers: Sequence[Answers]
    numbers: tuple[int, ...]
    if past is not None:
        number, recorded = past
        answers, units, numbers = recorded.answers, recorded.units, (number,)
        scales = [item.scale for item in recorded.planned]
        planned: tuple[Planned, ...] = ()
        cells, price, shares = CellCost(()), 0, [units]
    else:
        answers = [
            prepare(measure, question, table.domain, accountant.noise, assumption, strategy)
            for measure in question.measures
        ]
        units, shares = _units_for(accuracy, answers, table, accountant)
        scales, numbers = _scales(answers, shares, table, accountant), ()
        planned = tuple(
            Planned(answer.measurement, answer.strategy, scale, grid_bits(accountant.noise, scale))
            for answer, scale in zip(answers, scales, strict=True)
        )
        cells = _cost(answers, scales, table, accountant)
        price = books.price(table.name, cells)
    spent = books.spent
    expected = [
        answer.expected(accountant.noise, scale, accuracy.confidence)
        for answer, scale in zip(answers, scales, strict=True)
    ]
    epsilon = accountant.epsilon(units)
    budget = _budget_state(accountant, spent, price)
    others: tuple[Alternative, ...] = ()
    if alternatives and not numbers:
        others = _alternatives(answers, accuracy, units, shares, expected[0], budget, table, books, spent, price)
    return Plan(
        question=question,
        accuracy=accuracy,
        title=question.words,
        where="" if question.where.is_everything else str(question.where),
        unit=words.unit(question.measures[0]),
        answers=int(expected[0].std_errors.size),
        cost=Cost(accountant.epsilon(price), accountant.delta, price),
        epsilon=epsilon,
        delta=accountant.delta,
        units=units,
        budget=budget,
        std_errors=as_asked(expected[0].std_errors, question.measures[0], question, table.domain),
        error=expected[0].half_width,
        confidence=accuracy.confidence,
        alternatives=others,
        reused=numbers,
        affordable=spent + price <= accountant.total,
        assumption=words.assumption(question, assumption, answers[0]),
        warnings=words.warnings(question, table.domain, assumption, expected[0], epsilon),
        steps=words.steps(table, answers, scales, accountant.noise, numbers),
        code=words.code(question, accuracy),
        noise=accountant.noise,
        measurements=planned,
        cells=cells,
    )


def plan_to_json(plan: Plan) -> dict[str, Any]:
    """Return what the ledger keeps of a plan: enough to measure it again and to read its answers."""
    return {
        "words": plan.title + (f" where {plan.where}" if plan.where else ""),
        "accuracy": plan.accuracy.text,
        "question": plan.question.to_json(),
        "noise": plan.noise,
        "units": plan.units,
        "measures": [
            {"strategy": item.strategy.to_json(), "scale": str(item.scale), "bits": item.bits}
            for item in plan.measurements
        ],
    }


@dataclass(frozen=True)
class Recorded:
    """A plan as the ledger kept it: the question, and for each measure how it is answered, from which noise."""

    question: Question
    units: int
    answers: tuple[Answers, ...]
    planned: tuple[Planned, ...]


def plan_from_json(
    values: Mapping[str, Any],
    domain: Domain,
    question: Question | None = None,
    assumption: Assumption | None = None,
) -> Recorded:
    """Return the plan that `plan_to_json` wrote.

    Parameters
    ----------
    values, domain
        What the ledger kept, and the declared domain of its table.
    question
        The same question with its own names for the measures; the recorded one when None.
    assumption
        For the expected error of means.
    """
    asked = question or Question.from_json(values["question"], domain)
    answers, planned = [], []
    for measure, item in zip(asked.measures, values["measures"], strict=True):
        strategy = Strategy.from_json(item["strategy"])
        answer = prepare(measure, asked, domain, values["noise"], assumption, strategy)
        answers.append(answer)
        planned.append(Planned(answer.measurement, strategy, Fraction(item["scale"]), int(item["bits"])))
    return Recorded(asked, int(values["units"]), tuple(answers), tuple(planned))


def _best_release(
    question: Question, accuracy: Accuracy, table: Table, books: Books, assumption: Assumption
) -> tuple[int, Recorded] | None:
    """Return the most accurate release of the question, recorded or paid for, if it is as good as asked."""
    key = question.key
    waiting = [charge for charge in books.pending(table.name) if charge.question == key]
    found = max([*books.records(table.name, key), *waiting], key=lambda release: release.plan["units"], default=None)
    if found is None:
        return None
    recorded = plan_from_json(found.plan, table.domain, question, assumption)
    if accuracy.epsilon is not None:
        good = recorded.units >= books.accountant.units(accuracy.epsilon)
    else:
        good = all(
            _keeps(accuracy, answer.expected(books.accountant.noise, item.scale, accuracy.confidence))
            for answer, item in zip(recorded.answers, recorded.planned, strict=True)
        )
    return (found.number, recorded) if good else None


def _keeps(accuracy: Accuracy, expected: Expected) -> bool:
    if accuracy.error is not None:
        return expected.half_width <= accuracy.error
    assert accuracy.variance is not None
    return float(np.max(expected.std_errors)) ** 2 <= accuracy.variance * (1 + 1e-12)


def _check_accuracy(question: Question, accuracy: Accuracy, table: Table, assumption: Assumption) -> None:
    """Refuse an error or a variance that cannot be promised for all measures, or without knowing the number of rows."""
    if accuracy.epsilon is not None:
        return
    kinds = {words.unit(measure) for measure in question.measures}
    if len(kinds) > 1:
        raise AccuracyError(
            f"{accuracy.text} cannot hold for {' and '.join(sorted(kinds))} at once; give epsilon=, or ask them apart"
        )
    if any(measure.kind == "mean" for measure in question.measures) and assumption.rows is None:
        raise AccuracyError(
            "the error of a mean depends on the number of rows, which planning does not read; say about how many "
            f"there are with rows= when you protect {table.name!r}, or give epsilon="
        )


def _units_for(
    accuracy: Accuracy, answers: Sequence[Answers], table: Table, accountant: Accountant
) -> tuple[int, list[int]]:
    """Return what the whole query costs, in units, and each measure's share of it.

    An epsilon is shared evenly; for an error or a variance every measure gets what it needs to keep the promise.
    """
    if accuracy.epsilon is not None:
        units = accountant.units(accuracy.epsilon)
        return units, [units // len(answers)] * len(answers)
    shares = [
        _round_up(_least_units(answer, answer.scale_for(accuracy, accountant.noise), table, accountant))
        for answer in answers
    ]
    return sum(shares), shares


def _least_units(answer: Answers, scale: Fraction, table: Table, accountant: Accountant) -> int:
    norm = _norm(answer, table, accountant)
    return max(math.ceil(norm * accountant.rate(scale)) + _rounding(answer, table, accountant), 1000)


def _rounding(answer: Answers, table: Table, accountant: Accountant) -> int:
    """Return by how many units the cost can exceed norm * rate: each of its terms is rounded up by itself."""
    terms = answer.measurement.cost(table.domain, accountant, Fraction(1), table.max_rows).terms
    return max(len(terms) - 1, 0)


def _round_up(units: int) -> int:
    """Round a cost up to four figures: a person reads it, and it costs at most a thousandth more."""
    step = 10 ** max(len(str(units)) - 4, 0)
    return -(-units // step) * step


def _norm(answer: Answers, table: Table, accountant: Accountant) -> int:
    norm = answer.measurement.norm(table.domain, norm_power(accountant.noise))
    return norm * accountant.per_unit(table.max_rows)


def _scales(answers: Sequence[Answers], shares: Sequence[int], table: Table, accountant: Accountant) -> list[Fraction]:
    """Return the least noise that each measure's share of the cost allows."""
    return [
        accountant.scale(max(share - _rounding(answer, table, accountant), 1), _norm(answer, table, accountant))
        for answer, share in zip(answers, shares, strict=True)
    ]


def _cost(answers: Sequence[Answers], scales: Sequence[Fraction], table: Table, accountant: Accountant) -> CellCost:
    return CellCost(
        tuple(
            term
            for answer, scale in zip(answers, scales, strict=True)
            for term in answer.measurement.cost(table.domain, accountant, scale, table.max_rows).terms
        )
    )


def _budget_state(accountant: Accountant, spent: int, price: int) -> BudgetState:
    left = max(accountant.total - spent - price, 0)
    return BudgetState(
        total=accountant.epsilon(accountant.total),
        spent=accountant.epsilon(spent),
        left_after=accountant.epsilon(left),
        spent_fraction=min(spent / accountant.total, 1.0),
        cost_fraction=price / accountant.total,
    )


def _alternatives(
    answers: Sequence[Answers],
    accuracy: Accuracy,
    units: int,
    shares: Sequence[int],
    expected: Expected,
    budget: BudgetState,
    table: Table,
    books: Books,
    spent: int,
    price: int,
) -> tuple[Alternative, ...]:
    accountant = books.accountant
    epsilon = accountant.epsilon(units)
    found = [Alternative(epsilon, expected.half_width, budget.left_after, True, spent + price <= accountant.total)]
    for factor in FACTORS:
        try:
            other = accountant.units(Fraction(repr(float(f"{epsilon * factor:.3g}"))))
            scales = _scales(answers, [max(other * share // units, 1) for share in shares], table, accountant)
            error = answers[0].expected(accountant.noise, scales[0], accuracy.confidence).half_width
        except AccuracyError:  # too little for any noise that can be drawn
            continue
        left = accountant.total - spent - books.price(table.name, _cost(answers, scales, table, accountant))
        found.append(Alternative(accountant.epsilon(other), error, accountant.epsilon(max(left, 0)), False, left >= 0))
    return tuple(sorted(found, key=lambda alternative: alternative.epsilon))
