"""The planner: from a question, an accuracy and what the ledger says to a plan, without touching any data.

It knows the declared domain, the budget and what earlier releases recorded: a plan is a function of the ledger.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, partial

import numpy as np

from dpnotebook.errors import AccuracyError, shorten
from dpnotebook.ledger.collecting import collecting_later
from dpnotebook.planner import explain, marginal_measurement
from dpnotebook.planner.answers import COARSE, Answers, Expected, Floats, MeanAnswers, QuantileAnswers
from dpnotebook.planner.expected_rows import sizes_of_groups, with_rows
from dpnotebook.planner.history import History, StrategyPrice
from dpnotebook.planner.known_means import KnownMeans, known_means, with_known
from dpnotebook.planner.ledger_view import LedgerView
from dpnotebook.planner.marginal_measurement import LinearTarget
from dpnotebook.planner.options import asked_before, by_itself, repeated, with_history
from dpnotebook.planner.partwise import marginals_of, read_by_part
from dpnotebook.planner.plan import FACTORS, Alternative, BudgetState, Comparisons, Cost, Plan, PlannedMeasure
from dpnotebook.planner.pricing import cost_of, scales, units_for, units_of
from dpnotebook.planner.problem import Option, PlanningProblem
from dpnotebook.planner.quantile_errors import in_ranks, is_of_quantiles, size_of_quantiles
from dpnotebook.planner.several import SeveralMeasures
from dpnotebook.planner.ski_rental import Purchases
from dpnotebook.planner.table import TableSchema
from dpnotebook.planner.to_linear import Assumption, as_asked, to_linear
from dpnotebook.privacy.accountant import Accountant
from dpnotebook.privacy.laws import GAUSSIAN, Law
from dpnotebook.privacy.spend import CellCost
from dpnotebook.query.objective import Objective
from dpnotebook.query.question import Accuracy, Measure, Question
from dpnotebook.strategy import Strategy
from dpnotebook.views import digits
from dpnotebook.workload.terms import row_weights

ERRORS = (2.0, 0.5, 0.25)  # errors beside the chosen one, where past answers help

SURE = 2.0  # standard errors that an answer must be above nothing, to be a size that others can be compared with


def make_plan(
    question: Question,
    accuracy: Accuracy,
    table: TableSchema,
    ledger: LedgerView,
    *,
    history: History | None = None,
    planner: str = "optimal",
    fresh: bool = False,
    assumption: Assumption | None = None,
    strategy: Strategy | None = None,
    purchases: Purchases = "auto",
) -> Plan:
    """Return how a question will be answered, what that costs and how wrong the answer will be.

    Parameters
    ----------
    question, accuracy
        What is asked, and how good the answer must be or what it may cost.
    table
        What is public about the table.
    ledger
        The budget and the record of past answers.
    history
        Least squares over what was recorded; None to measure every new question by itself.
    planner
        "optimal", or "pioneer" for the plans of Pioneer.
    fresh
        Measure anew, and answer from that alone, although recorded releases tell something.
    assumption
        For means: how many rows and which mean to expect.
    strategy
        What to measure for a workload; None for the best that is found.

    Raises
    ------
    AccuracyError
        If the accuracy cannot be planned for, or fits no mechanism.
    DomainError
        If the question cannot be asked of the declared domain.
    """
    in_every_group = accuracy.epsilon is None  # an error that is asked for holds for the worst of the answers
    assumption = with_rows(assumption or Assumption(), question, table, history, in_every_group=in_every_group)
    past = None if fresh or strategy is not None or read_by_part(question) else history
    asking = _Asking(question, accuracy, table, ledger, past, planner, assumption, strategy, purchases)
    way, told = None, None
    if depends_on_answer(question, accuracy):
        # What is known of the answer changes with every release: the same words would never be the same question.
        before = None if fresh else asked_before(question, accuracy, ledger, history)
        asked_again = None if before is None else asking.at(accuracy.resolved(before))
        way = None if asked_again is None else _repeated(asked_again, history)
        if asked_again is None or way is None:
            asking = _resolved(asking, history)
        else:
            asking, told = asked_again, _told_by_now(asking, history)
    _check_accuracy(question, asking.accuracy, table, assumption)
    way = way or (None if fresh else _repeated(asking, history)) or _several(asking) or _single(asking)
    return _written(asking, way, accuracy, history, told)


def depends_on_answer(question: Question, accuracy: Accuracy) -> bool:
    """Return whether the noise that keeps an accuracy depends on the answer: of relative errors, and of quantiles."""
    return accuracy.relative is not None or (accuracy.error is not None and is_of_quantiles(question))


def _resolved(asking: _Asking, history: History | None) -> _Asking:
    """Return what is asked with its relative error as one in the answer's own units, by what is known of it.

    That of a quantile is in ranks then, in which it is measured. How large the answer is may also be known where it is
    measured anew, or by a strategy that was asked for.
    """
    if read_by_part(asking.question):
        history = None
    knowing = replace(asking, history=history)
    if is_of_quantiles(asking.question):
        return asking.at(_in_ranks(asking, knowing.known))
    means = None if history is None else known_means(asking.question, history)
    return asking.at(resolved(asking.accuracy, asking.question, knowing.known, asking.table, means))


def _in_ranks(asking: _Asking, known: LinearTarget | None) -> Accuracy:
    """Return the accuracy of quantiles as one of ranks, which was relative or in what their column is counted in."""
    (answer,), accuracy = _linear(asking, asking.accuracy.planned_for), asking.accuracy
    assert isinstance(answer, QuantileAnswers)
    if accuracy.relative is not None and known is not None and known.told and np.isfinite(known.variances).all():
        size, spread = size_of_quantiles(answer, known)
        if not size > SURE * spread:
            raise AccuracyError(
                f"the noisy answer so far, about {digits(size)} give or take {digits(spread)}, is too uncertain to "
                f"plan {accuracy.percent} of it; ask once with a larger epsilon="
            )
        accuracy = accuracy.resolved(accuracy.relative * size)
    return in_ranks(accuracy, asking.question, answer, known)


def _told_by_now(asking: _Asking, history: History | None) -> float | None:
    """Return which error a relative one would be planned as by now; None where nothing tells."""
    try:
        return _resolved(asking, history).accuracy.error
    except AccuracyError:
        return None


@dataclass(frozen=True)
class _Asking:
    """A question that is planned, and what it is planned with: as for `make_plan`.

    Parameters
    ----------
    history
        What may be reused; None where nothing is.
    """

    question: Question
    accuracy: Accuracy
    table: TableSchema
    ledger: LedgerView
    history: History | None
    planner: str
    assumption: Assumption
    strategy: Strategy | None
    purchases: Purchases

    @cached_property
    def accountant(self) -> Accountant:
        """Of the budget that holds."""
        return self.ledger.accountant

    @cached_property
    def known(self) -> LinearTarget | None:
        """The question over what was recorded, and what is certain of it; None where it has no such form."""
        if self.history is None:
            return None
        with collecting_later():  # of ten thousand releases, looking for garbage may take longer than a plan
            asked = marginal_measurement.asked_of(self.question, self.history)
            return None if asked is None else asked.certain()

    @property
    def told(self) -> bool:
        """Whether anything that was recorded bears on the answers."""
        return self.known is not None and self.known.told

    def at(self, accuracy: Accuracy) -> _Asking:
        """Return the same at another accuracy: what is known stays as it is."""
        found = replace(self, accuracy=accuracy)
        vars(found)["known"] = self.known
        return found

    def cost(self, option: Option) -> Cost:
        """Return what a way would cost as the ledger stands."""
        return self._cost(self.ledger.price(self.cells(option)))

    def cells(self, option: Option) -> CellCost:
        """Return what a way costs in each cell."""
        return cost_of(option.items, self.table, self.accountant)

    def _cost(self, units: int) -> Cost:
        return Cost(self.accountant.epsilon(units), self.accountant.delta, units)

    def price(self, option: Option) -> int:
        """Return by how much a way would raise the session's total, in units."""
        return self.ledger.price(self.cells(option)) if option.items else 0


@dataclass(frozen=True)
class _Way:
    """How a question will be answered.

    Parameters
    ----------
    option
        What is measured and reused.
    answers
        How its measures would be answered by themselves; none where a release answers it.
    alone
        What that would cost; None where nothing that was recorded was looked at.
    prices
        Finds other prices; None where there are none.
    worked_out, kind
        As in `PlanningProblem`.
    """

    option: Option
    answers: Sequence[Answers] = ()
    alone: Cost | None = None
    prices: Callable[[], Sequence[Alternative]] | None = None
    worked_out: Mapping[str, StrategyPrice] = field(default_factory=dict)
    kind: str | None = None


def _repeated(asking: _Asking, history: History | None) -> _Way | None:
    """Return the way that gives a release of the very question, if one is as good as asked."""
    option = repeated(asking.question, asking.accuracy, asking.table, asking.ledger, asking.assumption, history)
    return None if option is None else _Way(option)


def _several(asking: _Asking) -> _Way | None:
    """Return the way that measures several measures together; None for one, and where that gains nothing."""
    if len(asking.question.measures) == 1:
        return None
    table, ledger, accuracy = asking.table, asking.ledger, asking.accuracy
    together = SeveralMeasures(asking.question, table, ledger, asking.history, asking.planner, asking.assumption)
    option = together.planned(accuracy)
    if option is None:
        return None
    units = option.as_good_as or units_for(accuracy, together.apart, table, asking.accountant)[0]
    alone = None if asking.history is None else Cost(asking.accountant.epsilon(units), asking.accountant.delta, units)

    def prices() -> list[Alternative]:
        return _others(together.planned, option, asking) if together.quick(accuracy) else []

    return _Way(option, together.apart, alone, prices)


def _single(asking: _Asking) -> _Way:
    """Return the cheapest way to answer each measure by itself, and one that is linear beside what is known."""
    answers, option, second = _by_itself(asking)
    way = _beside_means(asking, answers, option) or _beside_history(asking, answers, option, second)
    way = way or _Way(option, answers)
    if way.prices is None and way.option.items:
        way = replace(way, prices=partial(_other_prices, way.answers, way.option, asking))
    return way


def _by_itself(asking: _Asking) -> tuple[Sequence[Answers], Option, Sequence[Answers] | None]:
    """Return how measures are answered, the way that looks at nothing recorded, and other answers that may be better.

    What is best for the total may also be best for the worst answer, where no search finds the optimum of that.
    """
    accuracy, table, accountant = asking.accuracy, asking.table, asking.accountant
    answers = _linear(asking, accuracy.planned_for)
    option = by_itself(answers, accuracy, table, accountant)
    second = None if accuracy.planned_for == "total" or accuracy.objective else _linear(asking, "total")
    if second is None or _same(second, answers):
        return answers, option, None
    if not asking.told and _may_be_cheaper(second, option, accuracy, table, accountant):
        other = by_itself(second, accuracy, table, accountant)
        if asking.cost(other).units < asking.cost(option).units:
            return second, other, second
    return answers, option, second


def _beside_means(asking: _Asking, answers: Sequence[Answers], option: Option) -> _Way | None:
    """Return the way that measures what is missing of means beside what is known of them; None without such."""
    answer, history = answers[0], asking.history
    means = None if history is None else known_means(asking.question, history)
    if history is None or means is None or not isinstance(answer, MeanAnswers):
        return None
    table, ledger = asking.table, asking.ledger
    beside = partial(with_known, means, asking.question, answer, table=table, ledger=ledger)
    alone = asking.cost(option)
    found = beside(option, asking.accuracy)
    # Means that are known already are foretold by what is known of each; else by how many rows their groups have.
    sizes = None if means.known else sizes_of_groups(asking.question, history)
    if found is None:
        said = answers if sizes is None else [replace(answer, rows=float(sizes.min()))]
        return _Way(_in_groups(option, answer, sizes), said, alone)

    def mean_at(other: Accuracy) -> Option:
        by_themselves = by_itself(answers, other, table, asking.accountant)
        return _in_groups(beside(by_themselves, other) or by_themselves, answer, sizes)

    return _Way(_in_groups(found, answer, sizes), answers, alone, partial(_others, mean_at, found, asking))


def _in_groups(option: Option, answer: MeanAnswers, sizes: Floats | None) -> Option:
    """Return a way to measure means with the errors that it has in groups of so many rows; of assumed ones if None.

    What is measured rests on groups as large as is assumed: no question costs more for what is known.
    """
    if sizes is None:
        return option
    half, least = float(answer.measurement.summand.high - answer.measurement.summand.low) / 2, float(sizes.min())
    return replace(
        option,
        std_errors=np.minimum(option.std_errors * (answer.rows / sizes), half),
        reach=min(option.half_width * answer.rows / least, half),
        sizes=(least, float(sizes.max())),
    )


def _beside_history(
    asking: _Asking, answers: Sequence[Answers], option: Option, second: Sequence[Answers] | None
) -> _Way | None:
    """Return the cheapest way to answer a linear measure beside what is known; None of other questions."""
    history, asked, accuracy = asking.history, asking.known, asking.accuracy
    if history is None or asked is None:
        return None
    table, ledger, alone = asking.table, asking.ledger, asking.cost(option)
    problem = PlanningProblem(
        table, ledger, history, asking.question, answers[0], option, asked, asking.planner, purchases=asking.purchases
    )
    with collecting_later():
        option, kind = with_history(problem, accuracy), problem.kind
    if second is not None and asking.told and option.items and not option.bought:
        # What is known, or can be refined, may suit what is measured for the total better.
        by_total = by_itself(second, accuracy, table, asking.accountant)
        too = replace(problem, answer=second[0], alone=by_total, worked_out={})
        other = with_history(too, accuracy)
        if too.price(other.items) < problem.price(option.items):
            problem, answers, option = too, second, other

    def beside(other: Accuracy) -> Option:
        asked_alone = by_itself(answers, other, table, asking.accountant)
        return with_history(replace(problem, alone=asked_alone, buying=False), other)

    prices = partial(_others, beside, option, asking) if option.combined else None
    return _Way(option, answers, alone, prices, problem.worked_out, kind)


def _written(asking: _Asking, way: _Way, given: Accuracy, history: History | None, told: float | None = None) -> Plan:
    """Return a way as a plan, in words and numbers; `told` is the error that a relative one would be by now.

    Raises
    ------
    AccuracyError
        If its error is not finite.
    """
    question, accuracy, table, assumption = asking.question, asking.accuracy, asking.table, asking.assumption
    accountant, option, spent = asking.accountant, way.option, asking.ledger.spent
    half = farthest(question.measures[0])
    if not (math.isfinite(option.half_width) and np.isfinite(option.std_errors).all()):
        raise AccuracyError("no noise that can be drawn answers this; ask for fewer answers or cells at once")
    cells, epsilon = asking.cells(option), accountant.epsilon(option.units)
    price = asking.ledger.price(cells) if option.items else 0
    expected = _within(Expected(option.std_errors, option.half_width), half)
    unit = explain.unit(question.measures[0], question)
    actions, steps = option.words()
    return Plan(
        question=question,
        accuracy=accuracy,
        title=question.words,
        where="" if question.where.is_everything else str(question.where),
        unit=unit,
        answers=_answers(question, option),
        cost=Cost(accountant.epsilon(price), accountant.delta, price),
        epsilon=epsilon,
        delta=accountant.delta,
        units=option.units,
        budget=BudgetState.around(accountant, spent, price),
        std_errors=as_asked(expected.std_errors, question.measures[0], question, table.domain),
        error=expected.half_width,
        confidence=accuracy.confidence,
        reused=option.reused,
        affordable=spent + price <= accountant.total,
        assumption=explain.ranks_assumed(given, accuracy, question, unit)
        or explain.size_assumed(given, accuracy, unit, told)
        or next(
            filter(None, (explain.assumption(question, assumption, answer, option.sizes) for answer in way.answers)), ""
        ),
        warnings=(
            *explain.warnings(question, table.domain, assumption, expected, epsilon),
            *(
                explain.smaller_groups(question, accuracy, expected, option.sizes if option.items else None)
                if option.reused or option.sizes
                else ()
            ),
            *(
                line
                for one in way.answers[:1]
                for line in explain.saved_by_delta(question, one, accountant.law, epsilon)
            ),
        ),
        steps=steps,
        code=explain.code(question, given),
        noise=accountant.noise,
        measurements=option.items,
        cells=cells,
        recorded=option.recorded,
        actions=actions,
        without_reuse=way.alone,
        alone_before=0 if history is None else history.alone_total,
        combined=option.combined,
        own=option.own,
        as_good_as=option.as_good_as,
        target=option.target,
        known=0 if history is None else len(history.releases),
        strategy_prices={name: (price.price, price.credit) for name, price in way.worked_out.items()},
        kind=way.kind,
        asked_as=given.text if depends_on_answer(question, given) else "",
        assumed=_assumed(question, assumption),
        forecast=None if option.forecast is None else option.forecast.in_epsilon(accountant.epsilon),
        instead=option.instead,
        parts=_parts(question, option.expected)
        if len(question.measures) > 1
        else _by_target(question, accuracy, option, accountant.law),
        comparisons=Comparisons(lambda: [one.within(half) for one in (way.prices or tuple)()]),
    )


def farthest(measure: Measure) -> float:
    """Return how far an interval of a measure reaches at most: of a mean half of what its values lie between.

    It is cut at the bounds of these, as no mean lies beyond them, in whatever way that is measured.
    """
    if measure.kind != "mean":
        return math.inf
    return float(measure.summand.high - measure.summand.low) / 2


def _within(expected: Expected, half: float) -> Expected:
    if math.isinf(half):
        return expected
    return Expected(np.minimum(expected.std_errors, half), min(expected.half_width, half))


def _assumed(question: Question, assumption: Assumption) -> tuple[float | None, bool] | None:
    """Return the rows that the errors of means rest on, where nobody said them, so that later they may be others."""
    if all(measure.kind != "mean" for measure in question.measures) or assumption.said:
        return None
    return assumption.rows, assumption.guessed


def _answers(question: Question, option: Option) -> int:
    """Return how many answers a question has."""
    workload = question.measures[0].workload
    if workload is not None and read_by_part(question):
        return int(workload.shape[0])
    return int(option.std_errors.size)


def _parts(question: Question, expected: Sequence[Expected]) -> tuple[PlannedMeasure, ...]:
    """Return how wrong each measure of a question will be."""
    return tuple(
        PlannedMeasure(
            measure.name,
            question.words_of(measure),
            explain.unit(measure, question),
            float(one.std_errors.max(initial=0.0)),
            one.half_width,
        )
        for measure, each in zip(question.measures, expected, strict=True)
        for one in [_within(each, farthest(measure))]
    )


def _by_target(question: Question, accuracy: Accuracy, option: Option, law: Law) -> tuple[PlannedMeasure, ...]:
    """Return how wrong the answers of each part of a workload will be, where parts have errors of their own."""
    workload = question.measures[0].workload
    if not accuracy.by_part or workload is None or accuracy.error is None:
        return ()
    parts = marginals_of(workload) if read_by_part(question) else None
    weights = row_weights(workload) if parts is None else np.array([float(part.weight) for part in parts])
    unit, reach, found = explain.unit(question.measures[0], question), law.kappa(accuracy.confidence), []
    for target in dict.fromkeys(target for _, target in accuracy.within):
        name = " + ".join(part for part, error in accuracy.within if error == target)
        rows = np.isclose(weights, max(accuracy.error / target, 1.0))
        std_error = float(option.std_errors[rows].max(initial=0.0))
        half_width = min(std_error * reach, target)  # sums of Laplace noise do not reach as far as a single draw
        found.append(PlannedMeasure(name, name, unit, std_error, half_width))
    return tuple(found)


def _linear(asking: _Asking, objective: Objective) -> list[Answers]:
    """Return how the measures are answered, with strategies for an objective."""
    noise, hasty = asking.accountant.noise, objective != asking.accuracy.planned_for
    return [
        to_linear(
            measure,
            asking.question,
            asking.table.domain,
            noise,
            asking.assumption,
            asking.strategy,
            objective,
            hasty=hasty,
        )
        for measure in asking.question.measures
    ]


def _same(one: Sequence[Answers], other: Sequence[Answers]) -> bool:
    """Return whether the same is measured."""
    return all(a.strategy.operator == b.strategy.operator for a, b in zip(one, other, strict=True))


def _may_be_cheaper(
    answers: Sequence[Answers], than: Option, accuracy: Accuracy, table: TableSchema, accountant: Accountant
) -> bool:
    """Return whether answers may cost less than some option, as far as can be told without the law of their noise.

    A sum of fine Laplace noise reaches as far as a normal law or a single draw of its variance, at least.
    """
    if accountant.law.stable or accuracy.error is None:
        return True
    least = min(GAUSSIAN.kappa(accuracy.confidence), -math.log(1 - accuracy.confidence) / math.sqrt(2))
    hopeful = replace(accuracy, error=None, variance=(accuracy.error / least) ** 2)
    if any(answer.scale_for(hopeful, accountant.law) < COARSE for answer in answers):
        return True
    return units_for(hopeful, answers, table, accountant)[0] < than.units


def _check_accuracy(question: Question, accuracy: Accuracy, table: TableSchema, assumption: Assumption) -> None:
    """Refuse an error or a variance that cannot be promised for all measures, or without knowing the number of rows."""
    if accuracy.epsilon is not None:
        return
    kinds = {explain.unit(measure, question) or "shares" for measure in question.measures}
    if len(kinds) > 1:
        raise AccuracyError(
            f"{accuracy.text} cannot hold for {' and '.join(sorted(kinds))} at once; give epsilon=, or ask them apart"
        )
    if any(measure.kind == "mean" for measure in question.measures) and assumption.rows is None:
        raise AccuracyError(
            "the error of a mean depends on the number of rows, which planning does not read; say about how many "
            f"there are with rows= when you protect {shorten(table.name)}, or give epsilon="
        )


def _others(way: Callable[[Accuracy], Option | None], option: Option, asking: _Asking) -> list[Alternative]:
    """Return what other errors would cost, or what other epsilons would give, past answers taken into account.

    Parameters
    ----------
    way
        Gives how the question would be answered at another accuracy, None where that is not known.
    option
        How it is answered.
    asking
        The question.
    """
    accuracy, found = asking.accuracy, [option]
    for factor in ERRORS if accuracy.epsilon is None else FACTORS:
        with suppress(AccuracyError):  # too little or too much for any noise that can be drawn
            found += [one for one in [way(_scaled(accuracy, factor))] if one is not None]
    accountant, spent = asking.accountant, asking.ledger.spent
    chosen, *others = (
        Alternative.at(accountant, spent, price, one.half_width, price, chosen=one is option)
        for one, price in zip(found, map(asking.price, found), strict=True)
    )
    # Beside a purchase others are better and cheaper for this question alone: what there is to choose is said apart.
    return [chosen, *(one for one in others if one.epsilon >= chosen.epsilon or one.error > chosen.error)]


def _scaled(accuracy: Accuracy, factor: float) -> Accuracy:
    if accuracy.epsilon is not None:
        return replace(accuracy, epsilon=float(f"{accuracy.epsilon * factor:.3g}"))
    if accuracy.error is not None:
        within = tuple((part, error * factor) for part, error in accuracy.within)
        return replace(accuracy, error=accuracy.error * factor, within=within)
    assert accuracy.variance is not None
    return replace(accuracy, variance=accuracy.variance * factor**2)


def _other_prices(answers: Sequence[Answers], option: Option, asking: _Asking) -> list[Alternative]:
    """Return how wrong the answer would be at other prices."""
    accountant, table, spent = asking.accountant, asking.table, asking.ledger.spent
    found = [Alternative.at(accountant, spent, asking.price(option), option.half_width, option.units, chosen=True)]
    epsilon = accountant.epsilon(option.units)
    shares = [units_of([item], table, accountant) for item in option.items]
    for factor in FACTORS:
        try:
            other = accountant.units(Fraction(repr(float(f"{epsilon * factor:.3g}"))))
            parts = [max(other * share // max(sum(shares), 1), 1) for share in shares]
            chosen = scales(answers, parts, table, accountant)
            error = answers[0].expected(accountant.law, chosen[0], asking.accuracy.confidence).half_width
        except AccuracyError:  # too little for any noise that can be drawn
            continue
        items = tuple(replace(item, scale=scale) for item, scale in zip(option.items, chosen, strict=True))
        price = asking.price(replace(option, items=items))
        found.append(Alternative.at(accountant, spent, price, error, other, chosen=False))
    return found


# A relative error as an error in the answer's own units, from what past noisy answers or public knowledge say.
def resolved(
    accuracy: Accuracy,
    question: Question,
    asked: LinearTarget | None,
    table: TableSchema,
    means: KnownMeans | None = None,
) -> Accuracy:
    """Return a relative accuracy as one in the answer's own units.

    One answer is to be right within a share of itself; several, each within that share of their average, because
    answers near 0 cannot be had within a share of nothing.

    Parameters
    ----------
    accuracy
        With `relative`.
    question, table
        What is asked, of which table.
    asked, means
        What past answers say, if anything; of means in `means`.

    Raises
    ------
    AccuracyError
        If neither past answers nor the public number of rows say about how large the answers are, or there are several
        measures, whose answers are in units of their own.
    """
    assert accuracy.relative is not None
    if len(question.measures) > 1:
        raise AccuracyError(
            f"error='{accuracy.percent}' is of one measure, and these are {len(question.measures)}, each in its own "
            "units: ask them one by one, or give epsilon="
        )
    if (told := _size(asked, means, accuracy.confidence)) is not None:
        size, spread = told
        if size > SURE * spread:
            return accuracy.resolved(accuracy.relative * size)
        raise AccuracyError(
            f"the noisy answer so far, about {digits(size)} give or take {digits(spread)}, is too uncertain to plan "
            f"{accuracy.percent} of it; ask once with error={spread / 2:,.2g} or so"
        )
    counts = question.measures[0].kind in ("count", "cdf", "workload") and question.where.is_everything
    if (rows := table.rows_of(question.where)) is not None and counts and asked is not None:
        return accuracy.resolved(accuracy.relative * rows / asked.count)
    said = f", or say about how many rows there are with rows= when you protect {shorten(table.name)}" if counts else ""
    raise AccuracyError(
        f"error='{accuracy.percent}' is planned from a past noisy answer, and there is none to this question yet; ask "
        f"it once with error= or epsilon= (any accuracy will do){said if table.rows is None else ''}"
    )


def _size(asked: LinearTarget | None, means: KnownMeans | None, confidence: float) -> tuple[float, float] | None:
    """Return how large answers are on average, as far as they are known, and their standard error; None if none is."""
    if means is not None and means.known:
        found = means.estimates(confidence)
        return float(np.abs(found.value).mean()), float(np.sqrt((found.std_error**2).mean()))
    if asked is None or not asked.told:
        return None
    values, variances = asked.estimates()
    known = np.isfinite(variances)
    if not known.any():
        return None
    return float(np.abs(values[known]).mean()) * asked.step, float(np.sqrt(variances[known].mean())) * asked.step
