"""What a statement measures for its charge: bounds are found, noise is added, small groups are hidden; and its JSON."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpnotebook.ledger import Charge, Record
from dpnotebook.privacy.accountant import Accountant
from dpnotebook.privacy.laws import draw_integers
from dpnotebook.privacy.randomness import Randomness, Source
from dpnotebook.progress import Progress
from dpnotebook.sql.aggregates.bounds import find_bounds, parts_of_unit
from dpnotebook.sql.aggregates.budget_split import (
    Shares,
    averages_units,
    counts_values,
    for_weights,
    has_range,
    needs_bounds,
    shares,
)
from dpnotebook.sql.aggregates.builder import Bounds
from dpnotebook.sql.aggregates.building import measuring
from dpnotebook.sql.aggregates.counted_rows import CountedRows
from dpnotebook.sql.aggregates.expected import taken_told
from dpnotebook.sql.aggregates.layers import with_combinations
from dpnotebook.sql.aggregates.measuring import Measuring
from dpnotebook.sql.aggregates.moved import with_moved
from dpnotebook.sql.aggregates.noising import Draw, noisy, released
from dpnotebook.sql.aggregates.noising import exact as exact_numbers
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
from dpnotebook.sql.reuse.outlines import SHARPER
from dpnotebook.sql.reuse.possible import possible_groups
from dpnotebook.sql.reuse.rows import keyed_relation, relation_key
from dpnotebook.sql.reuse.sharper import KEPT, OWN, SAMPLES, Sharper
from dpnotebook.sql.rewrite.bounded_aggregation import all_magnitudes, placed_sql, sample_sql, totals, totals_beside
from dpnotebook.sql.rewrite.kept import kept_before, kept_for
from dpnotebook.sql.rewrite.profiles import SPARE, KeepHow
from dpnotebook.sql.rows_profile import measured_rows
from dpnotebook.sql.run import Run
from dpnotebook.sql.select import PrivateSelect
from dpnotebook.sql.statement import Statement
from dpnotebook.sql.statement_json import keys_to_json, statement_from_json, statement_to_json
from dpnotebook.sql.values_profile import measured_new_values

if TYPE_CHECKING:
    pass

WEIGHTS = "weights"  # in plans: by what is multiplied what units have in groups, where that was found
ROWS = "rows"  # in plans and records: how many rows of a unit count, where that was found

ONE_NORM = "one_norm"  # in plans that promise an error: what is found may not be measured in two layers

Integers = NDArray[np.int64]
Execute = Callable[[str, Sequence[str]], dict[str, NDArray[Any]]]
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
    )


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
        clips, values = (_bounds_from_json(charge.plan, part, i) for part in ("clips", "values"))
        known = _KnownBounds(clips, values, _cuts_from_json(charge.plan, i))
        several = any(needs_bounds(select, j, clips) for j in range(len(select.aggregates)))
        kept_rows = kept_for if several or select.rows_if_hidden else kept_before
        with nullcontext(select) if keep is None else kept_rows(select, _keeping(select, keep)) as read:
            weighs = weights_key(select) in charge.plan.get("profiles", ())
            how = _How(hide, draw is None, ONE_NORM not in charge.plan, weighs)
            tools = _Tools(accountant, execute, law, secret, how, keep)
            answer, measured, about = _measured(read, units, delta, known, tools)
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


class _KnownBounds(NamedTuple):
    """What the plan of a charge says was found before of a private aggregation, by the numbers of the aggregates.

    Parameters
    ----------
    clips
        Bounds, of vectors with the norm that they are clipped to; None where noise hid them.
    values
        Between which values most rows lie, where norms are still to be found for that.
    cuts
        What bounds of values take from answers.
    """

    clips: Mapping[int, Bounds | None]
    values: Mapping[int, Bounds | None]
    cuts: Mapping[int, Taken]


@dataclass(frozen=True)
class _Tools:
    """With what a private aggregation is measured.

    Parameters
    ----------
    accountant, execute, draw
        As for `measure_statement`, with a law for `draw` in every session.
    secret
        By which rows are sampled.
    how
        How it is measured.
    keep
        Keeps rows that several queries read; None where nothing can be kept.
    """

    accountant: Accountant
    execute: Execute
    draw: Draw
    secret: str
    how: _How
    keep: Keep | None

    def run(self, select: PrivateSelect) -> Run:
        """Return what runs SQL over the tables of a private aggregation."""
        return lambda query: self.execute(query, (*select.tables, *select.public))


def _measured(
    select: PrivateSelect, units: int, delta: Fraction, known: _KnownBounds, tools: _Tools
) -> tuple[Integers, Measuring, dict[str, Any]]:
    """Return the noisy numbers of the groups that may be shown, what they are, and their keys and bounds.

    Parameters
    ----------
    select
        The private aggregation.
    units, delta
        What it may cost, in the accountant's units, and what its threshold takes of delta.
    known, tools
        What was found of it before, and with what it is measured.
    """
    accountant, run, how = tools.accountant, tools.run(select), tools.how
    share = shares(select, units, accountant, known.clips)
    counting, rows_found = None, dict[str, Any]()
    if select.rows_if_hidden:
        counting, rows_found = measured_rows(select, share, accountant, run, tools.draw)
        select = select.with_rows(counting.most)
    foreseen = measuring(select, share, accountant, delta, known.clips)
    with _drawn_once(select, foreseen.components, tools.secret, tools.keep) as select, ExitStack() as stack:
        keeping = None if tools.keep is None else _kept_once(_keeping(select, tools.keep), stack)
        found = _Finding(select, share, known, tools)
        found.find(foreseen, keeping)
        select, counted = found.select, found.counted
        planned = measuring(select, found.share, accountant, delta, found.bounds)
        # Its block may have another number now: what is measured before it depends on what was found.
        before = {} if counted is None or planned.counted is None else {planned.counted: counted.noisy}
        exact = totals_beside(
            select, planned.components, run, tools.secret, None if counted is None else (counted.units, counted.exact)
        )
        drawn = noisy(planned, exact, tools.draw, before)
        shown = released(_showing(planned, how.hide), exact, drawn) & possible_groups(select, exact.keys)
        keys = [key for key, kept in zip(exact.keys, shown, strict=True) if kept]
        if planned.weights is not None:
            planned = replace(planned, weighing=planned.weights.of(select.levels, keys))
        planned = with_combinations(planned, drawn[shown], how.noisy)
        about: dict[str, Any] = {"keys": keys_to_json(keys)}
        if found.profile or rows_found:
            about |= {"profile": found.profile | rows_found, "lost": {}} | found.beside
        if counting is not None:
            about[ROWS] = counting.to_json()
        if found.cut:
            about |= taken_to_json("cut", found.cut)
        return drawn[shown], planned, about


class _Finding:
    """Bounds of a private aggregation as they are found from the data, with noise, before it is measured.

    What one step does not spend is the answers': `share` changes with every step, and all draw noise in this order.

    Attributes
    ----------
    select, share
        The private aggregation, with the weights of groups that were found, and what each part of it costs.
    bounds
        By the numbers of the aggregates, those that are known.
    cut
        What bounds of values take from answers.
    profile
        What is recorded for later statements, by what it is found by.
    beside
        What is recorded of what norms take from sums, and of how they move means.
    counted
        How many units groups have, where that was measured already.
    """

    def __init__(self, select: PrivateSelect, share: Shares, known: _KnownBounds, tools: _Tools) -> None:
        self.select, self.share = select, share
        self.bounds: dict[int, Bounds | None] = dict(known.clips)
        self.cut = {i: taken for i, taken in known.cuts.items() if i in known.clips}
        self.profile: dict[str, Any] = {}
        self.beside: dict[str, Any] = {}
        self.counted: _UnitsOfGroups | None = None
        self._known, self._tools = known, tools
        self._run = tools.run(select)
        self._once = cache(self._run)  # histograms of several columns may be of the same rows
        self._groups, self._even = 0, math.nan  # how many there are, and as many of equal size for noise on means

    def find(self, foreseen: Measuring, keeping: Callable[[str], AbstractContextManager[str | None]] | None) -> None:
        """Find all bounds that are not known.

        Parameters
        ----------
        foreseen
            What is measured as far as it is known.
        keeping
            Keeps the rows of a query that several others read.
        """
        select = self.select
        unbounded = [i for i in range(len(select.aggregates)) if needs_bounds(select, i, self._known.clips)]
        if any(select.clips(i) or has_range(select, i) for i in unbounded):
            self._find_groups(foreseen)
        if any(map(select.clips, unbounded)):
            self._find_norms(keeping)
        accountant, draw, secret = self._tools.accountant, self._tools.draw, self._tools.secret
        if any(has_range(self.select, i) for i in unbounded):
            ranges, found, self.share = measured_ranges(
                self.select, self.share, accountant, self._groups, self._once, draw, keeping
            )
            self._take(ranges, found)
        if any(averages_units(self.select, i) for i in unbounded):
            clips = self._known.clips
            averaged, found, self.share = measured_units(self.select, clips, self.share, accountant, self._once, draw)
            self._take(averaged, found)
        if different := [i for i in unbounded if counts_values(self.select, i)]:
            run = self._run
            chosen, found = measured_new_values(self.select, self.share, accountant, different, secret, run, draw)
            self._take(chosen, found)
            self.beside = _merged(_told_of_clips(chosen), self.beside)
        if rest := [i for i in unbounded if i not in self.bounds and not self.select.clips(i)]:
            sizes = all_magnitudes(self.select, [self.select.aggregates[i] for i in rest], self._run)
            by_unit = parts_of_unit(self.select)
            self.bounds |= find_bounds(self.select, self.share, accountant, sizes.__getitem__, draw, rest, by_unit)

    def _find_groups(self, foreseen: Measuring) -> None:
        """Find which groups will be shown, and by what is multiplied what units have in them."""
        select, tools = self.select, self._tools
        weighs = tools.how.weighs
        also = (SIZES,) if weighs else ()
        there, self._even, self.counted = _groups(
            select, foreseen, self._run, tools.secret, tools.draw, tools.how.hide, also
        )
        self._groups = max(len(there.keys), 1)
        if weighs and len(there.keys) > 1:
            self.share, spent = for_weights(select, self.share)
            weights, even = measured_weights(select, there, spent, tools.accountant, self._run, tools.draw)
            self.profile[weights_key(select)] = weights.to_json() | {"units": spent}
            self.select, self._even = select.weighed(weights), even if weights.unlike else self._even

    def _find_norms(self, keeping: Callable[[str], AbstractContextManager[str | None]] | None) -> None:
        """Find norms of what units add, and between which values these lie, and choose what vectors are clipped to."""
        accountant, known = self._tools.accountant, self._known
        told = {i: (found, known.cuts.get(i, Taken())) for i, found in known.values.items() if found is not None}
        norms, found, self.share = measured_profile(
            self.select,
            told,
            self.share,
            accountant,
            self._groups,
            self._even,
            self._once,
            self._tools.draw,
            keeping,
        )
        chosen = clips_of(self.select, norms, self.share, accountant, layered=self._tools.how.layered)
        self._take(chosen, found)
        self.beside = _told_of_clips(chosen)

    def _take(self, found: Mapping[int, Clip], profile: Mapping[str, Any]) -> None:
        """Take bounds into account that were found, and what is recorded of them."""
        self.profile |= profile
        self.bounds |= {i: clip.bounds for i, clip in found.items()}
        self.cut |= {i: clip.cut for i, clip in found.items() if clip.cut.known}


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


def recorded_statement(charge: Charge) -> Statement:
    """Return the statement that was charged for."""
    return statement_from_json(charge.plan["statement"])
