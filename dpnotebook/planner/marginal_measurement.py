"""Answering from what is known and measuring what is missing: the proposals among which a plan takes the cheapest."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain import Domain
from dpnotebook.inference.beside_rows import beside
from dpnotebook.inference.row_space import RESIDUAL, SolvedRows
from dpnotebook.planner.answers import Floats, LinearAnswers
from dpnotebook.planner.beside_atoms import BesideAtoms, beside_atoms
from dpnotebook.planner.beside_classes import BesideClasses, classes_of_size, variances_beside
from dpnotebook.planner.beside_groups import BesideGroups, beside_groups
from dpnotebook.planner.block_queries import Queries
from dpnotebook.planner.exchangeable import ByClasses
from dpnotebook.planner.history import MANY_CELLS, History
from dpnotebook.planner.in_closed_form import NAMED, InClosedForm, in_classes
from dpnotebook.planner.information import ANGLES, MIDDLE
from dpnotebook.planner.items import Item
from dpnotebook.planner.joint_measurement import bound_precision, joint_precision, known_of
from dpnotebook.planner.joint_measurement import together as joint_information
from dpnotebook.planner.known_part import Key, KnownPart
from dpnotebook.planner.least_squares_state import FEW, Estimate, LeastSquaresState
from dpnotebook.planner.level_classes import MOST_CLASSES
from dpnotebook.planner.plan import Planned
from dpnotebook.planner.pricing import Pricing, added_precision, more_precise
from dpnotebook.planner.product_terms import ProductTerm
from dpnotebook.planner.supposed import Supposed
from dpnotebook.planner.to_linear import answer_axes, asked_workload
from dpnotebook.planner.value_ends import COUNT, ValueCounts, over_ends, over_levels
from dpnotebook.predicate import Predicate
from dpnotebook.privacy.laws import Law
from dpnotebook.query.measurement import Axis
from dpnotebook.query.question import Accuracy, Question, Summand
from dpnotebook.workload.terms import row_weights

LEAST_SCALE = 0.25  # of draws: finer noise leaves next to no privacy
ENOUGH = 1e200  # variances above it are all the same
MOST_TOGETHER = 600  # counts that are planned as one
MOST_MEASURED = 200  # queries of a strategy that is planned beside what is known of them, and
MOST_WEIGHTS = 2**18  # what they count for in all answers
LINEAR = ("count", "sum", "cdf", "quantile", "workload")
SAME = 1 + 1e-9  # ratio of variances computed in two orders, which differ by rounding only
MOST_SOURCES = 16  # answers whose sources are each looked for; of more, those of a mixture of all
MOST_LAWS = 64  # of the noise of many answers, that are worth finding
MOST_COMPARED = 10**7  # weights of noisy numbers in all answers, whose laws are compared
CLOSER = 1 + 1e-6  # times less variance, from which on least squares over everything is preferred
POWERS = (2, 3, 4, 6)
SLACK = 1 + 1e-6  # by which a variance may pass its target: rounding, and the grid of Gaussian noise


@dataclass(frozen=True, eq=False)
class OverAtoms:
    """A question as linear queries over the atoms of a block, in integers of its summand.

    Parameters
    ----------
    block
        Least squares over what was measured.
    queries
        What is asked.
    known
        What the block knows of it.
    step
        What one integer is worth in the answer's units.
    least_scale
        The least scale of noise that anything was measured with.
    reach
        The most that a noisy number can count for in an answer, in integers.
    """

    block: LeastSquaresState
    queries: Queries
    known: Estimate
    step: float
    least_scale: float
    reach: float = 1.0

    @property
    def variances(self) -> Floats:
        """Variance of the best answer to each, infinite where there is none; shape (answers,)."""
        return self.known.variances

    @property
    def count(self) -> int:
        """Number of answers."""
        return self.queries.count

    @property
    def partial(self) -> bool:
        """Whether less is known here than was measured."""
        return self.block.partial

    @cached_property
    def alike(self) -> NDArray[np.intp]:
        """For each answer one whose noise has the same law: of few, or of many different ones, its own number.

        A sum of draws has the cumulants that the power sums of its weights say: where these are equal, so is its law.
        """
        own, variances = np.arange(self.count), self.variances
        if (
            self.count <= MOST_LAWS
            or not np.isfinite(variances).any()
            or classes_of_size(variances[:, None])[0] > MOST_LAWS
        ):
            return own
        sources = self.block.sources.values()
        if self.count * sum(source.queries for source in sources) > MOST_COMPARED:
            return own
        powers = sum((source.powers(weights, POWERS) for source, weights in self.weights()), np.zeros((1, len(POWERS))))
        kinds, place = classes_of_size(np.where(np.isfinite(variances), powers.T, np.inf).T)
        first = np.full(kinds, self.count)
        np.minimum.at(first, place, own)
        return own if kinds > MOST_LAWS else first[place]

    @property
    def told(self) -> bool:
        """Whether anything that was measured bears on the answers."""
        return bool(self.block.sources) and bool(np.isfinite(self.variances).any() or self.block.touches(self.queries))

    def estimates(self) -> tuple[Floats, Floats]:
        """Return the best answers and their variances, with certificates, each of shape (answers,)."""
        return self._solved[:2]

    @cached_property
    def _solved(self) -> tuple[Floats, Floats, Floats]:
        return self.block.estimates(self.queries)

    def certain(self) -> OverAtoms:
        """Return the same question with what is known of it by the certificates of what would be shown.

        What is known is screened in passing while ways to answer are compared; what a plan promises is looked at whole.
        """
        if not self.block.sources or self.queries.classes > FEW:  # of many, what is shown is screened as well
            return self
        variances = self.estimates()[1]
        # Computed in another order: what differs by rounding only need not be planned anew.
        same = variances <= self.variances * SAME
        return self if same.all() else replace(self, known=replace(self.known, variances=variances))

    def jointly(self) -> tuple[Floats, Floats] | None:
        """Return covariances and residuals of disjoint counts, as for `joint_measurement.together`; None of others."""
        return known_of(self.block, self.queries) if self.queries.bins else None

    def weights(self) -> list[tuple[KnownPart, Floats]]:
        """Return what the mean of each noisy number counts for in the answers, shape (answers, queries), by source."""
        return self.block.weights(self._solved[2])

    def draws(self, rows: NDArray[np.intp], most: int) -> tuple[Floats, list[Key]] | None:
        """Return what each draw of noise counts for in some answers, and the measurement it is of.

        Parameters
        ----------
        rows
            Which answers.
        most
            Draws; None is returned where there are more.

        Returns
        -------
        Shape (rows, draws), and one key a draw.
        """
        return self.block.draws(self._solved[2][rows], most)

    def sources(self) -> tuple[int, ...]:
        """Return the numbers of the releases that the best answers use, ascending: of many, of their mixture."""
        return self._sources

    @cached_property
    def _sources(self) -> tuple[int, ...]:
        known = np.flatnonzero(np.isfinite(self.variances))
        if not known.size:
            return ()
        if known.size > MOST_SOURCES:
            mixtures = np.zeros((1, self.count))
            mixtures[0, known] = MIDDLE + np.cos(np.arange(known.size) * math.sqrt(ANGLES[0]))
        else:
            mixtures = np.zeros((known.size, self.count))
            mixtures[np.arange(known.size), known] = 1
        sources = [*self.block.sources.values()]
        total = np.array([sum(source.repeats.values()) for source in sources])
        precise = np.array([max(source.repeats.values()) for source in sources])
        # Of each draw the variance is its weight in the mean of all, squared, over its precision.
        share = self.block.peaks(self.block.mixed(self.queries, mixtures)) / total
        sizes = share**2 * np.array([source.part.spread for source in sources])
        most = NAMED * (sizes * precise).max(axis=1, initial=0.0)
        named: set[int] = set()
        for place in np.flatnonzero((sizes * precise > most[:, None]).any(axis=0)):  # of many all are below it
            own = sizes[:, place]
            large = np.divide(most, own, where=own > 0, out=np.full(own.size, np.inf)).min()
            repeats = sources[place].repeats
            named.update(number for (number, _), precision in repeats.items() if precision > large and number)
        return tuple(sorted(named))


LinearTarget = OverAtoms | InClosedForm


def tells_together(asked: LinearTarget) -> bool:
    """Return whether it is known what answers have to do with each other, over atoms or classes of levels."""
    return isinstance(asked, OverAtoms) or asked.joint


@dataclass(frozen=True, eq=False)
class Proposal:
    """One way to reach the accuracy.

    Parameters
    ----------
    items
        What is measured; empty where past answers are enough.
    variances
        A bound on the variance of every answer afterwards, in squared integers of the summand; shape (answers,).
    reach
        Half-width of the interval of the worst answer where that is known better than from its variance, or what works
        it out; else 0.
    sparing
        Whether it leaves so much to spare for later questions that it may be preferred to what is cheaper now.
    single
        Whether each answer by itself is as accurate from what was known of it and what is measured of it.
    delivered
        Works out the variances that answers will have, where that is known of all that was measured; else None.
    """

    items: tuple[Planned, ...]
    variances: Floats
    reach: float | Callable[[], float] = 0.0
    sparing: bool = False
    single: bool = False
    delivered: Callable[[], Floats] | None = None

    @cached_property
    def half_width(self) -> float:
        """Half-width of the interval of the worst answer where that is known better than from its variance; else 0."""
        return self.reach() if callable(self.reach) else self.reach


def asked_of(
    question: Question, history: History, also: Sequence[Item] = (), *, over_atoms: bool = False, classes: bool = True
) -> LinearTarget | None:
    """Return a question as linear queries, with what is known about them; None where it has no such form.

    Over atoms wherever all that was measured has room there, in closed form where that is as good or there is no room.

    Parameters
    ----------
    question, history
        What is asked, and what was recorded.
    also
        What is to be recorded next, or is supposed to be.
    over_atoms
        Whether atoms are preferred where both are as good: they say what answers have to do with each other.
    classes
        Whether classes of levels are as good as atoms.
    """
    if not also and not over_atoms and classes:
        return history.once(question, lambda: _best_form(question, history))
    return _best_form(question, history, also, over_atoms, classes)


def _best_form(
    question: Question, history: History, also: Sequence[Item] = (), over_atoms: bool = False, classes: bool = True
) -> LinearTarget | None:
    found: LinearTarget | None = None
    for form in forms_of(question, history, also):
        one = known_in(form, history, also, over_atoms, classes)
        if found is None or (one is not None and _better(one.variances * SAME, found.variances)):
            found = one
    return found


def beside_all(
    asked: LinearTarget,
    question: Question,
    history: History,
    also: Sequence[Item],
    whole: Callable[[], LinearTarget | None],
) -> BesideAtoms | BesideClasses | BesideGroups | None:
    """Return a question as it is beside further measurements, where all that was measured is known together.

    Parameters
    ----------
    asked, question, history
        What is asked, over what was recorded.
    also
        What is supposed to be recorded next.
    whole
        Works it out anew.

    Returns
    -------
    None where that has to be worked out anew.
    """
    if isinstance(asked, InClosedForm):
        return _beside_groups(asked, question, history, also)
    if not isinstance(asked, OverAtoms) or asked.partial or asked.block.sums or question.measures[0].kind == "sum":
        return None  # sums follow from other things as well
    if (said := history.said(asked.block, question.measures[0].summand, also)) is None:
        return None
    numbers = asked.step, least_scale(history, also), asked.reach
    if asked.count > MOST_LAWS:
        variances = variances_beside(asked.block, asked.queries, asked.known, said)
        return None if variances is None else BesideClasses(variances, whole, MOST_LAWS, *numbers)
    found = beside_atoms(asked.block, asked.queries, said)
    step, least, reach = numbers
    return found and replace(found, step=step, least_scale=least, reach=reach)


def _beside_groups(
    asked: InClosedForm, question: Question, history: History, also: Sequence[Item]
) -> BesideGroups | None:
    """Return counts of groups as they are beside measurements of some of them, as for `beside_all`."""
    if question.measures[0].kind != "count" or len(question.measures) != 1:
        return None
    beside = Supposed.of(also).telling(COUNT)
    told = history.told_of(COUNT) | beside.attributes
    part = part_of(question, history.domain)
    return beside_groups(asked, part, beside.items, told, least_scale(history, also))


def known_in(
    form: LinearForm, history: History, also: Sequence[Item], over_atoms: bool = False, classes: bool = True
) -> LinearTarget | None:
    """Return what is known about a form of a question; parameters as for `asked_of`."""
    also = Supposed.of(also)
    # Atoms that hold everything are never worse: only where they do not, more than one source is worth a look.
    recorded = history.closed_form(form.summand, also)
    whole = recorded.whole
    closed = _closed(form, history, also) if whole or (recorded.alone and _many_cells(form, history)) else None
    if closed is not None and not over_atoms:
        return closed
    by_classes = _by_classes(form, history, also) if classes else None
    many = by_classes is not None and by_classes.classes > MOST_CLASSES
    looked = classes and not whole and (many or not _everything(by_classes, form, history, also))
    # Classes of many attributes leave out less than numbers that had no room.
    only_whole = by_classes is not None and by_classes.products
    rows = _by_rows(form, history, also, whole=only_whole) if looked else None
    if (also or many) and rows is not None and not rows.partial:
        return rows  # of what is only supposed nobody asks for the law of its noise; and many classes take longer
    products: InClosedForm | None = None
    if by_classes is not None:
        products = in_classes(by_classes, form.step, least_scale(history, also), form.reach)
    found: LinearTarget | None = products
    if products is None or not products.products:
        found = _over_atoms(form, history, also, whole=closed is not None or (rows is not None and not rows.partial))
        if found is None or found.partial or not _of_all(found, form, history, also):
            if not whole and (rows is None or rows.partial):
                closed = _closed(form, history, also)
            for one in (products, closed):
                if one is not None and (found is None or _better(one.variances, found.variances)):
                    found = one
    if rows is None or found is None:
        return found if rows is None else rows
    if rows.partial:
        return rows if _better(rows.variances, found.variances) else found
    # Over everything no answer is worse; where none is closer, the law of the noise of less is known sooner.
    return rows if (rows.variances * CLOSER < found.variances).any() else found


def _many_cells(form: LinearForm, history: History) -> bool:
    """Return whether atoms of all that was measured take long to make."""
    sizes = (history.domain[name].size for name in history.told_of(form.summand) & {*history.domain.names})
    return math.prod(sizes) > MANY_CELLS


def _of_all(found: OverAtoms, form: LinearForm, history: History, also: Sequence[Item]) -> bool:
    """Return whether atoms are those of all attributes of which something was measured, or comes beside that."""
    told = history.told_of(form.summand) | Supposed.of(also).telling(form.summand).attributes
    return told <= set(found.block.names)


def _everything(found: ByClasses | None, form: LinearForm, history: History, also: Sequence[Item]) -> bool:
    """Return whether classes of levels hold all that was measured, and comes beside it, of whatever attributes."""
    told = history.told_of(form.summand) | Supposed.of(also).telling(form.summand).attributes
    return found is not None and found.every and told <= set(found.names)


def _over_atoms(form: LinearForm, history: History, also: Sequence[Item], *, whole: bool) -> OverAtoms | None:
    """Return what is known over the atoms of a block: of all that was measured of some attributes, or also of less."""
    part = form.part
    block = history.block(part, form.summand, also, whole=whole, sums=form.reach_of_sums > 0)
    queries = None if block is None else block.queries(part)
    if block is None or queries is None:
        return None
    if not ((weights := row_weights(part.operator)) == 1).all():
        queries = Queries(queries.columns / weights[:, None], queries.cells, False)
    reach = form.reach_of_sums if block.sums else form.reach
    return OverAtoms(block, queries, block.known(queries), form.step, least_scale(history, also), reach)


def _by_classes(form: LinearForm, history: History, also: Sequence[Item]) -> ByClasses | None:
    """Return how a form follows by classes of levels, where that is least squares over more than has room in atoms."""
    if form.reach_of_sums or form.part.weight != 1:
        return None
    return history.by_classes(form.part, form.summand, also)


def _by_rows(form: LinearForm, history: History, also: Sequence[Item], *, whole: bool) -> InClosedForm | None:
    """Return what is known over all numbers that were measured, where these are few; `whole` as for the history."""
    if form.reach_of_sums or form.part.weight != 1:
        return None
    found = history.by_rows(form.part, form.summand, also, whole=whole)
    return None if found is None else in_classes(found, form.step, least_scale(history, also), form.reach)


def closed_of(question: Question, history: History, also: Sequence[Item] = ()) -> InClosedForm | None:
    """Return a question with what is known about it in closed form; None where nothing is, as for `asked_of`."""
    found: InClosedForm | None = None
    for form in forms_of(question, history, also):
        one = _closed(form, history, also)
        if found is None or (one is not None and _better(one.variances * SAME, found.variances)):
            found = one
    return found


def each_closed_of(
    question: Question, history: History, also: Sequence[Item] = (), most: float = math.inf
) -> Iterator[InClosedForm]:
    """Yield a question with what each of several measurements says of it by itself, as for `closed_of`.

    Of noise of a stable law there are none: all together are better at any confidence.

    Parameters
    ----------
    question, history, also
        As for `closed_of`.
    most
        Standard error, in the answer's units, above which an answer is of no use.
    """
    for form in forms_of(question, history, also) if not history.law.stable else ():
        closed, scale, useful = history.closed_form(form.summand, also), least_scale(history, also), most / form.step
        for one in closed.each(form.part, form.step, scale, useful * useful):
            yield one if form.reach == 1 else replace(one, reach=form.reach)


def _closed(form: LinearForm, history: History, also: Sequence[Item]) -> InClosedForm | None:
    found = history.closed_form(form.summand, also).known(form.part, form.step, least_scale(history, also))
    return found if found is None or form.reach == 1 else replace(found, reach=form.reach)


@dataclass(frozen=True, eq=False)
class LinearForm:
    """A question as queries of what was measured.

    Parameters
    ----------
    part
        The queries, over a histogram of the summand.
    summand
        What each row adds.
    step
        What one integer is worth in the answer's units.
    reach
        The most that a noisy number can count for in an answer, in integers.
    reach_of_sums
        As in `ValueCounts`.
    """

    part: ProductTerm
    summand: Summand
    step: float
    reach: float = 1.0
    reach_of_sums: float = 0.0


def forms_of(question: Question, history: History, also: Sequence[Item] = ()) -> Iterator[LinearForm]:
    """Yield the forms in which a question can be answered: a sum of sums, of means and counts, or of a histogram.

    Parameters
    ----------
    question, history, also
        As for `asked_of`. Of other questions than linear ones nothing comes.
    """
    measure = question.measures[0]
    if measure.kind not in LINEAR or len(question.measures) != 1:
        return
    part, summand = part_of(question, history.domain), measure.summand
    step = float(summand.step) if measure.kind == "sum" else 1.0
    yield LinearForm(part, summand, step)
    if measure.kind != "sum":
        return
    for counts in sums_as_counts(part, summand, history, also):
        yield LinearForm(counts.part, COUNT, step, counts.reach, counts.reach_of_sums)


def sums_as_counts(
    part: ProductTerm, summand: Summand, history: History, also: Sequence[Item] = ()
) -> Iterator[ValueCounts]:
    """Yield sums over groups as queries of counts, as far as something was measured that may tell them.

    Parameters
    ----------
    part, summand
        The groups, and whose values are summed.
    history, also
        As for `asked_of`.
    """
    # Of two sums, counts tell what they add up to.
    if history.summed(summand, part.where, also) or (summand.ends and history.counted(also)):
        found = over_ends(part, summand)
        if found is not None:
            yield found
    told = history.counted_by(summand.column, also) or (bool(summand.holds) and history.counted(also))
    if told and (found := over_levels(part, summand, history.domain)) is not None:
        yield found


def part_of(question: Question, domain: Domain) -> ProductTerm:
    """Return the queries of a question's first measure over the histogram that it needs."""
    measure = question.measures[0]
    axes = answer_axes(measure, question, domain)
    return ProductTerm(axes, question.where, asked_workload(measure, axes), 1.0, np.arange(0))


def least_scale(history: History, also: Sequence[Item]) -> float:
    """Return the least scale of the noise of what was recorded and of what comes beside it."""
    return min([history.least_scale, *Supposed.of(also).scales])


def _better(one: Floats, other: Floats) -> bool:
    """Return whether fewer variances are infinite; of as many, whether the largest of the others is smaller."""
    known, other_known = np.isfinite(one), np.isfinite(other)
    if known.sum() != other_known.sum():
        return bool(known.sum() > other_known.sum())
    return bool(one[known].max(initial=0.0) < other[other_known].max(initial=0.0))


def target_of(accuracy: Accuracy, step: float, law: Law, least: float, reach: float = 1.0) -> float:
    """Return the variance that every answer must have, in squared integers, whatever it will be combined from."""
    if accuracy.variance is not None:
        return min(accuracy.variance / step**2, ENOUGH)
    assert accuracy.error is not None
    error = accuracy.error / step
    scale = min(max(error / 4, LEAST_SCALE), least)
    spread = law.spread_within(error, accuracy.confidence, reach, scale)
    return min(spread, math.sqrt(ENOUGH)) ** 2


def is_known(asked: LinearTarget, target: float | Floats) -> bool:
    """Return whether past answers are as accurate as the target variance, of all or of each."""
    return bool((asked.variances <= target * SLACK).all())


def direct(asked: LinearTarget, answers: LinearAnswers, target: float | Floats, pricing: Pricing) -> Proposal:
    """Return how to measure the question's own strategy just as precisely as is missing.

    To what is known with variance v_B an independent measurement of precision 1/v - 1/v_B must be added.
    """
    factors = (answers.factors * answers.units**2) / answers.step**2
    before = asked.variances
    with np.errstate(divide="ignore"):  # a query that counts nothing is known exactly
        precision = bound_precision(before, factors, np.broadcast_to(target, before.shape))
    planned = more_precise(answers.measurement, precision, pricing, answers.strategy)
    gained = added_precision(planned, pricing.accountant.law)
    return Proposal((planned,), combined(before, factors / gained), single=True)


def together(asked: LinearTarget, answers: LinearAnswers, target: float | Floats, pricing: Pricing) -> Proposal | None:
    """Return how to measure disjoint counts as one: what is known of their sums helps, and not all need measuring.

    None where the question is not of that form, or nothing is known of the counts together.
    """
    if not 2 <= asked.count <= MOST_TOGETHER or not answers.direct:
        return None
    known = asked.jointly()
    if known is None:
        return None
    wanted = np.broadcast_to(target, asked.count)
    precision, measured = joint_precision(known[0], wanted, known[1])
    if precision <= 0:
        return None
    measurement = answers.measurement
    if not measured.all():
        # Counts outside of what is needed are noise alone, and cost nothing.
        cells = measurement.operator.rmatvec(measured.astype(np.int64)) > 0
        chosen = cells_predicate(measurement.axes, cells, pricing.table.domain)
        measurement = replace(measurement, where=measurement.where & chosen)
    planned = more_precise(measurement, precision, pricing, answers.strategy if measured.all() else None)
    variances = np.minimum(target, asked.variances)
    delivered = None
    if isinstance(asked, InClosedForm) and asked.whole:
        gained = float(added_precision(planned, pricing.accountant.law))
        delivered = partial(_measured_beside, known, measured, gained)
    return Proposal((planned,), variances, delivered=delivered)


def _measured_beside(known: tuple[Floats, Floats], measured: NDArray[np.bool_], precision: float) -> Floats:
    """Return the variances of counts of which some are measured with a precision, beside all that is known of them."""
    covariance, residuals = known
    own = np.full(int(measured.sum()), precision)
    everything = np.arange(measured.size)
    asked = SolvedRows(residuals[:, :0], covariance, residuals, np.abs(residuals).max(axis=1, initial=0.0) <= RESIDUAL)
    further = asked.some(everything[measured])
    found, _ = beside(asked, further, covariance[:, measured], own, np.ones(measured.size))
    return np.where(found.determined, np.diagonal(found.covariance), np.inf)


def strategy_beside(
    asked: LinearTarget, answers: LinearAnswers, target: float | Floats, pricing: Pricing
) -> Proposal | None:
    """Return how to measure the question's own strategy, where what is known says something about its measurements.

    Answer by answer, as `direct` looks at it, what answers have in common is measured again: of all ranges, or of
    running totals, it may take twice the precision. None where that is too much to work out, or no question of counts.
    """
    measurement, strategy = answers.measurement, answers.strategy
    size = strategy.operator.shape[0]
    if not isinstance(asked, OverAtoms) or answers.direct or measurement.summand != COUNT:
        return None
    if not 2 <= size <= MOST_MEASURED or asked.queries.count * size > MOST_WEIGHTS:
        return None
    measured = asked.block.queries(
        ProductTerm(measurement.axes, measurement.where, measurement.operator, 1.0, np.arange(0))
    )
    if measured is None or (known := known_of(asked.block, measured)) is None:
        return None
    weights = strategy.answer_weights(np.arange(asked.queries.count)) * (answers.units / answers.step)[:, None]
    entry = float(np.abs(measured.columns).max(initial=1.0))
    precision = joint_information(*known, entry).least(np.broadcast_to(target, asked.queries.count), weights)
    if precision <= 0:
        return None
    planned = more_precise(measurement, precision, pricing, strategy)
    return Proposal((planned,), np.minimum(target, asked.variances))


def cells_predicate(axes: Sequence[Axis], chosen: NDArray[np.bool_], domain: Domain) -> Predicate:
    """Return the predicate of some cells of a histogram, shape (cells,), in C order of one or more axes."""
    *others, last = axes
    lines = chosen.reshape(-1, last.size)
    found: Predicate | None = None
    alike = {line.tobytes(): line for line in lines[lines.any(axis=1)]}
    for line in alike.values():  # cells along the last axis that are alike share a box
        mask = np.zeros(domain[last.attribute].size, dtype=bool)
        mask[np.asarray(last.levels)[line]] = True
        box = Predicate.box(domain, {last.attribute: mask})
        if others:
            box &= cells_predicate(others, (lines == line).all(axis=1), domain)
        found = box if found is None else found | box
    return ~Predicate.everything(domain) if found is None else found


def combined(before: Floats, measured: Floats) -> Floats:
    """Return a bound on the variances of answers that are known and measured independently, shape (answers,)."""
    with np.errstate(divide="ignore"):
        return np.asarray(1 / (1 / before + 1 / measured))


def half_width(
    asked: LinearTarget, std_error: float, accuracy: Accuracy, law: Law, items: Sequence[Planned] = ()
) -> float:
    """Return how far the answer of this standard error, in its own units, can reach when `items` are measured too."""
    scale = min([asked.least_scale, *(float(item.scale) for item in items)])
    return float(law.farthest(np.array([std_error]), accuracy.confidence, asked.step * asked.reach, scale)[0])
