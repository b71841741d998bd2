"""An error whose price is not known yet: a small first look finds it, and then it is paid, up to what was agreed to.

How wrong a mean or a sum over people with many rows will be depends on what nobody has said: where values lie, and how
much one person adds. The first look is the statement itself for a small epsilon. Its answer is a release like any
other, and what it finds tells about how much the error will cost. A small look tells a far larger price only roughly.
So no step costs more than `STEP` times the one before, and all steps before the last cost a third of it at most.

An error of a count or a sum is one of noise, and what bounds take comes on top in the intervals that are shown. These
are brought within the error too, as far as what was agreed to allows.

Some errors have a price that is known: that of noise for as many rows as one unit may have. It is often far too high,
as most units have few rows, and a look may find a lower one. At that lower price the error includes what bounds take
from the answer. Where looks did not keep the error, the known price is paid after all, at which bounds take nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from dpnotebook.errors import AccuracyError, DPError
from dpnotebook.ledger import Ledger, Record
from dpnotebook.planner.plan import KEPT, BudgetState, Plan, Rest
from dpnotebook.planner.quantile_errors import NothingTells, is_of_quantiles
from dpnotebook.query.question import Accuracy
from dpnotebook.session.query import Look, Query, is_free
from dpnotebook.sql.aggregates.quantiles import OF_RANK
from dpnotebook.sql.statement import Statement
from dpnotebook.views import digits

if TYPE_CHECKING:
    from dpnotebook.session.release import Release

LOOK = 200  # the first look costs one part in so many of the budget
WORTH = 8  # a known price of at least so many first looks is worth a look, where norms may be found that make it lower
# At most one part in so many of the budget is paid for an error whose price is not known when it is agreed to. Where no
# norms are to be found, a known price is worth a look from there on.
MOST = 4
BESIDE = 2  # at most one part in so many of a known price is paid for looks that may find a lower one
STEP = 4  # a step costs at most so many times what the step before did
STEPS = 12  # more are never taken
# A look is worth its price where noise for as many rows as are declared is at least so many times that for units of ten
# rows, at the same price.
FARTHER = 5
HOPELESS = 8  # no further step is taken towards a price that seems to be more than so many times what is left
TELLS = 16  # as far as a step tells that was at least one part in so many of what is left: noise hides it from others
NEARLY = 0.995  # of what is left: epsilons are written with three digits
LAST = 1.5  # what is left is paid at once where it is worth at least so many times the last step
MISSED = 2  # after an error was missed, at least so many times as much is paid next
ALL_HIDDEN = "no group is shown, so nothing tells what would keep it. An epsilon= of more shows smaller groups"
BARELY = 1.01  # times what is known: the price of what nobody would have to pay, if what is known showed a group
MOST_HIDDEN = 2  # steps that show no group: the second has the price that the first told
NOISE_IS = " with what bounds take, and noise alone is within it"
DAY = timedelta(days=1)  # in which errors of dates are counted

Decide = Callable[[Accuracy], Query]


def with_look(query: Query, decide: Decide, most: float | None) -> Query:
    """Return a query for an error with a first look, where its price is not known, or may be far lower.

    Parameters
    ----------
    query
        For an error.
    decide
        Gives the query for another accuracy, without a look.
    most
        The epsilon that one question may take; None where only the budget bounds it.
    """
    if (query.accuracy.error is None and query.accuracy.relative is None) or query.fresh:
        return query
    accountant, remaining = query.session.ledger.accountant, query.session.ledger.remaining
    plan: Plan | None = None
    try:
        plan = query.plan
    except DPError as refused:
        if not _can_be_kept(query, refused):
            return query
    if plan is not None and plan.free:
        return query
    units, dear = accountant.total // LOOK, accountant.total // MOST
    limit = remaining if most is None else min(remaining, accountant.units(most))
    ceiling = min(dear, limit)
    if plan is not None and (least := _hiding_all(query, decide)) is not None:
        return replace(_answered_by(query, least), look=Look(least, 0, decide, None))
    known = plan is not None and not _is_of_usual_groups(plan)
    if plan is not None and known:
        if (first := _looking_anew(query, decide, ceiling)) is not None:
            return replace(_answered_by(query, first), look=Look(first, ceiling, decide, None))
        if plan.cost.units < (units * WORTH if accountant.law.euclidean else dear):
            return _going_on(query, decide, ceiling)
        if plan.affordable:
            ceiling = min(plan.cost.units + plan.cost.units // BESIDE, limit)
    certain = known and plan is not None and plan.affordable and not _is_bounded(query)
    sure = replace(query, route=None) if certain else None
    while units * STEP <= ceiling - (0 if sure is None else sure.plan.cost.units):
        first = _at(query, decide, units)
        if sure is not None and first is not None and not _may_be_less(first, sure, dear):
            break
        if first is not None and (
            _finds_more(first.plan)
            or (plan is None and _tells_more(first, query.accuracy.relative is not None))
            or (plan is not None and not known and not first.plan.free)
        ):
            return replace(_answered_by(query, first), look=Look(first, ceiling, decide, sure))
        if not known and first is not None and is_free(other := _answered_by(query, first)):
            return other
        if known or first is None:
            break  # a price is known, and no look finds a lower one
        units *= STEP  # what is known was found with much noise
    return query


def _going_on(query: Query, decide: Decide, most: int) -> Query:
    """Return a query whose price is known from earlier looks: these leave bounds as rough as they were.

    What bounds take comes on top of the noise, as after a first look; so what keeps the noise is a first step here.
    """
    plan = query.plan
    if not _is_bounded(query) or not plan.affordable or plan.forbidden or MISSED * plan.cost.units > most:
        return query
    return replace(query, look=Look(query, most, decide, None))


def _looking_anew(query: Query, decide: Decide, most: int) -> Query | None:
    """Return a look that finds bounds anew, where a price is known from bounds that are far too rough for it.

    For such a price others would be found, with which less noise may do, and which take less from the answer. None
    where those that are known serve, or no look is cheaper.
    """
    plan = query.plan
    if not _is_bounded(query):
        return None
    at_price = _at(query, decide, min(plan.cost.units, most))
    if at_price is None or not _finds_more(at_price.plan):
        return None
    units = query.session.ledger.accountant.total // LOOK
    while units * STEP <= most and units < plan.cost.units:
        first = _at(query, decide, units)
        if first is not None and _finds_more(first.plan):
            return first
        units *= STEP
    return None


def _answered_by(query: Query, first: Query) -> Query:
    """Return a query as the one for another accuracy is understood."""
    return replace(query, question=first.question, statement=first.statement)


def _at(query: Query, decide: Decide, units: int) -> Query | None:
    """Return a query for a price in units, if that can be paid; None where it cannot, or nothing is measured."""
    epsilon = float(f"{query.session.ledger.accountant.epsilon(units):.3g}")
    try:
        found = decide(Accuracy(epsilon, confidence=query.accuracy.confidence))
        plan = found.plan
    except DPError:
        return None
    return found if plan.affordable and not plan.forbidden else None


def _hiding_all(query: Query, decide: Decide) -> Query | None:
    """Return what answers a query for nothing about as well, where a threshold hides every group there; else None."""
    asked = query.question
    if not isinstance(asked, Statement) or all(key.levels is not None for one in asked.selects for key in one.keys):
        return None
    least = _at(query, decide, round(query.plan.units / BARELY))
    if least is None or least.plan.recorded is None:
        return None
    found = query.session.ledger.charged(least.plan.recorded)
    hides = isinstance(found, Record) and not any(one["keys"] for one in found.details["selects"])
    return least if hides else None


def _finds_more(plan: Plan) -> bool:
    """Return whether a plan finds what its errors depend on; and all are in one unit, as no error holds for two."""
    kinds = {part.unit or "plain numbers" for part in plan.parts if part.unit != OF_RANK}  # of rank until it is known
    hidden = [part for part in plan.parts if math.isnan(part.half_width)]
    return not plan.free and len(kinds) <= 1 and bool(hidden)


def _is_of_usual_groups(plan: Plan) -> bool:
    """Return whether a plan is for groups of a usual size: how large they are decides about the price."""
    from dpnotebook.sql.plan import StatementPlan

    return isinstance(plan, StatementPlan) and plan.usual_groups


def _is_of_quantiles(query: Query) -> bool:
    """Return whether quantiles are asked for: what keeps their errors is foretold by where values are known to lie."""
    from dpnotebook.sql.aggregates.catalogue import function_of

    if isinstance(query.question, Statement):
        return any(function_of(one.kind).levelled for select in query.question.selects for one in select.aggregates)
    return is_of_quantiles(query.question)


def _is_bounded(query: Query) -> bool:
    """Return whether bounds that are found take something from the answer, which comes on top of its noise."""
    from dpnotebook.sql.plan import said_of_error

    asked = query.question if isinstance(query.question, Statement) else None
    return asked is not None and bool(said_of_error(asked, query.accuracy.text))


def _may_be_less(first: Query, sure: Query, dear: int) -> bool:
    """Return whether a look may find a lower price that is worth what the look costs.

    Where bounds take something from the answer, that has to be small too. It hardly can be told to be for less than ten
    times the price of noise alone, so that the error is judged as if each unit had ten rows.

    Parameters
    ----------
    first, sure
        The look, and what is paid without.
    dear
        What is dear at any rate, in the accountant's units.
    """
    if not _is_bounded(first) or sure.plan.cost.units >= dear:
        return True
    times = math.sqrt(sure.plan.cost.units / first.plan.cost.units)
    return all(part.between[1] * FARTHER <= sure.plan.error * times for part in first.plan.parts if part.between)


def _can_be_kept(query: Query, refused: DPError) -> bool:
    """Return whether an error can hold for what a query shows, whose plan was refused because of what is not known yet.

    It cannot for several units, nor for values with no end, nor where levels of a column are wider.
    """
    from dpnotebook.sql.prices import check_target

    if not isinstance(query.question, Statement):
        unknown = query.accuracy.relative is not None or isinstance(refused, NothingTells)
        return unknown or not is_of_quantiles(query.question)
    if _is_worked_out(query):
        return True
    try:
        check_target(query.question, query.accuracy)
    except AccuracyError:
        return False
    return True


def _tells_more(query: Query, relative: bool) -> bool:
    """Return whether a query is measured and tells on what its errors depend: what is shown is worked out, or read off.

    Quantiles are off by as much as their values lie apart there; a relative error is one of how large answers are.
    """
    return not query.plan.free and (relative or _is_of_quantiles(query) or _is_worked_out(query))


def _is_worked_out(query: Query) -> bool:
    """Return whether the statement of a query shows something else than multiples of what is measured."""
    from dpnotebook.session.shown_errors import worked_out

    asked = query.question if isinstance(query.question, Statement) else None
    return asked is not None and None in worked_out(asked)


def said_of_rest(plan: Plan, look: Look, accuracy: Accuracy, ledger: Ledger) -> Plan:
    """Return the plan of a first look, with what may be paid after it."""
    accountant = ledger.accountant
    sure = None if look.sure is None else look.sure.plan.cost.units / accountant.total
    rest = Rest(accuracy.text, accountant.epsilon(look.most), look.most / accountant.total, sure)
    from dpnotebook.sql.plan import said_of_error

    said = said_of_error(plan.question, accuracy.text) if sure is None and isinstance(plan.question, Statement) else ()
    return replace(plan, rest=rest, warnings=(*plan.warnings, *said))


def answered(query: Query, run: Callable[[Query], Release]) -> Release:
    """Return the answer of a query with a first look: look, then pay for the error that was asked for; see `Query.run`.

    Parameters
    ----------
    query
        With a look.
    run
        Charges for a query, measures, records and reveals.
    """
    assert query.look is not None
    look = query.look
    paid, last = _units(look.first), look.first.plan.units
    release = run(_as(query, look.first))
    numbers, why, missed, kept, short = [release.number], "", False, False, False
    hidden = 0 if len(release.frame) else 1 if paid else MOST_HIDDEN  # steps in a row
    for _ in range(STEPS):
        if look.sure is None and hidden >= MOST_HIDDEN:
            why = ALL_HIDDEN
            break
        left = look.most - paid - (0 if look.sure is None else _units(look.sure))
        found = _worth(query, look, last, left, release) if short else _next(query, look, last, left, missed)
        certain = look.sure is not None and not isinstance(found, Query)
        step = look.sure if certain else found
        if not isinstance(step, Query):
            why = step or ""
            break
        price, last = _units(step), step.plan.units
        release = run(_as(query, step))
        paid += price
        hidden = 0 if len(release.frame) else hidden + 1
        if release.number not in numbers:
            numbers.append(release.number)
        missed = step.accuracy.epsilon is None  # until what it delivered answers for nothing
        if certain or not price:
            kept = _holds(release, query)
            if certain or kept:
                break
        short = not price
    return _told(query, release, numbers, "" if kept else _why_missed(query, look, release, why), paid)


def _why_missed(query: Query, look: Look, release: Release, why: str) -> str:
    """Return why the error is not kept, in words, given why nothing more was paid; empty where it is kept."""
    if why == ALL_HIDDEN:
        return why
    if why and _farthest(release) <= KEPT * _error(query, release):
        return ""
    if why or look.sure is not None:
        return f"{why or _reach(release)}. Asked again, its price is planned anew"
    return _reach(release) + ("" if _is_of_quantiles(query) else NOISE_IS)


def with_reach(query: Query, release: Release) -> Release:
    """Return the answer to a query without a look, and whether its error holds for the noise alone."""
    if query.accuracy.error is None or not _is_bounded(query) or _holds(release, query):
        return release
    said = f"{query.accuracy.text} is not kept: {_reach(release)}{NOISE_IS}. An epsilon= of more finds bounds anew"
    return replace(release, notes=(*release.notes, said))


def _as(query: Query, step: Query) -> Query:
    """Return a step of a query, which shows and checks what that does."""
    return replace(step, guard=query.guard, shown=query.shown)


def _units(query: Query) -> int:
    """Return what a query costs as the ledger stands."""
    plan = query.plan
    return 0 if plan.free else plan.cost.units


def _next(query: Query, look: Look, last: int, left: int, missed: bool) -> Query | str:
    """Return the query that is paid next, or one that what is known answers for nothing, or why nothing more is paid.

    The next step is the error itself where its price is known well enough: where it is no more than `STEP` times the
    last step, or where a step between would leave too little for it. After a step that missed the error it is at least
    `MISSED` times that step. Elsewhere a step between is paid, that finds more. Making a release sharper costs less
    than the sharper release is worth, so steps are compared by what they are worth. Nothing more is paid where the
    error takes far more than is left.

    Parameters
    ----------
    query, look
        What was asked.
    last
        What the answer to the last step is worth, in the accountant's units.
    left
        What may be paid, where something is sure beside its price.
    missed
        Whether the last step was planned to keep the error.
    """
    accountant = query.session.ledger.accountant
    needs = math.inf
    try:
        step = look.decide(query.accuracy)
        plan = step.plan
        if plan.free:
            return step
        needs = plan.cost.units
        least = MISSED * last if missed else last  # what was less did not keep it
        fits = needs <= left and plan.affordable and not plan.forbidden
        nothing_between = 2 * STEP * last > left  # that would tell more, and leave enough
        if least <= plan.units and fits and (plan.units <= STEP * last or nothing_between):
            return step
    except DPError as error:
        why = str(error)
    else:
        why = (
            f"{query.accuracy.text} needs {100 * needs / accountant.total:.3g}% of the budget "
            f"(ε {accountant.epsilon(round(needs)):.3g}) as far as is known now, more than was agreed to"
            if needs > left
            else f"what {query.accuracy.text} takes is still told too roughly"
        )
    worth = (MISSED if needs < MISSED * last else STEP) * last
    while 2 * worth <= left:
        rung = _at(query, look.decide, worth)
        if rung is not None and not rung.plan.free:
            return why if math.isfinite(needs) and _is_hopeless(needs, left, last, rung) else rung
        worth *= MISSED  # what is known is as good as that already
    return why


def _worth(query: Query, look: Look, last: int, left: int, release: Release) -> Query | None:
    """Return a step that is worth more than the last one and leaves as much as it takes; None where none does.

    The last one takes all that is left, which finds bounds better than a part of it would. None where intervals reach
    so far that far more would not do: they become shorter as noise does, or faster, as bounds that noise hid are found.
    What a small step tells of that is no reason.
    """
    needs = 0.0
    if look.sure is None:
        error = _error(query, release)
        times = _farthest(release) / error if error > 0 else math.inf
        needs = last * times**query.session.ledger.accountant.law.power
    steps = [(worth * last, left // 2) for worth in (STEP, MISSED)]
    if look.sure is None and LAST * last <= left:
        steps.append((round(NEARLY * left), left))
    for units, most in steps:
        rung = _at(query, look.decide, units)
        finds = rung is not None and (_is_bounded(rung) or _is_of_quantiles(rung))
        if rung is not None and finds and not rung.plan.free and _units(rung) <= most:
            return None if _is_hopeless(needs, left, last, rung) else rung
    return None


def _is_hopeless(needs: float, left: int, last: int, rung: Query) -> bool:
    """Return whether an error seems to take far more than is left, as far as the last step tells that.

    Parameters
    ----------
    needs, left, last
        What it seems to take, what may be paid, and what the answer to the last step is worth.
    rung
        What would be paid next: where that finds bounds anew, a small step tells little of what these will be.
    """
    return needs > HOPELESS * left and left <= (STEP if _finds_more(rung.plan) else TELLS) * last


def _holds(release: Release, query: Query) -> bool:
    """Return whether the intervals of what a release shows keep the error, all that bounds take included."""
    from dpnotebook.session.shown_errors import worked_out

    if query.statement is not None and None in worked_out(query.statement):
        return True  # it was foretold of what is worked out, and not of this
    return _farthest(release) <= KEPT * _error(query, release)


def _error(query: Query, release: Release) -> float:
    """Return the error that a query is to keep: of a relative one by what a release tells; 0 where nothing does."""
    from dpnotebook.session.shown_errors import size_shown

    accuracy = query.accuracy
    error = accuracy.error if accuracy.relative is None else accuracy.relative * size_shown(release)
    return 0.0 if error is None or math.isnan(error) else error


def _reach(release: Release) -> str:
    """Return how far the longest interval of what a release shows reaches, in words."""
    far = _farthest(release)
    return f"intervals reach ±{digits(far, 4)}" if math.isfinite(far) else "an interval has no end"


def _farthest(release: Release) -> float:
    """Return half of the length of the longest interval that a release shows."""
    from dpnotebook.session.shown_errors import with_intervals

    frame = release.frame
    lengths = [(frame[f"{name}upper"] - frame[f"{name}lower"]).max() for name in with_intervals(release)]
    widths = [(one / DAY if isinstance(one, timedelta) else float(one)) / 2 for one in lengths]
    return max((one for one in widths if one == one), default=math.inf)


def _told(query: Query, release: Release, numbers: list[int], why: str, paid: int) -> Release:
    """Return the last release of several steps, with what all of them took, and why the error is not kept if it is not.

    Parameters
    ----------
    query, release
        What was asked, and what answers it.
    numbers
        Of all releases of it.
    why
        Why the error is not kept; empty where it is.
    paid
        For all of them, in the accountant's units.
    """
    ledger, asked = query.session.ledger, query.accuracy.text
    notes = []
    if len(numbers) > 1:
        notes.append(f"{asked} took {len(numbers)} steps, releases {', '.join(f'#{number}' for number in numbers)}")
    if why:
        notes.append(f"{asked} is not kept, and nothing more was spent: {why}")
    budget = BudgetState.around(ledger.accountant, ledger.spent - paid, paid)
    return replace(release, notes=(*release.notes, *notes), paid=ledger.accountant.epsilon(paid), budget=budget)
