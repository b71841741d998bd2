"""Plans as the ledger keeps them: what was asked, what was measured, and the answers that were worked out from it."""

from __future__ import annotations

import base64
import json
import marshal
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from dpnotebook.domain import Domain
from dpnotebook.planner.answers import Answers, Estimates, Floats
from dpnotebook.planner.items import SCALES
from dpnotebook.planner.plan import Plan, Planned
from dpnotebook.planner.product_terms import measurement_from_json, measurement_to_json
from dpnotebook.planner.ski_rental import GROUP_BYS
from dpnotebook.planner.to_linear import Assumption, answer_axes, to_linear
from dpnotebook.predicate import Predicate
from dpnotebook.privacy.laws import Noise
from dpnotebook.privacy.tails import farthest_of
from dpnotebook.query.measurement import Measurement
from dpnotebook.query.question import Question
from dpnotebook.strategy import Strategy
from dpnotebook.workload import Workload

SHORT = 1_000  # characters of an operator, of which each form is made once


@dataclass(frozen=True)
class Recorded:
    """A plan as the ledger kept it: the question, and for each measure how it is answered, from which noise."""

    question: Question
    units: int
    answers: tuple[Answers, ...]
    planned: tuple[Planned, ...]


@dataclass(frozen=True)
class ReadBefore:
    """What was read of plans of one domain, by what the ledger keeps of it: of thousands, many say the same.

    Parameters
    ----------
    measurements, conditions
        What they measure, and the rows that their questions are of.
    """

    measurements: dict[bytes, Measurement] = field(default_factory=dict)
    conditions: dict[bytes, Predicate] = field(default_factory=dict)

    def question(self, values: Mapping[str, Any], domain: Domain) -> Question:
        """Return a question that `Question.to_json` wrote."""
        told = _told_apart(values["where"])
        if (where := self.conditions.get(told)) is None:
            where = self.conditions[told] = Predicate.from_json(values["where"], domain)
        return Question.from_json(values, domain, where)


def plan_to_json(plan: Plan) -> dict[str, Any]:
    """Return what the ledger keeps of a plan: enough to measure it again and to read its answers."""
    values: dict[str, Any] = {
        "words": plan.title + (f" where {plan.where}" if plan.where else ""),
        "accuracy": plan.accuracy.text,
        "question": plan.question.to_json(),
        "noise": plan.noise,
        "units": plan.units,
        "measures": [
            {"strategy": item.strategy.to_json(), **_noise_to_json(item)}
            for item in plan.measurements
            if item.strategy is not None
        ],
    }
    items = [item_to_json(item) for item in plan.measurements if item.strategy is None]
    if items:
        values["items"] = items
    if plan.combined:
        values["combined"] = plan.confidence
        values["promised"] = [plan.std_error, plan.error]
        if plan.accuracy.by_part:
            values["weighted"] = plan.accuracy.error
        values["known"] = plan.known
    if plan.asked_as:  # so that it is known again, although what is known of the answer changes with each
        values["relative"] = [plan.asked_as, plan.accuracy.error]
    if plan.of_statement is not None:  # so that the same statement is not measured by itself as well
        values["of_statement"] = plan.of_statement
    if plan.assumed is not None:
        values["assumed"] = [*plan.assumed, plan.accuracy.text]
    if plan.own:
        values["own"] = True
    if plan.as_good_as:
        values["as_good_as"] = plan.as_good_as
    if plan.target:
        values["target"] = plan.target
    if plan.strategy_prices:
        values["strategy_prices"] = {name: list(price) for name, price in plan.strategy_prices.items()}
    if plan.kind is not None:
        values["kind"] = plan.kind
    if plan.actions:
        values["actions"] = [action.kind for action in plan.actions]
    if plan.instead is not None:
        values["instead"] = {"bound": plan.units, "cost": plan.instead.to_json()}
        if plan.kind != GROUP_BYS:
            values["instead"]["paid"] = plan.cells.to_json()
    if plan.without_reuse is not None:
        values["alone"] = plan.without_reuse.units
        values["alone_total"] = plan.alone_before + plan.without_reuse.units
    return values


def with_chosen(plan: Mapping[str, Any], details: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a recorded plan with what an adaptive answer measured by choice, beside what was planned."""
    if "chosen" not in details:
        return plan
    return {**plan, "items": [*plan.get("items", ()), *details["chosen"]]}


def planned_from_json(values: Mapping[str, Any], domain: Domain, known: ReadBefore | None = None) -> list[Planned]:
    """Return what a recorded plan measures.

    Parameters
    ----------
    values, domain
        What the ledger kept, and the declared domain of its table.
    known
        What was read before: what is new is added.
    """
    known, planned = known or ReadBefore(), []
    measurements = known.measurements
    asked: Question | None = None
    for place, item in enumerate(values["measures"]):
        key = _told_apart([values["question"], place, item["strategy"]["operator"]])
        if (measured := measurements.get(key)) is None:
            asked = asked or known.question(values["question"], domain)
            measure, operator = asked.measures[place], _operator(item["strategy"]["operator"])
            measured = Measurement(
                operator, answer_axes(measure, asked, domain), asked.rows_of(measure), measure.summand
            )
            measurements[key] = measured
        planned.append(_planned(measured, item))
    for item in values.get("items", ()):
        key = _told_apart(item["measurement"])
        if (measured := measurements.get(key)) is None:
            measured = measurements[key] = measurement_from_json(item["measurement"], domain)
        planned.append(_planned(measured, item))
    return planned


def _operator(values: Mapping[str, Any]) -> Workload:
    """Return an operator that the ledger kept: most of thousands of measurements are of a few forms, each made once."""
    told = json.dumps(values)
    return _few_operators(told) if len(told) <= SHORT else Workload.from_json(values)


@lru_cache(maxsize=256)
def _few_operators(told: str) -> Workload:
    return Workload.from_json(json.loads(told))


def _told_apart(values: Any) -> bytes:
    """Return bytes that are equal for JSON values that were written alike; of thousands of releases in no time."""
    return marshal.dumps(values, 2)  # from version 3 on, what stands in two places depends on what else holds it


def plan_from_json(
    values: Mapping[str, Any],
    domain: Domain,
    question: Question | None = None,
    assumption: Assumption | None = None,
) -> Recorded:
    """Return the plan that `plan_to_json` wrote, of a question that is answered from its own measurements.

    Parameters
    ----------
    values, domain
        What the ledger kept, and the declared domain of its table.
    question
        The same question with its own names for the measures; the recorded one when None.
    assumption
        For the expected error of means.
    """
    asked = question or Question.from_json(values["question"], domain)
    answers, planned = [], []
    for measure, item in zip(asked.measures, values["measures"], strict=True):
        strategy = Strategy.from_json(item["strategy"])
        answer = to_linear(measure, asked, domain, values["noise"], assumption, strategy)
        answers.append(answer)
        planned.append(_planned(answer.measurement, item, strategy))
    return Recorded(asked, int(values["units"]), tuple(answers), tuple(planned))


def estimates_to_json(estimates: Estimates, confidence: float, sources: Sequence[int]) -> dict[str, Any]:
    """Return answers that were combined from several releases as JSON values, bit for bit.

    Parameters
    ----------
    estimates
        The answers, with intervals at this confidence.
    confidence
        Probability that an interval holds the exact answer.
    sources
        Numbers of the releases that were combined.
    """
    return {
        "value": packed(estimates.value),
        "std_error": packed(estimates.std_error),
        "lower": packed(estimates.lower),
        "upper": packed(estimates.upper),
        "confidence": confidence,
        "sources": list(sources),
    }


def estimates_from_json(values: Mapping[str, Any], noise: Noise, confidence: float) -> Estimates:
    """Return the answers that `estimates_to_json` wrote, with intervals at another confidence where that is asked.

    At the recorded confidence the intervals are those that were computed from the very noise; at another, no law of
    noise reaches further than they do.
    """
    value, std_error = unpacked(values["value"]), unpacked(values["std_error"])
    if confidence == values["confidence"]:
        return Estimates(value, std_error, unpacked(values["lower"]), unpacked(values["upper"]))
    step, scale = values["step"], values["scale"]
    width = farthest_of(std_error, noise, confidence, step, scale)
    return Estimates(value, std_error, value - width, value + width)


def combined_from_json(
    details: Mapping[str, Any], plan: Mapping[str, Any], noise: Noise, confidence: float
) -> list[Estimates] | None:
    """Return the recorded answers that were worked out from what was measured, by measure; None where none is of use.

    Ledgers of earlier versions hold some that are not finite: where the question was measured by itself as well, the
    answer is that of its own measurement.
    """
    if "estimates" not in details:
        return None
    told = [details["estimates"], *details.get("others", ())]
    found = [estimates_from_json(one, noise, confidence) for one in told]
    return found if all(one.finite for one in found) or not plan["measures"] else None


def item_to_json(item: Planned) -> dict[str, Any]:
    """Return what the ledger keeps of a measurement that serves together with others."""
    return {"measurement": measurement_to_json(item.measurement), **_noise_to_json(item)}


def _noise_to_json(item: Planned) -> dict[str, Any]:
    values: dict[str, Any] = {"scale": str(item.scale), "bits": item.bits}
    if item.refines is not None:
        values |= {"refines": list(item.refines), "before": str(item.before)}
    if item.group is not None:
        values["group"] = item.group
    return values


@lru_cache(maxsize=SCALES)
def _scale(text: str) -> Fraction:
    return Fraction(text)


def _planned(measurement: Measurement, values: Mapping[str, Any], strategy: Strategy | None = None) -> Planned:
    refines, before = values.get("refines"), values.get("before")
    return Planned(
        measurement,
        _scale(values["scale"]),
        int(values["bits"]),
        strategy,
        None if refines is None else (int(refines[0]), int(refines[1])),
        None if before is None else Fraction(before),
        values.get("group"),
    )


def packed(values: Floats) -> str:
    """Return numbers as a text, bit for bit."""
    return base64.b64encode(zlib.compress(np.ascontiguousarray(values, dtype="<f8").tobytes())).decode()


def unpacked(text: str) -> Floats:
    """Return the numbers that `packed` wrote."""
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype="<f8").astype(np.float64)
