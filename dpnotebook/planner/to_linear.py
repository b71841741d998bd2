"""What must be measured for each measure of a question, and how its answers follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from dpnotebook.domain import Dates, Domain
from dpnotebook.domain.parts import PART
from dpnotebook.errors import DomainError, WorkloadError, shorten
from dpnotebook.planner.answers import Answers, Floats, LinearAnswers, MeanAnswers, QuantileAnswers
from dpnotebook.planner.partwise import PartwiseAnswers, by_table, check_numbers, check_parts, read_by_part
from dpnotebook.predicate import Predicate
from dpnotebook.privacy.laws import Noise
from dpnotebook.query.measurement import Axis, Measurement, flat_size
from dpnotebook.query.objective import Objective
from dpnotebook.query.question import Measure, Question
from dpnotebook.strategy import Strategy, itself
from dpnotebook.strategy.explicit import Effort
from dpnotebook.strategy.running_laplace import is_running
from dpnotebook.strategy.select import select_own
from dpnotebook.workload import Identity, Kron, Predicates, Prefix, Total, Workload
from dpnotebook.workload.contiguous import Contiguous
from dpnotebook.workload.terms import terms

MAX_CELLS = 10**7  # of one question: 80 MB of counts
EVERYDAY_CELLS = 256  # of an attribute, for which a strategy found in a moment is within 1% of the best
WORST_CELLS = 512  # of one, for which a moment finds the same best worst answer as seconds do
SEARCHED_CELLS = 1024  # of an attribute, for which the best is found in a few seconds
DEFAULT_ROWS = 1000.0  # that the expected error of a mean assumes, and says that it does, unless rows= tells


@dataclass(frozen=True)
class Assumption:
    """What the expected error of a mean rests on, from public knowledge only.

    Parameters
    ----------
    rows
        Rows that the question selects, over all its groups; None when nobody has said.
    value
        The mean that is expected; None for the worst case.
    source
        What tells how many rows there are, in words; empty where somebody has said it.
    guessed
        Whether nobody knows how many of the table's rows satisfy the condition: then no group is taken to have more
        than `DEFAULT_ROWS`.
    """

    rows: float | None = None
    value: float | None = None
    source: str = ""
    guessed: bool = False

    @property
    def said(self) -> bool:
        """Whether somebody says how many rows there are, so that it stays as it is whatever is released."""
        return self.rows is not None and not self.source and not self.guessed

    def rows_in(self, groups: int) -> float:
        """Return how many rows each of so many groups is assumed to have."""
        rows = DEFAULT_ROWS if self.rows is None else self.rows / groups
        return max(min(rows, DEFAULT_ROWS), 1.0) if self.guessed else rows


def to_linear(
    measure: Measure,
    question: Question,
    domain: Domain,
    noise: Noise,
    assumption: Assumption | None = None,
    strategy: Strategy | None = None,
    objective: Objective = "total",
    *,
    hasty: bool = False,
) -> Answers:
    """Return how one measure is answered.

    Parameters
    ----------
    measure
        One of the question's measures.
    question, domain
        What is asked, of which table.
    noise
        The law whose error the strategy is chosen for.
    assumption
        For means.
    strategy
        That of a recorded release, or one that was asked for; None to choose one.
    objective
        What it is chosen for.
    hasty
        Whether it only stands beside the strategy for the worst answer, which is nearly always the better one.

    Raises
    ------
    DomainError
        If the groups have too many cells, or the ranked column has no order.
    WorkloadError
        If a workload does not fit the keys.
    """
    axes = answer_axes(measure, question, domain)
    workload = asked_workload(measure, axes)
    by_part = measure.kind == "workload" and read_by_part(question)
    if by_part:
        check_parts(workload, [axis.size for axis in axes], question.words)
    elif measure.kind != "workload" and workload.shape[0] > MAX_CELLS:
        raise DomainError(
            f"{question.words} has {workload.shape[0]:,} cells; at most {MAX_CELLS:,} can be given. Ask for fewer "
            "attributes together, or restrict them with where="
        )
    given = strategy is not None
    spans = measure.workload is not None and measure.kind in ("sum", "mean")
    if strategy is None and (spans or _disjoint(workload)):
        strategy = itself(workload, noise)  # disjoint counts are a histogram of what they count
    if strategy is None:
        effort = _effort(measure, workload, noise, hasty or objective == "worst")
        strategy = (
            select_own(workload, noise, effort)
            if objective == "total"
            else select_own(workload, noise, effort, objective)
        )
    if by_part:
        strategy = by_table(strategy, question.words, given=given)
    measured = Measurement(strategy.operator, axes, question.rows_of(measure), measure.summand)
    if by_part:
        check_numbers(measured.answers, question.words)
    cells = measured.cells if by_part else max(measured.cells, measured.answers)
    if cells > MAX_CELLS:
        raise DomainError(
            f"{question.words} needs {cells:,} cells; at most {MAX_CELLS:,} can be measured. Ask for fewer attributes "
            "together, or restrict them with where="
        )
    match measure.kind:
        case "mean":
            assumed = assumption or Assumption()
            return MeanAnswers(measured, strategy, assumed.rows_in(workload.shape[0]), assumed.value)
        case "quantile":
            ranked = domain[cast(str, measure.column)]
            lows, highs = ranked.level_bounds()
            kept = tuple((float(lows[level]), float(highs[level])) for level in axes[-1].levels)
            return QuantileAnswers(LinearAnswers(measured, strategy), measure.quantiles, kept)
        case "workload" if by_part:
            return PartwiseAnswers(measured, strategy)
        case _:
            return LinearAnswers(measured, strategy, float(measure.summand.step) if measure.kind == "sum" else 1.0)


def answer_axes(measure: Measure, question: Question, domain: Domain) -> tuple[Axis, ...]:
    """Return the sides of the histogram that a measure needs: the keys, and the column it ranks.

    Keys are in the domain's order whatever order they were asked in, so that it is the same question either way; only
    a workload is over its keys as they stand.
    """
    keys = question.keys if measure.kind == "workload" else sorted(question.keys, key=domain.names.index)
    axes = [Axis(name, allowed_levels(question.where, name, domain)) for name in keys]
    if measure.kind in ("cdf", "quantile"):
        assert measure.column is not None
        ranked = domain[measure.column]
        numbered = ranked.bounds is not None or isinstance(ranked, Dates)
        if not ranked.ordered or (measure.kind == "quantile" and not numbered):
            raise DomainError(
                f"{shorten(measure.column)} is declared as {shorten(ranked)}: a {measure.kind} needs an order; "
                "declare it as Range, Bins or Dates"
            )
        levels = allowed_levels(question.where, measure.column, domain)
        kept = tuple(level for level in levels if level < ranked.regular)
        if not kept:
            raise DomainError(
                f"where= leaves no row with a value of {shorten(measure.column)}: there is nothing to rank"
            )
        axes.append(Axis(measure.column, kept))
    return tuple(axes)


def as_asked(values: Floats, measure: Measure, question: Question, domain: Domain) -> Floats:
    """Return the answers of a measure in the order in which the question has its keys.

    Parameters
    ----------
    values
        One number an answer, shape (answers,), keys in the domain's order.
    measure, question, domain
        What was asked, of which declared domain.
    """
    if measure.kind == "workload" or (question.written is not None and question.written.joint is not None):
        return values
    axes = answer_axes(measure, question, domain)
    ranked = measure.kind in ("cdf", "quantile")
    names = [axis.attribute for axis in axes]
    order = [names.index(name) for name in question.keys]
    sizes = [groups.shape[0] for groups in group_factors(measure, axes[: -1 if ranked else None])]
    if measure.kind == "cdf":
        order, sizes = [*order, len(order)], [*sizes, axes[-1].size]
    sizes = [*sizes, len(measure.quantiles) or 1]
    return values.reshape(sizes).transpose([*order, len(order)]).ravel()


def group_factors(measure: Measure, axes: Sequence[Axis]) -> list[Workload]:
    """Return the groups of a measure along each key: its levels, or longer spans of them."""
    if measure.workload is None:
        return [Identity(axis.size) for axis in axes]
    return list(measure.workload.factors) if isinstance(measure.workload, Kron) else [measure.workload]


def allowed_levels(where: Predicate, name: str, domain: Domain) -> tuple[int, ...]:
    """Return the levels of an attribute that some row satisfying the predicate can have."""
    return where.levels_of(name) if name in where.attributes else tuple(range(domain[name].size))


def parts_read(measurement: Measurement) -> list[int]:
    """Return which parts of a table that grew a measurement reads, from 0, ascending."""
    where = measurement.where
    found = set(allowed_levels(where, PART, where.domain))
    for axis in measurement.axes:
        if axis.attribute == PART:
            found &= set(axis.levels)
    return sorted(found)


def _disjoint(workload: Workload) -> bool:
    """Return whether the queries are counts of disjoint sets of cells, of no common form."""
    parts = terms(workload)
    return (
        len(parts) == 1
        and parts[0].weight == 1
        and any(isinstance(factor, Predicates) for factor in parts[0].factors)
        and all(isinstance(factor, Predicates | Identity | Total) for factor in parts[0].factors)
        and workload.max_column_norm() == 1
    )


def _effort(measure: Measure, workload: Workload, noise: Noise, worst: bool) -> Effort:
    """Return how long to look for a strategy: the same for a verb and for `answer`, unless that takes many seconds.

    A plan is there at once where attributes are small, where a moment finds as good running counts, and where a verb
    asks of more levels than are searched in a few seconds; there running counts and trees are at most some percent
    worse.
    """
    parts = terms(workload)
    if measure.kind != "workload" and any(factor.shape[1] > SEARCHED_CELLS for factor in parts[0].factors):
        return "quick"
    cells = WORST_CELLS if worst else EVERYDAY_CELLS
    everyday = len(parts) == 1 and all(
        (isinstance(f, Contiguous) and f.n <= cells) or is_running(f, noise) for f in parts[0].factors
    )
    return "quick" if everyday else "full"


def number_of_answers(measure: Measure, question: Question, domain: Domain) -> int:
    """Return how many answers a measure of a question has whose errors are promised."""
    return int(asked_workload(measure, answer_axes(measure, question, domain)).shape[0])


def asked_workload(measure: Measure, axes: tuple[Axis, ...]) -> Workload:
    """Return the queries of a measure over the histogram of its axes.

    Raises
    ------
    WorkloadError
        If a workload does not fit the keys.
    """
    if measure.kind == "workload":
        assert measure.workload is not None
        cells = flat_size(axes)
        if measure.workload.shape[1] != cells:
            raise WorkloadError(
                f"the workload is over {measure.workload.shape[1]:,} cells, but "
                f"{' x '.join(axis.attribute for axis in axes) or 'the table'} has {cells:,} "
                f"({' x '.join(str(axis.size) for axis in axes) or 1})"
            )
        return measure.workload
    ranked = measure.kind in ("cdf", "quantile")
    factors = group_factors(measure, axes[: -1 if ranked else None])
    if ranked:
        factors.append(Prefix(axes[-1].size))
    if not factors:
        return Identity(1)
    return factors[0] if len(factors) == 1 else Kron(*factors)
