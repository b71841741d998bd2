"""What the exact answers to a question may have been: noisy numbers with their noise drawn again, and what follows.

The noise of each recorded measurement is redrawn alike for every question that uses it: what two answers share, their
redraws share too.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpnotebook.errors import WorkloadError
from dpnotebook.inference.redraws import redrawn_noise
from dpnotebook.planner.answers import (
    Answers,
    Estimates,
    Floats,
    LinearAnswers,
    MeanAnswers,
    QuantileAnswers,
    mean_of,
)
from dpnotebook.planner.combining import linear_of
from dpnotebook.planner.history import History
from dpnotebook.planner.in_closed_form import InClosedForm
from dpnotebook.planner.items import Item
from dpnotebook.planner.known_means import known_means
from dpnotebook.planner.known_part import Key
from dpnotebook.planner.layers import apart
from dpnotebook.planner.marginal_measurement import LinearTarget, asked_of, closed_of, each_closed_of
from dpnotebook.planner.to_linear import to_linear
from dpnotebook.planner.value_ends import in_counts
from dpnotebook.privacy.laws import Noise, law_of
from dpnotebook.query.question import Question, Summand
from dpnotebook.strategy.strategy import Reconstruction

MOST_REDRAWN = 5 * 10**7  # noisy numbers, and answers, that are redrawn at once
TOO_MANY = "the answers rest on too many noisy numbers to redraw them so often: ask for fewer draws"
FEW_NUMBERS = 200  # noisy numbers: a matrix of more is slower than what answers are made by
MOST_WEIGHTS = 4 * 10**6  # of numbers in answers, that are worked out at once
MOST_TOLD = 250  # noisy numbers: what each counts for in an answer is found of no more
SAME = 0.01  # standard errors that an answer may be off the recorded one, by rounding


class RedrawnNoise:
    """The noise of recorded measurements, drawn again.

    Parameters
    ----------
    noise
        Its law.
    items
        The measurements, by their keys.
    draws
        How often it is drawn.
    """

    def __init__(self, noise: Noise, items: Mapping[Key, Item], draws: int) -> None:
        self.noise, self.items, self.draws = noise, items, draws
        self._known: dict[Key, Floats] = {}
        self._size = 0

    def of(self, key: Key) -> Floats:
        """Return the noise of a measurement, shape (draws, components, queries).

        Raises
        ------
        WorkloadError
            If that is too much together with what was drawn before.
        """
        if key not in self._known:
            item = self.items[key]
            self._size += self.draws * item.noisy.size
            if self._size > MOST_REDRAWN:
                raise WorkloadError(TOO_MANY)
            bits = law_of(self.noise).grid_bits(item.scale)
            told = f"{key[0]}.{key[1]}".encode(), np.ascontiguousarray(item.noisy).tobytes()
            drawn = redrawn_noise(self.noise, float(item.scale) * 2**bits, self.draws, item.noisy.size, *told)
            self._known[key] = np.ldexp(drawn.astype(np.float64), -bits).reshape(self.draws, *item.noisy.shape)
        return self._known[key]

    def numbers(self) -> tuple[Floats, tuple[Fraction, ...]]:
        """Return the noise of all numbers redrawn, in steps of its grid, shape (draws, numbers), and its scales.

        None of them where they are more than `MOST_TOLD`.
        """
        drawn, scales = list[Floats](), list[Fraction]()
        for key, noise in self._known.items():
            scale = self.items[key].scale
            step = 2 ** law_of(self.noise).grid_bits(scale)
            drawn.append(noise.reshape(self.draws, -1) * step)
            scales += [scale * step] * drawn[-1].shape[1]
            if len(scales) > MOST_TOLD:
                return np.zeros((self.draws, 0)), ()
        return np.concatenate(drawn, axis=1) if drawn else np.zeros((self.draws, 0)), tuple(scales)

    def counted(self, key: Key) -> Floats:
        """Return the noise of a measurement as least squares has its numbers, see `as_counts`; (draws, numbers)."""
        return in_counts(self.items[key].measurement, self.of(key))


class RedrawnAnswers(NamedTuple):
    """What answers may have been.

    Parameters
    ----------
    values
        Of each measure, shape (draws, answers); None of one that is not needed.
    noise, scales
        The noise of all numbers that they follow from, shape (draws, numbers), each independent of the others, and its
        scales; of no numbers where they are many.
    """

    values: list[Floats | None]
    noise: Floats
    scales: tuple[Fraction, ...]


def redrawn(
    question: Question,
    answers: Sequence[Answers],
    history: History,
    also: Sequence[Item],
    recorded: Sequence[Estimates],
    draws: int,
    needed: Collection[str] | None = None,
    *,
    combined: bool,
) -> RedrawnAnswers | None:
    """Return what the answers to each measure of a question may have been.

    Parameters
    ----------
    question
        What was asked.
    answers
        How its measures follow from what was measured for it alone.
    history, also
        What was recorded when it was answered, and what was measured for it.
    recorded
        The answers as they are shown.
    draws
        How often they are redrawn.
    needed
        Names of the measures that are redrawn; all when None.
    combined
        Whether the answers follow from everything recorded.

    Returns
    -------
    None where it cannot be told how the noise of what was recorded enters the answers.

    Raises
    ------
    WorkloadError
        If the answers rest on too many numbers.
    """
    wanted = [needed is None or measure.name in needed for measure in question.measures]
    sizes = (estimates.value.size for estimates, is_wanted in zip(recorded, wanted, strict=True) if is_wanted)
    if draws * sum(sizes) > MOST_REDRAWN:
        raise WorkloadError(TOO_MANY)
    noise = RedrawnNoise(history.noise, history.items | {item.key: item for item in also}, draws)
    if not combined:
        asked = zip(answers, also, wanted, strict=False)
        own = [_own(one, item.noisy + noise.of(item.key)) if is_wanted else None for one, item, is_wanted in asked]
        return RedrawnAnswers(own, *noise.numbers())
    found: list[Floats | None] = []
    for one, estimates, is_wanted in zip(apart(question), recorded, wanted, strict=True):
        if not is_wanted:
            found.append(None)
            continue
        drawn = _combined(one, answers[0] if len(recorded) == 1 and answers else None, history, also, noise, estimates)
        if drawn is None:
            return None
        found.append(drawn)
    return RedrawnAnswers(found, *noise.numbers())


def _own(answer: Answers, numbers: Floats) -> Floats:
    """Return the answers from noisy numbers of one measurement, shape (draws, components, queries)."""
    if isinstance(answer, MeanAnswers):
        return _means(answer.measurement.summand, numbers)
    linear = answer.ranks if isinstance(answer, QuantileAnswers) else answer
    assert isinstance(linear, LinearAnswers)
    values = _linear(linear, numbers[:, 0])
    return np.stack([_read(answer, one) for one in values]) if isinstance(answer, QuantileAnswers) else values


def _combined(
    question: Question,
    own: Answers | None,
    history: History,
    also: Sequence[Item],
    noise: RedrawnNoise,
    recorded: Estimates,
) -> Floats | None:
    """Return the answers of one measure from everything recorded, if these are the recorded ones."""
    measure = question.measures[0]
    if measure.kind == "mean":
        means = known_means(question, history, also)
        if means is None or not means.known:
            return None
        sums = means.sums()
        away = _noise_in(sums, noise)
        if away is None:
            return None
        middle = sums.estimates()[0]
        if not _are(_means(measure.summand, middle[None, means.order[:2]])[0], recorded).all():
            return None
        return _means(measure.summand, (middle + away)[:, means.order[:2]])
    found = np.full((noise.draws, recorded.value.size), np.nan)
    for middle, away in _ways(question, own, history, also, noise):
        if measure.kind == "quantile":
            answer = to_linear(measure, question, history.domain, history.noise)
            assert isinstance(answer, QuantileAnswers)
            if _are(_read(answer, middle), recorded).all():
                return np.stack([_read(answer, middle + one) for one in away])
        else:  # each answer is that of one of these
            chosen = _are(middle, recorded) & np.isnan(found[0])
            found[:, chosen] = recorded.value[chosen] + away[:, chosen]
            if not np.isnan(found).any():
                return found
    return None


def _ways(
    question: Question, own: Answers | None, history: History, also: Sequence[Item], noise: RedrawnNoise
) -> Iterator[tuple[Floats, Floats]]:
    """Yield linear answers to a question, each of which may have been recorded, and what noise does to them."""
    together = (told(question, history, also) for told in (asked_of, closed_of))
    for asked in itertools.chain(together, each_closed_of(question, history, also)):
        away = None if asked is None else _noise_in(asked, noise)
        if asked is not None and away is not None:
            known = np.where(np.isfinite(asked.variances), asked.estimates()[0], np.nan)
            yield known * asked.step, away * asked.step
    linear = None if own is None else linear_of(own)
    if linear is not None:
        yield _linear(linear, also[0].noisy)[0], _linear(linear, noise.of(also[0].key)[:, 0])


def _are(values: Floats, recorded: Estimates) -> NDArray[np.bool_]:
    """Return which answers are the recorded ones but for the digits that were not written."""
    return np.asarray(np.abs(values - recorded.value) <= SAME * recorded.std_error + 1e-9 * np.abs(recorded.value))


def _noise_in(asked: LinearTarget, noise: RedrawnNoise) -> Floats | None:
    """Return what the noise of measurements does to answers, in integers, shape (draws, answers)."""
    found = np.zeros((noise.draws, asked.count))
    if isinstance(asked, InClosedForm):
        for one in asked.found:
            shares = asked.shares(one)
            if not shares.any():
                continue
            away = np.zeros((noise.draws, one.source.noisy.size))
            for draws in one.source.draws:
                for key, precision in draws.precisions.items():
                    away[:, draws.columns] += noise.counted(key)[:, draws.numbers] * (draws.share * precision)
            found += _reconstructed(one.reconstruction, asked.count, away) * shares
        return found
    for source, weights in asked.weights():
        if source.summed is not None:  # which draws these are the sums of is not kept
            return None
        away = np.zeros((noise.draws, source.queries))
        for key, share in source.shares.items():
            away += _of_draws(source.part.answers, noise.counted(key)) * share
        found += away @ weights.T
    return found


def _reconstructed(reconstruction: Reconstruction, answers: int, noise: Floats) -> Floats:
    """Return answers from noisy numbers, shape (draws, answers): of few by what the numbers count for, found once."""
    draws, size = noise.shape
    if answers <= draws // 2 and answers * size <= MOST_WEIGHTS:
        return np.asarray(noise @ reconstruction.weights(np.arange(answers)).T)
    return _of_draws(reconstruction.answers, noise)


def _of_draws(answers: Callable[[Floats], Floats], noise: Floats) -> Floats:
    """Return answers that are linear in noise, shape (draws, answers): of few numbers by their matrix, made once."""
    draws, size = noise.shape
    if not 0 < size <= min(draws // 2, FEW_NUMBERS):
        return np.stack([answers(each) for each in noise])
    return np.asarray(noise @ np.stack([answers(each) for each in np.eye(size)]))


def _means(summand: Summand, sums: Floats) -> Floats:
    """Return means from sums of what lies above the lower bound and below the upper one, shape (draws, 2, groups)."""
    draws, _, groups = sums.shape

    def exact(weights: Floats) -> Floats:  # as if there were no noise: what is drawn is what counts
        return np.zeros(len(weights))

    return mean_of(summand, sums.swapaxes(0, 1).reshape(2, -1), exact, exact).value.reshape(draws, groups)


def _linear(answer: LinearAnswers, numbers: Floats) -> Floats:
    """Return linear answers from noisy numbers, shape (draws, queries)."""
    return answer.strategy.answers_of_draws(numbers) * answer.units


def _read(answer: QuantileAnswers, ranks: Floats) -> Floats:
    nothing = np.zeros_like(ranks)
    return answer.read(Estimates(ranks, nothing, ranks, ranks)).value
