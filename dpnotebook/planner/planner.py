"""The planner: from a question, an accuracy and what the ledger says to a plan, without touching any data.

It knows the declared domain, the budget and what earlier releases recorded: a plan is a function of the ledger.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np

from dpnotebook.errors import AccuracyError, shorten
from dpnotebook.planner import explain, marginal_measurement
from dpnotebook.planner.answers import COARSE, Answers, Expected, MeanAnswers
from dpnotebook.planner.history import History, StrategyPrice
from dpnotebook.planner.known_means import known_means, with_known
from dpnotebook.planner.marginal_measurement import LinearTarget
from dpnotebook.planner.options import by_itself, repeated, with_history
from dpnotebook.planner.plan import Alternative, BudgetState, Cost, Plan, PlannedMeasure
from dpnotebook.planner.pricing import cost_of, scales, units_for, units_of
from dpnotebook.planner.problem import LedgerView, Option, PlanningProblem
from dpnotebook.planner.several import SeveralMeasures
from dpnotebook.planner.ski_rental import Purchases
from dpnotebook.planner.table import TableSchema
from dpnotebook.planner.to_linear import Assumption, as_asked, to_linear
from dpnotebook.privacy.accountant import Accountant
from dpnotebook.privacy.laws import GAUSSIAN, Law, Noise
from dpnotebook.query.objective import Objective
from dpnotebook.query.question import Accuracy, Question
from dpnotebook.strategy import Strategy
from dpnotebook.workload.terms import row_weights

FACTORS = (0.5, 2.0, 5.0)  # prices beside the chosen one that a plan shows, of a question that is asked by itself
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
    alternatives: bool = True,
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
    alternatives
        Whether to list other prices: pricing them takes longer than the plan itself.

    Raises
    ------
    AccuracyError
        If the accuracy cannot be planned for, or fits no mechanism.
    DomainError
        If the question cannot be asked of the declared domain.
    """
    accountant = ledger.accountant
    assumption = assumption or Assumption()
    if assumption.rows is None:
        assumption = Assumption(table.rows_of(question.where), assumption.value)
    own = fresh or strategy is not None
    given, asked = accuracy, None
    if accuracy.relative is not None:
        asked = None if own or history is None else _asked(question, history)
        accuracy = resolved(accuracy, question, asked, table)
    _check_accuracy(question, accuracy, table, assumption)
    option = None if fresh else repeated(question, accuracy, table, ledger, assumption, history)
    if option is None and asked is None and not own and history is not None:
        asked = _asked(question, history)
    alone: Cost | None = None
    others: list[Alternative] = []
    worked_out: dict[str, StrategyPrice] = {}
    kind: str | None = None
    answers: Sequence[Answers] = ()
    if option is None and len(question.measures) > 1:
        past = None if own else history
        together = SeveralMeasures(question, table, ledger, past, planner, assumption)
        option = together.planned(accuracy)
        if option is not None:
            answers = together.apart
            units = option.as_good_as
            if not units:
                units, _ = units_for(accuracy, answers, table, accountant)
            alone = None if past is None else Cost(accountant.epsilon(units), accountant.delta, units)
            if alternatives and together.quick(accuracy):
                others = _others(together.planned, option, accuracy, table, ledger)
    if option is None:
        linear = partial(_linear, question, table, accountant.noise, assumption, strategy)
        answers = linear(accuracy.planned_for)
        option = by_itself(answers, accuracy, table, accountant)
        known = asked is not None and asked.told
        second = None if accuracy.planned_for == "total" or accuracy.objective else linear("total")
        if second is not None and _same(second, answers):
            second = None
        if second is not None and not known and _may_be_cheaper(second, option, accuracy, table, accountant):
            other = by_itself(second, accuracy, table, accountant)
            prices = [ledger.price(cost_of(one.items, table, accountant)) for one in (option, other)]
            if prices[1] < prices[0]:
                answers, option = second, other
        means = None if own or history is None else known_means(question, history)
        if means is not None and isinstance(answers[0], MeanAnswers):
            units = ledger.price(cost_of(option.items, table, accountant))
            alone = Cost(accountant.epsilon(units), accountant.delta, units)
            beside = partial(with_known, means, question, answers[0], table=table, ledger=ledger)
            if (found := beside(option, accuracy)) is not None:

                def mean_at(other: Accuracy) -> Option:
                    by_themselves = by_itself(answers, other, table, accountant)
                    return beside(by_themselves, other) or by_themselves

                option = found
                if alternatives:
                    others = _others(mean_at, option, accuracy, table, ledger)
        if asked is not None and history is not None:
            units = ledger.price(cost_of(option.items, table, accountant))
            alone = Cost(accountant.epsilon(units), accountant.delta, units)
            problem = PlanningProblem(
                table, ledger, history, question, answers[0], option, asked, planner, purchases=purchases
            )
            option, worked_out, kind = with_history(problem, accuracy), problem.worked_out, problem.kind
            if second is not None and known and option.items and not option.bought:
                # What is known, or can be refined, may suit what is measured for the total better.
                too = replace(
                    problem, answer=second[0], alone=by_itself(second, accuracy, table, accountant), worked_out={}
                )
                other = with_history(too, accuracy)
                if too.price(other.items) < problem.price(option.items):
                    problem, answers, option, worked_out = too, second, other, too.worked_out

            def beside_history(other: Accuracy) -> Option:
                asked_alone = by_itself(answers, other, table, accountant)
                return with_history(replace(problem, alone=asked_alone, buying=False), other)

            if alternatives and option.combined:
                others = _others(beside_history, option, accuracy, table, ledger)
        if alternatives and not others and option.items:
            others = _other_prices(answers, option, accuracy, table, ledger)
    cells = cost_of(option.items, table, accountant)
    price = ledger.price(cells) if option.items else 0
    spent = ledger.spent
    epsilon = accountant.epsilon(option.units)
    budget = BudgetState.around(accountant, spent, price)
    expected = Expected(option.std_errors, option.half_width)
    if not (math.isfinite(option.half_width) and np.isfinite(option.std_errors).all()):
        raise AccuracyError("no noise that can be drawn answers this; ask for fewer answers or cells at once")
    return Plan(
        question=question,
        accuracy=accuracy,
        title=question.words,
        where="" if question.where.is_everything else str(question.where),
        unit=explain.unit(question.measures[0], question),
        answers=int(option.std_errors.size),
        cost=Cost(accountant.epsilon(price), accountant.delta, price),
        epsilon=epsilon,
        delta=accountant.delta,
        units=option.units,
        budget=budget,
        std_errors=as_asked(option.std_errors, question.measures[0], question, table.domain),
        error=option.half_width,
        confidence=accuracy.confidence,
        alternatives=tuple(sorted(others, key=lambda other: other.epsilon)),
        reused=option.reused,
        affordable=spent + price <= accountant.total,
        assumption=explain.size_assumed(given, accuracy, explain.unit(question.measures[0], question))
        or next(filter(None, (explain.assumption(question, assumption, answer) for answer in answers)), ""),
        warnings=(
            *explain.warnings(question, table.domain, assumption, expected, epsilon),
            *(line for one in answers[:1] for line in explain.saved_by_delta(question, one, accountant.noise, epsilon)),
        ),
        steps=option.steps,
        code=explain.code(question, given),
        noise=accountant.noise,
        measurements=option.items,
        cells=cells,
        recorded=option.recorded,
        actions=option.actions,
        without_reuse=alone,
        alone_before=0 if history is None else history.alone_total,
        combined=option.combined,
        own=option.own,
        as_good_as=option.as_good_as,
        target=option.target,
        known=0 if history is None else len(history.releases),
        strategy_prices={name: (price.price, price.credit) for name, price in worked_out.items()},
        kind=kind,
        forecast=None if option.forecast is None else option.forecast.in_epsilon(accountant.epsilon),
        parts=_parts(question, option.expected)
        if len(question.measures) > 1
        else _by_target(question, accuracy, option, accountant.law),
    )


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
        for measure, one in zip(question.measures, expected, strict=True)
    )


def _by_target(question: Question, accuracy: Accuracy, option: Option, law: Law) -> tuple[PlannedMeasure, ...]:
    """Return how wrong the answers of each part of a workload will be, where parts have errors of their own."""
    workload = question.measures[0].workload
    if not accuracy.by_part or workload is None or accuracy.error is None:
        return ()
    weights = row_weights(workload)
    unit, reach, found = explain.unit(question.measures[0], question), law.kappa(accuracy.confidence), []
    for target in dict.fromkeys(target for _, target in accuracy.within):
        name = " + ".join(part for part, error in accuracy.within if error == target)
        rows = np.isclose(weights, max(accuracy.error / target, 1.0))
        std_error = float(option.std_errors[rows].max(initial=0.0))
        half_width = min(std_error * reach, target)  # sums of Laplace noise do not reach as far as a single draw
        found.append(PlannedMeasure(name, name, unit, std_error, half_width))
    return tuple(found)


def _linear(
    question: Question,
    table: TableSchema,
    noise: Noise,
    assumption: Assumption,
    strategy: Strategy | None,
    objective: Objective,
) -> list[Answers]:
    """Return how the measures are answered, with strategies for an objective."""
    return [
        to_linear(measure, question, table.domain, noise, assumption, strategy, objective)
        for measure in question.measures
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
    if any(answer.scale_for(hopeful, accountant.noise) < COARSE for answer in answers):
        return True
    return units_for(hopeful, answers, table, accountant)[0] < than.units


def _asked(question: Question, history: History) -> marginal_measurement.LinearTarget | None:
    """Return the question over what was recorded, and what is certain about it; None where it has no such form."""
    asked = marginal_measurement.asked_of(question, history)
    return None if asked is None else asked.certain()


def _check_accuracy(question: Question, accuracy: Accuracy, table: TableSchema, assumption: Assumption) -> None:
    """Refuse an error or a variance that cannot be promised for all measures, or without knowing the number of rows."""
    if accuracy.epsilon is not None:
        return
    kinds = {explain.unit(measure, question) for measure in question.measures}
    if len(kinds) > 1:
        raise AccuracyError(
            f"{accuracy.text} cannot hold for {' and '.join(sorted(kinds))} at once; give epsilon=, or ask them apart"
        )
    if any(measure.kind == "mean" for measure in question.measures) and assumption.rows is None:
        raise AccuracyError(
            "the error of a mean depends on the number of rows, which planning does not read; say about how many "
            f"there are with rows= when you protect {shorten(table.name)}, or give epsilon="
        )


def _others(
    way: Callable[[Accuracy], Option | None],
    option: Option,
    accuracy: Accuracy,
    table: TableSchema,
    ledger: LedgerView,
) -> list[Alternative]:
    """Return what other errors would cost, or what other epsilons would give, past answers taken into account.

    Parameters
    ----------
    way
        Gives how the question would be answered at another accuracy, None where that is not known.
    option, accuracy
        How it is answered, and how well.
    table, ledger
        What is public about the table; the budget and the record of past answers.
    """
    found = [option]
    for factor in ERRORS if accuracy.epsilon is None else FACTORS:
        with suppress(AccuracyError):  # too little or too much for any noise that can be drawn
            found += [one for one in [way(_scaled(accuracy, factor))] if one is not None]
    accountant, spent = ledger.accountant, ledger.spent
    prices = [ledger.price(cost_of(one.items, table, accountant)) if one.items else 0 for one in found]
    chosen, *others = (
        Alternative.at(accountant, spent, price, one.half_width, price, one is option)
        for one, price in zip(found, prices, strict=True)
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


def _other_prices(
    answers: Sequence[Answers], option: Option, accuracy: Accuracy, table: TableSchema, ledger: LedgerView
) -> list[Alternative]:
    """Return how wrong the answer would be at other prices."""
    accountant, spent = ledger.accountant, ledger.spent
    price = ledger.price(cost_of(option.items, table, accountant))
    found = [Alternative.at(accountant, spent, price, option.half_width, option.units, True)]
    epsilon = accountant.epsilon(option.units)
    shares = [units_of([item], table, accountant) for item in option.items]
    for factor in FACTORS:
        try:
            other = accountant.units(Fraction(repr(float(f"{epsilon * factor:.3g}"))))
            parts = [max(other * share // max(sum(shares), 1), 1) for share in shares]
            chosen = scales(answers, parts, table, accountant)
            error = answers[0].expected(accountant.noise, chosen[0], accuracy.confidence).half_width
        except AccuracyError:  # too little for any noise that can be drawn
            continue
        items = [replace(item, scale=scale) for item, scale in zip(option.items, chosen, strict=True)]
        price = ledger.price(cost_of(items, table, accountant))
        found.append(Alternative.at(accountant, spent, price, error, other, False))
    return found


# A relative error as an error in the answer's own units, from what past noisy answers or public knowledge say.
def resolved(accuracy: Accuracy, question: Question, asked: LinearTarget | None, table: TableSchema) -> Accuracy:
    """Return a relative accuracy as one in the answer's own units.

    One answer is to be right within a share of itself; several, each within that share of their average, because
    answers near 0 cannot be had within a share of nothing.

    Parameters
    ----------
    accuracy
        With `relative`.
    question, table
        What is asked, of which table.
    asked
        What past answers say, if anything.

    Raises
    ------
    AccuracyError
        If neither past answers nor the public number of rows say about how large the answers are.
    """
    assert accuracy.relative is not None
    if asked is not None and asked.told:
        values, variances = asked.estimates()
        known = np.isfinite(variances)
        if known.any():
            size = float(np.abs(values[known]).mean()) * asked.step
            spread = float(np.sqrt(variances[known].mean())) * asked.step
            if size > SURE * spread:
                return accuracy.resolved(accuracy.relative * size)
            raise AccuracyError(
                f"the noisy answer so far, about {size:,.3g} give or take {spread:,.3g}, is too uncertain to plan "
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
