"""How far long work is: the layers below report it, and a notebook decides how that looks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from dpnotebook.errors import ArgumentError, DPError, shorten

Progress = Callable[[float | None, str], None]


def silent(fraction: float | None, doing: str) -> None:
    """Report to nobody."""


def told(progress: Progress | None) -> Progress:
    """Return what reports to a user's function, whose own failure is one of ours and shows nothing of the work.

    Parameters
    ----------
    progress
        The function; None for nobody.
    """
    if progress is None:
        return silent

    def report(fraction: float | None, doing: str) -> None:
        failure = None
        try:
            progress(fraction, doing)
        except DPError:
            raise
        except Exception as error:
            failure = shorten(type(error))
        if failure:
            raise ArgumentError(f"progress= is a function of a fraction and a text; it stopped with {failure}")

    return report


@contextmanager
def unwatched() -> Iterator[Progress]:
    """Show no progress."""
    yield silent


_watch: Callable[[], AbstractContextManager[Progress]] = unwatched


def watched() -> AbstractContextManager[Progress]:
    """Return a context in which progress is shown wherever somebody may be looking.

    It yields a function of a fraction (None when unknown) and what is being done.
    """
    return _watch()


def show_with(watch: Callable[[], AbstractContextManager[Progress]]) -> None:
    """Say how progress is shown from now on: the notebook layer puts its progress bar here."""
    global _watch
    _watch = watch
