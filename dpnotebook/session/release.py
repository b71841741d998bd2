"""A release: noisy answers with their intervals, as a frame. Everything in it is public."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from dpnotebook.domain import Domain
from dpnotebook.errors import WorkloadError
from dpnotebook.planner.answers import Estimates
from dpnotebook.planner.to_linear import answer_axes, as_asked
from dpnotebook.progress import Progress, watched
from dpnotebook.query.measurement import Axis
from dpnotebook.query.question import Measure, Question
from dpnotebook.session.answer_labels import all_levels, answer_labels, in_order
from dpnotebook.session.views import view

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

    from dpnotebook.sql.statement import ShownColumn, Statement

# What stands beside a value in the frame; share only for cumulative counts.
PARTS = ("std_error", "lower", "upper", "share")


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
        """
        if self.adjusted is None:
            if self.unit == "":  # of a statement
                raise WorkloadError(
                    "what a statement measures beside the planner is bounded person by person, and so are its counts: "
                    "only counts by declared columns can be moved to those that data could have"
                )
            raise WorkloadError(
                "this answer is combined from several releases: ask with fresh=True for one of its own to adjust"
            )
        with watched() as report:
            return replace(self, frame=self.adjusted(total, report))

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
        """
        from dpnotebook.session.spreadsheet import write_csv

        write_csv(self.frame, path)

    def plot(self) -> go.Figure:
        """Return a plotly figure of the answers with their intervals."""
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
