"""For tests only: a session that answers without noise, so that everything around the noise can be checked exactly."""

from __future__ import annotations

import os
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.errors import DPError
from dpnotebook.planner.plan import Planned
from dpnotebook.privacy.accountant import Noise
from dpnotebook.privacy.randomness import Source
from dpnotebook.session.session import Session


def exact_session(*args: Any, **kwargs: Any) -> Session:
    """Return a session whose answers are exact, and therefore NOT PRIVATE.

    Parameters
    ----------
    args, kwargs
        As for `Session`.

    Raises
    ------
    DPError
        Unless the environment says DPNOTEBOOK_UNSAFE=1.
    """
    if os.environ.get("DPNOTEBOOK_UNSAFE") != "1":
        raise DPError(
            "exact_session() answers without noise, so it protects nobody. It is for tests on made-up data: "
            "set DPNOTEBOOK_UNSAFE=1 in the environment of the tests"
        )
    session = Session(*args, **kwargs)
    session._questions.draw = _no_noise
    session._questions.redraw = _none_again
    session._statements.draw = _nothing
    session._statements.hide = False
    return session


def _no_noise(item: Planned, noise: Noise, source: Source) -> NDArray[np.int64]:
    return np.zeros(item.measurement.answers, dtype=np.int64)


def _none_again(item: Planned, first: NDArray[np.int64], source: Source) -> NDArray[np.int64]:
    return np.zeros_like(first)


def _nothing(noise: Noise, scale: Fraction, size: int) -> NDArray[np.int64]:
    return np.zeros(size, dtype=np.int64)
