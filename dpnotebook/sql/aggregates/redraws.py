"""What the exact numbers of a private aggregation may have been: the noisy ones with their noise drawn again.

Whatever is worked out from such draws is spread as its error is, also where no formula says how.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpnotebook.inference.redraws import redrawn_noise
from dpnotebook.sql.aggregates.estimating import estimate
from dpnotebook.sql.aggregates.function import Integers
from dpnotebook.sql.aggregates.measuring import Measuring

Floats = NDArray[np.float64]

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
        The scale of each of these, shape (measured,).
    """

    values: list[Floats]
    noise: Integers
    scales: tuple[Fraction, ...]


def redraw(measuring: Measuring, noisy: Integers, draws: int, salt: bytes = b"") -> Redraws:
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
    """
    numbers = np.asarray(noisy, dtype=np.int64).reshape(-1, measuring.measured)
    groups = len(numbers)
    told = (salt, np.ascontiguousarray(numbers).tobytes())
    noise = np.zeros((draws, groups, measuring.measured), dtype=np.int64)
    for place, scale in enumerate(measuring.scales):
        noise[:, :, place] = redrawn_noise(measuring.noise, float(scale), draws, groups, *told, str(place).encode())
    unrounded = replace(
        measuring, parts=tuple(part if part.edges else replace(part, points=False) for part in measuring.parts)
    )
    found = estimate(unrounded, (numbers + noise).reshape(-1, measuring.measured), ANY)
    values = [one.value.reshape(draws, groups, *one.value.shape[1:]) for one in found]
    return Redraws(values, noise, measuring.scales)
