"""Noise drawn again, to see how far the exact numbers may lie from the noisy ones.

Noise is symmetric: the exact numbers lie around the noisy ones as these lay around them. Nothing is hidden by such
draws, so floating point may make them, and the same numbers are redrawn alike whenever one looks.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.privacy.laws import GAUSSIAN, LAPLACE, Noise

Integers = NDArray[np.int64]
Generator = np.random.Generator


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
    drawn = REDRAWS[noise](generator, scale, half)
    found = np.empty((draws, size), dtype=np.int64)
    found[0::2], found[1::2] = drawn, -drawn[: draws // 2]
    return found


def laplace_like(generator: Generator, scale: float, shape: tuple[int, ...]) -> Integers:
    """Return differences of two geometric numbers: discrete Laplace noise of a scale, which hides nothing."""
    ends = -math.expm1(-1 / scale)
    return np.asarray(generator.geometric(ends, shape) - generator.geometric(ends, shape))


def gaussian_like(generator: Generator, scale: float, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Return rounded normal numbers: rounded Gaussian noise of a scale, which hides nothing."""
    return np.rint(generator.normal(0.0, scale, shape))


# A law of noise itself has no generator that can be guessed.
REDRAWS: dict[Noise, Callable[[Generator, float, tuple[int, ...]], NDArray[Any]]] = {
    LAPLACE.name: laplace_like,
    GAUSSIAN.name: gaussian_like,
}
