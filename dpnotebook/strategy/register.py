"""Where others add a strategy: it is then compared with all that are here."""

from __future__ import annotations

from collections.abc import Callable

from dpnotebook.errors import ArgumentError, WorkloadError, shorten
from dpnotebook.privacy.laws import Noise
from dpnotebook.strategy.catalogue import CANDIDATES
from dpnotebook.strategy.registry import REGISTERED, Registration
from dpnotebook.strategy.strategy import Strategy
from dpnotebook.workload import Workload


def register(
    name: str,
    make: Callable[[Workload, Noise], Strategy],
    *,
    title: str = "",
    about: str = "",
    suits: Callable[[Workload, Noise], bool] | None = None,
) -> Registration:
    """Add a strategy to `select`, `compare` and the explorer, until `unregister` or the end of a `with` statement.

    Verbs go on choosing among the strategies of this package, so that what a question costs does not depend on what
    else was imported: to measure a registered one, give `strategy=dpn.strategy.select`, or what `register` returns. The
    ledger keeps the operator that was measured, and is read without the registration.

    Parameters
    ----------
    name
        A name of letters, digits and underscores.
    make
        Called with a workload and a noise law ("laplace" or "gaussian"), returns a `Strategy`. Of that only the
        operator is believed, which must have integer rows (`rounded` makes them so): sensitivity and expected error are
        computed from them, and no bound that it claims to be optimal by is used. An operator of a class of your own is
        written out as a matrix. It must make the same strategy at every call.
    title, about
        What to call it, and what it measures in a line; the name, unless given.
    suits
        Called with a workload and a noise law, returns whether the strategy is for such; all, unless given.

    Returns
    -------
    A function like those of `dpn.strategy`, which makes the strategy and checks it; also a context manager.

    Raises
    ------
    WorkloadError
        If there is a strategy of this name already.
    ArgumentError
        If the name is none, or `make` or `suits` cannot be called.

    Examples
    --------
    >>> import numpy as np
    >>> from dpnotebook import strategy
    >>> from dpnotebook.workload import Prefix
    >>> def fourth_root(workload, noise):
    ...     values, vectors = np.linalg.eigh(workload.gram())
    ...     rows = vectors @ np.diag(values**0.25) @ vectors.T
    ...     return strategy.Strategy(workload, strategy.rounded(rows), noise, "fourth root")
    >>> with strategy.register("fourth_root", fourth_root) as mine:
    ...     found = mine(Prefix(32), "gaussian")
    ...     ranked = [each.name for each in strategy.compare(Prefix(32), "gaussian")]
    >>> round(found.optimality, 2)
    1.28
    >>> "fourth root" in ranked
    True
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise ArgumentError(f"a strategy is registered under a name such as my_tree, not {shorten(name)}")
    for what, function in (("make", make), ("suits", suits)):
        if function is not None and not callable(function):
            raise ArgumentError(f"{what}= is a function of a workload and a noise law, not {shorten(function)}")
    if make is None:
        raise ArgumentError("make= is a function of a workload and a noise law that returns a strategy")
    if any(name == candidate.name for candidate in CANDIDATES):
        raise WorkloadError(f"{shorten(name)} is the name of a strategy that is here already: choose another")
    if name in REGISTERED:
        raise WorkloadError(
            f"a strategy is registered as {shorten(name)} already: choose another name, or call "
            f"dpn.strategy.unregister({shorten(name)}) first"
        )
    found = Registration(name, make, str(title) or name, str(about) or str(title) or name, suits or _any)
    REGISTERED[name] = found
    return found


def registered() -> dict[str, Registration]:
    """Return what is registered, by name, in the order of registration.

    Examples
    --------
    >>> from dpnotebook import strategy
    >>> strategy.registered()
    {}
    """
    return dict(REGISTERED)


def unregister(name: str) -> None:
    """Take a registered strategy out again; what was measured by it stays as it is.

    Parameters
    ----------
    name
        What it was registered under.

    Raises
    ------
    WorkloadError
        If nothing is registered under that name.

    Examples
    --------
    >>> from dpnotebook import strategy
    >>> mine = strategy.register("every_cell", strategy.identity)
    >>> list(strategy.registered())
    ['every_cell']
    >>> strategy.unregister("every_cell")
    >>> list(strategy.registered())
    []
    """
    if REGISTERED.pop(name, None) is None:
        raise WorkloadError(f"no strategy is registered as {shorten(name)}")


def _any(workload: Workload, noise: Noise) -> bool:
    return True
