"""The best answers from everything recorded, with their intervals, as they are recorded and shown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpnotebook.inference.answers import Answers, Estimates, Floats, LinearAnswers, QuantileAnswers
from dpnotebook.privacy.tails import farthest, half_widths
from dpnotebook.question import Question
from dpnotebook.reuse import reactive
from dpnotebook.reuse.block import Source
from dpnotebook.reuse.history import History
from dpnotebook.reuse.prepare import prepare
from dpnotebook.reuse.recorded import estimates_to_json

MOST_WEIGHTS = 200_000  # of combinations whose interval is found from the exact law of their noise
MOST_DRAWS = 2_000
MOST_EXACT = 64  # answers whose intervals are found so
MEANT = 6  # digits of an answer below its standard error
NEGLIGIBLE = 1e-9  # a weight so much below the largest moves no interval


def combined_details(
    history: History, question: Question, confidence: float, own: Estimates | None = None
) -> dict[str, Any]:
    """Return the best answers to a question as what the ledger keeps beside the noisy numbers.

    Parameters
    ----------
    history
        Everything recorded, and what was just measured.
    question
        One linear measure.
    confidence
        Probability that an interval holds the exact answer.
    own
        The answers from what was just measured alone: kept where their interval is narrower, which is known without
        looking at them. Single draws have narrower intervals than sums of equal variance at low confidence.
    """
    measure = question.measures[0]
    asked = reactive.asked_of(measure, question, history)
    assert asked is not None
    values, variances, coefficients = asked.block.estimates(asked.queries)
    std_errors = np.sqrt(variances) * asked.step
    weights = [asked.block.weights(z) for z in coefficients] if coefficients.shape[0] <= MOST_EXACT else []
    widths = _widths(history, weights, std_errors, asked.step, confidence)
    values = _without_rounding(values * asked.step, std_errors)
    best = Estimates(values, std_errors, values - widths, values + widths)
    if own is not None:
        best = _narrower(best, own)
    told: dict[str, Any] = {"step": asked.step, "scale": history.least_scale}
    sources = reactive.sources_of(asked)
    if measure.kind == "quantile":
        answer = prepare(measure, question, history.domain, history.noise)
        assert isinstance(answer, QuantileAnswers)
        told["ranks"] = answer.worst(best.std_error).tolist()
        best = answer.read(best)
    return {"estimates": estimates_to_json(best, confidence, sources) | told}


def determined(history: History, question: Question) -> bool:
    """Return whether everything recorded determines the answers, by the certificates of what would be shown."""
    asked = reactive.asked_of(question.measures[0], question, history)
    return asked is not None and bool(np.isfinite(asked.block.estimates(asked.queries)[1]).all())


def exact_half_width(history: History, asked: reactive.Asked, confidence: float) -> float:
    """Return the half-width of the worst answer from what is known, from the exact law of its noise; inf for many."""
    _, variances, coefficients = asked.block.estimates(asked.queries)
    if coefficients.shape[0] > MOST_EXACT or not np.isfinite(variances).all():
        return math.inf
    weights = [asked.block.weights(z) for z in coefficients]
    widths = _widths(history, weights, np.sqrt(variances) * asked.step, asked.step, confidence)
    return float(widths.max(initial=0.0))


def linear_of(answer: Answers) -> LinearAnswers | None:
    """Return the linear answers that a measure rests on, if it does."""
    if isinstance(answer, QuantileAnswers):
        return answer.ranks
    return answer if isinstance(answer, LinearAnswers) else None


def _without_rounding(values: Floats, std_errors: Floats) -> Floats:
    """Return values without the digits that noise drowns: what is left of rounding is no part of an answer."""
    largest = float(std_errors[np.isfinite(std_errors)].max(initial=0.0))
    return np.round(values, 9 if largest <= 0 else min(MEANT - math.floor(math.log10(largest)), 9))


def _narrower(best: Estimates, own: Estimates) -> Estimates:
    chosen = own.upper - own.lower < (best.upper - best.lower) * (1 - 1e-6)
    return Estimates(
        np.where(chosen, own.value, best.value),
        np.where(chosen, own.std_error, best.std_error),
        np.where(chosen, own.lower, best.lower),
        np.where(chosen, own.upper, best.upper),
    )


def _widths(
    history: History,
    weights: Sequence[Sequence[tuple[Source, Floats]]],
    std_errors: Floats,
    step: float,
    confidence: float,
) -> Floats:
    """Return half-widths: from the exact law of the combined noise where it has few enough terms, else a bound."""
    scale = history.least_scale
    bound = np.array([farthest(float(error), history.noise, confidence, step, scale) for error in std_errors])
    if history.noise == "gaussian" or not weights:
        return bound
    draws, scales = [], []
    for place, (source, _) in enumerate(weights[0]):
        columns = np.array([row[place][1] for row in weights])
        if source.part.totals is not None:
            columns = np.einsum("ij,k->ijk", columns, source.part.totals).reshape(columns.shape[0], -1)
        kept = np.abs(columns).max(axis=0) > NEGLIGIBLE * np.abs(columns).max(initial=1e-300)
        draws.append(columns[:, kept])
        scales.extend([history.items[source.key].scale] * int(kept.sum()))
    table = np.concatenate(draws, axis=1)
    if table.shape[1] > MOST_DRAWS or table.size > MOST_WEIGHTS:
        return bound
    return half_widths(table, scales, "laplace", confidence) * step
