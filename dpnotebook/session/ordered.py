"""Quantiles of numbers that are in order already: those of NumPy, which would put them in order for each one anew."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def quantile_of_ordered(ordered: Floats, share: float, method: Literal["lower", "higher", "linear"]) -> Floats:
    """Return a quantile of each row, as `numpy.quantile(ordered, share, axis=-1, method=method)` does.

    Parameters
    ----------
    ordered
        Finite numbers, ascending along the last axis.
    share
        From 0 to 1.
    method
        What is between two numbers: the lower, the higher, or as far between them as the quantile is.
    """
    place = (ordered.shape[-1] - 1) * share
    lower: Floats = ordered[..., int(np.floor(place))]
    higher: Floats = ordered[..., int(np.ceil(place))]
    if method != "linear":
        return lower if method == "lower" else higher
    after = place - np.floor(place)
    found: Floats = lower + (higher - lower) * after if after < 0.5 else higher - (higher - lower) * (1 - after)
    return found
