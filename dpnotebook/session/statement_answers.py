"""What a statement measures: noise is added, small groups are hidden; and how its answer is shown."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpnotebook.errors import WorkloadError
from dpnotebook.ledger import Charge, Record
from dpnotebook.planner.answers import Estimates
from dpnotebook.privacy.accountant import Accountant, with_thresholds
from dpnotebook.privacy.laws import draw_integers
from dpnotebook.privacy.randomness import Randomness, Source
from dpnotebook.progress import Progress
from dpnotebook.session.answer_frame import column_name, column_of
from dpnotebook.session.derived_intervals import Derivation, Frames, Outer, WorkedOut
from dpnotebook.session.redraws import Redraw, Redrawn
from dpnotebook.session.release import Release
from dpnotebook.session.untyped_keys import as_meant, in_order
from dpnotebook.sql.aggregates.bounds import MOST, find_bounds, parts_of_unit
from dpnotebook.sql.aggregates.budget_split import (
    averages_units,
    counts_values,
    for_weights,
    has_range,
    needs_bounds,
    shares,
)
from dpnotebook.sql.aggregates.builder import Bounds
from dpnotebook.sql.aggregates.building import measuring
from dpnotebook.sql.aggregates.catalogue import function_of
from dpnotebook.sql.aggregates.counted_rows import CountedRows
from dpnotebook.sql.aggregates.estimating import estimate
from dpnotebook.sql.aggregates.expected import clipped, groups_need, taken_told
from dpnotebook.sql.aggregates.layers import with_combinations
from dpnotebook.sql.aggregates.measuring import Measuring
from dpnotebook.sql.aggregates.moved import with_moved
from dpnotebook.sql.aggregates.noising import Draw, noisy, released
from dpnotebook.sql.aggregates.noising import exact as exact_numbers
from dpnotebook.sql.aggregates.redraws import redraw, redrawn, redrawn_sharper
from dpnotebook.sql.aggregates.sharpening import sharpened, weights, with_scales
from dpnotebook.sql.aggregates.taken import BESIDE_MOST, Taken, taken_from_json, taken_to_json
from dpnotebook.sql.aggregates.what_is_lost import with_lost
from dpnotebook.sql.bounded_sums import Component, Totals
from dpnotebook.sql.group_weights import GroupWeights, of_equal_size
from dpnotebook.sql.measured_profile import SIZES, measured_profile, measured_ranges, measured_weights
from dpnotebook.sql.measured_units import measured_units
from dpnotebook.sql.plan import StatementPlan
from dpnotebook.sql.profile import Clip
from dpnotebook.sql.profile import clips as clips_of
from dpnotebook.sql.profile_keys import weights_key
from dpnotebook.sql.reuse.known import PROMISED
from dpnotebook.sql.reuse.outlines import SHARPER
from dpnotebook.sql.reuse.possible import possible_groups
from dpnotebook.sql.reuse.rows import keyed_relation, relation_key
from dpnotebook.sql.reuse.sharper import KEPT, OWN, SAMPLES, Sharper
from dpnotebook.sql.rewrite.bounded_aggregation import all_magnitudes, placed_sql, sample_sql, totals, totals_beside
from dpnotebook.sql.rewrite.kept import kept_before, kept_for
from dpnotebook.sql.rewrite.profiles import SPARE, KeepHow
from dpnotebook.sql.rows_profile import measured_rows
from dpnotebook.sql.select import PrivateSelect
from dpnotebook.sql.statement import Statement
from dpnotebook.sql.statement_json import keys_from_json, keys_to_json, statement_from_json, statement_to_json
from dpnotebook.sql.values_profile import measured_new_values

if TYPE_CHECKING:
    import pandas as pd

WEIGHTS = "weights"  # in plans: by what is multiplied what units have in groups, where that was found
ROWS = "rows"  # in plans and records: how many rows of a unit count, where that was found
MOST_REDRAWN = 5 * 10**7  # noisy numbers that are redrawn at once
TOO_MANY = "the answers are too many to be redrawn so often: ask for fewer groups, or fewer draws"

ONE_NORM = "one_norm"  # in plans that promise an error: what is found may not be measured in two layers

Integers = NDArray[np.int64]
Execute = Callable[[str, Sequence[str]], dict[str, NDArray[Any]]]
Run = Callable[[str], dict[str, NDArray[Any]]]
Keep = Callable[..., AbstractContextManager[str | None]]
Earlier = Callable[[int], Record]


def statement_plan_to_json(
    plan: StatementPlan, statement: Statement, digests: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Return what the ledger keeps of a plan: all that is needed to measure for its charge and to show it again.

    Parameters
    ----------
    plan, statement
        What is planned.
    digests
        Of what it reads of undeclared columns and of public tables, to tell later whether they are still the same.
    """
    return (
        dict(digests)
        | {
            "words": plan.title,
            "relations": [
                key
                for select in statement.selects
                for alike, _ in select.ways
                for key in (relation_key(alike), keyed_relation(alike))
                if key is not None
            ],
            "units": plan.units,
            "alone": plan.units if plan.without_reuse is None else plan.without_reuse.units,
            "actions": [action.kind for action in plan.actions],
            "confidence": plan.confidence,
            "shares": list(plan.shares),
            "deltas": [str(delta) for delta in plan.deltas],
            "statement": statement_to_json(statement),
            SAMPLES: KEPT if plan.keeps_sample else OWN,
        }
        | ({ROWS: [None if rows is None else rows.to_json() for rows in plan.rows]} if any(plan.rows) else {})
        | _known_to_json(plan)
        | _sharper_to_json(plan.sharper)
        | _promised_to_json(plan, statement)
    )


def _promised_to_json(plan: StatementPlan, statement: Statement) -> dict[str, Any]:
    """Return the error that quantiles were asked for with: it is in ranks, and what is delivered is not."""
    kinds = [aggregate.kind for select in statement.selects for aggregate in select.aggregates]
    in_ranks = all(function_of(kind).levelled for kind in kinds)
    return {PROMISED: plan.accuracy.error} if in_ranks and plan.accuracy.error is not None else {}


def _known_to_json(plan: StatementPlan) -> dict[str, Any]:
    """Return what is known of the profiles of tables, and what the statement adds to it."""
    if not any(plan.clips) and not plan.profiles:
        return {}
    told = list(map(_told_of_clips, plan.clips))
    told_weights = [None if one is None else one.to_json() for one in plan.weights]
    return (
        {
            "clips": [{str(i): _bounds_to_json(clip.bounds) for i, clip in clips.items()} for clips in plan.clips],
            "values": [{str(i): _bounds_to_json(bounds) for i, bounds in values.items()} for values in plan.values],
            "profiles": list(plan.profiles),
        }
        | ({WEIGHTS: told_weights} if any(told_weights) else {})
        | ({ONE_NORM: True} if plan.profiles and plan.accuracy.epsilon is None else {})
        | _cuts_to_json(plan.cuts)
        | ({"clipping": told} if any(told) else {})
    )


def _sharper_to_json(one: Sharper | None) -> dict[str, Any]:
    """Return which release is made sharper, and what noise each of its blocks shall have."""
    if one is None:
        return {}
    scales = [None if scale is None else str(scale) for scale in one.scales]
    return {SHARPER: {"of": one.known.number, "place": one.known.place, "scales": scales}}


def _cuts_to_json(cuts: Sequence[Mapping[int, Taken]]) -> dict[str, Any]:
    """Return what is known of what bounds of values take from the answers of every private aggregation."""
    told = [taken_to_json("cuts", one) for one in cuts]
    parts = dict.fromkeys(part for one, of in zip(told, cuts, strict=True) if of for part in one)
    return {part: [one.get(part, {}) for one in told] for part in parts}


def _cuts_from_json(plan: Mapping[str, Any], place: int) -> dict[int, Taken]:
    """Return what `_cuts_to_json` wrote of a private aggregation."""
    parts = ("cuts", *(f"cuts_{part}" for part in BESIDE_MOST))
    return taken_from_json("cuts", {part: plan[part][place] for part in parts if plan.get(part)})


def _bounds_to_json(bounds: Bounds | None) -> list[str] | None:
    return None if bounds is None else [str(bound) for bound in bounds]


def _bounds_from_json(plan: Mapping[str, Any], part: str, place: int) -> dict[int, Bounds | None]:
    told = plan[part][place] if plan.get(part) else {}
    return {int(i): None if bounds is None else tuple(map(Fraction, bounds)) for i, bounds in told.items()}


def measure_statement(
    charge: Charge,
    randomness: Randomness,
    accountant: Accountant,
    execute: Execute,
    report: Progress,
    *,
    draw: Draw | None = None,
    hide: bool = True,
    kept: Callable[[PrivateSelect], str] | None = None,
    earlier: Earlier | None = None,
    keep: Keep | None = None,
) -> tuple[list[Integers], dict[str, Any]]:
    """Return noisy numbers of the groups that may be shown, one array a private aggregation, and their keys and bounds.

    Parameters
    ----------
    charge
        What was paid for.
    randomness
        Of the charge: trying again draws the same noise, and samples the same rows.
    accountant
        Of the session.
    execute
        Runs SQL over the named tables.
    report
        Told how far it is.
    draw
        Draws the noise instead of the charge's own randomness: in tests without noise.
    hide
        Whether thresholds hide small groups; not in tests without noise.
    kept
        Gives the secret by which rows are sampled whenever the statement is asked; that of the charge alone if None.
    earlier
        Finds the release that is made sharper.
    keep
        Keeps rows that several queries read.
    """
    statement = recorded_statement(charge)
    numbers, told = [], []
    for i, select in enumerate(statement.selects):
        report(0.2 + 0.6 * i / len(statement.selects), f"asking {', '.join(select.tables)}")
        own = kept is None or charge.plan.get(SAMPLES) != KEPT
        secret = randomness.secret("sample", i) if own or kept is None else kept(select)
        if SHARPER in charge.plan:
            assert earlier is not None
            source, record = randomness.source("noise", i), earlier(int(charge.plan[SHARPER]["of"]))
            answer, about = _sharpened(select, charge, record, execute, draw, source, secret)
            numbers.append(answer)
            told.append(about)
            continue
        units, delta = int(charge.plan["shares"][i]), Fraction(charge.plan["deltas"][i])
        source = randomness.source("noise", i)
        law = draw or partial(draw_integers, source=source)
        counted = charge.plan[ROWS][i] if ROWS in charge.plan else None
        if counted is not None:
            select = select.with_rows(counted["most"])
        of_groups = charge.plan[WEIGHTS][i] if WEIGHTS in charge.plan else None
        if of_groups is not None:
            select = select.weighed(GroupWeights.from_json(of_groups))
        known = _bounds_from_json(charge.plan, "clips", i), _bounds_from_json(charge.plan, "values", i)
        cuts = _cuts_from_json(charge.plan, i)
        several = any(needs_bounds(select, j, known[0]) for j in range(len(select.aggregates)))
        kept_rows = kept_for if several or select.rows_if_hidden else kept_before
        with nullcontext(select) if keep is None else kept_rows(select, _keeping(select, keep)) as read:
            weighs = weights_key(select) in charge.plan.get("profiles", ())
            how = _How(hide, draw is None, ONE_NORM not in charge.plan, weighs)
            answer, measured, about = _measured(
                read, units, delta, accountant, execute, law, secret, how, *known, cuts, keep
            )
        if counted is not None:
            about[ROWS] = counted
        if "clipping" in charge.plan:
            about = _merged(charge.plan["clipping"][i], about)
        found = CountedRows.from_json(about[ROWS]) if ROWS in about else None
        taken = taken_told(about, select)
        about["measuring"] = with_lost(with_moved(measured, *taken, rows=found), answer, *taken, found).to_json()
        if select.apart is not None:  # of these all rows count, however many are drawn for the others
            about["kept"] = {str(j): 1.0 for j in select.apart.aggregates} | about.get("kept", {})
        numbers.append(answer)
        told.append(about)
    digests = {part: charge.plan[part] for part in ("fingerprints", "columns") if part in charge.plan}
    return numbers, {"selects": told} | digests


def _keeping(select: PrivateSelect, keep: Keep) -> KeepHow:
    """Return what keeps rows of the tables of a private aggregation."""
    return lambda query, how="meanwhile": keep(query, (*select.tables, *select.public), how)


def _kept_once(
    keep: Callable[[str], AbstractContextManager[str | None]], stack: ExitStack
) -> Callable[[str], AbstractContextManager[str | None]]:
    """Return what keeps the same rows once, until a stack is left: histograms of one column read the same."""
    kept: dict[str, str | None] = {}

    def keeping(query: str) -> AbstractContextManager[str | None]:
        if query not in kept:
            kept[query] = stack.enter_context(keep(query))
        return nullcontext(kept[query])

    return keeping


class _How(NamedTuple):
    """How a private aggregation is measured: hiding groups, with noise, in two layers if need be, finding weights."""

    hide: bool
    noisy: bool
    layered: bool
    weighs: bool


class _UnitsOfGroups(NamedTuple):
    """How many units groups have: what was added up, and what that is, exactly and with noise."""

    units: Component
    exact: Totals
    noisy: Integers


def _measured(
    select: PrivateSelect,
    units: int,
    delta: Fraction,
    accountant: Accountant,
    execute: Execute,
    draw: Draw,
    secret: str,
    how: _How,
    clips: Mapping[int, Bounds | None],
    values: Mapping[int, Bounds | None],
    cuts: Mapping[int, Taken],
    keep: Keep | None = None,
) -> tuple[Integers, Measuring, dict[str, Any]]:
    """Return the noisy numbers of the groups that may be shown, what they are, and their keys and bounds."""

    def run(query: str) -> dict[str, NDArray[Any]]:
        return execute(query, (*select.tables, *select.public))

    @cache
    def once(query: str) -> dict[str, NDArray[Any]]:
        return run(query)

    share = shares(select, units, accountant, clips)
    counting, rows_found = None, dict[str, Any]()
    if select.rows_if_hidden:
        counting, rows_found = measured_rows(select, share, accountant, run, draw)
        select = select.with_rows(counting.most)
    foreseen = measuring(select, share, accountant, delta, clips)
    with _drawn_once(select, foreseen.components, secret, keep) as select, ExitStack() as stack:
        keeping = None if keep is None else _kept_once(_keeping(select, keep), stack)
        unbounded = [i for i in range(len(select.aggregates)) if needs_bounds(select, i, clips)]
        counted: _UnitsOfGroups | None = None
        profile: dict[str, Any] = {}
        beside: dict[str, Any] = {}
        cut = {i: taken for i, taken in cuts.items() if i in clips}
        bounds = dict(clips)
        groups, even = 0, math.nan
        if any(select.clips(i) or has_range(select, i) for i in unbounded):
            also = (SIZES,) if how.weighs else ()
            there, even, counted = _groups(select, foreseen, run, secret, draw, how.hide, also)
            groups = max(len(there.keys), 1)
            if how.weighs and len(there.keys) > 1:
                share, spent = for_weights(select, share)
                of_groups, of_weighed = measured_weights(select, there, spent, accountant, run, draw)
                profile[weights_key(select)] = of_groups.to_json() | {"units": spent}
                select, even = select.weighed(of_groups), of_weighed if of_groups.unlike else even
        if any(map(select.clips, unbounded)):
            told = {i: (found, cuts.get(i, Taken())) for i, found in values.items() if found is not None}
            norms, found, share = measured_profile(select, told, share, accountant, groups, even, once, draw, keeping)
            chosen = clips_of(select, norms, share, accountant, layered=how.layered)
            profile |= found
            bounds |= {i: clip.bounds for i, clip in chosen.items()}
            beside = _told_of_clips(chosen)
            cut |= {i: clip.cut for i, clip in chosen.items() if clip.cut.known}
        if any(has_range(select, i) for i in unbounded):
            ranges, found, share = measured_ranges(select, share, accountant, groups, once, draw, keeping)
            profile |= found
            bounds |= {i: clip.bounds for i, clip in ranges.items()}
            cut |= {i: clip.cut for i, clip in ranges.items() if clip.cut.known}
        if any(averages_units(select, i) for i in unbounded):
            averaged, found, share = measured_units(select, clips, share, accountant, once, draw)
            profile |= found
            bounds |= {i: clip.bounds for i, clip in averaged.items()}
            cut |= {i: clip.cut for i, clip in averaged.items() if clip.cut.known}
        if different := [i for i in unbounded if counts_values(select, i)]:
            chosen, found = measured_new_values(select, share, accountant, different, secret, run, draw)
            profile |= found
            bounds |= {i: clip.bounds for i, clip in chosen.items()}
            beside = _merged(_told_of_clips(chosen), beside)
        rest = [i for i in unbounded if i not in bounds and not select.clips(i)]
        if rest:
            sizes = all_magnitudes(select, [select.aggregates[i] for i in rest], run)
            bounds |= find_bounds(select, share, accountant, sizes.__getitem__, draw, rest, parts_of_unit(select))
        planned = measuring(select, share, accountant, delta, bounds)
        # Its block may have another number now: what is measured before it depends on what was found.
        before = {} if counted is None or planned.counted is None else {planned.counted: counted.noisy}
        exact = totals_beside(
            select, planned.components, run, secret, None if counted is None else (counted.units, counted.exact)
        )
        drawn = noisy(planned, exact, draw, before)
        shown = released(_showing(planned, how.hide), exact, drawn) & possible_groups(select, exact.keys)
        keys = [key for key, kept in zip(exact.keys, shown, strict=True) if kept]
        if planned.weights is not None:
            planned = replace(planned, weighing=planned.weights.of(select.levels, keys))
        planned = with_combinations(planned, drawn[shown], how.noisy)
        about: dict[str, Any] = {"keys": keys_to_json(keys)}
        if profile or rows_found:
            about |= {"profile": profile | rows_found, "lost": {}} | beside
        if counting is not None:
            about[ROWS] = counting.to_json()
        if cut:
            about |= taken_to_json("cut", cut)
        return drawn[shown], planned, about


@contextmanager
def _drawn_once(
    select: PrivateSelect, components: Sequence[Component], secret: str, keep: Keep | None
) -> Iterator[PrivateSelect]:
    """Draw the rows of units once, whichever queries read them, by places that the next statement finds again.

    Parameters
    ----------
    select, components, secret
        As for `totals`.
    keep
        Keeps rows that several queries read.
    """
    drawn = [c for c in components if c.contribution is None]
    if keep is None or select.contribution.kind != "rows" or select.single or not drawn:
        yield select
        return
    tables = (*select.tables, *select.public)
    with ExitStack() as stack:
        placed = stack.enter_context(keep(placed_sql(select, drawn), tables, SPARE))
        query, inputs = sample_sql(select, drawn, secret, placed or "")
        name = stack.enter_context(keep(query, tables)) if placed else None
        yield replace(select, sampled=name, inputs_sampled=inputs) if name else select


def _sharpened(
    select: PrivateSelect,
    charge: Charge,
    record: Record,
    execute: Execute,
    draw: Draw | None,
    source: Source,
    secret: str,
) -> tuple[Integers, dict[str, Any]]:
    """Return the numbers of a release with less noise, of the groups that it shows, and what is told of them."""

    def run(query: str) -> dict[str, NDArray[Any]]:
        return execute(query, (*select.tables, *select.public))

    wanted, place = charge.plan[SHARPER], int(charge.plan[SHARPER]["place"])
    before = record.details["selects"][place]
    measured = Measuring.from_json(before["measuring"])
    select = select.weighed(measured.weights)
    if select.rows_if_hidden:
        select = select.with_rows(measured.contribution.most)
    scales = [None if scale is None else Fraction(scale) for scale in wanted["scales"]]
    known = np.asarray(record.answers[place], dtype=np.int64).reshape(-1, measured.measured)
    found = totals(select, measured.components, run, secret)
    places = {json.dumps(key): number for number, key in enumerate(keys_to_json(found.keys))}
    rows = [places.get(json.dumps(key), -1) for key in before["keys"]]
    exact = np.concatenate([exact_numbers(measured, found), np.zeros((1, measured.measured), dtype=np.int64)])[rows]
    numbers = sharpened(measured, known, exact, scales, draw, source)
    each = [
        list(weights(measured.law, block.scale, scale)) for block, scale in zip(measured.blocks, scales, strict=True)
    ]
    kept = {part: told for part, told in before.items() if part.startswith(("cut", "lost", "moved", "kept", ROWS))}
    return numbers, kept | {
        "keys": before["keys"],
        "measuring": with_combinations(with_scales(measured, scales), numbers, draw is None).to_json(),
        "combined": {"of": [record.number, charge.number], "weights": each},
    }


def _showing(planned: Measuring, hide: bool) -> Measuring:
    """Return which groups are shown; where none are hidden, every group that anybody is in."""
    return planned if hide or planned.tau is None else replace(planned, tau=1)


def _groups(
    select: PrivateSelect, planned: Measuring, run: Run, secret: str, draw: Draw, hide: bool, also: Sequence[Component]
) -> tuple[Totals, float, _UnitsOfGroups | None]:
    """Return the groups that will be shown, with what else is added up, and the numbers of units they follow from.

    Between them stands how many groups of equal size would have as much noise on their means, on average.
    """
    if planned.counted is None:
        exact = totals(select, also, run, secret)
        return exact, len(exact.keys), None
    block = planned.blocks[planned.counted]
    units = planned.component(block.columns[0])
    counting = replace(planned, components=(units,), parts=(), counted=0, blocks=(replace(block, columns=(0,)),))
    exact = totals(select, (units, *also), run, secret)
    of_units = Totals(exact.keys, exact.numbers[:, :1])
    drawn = noisy(counting, of_units, draw)
    shown = released(_showing(counting, hide), of_units, drawn)
    found = Totals(tuple(itertools.compress(exact.keys, shown)), exact.numbers[shown, 1:])
    even = of_equal_size(np.maximum(drawn[shown, 0] / planned.one, 1.0))
    return found, even, _UnitsOfGroups(units, of_units, drawn)


def _merged(known: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is recorded of an answer, with what was known before it was measured of the aggregates it has."""
    return dict(found) | {part: told | found.get(part, {}) for part, told in known.items()}


def _told_of_clips(clips: Mapping[int, Clip]) -> dict[str, Any]:
    """Return what is recorded of norms that were chosen: what they take from sums, by how much they move means."""
    lost = {i: clip.lost for i, clip in clips.items() if clip.lost.known}
    moved = {i: clip.moved for i, clip in clips.items() if clip.moved.known}
    told: dict[str, Any] = {"kept": {str(i): clips[i].kept for i in moved}} if moved else {}
    return told | (taken_to_json("lost", lost) if lost else {}) | (taken_to_json("moved", moved) if moved else {})


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
        notes=(*notes, *_notes(record, statement), *_hidden(record, statement, frames), *found.notes),
        worked_out=found.measures,
        redraws=samples,
        again=lambda other: reveal_statement(record, statement, other, accountant, public, outer, notes, earlier),
    )


def _of_places(
    samples: Callable[..., Mapping[str, NDArray[Any]]], places: Sequence[int], *draws: Any, **needed: Any
) -> dict[str, NDArray[Any]]:
    """Return what is drawn again, shape (draws, rows), in another order of rows."""
    return {name: values[:, places] for name, values in samples(*draws, **needed).items()}


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
    return redraw(draws)[0].values


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
        f"{', '.join(dict.fromkeys(words))}: not found. At this epsilon noise hides the bounds that so few people "
        "have; write bounds, as in ANON_SUM(x, 0, 100), or ask with a larger epsilon. NULL, NaN and text that is no "
        "number are no values",
    )


def _hidden(record: Record, statement: Statement, frames: Sequence[pd.DataFrame]) -> Iterator[str]:
    """Yield what noise hides in some groups, though its bounds are known; or that a threshold hides all of them."""
    for told, select, frame in zip(record.details["selects"], statement.selects, frames, strict=True):
        measuring = Measuring.from_json(told["measuring"])
        if not len(frame) and measuring.tau is not None:
            yield f"every group is hidden: one needs about {groups_need(measuring):,} units to be shown (95%)"
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
            yield i, clipped(measured, i, lost.get(i, Taken()), cut.get(i, Taken()))


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


def recorded_statement(charge: Charge) -> Statement:
    """Return the statement that was charged for."""
    return statement_from_json(charge.plan["statement"])


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
