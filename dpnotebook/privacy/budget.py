"""The budget of a session: (epsilon, delta), and which accountant enforces it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from numbers import Real

from dpnotebook.errors import AccuracyError


@dataclass(frozen=True)
class Budget:
    """The most that all answers of a session together may reveal about one privacy unit.

    Parameters
    ----------
    epsilon
        Total privacy loss, positive and finite. With `delta=0` costs add up as epsilon and noise is discrete Laplace.
    delta
        Total failure probability in (0, 1). With it costs add up as mu^2 (Gaussian differential privacy) and noise is
        rounded Gaussian.

    Raises
    ------
    AccuracyError
        If epsilon or delta is not a number in its range.
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", float(positive(self.epsilon, "the budget's epsilon")))
        delta = self.delta
        if isinstance(delta, bool) or not isinstance(delta, Real) or not 0 <= float(delta) < 1:
            raise AccuracyError(f"the budget's delta must be a number from 0 up to, not including, 1; not {delta!r}")
        object.__setattr__(self, "delta", float(delta))

    def __str__(self) -> str:
        return f"ε = {self.epsilon:g}" + (f", δ = {self.delta:g}" if self.delta else "")


def positive(value: object, name: str) -> Fraction:
    """Return `value` as the exact decimal that the user wrote, or raise.

    Parameters
    ----------
    value
        What the user gave: an int, float, Fraction, Decimal or numpy scalar.
    name
        What to call it in the error.

    Raises
    ------
    AccuracyError
        If it is not a finite number above zero.
    """
    try:
        if isinstance(value, bool) or not isinstance(value, (Real, Decimal)):
            raise TypeError  # noqa: TRY301 - one message for all that is not a number
        number = float(value)
    except (TypeError, ValueError):
        raise AccuracyError(f"{name} must be a number above 0, not {value!r}") from None
    except OverflowError:
        raise AccuracyError(f"{name} must be a number above 0, and not of hundreds of digits") from None
    if not (math.isfinite(number) and number > 0):
        raise AccuracyError(f"{name} must be a finite number above 0, not {value!r}")
    return value if isinstance(value, Fraction) else Fraction(repr(number))
