"""Several questions as one purchase: what one of them tells of another is not paid for twice."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dpnotebook.domain import Domain
from dpnotebook.domain.values import Mask
from dpnotebook.errors import ArgumentError, DPError
from dpnotebook.planner.plan import BudgetState, Plan
from dpnotebook.planner.planner import depends_on_answer
from dpnotebook.planner.to_linear import answer_axes, asked_workload
from dpnotebook.progress import Progress
from dpnotebook.query.question import Accuracy, Measure, Question
from dpnotebook.session.query import Query
from dpnotebook.session.release import Release
from dpnotebook.strategy.select import select_own
from dpnotebook.strategy.strategy import Strategy
from dpnotebook.strategy.worst_case import weighed_again
from dpnotebook.views import ShowsCard
from dpnotebook.workload import Explicit, Identity, Kron, Stack, Total, Workload
from dpnotebook.workload.compose import Weighted

if TYPE_CHECKING:
    import pandas as pd

CONFIDENCE = 0.95  # of the errors of the joint question; those of others are said at it
MOST_APART = 1_000.0  # times the strictest error: one that may be larger costs next to nothing beside it
SAME = 1 + 1e-9  # times an error: what is more by rounding is not
MARGIN = (
    1.01  # times an error that `kappa` tells: sums of few draws of unlike weights reach up to half a percent farther
)
ROUNDS = 3  # times that errors are made finer where they are too coarse, the last time all of them alike
LITTLE = 0.9  # times an error: for one that changes by more, what is measured is looked for anew
LINEAR = ("count", "cdf", "quantile", "workload")


@dataclass(frozen=True, repr=False)
class JointPurchase(ShowsCard):
    """Questions that are expected, planned together: one workload, in which each has the error that it asks for.

    Counts, cumulative counts, quantiles and workloads of one table are measured as one workload, by one strategy with
    one price. After that each of them is answered from it, and costs nothing. Whatever else is asked is priced by
    itself, and so is everything where that costs less.

    Parameters
    ----------
    queries
        What is expected, each with its own accuracy.

    Examples
    --------
    >>> from dpnotebook.testing import example_session
    >>> session = example_session()
    >>> patients = session.table("patients")
    >>> by_sex, by_both = patients.histogram("sex", error=20), patients.crosstab("sex", "income", error=40)
    >>> asked = patients.count(error=20), by_sex, by_both
    >>> purchase = JointPurchase(asked)
    >>> purchase.share < purchase.share_one_by_one
    True
    >>> [len(release.frame) for release in purchase.run()]
    [1, 2, 20]
    >>> all(query.plan.free for query in asked)
    True
    """

    queries: tuple[Query, ...]

    def __post_init__(self) -> None:
        if not all(isinstance(query, Query) for query in self.queries):
            raise ArgumentError("a purchase is of queries, such as patients.dp.count(error=25), before they are run")
        if len({id(query.session) for query in self.queries}) > 1:
            raise ArgumentError("these queries are of different sessions: each has a budget of its own")

    @cached_property
    def plans(self) -> tuple[Plan, ...]:
        """What each question would cost by itself, as the ledger stood when this was made."""
        return tuple(query.session.plan(query) for query in self.queries)

    @cached_property
    def joint(self) -> Mapping[str, Query]:
        """The joint question of each table that has one: where several can be joined, and that costs less."""
        found: dict[str, Query] = {}
        for table, members in self._members().items():
            alone = sum(self.plans[place].cost.units for place in members)
            try:
                query = _joined([self.queries[place] for place in members], alone)
            except DPError:  # such as more cells than can be measured: they are asked one by one
                continue
            if query is not None:
                found[table] = query
        return found

    @cached_property
    def joint_plans(self) -> tuple[Plan, ...]:
        """The plans of the joint questions, as the ledger stood when this was made."""
        return tuple(query.session.plan(query) for query in self.joint.values())

    def is_joined(self, place: int) -> bool:
        """Return whether a question, by its place, is answered from a joint one."""
        return any(table in self.joint and place in members for table, members in self._members().items())

    @property
    def units(self) -> int:
        """What all costs together, in the units of the ledger."""
        alone = sum(plan.cost.units for place, plan in enumerate(self.plans) if not self.is_joined(place))
        return alone + sum(plan.cost.units for plan in self.joint_plans)

    @property
    def units_one_by_one(self) -> int:
        """What the prices of all, each by itself, add up to."""
        return sum(plan.cost.units for plan in self.plans)

    @property
    def share(self) -> float:
        """What part of the budget all costs together."""
        return self.units / self._total

    @property
    def share_one_by_one(self) -> float:
        """What part of the budget the prices of all add up to, each by itself."""
        return self.units_one_by_one / self._total

    @property
    def epsilon(self) -> float:
        """What all costs together, as the epsilon of one query that costs as much."""
        return self._epsilon(self.units)

    @property
    def epsilon_one_by_one(self) -> float:
        """What the prices add up to, as the epsilon of one query that costs as much."""
        return self._epsilon(self.units_one_by_one)

    @property
    def affordable(self) -> bool:
        """Whether the budget allows all of it."""
        return not self.queries or self.units <= self.queries[0].session.ledger.remaining

    @property
    def budget(self) -> BudgetState:
        """The budget as it stands, with nothing bought."""
        ledger = self.queries[0].session.ledger
        return BudgetState.around(ledger.accountant, ledger.spent, 0)

    @property
    def prices(self) -> pd.DataFrame:
        """What each question asks, the error that it will have, its price by itself, and whether it is joined."""
        import pandas as pd

        rows = [
            {
                "question": plan.title,
                "where": plan.where,
                "error": plan.error,
                "unit": plan.unit,
                "alone": plan.cost.epsilon,
                "joined": self.is_joined(place),
            }
            for place, plan in enumerate(self.plans)
        ]
        return pd.DataFrame(rows, columns=["question", "where", "error", "unit", "alone", "joined"])

    def run(self, progress: Progress | None = None) -> list[Release]:
        """Buy all, and return the release of each question; calling it is the consent to spend.

        Raises
        ------
        BudgetExceeded
            If it costs more than is left; what was answered before stays answered.
        """
        _ = self.joint_plans  # the price that was agreed to, before it is paid
        for query in self.joint.values():
            query.run(progress)
        return [query.run(progress) for query in self.queries]

    @property
    def _total(self) -> int:
        return self.queries[0].session.ledger.accountant.total if self.queries else 1

    def _epsilon(self, units: int) -> float:
        return self.queries[0].session.ledger.accountant.epsilon(units) if self.queries else 0.0

    def _members(self) -> dict[str, list[int]]:
        """Return which questions, by their places, can be joined, for each table that has several."""
        found: dict[str, list[int]] = {}
        for place, query in enumerate(self.queries):
            if _linear(query) and not self.plans[place].free:
                found.setdefault(query.question.table, []).append(place)
        return {table: places for table, places in found.items() if len(places) > 1}


def _linear(query: Query) -> bool:
    """Return whether a query is for linear counts of the rows of a single product of levels."""
    asked = query.question
    if not isinstance(asked, Question) or len(asked.measures) != 1 or query.fresh or query.strategy is not None:
        return False
    (measure,) = asked.measures
    joinable = measure.kind in LINEAR and measure.rows is None and not depends_on_answer(asked, query.accuracy)
    if not joinable or len(asked.where.products()) != 1:
        return False
    return _factors(asked, asked.where.domain) is not None


def _joined(queries: Sequence[Query], most: int) -> Query | None:
    """Return the query for all answers of some, each within its own error; None where it costs so many units or more.

    That is known as soon as it costs them with errors that are not fine enough yet.
    """
    session = queries[0].session
    domain: Domain = queries[0].question.where.domain  # type: ignore[union-attr]
    names = _attributes(queries, domain)
    law = session.ledger.accountant.law
    reach = law.kappa(CONFIDENCE)
    targets = [session.plan(query).std_error * reach for query in queries]
    targets = [target if error is None else error for target, error in zip(targets, map(_said, queries), strict=True)]
    blocks = [_block(query.question, names, domain) for query in queries]  # type: ignore[arg-type]
    # A sum of Laplace noise keeps to an error with a larger variance than a single draw: asked again by itself, an
    # answer is held to what any sum may do, so it is measured as finely as that. Other targets are another strategy,
    # which may be coarser elsewhere; all of them finer by one factor are the same one with less noise.
    asked, like = targets, None
    for place in range(ROUNDS + 1):
        made = _asking(queries[0], names, blocks, targets, like)
        like, plan = made.strategy, made.session.plan(made)
        if plan.cost.units >= most:
            return None
        kept = [min(1.0, error / worst) for error, worst in zip(asked, _reached(plan, blocks, reach), strict=True)]
        if all(factor * SAME >= 1 for factor in kept):
            break
        like = like if min(kept) >= LITTLE else None
        kept = kept if place < ROUNDS - 1 else [min(kept)] * len(kept)
        targets = [target * factor for target, factor in zip(targets, kept, strict=True)]
    return made


def _reached(plan: Plan, blocks: Sequence[Workload], reach: float) -> list[float]:
    """Return the error that the worst answer of each block would have, asked again by itself."""
    ends = list(itertools.accumulate(block.shape[0] for block in blocks))[:-1]
    spread = np.asarray(plan.std_errors, dtype=np.float64)
    return [MARGIN * reach * float(each.max()) for each in np.split(spread, ends)]


def _said(query: Query) -> float | None:
    """Return the error that a query asks for, at the confidence of the joint question; None where it says none."""
    accuracy, law = query.accuracy, query.session.ledger.accountant.law
    if accuracy.error is not None:
        return accuracy.error * law.kappa(CONFIDENCE) / law.kappa(accuracy.confidence)
    return None if accuracy.variance is None else float(np.sqrt(accuracy.variance)) * law.kappa(CONFIDENCE)


def _asking(
    like: Query,
    names: tuple[str, ...],
    blocks: Sequence[Workload],
    targets: Sequence[float],
    before: Strategy | None = None,
) -> Query:
    """Return the query for blocks of answers over some attributes, each block within an error.

    Parameters
    ----------
    like
        One of the queries that are joined.
    names, blocks, targets
        The attributes, the answers, and the error of each block.
    before
        The strategy for other errors: for those that differ a little the same operators do, with weights of their own.
    """
    loosest = min(max(targets), MOST_APART * min(targets))
    weights = [max(loosest / target, 1.0) for target in targets]
    parts = [block if weight == 1 else Weighted(weight, block) for block, weight in zip(blocks, weights, strict=True)]
    workload = parts[0] if len(parts) == 1 else Stack(*parts)
    within = tuple((f"question {place}", loosest / weight) for place, weight in enumerate(weights, start=1))
    asked = like.question
    assert isinstance(asked, Question)
    domain = asked.where.domain
    title = f"{len(blocks)} questions together"
    question = Question(
        asked.table, (Measure("workload", workload=workload, asked=title),), names, type(asked.where).everything(domain)
    )
    noise = like.session.ledger.accountant.noise
    again = None if before is None else weighed_again(workload, before)
    return replace(
        like,
        question=question,
        accuracy=Accuracy(error=loosest, confidence=CONFIDENCE, within=within),
        strategy=again or select_own(workload, noise, "quick", "worst"),  # the full search takes seconds
        purchases="never",
        statement=None,
        shown=None,
    )


def _attributes(queries: Iterable[Query], domain: Domain) -> tuple[str, ...]:
    """Return the attributes that some questions are about, in the domain's order."""
    named: set[str] = set()
    for query in queries:
        asked = query.question
        assert isinstance(asked, Question)
        named |= {*asked.keys, *asked.where.attributes}
        named |= {str(measure.column) for measure in asked.measures if measure.column is not None}
    return tuple(name for name in domain.names if name in named) or domain.names[:1]


def _block(question: Question, names: tuple[str, ...], domain: Domain) -> Workload:
    """Return the answers of a question as queries over the cells of some attributes, which have all of its own."""
    factors = _factors(question, domain)
    assert factors is not None
    (box,) = question.where.products()
    return _product([factors.get(name) or _selected(box.get(name), domain[name].size) for name in names])


def _factors(question: Question, domain: Domain) -> dict[str, Workload] | None:
    """Return what a question asks along each of its attributes; None where it is no product of that."""
    (measure,) = question.measures
    axes = answer_axes(measure, question, domain)
    own = asked_workload(measure, axes)
    factors = [] if not axes else list(own.factors) if isinstance(own, Kron) else [own]
    if len(factors) != len(axes):
        return None
    return {
        axis.attribute: _spread(factor, axis.levels, domain[axis.attribute].size)
        for axis, factor in zip(axes, factors, strict=True)
    }


def _selected(mask: Mask | None, size: int) -> Workload:
    """Return the count of the rows at some levels of an attribute; at all, where none are said."""
    return Total(size) if mask is None or np.all(mask) else Explicit(np.asarray(mask, dtype=np.int64)[None, :])


def _spread(factor: Workload, levels: Sequence[int], size: int) -> Workload:
    """Return queries over some levels of an attribute as queries over all."""
    if len(levels) == size:
        return factor
    matrix = np.zeros((factor.shape[0], size), dtype=np.int64)
    matrix[:, list(levels)] = np.eye(len(levels), dtype=np.int64) if isinstance(factor, Identity) else factor.dense()
    return Explicit(matrix)


def _product(factors: Sequence[Workload]) -> Workload:
    return factors[0] if len(factors) == 1 else Kron(*factors)
