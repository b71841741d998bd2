"""A question and what independent sources say of it: answers are combined by their precisions, answer by answer."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpnotebook.planner.answers import Floats
from dpnotebook.planner.exchangeable import ByClasses
from dpnotebook.planner.information import ANGLES, MIDDLE
from dpnotebook.planner.known_part import NEGLIGIBLE, Key
from dpnotebook.planner.over_rows import ByRows
from dpnotebook.planner.sources import MOST_SUMMED, Determined, Draws, JointNumbers

MOST_JOINT = 4 * 10**6  # of measurements over several histograms, of which hardly any weight is 0
# A release that has less of the variance, relative to the one that has most, is not named. A table of a hundred groups
# has just a hundredth beside one of their total: it is not named either, however that is rounded.
NAMED = 0.01 * (1 + 1e-6)
MOST_LOOKED = 1  # answers whose sources are looked for: all of a question are answered alike
MOST_MIXED = 16  # of measurements over several histograms; of more, those of a mixture of all
ROUNDING = 1e-12  # by which a weight may miss a whole number
SAFE = 2.0  # times a bound on weights, which may be computed in another order


def in_classes(found: ByClasses | ByRows, step: float, least_scale: float, reach: float) -> InClosedForm:
    """Return a question with what is known by classes of levels, or over measured numbers.

    Parameters
    ----------
    found
        How it follows from what was measured.
    step, least_scale, reach
        As for `InClosedForm`.
    """
    draws = []
    for known, columns in found.sources():
        everything = slice(0, known.weighted.size)
        draws.append(Draws(known.now, columns, 1 / math.sqrt(known.precision), everything))
    source = JointNumbers(found.numbers, tuple(draws))
    one = Determined(source, found, found.variances())
    return InClosedForm((one,), step, least_scale, found.every, found.alike, reach)


def _in_turn(one: Determined, row: int) -> Iterator[Floats]:
    """Yield what the numbers of each measurement of a source count for in an answer, as far as it is looked at."""
    if isinstance(one.reconstruction, ByClasses):
        yield from one.reconstruction.in_turn(row)
        return
    weights = one.reconstruction.weights(np.array([row]))[0]
    yield from (weights[draws.columns] for draws in one.source.draws)


@dataclass(frozen=True, eq=False)
class InClosedForm:
    """A question, and what independent sources say of it, in integers of its summand.

    Parameters
    ----------
    found
        What each source says, at least one.
    step
        What one integer is worth in the answer's units.
    least_scale
        The least scale of noise that anything was measured with.
    whole
        Whether there is nothing else: then this is least squares over everything.
    alike
        For each answer one whose noise has the same law, shape (answers,).
    reach
        The most that a draw of noise can count for in an answer, in steps.
    supposed
        Whether some of it is only supposed: then there are no answers yet.
    """

    found: tuple[Determined, ...]
    step: float
    least_scale: float
    whole: bool
    alike: NDArray[np.intp]
    reach: float = 1.0
    supposed: bool = False

    told = True  # something that was measured bears on the answers

    @property
    def partial(self) -> bool:
        """Whether less is known here than was measured: what only differences of sources would tell is left out."""
        return not self.whole

    @property
    def count(self) -> int:
        """Number of answers."""
        return int(self.variances.size)

    @cached_property
    def variances(self) -> Floats:
        """Variance of the best answer to each, infinite where there is none; shape (answers,)."""
        with np.errstate(divide="ignore"):
            return np.asarray(1 / sum((1 / one.variances for one in self.found), np.zeros(1)))

    @property
    def products(self) -> bool:
        """Whether this is by classes of levels, and everything that was measured are products."""
        one = self.found[0].reconstruction
        return isinstance(one, ByClasses) and one.products

    @property
    def joint(self) -> bool:
        """Whether all is one source of measurements over several histograms, of which it is known what they share."""
        return len(self.found) == 1 and isinstance(self.found[0].source, JointNumbers)

    def jointly(self) -> tuple[Floats, Floats] | None:
        """Return covariances and residuals of all answers, as for `joint_measurement.together`; None if not known."""
        one = self.found[0].reconstruction
        return one.jointly() if self.joint and isinstance(one, ByClasses | ByRows) else None

    def certain(self) -> InClosedForm:
        """Return this: variances are those of the very weights that answers will be made with."""
        return self

    def estimates(self) -> tuple[Floats, Floats]:
        """Return the best answers, 0 while they are only supposed, and their variances, each of shape (answers,)."""
        return np.zeros(self.count) if self.supposed else self._values, self.variances

    @cached_property
    def _values(self) -> Floats:
        values = np.zeros(self.count)
        for one in self.found:
            known = np.isfinite(one.variances)
            answers = one.reconstruction.answers(one.source.noisy)
            values[known] += (answers * self.shares(one))[known]
        return values

    def shares(self, one: Determined) -> Floats:
        """Return what a source counts for in each answer, shape (answers,)."""
        known = np.isfinite(one.variances) & (one.variances > 0)  # what counts nothing is 0, whatever was measured
        return np.where(known, self.variances, 0.0) / np.where(known, one.variances, 1.0)

    def _weights(self, one: Determined, rows: NDArray[np.intp]) -> Floats:
        """Return what each number of a source counts for in some answers of its own, shape (rows, numbers)."""
        key = id(one), rows.tobytes()
        if key not in self._kept:
            self._kept.clear()  # the latest is asked for twice, for its noise and for the releases that it is of
            self._kept[key] = one.reconstruction.weights(rows)
        return self._kept[key]

    @cached_property
    def _kept(self) -> dict[tuple[int, bytes], Floats]:
        return {}

    def draws(self, rows: NDArray[np.intp], most: int) -> tuple[Floats, list[Key]] | None:
        """Return what each draw of noise counts for in some answers, and the measurement it is of.

        Parameters
        ----------
        rows
            Which answers.
        most
            Draws; None is returned where there are more.

        Returns
        -------
        Shape (rows, draws), and one key a draw.
        """
        columns: list[Floats] = [np.zeros((rows.size, 0))]
        keys: list[Key] = []
        for one in self.found:
            shares = self.shares(one)[rows]
            mine = np.flatnonzero(shares)
            if not mine.size:
                continue
            if rows.size * one.source.noisy.size > (MOST_JOINT if self.joint else MOST_SUMMED):
                return None
            in_turn = mine.size > MOST_MIXED or isinstance(one.reconstruction, ByClasses)
            if self.joint and in_turn and self._many(one, rows[mine], most):
                return None
            weights = self._weights(one, rows[mine]) * shares[mine, None]
            if mine.size < rows.size:
                some, weights = weights, np.zeros((rows.size, one.source.noisy.size))
                weights[mine] = some
            sizes = np.abs(weights).max(axis=0)
            # A weight that is a whole number but for rounding is one: nothing is left of those near 0.
            least = max(NEGLIGIBLE * float(sizes.max(initial=1e-300)), ROUNDING)
            for draws in one.source.draws:
                each = draws.share * np.array([*draws.precisions.values()])
                kept = np.abs(each)[:, None] * sizes[draws.columns] > least
                counts = np.count_nonzero(kept, axis=1)
                if len(keys) + int(counts.sum()) > most:
                    return None
                which, numbers = np.nonzero(kept)
                own = weights[:, draws.columns][:, numbers] * each[which]
                near = np.rint(own)
                own = np.where(np.abs(own - near) < ROUNDING, near, own)  # a number that is shown as it was drawn
                columns.append(own)
                for key, count in zip(draws.precisions, counts.tolist(), strict=True):
                    keys.extend([key] * count)
        return np.concatenate(columns, axis=1), keys

    def _many(self, one: Determined, rows: NDArray[np.intp], most: int) -> bool:
        """Return whether the first of some answers of a joint source is of more draws already.

        Its numbers have unit variance: no weight is above the standard error of its answer, by which `draws` leaves out
        what is negligible beside the largest weight of all the answers.
        """
        if (id(one), rows.tobytes()) in self._kept:
            return False
        least = max(NEGLIGIBLE * SAFE * math.sqrt(float(one.variances[rows].max())), ROUNDING)
        share, found, seen = float(self.shares(one)[rows[0]]), 0, []
        for draws, weights in zip(one.source.draws, _in_turn(one, int(rows[0])), strict=True):
            each, own = np.abs(draws.share * np.array([*draws.precisions.values()])), np.abs(weights * share)
            found += int(np.count_nonzero(each[:, None] * own > least))
            if found > most:
                return True
            seen.append(weights)
        if rows.size == 1:
            self._kept.clear()
            self._kept[id(one), rows.tobytes()] = np.concatenate(seen)[None]
        return False

    def sources(self) -> tuple[int, ...]:
        """Return the numbers of the releases that the best answers use, ascending."""
        return self._sources

    @cached_property
    def _sources(self) -> tuple[int, ...]:
        known = np.isfinite(self.variances)
        rows = np.flatnonzero(known)[: MOST_MIXED if self.joint else MOST_LOOKED]
        found: list[tuple[float, Draws]] = []
        for one in self.found:
            mine = rows[np.isfinite(one.variances[rows])]
            if not mine.size:
                continue
            probe = MIDDLE + np.cos(np.arange(self.count) * math.sqrt(ANGLES[0]))
            mixture, way = np.where(known, probe, 0.0), one.reconstruction
            if isinstance(way, ByClasses) and known.sum() > MOST_MIXED:
                peaks = way.peaks(mixture)
            else:
                if isinstance(way, ByRows) and known.sum() > MOST_MIXED:
                    weights = np.abs(way.mixed(mixture))
                else:
                    weights = np.abs(self._weights(one, mine) * self.shares(one)[mine][:, None])
                peaks = np.array([weights[:, draws.columns].max(initial=0.0) for draws in one.source.draws])
            for draws, peak in zip(one.source.draws, peaks.tolist(), strict=True):
                largest = peak * draws.share
                found.append((largest**2, draws))  # of each draw: its weight squared, over its precision
        most = [size * max(draws.precisions.values(), default=0.0) for size, draws in found]
        least = NAMED * max(most, default=0.0)
        named: set[int] = set()
        for (size, draws), largest in zip(found, most, strict=True):
            if largest > least:
                named.update(key[0] for key, own in draws.precisions.items() if size * own > least and key[0])
        return tuple(sorted(named))
