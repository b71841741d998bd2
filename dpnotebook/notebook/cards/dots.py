"""Quantile dots: what an answer may have been, as twenty dots that are equally likely, for those who want them.

`%config DPMagics.dots = True` switches them on. Twenty dots are counted at a glance: three of them above a line are a
chance of 15% (Kay et al. 2016, "When (ish) is my bus?").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.errors import DPError
from dpnotebook.notebook import formatting

if TYPE_CHECKING:
    from dpnotebook.session.release import Release

DOTS = 20
DRAWS = 1_000  # of the noise, of which the dots are the middles of twenty equal parts

_on = False


def show_dots(on: bool) -> None:
    """Say whether cards of answers show dots in place of intervals' pictures."""
    global _on
    _on = on


def of(release: Release, column: str) -> NDArray[np.float64] | None:
    """Return the dots of every row of an answer; None where they are not wanted, or noise cannot be drawn again.

    Parameters
    ----------
    release
        The answer.
    column
        Which of its columns.

    Returns
    -------
    array of shape (rows, 20)
        What the exact answers may have been, each as likely, from the least up.
    """
    if not _on:
        return None
    try:
        drawn: Any = release.samples(DRAWS)
    except DPError:
        return None
    values = drawn[column].to_numpy(dtype=float).reshape(DRAWS, len(release.frame))
    found: NDArray[np.float64] = np.quantile(values, (np.arange(DOTS) + 0.5) / DOTS, axis=0).T
    return found


def words(dots: Sequence[float], half: float) -> str:
    """Return the dots in words."""
    least, most = (formatting.value(end, half) for end in (dots[0], dots[-1]))
    return f"{len(dots)} dots, each as likely, from {least} to {most}"
