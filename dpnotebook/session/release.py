"""A release: noisy answers with their intervals, as a frame. Everything in it is public."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain import Attribute, Bins, Domain
from dpnotebook.errors import WorkloadError
from dpnotebook.planner.answers import Estimates
from dpnotebook.planner.picked import Picked
from dpnotebook.planner.to_linear import answer_axes, as_asked
from dpnotebook.progress import Progress, watched
from dpnotebook.query.measurement import Axis
from dpnotebook.query.question import Measure, Question
from dpnotebook.session.views import view
from dpnotebook.workload import AllRange, Identity, Ones, Padded, Prefix, Stack, Total, Weighted, Workload
from dpnotebook.workload.contiguous import Contiguous
from dpnotebook.workload.terms import SparseTerm, sparse_terms

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

    from dpnotebook.sql.statement import ShownColumn, Statement

# What stands beside a value in the frame; share only for cumulative counts.
PARTS = ("std_error", "lower", "upper", "share")

ALL = "(all)"
Labels = NDArray[np.object_]


@dataclass(frozen=True)
class Release:
    """The answer to a question, as it was recorded in the ledger.

    Parameters
    ----------
    frame
        One row an answer: the keys, then value, std_error, lower, upper (prefixed by the name of the measure where a
        question has several or names them). Of a statement that works something out from them, what it selects.
    question
        What was asked.
    number
        Its number in the ledger.
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
    question: Question | Statement = field(repr=False)
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
        columns = set(self.frame.columns)
        return tuple(
            measure
            for measure in self.question.measures
            if {measure.name, *(column_name(measure.name, part) for part in PARTS[:3])} <= columns
        )

    @property
    def value(self) -> float:
        """The single answer.

        Raises
        ------
        WorkloadError
            If the release has several; they are in `frame`.
        """
        return float(self._single(self.names[0] if self.names else self._worked_out()))

    @property
    def interval(self) -> tuple[float, float]:
        """The interval of the single answer.

        Raises
        ------
        WorkloadError
            If the release has several, which are in `frame`, or the answer was worked out from others.
        """
        if not self.names:
            raise WorkloadError("what a statement works out from its answers has no interval of its own")
        low, high = (column_name(self.names[0], part) for part in ("lower", "upper"))
        return float(self._single(low)), float(self._single(high))

    def nonnegative(self, total: float | None = None) -> Release:
        """Return the same release with its counts moved to the nearest that data could have.

        None is below 0, and counts that are sums of others are exactly that. Computed from the recorded noisy numbers,
        so it costs nothing. Small counts of sparse tables get much nearer to the truth, at the price of a bias: counts
        near 0 come out too high, others too low by as much. Intervals keep their confidence; the standard error is not
        known (NaN).

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
            return replace(self, frame=self.adjusted(total, report), again=None)

    def simultaneous(self) -> Release:
        """Return the same release with intervals that hold all at once: also of the row that stands out.

        Of many rows the one that stands out is likely to be one whose noise is large, and its own interval misses far
        more often than its confidence says. These are wider: with that confidence none of them misses, whichever is
        looked at afterwards, and why. Computed from the recorded noisy numbers, so it costs nothing.

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
        # Each misses so rarely that all of them together do as often as one did (the union bound, for any noise).
        ends = [self.frame[column_name(name, "lower")] for name in self.names]
        misses = (1 - self.confidence) / max(sum(np.size(end) for column in ends for end in column), 1)
        joint = self.again(1 - misses)
        return replace(joint, confidence=self.confidence, paid=self.paid, picked=None, together=True, again=None)

    def _worked_out(self) -> str:
        """Return the one column that is no key, where there is one."""
        others = list(self.frame.columns[len(self.keys) :])
        if len(others) != 1:
            raise WorkloadError(f"this release has {len(self.frame) * len(others)} answers: use .frame")
        return str(others[0])

    def _single(self, column: str) -> Any:
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

        write_csv(self.frame, path)

    def plot(self) -> go.Figure:
        """Return a plotly figure of the answers with their intervals.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> release = example_session().table("patients").histogram("age", epsilon=0.5).run()
        >>> figure = release.plot()
        >>> type(figure).__name__
        'Figure'
        """
        return view("plot", self)


def column_name(measure: str, part: str) -> str:
    """Return the name of a measure's std_error, lower or upper column."""
    return part if measure == "value" else f"{measure}_{part}"


def answer_frame(
    question: Question, domain: Domain, estimates: Sequence[Estimates]
) -> tuple[pd.DataFrame, tuple[bool, ...]]:
    """Return the answers of a question as a frame, and whether each of its key columns has an order.

    Parameters
    ----------
    question, domain
        What was asked, of which declared domain.
    estimates
        The answers of each measure.
    """
    import pandas as pd

    first = question.measures[0]
    axes = answer_axes(first, question, domain)
    if first.kind == "workload":
        columns, ordered = _query_columns(first, axes, domain)
    else:
        if first.kind == "quantile":
            axes = axes[:-1]
        last = [axes[-1]] if first.kind == "cdf" else []
        sides = {axis.attribute: axis for axis in axes}
        columns, ordered = _level_columns([*(sides[name] for name in question.keys), *last], domain)
    for measure, estimate in zip(question.measures, estimates, strict=True):
        for part in ("value", "std_error", "lower", "upper"):
            name = measure.name if part == "value" else column_name(measure.name, part)
            columns[name] = as_asked(getattr(estimate, part), measure, question, domain)
        if measure.kind == "cdf":
            counts = columns[measure.name].reshape(-1, axes[-1].size)
            shares = counts / np.where(counts[:, -1:] > 0, counts[:, -1:], np.nan)
            columns[column_name(measure.name, "share")] = shares.ravel()
    return pd.DataFrame(columns), ordered


def _level_columns(axes: Sequence[Axis], domain: Domain) -> tuple[dict[str, Any], tuple[bool, ...]]:
    import pandas as pd

    columns: dict[str, Any] = {}
    sizes = [axis.size for axis in axes]
    index = np.indices(sizes).reshape(len(sizes), -1) if sizes else np.zeros((0, 1), dtype=int)
    for axis, positions in zip(axes, index, strict=True):
        attribute = domain[axis.attribute]
        labels = [attribute.labels[level] for level in axis.levels]
        if all(isinstance(label, int) for label in labels):
            columns[axis.attribute] = np.asarray(labels)[positions]
        else:
            columns[axis.attribute] = pd.Series([labels[position] for position in positions], dtype=object)
    return columns, tuple(domain[axis.attribute].ordered for axis in axes)


def _query_columns(measure: Measure, axes: Sequence[Axis], domain: Domain) -> tuple[dict[str, Any], tuple[bool, ...]]:
    assert measure.workload is not None
    if all_levels(measure.workload, axes):
        return _level_columns(axes, domain)
    columns = answer_labels(measure.workload, axes, domain)
    if columns is None:
        return {"query": np.arange(measure.workload.shape[0])}, (True,)
    ordered = in_order(measure.workload, axes) is not None
    return {name: column_of(labels) for name, labels in columns.items()}, (ordered,) * len(columns)


def column_of(labels: np.ndarray[Any, Any]) -> Any:
    """Return labels as a column: of whole numbers where all are, else of objects, so that nothing is converted."""
    import pandas as pd

    whole = all(type(label) is int and -(2**63) <= label < 2**63 for label in labels)
    return labels.astype(np.int64) if whole else pd.Series(labels, dtype=object)


# What each answer of a workload counts, in words: one column an attribute, the levels that the answer is about.
#
# A level stands for itself, "(all)" for all rows, "<= 30" for a cumulative count, "20 to 29" for a range.
def answer_labels(workload: Workload, axes: Sequence[Axis], domain: Domain) -> dict[str, Labels] | None:
    """Return the words for every answer of a workload, by attribute; None where it is no union of products over them.

    Parameters
    ----------
    workload
        Queries over the cells of the axes, shape (answers, cells).
    axes, domain
        The attributes, and the levels of each that take part.

    Returns
    -------
    One array of shape (answers,) an attribute. Queries along an attribute that have no words are "query 0" and so on.
    """
    aligned = _aligned(workload, axes)
    if aligned is None:
        return None
    only = in_order(workload, axes)
    if isinstance(only, AllRange):
        labels = level_labels(axes[0], domain)[: only.n]
        first, last = np.triu_indices(labels.size)
        return {f"{axes[0].attribute} from": labels[first], f"{axes[0].attribute} to": labels[last]}
    columns: list[Labels] = [np.full(workload.shape[0], ALL, dtype=object) for _ in axes]
    known: dict[tuple[int, int], Labels] = {}
    start = 0
    for term in aligned:
        end, after = start + term.queries, term.queries
        before = 1
        for place, factor in zip(term.axes, term.factors, strict=True):
            key = place, id(factor)
            if key not in known:
                known[key] = _words(factor, axes[place], domain)
            after //= factor.shape[0]
            columns[place][start:end] = np.tile(np.repeat(known[key], after), before)
            before *= factor.shape[0]
        start = end
    return {axis.attribute: column for axis, column in zip(axes, columns, strict=True)}


def in_order(workload: Workload, axes: Sequence[Axis]) -> AllRange | Prefix | None:
    """Return the ranges or cumulative counts of one attribute, where that is all that a workload asks."""
    found = _unweighted(workload)
    if isinstance(found, Padded):
        found = found.workload
    return found if len(axes) == 1 and isinstance(found, AllRange | Prefix) else None


def all_levels(workload: Workload, axes: Sequence[Axis]) -> bool:
    """Return whether the answers are the counts of all cells, in order."""
    aligned = _aligned(workload, axes)
    if aligned is None or len(aligned) != 1:
        return False
    kept = {place for place, factor in zip(aligned[0].axes, aligned[0].factors, strict=True) if _is_identity(factor)}
    return all(place in kept or axis.size == 1 for place, axis in enumerate(axes))


def level_labels(axis: Axis, domain: Domain) -> Labels:
    """Return the display values of the levels of one side of a histogram."""
    labels = np.empty(axis.size, dtype=object)
    labels[:] = [domain[axis.attribute].labels[level] for level in axis.levels]
    return labels


def _aligned(workload: Workload, axes: Sequence[Axis]) -> list[SparseTerm] | None:
    """Return the union of products over just these axes."""
    found = sparse_terms(workload)
    if found is None:
        return None
    sizes, parts = found
    shape = tuple(axis.size for axis in axes)
    if sizes == shape or (not axes and sizes == (1,)):
        return parts
    if len(sizes) > 1 or workload.shape[1] != int(np.prod([float(size) for size in shape])):
        return None
    # All cells as one attribute: every one of them, or their total, is the same of several.
    if not all(not part.factors or isinstance(part.factors[0], Identity) for part in parts):
        return None
    everything = tuple(range(len(axes))), tuple(map(Identity, shape))
    return [SparseTerm(part.weight, *everything) if part.factors else part for part in parts]


def _words(factor: Workload, axis: Axis, domain: Domain) -> Labels:
    """Return what each query along one attribute counts."""
    factor = _unweighted(factor)
    if isinstance(factor, Stack):
        return np.concatenate([_words(part, axis, domain) for part in factor.parts])
    if isinstance(factor, Padded):
        return _words(factor.workload, axis, domain)
    words = np.empty(factor.shape[0], dtype=object)
    if isinstance(factor, Total | Ones):
        words[:] = ALL
    elif isinstance(factor, Contiguous):
        starts, ends = factor.intervals(np.arange(factor.shape[0]))
        text = _at_most if isinstance(factor, Prefix) else _run
        attribute, labels = domain[axis.attribute], level_labels(axis, domain)
        words[:] = [
            text(attribute, axis.levels, labels, start, end)
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
        ]
    else:
        words[:] = [f"query {i}" for i in range(factor.shape[0])]
    return words


def _run(attribute: Attribute, levels: Sequence[int], labels: Labels, start: int, end: int) -> Any:
    if end - start == 1:
        return labels[start]
    if end - start == len(levels):
        return ALL
    if isinstance(attribute, Bins) and levels[end - 1] < attribute.regular:
        return attribute.span(levels[start], levels[end - 1] + 1)
    return f"{labels[start]} to {labels[end - 1]}"


def _at_most(attribute: Attribute, levels: Sequence[int], labels: Labels, start: int, end: int) -> Any:
    if isinstance(attribute, Bins) and levels[end - 1] < attribute.regular:
        upper = attribute.span(levels[start], levels[end - 1] + 1).rsplit(", ", 1)[1]
        return f"{'<=' if upper.endswith(']') else '<'} {upper[:-1]}"
    return f"<= {labels[end - 1]}"


def _unweighted(workload: Workload) -> Workload:
    while isinstance(workload, Weighted):
        workload = workload.workload
    return workload


def _is_identity(factor: Workload) -> bool:
    return isinstance(_unweighted(factor), Identity)
