"""What pandas users do with a release as with a frame, or with a number: what is done so, and what to write instead.

Looks at the frame, sorted or in part, are those of a copy of it: nothing is changed by them. What works something out
over rows is refused, as its interval would be missing; the intervals of a number are why it is not compared as it is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from dpnotebook.errors import ArgumentError, UnknownVerb, WorkloadError, shorten

if TYPE_CHECKING:
    import pandas as pd


class HasAnswers(Protocol):
    """What is asked here of a release."""

    @property
    def frame(self) -> pd.DataFrame:
        """Its rows."""

    @property
    def names(self) -> tuple[str, ...]:
        """Its value columns."""


# Of a frame: what shows it, or a part of it, and works nothing out.
LOOKS = {
    *("columns", "index", "shape", "dtypes", "empty", "values", "T", "loc", "iloc", "head", "tail", "query", "round"),
    *("sort_values", "sort_index", "set_index", "reset_index", "nlargest", "nsmallest", "rename", "items"),
    *("itertuples", "iterrows", "to_dict", "to_numpy", "to_records", "to_json", "to_string"),
    *("get", "xs", "at", "iat", "filter", "drop"),
}
FIGURES = {  # what works something out over its rows
    *("mean", "median", "min", "max", "std", "var", "sem", "quantile", "describe", "cumsum", "cumprod", "prod"),
    *("corr", "cov", "count", "agg", "aggregate", "diff", "pct_change", "rank", "mode", "idxmax", "idxmin", "nunique"),
    *("value_counts", "any", "all"),
}
PLOTS = ("bar", "barh", "line", "scatter", "hist", "pie", "box", "area", "heatmap")
COUNTERPARTS = {"scatter": "point", "area": "line"}  # of the plots of pandas
DRAWN = ("bar", "barh", "point", "line", "heatmap")


def as_of_frame(release: HasAnswers, name: str) -> Any:
    """Return what a name means of the frame of a release, where that works nothing out: a column, or a look at it.

    Raises
    ------
    UnknownVerb
        If there is none, or its interval would be missing; it says what to write.
    """
    if name in release.frame.columns:
        return release.frame[name]
    if name == "loc":
        return _RowsByLabel(release)
    if name in LOOKS:
        found = getattr(release.frame.copy(), name)
        return partial(_looked, release, found) if callable(found) and name not in ("iloc", "at", "iat") else found
    if name in FIGURES:  # refused when it is called, as NumPy does too, which reads the rows itself where it cannot
        return partial(_refuse_figure, release, name)
    if name in ("hist", "boxplot"):
        raise UnknownVerb(f"{name} is of rows, and these are answers already: release.plot() draws them")
    if name == "to_excel":
        raise UnknownVerb("release.to_csv(path) writes a file that Excel opens, in which texts stay texts")
    if name in ("merge", "join"):
        raise UnknownVerb(f"{name} is of frames: release.frame.{name}(other.frame); release - other compares two")
    if hasattr(type(release.frame), name):
        raise UnknownVerb(f"a release is not changed: release.to_frame() is a copy that has {name}")
    there = [one for one in (*dir(type(release)), *release.frame.columns) if not str(one).startswith("_")]
    close = get_close_matches(name, map(str, there), n=1, cutoff=0.7)
    hint = f"did you mean {close[0]}?" if close else f"its columns are {', '.join(map(str, release.frame))}"
    raise UnknownVerb(f"a release has no {shorten(name)[1:-1]}; {hint}")


def _looked(release: HasAnswers, look: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return a look at the frame, or say that there is no such column."""
    with contextlib.suppress(KeyError):
        return look(*args, **kwargs)
    raise UnknownVerb(f"this release has no such column; its columns are {', '.join(map(str, release.frame))}")


class _RowsByLabel:
    """The rows of a release, by their labels."""

    def __init__(self, release: HasAnswers) -> None:
        self._release = release

    def __getitem__(self, key: Any) -> Any:
        frame = self._release.frame.copy()
        with contextlib.suppress(KeyError):
            return frame.loc[key]
        raise UnknownVerb(
            f"rows are numbered from 0 to {len(frame) - 1}: by a level of {shorten(str(frame.columns[0]))} they are "
            f"release.set_index({shorten(str(frame.columns[0]))}).loc[...]"
        )


def _refuse_figure(release: HasAnswers, name: str, *_: object, **__: object) -> NoReturn:
    if _single(release):
        raise UnknownVerb(f"there is one answer, so there is no {name} to take: it is float(release)")
    raise UnknownVerb(
        f"{name} over answers has an interval that theirs do not tell: ask for it by a verb, or take it of each draw "
        f"of release.samples(); of the noisy values alone it is release[{_column(release)}].{name}()"
    )


def refuse_comparison(release: HasAnswers, sign: str, other: object) -> NoReturn:
    """Raise WorkloadError for `release > 5`: it hides that the answer is somewhere in an interval."""
    said = shorten(other)
    if not _single(release):
        raise WorkloadError(
            f"this release has several answers: release[{_column(release)}] {sign} {said} compares each"
        )
    raise WorkloadError(
        f"an answer is a number with an interval: float(release) {sign} {said} compares the number, and "
        "release.interval says where the exact answer may be"
    )


def refuse_arithmetic(release: HasAnswers, sign: str, other: object, turned: bool = False) -> NoReturn:
    """Raise WorkloadError for `release + 1`, and for operations that two releases have not."""
    if type(other) is type(release):
        raise WorkloadError(
            f"releases are compared, by release - other and release / other, and not by {sign}: "
            f"work out {sign} for each draw of .samples(), for its interval too"
        )
    number = "float(release)" if _single(release) else f"release[{_column(release)}]"
    said = [number, shorten(other)]
    text = f" {sign} ".join(reversed(said) if turned else said)
    raise WorkloadError(
        f"a release is as it was recorded: {text} is the number alone, without an interval; with one, work it out for "
        "each draw of release.samples()"
    )


def refuse_plot(kind: str, *_: object, **__: object) -> NoReturn:
    """Raise ArgumentError for `release.plot.bar()`, which is written otherwise here."""
    here = COUNTERPARTS.get(kind, kind)
    if here in DRAWN:
        raise ArgumentError(f'plot.{kind}() is written so: release.plot(kind="{here}")')
    raise ArgumentError(
        f"plot.{kind}() shows no intervals: release.plot() does; for others draw release.frame yourself"
    )


def _column(release: HasAnswers) -> str:
    """Return the name of its first column of values, in quotes."""
    return shorten(release.names[0] if release.names else str(release.frame.columns[-1]))


def _single(release: HasAnswers) -> bool:
    return len(release.frame) == 1 and len(release.names) <= 1
