"""A query: a question and an accuracy, asked of a session. Lazy: nothing is spent or read until it runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from numbers import Real
from typing import TYPE_CHECKING, Literal, NoReturn, Protocol, cast

from dpnotebook.errors import AccuracyError, DPError, UnknownVerb, shorten
from dpnotebook.ledger import Ledger
from dpnotebook.planner.plan import Plan
from dpnotebook.planner.prepaid import PrepaidStep
from dpnotebook.planner.ski_rental import Purchases
from dpnotebook.planner.to_linear import Assumption, number_of_answers
from dpnotebook.privacy.budget import Amount, positive
from dpnotebook.progress import Progress, watched
from dpnotebook.query.objective import Objective
from dpnotebook.query.question import Accuracy, Question
from dpnotebook.session.kept_here import KeptHere
from dpnotebook.session.release import Release
from dpnotebook.strategy import Strategy
from dpnotebook.views import ShowsCard, view

if TYPE_CHECKING:
    from dpnotebook.sql.statement import Relation, Statement


COUNTS = ("count", "cdf", "workload")


class SessionProtocol(Protocol):
    """What those who are asked through a session need to know of it; it is `Session` that does all of this."""

    @property
    def ledger(self) -> Ledger:
        """Where charges and answers are recorded."""

    @property
    def remaining(self) -> Amount:
        """What a single further query could still take."""

    @property
    def most_at_once(self) -> float | None:
        """The epsilon that one question may take, as a policy says; None where only the budget bounds it."""

    @property
    def confirm(self) -> str:
        """When a magic asks before it spends: "auto", "always" or "never"."""

    @property
    def confirm_above(self) -> float:
        """Epsilon above which it does, where it is "auto"."""

    def plan(self, query: Query) -> Plan:
        """Return the plan of a query, without reading data."""

    def run(self, query: Query, progress: Progress | None = None) -> Release:
        """Plan, charge, measure, record, reveal."""

    @property
    def relations(self) -> Mapping[str, Relation]:
        """What is public about every table that SQL can name."""

    def sql(
        self,
        statement: str,
        *,
        epsilon: float | None = None,
        error: float | str | None = None,
        variance: float | None = None,
        confidence: float = 0.95,
        fresh: bool = False,
        bounds: Literal["auto", "declared"] | None = None,
    ) -> Query:
        """Return a query for a statement."""

    def on_change(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` after every release; return a function that stops it."""

    def on_close(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` when the session is closed; return a function that stops it."""


@dataclass(frozen=True, eq=False)
class Look:
    """How a query whose price is not known is answered: a first look tells it, and then it is paid.

    Parameters
    ----------
    first
        The query that looks, for a small epsilon.
    most
        The most that is paid in all, in the accountant's units.
    decide
        Gives the query for another accuracy as the ledger stands.
    sure
        What keeps the error for a price that is known beforehand, by what is declared; None where nothing does.
    """

    first: Query
    most: int
    decide: Callable[[Accuracy], Query]
    sure: Query | None = None


@dataclass(frozen=True, repr=False)
class Query(KeptHere, ShowsCard):
    """A question, how accurate its answer must be, and the session that would answer it.

    Parameters
    ----------
    session
        Who pays.
    question, accuracy
        What is asked, of declared columns or by a statement of any form, and how good the answer must be or what it
        may cost.
    fresh
        Measure anew although the ledger has an answer.
    assumption
        For means: what the expected error assumes.
    strategy
        What to measure for a workload; None for the best that is found.
    purchases
        Whether a strategy for later questions may be bought with this one, as in `Session`; None as the session says.
    prepaid
        The step of running counts that it is, which parts pay for when they are first read; else None.
    guard
        Raises where what was asked is no longer what it was; called before anything is charged.
    statement
        The SQL that the question came from: what it calls the answer's columns, and what it works out from them.
    shown
        What is made of the release before it is shown.
    route
        Says as the ledger stands which query answers this one, where that may change: of a statement, the planner or
        the statement by itself.
    look
        The first look that tells what it takes, where that is not known; else None.

    Examples
    --------
    >>> from dpnotebook.testing import example_session
    >>> query = example_session().table("patients").count(where="age >= 65", error=25)
    >>> round(query.plan.cost.epsilon, 3)  # nothing was spent, nothing read
    0.117
    >>> query.run().value
    350.0
    """

    session: SessionProtocol = field(repr=False)
    question: Question | Statement
    accuracy: Accuracy
    fresh: bool = False
    assumption: Assumption = field(default_factory=Assumption)
    strategy: Strategy | None = field(default=None, repr=False)
    purchases: Purchases | None = field(default=None, kw_only=True)
    prepaid: PrepaidStep | None = field(default=None, repr=False, kw_only=True)
    guard: Callable[[], None] | None = field(default=None, repr=False, compare=False)
    statement: Statement | None = field(default=None, repr=False)
    shown: Callable[[Release], Release] | None = field(default=None, repr=False, compare=False)
    route: Callable[[Query], Query] | None = field(default=None, repr=False, compare=False, kw_only=True)
    look: Look | None = field(default=None, repr=False, compare=False, kw_only=True)

    def _elsewhere(self) -> str:
        """Return what to write instead of pickling it."""
        return "Ask it there, of a session on the same ledger: what was answered costs nothing"

    if not TYPE_CHECKING:  # a type checker knows what is here

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_"):
                raise AttributeError(name)
            _not_run(name)

        def __getitem__(self, key: object) -> NoReturn:
            _not_run("frame")

        def __float__(self) -> NoReturn:
            _not_run("value")

        def __add__(self, other: object) -> NoReturn:
            _not_run("value")

        __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __add__
        __lt__ = __le__ = __gt__ = __ge__ = __add__

    @property
    def plan(self) -> Plan:
        """What the query costs and how wrong its answer will be, as the ledger stands now; reads no data."""
        return self.session.plan(self)

    def run(self, progress: Progress | None = None) -> Release:
        """Charge the budget, measure, record, and return the release; calling it is the consent to spend.

        Parameters
        ----------
        progress
            Called with a fraction and what is being done, from the calling thread.

        Raises
        ------
        BudgetExceeded
            If it costs more than is left; nothing is spent.
        PolicyError
            If the policy of the session does not allow it; nothing is spent.
        FrameChanged
            If the protected frame was modified; nothing is spent.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> query = example_session().table("patients").count(where="age >= 65", error=25)
        >>> release = query.run()
        >>> release.value, round(release.paid, 3)
        (350.0, 0.117)
        >>> query.run().paid  # the same question again
        0.0
        """
        if progress is not None:
            return self.session.run(self, progress)
        with watched() as report:
            return self.session.run(self, report)

    def at(
        self,
        *,
        epsilon: float | None = None,
        error: float | str | None = None,
        variance: float | None = None,
        confidence: float | None = None,
        objective: Objective | None = None,
    ) -> Query:
        """Return the same question at another accuracy (exactly one of epsilon, error, variance; error may be "5%").

        The confidence and the objective stay as they were said, unless given.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> query = example_session().table("patients").count(where="age >= 65", error=25)
        >>> [round(query.at(error=error).plan.cost.epsilon, 3) for error in (10, 25, 50)]
        [0.284, 0.117, 0.059]
        """
        joint = self.accuracy.together
        confidence = (joint or self.accuracy.confidence) if confidence is None else confidence
        objective = self.accuracy.objective if objective is None else objective
        accuracy = Accuracy(epsilon, cast("float | None", error), variance, confidence, objective=objective)
        look = None if accuracy.error is None else self.look
        other = replace(self, accuracy=accuracy, look=look)
        return other if joint is None else other.simultaneous()

    def simultaneous(self) -> Query:
        """Return the same query with intervals that all hold at once, and an error that all answers keep at once.

        Of many answers the one that stands out is likely to be one whose noise is large: its interval by itself misses
        far more often than its confidence says. `release.simultaneous()` widens the intervals of what was measured;
        this plans for them, so that an `error=` holds for all answers together.

        Raises
        ------
        AccuracyError
            If the answers are no counts, whose number is not known, or too many.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> query = example_session().table("patients").histogram("age", error=25)
        >>> [round(one.plan.cost.epsilon, 3) for one in (query, query.simultaneous())]
        [0.117, 0.298]
        """
        if self.accuracy.together is not None:
            return self
        if not isinstance(self.question, Question) or any(one.kind not in COUNTS for one in self.question.measures):
            raise AccuracyError(
                "errors that all answers keep at once are planned for counts; release.simultaneous() gives "
                "intervals of other answers that hold at once"
            )
        domain = self.question.where.domain
        answers = sum(number_of_answers(measure, self.question, domain) for measure in self.question.measures)
        return replace(self, accuracy=self.accuracy.of_all(answers))

    def routed(self) -> Query:
        """Return the query that answers this one as the ledger stands now: mostly itself.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> query = example_session().sql("SELECT COUNT(*) AS n FROM patients", epsilon=0.1)
        >>> query.routed() is query
        True
        """
        return self if self.route is None else self.route(self)

    def _ipython_display_(self) -> None:
        view("query", self)

    def without_purchase(self) -> Query:
        """Return the same query answered alone: no strategy for later questions is bought with it.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> query = example_session().table("patients").count(where="age >= 65", error=25).without_purchase()
        >>> query.plan.bought
        False
        """
        return replace(self, purchases="never")

    def with_purchase(self) -> Query:
        """Return the same query with the strategy for later questions that is bought where that pays.

        It is what a session with `purchases="offer"` offers on the card; elsewhere every query is planned like this.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> query = example_session().table("patients").count(where="age >= 65", error=25).with_purchase()
        >>> query.plan.bought  # nothing was asked yet that tells what comes
        False
        """
        return replace(self, purchases="auto")

    def assuming(self, *, rows: float | None = None, value: float | None = None) -> Query:
        """Return the same query, its plan made for about `rows` rows and a mean near `value`; nothing else changes.

        Raises
        ------
        AccuracyError
            If `rows` is not a number above 0, or `value` not a finite number.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> query = example_session().table("patients").mean("age", epsilon=0.2)
        >>> query.assuming(rows=100).plan.error > query.assuming(rows=1000).plan.error
        True
        """
        number = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
        if value is not None and not number:
            raise AccuracyError(f"value= is the mean that you expect, a finite number; not {shorten(value)}")
        if rows is not None and positive(rows, "rows") < 1:
            raise AccuracyError(f"rows= is about how many rows there are: 1 or more, not {shorten(rows)}")
        return replace(self, assumption=Assumption(None if rows is None else float(rows), value))


def is_free(query: Query) -> bool:
    """Return whether a query costs nothing as the ledger stands; one that cannot be planned does not."""
    try:
        return bool(query.plan.free)
    except DPError:
        return False


def _not_run(name: str) -> NoReturn:
    """Raise UnknownVerb for what a query has not got: perhaps its release has."""
    if name in (*dir(Release), *(one.name for one in fields(Release))):
        raise UnknownVerb(f"a query has no {name} before it is run: query.run().{name}")
    there = "plan, run, at, simultaneous, assuming, with_purchase and without_purchase"
    raise UnknownVerb(f"a query has no {shorten(name)[1:-1]}; it has {there}, and query.run() answers it")
