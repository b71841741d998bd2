"""Noise drawn again, to see how far the exact numbers may lie from the noisy ones.

Noise is symmetric: the exact numbers lie around the noisy ones as these lay around them. Nothing is hidden by such
draws, so floating point may make them, and the same numbers are redrawn alike whenever one looks.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from dpnotebook.privacy.laws import Noise, law_of

Integers = NDArray[np.int64]


def redrawn_noise(noise: Noise, scale: float, draws: int, size: int, *told: bytes) -> Integers:
    """Return integer noise of a law and a scale, shape (draws, size); every second draw mirrors the one before.

    Parameters
    ----------
    noise
        "laplace" or "gaussian".
    scale
        Of the noise, in steps.
    draws, size
        How often how many numbers are redrawn.
    told
        What was released: of the same, the same is drawn.
    """
    generator = np.random.default_rng(int.from_bytes(hashlib.sha256(b"/".join(told)).digest(), "big"))
    half = (draws + 1) // 2, size
    drawn = law_of(noise).redraw(generator, scale, half)
    found = np.empty((draws, size), dtype=np.int64)
    found[0::2], found[1::2] = drawn, -drawn[: draws // 2]
    return found
