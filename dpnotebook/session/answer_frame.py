"""Answers as a frame: one row an answer, its keys in words, then values and intervals."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain import Attribute, Bins, Dates, Domain, Range
from dpnotebook.domain.calendar import SPANS, begin_of_span
from dpnotebook.planner.answers import Estimates
from dpnotebook.planner.to_linear import answer_axes, as_asked, group_factors
from dpnotebook.query.coarser_groups import groups_of
from dpnotebook.query.measurement import Axis
from dpnotebook.query.question import Measure, Question
from dpnotebook.workload import AllRange, Identity, Ones, Padded, Prefix, Stack, Total, Weighted, Workload
from dpnotebook.workload.contiguous import Contiguous
from dpnotebook.workload.terms import SparseTerm, sparse_terms

if TYPE_CHECKING:
    import pandas as pd

# What stands beside a value in a frame; share only for cumulative counts.
PARTS = ("std_error", "lower", "upper", "share")

QUANTILE = "quantile"  # the column that says which of several quantiles a row is

ALL = "(all)"
DERIVED = "derived"  # the kind of a column that is worked out from others
Labels = NDArray[np.object_]


def column_name(measure: str, part: str) -> str:
    """Return the name of a measure's std_error, lower or upper column."""
    return part if measure == "value" else f"{measure}_{part}"


def sampled(frame: pd.DataFrame, drawn: Mapping[str, NDArray[Any]], draws: int) -> pd.DataFrame:
    """Return a frame once for each draw, with the numbers of the draw in it.

    Parameters
    ----------
    frame
        The columns that are shown, in their order.
    drawn
        Of those that depend on noise, shape (draws, rows).
    draws
        How many there are.
    """
    import pandas as pd

    columns: dict[str, Any] = {"draw": np.repeat(np.arange(draws), len(frame))}
    for name in frame.columns:
        if name in drawn:
            values = drawn[name]
            columns[name] = values.ravel() if values.ndim == 2 else list(values.reshape(-1, values.shape[2]).tolist())
        else:
            columns[name] = pd.Series(np.tile(frame[name].to_numpy(), draws), dtype=frame[name].dtype)
    return pd.DataFrame(columns)


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
        spans = groups_of(first.asked, question.keys)
        if question.written is not None:
            columns, ordered = written_columns(question, [sides[name] for name in question.keys], domain)
        else:
            columns, ordered = _level_columns([*(sides[name] for name in question.keys), *last], domain, spans)
        if isinstance(first.quantile, tuple):
            keys = axes[: len(question.keys)]
            groups = np.prod([factor.shape[0] for factor in group_factors(first, keys)], dtype=int)
            columns = {name: _each(levels, len(first.quantile)) for name, levels in columns.items()}
            columns[quantile_column(question.keys)] = np.tile(first.quantile, groups)
            ordered = (*ordered, True)
    for measure, estimate in zip(question.measures, estimates, strict=True):
        if measure.kind == "quantile":
            estimate = _unless_hidden(estimate, answer_axes(measure, question, domain)[-1], domain)
        for part in ("value", "std_error", "lower", "upper"):
            name = measure.name if part == "value" else column_name(measure.name, part)
            found = as_asked(getattr(estimate, part), measure, question, domain)
            columns[name] = days_of(found) if part != "std_error" and is_of_dates(measure, domain) else found
        if measure.kind == "cdf":
            columns[column_name(measure.name, "share")] = shares(columns[measure.name], measure, question, domain)
    return pd.DataFrame(columns), ordered


def _unless_hidden(quantiles: Estimates, ranked: Axis, domain: Domain) -> Estimates:
    """Return quantiles without those that may be anything that they are asked among: NaN, as noise hides them."""
    lows, highs = (ends[list(ranked.levels)] for ends in domain[ranked.attribute].level_bounds())
    hidden = (quantiles.lower <= lows[0]) & (quantiles.upper >= highs[-1]) & (len(lows) > 1)
    return replace(
        quantiles,
        value=np.where(hidden, np.nan, quantiles.value),
        std_error=np.where(hidden, np.nan, quantiles.std_error),
    )


def is_of_dates(measure: Measure, domain: Domain) -> bool:
    """Whether the answers of a measure are dates: quantiles of them."""
    return measure.kind == "quantile" and isinstance(domain[str(measure.column)], Dates)


def days_of(numbers: NDArray[np.float64]) -> NDArray[np.datetime64]:
    """Return days, numbered from 1970-01-01, as dates; of a part of a day the day."""
    days = np.floor(np.where(np.isnan(numbers), 0.0, numbers)).astype("datetime64[D]").astype("datetime64[us]")
    return np.where(np.isnan(numbers), np.datetime64("NaT"), days)


def quantile_column(keys: Sequence[str]) -> str:
    """Return what the column is called that says which quantile a row is; a key may be called so itself."""
    return next(name for name in (QUANTILE + "_" * i for i in range(len(keys) + 1)) if name not in keys)


def _each(levels: Any, times: int) -> Any:
    import pandas as pd

    repeated = np.repeat(np.asarray(levels), times)
    return repeated if isinstance(levels, np.ndarray) else pd.Series(repeated, dtype=object)


def shares(counts: NDArray[np.float64], measure: Measure, question: Question, domain: Domain) -> NDArray[np.float64]:
    """Return what share of its group each cumulative count is, shape (..., answers); NaN where there is nobody."""
    groups = counts.reshape(-1, answer_axes(measure, question, domain)[-1].size)
    found = groups / np.where(groups[:, -1:] > 0, groups[:, -1:], np.nan)
    return np.asarray(found.reshape(counts.shape))


def _level_columns(
    axes: Sequence[Axis], domain: Domain, spans: Mapping[str, str] | None = None
) -> tuple[dict[str, Any], tuple[bool, ...]]:
    """Return the levels of all combinations, or the spans that columns of dates are grouped by."""
    sides = [_side(axis, domain[axis.attribute], (spans or {}).get(axis.attribute)) for axis in axes]
    sizes = [len(side) for side in sides]
    index = np.indices(sizes).reshape(len(sizes), -1) if sizes else np.zeros((0, 1), dtype=int)
    columns = {
        axis.attribute: _picked(side, positions) for axis, side, positions in zip(axes, sides, index, strict=True)
    }
    return columns, tuple(domain[axis.attribute].ordered for axis in axes)


def written_columns(
    question: Question, axes: Sequence[Axis], domain: Domain
) -> tuple[dict[str, Any], tuple[bool, ...]]:
    """Return the groups of keys of which some are worked out by a statement: their values, and levels of the others."""
    assert question.written is not None
    sides: list[NDArray[Any]] = []
    names: list[str] = []
    ordered: list[bool] = []
    for key in dict.fromkeys(question.written.of(axis.attribute) or axis for axis in axes):
        if isinstance(key, Axis):
            sides.append(_side(key, domain[key.attribute], None))
            names.append(key.attribute)
            ordered.append(domain[key.attribute].ordered)
        else:
            sides.append(_moments(key.labels) if key.moments else np.asarray(column_of(_objects(key.labels))))
            names.append(key.name)
            ordered.append(key.moments or all(type(label) is int for label in key.labels))
    index = np.indices([len(side) for side in sides]).reshape(len(sides), -1)
    columns = {name: _picked(side, places) for name, side, places in zip(names, sides, index, strict=True)}
    return columns, tuple(ordered)


def _side(axis: Axis, attribute: Attribute, by: str | None) -> NDArray[Any]:
    """Return what stands for each level of an axis, or for each span: of dates the first day, NaT for the missing."""
    levels = np.asarray(axis.levels, dtype=np.intp)
    if by is not None and isinstance(attribute, Range | Bins):
        bands = attribute.coarser(by)
        return _objects([bands.labels[group] for group in np.unique(bands.groups[levels])])
    if not isinstance(attribute, Dates):
        labels = [attribute.labels[level] for level in axis.levels]
        return np.asarray(labels) if all(isinstance(label, int) for label in labels) else _objects(labels)
    if by is not None:
        spans = attribute.coarser(by)
        present = np.unique(spans.groups[levels])
        if by not in SPANS or attribute.other_index is not None:
            return _objects([spans.labels[group] for group in present])
        levels = np.unique(spans.groups, return_index=True)[1][present]  # the first level of each
    elif attribute.other_index is not None:
        return _objects([attribute.labels[level] for level in levels])
    days = attribute.starts[np.minimum(levels, attribute.regular)]
    days = (days if by is None else begin_of_span(days, by)).astype("datetime64[us]")
    days[levels >= attribute.regular] = np.datetime64("NaT")
    return days


def _moments(labels: Sequence[Any]) -> NDArray[np.datetime64]:
    """Return moments that are written as texts; NaT for None."""
    return np.array([label or "NaT" for label in labels], dtype="datetime64[us]")


def _objects(labels: Sequence[Any]) -> Labels:
    found = np.empty(len(labels), dtype=object)
    found[:] = labels
    return found


def _picked(side: NDArray[Any], positions: NDArray[np.intp]) -> Any:
    import pandas as pd

    return pd.Series(side[positions], dtype=object) if side.dtype == object else side[positions]


def _query_columns(measure: Measure, axes: Sequence[Axis], domain: Domain) -> tuple[dict[str, Any], tuple[bool, ...]]:
    assert measure.workload is not None
    spans = groups_of(measure.asked, [axis.attribute for axis in axes])
    if spans or all_levels(measure.workload, axes):
        return _level_columns(axes, domain, spans)
    columns = answer_labels(measure.workload, axes, domain)
    if columns is None:
        return {"query": np.arange(measure.workload.shape[0])}, (True,)
    ordered = in_order(measure.workload, axes) is not None
    return {name: column_of(labels) for name, labels in columns.items()}, (ordered,) * len(columns)


def column_of(labels: np.ndarray[Any, Any]) -> Any:
    """Return labels as a column: of whole numbers or moments where all are, else of objects, converting nothing."""
    import pandas as pd

    if labels.size and all(type(label) is datetime.datetime and label.tzinfo is None for label in labels):
        return labels.astype("datetime64[us]")
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
    columns: list[Labels] = [np.empty(workload.shape[0], dtype=object) for _ in axes]
    for column in columns:
        column.fill(ALL)  # one text for all rows, where `np.full` makes one each
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
