"""Questions with several measures of the same rows: what one of them measures tells the others for nothing.

The pair of sums that a mean is measured by counts the rows as well, and gives the sum (see `MeanAnswers`). So of a
count, a sum and a mean of one column only that pair is measured, with the whole epsilon rather than a third of it; and
each of what is measured is beside what is known already, as if it were asked by itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dpnotebook.domain import Domain
from dpnotebook.planner import explain
from dpnotebook.planner.answers import Answers, Expected, MeanAnswers, QuantileAnswers
from dpnotebook.planner.combining import Promise, combined_details, widths_of
from dpnotebook.planner.history import History
from dpnotebook.planner.items import Item, item_of
from dpnotebook.planner.known_means import known_means, with_known
from dpnotebook.planner.marginal_measurement import asked_of
from dpnotebook.planner.options import at_price, with_history
from dpnotebook.planner.plan import Planned
from dpnotebook.planner.pricing import cost_of
from dpnotebook.planner.problem import LedgerView, Option, PlanningProblem
from dpnotebook.planner.table import TableSchema
from dpnotebook.planner.to_linear import Assumption, allowed_levels, to_linear
from dpnotebook.planner.value_ends import ends_name, may_be_shared
from dpnotebook.query.question import Accuracy, Measure, Question


def apart(question: Question) -> list[Question]:
    """Return a question as one question for each of its measures."""
    return [replace(question, measures=(measure,)) for measure in question.measures]


def measured_of(question: Question, domain: Domain) -> list[Question]:
    """Return what has to be measured so that all measures of a question can be told, each as a question of its own.

    A count and a sum are told by the mean of the same values, where every row has one.

    Parameters
    ----------
    question, domain
        What is asked, of which declared domain.
    """
    measures = list(question.measures)
    means = {ends_name(measure.summand) for measure in measures if measure.kind == "mean"}
    counts = any(measure.kind == "count" for measure in measures)
    if counts and not any(_counts_all(measure, question, domain) for measure in measures if measure.kind == "mean"):
        sums = [measure for measure in measures if measure.kind == "sum" and _counts_all(measure, question, domain)]
        if sums:  # the one that loses least by it
            chosen = min(sums, key=_spread)
            means.add(ends_name(chosen.summand))
            mean = replace(chosen, kind="mean", summand=replace(chosen.summand, ends=True))
            measures[measures.index(chosen)] = mean
    counted = any(_counts_all(measure, question, domain) for measure in measures if measure.kind == "mean")
    found: dict[str, Question] = {}
    for measure in measures:
        if measure.kind == "count" and counted:
            continue
        if measure.kind == "sum" and may_be_shared(measure.summand) and ends_name(measure.summand) in means:
            continue
        one = replace(question, measures=(measure,))
        found.setdefault(one.key, one)
    return list(found.values())


def _counts_all(measure: Measure, question: Question, domain: Domain) -> bool:
    """Return whether the two sums of a column's values count every row that takes part."""
    if measure.column is None or not may_be_shared(measure.summand):
        return False
    levels = allowed_levels(question.where, measure.column, domain)
    return max(levels, default=0) < domain[measure.column].regular


def _spread(measure: Measure) -> float:
    """Return the variance of a sum that is told by the sums of a mean, relative to that of one of its own."""
    low, high = float(measure.summand.low), float(measure.summand.high)
    return (low**2 + high**2) / max(abs(low), abs(high)) ** 2


def planned_together(
    question: Question,
    accuracy: Accuracy,
    table: TableSchema,
    ledger: LedgerView,
    history: History | None,
    planner: str,
    assumption: Assumption,
) -> Option | None:
    """Return the way that measures nothing twice; None where nothing is gained by it.

    Parameters
    ----------
    question, accuracy
        Several measures, and an epsilon.
    table, ledger
        What is public about the table; the budget and the record of past answers.
    history
        Everything recorded; None to look at nothing of it.
    planner
        "optimal" or "pioneer".
    assumption
        For means.
    """
    accountant = ledger.accountant
    asked, wanted = apart(question), measured_of(question, table.domain)
    answers = {
        key: to_linear(one.measures[0], one, table.domain, accountant.noise, assumption)
        for key, one in {one.key: one for one in (*asked, *wanted)}.items()
    }
    units = accountant.units(accuracy.epsilon or 0)
    items: list[Planned] = []
    for one in wanted:
        alone = at_price([answers[one.key]], [units // len(wanted)], accuracy.confidence, table, accountant)
        option = _beside(one, answers[one.key], alone, accuracy, table, ledger, history, planner)
        items += [replace(item, strategy=None) for item in option.items]
    price = ledger.price(cost_of(items, table, accountant)) if items else 0
    if len(wanted) == len(question.measures) and price >= units:
        return None
    known = History(table.domain, accountant.noise) if history is None else history
    also = [item_of(item, (0, place), None, accountant.noise) for place, item in enumerate(items)]
    expected, sources = [], set[int]()
    for one in asked:
        error = _expected(one, answers[one.key], known, also, accuracy.confidence)
        if error is None:
            return None
        expected.append(error[0])
        sources.update(error[1])
    answer = answers[asked[0].key]
    reused = tuple(sorted(number for number in sources if number))
    width = expected[0].half_width
    actions, steps = explain.described(items, reused, answer, table, accountant, width, accuracy.confidence)
    return Option(
        tuple(items),
        cost_of(items, table, accountant).bound if items else 0,
        expected[0].std_errors,
        width,
        (*steps, *_told(question, wanted)),
        reused,
        actions=actions,
        combined=True,
        own=history is None,
        as_good_as=units,
    )


def _told(question: Question, wanted: Sequence[Question]) -> list[str]:
    """Return which measures follow from others, in words."""
    measured = {one.measures[0].words for one in wanted}
    told = [measure.words for measure in question.measures if measure.words not in measured]
    if not told:
        return []
    return [f"{' and '.join(told)} {'follows' if len(told) == 1 else 'follow'} from what is measured"]


def _beside(
    question: Question,
    answer: Answers,
    alone: Option,
    accuracy: Accuracy,
    table: TableSchema,
    ledger: LedgerView,
    history: History | None,
    planner: str,
) -> Option:
    """Return the cheapest way to answer one measure beside what is known, as well as it would be answered alone."""
    if history is None:
        return alone
    if isinstance(answer, MeanAnswers):
        means = known_means(question, history)
        beside = None if means is None else with_known(means, question, answer, alone, accuracy, table, ledger)
        return beside or alone
    asked = asked_of(question, history)
    if asked is None:
        return alone
    problem = PlanningProblem(
        table, ledger, history, question, answer, alone, asked.certain(), planner, purchases="never"
    )
    return with_history(problem, accuracy)


def _expected(
    question: Question, answer: Answers, history: History, also: Sequence[Item], confidence: float
) -> tuple[Expected, tuple[int, ...]] | None:
    """Return how wrong one measure will be, and from which releases it is; None where it is not told."""
    if isinstance(answer, MeanAnswers):
        means = known_means(question, history, also)
        if means is None or not means.known:
            return None
        errors = np.sqrt(means.worst(answer.share)) * answer.unit
        return Expected(errors, means.width(answer.share, confidence) * answer.unit), means.sources()
    asked = asked_of(question, history, also)
    if asked is None:
        return None
    errors = np.sqrt(asked.certain().variances) * asked.step
    width = float(widths_of(history, asked, errors, confidence, also).max(initial=0.0))
    if not math.isfinite(width):
        return None
    return Expected(answer.worst(errors) if isinstance(answer, QuantileAnswers) else errors, width), asked.sources()


def details_of(
    question: Question, history: History, confidence: float, promise: Promise, also: Sequence[Item] = (), **own: Any
) -> dict[str, Any] | None:
    """Return the best answers to a question as what the ledger keeps; None where one cannot be told.

    Parameters
    ----------
    question, history
        What is asked, and everything recorded.
    confidence
        Probability that an interval holds the exact answer.
    promise
        What was said of the answers of a question with one measure that is linear.
    also
        What was just measured.
    own
        As in `combined_details`.
    """
    if len(question.measures) == 1:
        if question.measures[0].kind == "mean":
            means = known_means(question, history, also)
            return None if means is None else means.details(confidence)
        return combined_details(history, question, confidence, promise, also, **own)
    found = [details_of(one, history, confidence, Promise(), also) for one in apart(question)]
    told = [one["estimates"] for one in found if one is not None]
    if len(told) < len(found):
        return None
    sources = sorted({number for one in told for number in one["sources"]})
    return {"estimates": told[0] | {"sources": sources}, "others": told[1:]}
