"""Histograms as `value_counts` shows them: the most frequent level first, and shares of all rows.

Both are worked out from the noisy counts alone, so they cost what the histogram does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpnotebook.errors import DomainError, shorten
from dpnotebook.session.answer_frame import DERIVED, column_name
from dpnotebook.session.redraws import FEWEST, Drawn, Ends, as_often_as_can_be, draws_for, intervals
from dpnotebook.sql.statement import ShownColumn

if TYPE_CHECKING:
    from dpnotebook.session.release import Release

Floats = NDArray[np.float64]
Normalize = bool | Literal["all", "index", "columns"]

SHOWN = "shown"  # how a record says it in the ledger
IN_NOISY_ORDER = "in the order of noisy counts: rows whose intervals overlap may belong in another one"
NOT_REDRAWN = "shares are without intervals, as the answers are too many, or combined from too much, to be redrawn"


def most_frequent_first(release: Release) -> Release:
    """Return the same release with its rows in descending order of their noisy counts.

    Parameters
    ----------
    release
        One count for each row; its order is that of the declared levels.
    """
    order = np.argsort(-release.frame[release.names[0]].to_numpy(dtype=float), kind="stable")
    again, redraws, adjusted = release.again, release.redraws, release.adjusted
    return replace(
        release,
        frame=release.frame.iloc[order].reset_index(drop=True),
        notes=(*release.notes, IN_NOISY_ORDER),
        ordered=(False,) * len(release.ordered),
        again=None if again is None else lambda confidence: most_frequent_first(again(confidence)),
        redraws=None
        if redraws is None
        else lambda draws: {name: values[:, order] for name, values in redraws(draws).items()},
        adjusted=None
        if adjusted is None
        else lambda total, report: adjusted(total, report).iloc[order].reset_index(drop=True),
    )


def whole_of(normalize: Any, columns: Sequence[str]) -> tuple[str, ...] | None:
    """Return the columns whose levels the shares of a table are within; none of all rows, None where counts are asked.

    Parameters
    ----------
    normalize
        As pandas has it: True or "all", "index", "columns", or False.
    columns
        Those of the table.

    Raises
    ------
    DomainError
        If it is none of these, or there are others than two columns to tell its sides apart.
    """
    if isinstance(normalize, bool) or (isinstance(normalize, str) and normalize == "all"):
        return () if normalize else None
    if not isinstance(normalize, str) or normalize not in ("index", "columns"):
        raise DomainError(f'normalize= is True, False, "all", "index" or "columns", not {shorten(normalize)}')
    if len(columns) != 2:
        raise DomainError(f'normalize="{normalize}" is of two attributes; of more, divide the counts in release.frame')
    return (columns[normalize == "columns"],)


def shares(release: Release, of: Sequence[str] = ()) -> Release:
    """Return what share of all rows of a release each of its counts is, with intervals; noise of the total included.

    Parameters
    ----------
    release
        One count for each row.
    of
        Keys, of whose levels the counts are shares; of all rows when there are none.
    """
    name = release.names[0]
    frame = release.frame
    groups = frame.groupby([*of], sort=False, dropna=False).ngroup().to_numpy() if of else np.zeros(len(frame), int)
    counts, redraws, again = frame[name].to_numpy(dtype=float), release.redraws, release.again
    values = _shares(counts[None], groups)[0]

    def drawn(draws: int) -> tuple[Floats, Floats]:
        assert redraws is not None
        found = np.asarray(redraws(draws)[name], dtype=float)
        return _shares(found, groups), _totals(found, groups)

    def shown(draws: int) -> Mapping[str, NDArray[Any]]:
        found = drawn(draws)[0]
        return {name: np.where(np.isfinite(found), found, np.nan)}

    often = None
    if redraws is not None:
        often = as_often_as_can_be(drawn, draws_for(release.confidence, counts.size, 0) or FEWEST)
    if often is None:
        ends, notes = Ends(*(np.full(counts.size, np.nan) for _ in range(3))), [NOT_REDRAWN]
    else:
        ends = intervals(Drawn(values, often[0], (often[1],)), (), None, release.confidence)
        hidden, notes = ~np.isfinite(ends.lower) | ~np.isfinite(ends.upper), []
        if hidden.any():  # whatever they are divided by, shares are from 0 to 1
            values = np.where(hidden, np.clip(values, 0.0, 1.0), values)
            found = ((0.5, ends.std_error), (0.0, ends.lower), (1.0, ends.upper))
            ends = Ends(*(np.where(hidden, end, known) for end, known in found))
            notes = [f"{name}: where noise hides of how many they are, shares may be any, from 0 to 1"]
    frame = frame.assign(**{name: np.where(np.isfinite(values), values, np.nan)})
    for part, numbers in vars(ends).items():
        frame[column_name(name, part)] = numbers
    return replace(
        release,
        frame=frame,
        unit="",
        adjusted=None,
        notes=(*release.notes, *notes),
        worked_out=(ShownColumn(name, f"share of {' and '.join(of)}" if of else "share of rows", DERIVED),),
        again=None if again is None else lambda confidence: shares(again(confidence), of),
        redraws=None if redraws is None else shown,
    )


@dataclass(frozen=True)
class ShownCounts:
    """How a verb shows the counts that it asks for; the ledger keeps it, so that they are shown so again.

    Parameters
    ----------
    verb
        "value_counts" or "crosstab".
    of
        What shares are of, as for `shares`; None for counts.
    sort
        Whether the most frequent are first.
    """

    verb: str
    of: tuple[str, ...] | None
    sort: bool = False

    def __call__(self, release: Release) -> Release:
        """Return a release of counts as they are shown."""
        shown = release if self.of is None else shares(release, self.of)
        return most_frequent_first(shown) if self.sort else shown

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"verb": self.verb, "of": None if self.of is None else list(self.of), "sort": self.sort}

    @classmethod
    def from_json(cls, told: Mapping[str, Any] | None) -> ShownCounts | None:
        """Return what `to_json` wrote; None where counts were asked by a verb that shows them as they are."""
        if told is None:
            return None
        return cls(told["verb"], None if told["of"] is None else tuple(told["of"]), bool(told["sort"]))

    def arguments(self, keys: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return the arguments of the verb before and behind `where=`, as Python."""
        if self.verb == "value_counts":
            listed = [repr(keys[0] if len(keys) == 1 else [*keys])]
            ways = [("normalize", True, self.of is not None), ("sort", False, not self.sort)]
            return listed, [f"{name}={value}" for name, value, said in ways if said]
        of: object = True if not self.of else "columns" if self.of[0] == keys[1] else "index"
        return [repr(key) for key in keys], [f"normalize={of!r}"]


def _shares(counts: Floats, groups: NDArray[np.intp]) -> Floats:
    """Return shares of the rows of each group, infinite where there are none; shape (draws, rows)."""
    total = _totals(counts, groups)
    return np.where(total == 0, np.inf, counts / np.where(total == 0, 1.0, total))


def _totals(counts: Floats, groups: NDArray[np.intp]) -> Floats:
    """Return for each count the sum of those of its group; shape (draws, rows)."""
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    return np.add.reduceat(counts[:, order], starts, axis=1)[:, groups] if len(groups) else counts
