"""An offer: what all answers of a workload would cost at several accuracies, and how to buy them at one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from dpnotebook.domain.named_workloads import WorkloadRequest
from dpnotebook.errors import AccuracyError
from dpnotebook.planner import marginal_measurement
from dpnotebook.planner.explain import request_code
from dpnotebook.planner.plan import BudgetState, Plan
from dpnotebook.query.objective import Objective
from dpnotebook.query.question import Accuracy
from dpnotebook.views import ShowsCard
from dpnotebook.workload import Workload

if TYPE_CHECKING:
    import pandas as pd

    from dpnotebook.session.query import Query
    from dpnotebook.session.release import Release

SHARES = (0.01, 0.02, 0.05, 0.1, 0.25, 0.5)  # of the budget, whose errors are offered


@dataclass(frozen=True, repr=False)
class Offer(ShowsCard):
    """All answers of a workload at several accuracies: bought once, each of them is free within that error.

    Parameters
    ----------
    asked
        The question, at any accuracy.
    errors
        Half-widths of the interval of the worst answer, at which prices are listed.
    code
        The Python that makes this offer.

    Examples
    --------
    >>> import dpnotebook as dpn
    >>> from dpnotebook.testing import example_session
    >>> offer = example_session().prefetch(dpn.ranges("age"), errors=[100, 200])
    >>> offer.answers
    5050
    >>> offer.prices[["error", "affordable"]]
       error  affordable
    0  100.0        True
    1  200.0        True
    """

    asked: Query = field(repr=False)
    errors: tuple[float, ...]
    code: str

    @property
    def table(self) -> str:
        """Name of the table."""
        return self.asked.question.table

    @property
    def title(self) -> str:
        """What is offered, in words."""
        return self.asked.question.words

    @property
    def where(self) -> str:
        """Which rows, as text; empty when all."""
        return self.asked.question.where_text

    @property
    def answers(self) -> int:
        """Number of answers."""
        return self._plan.answers

    @property
    def unit(self) -> str:
        """What the answers are counted in."""
        return self._plan.unit

    @property
    def _plan(self) -> Plan:
        """The plan of one of the prices: of all it is the same what is asked, and these are worked out anyway."""
        with suppress(AccuracyError):  # such as a price that nobody can be given
            if self.errors:
                return self.listed[self.errors[0]].plan
        return self.asked.plan

    @property
    def confidence(self) -> float:
        """Probability that an interval holds the exact answer."""
        return self.asked.accuracy.confidence

    @cached_property
    def listed(self) -> Mapping[float, Query]:
        """The query of each error that is listed; their plans are kept as long as these are, and the ledger stands."""
        return {error: self.query(error=error) for error in self.errors}

    @property
    def budget(self) -> BudgetState:
        """The budget as it stands, with nothing bought."""
        ledger = self.asked.session.ledger
        return BudgetState.around(ledger.accountant, ledger.spent, 0)

    @property
    def prices(self) -> pd.DataFrame:
        """What each error costs as the ledger stands now: error, epsilon, remaining, affordable."""
        import pandas as pd

        rows = []
        for error in self.errors:
            plan = self.listed[error].plan
            rows.append(
                {
                    "error": error,
                    "epsilon": plan.cost.epsilon,
                    "remaining": plan.budget.left_after,
                    "affordable": plan.affordable,
                }
            )
        return pd.DataFrame(rows, columns=["error", "epsilon", "remaining", "affordable"])

    def query(self, *, error: float | None = None, epsilon: float | None = None) -> Query:
        """Return the query that buys all answers, within an error or for an epsilon.

        Raises
        ------
        AccuracyError
            If not exactly one of the two is given.

        Examples
        --------
        >>> import dpnotebook as dpn
        >>> from dpnotebook.testing import example_session
        >>> offer = example_session().prefetch(dpn.ranges("age"), errors=[100, 200])
        >>> offer.query(error=200).plan.error <= 200
        True
        """
        objective = self.asked.accuracy.objective
        accuracy = Accuracy(epsilon, error, confidence=self.confidence, objective=objective)
        if accuracy.error is None:
            return replace(self.asked, accuracy=accuracy)
        # By variance, so that whatever is combined from the answers later keeps the error as well.
        law = self.asked.session.ledger.accountant.law
        variance = marginal_measurement.target_of(accuracy, 1.0, law, marginal_measurement.LEAST_SCALE * 4)
        if variance <= 0:
            raise AccuracyError(
                f"error={error:g} is finer than combinations of whole numbers can promise; write 1 or more"
            )
        return replace(self.asked, accuracy=replace(accuracy, error=None, variance=variance))

    def buy(self, *, error: float | None = None, epsilon: float | None = None) -> Release:
        """Charge the budget, measure and record; calling it is the consent to spend. Returns all answers.

        Raises
        ------
        BudgetExceeded
            If it costs more than is left; nothing is spent.

        Examples
        --------
        >>> import dpnotebook as dpn
        >>> from dpnotebook.testing import example_session
        >>> session = example_session()
        >>> ranges = session.prefetch(dpn.ranges("age"), errors=[200]).buy(error=200)
        >>> session.table("patients").count(where="18 <= age < 65", error=200).plan.free
        True
        """
        return self.query(error=error, epsilon=epsilon).run()


def errors_for(asked: Query, budget: float) -> tuple[float, ...]:
    """Return the errors that some shares of the budget buy, to two figures, largest first."""
    found: list[float] = []
    objective = asked.accuracy.objective or "worst"  # what is bought within an error is planned for
    for share in SHARES:
        try:
            error = asked.session.plan(
                replace(asked, accuracy=Accuracy(budget * share, objective=objective), fresh=True)
            ).error
        except AccuracyError:
            continue
        rounded = float(f"{error:.2g}")
        if rounded >= 1 and rounded not in found:
            found.append(rounded)
    return tuple(found)


def checked_errors(errors: Sequence[float]) -> tuple[float, ...]:
    """Return errors as numbers above 0.

    Raises
    ------
    AccuracyError
        If there is none, or one is no such number.
    """
    listed = list(errors) if isinstance(errors, (list, tuple)) else [errors]
    if not listed:
        raise AccuracyError("errors= lists half-widths of intervals, such as errors=[10, 25, 50]")
    found = [Accuracy(error=error).error for error in listed]  # type: ignore[arg-type]
    if any(error is None for error in found):
        raise AccuracyError("errors= lists numbers in the answers' own units, such as errors=[10, 25, 50]")
    return tuple(float(error) for error in found if error is not None)


def offer_code(
    workload: Workload | WorkloadRequest,
    on: str | Sequence[str] | None,
    table: str | None,
    where: str | None,
    errors: Sequence[float] | None,
    objective: Objective | None = None,
) -> str:
    """Return the Python that asks a session for an offer."""
    asked = request_code(repr(workload)) if isinstance(workload, WorkloadRequest) else "workload"
    named = {"table": table, "where": where, "errors": errors, "objective": objective}
    options = [f"{name}={value!r}" for name, value in named.items() if value is not None]
    return f"session.prefetch({', '.join([asked, *([repr(on)] if on is not None else []), *options])})"
