"""The budget of a session: (epsilon, delta), which accountant enforces it, and what part of delta thresholds get."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from numbers import Real
from typing import TYPE_CHECKING, Any, NoReturn

from dpnotebook.errors import AccuracyError, ArgumentError, shorten
from dpnotebook.privacy.laws import GAUSSIAN, LAPLACE, LAWS, Law, Noise, law_of

PARTS = 10  # of delta, one of which is kept for thresholds unless asked for: the noise stays nearly what it was


@dataclass(frozen=True)
class Amount:
    """An amount of privacy loss, as (epsilon, delta).

    Parameters
    ----------
    epsilon
        At the delta that the budget does not keep for thresholds.
    delta
        That one, and what belongs to thresholds.
    threshold_delta
        What belongs to thresholds, which hide groups of few units.
    """

    epsilon: float
    delta: float
    threshold_delta: float = 0.0

    def _refuse(self, _: object) -> NoReturn:
        raise ArgumentError("this is an amount of two numbers, .epsilon and .delta: session.remaining.epsilon is one")

    if not TYPE_CHECKING:
        __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse
        __lt__ = __le__ = __gt__ = __ge__ = _refuse


@dataclass(frozen=True)
class Budget:
    """The most that all answers of a session together may reveal about one privacy unit.

    Parameters
    ----------
    epsilon
        Total privacy loss, positive and finite.
    delta
        Total failure probability in [0, 1): all answers together are (epsilon, delta)-differentially private.
    noise
        "laplace": costs add up as epsilon, noise is discrete Laplace. "gaussian": costs add up as mu^2 (Gaussian
        differential privacy), noise is rounded Gaussian; needs a delta. None: Gaussian with a delta, Laplace without.
    threshold_delta
        The part of delta that is kept for thresholds, which hide groups of few units in SQL. With Gaussian noise a
        tenth of delta unless given, and less than delta; mu^2 comes from epsilon and the rest. With Laplace noise
        nothing else needs delta, and it is all of it. It is fixed when the ledger is made: which part is spent must
        not depend on answers.

    Raises
    ------
    AccuracyError
        If epsilon, delta or threshold_delta is not a number in its range, or the noise cannot be had with this delta.

    Examples
    --------
    >>> import dpnotebook as dpn
    >>> dpn.Budget(epsilon=1.0).noise
    'laplace'
    >>> dpn.Budget(epsilon=1.0, delta=1e-6).noise
    'gaussian'
    """

    epsilon: float
    delta: float = 0.0
    noise: Noise | None = None
    threshold_delta: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", float(positive(self.epsilon, "the budget's epsilon")))
        delta = self.delta
        if isinstance(delta, bool) or not isinstance(delta, Real) or not 0 <= float(delta) < 1:
            raise AccuracyError(
                f"the budget's delta must be a number from 0 up to, not including, 1; not {shorten(delta)}"
            )
        object.__setattr__(self, "delta", float(delta))
        noise = self.noise if self.noise is not None else (GAUSSIAN if delta else LAPLACE).name
        if noise not in tuple(LAWS):
            raise AccuracyError(f"the budget's noise must be 'laplace' or 'gaussian', not {shorten(noise)}")
        object.__setattr__(self, "noise", noise)
        if self.law.needs_delta and not delta:
            raise AccuracyError("Gaussian noise needs a budget with delta: Budget(epsilon=1.0, delta=1e-6)")
        self._check_thresholds()

    @property
    def law(self) -> Law:
        """The law of the noise."""
        assert self.noise is not None
        return law_of(self.noise)

    @property
    def for_thresholds(self) -> Fraction:
        """The part of delta that is kept for thresholds, as the exact decimal."""
        if not self.law.needs_delta:
            return _decimal(self.delta)
        return _decimal(float(_decimal(self.delta) / PARTS) if self.threshold_delta is None else self.threshold_delta)

    def to_json(self) -> dict[str, Any]:
        """Return the budget as JSON values."""
        values: dict[str, Any] = {"epsilon": self.epsilon, "delta": self.delta}
        # Earlier versions, which know no thresholds, cannot read the last two: they would not count what those spend.
        return values | ({"noise": self.noise, "threshold_delta": float(self.for_thresholds)} if self.delta else {})

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Budget:
        """Return the budget that `to_json` wrote; in those of earlier versions nothing is kept for thresholds."""
        if not isinstance(values, dict) or not values.keys() <= {"epsilon", "delta", "noise", "threshold_delta"}:
            raise AccuracyError("these JSON values do not describe a budget")
        known: dict[str, Any] = {"threshold_delta": 0.0}
        budget = cls(**(known | values))
        usual = replace(budget, threshold_delta=None)
        return usual if usual.for_thresholds == budget.for_thresholds else budget

    def agrees(self, made: Budget) -> bool:
        """Return whether a ledger that was made for the budget `made` may be opened with this one.

        What is kept for thresholds is what was kept when it was made, unless this one asks for another part.
        """
        same = (self.epsilon, self.delta, self.noise) == (made.epsilon, made.delta, made.noise)
        return same and (self.threshold_delta is None or self.for_thresholds == made.for_thresholds)

    def _check_thresholds(self) -> None:
        part = self.threshold_delta
        if part is None:
            return
        if isinstance(part, bool) or not isinstance(part, Real) or not 0 <= float(part) < 1:
            raise AccuracyError(
                f"the budget's threshold_delta must be a number from 0 up to its delta, not {shorten(part)}"
            )
        object.__setattr__(self, "threshold_delta", float(part))
        if self.law.needs_delta and float(part) >= self.delta:
            raise AccuracyError(
                f"threshold_delta is a part of delta, which Gaussian noise needs as well: write less than "
                f"{self.delta:g}, not {float(part):g}"
            )
        if not self.law.needs_delta and float(part) != self.delta:
            raise AccuracyError(
                "with Laplace noise all of delta is for thresholds: leave threshold_delta out, or give a budget with "
                "Gaussian noise"
                if self.delta
                else "a budget without delta has none for thresholds: write Budget(epsilon=1.0, delta=1e-6)"
            )
        if not self.law.needs_delta:
            object.__setattr__(self, "threshold_delta", None)

    def __repr__(self) -> str:
        text = f"Budget(epsilon={self.epsilon!r}, delta={self.delta!r}"
        if self.delta and not self.law.needs_delta:
            text += f", noise={self.noise!r}"
        elif self.threshold_delta is not None and self.delta:
            text += f", threshold_delta={self.threshold_delta!r}"
        return text + ")"

    def __str__(self) -> str:
        return f"ε = {self.epsilon:g}" + (f", δ = {self.delta:g}" if self.delta else "")


def _decimal(number: float) -> Fraction:
    return Fraction(repr(number))


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
        raise AccuracyError(f"{name} must be a number above 0, not {shorten(value)}") from None
    except OverflowError:
        raise AccuracyError(f"{name} must be a number above 0, and not of hundreds of digits") from None
    if not (math.isfinite(number) and number > 0):
        raise AccuracyError(f"{name} must be a finite number above 0, not {shorten(value)}")
    return value if isinstance(value, Fraction) else Fraction(repr(number))
