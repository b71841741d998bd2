"""Buying a strategy: what later questions will use too is measured now, when it pays."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain import Domain
from dpnotebook.planner.group_forecast import GroupBy, Outlook
from dpnotebook.planner.group_spaces import average_information, subsets
from dpnotebook.planner.group_strategy import group_strategy, still_paid
from dpnotebook.planner.history import History
from dpnotebook.planner.least_squares_state import LeastSquaresState
from dpnotebook.planner.plan import Planned
from dpnotebook.planner.pricing import Pricing, more_precise
from dpnotebook.predicate import Predicate
from dpnotebook.privacy.accountant import UNITS
from dpnotebook.query.measurement import Axis, Measurement
from dpnotebook.query.question import Question
from dpnotebook.workload import Identity, Kron, Workload

MOST_CELLS = 2_000  # of the attributes in play, for which marginals are bought
MOST_AHEAD = 1_000  # cells up to which attributes that nobody has asked about yet are counted among them
MOST_ATTRIBUTES = 6  # in play, of which all 64 subsets are compared

Floats = NDArray[np.float64]
# The alternatives of a plan are priced from the same history.
_states: WeakKeyDictionary[History, tuple[object, Floats, Floats]] = WeakKeyDictionary()


def marginals_to_buy(
    question: Question,
    target: float,
    block: LeastSquaresState | None,
    past: Sequence[Mapping[str, Any]],
    pricing: Pricing,
    alone: int,
    credit: int,
) -> tuple[tuple[Planned, ...], float] | None:
    """Return the marginals that are worth measuring now, for this group-by and those that are likely to come.

    Parameters
    ----------
    question, target
        Counts by some keys, and the variance that they may have.
    block
        Least squares over what was measured of the attributes in play; None where they have too many cells.
    past
        The recorded plans of the latest questions, oldest first.
    pricing
        Of which table, with which noise.
    alone
        What this question costs without a purchase, in units.
    credit
        What may be paid now, in units.

    Returns
    -------
    What is measured, and which share of what likely group-bys cost they still cost with it; None for nothing.
    """
    domain, accountant = pricing.table.domain, pricing.accountant
    names = None if block is None else _in_play(block.names, domain)
    if block is None or names is None:
        return None
    sizes = tuple(domain[name].size for name in names)
    now = _group_by(question, target, names, domain)
    if now is None:
        return None
    earlier = [_recorded_group_by(plan, names, domain) for plan in past]
    measured = _marginals(names, domain)
    known, precise = _state(block, names, pricing.history)
    asked = [*(one for one in earlier if one is not None), now]
    outlook = Outlook(sizes, asked, known, precise, len(domain.names) - len(names))
    unit = UNITS * accountant.per_unit(pricing.table.contribution_bound)
    raises = group_strategy(outlook, accountant.noise, alone / unit, credit / unit)
    if not raises:
        return None
    places = {subset: place for place, subset in enumerate(subsets(len(sizes)))}
    bought = tuple(more_precise(measured[places[one.subset]], one.precision, pricing) for one in raises)
    return bought, still_paid(outlook, raises, accountant.noise)


def _in_play(names: Sequence[str], domain: Domain) -> tuple[str, ...] | None:
    """Return attributes that were asked about and, as far as there is room, those that may be next."""
    chosen, cells = set(names), math.prod(domain[name].size for name in names)
    if not 1 <= len(chosen) <= MOST_ATTRIBUTES or cells > MOST_CELLS:
        return None
    for name in sorted(domain.names, key=lambda name: domain[name].size):
        if name not in chosen and len(chosen) < MOST_ATTRIBUTES and cells * domain[name].size <= MOST_AHEAD:
            chosen.add(name)
            cells *= domain[name].size
    return tuple(name for name in domain.names if name in chosen)


def _information(block: LeastSquaresState, names: Sequence[str]) -> Floats:
    """Return the average information of a block, over its attributes and others of which it knows nothing."""
    domain = block.domain
    labels = block.atoms.labels
    sizes = tuple(domain[name].size for name in block.names)
    found = average_information(block.information.matrix[np.ix_(labels, labels)], sizes)
    own = {tuple(names.index(block.names[i]) for i in subset): k for k, subset in enumerate(subsets(len(sizes)))}
    spread = math.prod(domain[name].size for name in names if name not in block.names)
    return np.array([found[own[subset]] * spread if subset in own else 0.0 for subset in subsets(len(names))])


def _group_by(question: Question, target: float, names: Sequence[str], domain: Domain) -> GroupBy | None:
    """Return a question as widths, or None if it is no group-by with a filter an attribute."""
    if len(question.measures) != 1 or question.measures[0].kind != "count" or target <= 0:
        return None
    boxes = question.where.products() if not question.where.is_everything else [{}]
    if len(boxes) != 1 or not {*question.keys, *question.where.attributes} <= set(names):
        return None
    (box,) = boxes
    widths = [
        1 if name in question.keys else int(box[name].sum()) if name in box else domain[name].size for name in names
    ]
    return GroupBy(tuple(widths), target)


def _recorded_group_by(plan: Mapping[str, Any], names: tuple[str, ...], domain: Domain) -> GroupBy | None:
    if not plan.get("target"):
        return None
    return _read_group_by(json.dumps(plan["question"]), plan["target"], names, domain)


@lru_cache(maxsize=4096)
def _read_group_by(question: str, target: float, names: tuple[str, ...], domain: Domain) -> GroupBy | None:
    return _group_by(Question.from_json(json.loads(question), domain), target, names, domain)


@lru_cache(maxsize=16)
def _marginals(names: tuple[str, ...], domain: Domain) -> tuple[Measurement, ...]:
    """Return the marginals of all subsets of some attributes."""
    return tuple(_marginal([names[place] for place in subset], domain) for subset in subsets(len(names)))


def _marginal(names: Sequence[str], domain: Domain) -> Measurement:
    axes = tuple(Axis(name, tuple(range(domain[name].size))) for name in names)
    factors: list[Workload] = [Identity(axis.size) for axis in axes] or [Identity(1)]
    operator = factors[0] if len(factors) == 1 else Kron(*factors)
    return Measurement(operator, axes, Predicate.everything(domain))


def _state(block: LeastSquaresState, names: tuple[str, ...], history: History) -> tuple[Floats, Floats]:
    """Return the average information about some attributes, and the precision of each of their marginals."""
    key = history.version, history.refining, block.names, names
    kept = _states.get(history)
    if kept is None or kept[0] != key:
        precise = [_precision(measurement, history) for measurement in _marginals(names, block.domain)]
        kept = _states[history] = key, _information(block, names), np.array(precise)
    return kept[1], kept[2]


def _precision(measurement: Measurement, history: History) -> float:
    item = history.latest(measurement)
    return 0.0 if item is None else 1 / item.variance
