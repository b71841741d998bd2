"""A release: noisy answers with their intervals, as a frame. Everything in it is public."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial
from numbers import Real
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from dpnotebook.errors import WorkloadError, holds_data, shorten
from dpnotebook.planner.picked import Picked
from dpnotebook.planner.plan import BudgetState
from dpnotebook.progress import Progress, watched
from dpnotebook.query.question import Measure, Question
from dpnotebook.session.answer_frame import DERIVED, PARTS, column_name, sampled
from dpnotebook.session.coarser_keys import key_labels
from dpnotebook.session.kept_here import KeptHere
from dpnotebook.session.release_habits import PLOTS, as_of_frame, refuse_arithmetic, refuse_comparison, refuse_plot
from dpnotebook.session.together import misses_together
from dpnotebook.views import ShowsCard, view

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

    from dpnotebook.session.compared import ComparedAnswers, ComparedQuestion, Operation
    from dpnotebook.sql.statement import ShownColumn, Statement

MOST_DRAWS = 100_000  # of a release that is redrawn
MOVED = (
    "no count is below 0: what that adds was taken from small counts, so that totals stay, and those far "
    "above their noise kept their values, nearly; intervals are those of what was measured, widened where they must be"
)


class Tables(Protocol):
    """The tables of counts of a release of marginals."""

    @property
    def names(self) -> Iterator[tuple[str, ...]]:
        """The attributes of each table."""

    def read(self, attributes: Sequence[str]) -> Release:
        """Return a table as a release of its own; see `Release.marginal`."""

    def withholding(self, minimum: int) -> Tables:
        """Return the same, without the counts that a policy withholds."""


@dataclass(frozen=True, repr=False, eq=False)
class Release(KeptHere, ShowsCard):
    """The answer to a question, as it was recorded in the ledger.

    Parameters
    ----------
    frame
        One row an answer: the keys, then value, std_error, lower, upper (prefixed by the name of the measure where a
        question has several or names them). Of a statement that works something out from them, what it selects.
    question
        What was asked.
    number
        Its number in the ledger; 0 of what is worked out from several releases.
    epsilon, delta
        What the query alone cost when it was measured.
    paid
        What this run of it cost the session, as epsilon: 0 when it was answered from the ledger.
    confidence
        Probability that an interval holds the exact answer.
    unit
        What the answer is counted in.
    ordered
        Whether each key has an order, for plots.
    adjusted
        Gives the frame of `nonnegative`.
    sources
        Numbers of the releases that the answers are combined from.
    notes
        What else is to be said of the answers: which were not found, and why.
    picked
        The release that the question may have been picked from, for what it showed: then the interval is too narrow.
    together
        Whether all intervals hold at once with this confidence, and not each by itself.
    again
        Gives the release at another confidence.
    worked_out
        The columns with an interval, of a statement that works something out from what it measured.
    redraws
        Gives the numbers of `samples`, of each column that depends on noise, shape (draws, rows).
    budget
        The budget before and after it was answered; None where no session was asked, as of a comparison.
    origin
        The identity of the ledger that recorded it, as `session.ledger.identity`; empty where there is none.
    tables
        Of marginals, the table of each, for `marginal`; None of other answers.

    Examples
    --------
    >>> from dpnotebook.testing import example_session
    >>> patients = example_session().table("patients")
    >>> release = patients.histogram("sex", epsilon=0.5).run()
    >>> release.frame[["sex", "value"]]
      sex  value
    0   F  600.0
    1   M  400.0
    >>> release.keys, release.names, release.number
    (('sex',), ('value',), 1)
    """

    frame: pd.DataFrame = field(repr=False)
    question: Question | Statement | ComparedQuestion = field(repr=False)
    number: int
    epsilon: float
    delta: float
    paid: float
    confidence: float
    unit: str
    ordered: tuple[bool, ...] = ()
    adjusted: Callable[[float | None, Progress], pd.DataFrame] | None = field(default=None, repr=False, compare=False)
    sources: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    picked: Picked | None = None
    together: bool = False
    again: Callable[[float], Release] | None = field(default=None, repr=False, compare=False)
    worked_out: tuple[ShownColumn, ...] = field(default=(), repr=False)
    redraws: Callable[..., Mapping[str, NDArray[Any]]] | None = field(default=None, repr=False, compare=False)
    budget: BudgetState | None = field(default=None, compare=False)
    origin: str = field(default="", repr=False, compare=False)
    tables: Tables | None = field(default=None, repr=False, compare=False)

    def _elsewhere(self) -> str:
        """Return what to write instead of pickling it."""
        there = f", or read it there: session.release({self.number})" if self.number else ""
        return f"Hand on its numbers, which are public: release.to_frame(), release.to_csv(path){there}"

    def __deepcopy__(self, memo: dict[int, Any]) -> Release:
        return self if self.unread else replace(self, frame=self.frame.copy())

    @property
    def table(self) -> str:
        """Name of the table that was asked."""
        return self.question.table

    @property
    def title(self) -> str:
        """The question in words."""
        return self.question.words

    @property
    def where(self) -> str:
        """The predicate as text; empty when every row takes part."""
        return self.question.where_text

    @property
    def unread(self) -> str:
        """What to write instead of reading all rows, of a release that has too many for a frame; else empty."""
        return "" if hasattr(self.frame, "_constructor") else repr(self.frame)

    def marginal(self, *attributes: str) -> Release:
        """Return one of its tables of counts, by the names of its attributes, as a release of its own.

        Of many tables each is worked out when it is read. It is part of what was recorded, so it costs nothing.

        Raises
        ------
        WorkloadError
            If the answers are not of marginals, or not of this one; nothing is spent.

        Examples
        --------
        >>> import dpnotebook as dpn
        >>> from dpnotebook.testing import example_session
        >>> patients = example_session().table("patients")
        >>> release = patients.answer(dpn.marginals(1), epsilon=0.5).run()
        >>> release.marginal("sex").frame[["sex", "value"]]
          sex  value
        0   F  600.0
        1   M  400.0
        >>> list(release.tables.names)
        [('age',), ('sex',), ('income',)]
        """
        if self.tables is None:
            raise WorkloadError("this release is not one of marginals: its answers are in .frame")
        found = self.tables.read(attributes)
        return replace(
            found,
            confidence=self.confidence,
            together=self.together,
            again=None if self.together else found.again,
            budget=self.budget,
            origin=self.origin,
        )

    @property
    def keys(self) -> tuple[str, ...]:
        """Names of the frame's key columns."""
        return tuple(self.frame.columns[: len(self.ordered)])

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the value columns, one a measure."""
        return tuple(measure.name for measure in self.measures)

    @property
    def measures(self) -> tuple[Measure | ShownColumn, ...]:
        """What was asked that has its value and its interval in the frame."""
        if self.worked_out:
            return self.worked_out
        if self.unread:
            return self.question.measures
        columns = set(self.frame.columns)
        return tuple(
            measure
            for measure in self.question.measures
            if {measure.name, *(column_name(measure.name, part) for part in PARTS[:3])} <= columns
        )

    def unit_of(self, measure: Measure | ShownColumn) -> str:
        """Return what the answers of one of its `measures` are counted in: "rows", or the unit of a column.

        Examples
        --------
        >>> import dpnotebook as dpn
        >>> from dpnotebook.testing import example_patients, exact_session
        >>> session = exact_session(dpn.Budget(epsilon=1.0))
        >>> domain = {"age": dpn.Range(0, 99, unit="years", label="Age at admission")}
        >>> release = session.protect(example_patients(), "patients", domain=domain).mean("age", epsilon=0.5).run()
        >>> [(release.words_of(measure), release.unit_of(measure)) for measure in release.measures]
        [('MEAN of Age at admission', 'years')]
        """
        if isinstance(measure, Measure):
            assert isinstance(self.question, Question)
            return self.question.unit_of(measure)
        return measure.counted_in

    def words_of(self, measure: Measure | ShownColumn) -> str:
        """Return one of its `measures` as a person would say it, by the label of its column; see `unit_of`.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> release = example_session().table("patients").mean("age", epsilon=0.5).run()
        >>> release.words_of(release.measures[0])
        'MEAN of age'
        """
        if isinstance(measure, Measure):
            assert isinstance(self.question, Question)
            return self.question.words_of(measure)
        return measure.words

    def labels(self, key: str) -> list[Any]:
        """Return the levels of a key, row by row, as people write them: "2023-05" for a month, whose frame has a day.

        Examples
        --------
        >>> import pandas as pd
        >>> import dpnotebook as dpn
        >>> from dpnotebook.testing import exact_session
        >>> visits = pd.DataFrame({"seen": pd.date_range("2023-01-01", "2023-03-31")})
        >>> session = exact_session(dpn.Budget(epsilon=1.0))
        >>> table = session.protect(visits, "visits", domain={"seen": dpn.Dates("2023-01", "2023-03")})
        >>> release = table.groupby({"seen": "month"}).count(epsilon=0.5).run()
        >>> release.labels("seen"), str(release.frame["seen"][0])
        (['2023-01', '2023-02', '2023-03'], '2023-01-01 00:00:00')
        """
        column = self.frame[key]
        return key_labels(self.question, key, column) if column.dtype.kind == "M" else column.tolist()

    @property
    def value(self) -> Any:
        """The single answer: a number, or of a quantile of dates a Timestamp.

        Raises
        ------
        WorkloadError
            If the release has several; they are in `frame`.
        """
        return _told(self._single(self.names[0] if self.names else self._only_column()))

    @property
    def interval(self) -> tuple[Any, Any]:
        """The interval of the single answer.

        Raises
        ------
        WorkloadError
            If the release has several, which are in `frame`, or the answer was worked out from others.
        """
        if not self.names:
            raise WorkloadError("what a statement works out from its answers has no interval of its own")
        low, high = (column_name(self.names[0], part) for part in ("lower", "upper"))
        return _told(self._single(low)), _told(self._single(high))

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.frame)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows as named tuples, as pandas' `itertuples` without the index: `row.sex`, `row.value`.

        What is no name in Python goes by its place, `row[0]`; what makes a frame of the rows finds it by its own name.
        """
        make: Any = namedtuple
        named = make("Answer", list(map(str, self.frame.columns)), rename=True)
        named._fields = tuple(self.frame.columns)
        return map(named._make, self.frame.itertuples(index=False, name=None))

    def __contains__(self, column: object) -> bool:
        """Whether there is a column of this name."""
        return isinstance(column, Hashable) and column in self.frame.columns

    def __getitem__(self, column: str | list[str]) -> Any:
        """Return a column as a Series, or several, by a list of their names, as a frame.

        Raises
        ------
        WorkloadError
            If there is no such column.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> release = example_session().table("patients").histogram("sex", epsilon=0.5).run()
        >>> release["value"].tolist()
        [600.0, 400.0]
        >>> [(row.sex, row.value) for row in release], len(release)
        ([('F', 600.0), ('M', 400.0)], 2)
        """
        names = column if isinstance(column, list) else [column]
        unknown = [name for name in names if name not in self]
        if unknown:
            if isinstance(unknown[0], str):
                raise WorkloadError(
                    f"this release has no column {shorten(unknown[0])}; it has {', '.join(map(str, self.frame))}"
                )
            raise WorkloadError(
                f"columns are taken by name, as release[{shorten(self.frame.columns[-1])}]; for rows loop over the "
                "release, or use .frame"
            )
        return self.frame[column]

    def __float__(self) -> float:
        """Return the single answer, as `value`.

        Raises
        ------
        WorkloadError
            If the release has several, or it is a date.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> float(example_session().table("patients").count(epsilon=0.5).run())
        1000.0
        """
        if isinstance(self.value, date):
            raise WorkloadError("this answer is a date, and no number: use .value")
        return float(self.value)

    def __int__(self) -> int:
        """Return the single answer as a whole number, cut off as `int` cuts numbers; as for `float`."""
        return int(float(self))

    def __round__(self, digits: int | None = None) -> float:
        """Return the single answer rounded, as `round` rounds numbers; as for `float`."""
        return round(float(self), digits)

    def __format__(self, spec: str) -> str:
        """Return the single answer in a format of numbers, or of dates, as in `f"{release:,.1f}"`.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> release = example_session().table("patients").count(epsilon=0.5).run()
        >>> f"{release:,.0f} people", round(release), int(release)
        ('1,000 people', 1000, 1000)
        """
        if not spec:
            return str(self)
        try:
            return format(self.value, spec)
        except ValueError:
            raise WorkloadError(
                f"{shorten(spec)} is no format of {shorten(self.value)}; .1f is one of numbers"
            ) from None

    if not TYPE_CHECKING:  # a type checker knows what is here

        def __getattr__(self, name: str) -> Any:
            """Return a column, or a look at the frame as pandas has it: `release.sort_values("value").head(3)`."""
            if name.startswith("_") or "frame" not in vars(self):  # while it is being copied
                raise AttributeError(name)
            return as_of_frame(self, name)

    # Arrays and columns leave operations with a release to it, so that none goes value by value.
    __array_ufunc__ = None
    __pandas_priority__ = 10_000
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        """Whether this is the same release; WorkloadError for a number, which noise keeps from being equal."""
        if isinstance(other, Real) or holds_data(other):
            refuse_comparison(self, "==", other)
        return self is other

    def __lt__(self, other: object) -> NoReturn:
        refuse_comparison(self, "<", other)

    def __le__(self, other: object) -> NoReturn:
        refuse_comparison(self, "<=", other)

    def __gt__(self, other: object) -> NoReturn:
        refuse_comparison(self, ">", other)

    def __ge__(self, other: object) -> NoReturn:
        refuse_comparison(self, ">=", other)

    def __add__(self, other: object) -> NoReturn:
        refuse_arithmetic(self, "+", other)

    def __radd__(self, other: object) -> NoReturn:
        refuse_arithmetic(self, "+", other, turned=True)

    def __mul__(self, other: object) -> NoReturn:
        refuse_arithmetic(self, "*", other)

    def __rmul__(self, other: object) -> NoReturn:
        refuse_arithmetic(self, "*", other, turned=True)

    def __rsub__(self, other: object) -> NoReturn:
        refuse_arithmetic(self, "-", other, turned=True)

    def __rtruediv__(self, other: object) -> NoReturn:
        refuse_arithmetic(self, "/", other, turned=True)

    def nonnegative(self, total: float | None = None) -> Release:
        """Return the same release with its counts moved to the nearest that data could have.

        None is below 0, and counts that are sums of others are exactly that. Computed from the recorded noisy numbers,
        so it costs nothing. Small counts of sparse tables get much nearer to the truth, at the price of a bias: those
        near 0 come out too high, and what that adds is taken from other small counts. Totals stay, and counts far
        above their noise hardly move. Intervals are those of the noisy counts, cut off at 0 and widened to the moved
        count: each holds the exact count whenever the noisy one's did, those of small counts being half as wide. The
        standard error is not known (NaN). Where nearly all cells are empty, counts of one to five standard errors get
        less accurate, by up to a half: they cannot be told from what noise put into empty cells, which has to go if
        totals are to stay. No rule for such cells that keeps totals spares all sizes of counts: of the column below,
        whatever it knows beforehand, one that looks at each noisy count alone makes the error of counts of 101 to 1,000
        at least 1.068 times what it was (`least_worst_ratio` in tests/inference/test_held_counts.py). Of a column with
        rows at 100 of its 1,000 levels, epsilon 0.1, the error of empty levels is 0.35 times what it was, that of
        counts of one to four standard errors (14 to 57 rows) 1.3 to 1.45 times, of counts above six 1.03 times. Where
        those are what matters, take the noisy counts as they are.

        Parameters
        ----------
        total
            Number of rows that take part, where it is public; else what was measured says it.

        Raises
        ------
        WorkloadError
            If the answers are not counts of rows, or the counts are too many.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> patients = example_session().table("patients")
        >>> release = patients.histogram("sex", where="age > 98", epsilon=0.5).run()
        >>> release.nonnegative().frame[["sex", "value"]].round(3)
          sex  value
        0   F    6.0
        1   M    4.0
        """
        if self.unread:
            raise WorkloadError(self.unread)
        if self.adjusted is None:
            if self.unit == "":  # of a statement
                raise WorkloadError(
                    "what a statement measures beside the planner is bounded person by person, and so are its counts: "
                    "only counts by declared columns can be moved to those that data could have"
                )
            if len(self.measures) > 1:
                raise WorkloadError("these answers were worked out together: ask for the counts alone to adjust them")
            raise WorkloadError(
                "this answer is combined from several releases: ask with fresh=True for one of its own to adjust"
            )
        with watched() as report:
            frame = self.adjusted(total, report)
        return replace(
            self, frame=frame, again=None, redraws=None, tables=None, notes=tuple(dict.fromkeys((*self.notes, MOVED)))
        )

    def simultaneous(self) -> Release:
        """Return the same release with intervals that hold all at once: also of the row that stands out.

        Of many rows the one that stands out is likely to be one whose noise is large, and its own interval misses far
        more often than its confidence says. These are wider: with that confidence none of them misses, whichever is
        looked at afterwards, and why. Computed from the recorded noisy numbers, so it costs nothing. Of what a
        statement works out, redraws of the noise tell how often numbers miss together; else the union bound does.

        Raises
        ------
        WorkloadError
            If the counts were moved, or something was worked out from them: ask for it before.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> patients = example_session().table("patients")
        >>> release = patients.histogram("age", epsilon=0.5).run()
        >>> joint = release.simultaneous()
        >>> [float(one.frame["upper"][0] - one.frame["value"][0]) for one in (release, joint)]
        [6.0, 15.0]
        """
        if self.together or not self.names:
            return self
        if self.again is None:
            raise WorkloadError("intervals that hold at once are those of the release as it was measured: ask it first")
        # Each misses so rarely that all of them together do as often as one did (the union bound, for any noise), or as
        # often as redraws show, where numbers that are worked out from the same noise miss together.
        ends = [self.frame[column_name(name, "lower")] for name in self.names]
        misses = (1 - self.confidence) / max(sum(np.size(end) for column in ends for end in column), 1)
        if self.redraws is not None and any(column.kind == DERIVED for column in self.worked_out):
            misses = misses_together(self.frame, self.names, self.confidence, self.redraws) or misses
        joint = self.again(1 - misses)
        joint = replace(joint, confidence=self.confidence, paid=self.paid, budget=self.budget, origin=self.origin)
        return replace(joint, picked=None, together=True, again=None)

    def samples(self, draws: int = 1_000) -> pd.DataFrame:
        """Return what the exact answers may have been, many times: the noisy ones with their noise drawn again.

        Whatever is worked out from each draw is spread as its error is: the middle 95% of a ratio, a rank or a slope of
        the draws are an interval for it. Computed from the recorded noisy numbers, so it costs nothing; the same
        release has the same draws whenever it is looked at, and noise that two releases share is redrawn for both
        alike.

        Parameters
        ----------
        draws
            How many.

        Returns
        -------
        pandas.DataFrame
            The rows of the release once for each draw: the number of the draw, the keys, the values.

        Raises
        ------
        WorkloadError
            If the counts were moved, or it cannot be told how noise entered the answers.
        SQLError
            If what a statement works out cannot be worked out for each draw.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> patients = example_session().table("patients")
        >>> release = patients.histogram("sex", epsilon=0.5).run()
        >>> drawn = release.samples(1_000).pivot(index="draw", columns="sex", values="value")
        >>> share = drawn["F"] / drawn.sum(axis=1)
        >>> bool(share.quantile(0.025) < 0.6 < share.quantile(0.975))
        True
        """
        if isinstance(draws, bool) or not isinstance(draws, int) or not 1 <= draws <= MOST_DRAWS:
            raise WorkloadError(f"draws= is a whole number from 1 to {MOST_DRAWS:,}, not {shorten(draws)}")
        if self.redraws is None:
            if self.unread:
                raise WorkloadError(self.unread)
            raise WorkloadError("counts that were moved are not redrawn: redraw the release as it was measured")
        drawn = self.redraws(draws)
        beside = {column_name(name, part) for name in self.names for part in PARTS[:3]}
        return sampled(self.frame[[name for name in self.frame if name in drawn or name not in beside]], drawn, draws)

    def __sub__(self, other: object) -> Release:
        """Return how much more the answers are than those of another release, row by row, with intervals.

        Rows are matched by their keys. Noise that both share cancels as far as it does, and what is independent adds
        up. Worked out from what is recorded, so it costs nothing.

        Raises
        ------
        WorkloadError
            If the releases do not have the same keys and columns.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> patients = example_session().table("patients")
        >>> young = patients.histogram("sex", where="age < 50", epsilon=0.2).run()
        >>> old = patients.histogram("sex", where="age >= 50", epsilon=0.2).run()
        >>> (young - old).frame[["sex", "value"]]
          sex  value
        0   F    0.0
        1   M    0.0
        """
        if not isinstance(other, Release):
            refuse_arithmetic(self, "-", other)
        return self._compared(other, "less")

    def __truediv__(self, other: object) -> Release:
        """Return the ratio of the answers to those of another release, row by row, with intervals.

        As for a difference; where what is divided by may be zero, the interval is everything.

        Raises
        ------
        WorkloadError
            If the releases do not have the same keys and columns.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> patients = example_session().table("patients")
        >>> young = patients.count(where="age < 10", epsilon=0.2).run()
        >>> (young / patients.count(epsilon=0.2).run()).value
        0.1
        """
        if not isinstance(other, Release):
            refuse_arithmetic(self, "/", other)
        return self._compared(other, "over")

    def sum(self, by: str | Sequence[str] = ()) -> Release:
        """Return its counts and sums added up over rows, with intervals: one total, or one for each level of some keys.

        Worked out from what is recorded, so it costs nothing; `release / release.sum()` are the shares of the total.

        Parameters
        ----------
        by
            Keys that are kept, a name or several; none for one total.

        Raises
        ------
        WorkloadError
            If its answers are no counts or sums of rows that are in one group each, or it has no such key.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> patients = example_session().table("patients")
        >>> release = patients.histogram("sex", epsilon=0.5).run()
        >>> release.sum().value, (release / release.sum()).frame["value"].to_list()
        (1000.0, [0.6, 0.4])
        """
        from dpnotebook.session.added_up import added_up

        kept = (by,) if isinstance(by, str) else tuple(by)
        found = added_up(self, kept)
        return self._worked_out(found, self.unit, kept, lambda confidence: self._at(confidence).sum(kept))

    def _compared(self, other: Release, operation: Operation) -> Release:
        from dpnotebook.session.compared import compared

        found = compared(self, other._at(self.confidence), operation)

        def again(confidence: float) -> Release:
            return self._at(confidence)._compared(other._at(confidence), operation)

        made = self._worked_out(found, self.unit if operation == "less" else "", self.keys, again)
        return made if self.origin == other.origin else replace(made, origin="")

    def _worked_out(
        self, found: ComparedAnswers, unit: str, keys: Sequence[str], again: Callable[[float], Release]
    ) -> Release:
        """Return what was worked out from it as a release that costs nothing."""
        ordered = tuple(order for key, order in zip(self.keys, self.ordered, strict=True) if key in keys)
        return Release(
            frame=found.frame,
            question=found.question,
            number=0,
            epsilon=0.0,
            delta=0.0,
            paid=0.0,
            confidence=self.confidence,
            unit=unit,
            ordered=ordered,
            sources=found.sources,
            notes=found.notes,
            again=again,
            redraws=found.redraws,
            origin=self.origin,
        )

    def _at(self, confidence: float) -> Release:
        """Return the same release with intervals of a confidence."""
        if confidence == self.confidence and not self.together:
            return self
        if self.again is None:
            raise WorkloadError(
                f"this release has its intervals at {self.confidence:g} only; compare it as it was asked"
            )
        return replace(self.again(confidence), paid=0.0, origin=self.origin)

    def _only_column(self) -> str:
        """Return the one column that is no key, where there is one."""
        others = list(self.frame.columns[len(self.keys) :])
        if len(others) != 1:
            raise WorkloadError(f"this release has {len(self.frame) * len(others)} answers: use .frame")
        return str(others[0])

    def _single(self, column: str) -> Any:
        if not len(self.frame) and self.notes:
            raise WorkloadError(self.notes[-1])
        if len(self.frame) != 1 or len(self.names) > 1:
            raise WorkloadError(f"this release has {len(self.frame) * max(len(self.names), 1)} answers: use .frame")
        return self.frame[column].iloc[0]

    def to_csv(self, path: str | PathLike[str]) -> None:
        """Write the frame, which holds nothing but public values, to a CSV file.

        Texts are in quotes, and one that a spreadsheet would run as a formula has an apostrophe in front; numbers are
        as they are. `release.frame.to_csv(path)` writes every text as it is.

        Parameters
        ----------
        path
            Where to write.

        Raises
        ------
        DPError
            If that is no path.

        Examples
        --------
        >>> from pathlib import Path
        >>> from dpnotebook.testing import example_session
        >>> release = example_session().table("patients").histogram("sex", epsilon=0.5).run()
        >>> release.to_csv("sexes.csv")
        >>> Path("sexes.csv").read_text().splitlines()[0]
        '"sex","value","std_error","lower","upper"'
        """
        from dpnotebook.session.spreadsheet import write_csv

        if self.unread:
            raise WorkloadError(self.unread)
        write_csv(self.frame, path)

    def to_parquet(self, path: str | PathLike[str]) -> None:
        """Write the frame, which holds nothing but public values, to a Parquet file; needs pyarrow.

        A column has one type there: the keys of marginals, with "(all)" among their values, are texts.

        Parameters
        ----------
        path
            Where to write.

        Raises
        ------
        DPError
            If that is no path that can be written, or pyarrow is not installed.

        Examples
        --------
        >>> import pandas as pd
        >>> import dpnotebook as dpn
        >>> from dpnotebook.testing import example_session
        >>> release = example_session().table("patients").answer(dpn.marginals(1), epsilon=0.5).run()
        >>> release.to_parquet("marginals.parquet")
        >>> pd.read_parquet("marginals.parquet")["age"].unique().tolist()[-2:]
        ['99', '(all)']
        """
        from dpnotebook.session.columns import write_parquet

        if self.unread:
            raise WorkloadError(self.unread)
        write_parquet(self.frame, path)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the frame to whatever reads Arrow: `polars.DataFrame(release)`, `pyarrow.table(release)`.

        A column has one type there: the keys of marginals, with "(all)" among their values, are texts.
        """
        from dpnotebook.session.columns import of_one_type

        if self.unread:
            raise WorkloadError(self.unread)
        return of_one_type(self.frame).__arrow_c_stream__(requested_schema)

    def to_frame(self) -> pd.DataFrame:
        """Return the frame of the release, as a copy that may be changed.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> release = example_session().table("patients").histogram("sex", epsilon=0.5).run()
        >>> release.to_frame().columns.tolist()
        ['sex', 'value', 'std_error', 'lower', 'upper']
        """
        return self.frame.copy()

    @overload
    def to_markdown(self) -> str: ...

    @overload
    def to_markdown(self, path: str | PathLike[str]) -> None: ...

    def to_markdown(self, path: str | PathLike[str] | None = None) -> str | None:
        """Return the answers as a table in Markdown, each with its interval, for GitHub or a notebook's text.

        Values have the digits that their error supports, and texts are escaped. Where a path is given, it is written
        there, as UTF-8, and nothing is returned.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> release = example_session().table("patients").histogram("sex", epsilon=0.5).run()
        >>> print(release.to_markdown())
        | sex |   rows |
        | --- | -----: |
        | F   | 600 ±6 |
        | M   | 400 ±6 |
        <BLANKLINE>
        release #1 · measured for 50% of the budget (ε 0.5) · 95% intervals from noise
        """
        return self._handed_on("markdown", path, "table.md")

    @overload
    def to_latex(self) -> str: ...

    @overload
    def to_latex(self, path: str | PathLike[str]) -> None: ...

    def to_latex(self, path: str | PathLike[str] | None = None) -> str | None:
        """Return the answers as a `tabular` of LaTeX, each with its interval; its rules are those of booktabs.

        Values have the digits that their error supports, and texts are escaped. Where a path is given, it is written
        there, as UTF-8, and nothing is returned.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> release = example_session().table("patients").histogram("sex", epsilon=0.5).run()
        >>> print(release.to_latex())
        % release #1 · measured for 50% of the budget (ε 0.5) · 95% intervals from noise
        \\begin{tabular}{lr}
        \\toprule
        sex & rows \\\\
        \\midrule
        F & 600 $\\pm$6 \\\\
        M & 400 $\\pm$6 \\\\
        \\bottomrule
        \\end{tabular}
        """
        return self._handed_on("latex", path, "table.tex")

    @overload
    def to_html(self) -> str: ...

    @overload
    def to_html(self, path: str | PathLike[str]) -> None: ...

    def to_html(self, path: str | PathLike[str] | None = None) -> str | None:
        """Return the answers as an HTML table, each with its interval, for a page or a mail: without scripts.

        Values have the digits that their error supports, and texts are escaped. Where a path is given, it is written
        there, as UTF-8, and nothing is returned.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> release = example_session().table("patients").histogram("sex", epsilon=0.5).run()
        >>> "<td" in release.to_html()
        True
        """
        return self._handed_on("html", path, "table.html")

    def _handed_on(self, view_name: str, path: str | PathLike[str] | None, example: str) -> str | None:
        from dpnotebook.session.spreadsheet import write_text

        text = str(view(view_name, self))
        if path is None:
            return text
        write_text(text, path, f"to_{view_name}", example)
        return None

    def plot(
        self,
        kind: Literal["bar", "barh", "point", "line", "heatmap"] | None = None,
        *,
        measure: str | None = None,
    ) -> go.Figure:
        """Return a plotly figure of the answers with their intervals, which is a picture wherever plotly is not.

        Counts and sums are bars from 0, means and quantiles points; an ordered key makes a line with a band, dates a
        time axis; two keys make lines, grouped bars or a heat map; several measures have a panel each. Exported pages,
        GitHub and mails show a still picture with the numbers below it, and `write_image("ages.svg")`, or `.png`,
        writes that picture without a browser.

        Parameters
        ----------
        kind
            "bar", "barh", "point", "line" or "heatmap"; what fits the answers when None.
        measure
            Which measure, by its column; all when None.

        Raises
        ------
        ArgumentError
            If it is no kind, or one that does not fit the keys.
        WorkloadError
            If the release has no such measure.
        SQLError
            If there is nothing to draw.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> release = example_session().table("patients").histogram("age", epsilon=0.5).run()
        >>> release.plot().write_image("ages.svg")
        >>> [trace.type for trace in release.plot(kind="bar").data]
        ['bar']
        """
        return view("plot", self, kind=kind, measure=measure)

    vars(plot).update({kind: partial(refuse_plot, kind) for kind in PLOTS})  # release.plot.bar(), as in pandas


def _told(value: Any) -> Any:
    """Return a number as one of Python, a date as it is."""
    return value if isinstance(value, date) else float(value)
