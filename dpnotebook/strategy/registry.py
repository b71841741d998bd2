"""Strategies of others: what was registered, and what is believed of what they make."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from types import TracebackType

from dpnotebook.errors import Cancelled, WorkloadError, shorten
from dpnotebook.privacy.laws import Noise
from dpnotebook.strategy.strategy import Strategy
from dpnotebook.workload import Workload
from dpnotebook.workload.base import require_exact

REGISTERED: dict[str, Registration] = {}


@dataclass(frozen=True, eq=False, repr=False)
class Registration:
    """A strategy that somebody registered: a function of a workload and a noise law, like those of `dpn.strategy`.

    As the context of a `with` statement it is registered until the end of it.

    Parameters
    ----------
    name
        What it is registered under.
    make
        Called with a workload and a noise law.
    title
        What to call it.
    about
        What it measures, in a line.
    suits
        Whether it is for such a workload and noise law.

    Examples
    --------
    >>> from dpnotebook import strategy
    >>> with strategy.register("every_cell", strategy.identity, title="every cell") as mine:
    ...     mine.name, mine.title
    ('every_cell', 'every cell')
    """

    name: str
    make: Callable[[Workload, Noise], Strategy]
    title: str
    about: str
    suits: Callable[[Workload, Noise], bool]

    def __call__(self, workload: Workload, noise: Noise = "laplace") -> Strategy:
        """Return the strategy for a workload; its sensitivity and its expected error are computed here.

        Of what the registered function returns, only the operator, its name and `split` are used. The answer is kept,
        so that asking again makes the same plan.

        Parameters
        ----------
        workload
            What is to be answered.
        noise
            "laplace" or "gaussian".

        Raises
        ------
        WorkloadError
            If the function fails, or returns anything but a strategy of integer rows, for this workload and noise,
            that determines every answer.
        """
        return _made(self, workload, noise)

    def __enter__(self) -> Registration:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if REGISTERED.get(self.name) is self:
            del REGISTERED[self.name]

    def __repr__(self) -> str:
        return f"the registered strategy {shorten(self.name)}"


def suiting(workload: Workload, noise: Noise) -> list[Registration]:
    """Return what is registered for such a workload, in the order of registration.

    One whose `suits` fails is among them: making it says so.
    """
    found = []
    for registration in list(REGISTERED.values()):
        try:
            suits = registration.suits(workload, noise)
        except Exception:
            suits = True
        if suits:
            found.append(registration)
    return found


def registered_strategies(workload: Workload, noise: Noise) -> Iterator[Strategy]:
    """Yield the strategy of everything registered that suits a workload; one that fails is left out, with a warning."""
    for registration in suiting(workload, noise):
        try:
            yield registration(workload, noise)
        except WorkloadError as error:
            warnings.warn(f"{error}; it is left out", RuntimeWarning, stacklevel=2)


@lru_cache(maxsize=64)
def _made(registration: Registration, workload: Workload, noise: Noise) -> Strategy:
    try:
        registration.suits(workload, noise)
        made = registration.make(workload, noise)
    except Cancelled:
        raise
    except Exception as error:
        said = str(error) or type(error).__name__
        raise WorkloadError(f"{registration} fails for {shorten(workload)}: {shorten(said, 200)[1:-1]}") from error
    if not isinstance(made, Strategy):
        raise WorkloadError(f"{registration} returns a strategy, not {shorten(made)}")
    if made.noise != noise or made.workload != workload:
        got = f"{shorten(made.workload)} with {made.noise} noise"
        raise WorkloadError(f"{registration} was asked for {shorten(workload)} with {noise} noise, and answers {got}")
    try:
        found = Strategy(workload, made.operator, noise, str(made.name), bool(made.split))
        require_exact(found.norm)
        determined = math.isfinite(found.objective)
    except WorkloadError as error:
        raise WorkloadError(f"{registration} cannot be measured: {error}") from error
    if not determined:
        raise WorkloadError(f"{registration} does not determine every answer of {shorten(workload)}")
    return found
