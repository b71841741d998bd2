"""What a statement works out from its releases, with the interval of every number that depends on noise."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.errors import DPError, SQLError
from dpnotebook.planner.redraws import MOST_TOLD
from dpnotebook.session.answer_frame import DERIVED, column_name
from dpnotebook.session.redraws import AROUND, Drawn, Ends, Redraw, Redrawn, as_often_as_can_be, draws_for, intervals
from dpnotebook.sql.analysis.release_names import PARTS, interval_columns
from dpnotebook.sql.derived import DRAW, REDRAWN, REDRAWS, ROW, DerivedColumns, derived_columns
from dpnotebook.sql.statement import ShownColumn, Statement

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Frames = Mapping[str, "pd.DataFrame"]
Outer = Callable[[str, Frames], "pd.DataFrame"]

MANY_ROWS = "its rows cannot be told apart by what does not depend on noise"
NOT_ALWAYS = "it cannot be worked out from all that the numbers may have been"
NOT_REDRAWN = "the answers are too many, or combined from too much, for their noise to be drawn again"
OF_NONE_SHOWN = "{} has no interval{}: no group that is shown is in it, and of those that are hidden it says nothing"
OF_NO_GROUP = "no group is shown, so this is worked out from none: it says nothing of those that are hidden"
NOT_READ = "it cannot be told which of its columns depend on noise"


@dataclass(frozen=True)
class WorkedOut:
    """What a statement works out from its releases.

    Parameters
    ----------
    frame
        Its columns, beside each that depends on noise its interval.
    measures
        Those that have one beside them.
    notes
        What is to be said of them.
    """

    frame: pd.DataFrame
    measures: tuple[ShownColumn, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Derivation:
    """How the answer of a statement comes from its releases.

    Parameters
    ----------
    statement
        What was asked; it works something out.
    frames
        Its releases.
    redraw
        Gives what these may have been, so many times.
    public
        Reads the public tables that the statement names.
    outer
        Works out SQL over released and public tables.
    """

    statement: Statement
    frames: Sequence[pd.DataFrame]
    redraw: Redraw
    public: Callable[[], Frames]
    outer: Outer

    def worked_out(self, confidence: float) -> WorkedOut:
        """Return what the statement works out, with intervals that hold with this confidence each."""
        public = self.public()
        found, frame, row, apart = self._answer(public)
        if found is None:
            return WorkedOut(frame, notes=(f"without intervals, as {NOT_READ}",))
        columns = list(self._columns(found, frame))
        missing = [column for column in columns if column.shown is None and not column.complete]
        ends = {column.name: self._own(column.shown, row) for column in columns if column.shown is not None}
        notes: tuple[str, ...] = ()
        if missing and len(frame):
            beside = sum(map(len, public.values()))
            parts = [select.aggregates for select in self.statement.selects]
            needed = found.needed(*([[getattr(part, of) for part in one] for one in parts] for of in ("name", "kind")))
            times = draws_for(confidence, *self._size(frame, beside, needed))
            redrawn = as_often_as_can_be(partial(self.redraw, needed=needed), times) or []
            answers = self._redrawn(found, frame, row, apart, redrawn, public) if redrawn else NOT_REDRAWN
            if isinstance(answers, str):
                notes = (f"{', '.join(column.name for column in missing)}: without an interval, as {answers}",)
            else:
                drawn, divisors = answers
                for column in missing:
                    values = frame.iloc[:, column.place].to_numpy(dtype=float, na_value=np.nan)
                    over = [divisors[i] for i in found.divided[column.place]]
                    one = intervals(Drawn(values, drawn[column.place], over), redrawn, row, confidence)
                    ends[column.name], notes = one, (*notes, *one.notes(column.name))
                if row is None and any(map(len, self.frames)):
                    fixed = {one.place: ends[one.name].std_error == 0 for one in missing}
                    for place, without in self._of_none_shown(found, frame, apart, public, fixed).items():
                        name = str(frame.columns[place])
                        ends[name] = ends[name].without(without)
                        where = f" in {int(without.sum()):,} of {len(frame):,} rows" if len(frame) > 1 else ""
                        notes = (*notes, OF_NONE_SHOWN.format(name, where))
        elif missing:  # whoever reads the answer finds the same columns, however many groups are shown
            ends |= {column.name: Ends(*(np.zeros(0) for _ in PARTS)) for column in missing}
        known = [column for column in columns if column.complete or column.name in ends]
        return WorkedOut(_with_intervals(frame, ends), tuple(map(self._measure, known)), notes)

    def _of_none_shown(
        self,
        found: DerivedColumns,
        frame: pd.DataFrame,
        apart: pd.DataFrame | None,
        public: Frames,
        fixed: Mapping[int, NDArray[np.bool_]],
    ) -> dict[int, NDArray[np.bool_]]:
        """Return which rows of the columns in some places are the same without any group that was released.

        Of those rows where noise moves nothing, and where groups may be hidden: a total of none of them that is 0, say.
        """
        hides = any(key.levels is None for select in self.statement.selects for key in select.keys)
        if not hides or not any(rows.any() for rows in fixed.values()):
            return {}
        probes = [Redrawn(one.iloc[:0], {}, np.zeros((1, 0, 0)), (), "gaussian") for one in self.frames]
        answers = self._redrawn(found, frame, None, apart, probes, public)
        if isinstance(answers, str):
            return {}
        same = {
            place: rows & (answers[0][place][0] == frame.iloc[:, place].to_numpy(dtype=float, na_value=np.nan))
            for place, rows in fixed.items()
        }
        return {place: rows for place, rows in same.items() if rows.any()}

    def weights(self) -> Floats | None:
        """Return what each number of the release counts for in each that is shown, shape (answers, numbers).

        It is told by probing, whatever the release is: one number after another is changed by 1, and then all of them,
        which has to do what they did together. None where that is not so, as with ratios, or nothing tells it.
        """
        (frame,), public = self.frames, self.public()
        found, answer, row, apart = self._answer(public)
        names = [name for name in frame.columns if column_name(name, "std_error") in frame.columns]
        numbers = len(frame) * len(names)
        if found is None or not 0 < numbers <= MOST_TOLD:
            return None
        several = 1.0 + np.arange(numbers) * 7 % 5
        changes = np.vstack([np.eye(numbers), several, np.zeros(numbers)]).reshape(-1, len(frame), len(names))
        values = {name: frame[name].to_numpy(dtype=float) + changes[:, :, i] for i, name in enumerate(names)}
        probed = Redrawn(frame, values, np.zeros((len(changes), len(frame), 0)), (), "gaussian")
        answers = self._redrawn(found, answer, row, apart, [probed], public)
        places = [column.place for column in self._columns(found, answer)]
        if isinstance(answers, str) or not places:
            return None
        drawn = np.concatenate([answers[0][place] for place in places], axis=1)
        drawn = drawn[:, np.isfinite(drawn).all(axis=0)]
        away = drawn - drawn[-1]
        each, together = away[:numbers], away[numbers]
        off = np.abs(together - several @ each) > AROUND * (several @ np.abs(each) + np.abs(drawn[-1]))
        return None if off.any() else np.ascontiguousarray(each.T)

    def samples(self, draws: int) -> dict[str, NDArray[Any]]:
        """Return the columns that depend on noise, redrawn, shape (draws, rows).

        Raises
        ------
        SQLError
            If they cannot be worked out for each draw.
        """
        public = self.public()
        found, frame, row, apart = self._answer(public)
        answers = NOT_READ if found is None else self._redrawn(found, frame, row, apart, self.redraw(draws), public)
        if found is None or isinstance(answers, str):
            raise SQLError(f"what this statement works out cannot be redrawn, as {answers}")
        return {str(frame.columns[place]): _existing(values) for place, values in answers[0].items()}

    def _size(self, frame: pd.DataFrame, beside: int, needed: Collection[str] | None) -> tuple[int, int]:
        """Return how many rows are read or worked out for each draw, and how many quantiles of those needed."""
        rows = list(map(len, self.frames))
        parts = [
            [part for part in select.aggregates if needed is None or part.name in needed]
            for select in self.statement.selects
        ]
        quantiles = [len(part.fractions) * n for n, found in zip(rows, parts, strict=True) for part in found]
        return max(sum(rows) + beside, len(frame)), sum(quantiles)

    def _answer(
        self, public: Frames
    ) -> tuple[DerivedColumns | None, pd.DataFrame, Integers | None, pd.DataFrame | None]:
        """Return how the answer comes about, the answer, the row of the release that each of its rows is, and its key.

        Rows of a release where each row is one of these, else keys, where the answer has not got them itself.
        """
        statement = self.statement
        assert statement.outer is not None
        releases = {f"release_{i}": frame for i, frame in enumerate(self.frames)}
        found = derived_columns(statement.outer, statement.selects)
        row = apart = None
        if found is None or not found.apart:
            frame = self.outer(statement.outer, {**releases, **public})
        else:
            numbered = {name: frame.assign(**{ROW: np.arange(len(frame))}) for name, frame in releases.items()}
            try:
                frame = self.outer(found.query, {**numbered, **public})
            except DPError:  # what tells its rows apart cannot be selected beside its columns
                return None, self.outer(statement.outer, {**releases, **public}), None, None
            frame, apart = frame.iloc[:, : -found.apart], frame.iloc[:, -found.apart :]
            if found.rows:
                row, apart = apart.iloc[:, 0].to_numpy(dtype=np.int64), None
        if found is None or len(found.noisy) != frame.shape[1] or frame.columns.duplicated().any():
            return None, frame, None, None
        return found, frame, row, apart

    def _columns(self, found: DerivedColumns, frame: pd.DataFrame) -> Iterator[_Column]:
        """Yield the numbers that depend on noise, intervals of others left out."""
        aggregates = [part for select in self.statement.selects for part in select.aggregates]
        beside = {name for part in aggregates for name in interval_columns(part.name)}
        names = set(frame.columns)
        for place, (name, shown) in enumerate(zip(frame.columns, found.shown, strict=True)):
            if not found.noisy[place] or {shown, name} & beside or frame[name].dtype.kind not in "iuf":
                continue
            yield _Column(place, str(name), shown, {column_name(name, part) for part in PARTS} <= names)

    def _own(self, name: str, row: Integers | None) -> Ends:
        """Return the interval that a column of the first release has, in the rows of the answer."""
        return Ends(*(self.frames[0][column_name(name, part)].to_numpy(dtype=float)[row] for part in PARTS))

    def _redrawn(
        self,
        found: DerivedColumns,
        frame: pd.DataFrame,
        row: Integers | None,
        apart: pd.DataFrame | None,
        redrawn: Sequence[Redrawn],
        public: Frames,
    ) -> tuple[dict[int, NDArray[Any]], list[Floats]] | str:
        """Return the columns for each redraw, by their place, and what is divided by, each of shape (draws, rows).

        Where there is no such thing, why.
        """
        import pandas as pd

        draws, width = redrawn[0].draws, frame.shape[1]
        tables = {REDRAWN.format(i): one.table() for i, one in enumerate(redrawn)}
        tables[REDRAWS] = pd.DataFrame({DRAW: np.arange(draws)})
        try:
            answers = self.outer(found.redrawn, {**tables, **public})
        except DPError:
            return NOT_ALWAYS
        if answers.shape[1] != 1 + width + found.apart + found.divisors:
            return NOT_READ
        draw = answers.iloc[:, 0].to_numpy(dtype=np.int64)
        if row is not None:
            place = np.full(len(self.frames[0]), -1)
            place[row] = np.arange(len(frame))
            code: Integers | None = place[answers.iloc[:, 1 + width].to_numpy(dtype=np.int64)]
        else:
            keys = [i for i, noisy in enumerate(found.noisy) if not noisy]
            own = frame.iloc[:, keys] if apart is None else pd.concat([frame.iloc[:, keys], apart], axis=1)
            keys += range(width, width + found.apart)
            code = _codes(own, answers.iloc[:, [1 + i for i in keys]])
        if code is None:
            return MANY_ROWS
        kept = code >= 0
        draw, code = draw[kept], code[kept]
        if np.bincount(draw * len(frame) + code, minlength=1).max() > 1:
            return MANY_ROWS

        def spread(column: int) -> Floats:
            values = np.full((draws, len(frame)), np.nan)
            told = answers.iloc[:, column].to_numpy(dtype=float, na_value=np.nan)[kept]
            values[draw, code] = np.where(np.isnan(told), np.inf, told)
            return values

        def others(column: int) -> NDArray[Any]:
            values = np.full((draws, len(frame)), None, dtype=object)
            values[draw, code] = answers.iloc[:, column].to_numpy(dtype=object)[kept]
            return values

        drawn = {
            place: (spread if frame.dtypes.iloc[place].kind in "iuf" else others)(1 + place)
            for place, noisy in enumerate(found.noisy)
            if noisy
        }
        first = 1 + width + found.apart
        return drawn, [spread(first + i) for i in range(found.divisors)]

    def _measure(self, column: _Column) -> ShownColumn:
        """Return a column as cards and plots see it."""
        for shown in self.statement.measures:
            if shown.name == column.shown:
                return ShownColumn(column.name, shown.words, shown.kind, shown.column, shown.unit)
        return ShownColumn(column.name, column.name, DERIVED)


def _existing(values: NDArray[Any]) -> NDArray[Any]:
    """Return values with NaN for those that do not exist."""
    return np.where(np.isfinite(values), values, np.nan) if values.dtype.kind == "f" else values


def of_no_group(found: WorkedOut) -> WorkedOut:
    """Return what was worked out where no group is shown: a total, say, is one of none, and tells nothing of them."""
    if not len(found.frame):
        return found
    ends = {column_name(one.name, part): np.nan for one in found.measures for part in PARTS}
    return replace(found, frame=found.frame.assign(**ends), notes=(*found.notes, OF_NO_GROUP))


def _with_intervals(frame: pd.DataFrame, ends: Mapping[str, Ends]) -> pd.DataFrame:
    """Return a frame with intervals behind their columns, where it has not got them."""
    import pandas as pd

    columns: dict[str, Any] = {}
    for name in frame.columns:
        columns[name] = frame[name]
        for part, values in vars(ends[name]).items() if name in ends else ():
            if column_name(name, part) not in frame.columns:
                columns[column_name(name, part)] = values
    return pd.DataFrame(columns)


@dataclass(frozen=True)
class _Column:
    """A number that depends on noise: where it stands, which column of a release it shows, if its interval is there."""

    place: int
    name: str
    shown: str | None
    complete: bool


def _codes(keys: pd.DataFrame, redrawn: pd.DataFrame) -> NDArray[np.int64] | None:
    """Return in which row of the answer each row of the redraws is, -1 for none; None where rows share a key."""
    if not keys.shape[1]:
        return np.zeros(len(redrawn), dtype=np.int64) if len(keys) == 1 else None
    if keys.duplicated().any():
        return None
    names = [f"key {i}" for i in range(keys.shape[1])]
    left, right = redrawn.set_axis(names, axis=1), keys.set_axis(names, axis=1)
    try:
        found = left.merge(right.assign(place=np.arange(len(keys))), on=names, how="left")["place"]
    except (TypeError, ValueError):  # lists, and types that do not compare
        return None
    return np.asarray(found.fillna(-1).to_numpy(dtype=np.int64))
