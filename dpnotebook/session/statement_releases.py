"""What is shown of a statement that was measured: its answers, what noise hides in them, and what bounds take."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.errors import WorkloadError
from dpnotebook.ledger import Record
from dpnotebook.planner.answers import Estimates
from dpnotebook.planner.redraws import MOST_TOLD
from dpnotebook.privacy.accountant import Accountant, with_thresholds
from dpnotebook.session.answer_frame import column_name, column_of
from dpnotebook.session.derived_intervals import Derivation, Frames, Outer, WorkedOut, of_no_group
from dpnotebook.session.redraws import Redraw, Redrawn, RedrawnColumns, same_noise
from dpnotebook.session.release import Release
from dpnotebook.session.statement_answers import ROWS, Earlier, Integers
from dpnotebook.session.untyped_keys import as_meant, in_order
from dpnotebook.sql.aggregates.bounds import MOST
from dpnotebook.sql.aggregates.budget_split import has_range, needs_bounds
from dpnotebook.sql.aggregates.counted_rows import CountedRows
from dpnotebook.sql.aggregates.estimating import estimate
from dpnotebook.sql.aggregates.expected import clipped, groups_need, taken_told
from dpnotebook.sql.aggregates.measuring import Measuring
from dpnotebook.sql.aggregates.redraws import redraw, redrawn, redrawn_sharper
from dpnotebook.sql.aggregates.taken import Taken
from dpnotebook.sql.derived import adds_up_groups
from dpnotebook.sql.reuse.outlines import SHARPER
from dpnotebook.sql.select import PrivateSelect
from dpnotebook.sql.statement import Statement
from dpnotebook.sql.statement_json import keys_from_json

if TYPE_CHECKING:
    import pandas as pd

MOST_REDRAWN = 5 * 10**7  # noisy numbers that are redrawn at once
TOO_MANY = "the answers are too many to be redrawn so often: ask for fewer groups, or fewer draws"


def reveal_statement(
    record: Record,
    statement: Statement,
    confidence: float,
    accountant: Accountant,
    public: Callable[[], Frames],
    outer: Outer,
    notes: tuple[str, ...] = (),
    earlier: Earlier | None = None,
) -> Release:
    """Return what a record answers to a statement, as if this had cost nothing.

    Parameters
    ----------
    record
        From the ledger.
    statement, confidence
        The statement as it is asked now, and the confidence of its intervals.
    accountant
        Of the session.
    public, outer
        Reads the public tables that the statement names; works out SQL over these and what was released.
    notes
        What is to be said of the groups that are left out of the record.
    earlier
        Finds the releases that it made sharper.
    """
    frames = [select_frame(record, i, select, confidence) for i, select in enumerate(statement.selects)]
    kinds = {key.name: key.kind for key in statement.selects[0].keys}
    keys = list(kinds)
    redraw = partial(_redrawn, record, statement, frames, earlier)
    found = WorkedOut(frames[0])
    samples: Callable[[int], Mapping[str, NDArray[Any]]] = partial(_samples, redraw)
    if statement.outer is not None:
        derivation = Derivation(statement, frames, redraw, public, outer)
        found, samples = derivation.worked_out(confidence), derivation.samples
        if not any(map(len, frames)):
            found = of_no_group(found)
        keys = _keys_of(found.frame, kinds)
    frame = as_meant(found.frame, untyped := [key.name for key in statement.selects[0].keys if key.untyped])
    if untyped and statement.outer is None:
        places = in_order(frame, keys)
        frame, samples = frame.iloc[places].reset_index(drop=True), partial(_of_places, samples, places)
    return Release(
        frame=frame,
        question=statement,
        number=record.number,
        epsilon=accountant.epsilon(record.plan["units"]),
        delta=with_thresholds(accountant, sum(map(Fraction, record.plan["deltas"]), Fraction(0))),
        paid=0.0,
        confidence=confidence,
        unit="",
        ordered=tuple(_ordered(kinds[name]) for name in keys),
        sources=_sources(record, earlier),
        notes=(
            *notes,
            *_notes(record, statement),
            *_hidden(record, statement, frames),
            *found.notes,
            *dict.fromkeys(select.also_counted for select in statement.selects if select.also_counted),
        ),
        worked_out=found.measures,
        redraws=samples,
        again=lambda other: reveal_statement(record, statement, other, accountant, public, outer, notes, earlier),
    )


def _of_places(
    samples: Callable[..., Mapping[str, NDArray[Any]]], places: Sequence[int], *draws: Any, **needed: Any
) -> Mapping[str, NDArray[Any]]:
    """Return what is drawn again, shape (draws, rows), in another order of rows."""
    drawn = samples(*draws, **needed)
    return same_noise({name: values[:, places] for name, values in drawn.items()}, drawn)


def _sources(record: Record, earlier: Earlier | None) -> tuple[int, ...]:
    """Return the releases that an answer is combined of: its own, behind those that it made sharper."""
    if SHARPER not in record.plan or earlier is None:
        return (record.number,)
    return (*_sources(earlier(int(record.plan[SHARPER]["of"])), earlier), record.number)


def _noise(
    record: Record, place: int, planned: Measuring, earlier: Earlier | None, draws: int, places: Sequence[int]
) -> Integers:
    """Return the noise of a release drawn again, shape (draws, groups, places); what releases share is the same."""
    told = record.details["selects"][place]
    salt = f"{record.number}.{place}".encode()
    numbers = np.asarray(record.answers[place], dtype=np.int64).reshape(-1, planned.measured)
    if earlier is None or "combined" not in told:
        return redrawn(planned, numbers, draws, salt, places)
    wanted = record.plan[SHARPER]
    first, at = earlier(int(wanted["of"])), int(wanted["place"])
    before = Measuring.from_json(first.details["selects"][at]["measuring"])
    of_key = {json.dumps(key): number for number, key in enumerate(first.details["selects"][at]["keys"])}
    rows = [of_key[json.dumps(key)] for key in told["keys"]]
    noise = _noise(first, at, before, earlier, draws, range(before.measured))[:, rows]
    sharper = redrawn_sharper(before, noise, planned, salt + b"/" + np.ascontiguousarray(numbers).tobytes())
    return sharper if len(places) == planned.measured else sharper[:, :, list(places)]


def _redrawn(
    record: Record,
    statement: Statement,
    frames: Sequence[pd.DataFrame],
    earlier: Earlier | None,
    draws: int,
    needed: Collection[str] | None = None,
) -> list[Redrawn]:
    """Return what the releases of a statement may have been; of all their aggregates, or of those that are needed."""
    found = []
    for i, (select, frame) in enumerate(zip(statement.selects, frames, strict=True)):
        whole = Measuring.from_json(record.details["selects"][i]["measuring"])
        kept = [at for at, part in enumerate(select.aggregates) if needed is None or part.name in needed]
        planned, places = whole.of_parts(kept)
        if needed is None:
            planned, places = whole, list(range(whole.measured))
        if draws * len(frame) * planned.measured > MOST_REDRAWN:
            raise WorkloadError(TOO_MANY)
        noise = _noise(record, i, whole, earlier, draws, places)
        numbers = np.asarray(record.answers[i], dtype=np.int64).reshape(-1, whole.measured)[:, places]
        drawn = redraw(planned, numbers, draws, noise=noise)
        values = {select.aggregates[at].name: one for at, one in zip(kept, drawn.values, strict=True)}
        found.append(Redrawn(frame, values, drawn.noise, drawn.scales, planned.noise))
    return found


def _samples(redraw: Redraw, draws: int) -> Mapping[str, NDArray[Any]]:
    """Return what the only release of a statement may have been."""
    drawn = redraw(draws)[0]
    scales = [scale for of_row in drawn.scales for scale in of_row]
    if not 0 < len(scales) <= MOST_TOLD:
        return drawn.values
    return RedrawnColumns(drawn.values, drawn.noise.reshape(draws, -1), scales, drawn.law, measured=False)


def _notes(record: Record, statement: Statement) -> tuple[str, ...]:
    """Return what was found of the rows of units, and which aggregates have no answer as noise hid their bounds."""
    found = (
        *dict.fromkeys(select.drawn for select in statement.selects if select.drawn),
        *(
            select.said_of_drawn(CountedRows.from_json(told[ROWS]).words)
            for told, select in zip(record.details["selects"], statement.selects, strict=True)
            if ROWS in told
        ),
        *(
            f"{select.aggregates[i].words}: {text}"
            for told, select in zip(record.details["selects"], statement.selects, strict=True)
            for i, text in (*_clipped(told, select), *_at_the_end(told, select))
        ),
    )
    words = [
        aggregate.words or aggregate.name
        for told, select in zip(record.details["selects"], statement.selects, strict=True)
        for part, aggregate in zip(Measuring.from_json(told["measuring"]).parts, select.aggregates, strict=True)
        if not part.found
    ]
    if not words:
        return found
    return (
        *found,
        f"{', '.join(dict.fromkeys(words))}: not found. At this epsilon noise hides the bounds that so few units "
        "have; write bounds, as in ANON_SUM(x, 0, 100), or ask with a larger epsilon. NULL, NaN and text that is no "
        "number are no values",
    )


def _hidden(record: Record, statement: Statement, frames: Sequence[pd.DataFrame]) -> Iterator[str]:
    """Yield what noise hides in some groups, though its bounds are known; and what a threshold hides from all."""
    for told, select, frame in zip(record.details["selects"], statement.selects, frames, strict=True):
        measuring = Measuring.from_json(told["measuring"])
        if not len(frame) and measuring.tau is not None:
            yield f"every group is hidden: one needs about {groups_need(measuring):,} units to be shown (95%)"
        elif measuring.tau is not None and adds_up_groups(statement.outer):
            yield "totals are of the groups that are shown: those hidden for having too few people are not in them"
        for part, aggregate in zip(measuring.parts, select.aggregates, strict=True):
            groups = sum(bool(np.isnan(value).any()) for value in frame[aggregate.name])
            if part.found and groups:
                where = f" in {groups:,} of {len(frame):,} groups, as they have" if select.keys else ", as there are"
                yield f"{aggregate.words or aggregate.name}: noise hides it{where} too few values"


def _clipped(told: Mapping[str, Any], select: PrivateSelect) -> Iterator[tuple[int, str]]:
    """Return what norms and bounds that were found take from answers, in words, with the number of the aggregate."""
    lost, cut = taken_told(told, select)
    ranges = {i for i in range(len(select.aggregates)) if has_range(select, i)}
    if not (lost or cut or ranges):
        return
    measured = Measuring.from_json(told["measuring"])
    for i in sorted({*lost, *cut, *ranges}):
        if measured.parts[i].found:
            yield (
                i,
                clipped(measured, i, lost.get(i, Taken()), cut.get(i, Taken()), clamped=select.aggregates[i].clamped),
            )


def _at_the_end(told: Mapping[str, Any], select: PrivateSelect) -> Iterator[tuple[int, str]]:
    """Return which bounds were found where no larger values are told apart, in words, with the number of the aggregate.

    The last order of magnitude, from half of the largest value, has all that is larger and infinities in it.
    """
    for i, part in enumerate(Measuring.from_json(told["measuring"]).parts):
        if part.found and part.bounds and needs_bounds(select, i) and max(map(abs, part.bounds)) > 2 ** (MOST - 1):
            yield (
                i,
                f"the bounds that were found reach 2^{MOST}, about 9e18, and infinities and all that is larger count "
                "as no more. If they are mistakes, leave them out, as in WHERE x < 1000, or write bounds, as in "
                "ANON_SUM(x, 0, 100)",
            )


def select_frame(record: Record, place: int, select: PrivateSelect, confidence: float) -> pd.DataFrame:
    """Return what was released of one private aggregation: keys, then value and interval of every aggregate."""
    import pandas as pd

    told = record.details["selects"][place]
    keys = keys_from_json(told["keys"])
    planned = Measuring.from_json(told["measuring"])
    columns: dict[str, Any] = {}
    for i, key in enumerate(select.keys):
        values = np.empty(len(keys), dtype=object)
        values[:] = [group[i] for group in keys]
        columns[key.name] = column_of(values)
    estimates = estimate(planned, record.answers[place], confidence)
    for aggregate, estimated in zip(select.aggregates, estimates, strict=True):
        columns |= _columns(aggregate.name, estimated)
    return pd.DataFrame(columns)


def _columns(name: str, found: Estimates) -> dict[str, Any]:
    return {
        name if part == "value" else column_name(name, part): _column(getattr(found, part))
        for part in ("value", "std_error", "lower", "upper")
    }


def _column(values: NDArray[np.float64]) -> Any:
    """Return one value a group; where each is several quantiles, a list of them."""
    return values if values.ndim == 1 else [list(map(float, row)) for row in values]


def _keys_of(frame: pd.DataFrame, kinds: Collection[str]) -> list[str]:
    """Return the first columns of what was worked out that are keys, where they tell its rows apart."""
    columns = list(frame.columns)
    found = list(
        itertools.takewhile(lambda name: name in kinds and column_name(name, "std_error") not in columns, columns)
    )
    whole = len(found) == len(kinds)  # with totals of groups without a value beside these
    return found if len(set(found)) == len(found) and (whole or not frame[found].duplicated().any()) else []


def _ordered(kind: str) -> bool:
    return kind in ("integer", "number", "time")
