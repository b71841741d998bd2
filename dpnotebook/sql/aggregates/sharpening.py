"""Less noise on numbers that were released: what is missing is measured, and put together with what is known.

The totals are the very same, so their noise is too. Laplace noise is refined: the sharper numbers alone have the noise
of their price, and both together cost no more. Gaussian noise is measured once more, by itself, and both are weighed by
their precisions, which add up as their prices do: what is known counts for all that it cost, but for its rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpnotebook.privacy.laws import Law
from dpnotebook.privacy.noise_down import refined_laplace
from dpnotebook.privacy.randomness import Source
from dpnotebook.sql.aggregates.measuring import Measuring
from dpnotebook.sql.aggregates.noising import Draw

Integers = NDArray[np.int64]
Scales = Sequence[Fraction | None]  # of the noise that blocks shall have; None where they have little enough

ROUNDED = Fraction(1, 12)  # the variance of rounding to whole steps
SCALE_BITS = 40  # of scales, which are rounded up


def missing(law: Law, before: Fraction, after: Fraction) -> Fraction:
    """Return what part of the price of noise of scale `after` is still to be paid where that of `before` is; 0 if none.

    Parameters
    ----------
    law, before, after
        Of the noise: its law, the scale that it has, and the one that it shall have.
    """
    if after >= before:
        return Fraction(0)
    known = before**law.power + (0 if law.refines else ROUNDED)
    return 1 - after**law.power / known


def measured_scale(law: Law, before: Fraction, after: Fraction) -> Fraction:
    """Return the scale of what is measured beside Gaussian noise of scale `before`, so that both make `after`."""
    variance = after**2 / missing(law, before, after)
    shift = 2 * max(0, SCALE_BITS - (variance.numerator.bit_length() - variance.denominator.bit_length()) // 2)
    return Fraction(math.isqrt(math.ceil(variance * (1 << shift)) - 1) + 1, 1 << (shift // 2))


def weights(law: Law, before: Fraction, after: Fraction | None) -> tuple[float, float]:
    """Return what the known number and the one that is measured count for in the sharper one."""
    if after is None:
        return 1.0, 0.0
    new = 1.0 if law.refines else float(missing(law, before, after))
    return 1.0 - new, new


def with_scales(measuring: Measuring, scales: Scales) -> Measuring:
    """Return what was measured, had it been with this noise."""
    blocks = [
        block if scale is None else replace(block, scale=scale)
        for block, scale in zip(measuring.blocks, scales, strict=True)
    ]
    return replace(measuring, blocks=tuple(blocks))


def sharpened(
    measuring: Measuring, known: Integers, exact: Integers, scales: Scales, draw: Draw | None, source: Source
) -> Integers:
    """Return noisy numbers that are as precise as planned.

    Parameters
    ----------
    measuring, known
        What was measured, and the noisy numbers that were released, shape (groups, measured).
    exact
        The same numbers of the same groups, before noise.
    scales
        The scale of the noise that each block shall have.
    draw
        Draws the noise instead of `source`: in tests without noise.
    source
        Of random bytes.
    """
    law, found = measuring.law, known.copy()
    for i, (block, after) in enumerate(zip(measuring.blocks, scales, strict=True)):
        if after is None:
            continue
        place = measuring.place(i)
        if law.refines:
            noise = (known[:, place] - exact[:, place]).reshape(-1)
            if draw is None:
                drawn = refined_laplace(noise, block.scale, after, source)
            else:
                drawn = draw(measuring.noise, after, noise.size)
            found[:, place] = exact[:, place] + drawn.reshape(-1, block.measured)
            continue
        scale = measured_scale(law, block.scale, after)
        bits = law.grid_bits(scale)  # rounded once, at the end
        size = len(known) * block.measured
        drawn = law.draw(scale * 2**bits, size, source) if draw is None else draw(law.name, scale * 2**bits, size)
        # A function of what is known and of what is measured, exact + drawn.
        away = (exact[:, place] - known[:, place]) + np.ldexp(drawn.astype(float), -bits).reshape(-1, block.measured)
        found[:, place] += np.rint(weights(law, block.scale, after)[1] * away).astype(np.int64)
    return found
