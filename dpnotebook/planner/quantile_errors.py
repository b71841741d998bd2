"""An error of a quantile, in what its column is counted in, as one of ranks: what cumulative counts are measured for.

How far a quantile is off depends on how close together values lie around it. Noisy counts that were released tell, so
that nothing is read for it.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dpnotebook.errors import AccuracyError, shorten
from dpnotebook.planner.answers import Floats, QuantileAnswers
from dpnotebook.planner.marginal_measurement import LinearTarget
from dpnotebook.query.question import Accuracy, Question
from dpnotebook.views import digits

TRIES = 50  # halvings of a range of ranks
LEAST = 1e-3  # rows: no error of ranks is smaller


class NothingTells(AccuracyError):
    """No release tells how close together values lie, on which an error of a quantile depends."""


def is_of_quantiles(question: Question) -> bool:
    """Return whether a question is about quantiles of one column and nothing else."""
    return len(question.measures) == 1 and question.measures[0].kind == "quantile"


def size_of_quantiles(answer: QuantileAnswers, asked: LinearTarget) -> tuple[float, float]:
    """Return how large quantiles are on average, as far as they are known, and about how far off that is."""
    counts, spread = _known(answer, asked)
    found = [_ends(answer, counts, spread * reach) for reach in (0.0, 1.0)]
    (low, high), (least, most) = found
    return float(np.abs((low + high) / 2).mean()), float(((most - least) / 2).mean())


def in_ranks(accuracy: Accuracy, question: Question, answer: QuantileAnswers, asked: LinearTarget | None) -> Accuracy:
    """Return an error in what a column is counted in as the most that ranks may be off for it.

    Parameters
    ----------
    accuracy
        With an error, or with one that is relative, where nothing is known.
    question, answer
        What is asked, and how it is answered.
    asked
        What past answers say of the cumulative counts, if anything.

    Raises
    ------
    NothingTells
        If no release tells how close together values lie.
    AccuracyError
        If levels are wider than the error.
    """
    if asked is None or not asked.told or not np.isfinite(asked.variances).all():
        raise NothingTells(
            f"{accuracy.text} cannot be planned: how far a quantile of {shorten(question.measures[0].column)} is off "
            "depends on how close together values lie around it, and no release tells that yet; give epsilon= instead, "
            "or ask for dp.cdf(), whose error= is in rows. error= can be planned for this afterwards"
        )
    counts, _ = _known(answer, asked)
    aim = accuracy.error or 0.0
    least = _reach(answer, counts, LEAST)
    if least > aim:
        raise AccuracyError(
            f"{accuracy.text} cannot be kept: an interval reaches to the ends of the declared levels that it touches, "
            f"so that it is ±{digits(least, 4)} at least. Declare narrower levels, or give a larger error"
        )
    low, high = math.log(LEAST), math.log(max(float(counts.max()), 2 * LEAST))
    for _ in range(TRIES):
        middle = (low + high) / 2
        low, high = (middle, high) if _reach(answer, counts, math.exp(middle)) <= aim else (low, middle)
    return replace(accuracy, error=math.exp(low))


def _known(answer: QuantileAnswers, asked: LinearTarget) -> tuple[Floats, float]:
    """Return cumulative counts as they are known, rising, shape (groups, levels), and how far off the worst one is."""
    from scipy.optimize import isotonic_regression

    values, variances = asked.estimates()
    counts = values.reshape(answer.groups, len(answer.levels))
    rising = np.array([isotonic_regression(one).x for one in counts]).reshape(counts.shape)
    return np.maximum(rising, 0.0), math.sqrt(float(variances.max()))


def _ends(answer: QuantileAnswers, counts: Floats, off: float) -> tuple[Floats, Floats]:
    """Return between which ends of levels quantiles lie if counts are off by so much; shape (groups * quantiles,)."""
    levels, found = np.array(answer.levels), []
    for group in counts:
        for quantile in answer.quantiles:
            rank, band = quantile * group[-1], off * math.hypot(1.0, quantile)
            first, last = np.minimum(np.searchsorted(group, (rank - band, rank + band)), len(levels) - 1)
            found.append((levels[first, 0], levels[last, 1]))
    low, high = np.array(found, dtype=float).T
    return low, high


def _reach(answer: QuantileAnswers, counts: Floats, off: float) -> float:
    """Return half of the longest interval if counts are off by so much."""
    low, high = _ends(answer, counts, off)
    return float(((high - low) / 2).max())
