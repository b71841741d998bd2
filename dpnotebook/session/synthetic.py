"""Synthetic rows: drawn from a model of what was released, so they tell of the table what is known of it already.

Rows of no person: a mixture of products is fitted to the noisy counts in the ledger (`inference/mixture.py`), and rows
are drawn from that. It is post-processing, so it costs nothing. What was not released together the rows do not know:
they are as right about two columns as what was released of these two.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain import Attribute, Bins, Dates, Domain
from dpnotebook.domain.parts import PART
from dpnotebook.errors import ArgumentError, WorkloadError, shorten
from dpnotebook.inference.mixture import MOST_ANSWERS, ProductObservation, fit_mixture
from dpnotebook.planner.history import History
from dpnotebook.planner.items import Item
from dpnotebook.planner.marginal_measurement import asked_of
from dpnotebook.predicate import Predicate
from dpnotebook.progress import Progress
from dpnotebook.query.question import Measure, Question
from dpnotebook.views import digits
from dpnotebook.workload.base import whole
from dpnotebook.workload.terms import SparseTerm, sparse_terms

if TYPE_CHECKING:
    import pandas as pd

MARK = "synthetic"  # the column that says of every row what it is
MOST_ROWS = 10_000_000
MOST_ENTRIES = 2_000_000  # of the queries along one attribute, written out


@dataclass(frozen=True)
class SyntheticRows:
    """Rows that were drawn from a model of what was released, and how far they are from that.

    Parameters
    ----------
    frame
        The rows, with a column that says of each that it is synthetic; `frame.attrs` says it too.
    margins
        For every table of counts that was released: its attributes, how many counts it has, how far those of the rows
        are off (root mean square, in rows of the protected table), and the standard error of what was released.
    table
        The table whose releases it rests on.
    releases
        Their numbers.
    left_out
        Declared attributes of which no count was released: there is nothing to draw them from.

    Examples
    --------
    >>> import dpnotebook as dpn
    >>> from dpnotebook.testing import example_session
    >>> session = example_session()
    >>> _ = session.table("patients").answer(dpn.marginals(2), epsilon=0.5).run()
    >>> rows = session.synthesize(500)
    >>> list(rows.frame.columns), len(rows.frame), session.spent.epsilon
    (['age', 'sex', 'income', 'synthetic'], 500, 0.5)
    """

    frame: pd.DataFrame = field(repr=False)
    margins: pd.DataFrame = field(repr=False)
    table: str
    releases: tuple[int, ...]
    left_out: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.frame)

    def __repr__(self) -> str:
        numbers = ", ".join(f"#{number}" for number in self.releases)
        lines = [
            f"{len(self.frame):,} synthetic rows of {self.table}, of no person: drawn from releases {numbers}, free",
            f"  off      {self._off()}",
            "  trust    only what was released: the rows know nothing else of the table",
        ]
        if self.left_out:
            lines.append(f"  missing  {', '.join(self.left_out)}: no count of these was released")
        return "\n".join(lines)

    def to_csv(self, path: str | PathLike[str]) -> None:
        """Write the rows to a CSV file, each marked as synthetic; texts as `Release.to_csv` writes them.

        Raises
        ------
        DPError
            If that is no path that can be written.

        Examples
        --------
        >>> from pathlib import Path
        >>> from dpnotebook.testing import example_session
        >>> session = example_session()
        >>> _ = session.table("patients").histogram("sex", epsilon=0.5).run()
        >>> session.synthesize(10).to_csv("rows.csv")
        >>> Path("rows.csv").read_text().splitlines()[0]
        '"sex","synthetic"'
        """
        from dpnotebook.session.spreadsheet import write_csv

        write_csv(self.frame, path)

    def _off(self) -> str:
        if not len(self.margins):
            return "not known: no table of counts follows from what was released"
        margins = self.margins.assign(times=self.margins["off"] / self.margins["std_error"])
        worst = margins.loc[margins["times"].idxmax()]
        return (
            f"by {worst['times']:.1f} standard errors of what was released, where it is most: counts by "
            f"{worst['attributes']} are {digits(worst['off'])} off (root mean square) and have a standard error of "
            f"{digits(worst['std_error'])}"
        )


def synthesized(
    table: str,
    domain: Domain,
    history: History,
    rows: int | None,
    generator: np.random.Generator,
    report: Progress,
) -> SyntheticRows:
    """Return rows that are drawn from a model of what was released of a table.

    Parameters
    ----------
    table, domain, history
        Its name, what is declared of it, and what was recorded.
    rows
        How many; about as many as the table has, if None.
    generator
        Draws the rows.
    report
        Told how far it is.

    Raises
    ------
    WorkloadError
        If no counts of it were released.
    ArgumentError
        If the number of rows is none.
    """
    import pandas as pd

    if rows is not None and whole(rows, "the number of synthetic rows") > MOST_ROWS:
        raise ArgumentError(f"synthetic rows are at most {MOST_ROWS:,}, not {rows:,}")
    found = [pair for item in _latest(history) for pair in _observations(item, domain)]
    names = [name for name in domain.names if any(name in one.names for one in found) and name != PART]
    if not names:
        raise WorkloadError(
            f"no counts of {shorten(table)} were released yet that rows could be drawn from: ask, for example, "
            "answer(dpn.marginals(2), epsilon=...) first"
        )
    every = list(domain.names)
    sizes = [domain[name].size for name in every]
    mixture = fit_mixture(
        sizes, [one.observation for one in found], _total(table, domain, history, found), report=report
    )
    wanted = max(1, round(mixture.total)) if rows is None else rows
    levels = mixture.sample(wanted, generator)
    columns = {name: _values(domain[name], levels[:, every.index(name)], generator) for name in names}
    mark = MARK + "_" * sum(name.startswith(MARK) for name in names)
    frame = pd.DataFrame({**columns, mark: True})
    releases = tuple(sorted({one.release for one in found}))
    frame.attrs["dpnotebook"] = {"synthetic": True, "table": table, "releases": list(releases)}
    left_out = tuple(name for name in every if name not in names and name != PART)
    margins = _margins(table, domain, history, found, levels, mixture.total / wanted)
    return SyntheticRows(frame, margins, table, releases, left_out)


@dataclass(frozen=True, eq=False)
class _Told:
    """What one release told, and the attributes that it is about."""

    release: int
    names: tuple[str, ...]
    observation: ProductObservation


def _latest(history: History) -> Iterator[Item]:
    """Yield the measurements of counts, but for those of which a more accurate version was recorded."""
    for key, item in history.items.items():
        summand = item.measurement.summand
        if key not in history.refined and summand.column is None and summand.components == 1:
            yield item


def _observations(item: Item, domain: Domain) -> Iterator[_Told]:
    """Yield what a measurement says, product by product; nothing of what is no product of queries along attributes."""
    measured, boxes = item.measurement, item.measurement.where.products()
    if len(boxes) != 1:
        return
    found = sparse_terms(measured.operator)
    if not measured.axes:  # one count, over one cell
        parts = [SparseTerm(int(measured.operator.dense()[0, 0]), (), ())]
    elif found is not None and found[0] == tuple(axis.size for axis in measured.axes):
        parts = found[1]
    else:
        return
    noisy, start = item.noisy[0], 0
    for term in parts:
        stop = start + term.queries
        factors = _factors(term.axes, term.factors, item, boxes[0], domain)
        if factors is not None and term.queries <= MOST_ANSWERS:
            # A weight is part of every query; without it the noise is that much smaller.
            told = noisy[start:stop] / float(term.weight)
            names = tuple(domain.names[i] for i in factors if len(factors[i]) > 1 or np.ptp(factors[i]) > 0)
            observation = ProductObservation(factors, told, item.variance**0.5 / abs(float(term.weight)))
            yield _Told(item.key[0], names, observation)
        start = stop


def _factors(
    places: Sequence[int], operators: Sequence[Any], item: Item, box: Mapping[str, NDArray[np.bool_]], domain: Domain
) -> dict[int, NDArray[np.float64]] | None:
    """Return the queries along every attribute that a product tells apart, over all levels; None if too large."""
    asked = {item.measurement.axes[place].attribute: (place, one) for place, one in zip(places, operators, strict=True)}
    found: dict[int, NDArray[np.float64]] = {}
    for i, name in enumerate(domain.names):
        mask = np.asarray(box.get(name, np.ones(domain[name].size, dtype=bool)))
        if name in asked:
            place, operator = asked[name]
            if operator.shape[0] * domain[name].size > MOST_ENTRIES:
                return None
            matrix = np.zeros((operator.shape[0], domain[name].size))
            matrix[:, list(item.measurement.axes[place].levels)] = operator.dense()
            found[i] = matrix * mask
        elif not mask.all():
            found[i] = mask[None, :].astype(float)
    return found


def _total(table: str, domain: Domain, history: History, found: Sequence[_Told]) -> float:
    """Return about how many rows there are: as least squares tells it, else as the largest table adds up."""
    everybody = Question(table, (Measure("count"),), (), Predicate.everything(domain))
    asked = asked_of(everybody, history)
    if asked is not None and np.isfinite(asked.variances).all():
        return max(1.0, float(asked.estimates()[0][0]))
    return max(1.0, *(float(np.abs(one.observation.noisy).max()) for one in found))


def _margins(
    table: str, domain: Domain, history: History, found: Sequence[_Told], levels: NDArray[np.int64], scale: float
) -> pd.DataFrame:
    """Return how far drawn rows are from every table of counts that follows from what was released.

    Parameters
    ----------
    table, domain, history, found
        What was released, and which attributes it tells apart.
    levels
        Of the rows, shape (rows, attributes).
    scale
        How many rows of the protected table each of them stands for.
    """
    import pandas as pd

    every, lines = list(domain.names), []
    for names in dict.fromkeys(one.names for one in found):
        sizes = [domain[name].size for name in names]
        if not names or math.prod(sizes) > MOST_ANSWERS:
            continue
        asked = asked_of(Question(table, (Measure("count"),), names, Predicate.everything(domain)), history)
        if asked is None or not np.isfinite(asked.variances).all():
            continue
        told, variances = asked.estimates()
        cells = np.ravel_multi_index([levels[:, every.index(name)] for name in names], sizes)
        off = scale * np.bincount(cells, minlength=math.prod(sizes)) - told
        spread = {"off": float(np.sqrt((off**2).mean())), "std_error": float(np.sqrt(variances.mean()))}
        lines.append({"attributes": ", ".join(names), "counts": off.size} | spread)
    return pd.DataFrame(lines, columns=["attributes", "counts", "off", "std_error"])


def _values(attribute: Attribute, levels: NDArray[np.int64], generator: np.random.Generator) -> Any:
    """Return a value of each level: of a bin one that lies in it, of a longer span of dates its first day."""
    import pandas as pd

    inside = levels < attribute.regular
    if isinstance(attribute, Bins) and attribute.other_index is None:
        lows, highs = (np.asarray(ends, dtype=float) for ends in attribute.level_bounds())
        regular = np.minimum(levels, attribute.regular - 1)
        low, high = lows[regular], highs[regular]
        drawn = low + (high - low) * generator.random(levels.size)
        if (lows == np.rint(lows)).all():
            drawn = np.floor(drawn)
        return np.where(inside, drawn, np.nan)
    if isinstance(attribute, Dates) and attribute.other_index is None:
        days = attribute.starts[np.minimum(levels, attribute.regular)].astype("datetime64[us]")
        days[~inside] = np.datetime64("NaT")
        return days
    labels = np.array(attribute.labels, dtype=object)
    return pd.Series(labels[levels], dtype=object).infer_objects()
