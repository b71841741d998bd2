"""What a statement will cost and how wrong its answers will be, decided before anything runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from dpnotebook.errors import AccuracyError, SQLError
from dpnotebook.planner.plan import (
    BESIDE_ERROR,
    FACTORS,
    Action,
    Alternative,
    BudgetState,
    Comparisons,
    Cost,
    Plan,
    PlannedMeasure,
)
from dpnotebook.query.question import Accuracy
from dpnotebook.sql.aggregates.budget_split import (
    averages_units,
    cost_of_finding,
    counts_values,
    has_range,
    needs_bounds,
    shares,
)
from dpnotebook.sql.aggregates.builder import Bounds
from dpnotebook.sql.aggregates.catalogue import function_of
from dpnotebook.sql.aggregates.counted_rows import CountedRows
from dpnotebook.sql.aggregates.expected import error_shown, expected, steps, taken_told, warnings
from dpnotebook.sql.aggregates.function import USUAL_ROWS, KnownGroups
from dpnotebook.sql.aggregates.measuring import Measuring
from dpnotebook.sql.aggregates.taken import Taken
from dpnotebook.sql.analysis.contributions import MOST_ROWS
from dpnotebook.sql.group_weights import GroupWeights
from dpnotebook.sql.known_values import known_values
from dpnotebook.sql.prices import Finding, Price, Priced, SelectGroups, StatementBooks, cost_of, price, split, units_for
from dpnotebook.sql.profile import Clip, Norms, certain_clips, known_norms, seeks_weights, with_known_weights
from dpnotebook.sql.profile_keys import profile_keys, weights_key
from dpnotebook.sql.reuse.groups import assumed, known_groups
from dpnotebook.sql.reuse.known import AnsweredSelect, Answers, answered, answers, best_known, planned_measures
from dpnotebook.sql.reuse.outlines import outline
from dpnotebook.sql.reuse.possible import possible_levels
from dpnotebook.sql.reuse.sharper import Sharper, sharper
from dpnotebook.sql.rows_profile import rows_key
from dpnotebook.sql.select import PrivateSelect
from dpnotebook.sql.statement import Relation, Statement
from dpnotebook.sql.values_profile import finds_values
from dpnotebook.views import digits

LITTLE = 1000  # what is missing of a price, where it is less than one part of so many, is not offered
FIND = (
    "find first how many {0} of one unit to let count, with a tenth to a quarter of the cost: a noisy histogram that "
    "counts each unit once. Later statements {1} use what it found for nothing"
)
OF_UNITS = "add up the rows of each unit, all of which count, and measure that: contribution='rows' draws rows instead"
FIND_ROWS, FIND_GROUPS = FIND.format("rows", "over the same rows"), FIND.format("groups", "by the same groups")


@dataclass(frozen=True, repr=False)
class StatementPlan(Plan):
    """A plan whose question is a statement.

    Parameters
    ----------
    shares
        The units of each private aggregation.
    deltas
        What the threshold of each takes of the delta that is kept for thresholds.
    delta_left
        What is left of that before the statement.
    clips
        Of each private aggregation, to what vectors are clipped whose norms were measured before, by the numbers of
        the aggregates.
    profiles
        By what the parts of a profile will be found that this statement measures.
    values
        Of each private aggregation, between which values most rows were found to lie before.
    cuts
        Of each private aggregation, what bounds of values that were found before take from its answers.
    measurings
        What is measured for each private aggregation; none where a release answers the statement.
    derived
        Gives the errors of the columns that the statement works out, where releases tell them.
    sharper
        The release that is made sharper; None where the statement is measured by itself, or a release answers it.
    rows
        Of each private aggregation, how many rows of a unit count, as was found before.
    keeps_sample
        Whether the rows of units that count are those that count whenever the statement is asked again.
    weights
        Of each private aggregation, by what is multiplied what units have in groups, as was found before.
    usual_groups
        Whether errors are those of groups of a usual size, as nothing tells how large they are.
    """

    shares: tuple[int, ...] = ()
    deltas: tuple[Fraction, ...] = ()
    delta_left: Fraction = Fraction(0)
    clips: tuple[Mapping[int, Clip], ...] = ()
    profiles: tuple[str, ...] = ()
    values: tuple[Mapping[int, Bounds], ...] = ()
    cuts: tuple[Mapping[int, Taken], ...] = ()
    measurings: tuple[Measuring, ...] = field(default=(), compare=False)
    derived: Callable[[], tuple[PlannedMeasure, ...]] = field(default=tuple, compare=False)
    sharper: Sharper | None = field(default=None, compare=False)
    rows: tuple[CountedRows | None, ...] = ()
    keeps_sample: bool = True
    weights: tuple[GroupWeights | None, ...] = ()
    usual_groups: bool = False

    @property
    def free(self) -> bool:
        """Whether a recorded release answers the statement at no cost."""
        return self.recorded is not None

    @property
    def refines(self) -> tuple[tuple[int, int], ...]:
        """The release whose noise is drawn on, and the place in it: of Gaussian noise none is."""
        one = self.sharper
        return () if one is None or not one.after.law.refines else ((one.known.number, one.known.place),)

    @property
    def threshold_delta(self) -> Fraction:
        """What all thresholds take of the delta that is kept for them."""
        return sum(self.deltas, Fraction(0))


def make_statement_plan(
    statement: Statement,
    accuracy: Accuracy,
    relations: Mapping[str, Relation],
    books: StatementBooks,
    *,
    fresh: bool = False,
    rows: float | None = None,
    declared: Callable[[], KnownGroups | None] = lambda: None,
) -> StatementPlan:
    """Return what a statement costs, how wrong its answers will be, and what each private aggregation gets.

    Parameters
    ----------
    statement, accuracy
        What is asked, and how good the answer must be or what it may cost.
    relations
        What is public about the tables.
    books
        The budget and the record of past answers.
    fresh
        Measure anew although a recorded release answers the statement.
    rows
        About how many rows a group has; what releases tell, or else the tables say, when None.
    declared
        Tells how large the groups are where their keys and the conditions are declared, as all releases tell together.

    Raises
    ------
    AccuracyError
        If the accuracy cannot be planned for.
    SQLError
        If groups are not known beforehand and the budget has no delta for them, or shares pass the whole.
    """
    asking = _AskedStatement.of(statement, accuracy, relations, books, rows, declared)
    try:
        least = asking.least_price()
    except AccuracyError:
        reusing = None if fresh else _reusing_plan(asking, None, lambda: None)
        if reusing is None:
            raise
        return reusing
    if fresh:
        return _measuring_plan(asking, least, fresh=True)
    if least.units < (before := _paid_for_error(asking)):
        least = asking.least_price(before)
    if (repeated := _repeated_plan(asking, least.units)) is not None:
        return repeated

    def afresh() -> Plan:
        statement = asking.statement
        return make_statement_plan(statement, accuracy, relations, books, fresh=True, rows=rows, declared=declared)

    reusing = _reusing_plan(asking, least.units, afresh)
    return _measuring_plan(asking, least, fresh=False) if reusing is None else reusing


@dataclass(frozen=True)
class _AskedStatement:
    """A statement that is planned, and what is known of it.

    Parameters
    ----------
    statement, accuracy, books
        As for `make_statement_plan`; the statement has the weights of groups that were found before.
    groups
        About how many values the groups of each aggregate have.
    norms
        What is known of the norms of each private aggregation.
    among
        Finds the recorded answers that may serve; once, whoever asks.
    """

    statement: Statement
    accuracy: Accuracy
    books: StatementBooks
    groups: SelectGroups
    norms: Sequence[Mapping[int, Norms]]
    among: Answers

    @classmethod
    def of(
        cls,
        statement: Statement,
        accuracy: Accuracy,
        relations: Mapping[str, Relation],
        books: StatementBooks,
        rows: float | None,
        declared: Callable[[], KnownGroups | None],
    ) -> _AskedStatement:
        """Return what is asked with what is known of it; parameters as for `make_statement_plan`."""
        selects = tuple(with_known_weights(select, books) for select in statement.selects)
        statement = replace(statement, selects=selects)
        groups = _groups(statement, relations, books, rows, declared)
        # An epsilon pays for finding its own; an error has to be known before.
        norms = [known_norms(select, books, wider=accuracy.epsilon is None) for select in selects]
        return cls(statement, accuracy, books, groups, norms, cache(lambda: tuple(answers(statement, books))))

    def least_price(self, *lowest: int) -> Price:
        """Return the least price at which it is as accurate as asked, from the `lowest` on; see `units_for`."""
        return units_for(self.statement, self.accuracy, self.books, self.groups, self.norms, *lowest)

    def priced(self, at: Price) -> Priced:
        """Return what each private aggregation gets of a price, and the errors that gives; see `price`."""
        confidence = self.accuracy.confidence
        return price(self.statement, at.units, self.books, confidence, self.groups, self.norms, at.finding)

    def usual_price(self, units: int) -> Price:
        """Return a price at which no more is found anew than usual."""
        return Price(units, Finding.usual(self.accuracy))

    @property
    def depends_on_price(self) -> bool:
        """Whether bounds that data tell are chosen by the price, so that they, and errors, change with it."""
        selects = self.statement.selects
        found = any(self.norms) or finds_values(self.statement) or any(select.rows_if_hidden for select in selects)
        return found or self.averages_units

    @property
    def averages_units(self) -> bool:
        """Whether it asks for averages of what each unit has, whose bounds are found."""
        selects = self.statement.selects
        return any(averages_units(select, i) for select in selects for i in range(len(select.aggregates)))


def _paid_for_error(asking: _AskedStatement) -> int:
    """Return the most that was paid before for this statement by its error: it was not kept, and less would not do.

    That is so whatever is foretold by now. 0 where nothing that bounds what units add is known, and for an epsilon.
    """
    statement = asking.statement
    known = any(asking.norms) or asking.averages_units
    if asking.accuracy.error is None or not known or len(statement.selects) > 1:
        return 0
    return max((one.units for one in asking.books.told(statement.key, outline)), default=0)


def _reusing_plan(
    asking: _AskedStatement, units: int | None, afresh: Callable[[], Plan | None]
) -> StatementPlan | None:
    """Return the plan of what the release of another statement answers, or what one that is made sharper does.

    Parameters
    ----------
    asking, units
        What is asked, and the price of measuring it; None where that cannot be foretold.
    afresh
        Makes the plan of measuring it anew, if that can be.

    Returns
    -------
    None where no release serves, or making one sharper takes as much as measuring does.
    """
    statement, accuracy, books = asking.statement, asking.accuracy, asking.books
    other = best_known(statement, accuracy, books, asking.groups, asking.among)
    if other is not None:
        return _answered_plan(asking, other, afresh)
    better = sharper(statement, accuracy, books, asking.groups, asking.among)
    if better is None:
        return None
    whole = None if units is None else sum(split(statement.selects, units, books.accountant))
    return _sharper_plan(asking, better, whole) if whole is None or better.missing < whole else None


def _repeated_plan(asking: _AskedStatement, units: int) -> StatementPlan | None:
    """Return the plan of a statement that a release of the very statement answers; None where none is as good.

    With bounds that the price decides on, only what was delivered tells whether a release keeps an error.
    """
    statement, accuracy, books = asking.statement, asking.accuracy, asking.books
    if accuracy.epsilon is None and len(statement.selects) == 1 and asking.depends_on_price:
        return None
    enough = units if accuracy.epsilon is None else books.accountant.least_units(accuracy.epsilon)
    past = _recorded(statement, sum(split(statement.selects, enough, books.accountant)), books)
    if past is None:
        return None
    number, paid_for = past
    priced = asking.priced(asking.usual_price(paid_for))
    delivered = _delivered(statement, number, books, accuracy)
    parts, beside = delivered or (priced.parts, _warnings(statement, priced, accuracy.confidence))
    return _priced_plan(
        asking,
        priced,
        parts,
        0,
        reused=(number,),
        affordable=True,
        warnings=beside,
        steps=_repeated_steps(number),
        recorded=number,
        values=tuple({} for _ in statement.selects),
        cuts=tuple(map(_cuts_of, priced.clips)),
    )


def _measuring_plan(asking: _AskedStatement, at: Price, *, fresh: bool) -> StatementPlan:
    """Return the plan of measuring a statement by itself.

    Parameters
    ----------
    asking, at
        What is asked, and its price.
    fresh
        As for `make_statement_plan`.
    """
    statement, books = asking.statement, asking.books
    priced = asking.priced(at)
    missing = _missing(statement, priced)
    values = [
        {} if at.finding is Finding.ALL else _known_values(select, missing, books, share, clips)
        for select, share, clips in zip(statement.selects, priced.shares, priced.clips, strict=True)
    ]
    paid = books.price(cost_of(statement, sum(priced.shares), books))
    affordable = books.spent + paid <= books.accountant.total and sum(priced.deltas) <= books.delta_remaining
    return _priced_plan(
        asking,
        priced,
        priced.parts,
        paid,
        reused=(),
        affordable=affordable,
        warnings=_warnings(statement, priced, asking.accuracy.confidence),
        steps=_steps(statement, priced),
        profiles=(
            *(key for select, i in missing for key in profile_keys(select, i)),
            *_weights_sought(statement, priced, books, missing),
            *_rows_sought(statement, priced),
        ),
        rows=priced.rows,
        weights=tuple(select.weights for select in statement.selects),
        keeps_sample=not fresh,
        values=tuple({i: bounds for i, (bounds, _) in known.items()} for known in values),
        measurings=priced.measurings,
        usual_groups=_are_usual(statement, asking.groups),
        cuts=tuple(
            _cuts_of(clips, {i: cut for i, (_, cut) in known.items()})
            for clips, known in zip(priced.clips, values, strict=True)
        ),
    )


def _are_usual(statement: Statement, groups: SelectGroups) -> bool:
    """Return whether errors are those of groups of a usual size, where what units add is found and tells no more."""
    return any(
        function_of(aggregate.kind).sized and known is None and (bool(select.rows_if_hidden) or select.clips(i))
        for select, of in zip(statement.selects, groups, strict=True)
        for i, (aggregate, known) in enumerate(zip(select.aggregates, of, strict=True))
    )


def _priced_plan(
    asking: _AskedStatement, priced: Priced, parts: Sequence[PlannedMeasure], paid: int, **more: Any
) -> StatementPlan:
    """Return the plan of a statement at a price of its own: of what is measured, or was measured for it before."""
    statement, books = asking.statement, asking.books
    total, first, spent = sum(priced.shares), _leading(parts), books.spent

    def prices() -> list[Alternative]:
        chosen = Alternative.at(books.accountant, spent, paid, first.half_width, total, chosen=True)
        return [chosen, *_other_prices(asking, total)]

    return _plan(
        asking,
        parts,
        total,
        paid,
        answers=_answers(statement.selects[0]),
        comparisons=Comparisons(prices),
        assumption="; ".join(dict.fromkeys(part.note for part in parts if part.note)),
        shares=priced.shares,
        deltas=priced.deltas,
        clips=priced.clips,
        **more,
    )


def _plan(
    asking: _AskedStatement,
    parts: Sequence[PlannedMeasure],
    units: int,
    paid: int,
    charged: int | None = None,
    **more: Any,
) -> StatementPlan:
    """Return a plan, of whose aggregates the errors are known as well as they are, and what is special about it.

    Its answer is worth so many units; so many are charged, where that is less.
    """
    statement, accuracy, books = asking.statement, asking.accuracy, asking.books
    accountant, first = books.accountant, _leading(parts)
    said = said_of_error(statement, accuracy.text) if accuracy.error is not None else ()
    more["warnings"] = (*more["warnings"], *said)
    return StatementPlan(
        question=statement,  # type: ignore[arg-type]
        accuracy=accuracy,
        title=statement.words,
        where="",
        unit=first.unit,
        cost=Cost(accountant.epsilon(paid), accountant.delta, paid),
        epsilon=accountant.epsilon(units),
        delta=accountant.delta,
        units=units,
        budget=BudgetState.around(accountant, books.spent, paid),
        std_errors=np.array([first.std_error]),
        error=first.half_width,
        confidence=accuracy.confidence,
        code=statement.code(accuracy.text),
        noise=accountant.noise,
        measurements=(),
        cells=cost_of(statement, units if charged is None else charged, books),
        parts=tuple(parts),
        delta_left=books.delta_remaining,
        **more,
    )


def _weights_sought(
    statement: Statement, priced: Priced, books: StatementBooks, missing: Sequence[tuple[PrivateSelect, int]]
) -> list[str]:
    """Return by what is found how large groups are, of the private aggregations that find norms and do not know it."""
    finding = {id(select) for select, _ in missing}
    return [
        weights_key(select)
        for select, clips in zip(statement.selects, priced.clips, strict=True)
        if id(select) in finding and seeks_weights(select, books, clips)
    ]


def said_of_error(statement: Statement, asked: str) -> tuple[str, ...]:
    """Return what an error holds for, where that is not the interval that is shown: counts and sums that are bounded.

    What bounds take from these is hardly told for less than ten times the price of as little noise.

    Parameters
    ----------
    statement
        What is asked.
    asked
        The error, as it was asked for.
    """
    for select in statement.selects:
        certain = certain_clips(select)
        for i, aggregate in enumerate(select.aggregates):
            found = needs_bounds(select, i, certain) and (select.clips(i) or has_range(select, i))
            if counts_values(select, i) or (
                function_of(aggregate.kind).adds and (found or (bool(select.rows_if_hidden) and not select.clips(i)))
            ):
                return (f"{asked} holds for the noise of counts and sums; {BESIDE_ERROR}",)
    return ()


def least_units(statement: Statement, accuracy: Accuracy, books: StatementBooks) -> float:
    """Return the price of an error, in the accountant's units; infinite where it cannot be planned."""
    statement = replace(statement, selects=tuple(with_known_weights(select, books) for select in statement.selects))
    known = [known_norms(select, books, wider=True) for select in statement.selects]
    try:
        return units_for(statement, accuracy, books, (), known).units
    except AccuracyError:
        return math.inf


def _answered_plan(asking: _AskedStatement, one: AnsweredSelect, afresh: Callable[[], Plan | None]) -> StatementPlan:
    """Return the plan of a statement that the release of another one answers; `afresh` makes that of measuring anew."""
    statement, accuracy, books = asking.statement, asking.accuracy, asking.books
    parts = planned_measures(statement, one, accuracy.confidence, of_noise=accuracy.epsilon is None)
    half_width = _leading(parts).half_width
    chosen = Alternative.at(books.accountant, books.spent, 0, half_width, one.units, chosen=True)
    return _plan(
        asking,
        parts,
        one.units,
        0,
        answers=len(one.keys),
        comparisons=Comparisons(lambda: [chosen], afresh=afresh if one.picked is not None else lambda: None),
        reused=(one.number,),
        picked=one.picked,
        affordable=True,
        assumption="",
        warnings=(),
        steps=one.steps,
        recorded=one.number,
    )


def _sharper_plan(asking: _AskedStatement, one: Sharper, whole: int | None = None) -> StatementPlan:
    """Return the plan of making a release sharper.

    Parameters
    ----------
    asking, one
        What is asked, and the release.
    whole
        The price of measuring it anew; where that is not known, what the sharper release is worth stands for it.
    """
    statement, accuracy, books, groups = asking.statement, asking.accuracy, asking.books, asking.groups
    accountant, select, number = books.accountant, statement.selects[0], one.known.number
    shown = [error_shown(select, i, error, statement.units) for i, error in enumerate(one.errors)]
    parts = tuple(
        PlannedMeasure(
            aggregate.name,
            aggregate.words or aggregate.name,
            counted_in,
            float(np.max(error.std_errors)) if error.std_errors.size else math.nan,
            error.half_width,
            error.note,
        )
        for aggregate, (error, counted_in) in zip(select.aggregates, shown, strict=True)
    )
    first, paid = _leading(parts), books.price(cost_of(statement, one.missing, books))
    anew = one.units if whole is None else whole
    before = expected(one.known.measuring, accuracy.confidence, one.known.counting(groups[0] if groups else ()))
    half_width = before[parts.index(first)].as_shown.half_width
    text = f"makes release #{number} sharper, from ±{digits(half_width, 4)} to ±{digits(first.half_width, 4)}"

    def prices() -> list[Alternative]:
        found = [Alternative.at(accountant, books.spent, paid, first.half_width, one.units, chosen=True)]
        for factor in FACTORS:
            epsilon = float(f"{accountant.epsilon(one.units) * factor:.3g}")
            at_price = Accuracy(epsilon=epsilon, confidence=accuracy.confidence)
            other = sharper(statement, at_price, books, groups, asking.among)
            if other is not None and other.missing * LITTLE > other.units:
                pays = books.price(cost_of(statement, other.missing, books))
                widths = [each.as_shown.half_width for each in other.errors]
                error = next(filter(math.isfinite, widths), math.nan)
                found.append(Alternative.at(accountant, books.spent, pays, error, other.units, chosen=False))
        return found

    return _plan(
        asking,
        parts,
        one.units,
        paid,
        one.missing,
        answers=len(one.known.keys),
        comparisons=Comparisons(prices),
        reused=(number,),
        actions=(Action("refine", text, (number,), accountant.epsilon(one.missing)),),
        without_reuse=Cost(accountant.epsilon(anew), accountant.delta, anew),
        picked=one.known.picked,
        affordable=books.spent + paid <= accountant.total,
        assumption="; ".join(dict.fromkeys(part.note for part in parts if part.note)),
        # Its groups are shown already: what is left to be said is what bounds do.
        warnings=warnings(
            replace(one.after, tau=None), accuracy.confidence, *taken_told(one.known.told, select), select.clamped
        ),
        steps=_sharper_steps(one),
        shares=(one.missing,),
        deltas=(Fraction(0),),
        measurings=(one.after,),
        clips=({},),
        values=({},),
        cuts=({},),
        sharper=one,
    )


def _sharper_steps(one: Sharper) -> tuple[str, ...]:
    number, law = one.known.number, one.after.law
    how = (
        "refine the noise on its numbers: both answers together cost what the sharper one alone would"
        if law.refines
        else f"measure them once more with {law.drawn} noise, and weigh both by how precise they are"
    )
    steps = [f"the same totals as those of release #{number} ({one.known.words}), bounded alike", how]
    if one.after.tau is not None:
        steps.append(
            f"the groups are those that release #{number} shows; fresh=True measures anew, and may show smaller ones"
        )
    return tuple(steps)


def _missing(statement: Statement, priced: Priced) -> list[tuple[PrivateSelect, int]]:
    """Return the aggregates for which a part of a profile has to be measured first: norms, or bounds of values."""
    return [
        (select, i)
        for select, known in zip(statement.selects, priced.clips, strict=True)
        for i in range(len(select.aggregates))
        if needs_bounds(select, i, known)
        and any(is_found(select, i) for is_found in (PrivateSelect.clips, has_range, counts_values, averages_units))
    ]


def _rows_sought(statement: Statement, priced: Priced) -> list[str]:
    """Return by what is found how many rows units have, where that is measured first."""
    both = zip(statement.selects, priced.rows, strict=True)
    return list(dict.fromkeys(rows_key(select) for select, known in both if select.rows_if_hidden and known is None))


def _known_values(
    select: PrivateSelect,
    missing: Sequence[tuple[PrivateSelect, int]],
    books: StatementBooks,
    share: int,
    clips: Mapping[int, Clip],
) -> dict[int, tuple[Bounds, Taken]]:
    """Return between which values rows lie, where norms are still to be measured for it, as suits the noise."""
    found = {i: known_values(one, i, books) for one, i in missing if one is select and select.clips(i)}
    costs = shares(select, share, books.accountant, clips)
    return {
        i: told.suited(select, i, costs, books.accountant)
        for i, told in found.items()
        if told is not None and told.is_enough(cost_of_finding(select, costs, i), books.accountant.law)
    }


def _known(taken: Mapping[int, Taken]) -> dict[int, Taken]:
    return {i: one for i, one in taken.items() if one.known}


def _cuts_of(clips: Mapping[int, Clip], of_values: Mapping[int, Taken] | None = None) -> dict[int, Taken]:
    """Return what bounds of values take from answers, where that is known; `of_values` goes before that of clips."""
    return _known({i: clip.cut for i, clip in clips.items()} | dict(of_values or {}))


def _recorded(statement: Statement, units: int, books: StatementBooks) -> tuple[int, int] | None:
    """Return number and price of the most accurate release of the very statement, if it is as good as asked."""
    key = statement.key
    past = [(one.units, -one.number) for one in books.told(key, outline)]
    past += [(int(one.plan["units"]), -one.number) for one in books.pending() if one.question == key]
    found = [one for one in past if one[0] >= units]
    return (-max(found)[1], max(found)[0]) if found else None


def _delivered(
    statement: Statement, number: int, books: StatementBooks, accuracy: Accuracy
) -> tuple[tuple[PlannedMeasure, ...], tuple[str, ...]] | None:
    """Return how wrong the answers of a release of the statement are, and what may be wrong with them beside noise.

    None while it is not recorded, or hides some.
    """
    recorded = any(one.number == number for one in books.told(statement.key, outline))
    one = answered(statement, books.get(number)) if recorded else None
    if one is None:
        return None
    parts = planned_measures(statement, one, accuracy.confidence, of_noise=accuracy.epsilon is None)
    select = statement.selects[0]
    if not parts or not all(math.isfinite(part.half_width) for part in parts):
        return None
    beside = warnings(one.measuring, accuracy.confidence, *taken_told(one.told, select), select.clamped)
    return parts, tuple(dict.fromkeys([*filter(None, [select.drawn]), *beside]))


def _other_prices(asking: _AskedStatement, total: int) -> list[Alternative]:
    """Return how wrong the answers would be at other prices than `total`, in the accountant's units."""
    statement, books, found = asking.statement, asking.books, list[Alternative]()
    accountant = books.accountant
    for factor in FACTORS:
        try:
            units = accountant.units(Fraction(repr(float(f"{accountant.epsilon(total) * factor:.3g}"))))
            priced = asking.priced(asking.usual_price(units))
        except (AccuracyError, SQLError):  # too little for any noise that can be drawn, or for a threshold
            continue
        whole = sum(priced.shares)
        paid = books.price(cost_of(statement, whole, books))
        error = _leading(priced.parts).half_width
        found.append(Alternative.at(accountant, books.spent, paid, error, whole, chosen=False))
    return found


def _answers(select: PrivateSelect) -> int:
    """Return how many groups there will be; 1 where that is not known beforehand."""
    levels = possible_levels(select)
    return select.groups_of(levels)


def _leading(parts: Sequence[PlannedMeasure]) -> PlannedMeasure:
    """Return the aggregate whose error stands for the statement: the first that is known before it runs."""
    return next((part for part in parts if math.isfinite(part.half_width)), parts[0])


def _groups(
    statement: Statement,
    relations: Mapping[str, Relation],
    books: StatementBooks,
    rows: float | None,
    declared: Callable[[], KnownGroups | None],
) -> SelectGroups:
    """Return about how many values groups have: as somebody says, as releases tell, or else as all rows are shared."""
    if rows is not None:
        return [assumed([None] * len(select.aggregates), rows) for select in statement.selects]
    found: list[Sequence[KnownGroups | None]] = []
    for select in statement.selects:
        known = known_groups(select, books)
        sized = [function_of(aggregate.kind).sized for aggregate in select.aggregates]
        missing = any(one is None and wanted for one, wanted in zip(known, sized, strict=True))
        told = declared() if missing and len(statement.selects) == 1 else None
        if told is not None:
            known = [told if one is None and wanted else one for one, wanted in zip(known, sized, strict=True)]
        found.append(assumed(known, _rows(select, relations)))
    return found


def _rows(select: PrivateSelect, relations: Mapping[str, Relation]) -> float | None:
    """Return about how many rows an average group has, where the owners of the tables have said what tells it.

    Of conditions nobody knows how many rows satisfy them: then a group has no more than is usual.
    """
    known = [count for name in select.tables if (count := relations[name].rows) is not None]
    if not known or None in select.levels:
        return None
    found = max(known) / select.groups_of(select.levels)
    return min(found, USUAL_ROWS) if select.conditions else found


def _warnings(statement: Statement, priced: Priced, confidence: float) -> tuple[str, ...]:
    found = [select.drawn for select in statement.selects if select.drawn]
    for select, rows in zip(statement.selects, priced.rows, strict=True):
        if rows is not None:
            most = select.contribution.most
            more = f"; contribution='rows' lets {most:,} count" if most < MOST_ROWS else ""
            found.append(select.said_of_drawn(f"{rows.words}{more}"))
    for select, measured, known in zip(statement.selects, priced.measurings, priced.clips, strict=True):
        lost = _known({i: clip.moved if clip.moved.known else clip.lost for i, clip in known.items()})
        found += warnings(measured, confidence, lost, _cuts_of(known), select.clamped)
    return tuple(dict.fromkeys(found))


def _steps(statement: Statement, priced: Priced) -> tuple[str, ...]:
    found = []
    for select, measured, rows in zip(statement.selects, priced.measurings, priced.rows, strict=True):
        sought = rows is None and bool(select.rows_if_hidden)
        find = FIND_GROUPS if select.contribution.kind == "groups" else FIND_ROWS
        one_by_one = steps(measured, sought, select.drawn_for)
        if statement.grouped == "units":
            one_by_one = (OF_UNITS, *one_by_one[1:])  # in place of the row of a unit that is kept, which is all of them
        found += [*select.notes, *filter(None, [select.also_counted]), *([find] if sought else []), *one_by_one]
    if statement.outer is not None:
        found.append("the rest of the statement is worked out from the noisy answers, which costs nothing")
    return tuple(dict.fromkeys(found))


def _repeated_steps(number: int) -> tuple[str, ...]:
    return (f"release #{number} in the ledger answers this statement; nothing is measured and nothing is spent",)
