"""Releases of marginals, table by table: each is worked out from the record, or taken out of the frame, when read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn, cast

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain import Domain
from dpnotebook.errors import WorkloadError, shorten
from dpnotebook.ledger import Record
from dpnotebook.planner import explain
from dpnotebook.planner.answers import Estimates
from dpnotebook.planner.partwise import PartwiseAnswers, marginals_of
from dpnotebook.planner.plan import Planned
from dpnotebook.planner.to_linear import answer_axes
from dpnotebook.privacy.accountant import Accountant
from dpnotebook.query.measurement import flat_size
from dpnotebook.query.question import Measure, Question
from dpnotebook.session.answer_frame import PARTS, answer_frame
from dpnotebook.session.release import Release
from dpnotebook.session.small_groups import without_small_groups
from dpnotebook.workload.marginals import Subset

if TYPE_CHECKING:
    import pandas as pd

    from dpnotebook.progress import Progress

SHOWN = 6  # tables that an error names
NUMBERS = ("value", *PARTS[:3])
ALONE = (
    "the counts of one table of many are not {} by themselves; ask for this table alone, as by crosstab: the release "
    "answers that for nothing"
)


class UnreadFrame:
    """Stands where the frame of a release would be that has more rows than anybody reads.

    Parameters
    ----------
    text
        How many rows, and what to write instead.
    """

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text

    def _refuse(self, *_: object) -> NoReturn:
        raise WorkloadError(self._text)

    __len__ = __iter__ = __getitem__ = __contains__ = _refuse

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Refuse everything that a frame has; what Python itself looks for is just not there."""
            if name.startswith("_"):
                raise AttributeError(name)
            raise WorkloadError(self._text)


@dataclass(frozen=True, eq=False)
class MarginalTables:
    """The tables of counts of a release; see `Tables`.

    Parameters
    ----------
    question, domain
        What was asked, of which declared domain.
    named
        The attributes of each table, as places among the question's keys.
    table
        Makes the release of a table: of its places, of the question that it answers, and of the order in which that
        has the counts.
    also
        Whether a table can be worked out that was not asked for by itself.
    minimum
        The smallest noisy count that the policy shows; None where it shows all.
    """

    question: Question
    domain: Domain
    named: Sequence[Subset]
    table: Callable[[Subset, Question, NDArray[np.intp]], Release]
    also: Callable[[Subset], bool]
    minimum: int | None = None

    @property
    def names(self) -> Iterator[tuple[str, ...]]:
        """The attributes of each table."""
        keys = self.question.keys
        return (tuple(keys[i] for i in subset) for subset in self.named)

    def withholding(self, minimum: int) -> MarginalTables:
        """Return the same, without the counts that a policy withholds."""
        return replace(self, minimum=minimum)

    def read(self, attributes: Sequence[str]) -> Release:
        """Return a table as a release of its own; see `Release.marginal`."""
        keys = self.question.keys
        unknown = [name for name in attributes if name not in keys]
        if unknown or len(set(attributes)) < len(attributes):
            what = f"{shorten(unknown[0])} is none of its attributes" if unknown else "an attribute comes twice"
            raise WorkloadError(f"{what}; this release is of {shorten(', '.join(keys), 200)}")
        places = [keys.index(name) for name in attributes]
        subset = tuple(sorted(places))
        if subset not in self.named and not self.also(subset):
            some = "; ".join(
                " x ".join(names) or "all rows" for names, _ in zip(self.names, range(SHOWN), strict=False)
            )
            more = f"; and {len(self.named) - SHOWN:,} more" if len(self.named) > SHOWN else ""
            raise WorkloadError(
                f"this release has no table of {' x '.join(map(str, attributes)) or 'all rows'}; it has {some}{more}"
            )
        sides = answer_axes(self.question.measures[0], self.question, self.domain)
        sizes = [sides[place].size for place in subset]
        order = np.arange(int(np.prod(sizes, dtype=int))).reshape(sizes)
        order = order.transpose([subset.index(place) for place in places]).ravel()
        asked = Question(self.question.table, (Measure("count"),), tuple(attributes), self.question.where)
        found = self.table(subset, asked, order)
        return found if self.minimum is None else without_small_groups(found, self.minimum)


def release_by_table(
    record: Record,
    question: Question,
    domain: Domain,
    answer: PartwiseAnswers,
    item: Planned,
    accountant: Accountant,
    confidence: float,
) -> Release:
    """Return what a record answers whose answers are worked out table by table, as if this had cost nothing.

    Parameters
    ----------
    record, question, domain
        What was recorded, for which question of which declared domain.
    answer, item
        How the answers follow from the one measurement of the record.
    accountant, confidence
        Of the noise, and of the intervals.
    """
    noisy = record.answers[0][0]
    rows, tables = int(answer.strategy.workload.shape[0]), len(answer.parts)
    largest = max(answer.parts, key=lambda part: len(part.axes))
    example = ", ".join(repr(question.keys[i]) for i in largest.axes)
    unread = UnreadFrame(
        f"{rows:,} answers in {tables:,} tables are no frame that anybody reads: release.marginal({example}) is one of "
        "the tables, and release.tables.names has the attributes of each"
    )

    def table(subset: Subset, asked: Question, order: NDArray[np.intp]) -> Release:
        found = answer.estimate_of(subset, noisy, item.bits, accountant.law, item.scale, confidence)
        frame, ordered = keys_of(asked, domain)
        columns = {name: getattr(found, name)[order] for name in NUMBERS}
        return replace(
            whole,
            frame=frame.assign(**columns),
            question=asked,
            ordered=ordered,
            tables=None,
            adjusted=_refused("moved"),
            redraws=_refused("redrawn"),
            again=lambda other: again(other).marginal(*asked.keys),
        )

    def again(other: float) -> Release:
        return release_by_table(record, question, domain, answer, item, accountant, other)

    parts = [part.axes for part in answer.parts]
    whole = Release(
        frame=cast("pd.DataFrame", unread),
        question=question,
        number=record.number,
        epsilon=accountant.epsilon(record.plan["units"]),
        delta=accountant.delta,
        paid=0.0,
        confidence=confidence,
        unit=explain.unit(question.measures[0], question),
        sources=(record.number,),
        again=again,
        tables=MarginalTables(question, domain, parts, table, answer.holds),
    )
    return whole


def with_tables(release: Release, question: Question, domain: Domain) -> Release:
    """Return a release of marginals with its tables, which are rows of its frame; any other as it is."""
    workload = question.measures[0].workload if len(question.measures) == 1 else None
    parts = None if workload is None or question.measures[0].kind != "workload" else marginals_of(workload)
    axes = answer_axes(question.measures[0], question, domain)
    if parts is None or workload is None or workload.shape[1] != flat_size(axes):
        return release
    if any(part.axes and max(part.axes) >= len(axes) for part in parts) or len({part.axes for part in parts}) < len(
        parts
    ):
        return release
    firsts = np.cumsum([0, *(part.queries for part in parts)]).tolist()
    starts = {part.axes: first for part, first in zip(parts, firsts, strict=False)}

    def table(subset: Subset, asked: Question, order: NDArray[np.intp]) -> Release:
        rows = starts[subset] + order
        keys, ordered = keys_of(asked, domain)

        def part(frame: pd.DataFrame) -> pd.DataFrame:
            return keys.assign(**{name: frame[name].to_numpy()[rows] for name in NUMBERS})

        def moved(total: float | None, report: Progress) -> pd.DataFrame:
            assert release.adjusted is not None
            return part(release.adjusted(total, report))

        def drawn(draws: int) -> Mapping[str, NDArray[Any]]:
            assert release.redraws is not None
            return {name: values[:, rows] for name, values in release.redraws(draws).items()}

        again = release.again
        return replace(
            release,
            frame=part(release.frame),
            question=asked,
            ordered=ordered,
            tables=None,
            adjusted=None if release.adjusted is None else moved,
            redraws=None if release.redraws is None else drawn,
            again=None if again is None else lambda other: again(other).marginal(*asked.keys),
        )

    named = [part.axes for part in parts]
    return replace(release, tables=MarginalTables(question, domain, named, table, lambda subset: False))


def keys_of(asked: Question, domain: Domain) -> tuple[pd.DataFrame, tuple[bool, ...]]:
    """Return the keys of a table of counts as a frame, and whether each has an order."""
    axes = answer_axes(asked.measures[0], asked, domain)
    nothing = np.zeros(int(np.prod([axis.size for axis in axes], dtype=int)))
    frame, ordered = answer_frame(asked, domain, [Estimates(nothing, nothing, nothing, nothing)])
    return frame.drop(columns=list(NUMBERS)), ordered


def _refused(what: str) -> Callable[..., Any]:
    def refuse(*_: object) -> NoReturn:
        raise WorkloadError(ALONE.format(what))

    return refuse
