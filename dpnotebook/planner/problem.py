"""What a question is planned with: the ledger, what is known, and the ways between which a plan chooses."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

from dpnotebook.planner import marginal_measurement
from dpnotebook.planner.answers import Answers, Expected, Floats, LinearAnswers
from dpnotebook.planner.beside_atoms import BesideAtoms
from dpnotebook.planner.beside_classes import BesideClasses
from dpnotebook.planner.beside_groups import BesideGroups
from dpnotebook.planner.combining import linear_of
from dpnotebook.planner.history import History, StrategyPrice
from dpnotebook.planner.in_closed_form import InClosedForm
from dpnotebook.planner.items import item_of
from dpnotebook.planner.least_squares_state import LeastSquaresState
from dpnotebook.planner.ledger_view import LedgerView
from dpnotebook.planner.plan import Action, Planned
from dpnotebook.planner.pricing import cost_of, units_in, units_of
from dpnotebook.planner.product_terms import ProductTerm
from dpnotebook.planner.ski_rental import GROUP_BYS, Integers, PurchaseForecast, Purchases, Rent, Replaced
from dpnotebook.planner.supposed import Supposed
from dpnotebook.planner.table import TableSchema
from dpnotebook.privacy.laws import Law
from dpnotebook.privacy.spend import CellCost
from dpnotebook.query.question import Question

SPARING = 2  # times the price of a range may be paid for a short piece that leaves other cells more to spare
AT_HAND = 2  # proposals whose outlook is kept: one is looked at again after another turned out not to do

Tried = tuple[Sequence[Planned], bool, Supposed, marginal_measurement.LinearTarget | None]
Beside = BesideAtoms | BesideClasses | BesideGroups | None
LookedAt = tuple[Sequence[Planned], marginal_measurement.LinearTarget, Supposed, Beside]
Words = Callable[[], tuple[tuple[Action, ...], tuple[str, ...]]]


def _alike(one: Sequence[Planned], other: Sequence[Planned]) -> bool:
    """Return whether the same is measured with the same noise: two ways to plan often come to the same."""
    return one is other or (
        len(one) == len(other) and all(map(operator.eq, map(_noise_of, one), map(_noise_of, other)))
    )


def _noise_of(item: Planned) -> tuple[object, ...]:
    return item.scale, item.bits, item.refines, item.before, item.group, item.measurement.key


def unsaid() -> tuple[tuple[Action, ...], tuple[str, ...]]:
    """Return no words."""
    return (), ()


@dataclass(frozen=True)
class Option:
    """One way to answer a question: what is measured, and how wrong the answers are.

    Parameters
    ----------
    items
        What is measured.
    units
        What that alone costs, whatever else was asked.
    std_errors
        Standard error of every answer in its own units, keys in the domain's order; shape (answers,).
    reach
        Half-width of the interval, worst answer; or what works it out.
    words
        Says what it does and how its answer is computed, as `Plan` has it: asked of the way that is taken only.
    reused, recorded, combined, target
        As in `Plan`.
    bought
        How many of the items, the first ones, are bought for later questions too.
    own
        Whether the promise rests on the question's own measurement alone.
    as_good_as, forecast, instead
        As in `Plan`.
    expected
        How wrong each measure will be, where there are several.
    sizes
        Of groups of means the least and the most rows, where releases tell how many each has.
    widths
        Half-widths of the intervals of all answers, where they were worked out as they will be shown.
    """

    items: tuple[Planned, ...]
    units: int
    std_errors: Floats
    reach: float | Callable[[], float]
    words: Words = unsaid
    reused: tuple[int, ...] = ()
    recorded: int | None = None
    combined: bool = False
    target: float = 0.0
    bought: int = 0
    own: bool = False
    as_good_as: int = 0
    forecast: PurchaseForecast | None = None
    instead: CellCost | None = None
    expected: tuple[Expected, ...] = ()
    sizes: tuple[float, float] | None = None
    widths: Floats | None = None

    @cached_property
    def half_width(self) -> float:
        """Half-width of the interval, worst answer."""
        return self.reach() if callable(self.reach) else self.reach


@dataclass(frozen=True)
class PlanningProblem:
    """What stays the same while ways to answer one question are compared.

    Parameters
    ----------
    table, ledger
        What is public about the table; the budget and the record of past answers.
    history
        Least squares over what was recorded.
    question
        One linear measure.
    answer
        How the measure would be answered by itself.
    alone
        That way to answer it.
    asked
        The measure over the atoms of what was recorded.
    planner
        "optimal" or "pioneer".
    buying
        Whether a strategy may be bought, and what is planned is tried out: both take a moment.
    purchases
        Whether a strategy is bought by itself.
    worked_out
        Prices of strategies that are worked out meanwhile, to be recorded with the plan.
    forms
        The measure over atoms, once it was looked for: the same at any accuracy.
    closed
        The measure in closed form, once that was looked for.
    tried
        What was supposed to be measured lately, whether atoms were preferred, and the question beside it.
    looked_at
        The same without another block, if that can be.
    """

    table: TableSchema
    ledger: LedgerView
    history: History
    question: Question
    answer: Answers
    alone: Option
    asked: marginal_measurement.LinearTarget
    planner: str = "optimal"
    buying: bool = True
    purchases: Purchases = "auto"
    worked_out: dict[str, StrategyPrice] = field(default_factory=dict)
    forms: list[marginal_measurement.LinearTarget | None] = field(default_factory=list)
    closed: list[InClosedForm | None] = field(default_factory=list)
    tried: list[Tried] = field(default_factory=list)
    looked_at: list[LookedAt] = field(default_factory=list)

    @property
    def linear(self) -> LinearAnswers:
        """The linear answers that are estimated: of a quantile the cumulative counts."""
        found = linear_of(self.answer)
        assert found is not None
        return found

    @property
    def law(self) -> Law:
        """The law of the noise."""
        return self.ledger.accountant.law

    def price(self, items: Sequence[Planned]) -> int:
        """Return by how many units the session's total would rise."""
        return self.prices(items)[0]

    def prices(self, items: Sequence[Planned]) -> tuple[int, int]:
        """Return by how many units the session's total would rise, and what the items cost whatever was spent."""
        if not items:
            return 0, 0
        cells = cost_of(items, self.table, self.ledger.accountant)
        return self.ledger.price(cells), units_in(cells, self.table)

    def after(self, items: Sequence[Planned]) -> marginal_measurement.LinearTarget | None:
        """Return the question as if some measurements had been made."""
        return self.beside(items, over_atoms=marginal_measurement.tells_together(self.asked))[1]

    def beside(
        self, items: Sequence[Planned], *, over_atoms: bool
    ) -> tuple[Supposed, marginal_measurement.LinearTarget | None]:
        """Return some measurements as if they had been made, and the question beside them: the latest are kept.

        What is proposed is looked at twice, for what it would tell and for what a card would show, and two ways to
        choose it often propose the same.
        """
        for latest, preferred, supposed, found in self.tried:
            # Which of two that are as good is preferred matters only where there are two.
            if _alike(latest, items) and (preferred == over_atoms or self._one_form(supposed)):
                return supposed, found
        also = Supposed(item_of(item, (0, place), None, self.law) for place, item in enumerate(items))
        asked = marginal_measurement.asked_of(self.question, self.history, also, over_atoms=over_atoms)
        # A block of its own takes much room: of these only the latest is kept.
        small = [one for one in self.tried if not isinstance(one[3], marginal_measurement.OverAtoms)]
        self.tried[:] = [(items, over_atoms, also, asked), *small[: AT_HAND - 1]]
        return also, asked

    def quickly_beside(self, items: Sequence[Planned]) -> tuple[Supposed, Beside]:
        """Return some measurements as if they had been made, and the question beside them; None if that takes time."""
        for latest, asked, supposed, quick in self.looked_at:
            if asked is self.asked and _alike(latest, items):
                return supposed, quick
        also = Supposed(item_of(item, (0, place), None, self.law) for place, item in enumerate(items))
        found = marginal_measurement.beside_all(
            self.asked, self.question, self.history, also, lambda: self.beside(items, over_atoms=False)[1]
        )
        self.looked_at[:] = [(items, self.asked, also, found), *self.looked_at[: AT_HAND - 1]]
        return also, found

    def _one_form(self, also: Supposed) -> bool:
        """Return whether what is asked beside some measurements has no closed form over everything."""
        measure = self.question.measures[0]
        return measure.kind != "sum" and not self.history.closed_form(measure.summand, also).whole

    def in_closed_form(self) -> InClosedForm | None:
        """Return the question with what is known about it in closed form; None where nothing is."""
        if not self.closed:
            self.closed.append(marginal_measurement.closed_of(self.question, self.history))
        return self.closed[0]

    def variances_after(self, items: Sequence[Planned]) -> Floats | None:
        """Return the variance of each answer if some measurements had been made; None where it has no such form."""
        quick = self.quickly_beside(items)[1]
        if quick is not None:
            return quick.variances
        after = self.after(items)
        return None if after is None else after.certain().variances

    @property
    def along(self) -> LeastSquaresState | None:
        """What was measured of the one attribute that a single count depends on; None for other questions."""
        measurement = self.linear.measurement
        if not self._counts_along_one:
            return None
        part = ProductTerm(measurement.axes, measurement.where, measurement.operator, 1.0, np.arange(1))
        return self.history.along(part, measurement.summand)

    @property
    def _counts_along_one(self) -> bool:
        measurement = self.linear.measurement
        names = measurement.where.attributes
        return not measurement.axes and len(names) == 1 and measurement.summand.column is None

    @property
    def kind(self) -> str | None:
        """With which questions this one shares what is bought for them: ranges of one attribute, or group-bys."""
        if len(self.question.measures) != 1 or self.question.measures[0].kind != "count":
            return None
        return f"ranges of {self.question.where.attributes[0]}" if self._counts_along_one else GROUP_BYS

    @property
    def rent(self) -> Rent:
        """What questions of its kind have cost since something was bought for them."""
        return Rent() if self.kind is None else self.history.rents.get(self.kind, Rent())

    def credit(self, least: int, bound: Fraction, instead: CellCost | None = None) -> int:
        """Return what the question may cost together with a purchase, in units; see `ski_rental`.

        Parameters
        ----------
        least, instead
            What it would cost without; in each cell too, where what cells have to spare counts.
        bound
            How many times what questions would have cost without purchases all of them may have cost.
        """
        credit = self.rent.credit(least, bound)
        if instead is None or self.kind is None:
            return credit
        return min(credit, self._replaced.credit(self.ledger.spend, instead, bound, self._ahead_elsewhere))

    def credit_along(self, name: str, bound: Fraction, instead: CellCost) -> Integers | None:
        """Return what a range may cost with a purchase at each level of its attribute, in units, shape (levels,).

        None where the spend of levels adds up: there nothing is measured with what cells have to spare.
        """
        if self.ledger.spend.adds is not None:
            return None
        found = self._replaced.credit_along(name, self.ledger.spend, instead, bound, self._ahead_elsewhere)
        return np.broadcast_to(found, (self.table.domain[name].size,))

    @property
    def _replaced(self) -> Replaced:
        """What purchases for questions of its kind took the place of."""
        return Replaced() if self.kind is None else self.history.replaced.get(self.kind, Replaced())

    @property
    def _ahead_elsewhere(self) -> int:
        """By how much purchases for other kinds of questions have made cells dearer, in units."""
        return sum(one.ahead for kind, one in self.history.replaced.items() if kind != self.kind)

    @property
    def alone_errors(self) -> Floats:
        """Standard errors of what is estimated, asked alone."""
        return self.linear.std_errors(self.law, self.alone.items[0].scale)

    @cached_property
    def extra(self) -> int:
        """What may be paid, in units, for measuring less: twice the price, and never behind by more than a purchase."""
        paid = self.ledger.spend.maximum - self.history.dearest
        ahead = self.history.alone_total + self.price(self.alone.items) - paid
        return max(0, min(SPARING * units_of(self.alone.items, self.table, self.ledger.accountant), ahead))
