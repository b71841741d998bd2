"""What the exact numbers of a private aggregation may have been: the noisy ones with their noise drawn again.

Whatever is worked out from such draws is spread as its error is, also where no formula says how.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpnotebook.inference.redraws import redrawn_noise
from dpnotebook.planner.answers import Estimates
from dpnotebook.privacy.noise_down import refined_laplace
from dpnotebook.privacy.randomness import Randomness
from dpnotebook.sql.aggregates.added_up import alike, scales_by_group
from dpnotebook.sql.aggregates.catalogue import function_of
from dpnotebook.sql.aggregates.covariance import OfPairs
from dpnotebook.sql.aggregates.estimating import estimate
from dpnotebook.sql.aggregates.function import Integers
from dpnotebook.sql.aggregates.layers import Combination, noise_of, numbers_of
from dpnotebook.sql.aggregates.lost_parts import lost_of
from dpnotebook.sql.aggregates.measuring import AggregateInput, Measuring
from dpnotebook.sql.aggregates.ratios import Ratio, moved_by
from dpnotebook.sql.aggregates.sharpening import measured_scale, weights

Floats = NDArray[np.float64]

FINE = 2.0**20  # steps of a draw of standard deviation 1
ANY = 0.5  # a confidence: of intervals that nobody looks at


@dataclass(frozen=True)
class Redraws:
    """Answers of one private aggregation, each worked out from noisy numbers whose noise was drawn again.

    Parameters
    ----------
    values
        Of each aggregate, shape (draws, groups), or (draws, groups, quantiles) for arrays.
    noise
        What was added to the noisy numbers, in integers, shape (draws, groups, measured).
    scales
        The scale of each of these, by group: (groups, measured).
    """

    values: list[Floats]
    noise: Integers
    scales: tuple[tuple[Fraction, ...], ...]


def redraw(
    measuring: Measuring, noisy: Integers, draws: int, salt: bytes = b"", noise: Integers | None = None
) -> Redraws:
    """Return the answers that a release may have had, as likely as its noise makes them.

    The same release has the same draws whenever it is looked at: they follow from its numbers.

    Parameters
    ----------
    measuring
        What was measured.
    noisy
        The noisy numbers of the groups that are shown, shape (groups, measured).
    draws
        How many; every second one is the mirror image of the one before.
    salt
        Tells releases of the same numbers apart.
    noise
        Of all noisy numbers, shape (draws, groups, measured), where it was drawn before; it is drawn here when None.
    """
    numbers = np.asarray(noisy, dtype=np.int64).reshape(-1, measuring.measured)
    groups = len(numbers)
    if noise is None:
        noise = redrawn(measuring, numbers, draws, salt)
    unrounded = replace(
        measuring,
        parts=tuple(part if part.edges else replace(part, points=False, lost=()) for part in measuring.parts),
    )
    found = estimate(unrounded, (numbers + noise).reshape(-1, measuring.measured), ANY)
    values = [one.value.reshape(draws, groups, *one.value.shape[1:]) for one in found]
    released = estimate(unrounded, numbers, ANY) if any(part.lost for part in measuring.parts) else []
    for i, part in enumerate(measuring.parts):
        if part.layers:
            values[i] = _of_layers(measuring, i, numbers, noise) / measuring.weights_of(groups)
        first = next(j for j, other in enumerate(measuring.parts) if other.blocks == part.blocks)  # moved as it is
        told = salt, np.ascontiguousarray(numbers).tobytes(), str(first).encode()
        if any(part.moves) or part.drawn or part.pair:
            known = function_of(part.kind).known(measuring, part, numbers)
            values[i] = _moved(part, values[i], np.ones(groups) if known is None else known.sizes, told)
        if part.lost:
            values[i] = values[i] + _lost(measuring, i, released[i], draws, told)
    return Redraws(values, noise, scales_by_group(measuring, groups))


def _of_layers(measuring: Measuring, number: int, numbers: Integers, noise: Integers) -> Floats:
    """Return redraws of an answer in two layers, shape (draws, groups), spread as its intervals are.

    How the second layer really lies is hidden by its noise: groups err by that each for itself, and all of them alike
    in proportion to the first layer.
    """
    part = measuring.parts[number]
    how, (first, second) = Combination(*part.layers), numbers_of(measuring, part, numbers)
    near, beyond = numbers_of(measuring, part, noise)
    length = float(np.linalg.norm(first))
    along = first / max(length, 1e-300)
    in_common = np.multiply.outer(beyond @ along, along)
    if measuring.together:
        own, wider = np.empty(first.shape), np.empty(first.shape)
        for of, one in alike(measuring):
            own[of], wider[of] = _by_group(one, one.parts[number], first[of], second[of])
        common = how.along * length / math.sqrt(float(along**2 @ np.array(measuring.together)))
    else:
        own, wider = _by_group(measuring, part, first, second)
        common = how.along * length
    off = how.first * near + np.sqrt(own) * (beyond - in_common) + np.sqrt(own + common**2) * in_common
    return np.asarray(how.first * first + how.second * second + wider * off)


def _by_group(measuring: Measuring, part: AggregateInput, first: Floats, second: Floats) -> tuple[Floats, Floats]:
    """Return what the second layer's noise counts for in each group by itself, and how much wider redraws are."""
    how, known = Combination(*part.layers), noise_of(measuring, part)
    return how.by_group(first), how.spreads(first, second, *known) / how.errors(first, *known)


def _moved(part: AggregateInput, values: Floats, counted: Floats, told: tuple[bytes, ...]) -> Floats:
    """Return redraws of a mean or a variance, spread by what bounds and norms may have moved it, as its intervals are.

    One half of that, in variances, is alike for all groups: far values are hardly in one of them alone. Which rows
    count is drawn for each group by itself, of so many values that are counted there.
    """
    draws, groups = values.shape
    drawn = redrawn_noise("gaussian", FINE, draws, groups + 1, *told, b"moved") / FINE
    alike, own = drawn[:, :1], drawn[:, 1:]
    function = function_of(part.kind)
    assert isinstance(function, Ratio)  # nothing else has it
    if isinstance(function, OfPairs):
        of_rows = redrawn_noise("gaussian", FINE, draws, groups, *told, b"drawn") / FINE
        return function.redrawn_pairs(part, values, counted, (alike + own) / math.sqrt(2.0), of_rows)
    moved = moved_by(part, (alike + own) / math.sqrt(2.0))
    if part.drawn:
        of_rows = redrawn_noise("gaussian", FINE, draws, groups, *told, b"drawn") / FINE
        moved = moved + of_rows * np.sqrt(part.drawn / np.maximum(counted, 1.0))
    return function.redrawn(values, moved)


def _lost(measuring: Measuring, number: int, released: Estimates, draws: int, told: tuple[bytes, ...]) -> Floats:
    """Return what bounds may have taken from a count or a sum, shape (draws, groups), as its intervals reach for it.

    That is one thing for all groups, and so adds up in their sums; but for where it falls by chance. Half of it, in
    variances, is what bounds take from any aggregate, as units with many rows are cut off in all of them.
    """
    groups = released.value.size
    every, common = (
        redrawn_noise("gaussian", FINE, draws, wide, *told[:kept], b"lost") / FINE
        for wide, kept in ((groups + 2, len(told)), (2, len(told) - 1))
    )
    (in_common, either), own = ((every[:, :2] + common) / math.sqrt(2.0)).T[..., None], every[:, 2:]
    found, times = np.empty((draws, groups)), measuring.weights_of(groups)
    for of, one in alike(measuring) if measuring.together else [(np.arange(groups), measuring)]:
        value, std_error = released.value[of] * times[of], released.std_error[of] * times[of]
        found[:, of] = lost_of(one.parts[number]).redrawn(value, std_error, in_common, own[:, of], either) / times[of]
    return found


def redrawn(
    measuring: Measuring, numbers: Integers, draws: int, salt: bytes, places: Sequence[int] | None = None
) -> Integers:
    """Return the noise of a release drawn again, shape (draws, groups, measured); arguments as for `redraw`.

    Where only some places of the noisy numbers are needed it is that of these, the same as among all.
    """
    told = (salt, np.ascontiguousarray(numbers).tobytes())
    needed = range(measuring.measured) if places is None else places
    noise = np.zeros((draws, len(numbers), len(needed)), dtype=np.int64)
    parts = alike(measuring) if measuring.together else [(np.arange(len(numbers)), measuring)]
    for i, place in enumerate(needed):
        told_of = *told, str(place).encode()
        for groups, one in parts:
            scale = float(one.scales[place])
            of = (*told_of, str(scale).encode()) if measuring.together else told_of
            noise[:, groups, i] = redrawn_noise(measuring.noise, scale, draws, len(groups), *of)
    return noise


def redrawn_sharper(before: Measuring, noise: Integers, after: Measuring, salt: bytes) -> Integers:
    """Return the noise of a release that was made sharper, given that of the release before, of the same shape.

    Parameters
    ----------
    before, noise
        What was measured for that release, and its noise drawn again, shape (draws, groups, measured).
    after
        What was measured for the sharper one.
    salt
        Of that: of the same, the same is drawn.
    """
    law, found = before.law, noise.copy()
    draws, groups = noise.shape[:2]
    for i, (block, sharper) in enumerate(zip(before.blocks, after.blocks, strict=True)):
        if sharper.scale >= block.scale:
            continue
        place, width = before.place(i), groups * block.measured
        first = noise[:, :, place].reshape(draws, width)
        if law.refines:
            source = Randomness(hashlib.sha256(b"/".join((salt, str(i).encode()))).digest()).source("redrawn")
            drawn = np.empty_like(first)
            drawn[0::2] = refined_laplace(first[0::2], block.scale, sharper.scale, source)
            drawn[1::2] = -drawn[0::2][: draws // 2]
        else:
            scale = measured_scale(law, block.scale, sharper.scale)
            own, new = weights(law, block.scale, sharper.scale)
            bits = law.grid_bits(scale)
            told = salt, str(i).encode()
            second = np.ldexp(redrawn_noise(law.name, float(scale * 2**bits), draws, width, *told).astype(float), -bits)
            drawn = np.rint(own * first + new * second).astype(np.int64)
        found[:, :, place] = drawn.reshape(draws, groups, block.measured)
    return found
