"""Ways to answer a question: by a recorded answer, by itself, or by what is known together with what is missing."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np

from dpnotebook.planner import explain, marginal_measurement
from dpnotebook.planner.answers import Answers, Estimates, Expected, Floats, LinearAnswers, QuantileAnswers
from dpnotebook.planner.combining import exact_half_width, exact_half_widths
from dpnotebook.planner.delivery import delivered
from dpnotebook.planner.expected_rows import with_rows
from dpnotebook.planner.explain import described
from dpnotebook.planner.history import History, RecordedRelease
from dpnotebook.planner.in_closed_form import InClosedForm
from dpnotebook.planner.least_squares_state import LeastSquaresState
from dpnotebook.planner.ledger_view import Charged, LedgerView
from dpnotebook.planner.pioneer.planner import pioneer_items
from dpnotebook.planner.plan import Planned
from dpnotebook.planner.plan_json import combined_from_json, plan_from_json
from dpnotebook.planner.pricing import Pricing, as_precise_as, cost_of, scales, units_for, units_of
from dpnotebook.planner.problem import Option, PlanningProblem
from dpnotebook.planner.purchase import MOST_CELLS, marginals_to_buy
from dpnotebook.planner.range_purchase import ranges_to_buy
from dpnotebook.planner.recorded_answers import Answered
from dpnotebook.planner.ski_rental import BOUND, BY_DEGREES, Integers, cost_along
from dpnotebook.planner.spare_budget import spare_range
from dpnotebook.planner.table import TableSchema
from dpnotebook.planner.to_linear import Assumption
from dpnotebook.privacy.accountant import Accountant
from dpnotebook.query.question import Accuracy, Question
from dpnotebook.workload.terms import row_weights

WORTH_SAYING = 1.25  # measuring a question better than was asked is called a purchase from so many times its price on
# An error is planned for noise of some least scale, in steps. Where a proposal has noise of a smaller scale, which can
# reach farther for its variance, the error is planned anew for that.
ATTEMPTS = 8
FINER = 0.9  # times the least scale before, at most, is the next one
# What is delivered may be more accurate than bounds say: then noise is widened; see `_Widening`.
MOST_WIDENED = 3  # proposals with wider noise are looked at
WELL_USED = 0.99  # of the allowed error: where so much is used no wider noise is looked for
AIMED = 0.9985  # of the allowed error: what the next proposal aims at
LEAST_USED = 0.3  # of the allowed error: where less is used, the next proposal is widened as if it was this
DIGITS = 9  # decimals of the factor by which noise is widened; those after them come from rounding
NEARLY = 4.0  # times the variance that is needed: up to so much, the exact law of the noise may still keep an error


def repeated(
    question: Question,
    accuracy: Accuracy,
    table: TableSchema,
    ledger: LedgerView,
    assumption: Assumption,
    history: History | None = None,
) -> Option | None:
    """Return the way that gives the most accurate release of the very question, if it is as good as asked."""
    found: list[tuple[int, Option]] = []
    key = question.key
    known = () if history is None else history.answered.of(key)
    others = ledger.records(key, but=() if history is None else history.releases)
    charges = (charge for charge in ledger.pending() if charge.question == key)
    everything: Iterator[Answered | RecordedRelease | Charged] = itertools.chain(known, others, charges)
    for past in everything:
        expected = _expected(past, question, accuracy, table, ledger.accountant, assumption)
        good = expected is not None and _good(past, accuracy, expected, ledger.accountant)
        if expected is not None and (good or _asked_alike(past, accuracy, assumption)):
            if accuracy.by_part:
                alike = replace(accuracy, within=())
                expected = _expected(past, question, alike, table, ledger.accountant, assumption) or expected
            number, units, first = past.number, int(past.plan["units"]), expected[0]
            words = partial(explain.repeated_steps, number)
            option = Option((), units, first.std_errors, first.half_width, words, (number,), number)
            found.append((number, replace(option, expected=tuple(expected))))
    best = min(found, key=lambda item: (item[1].half_width, -item[0]), default=(0, None))[1]
    return best if best is None else _as_delivered(best, question, accuracy, table, ledger, assumption)


def _asked_alike(past: Answered | RecordedRelease | Charged, accuracy: Accuracy, assumption: Assumption) -> bool:
    """Return whether means were asked for with this very accuracy, and nobody says now how many rows groups have.

    In small groups such means are less accurate than was asked, as their cards say. Measured again they would be no
    better, so the release is given for nothing.
    """
    return "assumed" in past.plan and not assumption.said and past.plan["assumed"][2] == accuracy.text


def asked_before(question: Question, accuracy: Accuracy, ledger: LedgerView, history: History | None) -> float | None:
    """Return the error that was planned for the very question and relative error, the latest; None if it is new."""
    known = () if history is None else history.answered.of(question.key)
    others = ledger.records(question.key, but=() if history is None else history.releases)
    everything: Iterator[Answered | RecordedRelease] = itertools.chain(known, others)
    found = [
        (past.number, float(told[1]))
        for past in everything
        if (told := past.plan.get("relative", _in_ranks(past.plan, accuracy)))[0] == accuracy.text
    ]
    return max(found)[1] if found else None


def _in_ranks(plan: Mapping[str, Any], accuracy: Accuracy) -> tuple[str, float | None]:
    """Return what an earlier version was asked for with the same words, and planned: errors of quantiles, in ranks."""
    return str(plan.get("accuracy", "")), accuracy.error


def _as_delivered(
    option: Option,
    question: Question,
    accuracy: Accuracy,
    table: TableSchema,
    ledger: LedgerView,
    assumption: Assumption,
) -> Option:
    """Return the way that repeats a release; of means with the errors that the release shows.

    Whether it is as good as asked was judged by errors that were foretold for groups of an assumed size, so that a cell
    that runs again costs nothing. In small groups means are less accurate than that, which the plan has to say.
    """
    if {measure.kind for measure in question.measures} != {"mean"}:
        return option
    record = next((one for one in ledger.records(question.key) if one.number == option.recorded), None)
    if record is None:
        return option
    law, confidence = ledger.accountant.law, accuracy.confidence
    estimates = combined_from_json(record.details, record.plan, law.name, confidence)
    if estimates is None:
        planned = plan_from_json(record.plan, table.domain, question, assumption)
        # What was bought beside comes after.
        drawn = zip(planned.answers, planned.planned, record.numbers, strict=False)
        estimates = [
            answer.estimate(np.ldexp(noisy.astype(np.float64), -item.bits), law, item.scale, confidence)
            for answer, item, noisy in drawn
        ]
    told = tuple(Expected(one.std_error, float(((one.upper - one.lower) / 2).max(initial=0.0))) for one in estimates)
    return replace(option, std_errors=told[0].std_errors, reach=told[0].half_width, expected=told)


def _expected(
    past: Answered | RecordedRelease | Charged,
    question: Question,
    accuracy: Accuracy,
    table: TableSchema,
    accountant: Accountant,
    assumption: Assumption,
) -> list[Expected] | None:
    """Return how wrong one recorded release is; None where that is not known yet.

    Where parts of a workload have errors of their own, answers and errors are those of weighted queries.
    """
    known = past.expected if isinstance(past, Answered) else {}
    assumption = _as_foretold(past, question, table, assumption)
    key = accuracy.confidence, assumption, accuracy.by_part
    if key not in known:
        details: Mapping[str, Any] = getattr(past, "details", {})
        combined = combined_from_json(details, past.plan, accountant.noise, accuracy.confidence)
        if combined is not None:
            if all(one.finite for one in combined):
                if accuracy.by_part:
                    combined = [one.times(_weights(question)) for one in combined]
                told = zip([details["estimates"], *details.get("others", ())], combined, strict=True)
                known[key] = _promised(past.plan, question, accuracy.confidence, combined) or [
                    _told(*one, accuracy.confidence, accountant) for one in told
                ]
        elif past.plan["measures"]:
            recorded = plan_from_json(past.plan, table.domain, question, assumption)
            known[key] = [
                _by_weight(answer, accuracy).expected(accountant.law, item.scale, accuracy.confidence)
                for answer, item in zip(recorded.answers, recorded.planned, strict=True)
            ]
    return known.get(key)  # none of what is to be combined with others and not measured yet, or is of no use


def _as_foretold(
    past: Answered | RecordedRelease | Charged, question: Question, table: TableSchema, assumption: Assumption
) -> Assumption:
    """Return what a release's errors rested on when it was planned, whatever releases have told since."""
    if assumption.said:
        return assumption
    if "assumed" in past.plan:
        rows, guessed, _ = past.plan["assumed"]
        return replace(assumption, rows=rows, source="", guessed=guessed)
    if question.keys and assumption.source:  # by how many rows the table was said to have
        return with_rows(replace(assumption, rows=None, source=""), question, table, None)
    return assumption


def _by_weight(answer: Answers, accuracy: Accuracy) -> Answers:
    """Return the answers as their errors are promised: times their weights, where parts have errors of their own."""
    return replace(answer, by_weight=True) if accuracy.by_part and isinstance(answer, LinearAnswers) else answer


def _weights(question: Question) -> Floats:
    """Return how accurate each answer must be, relative to those that may be the least accurate; shape (answers,)."""
    workload = question.measures[0].workload
    assert workload is not None
    return np.asarray(row_weights(workload), dtype=float)


def _promised(
    plan: Mapping[str, Any], question: Question, confidence: float, estimates: Sequence[Estimates]
) -> list[Expected]:
    """Return what was said of means before they were known, for rows that were assumed; nothing of other answers."""
    (first, *others), kinds = estimates, {measure.kind for measure in question.measures}
    if others or kinds != {"mean"} or plan.get("combined") != confidence or "promised" not in plan:
        return []
    std_error, half_width = plan["promised"]
    return [Expected(np.full(first.value.size, std_error), half_width)]


def _told(told: Mapping[str, Any], estimates: Estimates, confidence: float, accountant: Accountant) -> Expected:
    """Return how wrong answers are that were combined from several releases."""
    errors = np.asarray(told.get("ranks", estimates.std_error), dtype=float)
    width = float((estimates.upper - estimates.lower).max()) / 2
    if "ranks" in told and confidence == told["confidence"] and "reach" in told:
        width = told["reach"]
    elif "ranks" in told:
        width = float(accountant.law.farthest(errors.max(keepdims=True), confidence, told["step"], told["scale"])[0])
    return Expected(errors, width)


def _good(
    past: Answered | RecordedRelease | Charged, accuracy: Accuracy, expected: Sequence[Expected], accountant: Accountant
) -> bool:
    """Return whether a recorded release is as good as is asked."""
    if accuracy.epsilon is not None:
        units = max(int(past.plan["units"]), int(past.plan.get("as_good_as", 0)))
        return units >= accountant.least_units(accuracy.epsilon)
    return all(_keeps(accuracy, one) for one in expected)


def _keeps(accuracy: Accuracy, expected: Expected) -> bool:
    if accuracy.error is not None:
        return expected.half_width <= accuracy.error * marginal_measurement.SLACK
    assert accuracy.variance is not None
    return float(np.max(expected.std_errors)) ** 2 <= accuracy.variance * marginal_measurement.SLACK


def by_itself(answers: Sequence[Answers], accuracy: Accuracy, table: TableSchema, accountant: Accountant) -> Option:
    """Return the way that looks at nothing that was recorded."""
    units, shares = units_for(accuracy, answers, table, accountant)
    return replace(at_price(answers, shares, accuracy.confidence, table, accountant), units=units)


def at_price(
    answers: Sequence[Answers], shares: Sequence[int], confidence: float, table: TableSchema, accountant: Accountant
) -> Option:
    """Return the way that measures each answer for its share of the price, in units."""
    chosen = scales(answers, shares, table, accountant)
    items = tuple(
        Planned(answer.measurement, scale, accountant.law.grid_bits(scale), answer.strategy)
        for answer, scale in zip(answers, chosen, strict=True)
    )
    expected = tuple(
        answer.expected(accountant.law, scale, confidence) for answer, scale in zip(answers, chosen, strict=True)
    )
    words = partial(explain.steps, table, answers, chosen, accountant.law)
    first = expected[0]
    return Option(items, sum(shares), first.std_errors, lambda: first.half_width, words, expected=expected)


def with_history(problem: PlanningProblem, accuracy: Accuracy) -> Option:
    """Return the cheapest way to answer.

    Parameters
    ----------
    problem
        The question and what is known.
    accuracy
        An epsilon, an error or a variance.
    """
    asked, alone = problem.asked, problem.alone
    if accuracy.epsilon is not None:
        return _at_most(problem, accuracy) if asked.told else alone
    if accuracy.by_part:
        return _within(problem, accuracy) if asked.told else alone
    least, widening = asked.least_scale, _Widening(problem)
    for _ in range(ATTEMPTS):
        target = marginal_measurement.target_of(accuracy, asked.step, problem.law, least, asked.reach)
        if target <= 0:  # finer than combinations of whole numbers can promise
            break
        option = _with_variance(problem, accuracy, min(target * float(widening.times), marginal_measurement.ENOUGH))
        if accuracy.error is not None:
            used = option.half_width / accuracy.error
        else:
            assert accuracy.variance is not None
            used = float(option.std_errors.max(initial=0.0)) / math.sqrt(accuracy.variance)
        if widening.done(option, used):
            break
        if widening.best is None:
            # Coarse noise that is added up can reach further, for its variance, than noise as fine as was thought of.
            least = min(least * FINER, *(float(item.scale) for item in option.items))
    if widening.best is not None:
        return widening.best
    return _finished(problem, replace(alone, own=True), None, accuracy) if asked.told else alone


class _Widening:
    """The search for the widest noise that keeps what was asked for.

    Measurements are proposed by bounds on their error; what is delivered is often more accurate. The next proposal is
    allowed as much more variance, and where that was too much, half of it (in logarithms) is taken back.

    Parameters
    ----------
    problem
        The question and what is known.
    """

    def __init__(self, problem: PlanningProblem) -> None:
        self.problem = problem
        self.times: float | Floats = 1.0  # the variance that bounds allow
        self.best: Option | None = None
        self._good: float | Floats = 1.0
        self._tries = 0

    def leave_some(self, targets: Floats) -> None:
        """Narrow until what is known alone does not keep the wider targets: else there would be nothing to measure."""
        asked = self.problem.asked
        while np.max(self.times) > 1 and marginal_measurement.is_known(asked, targets * self.times):
            self.times = np.sqrt(self.times)

    def done(self, option: Option, used: float | Floats) -> bool:
        """Take a way into account, and return whether the search is over.

        Parameters
        ----------
        option
            The way found with the variance that bounds allow times `times`.
        used
            The share of the allowed error that its answers have: of all, or of the part of each answer.
        """
        most = float(np.max(used, initial=0.0))
        fits = most <= marginal_measurement.SLACK
        if self.best is None and not fits:
            return False
        # Where nothing raises the total, as in a part that is new, what leaves more to spare is cheaper.
        cheaper = self.best is None or self.problem.prices(option.items) < self.problem.prices(self.best.items)
        if fits and cheaper:
            self.best = option
        self._tries += 1
        if option.widths is None or not option.items or option.bought or self._tries > MOST_WIDENED:
            return True
        if self.problem.planner == "pioneer":  # as it was published
            return True
        if fits:
            if most >= WELL_USED or not cheaper:
                return True
            self._good = self.times
        # What is a little too wide is taken back by as much; what is more so, half of the way.
        least = LEAST_USED if fits else 1.0
        there = self.times * (AIMED / np.maximum(used, least)) ** 2
        self.times = np.round(there if fits else np.maximum(there, np.sqrt(self._good * self.times)), DIGITS)
        return False


def _at_most(problem: PlanningProblem, accuracy: Accuracy) -> Option:
    """Return the way that pays an epsilon at most, and gives no answer that is worse than that epsilon alone would.

    What is known already is not paid for again, and what is missing costs less beside it.
    """
    targets = (problem.alone_errors / problem.asked.step) ** 2
    if (free := _known_within(problem, accuracy, targets)) is not None:
        return free
    return _beside(problem, accuracy, targets)


def _within(problem: PlanningProblem, accuracy: Accuracy) -> Option:
    """Return the cheapest way found in which the answers of every part of a workload keep the error of that part."""
    asked, least = problem.asked, problem.asked.least_scale
    assert accuracy.error is not None
    errors = accuracy.error / _weights(problem.question)
    widening = _Widening(problem)
    for _ in range(ATTEMPTS):
        targets = np.zeros(errors.size)
        for error in np.unique(errors):
            alike = replace(accuracy, error=float(error), within=())
            targets[errors == error] = marginal_measurement.target_of(
                alike, asked.step, problem.law, least, asked.reach
            )
        if (targets <= 0).any():
            break
        if widening.best is None and (free := _known_within(problem, accuracy, targets, errors)) is not None:
            return free
        widening.leave_some(targets)
        option = _beside(problem, accuracy, np.minimum(targets * widening.times, marginal_measurement.ENOUGH))
        scale = min([asked.least_scale, *(float(item.scale) for item in option.items)])
        reach = option.widths
        if reach is None:
            reach = problem.law.farthest(option.std_errors, accuracy.confidence, asked.step * asked.reach, scale)
        if option.own and option.widths is None:
            return option
        used = reach / errors
        if widening.done(option, _largest_by(errors, used)):
            break
        if widening.best is None:
            least = min(least * FINER, scale)  # coarse noise that is added up can reach further, for its variance
    return widening.best or _finished(problem, replace(problem.alone, own=True), None, accuracy)


def _largest_by(kinds: Floats, numbers: Floats) -> Floats:
    """Return for each number the largest of those of its kind."""
    _, place = np.unique(kinds, return_inverse=True)
    most = np.zeros(place.max(initial=-1) + 1)
    np.maximum.at(most, place, numbers)
    return np.asarray(most[place])


def _known_within(
    problem: PlanningProblem, accuracy: Accuracy, targets: Floats, errors: Floats | None = None
) -> Option | None:
    """Return the way that measures nothing, where what is known is as accurate as each answer must be; else None.

    Parameters
    ----------
    problem, accuracy
        The question and what is known; for what is asked.
    targets
        The variance that each answer must have, in squared integers; shape (answers,).
    errors
        How far each may reach, in its own units, where that is asked: the exact law of the noise may keep it.
    """
    asked, alone = problem.asked, problem.alone
    known = marginal_measurement.is_known(asked, targets)
    if not known and (errors is None or not marginal_measurement.is_known(asked, np.asarray(targets * NEARLY))):
        return None
    widths = exact_half_widths(problem.history, asked, accuracy.confidence)
    if not known and (widths is None or errors is None or (widths > errors * marginal_measurement.SLACK).any()):
        return None
    width = 0.0 if widths is None else float(widths.max(initial=0.0))
    option = Option((), 0, alone.std_errors, width, as_good_as=alone.units if accuracy.error is None else 0)
    return _finished(problem, option, asked.variances, accuracy)


def _beside(problem: PlanningProblem, accuracy: Accuracy, targets: Floats) -> Option:
    """Return the way that measures least beside what is known, with every answer as accurate as its own target.

    Parameters
    ----------
    problem, accuracy
        The question and what is known; for what is asked.
    targets
        The variance that each answer must have, in squared integers; shape (answers,).
    """
    problem, alone = _over_atoms(problem), problem.alone
    best: marginal_measurement.Proposal | None = None
    least = problem.price(alone.items), alone.units
    for proposal in _missing(problem, targets) if problem.planner != "pioneer" else ():
        price = problem.prices(proposal.items)
        if price < least and (variances := _delivered(problem, proposal, targets)) is not None:
            least, best = price, replace(proposal, variances=variances)
    if best is None:
        variances = marginal_measurement.combined(problem.asked.variances, targets)
        return _finished(problem, replace(alone, own=True), variances, accuracy)
    own, (_, units) = best.half_width > 0, least
    as_good_as = alone.units if accuracy.error is None else 0
    option = Option(best.items, units, alone.std_errors, best.half_width, own=own, as_good_as=as_good_as)
    return _finished(problem, option, best.variances, accuracy)


def _over_atoms(problem: PlanningProblem) -> PlanningProblem:
    """Return the same with the question over atoms, where there is room: answer by answer more may seem missing."""
    classes = problem.planner != "pioneer"
    if marginal_measurement.tells_together(problem.asked) and (classes or not isinstance(problem.asked, InClosedForm)):
        return problem
    if not problem.forms:
        atoms = marginal_measurement.asked_of(problem.question, problem.history, over_atoms=True, classes=classes)
        told = atoms is not None and marginal_measurement.tells_together(atoms)
        problem.forms.append(atoms.certain() if atoms is not None and told else None)
    (found,) = problem.forms
    return problem if found is None else replace(problem, asked=found)


def _with_variance(problem: PlanningProblem, accuracy: Accuracy, target: float) -> Option:
    """Return the cheapest way to answer with this variance, in squared integers."""
    asked, alone = problem.asked, problem.alone
    if (free := _free(problem, accuracy, target)) is not None:
        return free
    problem = _over_atoms(problem)
    asked = problem.asked
    if problem.planner == "pioneer":
        return _by_pioneer(problem, accuracy, target)
    better: list[marginal_measurement.Proposal] = []
    least, units = problem.price(alone.items), alone.units
    left = problem.ledger.accountant.total - problem.ledger.spent
    for proposal in _proposals(problem, target):
        price, less = problem.prices(proposal.items)
        # Of what costs nothing, that which leaves its cells most to spare.
        if price < least or (price == least == 0 and less < units) or (proposal.sparing and price <= problem.extra):
            better.append(proposal)
            least, units = price, less
        if least > left:
            break  # what is far beyond the budget need not be shaved
    if 0 < least <= left:
        instead = better[-1].items if better else alone.items
        if (option := _with_purchase(problem, least, accuracy, target, instead)) is not None:
            return option
    for proposal in reversed(better):
        if (variances := _delivered(problem, proposal)) is not None:
            units, half_width = _units(proposal.items, problem), proposal.half_width
            own = half_width > 0
            option = Option(proposal.items, units, alone.std_errors, half_width, target=target, own=own)
            return _finished(problem, option, variances, accuracy)
    option = replace(alone, target=target, own=True)
    return _finished(problem, option, None, accuracy) if asked.told else option


def _free(problem: PlanningProblem, accuracy: Accuracy, target: float) -> Option | None:
    """Return the way that measures nothing, where what is known is enough."""
    asked, alone = problem.asked, problem.alone
    if not asked.told:
        return None
    if marginal_measurement.is_known(asked, target):
        free = Option((), 0, alone.std_errors, 0.0, target=target)
        return _finished(problem, free, asked.variances, accuracy)
    if accuracy.error is None:
        return None
    # The bound that holds for every combination of noise is a little wide: the exact law may keep the promise. Of many
    # sources together the law is worked out for a few answers only, of one release for a whole table.
    closed = (problem.in_closed_form(),) if marginal_measurement.tells_together(asked) else ()
    most = math.sqrt(target * NEARLY * marginal_measurement.SLACK) * asked.step
    by_itself = marginal_measurement.each_closed_of(problem.question, problem.history, (), most)
    for each in itertools.chain((asked,), closed, by_itself):
        if each is None or not marginal_measurement.is_known(each, target * NEARLY):
            continue
        width = exact_half_width(problem.history, each, accuracy.confidence)
        if width <= accuracy.error * marginal_measurement.SLACK:
            free = Option((), 0, alone.std_errors, width, target=target)
            return _finished(replace(problem, asked=each), free, each.variances, accuracy)
    return None


def _delivered(
    problem: PlanningProblem, proposal: marginal_measurement.Proposal, targets: Floats | None = None
) -> Floats | None:
    """Return the variances that answers will have, by what would be shown if what is proposed were measured.

    A proposal says which variances are enough, by part of what is known. Least squares over all that is known may be
    better, and what is delivered by that is what a plan promises.

    Returns
    -------
    None where the worst of the answers, or one with a target of its own, would be less accurate than was proposed.
    """
    refining = any(item.refines is not None for item in proposal.items)
    # A refinement counts where its measurement does: what is known in another form may not be combined with it.
    if not problem.buying or (proposal.single and not refining):
        return proposal.variances
    slack = marginal_measurement.SLACK
    if proposal.delivered is not None and not refining:
        variances: Floats | None = proposal.delivered()
    else:
        variances = problem.variances_after(proposal.items)
    if variances is None:
        return None
    most = proposal.variances.max(initial=0.0) if targets is None else targets
    if (variances > most * slack).any():
        return None
    return np.minimum(variances * slack, np.maximum(variances, most))  # what is shown may differ by rounding


def _by_pioneer(problem: PlanningProblem, accuracy: Accuracy, target: float) -> Option:
    """Return what Pioneer would do for a count; other questions are measured by themselves."""
    alone = replace(problem.alone, target=target)
    items = pioneer_items(problem.asked, target, problem.history)
    if not items:
        return alone
    variances = _delivered(problem, marginal_measurement.Proposal(items, np.full(1, target)))
    if variances is None:
        return alone
    option = Option(items, _units(items, problem), problem.alone_errors, 0.0, target=target)
    return _finished(problem, option, variances, accuracy)


def _units(items: Sequence[Planned], problem: PlanningProblem) -> int:
    return units_of(items, problem.table, problem.ledger.accountant)


def _with_purchase(
    problem: PlanningProblem, least: int, accuracy: Accuracy, target: float, otherwise: Sequence[Planned]
) -> Option | None:
    """Return the way that buys a strategy first, where that is likely to pay, or else measures `otherwise`."""
    if problem.purchases != "auto" or not problem.buying or problem.credit(least, BOUND) <= least:
        return None
    asked, history, block = problem.asked, problem.history, problem.along
    instead = cost_of(otherwise, problem.table, problem.ledger.accountant)
    credit = problem.credit(least, BY_DEGREES, instead) if block is None else problem.credit(least, BOUND)
    pricing = Pricing(problem.table, problem.ledger.accountant, history)
    along: Callable[[], Integers | None] | None = None
    if block is not None:
        (name,) = problem.linear.measurement.where.attributes
        along = cache(partial(problem.credit_along, name, BOUND, instead))
        found = ranges_to_buy(
            problem.linear.measurement, target, block, problem.ledger.spend, credit, along, pricing, problem.worked_out
        )
    else:
        atoms = _in_play(problem)
        found = marginals_to_buy(problem.question, target, atoms, history.recent, pricing, least, credit)
    if found is None:
        return None
    bought, still = found
    own = problem.answer.measurement.key
    supposed = problem.after(bought)
    if supposed is None:
        return None
    after = replace(problem, asked=supposed)
    # Coarse noise that is added up can reach further, for its variance, than what a question needs by itself.
    target = min(target, marginal_measurement.target_of(accuracy, asked.step, problem.law, after.asked.least_scale))
    if target <= 0:
        return None
    bought = tuple(sorted(bought, key=lambda item: item.measurement.key == own))
    later = sum(item.measurement.key != own for item in bought)
    if not later:
        if problem.price(bought) < WORTH_SAYING * least:
            return None  # hardly more than the question needs
        later = len(bought)
    items = bought
    if not marginal_measurement.is_known(after.asked, target):
        missing = [proposal for proposal in _proposals(after, target) if not proposal.half_width]
        rest = min(missing, key=lambda proposal: after.price((*bought, *proposal.items)))
        items = (*bought, *rest.items)
    refined = [item.refines for item in items if item.refines is not None]
    price = problem.price(items)
    if price > credit or len(set(refined)) < len(refined):
        return None
    if along is not None and (most := along()) is not None:
        cost = cost_of(items, problem.table, problem.ledger.accountant)
        if (cost_along(name, cost, most.size) > most).any():
            return None
    variances = _delivered(problem, marginal_measurement.Proposal(items, np.minimum(after.asked.variances, target)))
    if variances is None:
        return None
    forecast = problem.rent.forecast(least, price, still)
    units = _units(items, problem)
    option = Option(items, units, variances, 0.0, target=target, bought=later, forecast=forecast)
    option = replace(option, instead=instead)
    reaching = replace(problem, asked=replace(asked, least_scale=after.asked.least_scale))
    return _finished(reaching, option, variances, accuracy)


def _in_play(problem: PlanningProblem) -> LeastSquaresState | None:
    """Return least squares over the attributes for which marginals may be bought; None where these have no room."""
    asked: marginal_measurement.LinearTarget | None = problem.asked
    if isinstance(asked, InClosedForm) and asked.joint:
        part = marginal_measurement.part_of(problem.question, problem.table.domain)
        if math.prod(problem.table.domain[name].size for name in part.attributes) > MOST_CELLS:
            return None
        asked = marginal_measurement.asked_of(problem.question, problem.history, over_atoms=True, classes=False)
    return asked.block if isinstance(asked, marginal_measurement.OverAtoms) else None


def _proposals(problem: PlanningProblem, target: float) -> Iterator[marginal_measurement.Proposal]:
    """Yield what could be measured beside what is known, in the order in which it is preferred at the same price."""
    linear = problem.linear
    pricing = Pricing(problem.table, problem.ledger.accountant, problem.history)
    yield from _missing(problem, target)
    block = problem.along
    if problem.asked.told and block is not None and not problem.table.adds:
        pieces = spare_range(linear.measurement, block, problem.ledger.spend, target, pricing, problem.extra)
        if pieces is not None:
            yield marginal_measurement.Proposal(pieces, np.full(1, target), sparing=True)


def _missing(problem: PlanningProblem, target: float | Floats) -> Iterator[marginal_measurement.Proposal]:
    """Yield ways to measure what the question's own strategy lacks beside what is known."""
    asked, linear = problem.asked, problem.linear
    pricing = Pricing(problem.table, problem.ledger.accountant, problem.history)
    if not asked.told:
        return
    if (refined := as_precise_as(problem.alone.items[0], pricing)) is not None:
        variances = (problem.alone_errors / asked.step) ** 2
        yield marginal_measurement.Proposal((refined,), variances, lambda: problem.alone.half_width, single=True)
    yield marginal_measurement.direct(asked, linear, target, pricing)
    if (joint := marginal_measurement.together(asked, linear, target, pricing)) is not None:
        yield joint
    if (beside := marginal_measurement.strategy_beside(asked, linear, target, pricing)) is not None:
        yield beside


def _finished(problem: PlanningProblem, option: Option, variances: Floats | None, accuracy: Accuracy) -> Option:
    """Return a way with its expected errors, what it reuses, and all of it in words."""
    asked, answer = problem.asked, problem.answer
    std_errors, half_width = option.std_errors, option.half_width
    if variances is not None:
        errors = np.sqrt(variances) * asked.step
        reach = marginal_measurement.half_width(asked, float(errors.max()), accuracy, problem.law, option.items)
        if not (option.own and half_width <= reach):  # the answer by itself, or what is known with it: one of the two
            half_width = min((not option.own and half_width) or math.inf, reach)
            std_errors = answer.worst(errors) if isinstance(answer, QuantileAnswers) else errors
    widths = None
    if problem.buying and not problem.law.stable:  # Gaussian noise reaches as far as its variance says
        shown = delivered(problem, replace(option, std_errors=std_errors, reach=half_width), accuracy)
        if shown is not None:
            std_errors, half_width, widths = shown
    reused = asked.sources()
    words = partial(
        described,
        option.items,
        reused,
        answer,
        problem.table,
        problem.ledger.accountant,
        half_width,
        accuracy.confidence,
        option.bought,
    )
    told = replace(option, std_errors=std_errors, reach=half_width, widths=widths)
    return replace(told, reused=reused, words=words, combined=True)
