"""An audit of any mechanism: how much privacy it provably loses on two neighbouring databases, from its outputs alone.

A quarter of the outputs tells how the two databases differ, a quarter chooses an event, something that the outputs of
one of them do more often, and the other half counts how often it happens. Exact binomial bounds on both rates bound
epsilon from below, with the stated confidence and whatever the mechanism is. An audit can show that a claim is wrong;
that it is right, no number of outputs can.

Sources: Jagielski, Ullman and Oprea, "Auditing differentially private machine learning", 2020 (epsilon from two rates,
by Clopper and Pearson's intervals); Bichsel et al., "DP-Sniper", 2021 (events chosen by a classifier).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.errors import AccuracyError
from dpnotebook.privacy.outputs import Outputs, Score, ShapesDiffer, read_outputs, scores

Floats = NDArray[np.float64]
Mechanism = Callable[[Any, int], Sequence[Any]]

CONFIDENCE = 0.999  # of the bound, unless asked for: of a thousand right claims one may be called wrong
SAMPLES = 100_000  # outputs drawn of each database, unless asked for
LEVELS = 500  # of a score that are tried as events, of each database
MOST_EPSILON = 100.0  # for which the number of outputs that could refute it is still worked out
TO_ONE = 1e-6  # by which probabilities may miss 1 together
TINIEST = 1e-320  # of a probability: its logarithm stays finite
FINITE = 10**300  # above it, a number is none that was meant
LEAST = 1000  # outputs, below which nothing is said
RARE = 20  # outputs that an event must have on one side to be chosen, beyond the few that delta may have


@dataclass(frozen=True)
class PrivacyAudit:
    """What an audit found.

    Parameters
    ----------
    lower_bound
        The mechanism loses at least this epsilon, at `delta`.
    epsilon, delta
        What it claims.
    confidence
        Probability with which the bound holds; 1 where the probabilities of all outputs are known.
    samples
        How many outputs were drawn of each database.
    event
        What gave it away: what tells the outputs of the two databases apart best.
    problems
        Why nothing can be concluded: the mechanism failed, or there were too few outputs.

    Examples
    --------
    >>> import dpnotebook as dpn
    >>> class Coin:  # answers truthfully three times of four
    ...     def masses(self, answer):
    ...         return {answer: 0.75, not answer: 0.25}
    >>> found = dpn.audit(Coin(), True, False, epsilon=1.5)
    >>> found.passed, found.confidence
    (True, 1.0)
    >>> round(found.lower_bound, 4)  # the logarithm of 3
    1.0986
    """

    lower_bound: float
    epsilon: float
    delta: float
    confidence: float
    samples: int
    event: str = ""
    problems: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether what was drawn agrees with the claim; never where there were problems."""
        return not self.problems and self.lower_bound <= self.epsilon

    def __str__(self) -> str:
        claim = f"ε = {self.epsilon:g}" + (f", δ = {self.delta:g}" if self.delta else "")
        if self.problems:
            return f"not audited: {'; '.join(self.problems)} (claimed {claim})"
        found = f"loses at least ε = {self.lower_bound:.4g} with confidence {self.confidence:g}"
        return f"{'agrees with' if self.passed else 'BREAKS'} the claim of {claim}: {found} ({self.event})"


def audit(
    mechanism: Mechanism,
    data: Any,
    neighbour: Any,
    *,
    epsilon: float,
    delta: float = 0.0,
    samples: int = SAMPLES,
    confidence: float = CONFIDENCE,
) -> PrivacyAudit:
    """Bound from below how much privacy a mechanism loses on two neighbouring databases.

    Parameters
    ----------
    mechanism
        `mechanism(data, n)` returns n independent outputs: numbers, texts, or things of several parts, always the same
        ones. A failure or a refusal is an output too, as a text: what is raised is none. Where it has an attribute
        `masses`, `mechanism.masses(data)` is the probability of every output, and nothing is drawn.
    data, neighbour
        Two databases that differ in one privacy unit.
    epsilon, delta
        What the mechanism claims.
    samples
        How many outputs are drawn of each.
    confidence
        Probability with which the bound holds.

    Returns
    -------
    PrivacyAudit
        `lower_bound`, `confidence`, `passed`, and why.

    Raises
    ------
    AccuracyError
        If epsilon, delta, samples or the confidence is out of its range.

    Examples
    --------
    >>> import dpnotebook as dpn
    >>> class Coin:  # answers truthfully three times of four
    ...     def masses(self, answer):
    ...         return {answer: 0.75, not answer: 0.25}
    >>> print(dpn.audit(Coin(), True, False, epsilon=1.0))
    BREAKS the claim of ε = 1: loses at least ε = 1.099 with confidence 1 (exact)

    Without `masses`, outputs are drawn, and the bound holds with a confidence. Of a mechanism without any noise:

    >>> found = dpn.audit(lambda answer, n: [answer] * n, True, False, epsilon=1.0, samples=10_000)
    >>> found.passed
    False
    """
    for name, value, most in (("epsilon", epsilon, math.inf), ("delta", delta, 1.0), ("confidence", confidence, 1.0)):
        if not _number(value) or not 0 <= value < most:
            raise AccuracyError(f"{name} is a number from 0" + (f", below {most:g}" if most < math.inf else ""))
    if isinstance(samples, bool) or not isinstance(samples, (int, np.integer)) or samples < 0:
        raise AccuracyError("samples is a whole number, such as 100000")
    if callable(masses := getattr(mechanism, "masses", None)):
        return _exact(masses, data, neighbour, epsilon, delta)
    result = PrivacyAudit(math.nan, epsilon, delta, confidence, int(samples))
    half = int(samples) // 2
    problem = _too_few(half, epsilon, delta, confidence)
    one = other = None
    try:
        if not problem:
            one, other = _drawn(mechanism, (data, neighbour), int(samples))
    except _Doubt as doubt:
        problem = str(doubt)
    if one is None or other is None:
        return replace(result, problems=(problem,))
    fit = half // 2
    scored = scores(one[:fit], other[:fit])
    event = _chosen(scored, one[fit:half], other[fit:half], delta, confidence)
    bound = event.bound(one[half:], other[half:], delta, confidence)
    return replace(result, lower_bound=bound, event=event.words)


@dataclass(frozen=True)
class _Event:
    """That a score is at least a level, and whether it is rarer in the second set."""

    score: Score
    level: float
    first: bool
    words: str

    def bound(self, one: Outputs, other: Outputs, delta: float, confidence: float) -> float:
        """Return the lower bound on epsilon from outputs that had no part in choosing the event."""
        happened = [int((self.score(outputs) >= self.level).sum()) for outputs in (one, other)]
        more, less = happened if self.first else reversed(happened)
        return float(_bounds(np.array([more]), np.array([less]), len(one), delta, confidence)[0])


def _chosen(
    scored: Iterable[tuple[str, Score]], one: Outputs, other: Outputs, delta: float, confidence: float
) -> _Event:
    """Return the event that bounds epsilon best on outputs that had no part in finding the scores."""
    best, found = -math.inf, None
    for words, score in scored:
        first, second = np.sort(score(one)), np.sort(score(other))
        some = [values[:: max(len(values) // LEVELS, 1)] for values in (first, second)]
        levels = np.unique(np.concatenate(some))
        above = [len(values) - np.searchsorted(values, levels, side="left") for values in (first, second)]
        for turned in (False, True):
            more, less = reversed(above) if turned else above
            bounds = _bounds(more, less, len(first), delta, confidence)
            bounds[more < RARE + delta * len(first)] = -math.inf
            place = int(bounds.argmax())
            if bounds[place] > best:
                best, found = float(bounds[place]), _Event(score, float(levels[place]), not turned, words)
    return found or _Event(lambda outputs: np.zeros(len(outputs)), 0.0, True, "nothing tells them apart")


def _bounds(more: NDArray[Any], less: NDArray[Any], count: int, delta: float, confidence: float) -> Floats:
    """Return lower bounds on epsilon: log((p - delta) / q) of the least likely p and the largest likely q."""
    from scipy.special import betaincinv

    miss = (1 - confidence) / 2
    least = np.where(more > 0, betaincinv(np.maximum(more, 1), count - more + 1.0, miss), 0.0)
    most = np.where(less < count, betaincinv(less + 1.0, np.maximum(count - less, 1), 1 - miss), 1.0)
    with np.errstate(divide="ignore"):
        return np.maximum(np.log(np.maximum(least - delta, 0.0) / most), 0.0)


class _Doubt(Exception):
    """Nothing can be concluded; the text says why."""


def _drawn(mechanism: Mechanism, databases: Sequence[Any], samples: int) -> list[Outputs]:
    """Return the outputs for each database.

    Raises
    ------
    _Doubt
        If there is something wrong with them; nothing of a failure's own text is repeated.
    """
    drawn = []
    for database, which in zip(databases, ("data", "neighbour"), strict=True):
        try:
            outputs = mechanism(database, samples)
            count = len(outputs)
        except Exception as failure:
            raise _Doubt(f"the mechanism stopped with a {type(failure).__name__} on {which}") from None
        if count != samples:
            raise _Doubt(f"the mechanism gave {count:,} outputs for {which} where {samples:,} were asked for")
        drawn.append(outputs)
    try:
        found = read_outputs(*drawn)
    except ShapesDiffer:
        raise _Doubt("outputs do not all have the same parts; return the same for every draw of both") from None
    if any(np.isnan(outputs.numbers).any() for outputs in found):
        raise _Doubt("outputs hold NaN, which hides what they are; return a text in its place")
    return found


def _too_few(half: int, epsilon: float, delta: float, confidence: float) -> str:
    """Return what is wrong where no outcome could refute the claim; empty where one could."""
    if 2 * half >= LEAST:
        all_of_them, none = np.array([half]), np.array([0])
        if float(_bounds(all_of_them, none, half, delta, confidence)[0]) >= epsilon + math.log(2):
            return ""
    enough = math.ceil(4 * math.exp(min(epsilon, MOST_EPSILON)) * -math.log((1 - confidence) / 2))
    return f"{2 * half:,} outputs are too few to refute ε = {epsilon:g}: draw {max(enough, LEAST):,} or more"


def _exact(masses: Any, data: Any, neighbour: Any, epsilon: float, delta: float) -> PrivacyAudit:
    """Return the very epsilon at delta, from the probabilities of all outputs."""
    result = PrivacyAudit(math.nan, epsilon, delta, 1.0, 0)
    try:
        one, other = (dict(masses(base)) for base in (data, neighbour))
        outputs = [*one, *(output for output in other if output not in one)]
        p, q = (np.array([float(known.get(output, 0)) for output in outputs]) for known in (one, other))
    except Exception as failure:
        return replace(result, problems=(f"its masses stopped with a {type(failure).__name__}",))
    if not all(np.all(known >= 0) and abs(known.sum() - 1) < TO_ONE for known in (p, q)):
        return replace(result, problems=("its masses are no probabilities that add up to one",))
    return replace(result, lower_bound=max(exact_epsilon(p, q, delta), exact_epsilon(q, p, delta)), event="exact")


def exact_epsilon(p: Floats, q: Floats, delta: float = 0.0) -> float:
    """Return the least epsilon at which sum max(p - e^epsilon q, 0) <= delta, of two mass functions of equal shape."""
    if float(p[q == 0].sum()) > delta:
        return math.inf
    with np.errstate(divide="ignore"):
        ratios = np.where(q > 0, np.log(np.maximum(p, TINIEST)) - np.log(np.maximum(q, TINIEST)), -math.inf)
    order = np.argsort(-ratios)
    above_p, above_q = np.cumsum(p[order]) + p[q == 0].sum(), np.cumsum(q[order])
    ends = np.append(ratios[order][1:], -math.inf)
    for here, next_one, more, less in zip(ratios[order], ends, above_p, above_q, strict=True):
        if more - math.exp(max(next_one, 0.0)) * less > delta or next_one < 0:  # epsilon lies between the two ratios
            found = math.log(max(more - delta, TINIEST) / less) if less > 0 else here
            return max(0.0, min(found, float(here)))
    return 0.0


def _number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and abs(value) < FINITE  # type: ignore[operator]
