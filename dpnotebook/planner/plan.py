"""A plan: what a question will cost and how wrong its answer will be, decided before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpnotebook.planner.picked import Picked
from dpnotebook.planner.ski_rental import PurchaseForecast
from dpnotebook.privacy.accountant import Accountant, mu_of_budget, with_thresholds
from dpnotebook.privacy.spend import CellCost
from dpnotebook.query.measurement import Measurement
from dpnotebook.query.question import Accuracy, Question
from dpnotebook.strategy import Strategy
from dpnotebook.views import ShowsCard


@dataclass(frozen=True)
class Cost:
    """What the session pays for a query.

    Parameters
    ----------
    epsilon
        The rise of the session's total, as the epsilon of a query that alone costs as much.
    delta
        The delta at which epsilon is stated; 0 in a pure session.
    units
        The same rise in the accountant's exact units.
    """

    epsilon: float
    delta: float
    units: int


@dataclass(frozen=True)
class BudgetState:
    """The budget around one query, as epsilons and as fractions of the whole.

    Parameters
    ----------
    total, spent, left_after
        The budget, what was spent before the query, and what a single further query could still take after it.
    spent_fraction, cost_fraction
        Shares of the budget in the notion that is enforced (epsilon, or mu^2), in [0, 1].
    delta
        Of the whole budget, thresholds included.
    stated_at
        The delta at which epsilons are said; 0 where they add up.
    """

    total: float
    spent: float
    left_after: float
    spent_fraction: float
    cost_fraction: float
    delta: float = 0.0
    stated_at: float = 0.0

    @classmethod
    def around(cls, accountant: Accountant, spent: int, price: int) -> BudgetState:
        """Return the budget around a query of some price, in units."""
        left = max(accountant.total - spent - price, 0)
        return cls(
            total=accountant.epsilon(accountant.total),
            spent=accountant.epsilon(spent),
            left_after=accountant.epsilon(left),
            spent_fraction=min(spent / accountant.total, 1.0),
            cost_fraction=price / accountant.total,
            delta=with_thresholds(accountant, accountant.threshold_delta),
            stated_at=accountant.delta,
        )

    def share(self, epsilon: float) -> float:
        """Return what part of the whole budget an epsilon takes: costs add up as epsilon, or as mu^2."""
        if not self.stated_at or epsilon <= 0:
            return max(epsilon, 0.0) / self.total
        mu, whole = (mu_of_budget(one, self.stated_at) for one in (epsilon, self.total))
        return (mu / whole) ** 2


FACTORS = (0.5, 2.0, 5.0)  # times the price of a plan: the other prices that it shows


@dataclass(frozen=True)
class Alternative:
    """The same question at another price.

    Parameters
    ----------
    epsilon
        What the query would take.
    error
        Half-width of its interval, worst answer.
    left_after
        What would remain.
    chosen
        Whether this is the plan itself.
    affordable
        Whether the budget allows it.
    """

    epsilon: float
    error: float
    left_after: float
    chosen: bool
    affordable: bool

    @classmethod
    def at(
        cls, accountant: Accountant, spent: int, price: int, error: float, units: int, *, chosen: bool
    ) -> Alternative:
        """Return the alternative of taking `units`, of which the session pays `price`."""
        left = accountant.total - spent - price
        return cls(accountant.epsilon(units), error, accountant.epsilon(max(left, 0)), chosen, left >= 0)

    def within(self, half: float) -> Alternative:
        """Return the same with an error of so much at most."""
        return replace(self, error=min(self.error, half))


@dataclass(frozen=True)
class Planned:
    """A measurement and the noise it will get.

    Parameters
    ----------
    measurement
        What to ask of the data.
    scale
        b of discrete Laplace noise or sigma of Gaussian noise, in the measurement's own integers.
    bits
        The noise lives on a grid of 2^-bits.
    strategy
        What is to be answered from it alone; None where it serves together with others.
    refines
        The release and the place in it of the noisy answers that this makes more accurate, losslessly.
    before
        The scale of the noise that those have.
    group
        The group of disjoint selections that share one price, where Pioneer planned it.
    """

    measurement: Measurement
    scale: Fraction
    bits: int
    strategy: Strategy | None = None
    refines: tuple[int, int] | None = None
    before: Fraction | None = None
    group: str | None = None


MANY_ROWS = 10  # of one unit: the upper end of the range that is shown while nobody knows how many units have


@dataclass(frozen=True)
class PlannedMeasure:
    """One of several measures of a question, or aggregates of a statement, and how wrong its answers will be.

    Parameters
    ----------
    name, words, unit
        Its column, how it is written, and what it is counted in.
    std_error, half_width
        Expected, of the worst answer; NaN while it depends on bounds that are found from the data.
    note
        What that rests on; empty when nothing.
    between
        While it depends on bounds that are found from the data: the half-widths where a unit has one row and where it
        has `MANY_ROWS`, as far as declared bounds tell them. It may have more, and the error is in proportion to that.
    may_be_less
        Whether those are of values at their bounds, so that values well inside them make it less than both.
    hint
        What to write for it to be known beforehand, where neither it nor `between` is; empty where nothing is to say.
    reach
        How far declared values reach, and in words what that is, where `between` is in proportion to how far the values
        of rows do, which is found from the data; None where it is not.
    """

    name: str
    words: str
    unit: str
    std_error: float
    half_width: float
    note: str = ""
    between: tuple[float, float] | None = None
    may_be_less: bool = False
    hint: str = ""
    reach: tuple[float, str] | None = None


def _none() -> None:
    return None


@dataclass(frozen=True, eq=False)
class Comparisons:
    """What a plan can be compared with, each worked out when somebody looks at it: what only runs needs none of it.

    Parameters
    ----------
    prices, otherwise, afresh
        Find what the properties of `Plan` with these names say; `prices` its alternatives.
    """

    prices: Callable[[], Iterable[Alternative]] = tuple
    otherwise: Callable[[], Plan | None] = _none
    afresh: Callable[[], Plan | None] = _none


KEPT = 1.1  # times an error that was asked for, up to which an interval keeps it whose length noise decides on
BESIDE_ERROR = "what bounds take from them comes on top, and intervals that are shown hold both"  # of an error of some


@dataclass(frozen=True)
class Rest:
    """What may be paid after a first look that tells what an error takes.

    Parameters
    ----------
    asked
        The error, as it was asked for.
    epsilon, share
        The most that is paid in all, the first look included: as epsilon, and as a part of the budget.
    sure
        What the error takes by what is declared, as a part of the budget; None where nothing that is declared tells it.
    """

    asked: str
    epsilon: float
    share: float
    sure: float | None = None


ActionKind = Literal["free", "reuse", "refine", "measure", "buy"]


@dataclass(frozen=True)
class Action:
    """One thing that a plan does, in words and numbers.

    Parameters
    ----------
    kind
        "free": past answers are enough. "reuse": they are part of the answer. "refine": an earlier answer is made more
        accurate for the difference in price. "measure": something is asked anew. "buy": a strategy is measured that
        later questions will use too.
    text
        What is done.
    releases
        The numbers of the releases it uses.
    epsilon
        What it costs by itself.
    instead_of
        What measuring it anew would cost, of what is refined; else 0.
    """

    kind: ActionKind
    text: str
    releases: tuple[int, ...] = ()
    epsilon: float = 0.0
    instead_of: float = 0.0


@dataclass(frozen=True, repr=False)
class Plan(ShowsCard):
    """How a question will be answered, what it costs and how wrong it will be; nothing was read to make it.

    Parameters
    ----------
    question, accuracy
        What was asked.
    title, where, unit
        The question in words, its predicate, and what its answer is counted in.
    answers
        Number of rows of the answer.
    cost
        What the session pays; 0 when a recorded release answers the question.
    epsilon, delta, units
        What the query alone costs, before parallel composition and reuse.
    budget
        The budget before and after.
    std_errors
        Expected standard error of every answer, shape (answers,); of the first measure when there are several.
    error
        Half-width of the interval at `confidence`, worst answer.
    confidence
        Probability that an interval holds the exact answer.
    reused
        Numbers of the releases whose answers are used.
    recorded
        Number of the release that answers this very question; None when there is none, or it is not good enough.
    actions
        What is reused, refined, measured and bought, in words and numbers.
    without_reuse
        What it would cost to measure this alone, as if nothing had been asked before.
    alone_before
        What the questions before this one would have cost like that, in units.
    combined
        Whether the answer is the best combination of everything recorded, and not of its own measurement alone.
    own
        Whether what is promised rests on its own measurement alone, so that no combination may fall behind that.
    target
        Variance that every answer must have, in squared integers of the measurement; 0 where it has no such form.
    as_good_as
        Units that a measurement by itself would take to be as good in every answer, where an epsilon was given and
        history made it cheaper; else 0.
    known
        How many releases there were to plan with.
    strategy_prices
        What strategies for later questions were found to cost, by attribute, and what could have been paid then: in
        units. Worked out anew only when much more may be paid.
    kind
        With which questions it shares what is bought for them; None where nothing ever is.
    forecast
        What is expected of the purchase that is made with it; None without one.
    instead
        What the question would have cost in each cell without that purchase; None without one.
    parts
        Its measures, in order, where there are several.
    forbidden
        Why the policy of the session does not allow it; empty where it does, or there is none.
    least_error
        Where the error depends on what is chosen when it runs: the least that `error` may turn out to be; else None.
    affordable
        Whether the budget, and the policy of the session, allow it.
    assumption
        What the expected error assumes beyond the declared domain; empty when nothing.
    warnings, steps
        What a reader should know, and how it is computed, in words.
    code
        The same question as Python.
    noise
        The noise law.
    measurements
        What will be measured; empty when the answer is reused.
    cells
        The cost in every cell.
    picked
        The release that the question may have been picked from, for what it showed; None where there is none.
    prepaid
        The step of running counts that this is, which parts pay for when they are first read; else empty.
    counted
        Which rows of a unit the exact answer is over; empty where it is over all.
    asked_as
        How its error was asked for, where that was relative to the answer and `accuracy` is what was planned for it.
    of_statement
        The epsilon that was given with a statement which measured by itself might have been closer; else None.
    assumed
        How many rows the errors of its means rest on, in all groups, and whether that was a guess; None where there are
        no means, and where somebody said how many rows to assume.
    rest
        What may be paid after it, where it is a first look for an error whose price is not known; else None.
    comparisons
        What it can be compared with.

    Examples
    --------
    >>> from dpnotebook.testing import example_session
    >>> patients = example_session().table("patients")
    >>> plan = patients.count(where="age >= 65", error=25).plan
    >>> plan.error <= 25, round(plan.cost.epsilon, 3), plan.affordable
    (True, 0.117, True)
    >>> release = patients.histogram("sex", error=25).run()
    >>> again = patients.count(error=60).plan  # both sexes together: it follows from that
    >>> again.free, again.reused
    (True, (1,))
    """

    question: Question
    accuracy: Accuracy
    title: str
    where: str
    unit: str
    answers: int
    cost: Cost
    epsilon: float
    delta: float
    units: int
    budget: BudgetState
    std_errors: NDArray[np.float64]
    error: float
    confidence: float
    reused: tuple[int, ...]
    affordable: bool
    assumption: str
    warnings: tuple[str, ...]
    steps: tuple[str, ...]
    code: str
    noise: str
    measurements: tuple[Planned, ...] = field(repr=False)
    cells: CellCost = field(repr=False)
    recorded: int | None = None
    actions: tuple[Action, ...] = ()
    without_reuse: Cost | None = None
    alone_before: int = 0
    combined: bool = False
    own: bool = False
    as_good_as: int = 0
    target: float = 0.0
    known: int = 0
    strategy_prices: Mapping[str, tuple[int, int]] = field(default_factory=dict, repr=False)
    kind: str | None = None
    forecast: PurchaseForecast | None = field(default=None, repr=False)
    instead: CellCost | None = field(default=None, repr=False)
    parts: tuple[PlannedMeasure, ...] = ()
    forbidden: str = ""
    least_error: float | None = None
    picked: Picked | None = None
    prepaid: str = ""
    counted: str = ""
    asked_as: str = ""
    of_statement: float | None = None
    assumed: tuple[float | None, bool] | None = None
    rest: Rest | None = None
    comparisons: Comparisons = field(default=Comparisons(), repr=False)

    @cached_property
    def alternatives(self) -> tuple[Alternative, ...]:
        """The same question at other prices, the cheapest first; this one is among them."""
        return tuple(sorted(self.comparisons.prices(), key=lambda other: other.epsilon))

    @cached_property
    def otherwise(self) -> Plan | None:
        """The same question answered alone, where a strategy is bought with it; with it, where that is offered."""
        return self.comparisons.otherwise()

    @cached_property
    def afresh(self) -> Plan | None:
        """How it would be measured anew, where it may have been picked; None also where no noise could."""
        return self.comparisons.afresh()

    @property
    def bought(self) -> bool:
        """Whether a strategy is bought that later questions will use too."""
        return any(action.kind == "buy" for action in self.actions)

    @property
    def table(self) -> str:
        """Name of the table that is asked."""
        return self.question.table

    @property
    def key(self) -> str:
        """What the ledger calls what is asked."""
        return self.prepaid or self.question.key

    @property
    def free(self) -> bool:
        """Whether recorded releases answer the question at no cost."""
        return not self.measurements

    @property
    def refines(self) -> tuple[tuple[int, int], ...]:
        """The recorded measurements that this makes more accurate: of each, its release and its place in it."""
        return tuple(item.refines for item in self.measurements if item.refines is not None)

    @property
    def threshold_delta(self) -> Fraction:
        """What thresholds take of the delta that is kept for them: nothing, where groups are declared."""
        return Fraction(0)

    @property
    def std_error(self) -> float:
        """Expected standard error of the worst answer."""
        return float(self.std_errors.max(initial=0.0))
