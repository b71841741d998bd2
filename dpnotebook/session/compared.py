"""Differences and ratios of releases, row by row, with intervals: what noise they share is counted once.

A difference of independent Gaussian answers has its exact interval; everything else has that of redraws of both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from dpnotebook.errors import WorkloadError, shorten
from dpnotebook.privacy.laws import GAUSSIAN
from dpnotebook.query.question import Measure
from dpnotebook.session.answer_frame import DERIVED, column_name
from dpnotebook.session.redraws import (
    FEWEST,
    Drawn,
    Ends,
    Redrawn,
    as_often_as_can_be,
    draws_for,
    followed,
    intervals,
)
from dpnotebook.sql.statement import ShownColumn

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]
Operation = Literal["less", "over"]
Redraws = Callable[[int], Mapping[str, NDArray[Any]]]
Drawings = dict[str, tuple[Floats, Floats]]

SIGNS = {"less": "−", "over": "÷"}
SAME = 1e-4  # of a half-width: what differs by less does so by rounding


class Compared(Protocol):
    """A release, as far as it matters to what is worked out from releases."""

    @property
    def frame(self) -> pd.DataFrame:
        """Its rows."""

    @property
    def question(self) -> object:
        """What was asked."""

    @property
    def keys(self) -> tuple[str, ...]:
        """Names of its key columns."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its value columns."""

    @property
    def measures(self) -> tuple[Measure | ShownColumn, ...]:
        """What has a value and an interval in its frame."""

    @property
    def number(self) -> int:
        """Its number in the ledger, 0 where it was worked out."""

    @property
    def sources(self) -> tuple[int, ...]:
        """Numbers of the releases that it follows from."""

    @property
    def confidence(self) -> float:
        """That of its intervals."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be said of it."""

    @property
    def redraws(self) -> Redraws | None:
        """Gives what it may have been; None where that is not known."""

    @property
    def table(self) -> str:
        """The table it is of."""

    @property
    def title(self) -> str:
        """What was asked, in words."""

    @property
    def where(self) -> str:
        """Of which rows, in words."""

    def unit_of(self, measure: Any) -> str:
        """Return what the answers of a measure are counted in."""

    def words_of(self, measure: Any) -> str:
        """Return a measure in words."""


@dataclass(frozen=True)
class ComparedQuestion:
    """What was compared, as cards and plots show it.

    Parameters
    ----------
    table, words, where_text
        Of what, what was asked, and of which rows.
    measures
        The columns that are compared.
    """

    table: str
    words: str
    where_text: str
    measures: tuple[ShownColumn, ...]


@dataclass(frozen=True)
class ComparedAnswers:
    """The difference or the ratio of two releases.

    Parameters
    ----------
    frame, question
        The answers with their intervals, and what they are.
    sources
        Numbers of the releases that they follow from.
    notes
        What is to be said of them.
    redraws
        As in `Release`.
    """

    frame: pd.DataFrame
    question: ComparedQuestion
    sources: tuple[int, ...]
    notes: tuple[str, ...]
    redraws: Redraws


def compared(one: Compared, other: Compared, operation: Operation) -> ComparedAnswers:
    """Return the difference or the ratio of two releases of one confidence, in the rows that both have.

    What is divided by may be one answer, such as a total.

    Parameters
    ----------
    one, other
        Releases with the same keys, and with columns of the same names, or with one column each.
    operation
        "less" for one - other, "over" for one / other.

    Raises
    ------
    WorkloadError
        If they have other keys, no column in common, or rows that share a key.
    """
    if one.redraws is None or other.redraws is None:
        raise WorkloadError("counts that were moved are not redrawn: compare the releases as they were measured")
    shares = operation == "over" and not other.keys and len(other.frame) == 1  # each answer beside one, as a total is
    names = _names(one, other, shares)
    mine, others = _rows(one, other, shares)
    drawn_of_one, drawn_of_other = one.redraws, other.redraws

    def redrawn(draws: int) -> tuple[Drawings, list[Redrawn]]:
        first, second = drawn_of_one(draws), drawn_of_other(draws)
        found = {name: (first[left][:, mine], second[right][:, others]) for name, (left, right) in names.items()}
        return found, followed(first, second)

    def redraws(draws: int) -> Mapping[str, NDArray[Any]]:
        found = {name: _result(*both, operation) for name, both in redrawn(draws)[0].items()}
        return {name: np.where(np.isfinite(values), values, np.nan) for name, values in found.items()}

    frame = one.frame[list(one.keys)].iloc[mine].reset_index(drop=True)
    drawn: Drawings = {}
    from_noise: list[Redrawn] = []
    notes: list[str] = []
    for name, (left, right) in names.items():
        found = _result(_column(one, left, mine), _column(other, right, others), operation)
        found = np.where(np.isfinite(found), found, np.nan)
        ends = _exact(one, other, left, right, mine, others) if operation == "less" else None
        if ends is None:
            if not drawn:
                drawn, from_noise = _often(redrawn, draws_for(one.confidence, mine.size, 0) or FEWEST)
            over = (drawn[name][1],) if operation == "over" else ()
            ends = intervals(Drawn(found, _result(*drawn[name], operation), over), from_noise, None, one.confidence)
            notes += ends.notes(name)
        frame[name] = found
        for part, numbers in vars(ends).items():
            frame[column_name(name, part)] = numbers
    if (left_out := len(one.frame) + len(other.frame) - 2 * mine.size) > 0:
        notes.append(f"rows that only one of the releases has are left out: {left_out}")
    return ComparedAnswers(
        frame,
        _question(one, other, operation, names),
        tuple(sorted({*_sources(one), *_sources(other)})),
        tuple(dict.fromkeys((*one.notes, *other.notes, *notes))),
        redraws,
    )


def _names(one: Compared, other: Compared, shares: bool) -> dict[str, tuple[str, str]]:
    """Return which columns are compared, and what that is called."""
    if set(one.keys) != set(other.keys) and not shares:
        said = [", ".join(release.keys) or "nothing" for release in (one, other)]
        raise WorkloadError(f"releases are compared row by row, by the same keys: not by {said[0]} and by {said[1]}")
    same = [name for name in one.names if name in other.names]
    if same:
        return {name: (name, name) for name in same}
    if len(one.names) == len(other.names) == 1:
        return {"value": (one.names[0], other.names[0])}
    said = [", ".join(map(shorten, release.names)) or "none with an interval" for release in (one, other)]
    raise WorkloadError(f"these releases have no column in common: {said[0]}; and {said[1]}. Give them the same names")


def _rows(one: Compared, other: Compared, shares: bool) -> tuple[Rows, Rows]:
    """Return the rows of each that have the same key, in the order of the first."""
    keys = list(one.keys)
    if shares:
        return np.arange(len(one.frame)), np.zeros(len(one.frame), dtype=np.intp)
    if not keys and len(one.frame) == len(other.frame) == 1:
        return np.zeros(1, dtype=np.intp), np.zeros(1, dtype=np.intp)
    if not keys:
        raise WorkloadError("releases of several rows are compared by their keys: select these first, in their order")
    if one.frame[keys].duplicated().any() or other.frame[keys].duplicated().any():
        raise WorkloadError("several rows share a key, so it is not known which to compare")
    left, right = (release.frame[keys].assign(**{side: np.arange(len(release.frame))})
                   for release, side in ((one, "row of one"), (other, "row of other")))  # fmt: skip
    both = left.merge(right, on=keys, how="inner").sort_values("row of one")
    return both["row of one"].to_numpy(dtype=np.intp), both["row of other"].to_numpy(dtype=np.intp)


def _question(
    one: Compared, other: Compared, operation: Operation, names: Mapping[str, tuple[str, str]]
) -> ComparedQuestion:
    def said(left: str, right: str) -> str:
        return left if left == right else f"{left} {SIGNS[operation]} {right}"

    known = {measure.name: measure for measure in one.measures}
    shown = []
    for name, (left, _) in names.items():
        kind, column, unit = (
            (known[left].kind, known[left].column, one.unit_of(known[left]))
            if operation == "less"
            else (DERIVED, None, None)
        )
        shown.append(ShownColumn(name, known[left].words, kind, column, unit))
    where = said(one.where or "all", other.where or "all") if one.where or other.where else ""
    return ComparedQuestion(said(one.table, other.table), said(one.title, other.title), where, tuple(shown))


def _column(release: Compared, name: str, rows: Rows) -> Floats:
    return np.asarray(release.frame[name].to_numpy(dtype=float)[rows])


def _result(one: Floats, other: Floats, operation: Operation) -> Floats:
    if operation == "less":
        return one - other
    return np.where(other == 0, np.inf, one / np.where(other == 0, 1.0, other))


def _exact(one: Compared, other: Compared, left: str, right: str, mine: Rows, others: Rows) -> Ends | None:
    """Return the intervals of a difference of independent Gaussian answers; None of others."""
    if set(_sources(one)) & set(_sources(other)):
        return None
    reach, variance = GAUSSIAN.kappa(one.confidence), np.zeros(mine.size)
    for release, name, rows in ((one, left, mine), (other, right, others)):
        value, error = (_column(release, column, rows) for column in (name, column_name(name, "std_error")))
        for part, width in (("lower", -reach * error), ("upper", reach * error)):
            end = _column(release, column_name(name, part), rows)
            if not np.allclose(end, value + width, rtol=0, atol=SAME * float(np.abs(width).max(initial=0.0))):
                return None
        variance += error**2
    found = _column(one, left, mine) - _column(other, right, others)
    width = reach * np.sqrt(variance)
    return Ends(np.sqrt(variance), found - width, found + width)


def _sources(release: Compared) -> tuple[int, ...]:
    return release.sources or (release.number,)


def _often(redrawn: Callable[[int], tuple[Drawings, list[Redrawn]]], draws: int) -> tuple[Drawings, list[Redrawn]]:
    found = as_often_as_can_be(redrawn, draws)
    if found is None:
        raise WorkloadError(
            "these releases are too large to compare with intervals; their values alone are in .frame of each"
        )
    return found
