"""What a plan says beyond one error: an error for each of several aggregates, and what thresholds take."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dpnotebook.notebook import formatting
from dpnotebook.notebook.cards.model import Line, line, quiet, strong
from dpnotebook.planner.plan import MANY_ROWS

if TYPE_CHECKING:
    from dpnotebook.planner.plan import Plan, PlannedMeasure

UNKNOWN = "not known yet"  # of an error that depends on bounds which are still to be found
MOST_NAMED = 3  # errors in one line
FOR_ROWS = f" (1 to {MANY_ROWS} rows a unit)"  # of a range: there may be more
MORE_ROWS = "in proportion more if it has more"
MORE_GROUPS = "in proportion more if it is in more"
ONE_ROW = "where everyone has one row, max_rows=1 in protect says so"


def several(plan: Plan) -> bool:
    """Return whether one error does not say it all: there are several, or one is not known beforehand."""
    found = plan.parts
    return len(found) > 1 or any(not math.isfinite(part.half_width) for part in found)


def errors(plan: Plan, meaning: str) -> list[Line]:
    """Return the error of every aggregate, a line each, and below them what the errors mean."""
    found = [
        line(f"{_title(part)}:", strong(_error(part)), quiet(_note(part, plan)), name="error") for part in plan.parts
    ]
    return [*found, *derived(plan), line(quiet(meaning), name="meaning")]


def derived(plan: Plan) -> list[Line]:
    """Return the errors of what a statement works out, a line each, where releases tell them."""
    found: tuple[PlannedMeasure, ...] = getattr(plan, "derived", tuple)()
    return [
        line(f"{_title(part)}:", strong(_error(part)), quiet(part.note and f"· {part.note}"), name="worked out")
        for part in found
    ]


def in_short(plan: Plan, most: int = MOST_NAMED) -> str:
    """Return the error of a plan in a few words, such as `±31 rows`; of a statement, those of its first aggregates."""
    found = plan.parts
    if not several(plan):
        return f"±{formatting.error(plan.error)} {plan.unit}"
    named = [f"{part.name} {_error(part)}{FOR_ROWS * _goes_by_rows(part)}" for part in found[:most]]
    return ", ".join(named) + (f" and {len(found) - most} more" if len(found) > most else "")


def of_what(plan: Plan) -> str:
    """Return which of several aggregates the errors at other prices are of; empty where there is one."""
    lead = next((part for part in plan.parts if math.isfinite(part.half_width)), None)
    return lead.name if lead is not None and len(plan.parts) > 1 else ""


def bounded(plan: Plan) -> bool:
    """Return whether the errors of a plan leave out what bounds on contributions do: of a statement by itself."""
    return getattr(plan, "delta_left", None) is not None


def threshold_line(plan: Plan) -> str:
    """Return what the thresholds of a statement take of delta; empty where it has none."""
    taken = getattr(plan, "threshold_delta", 0)
    if not taken or plan.free:
        return ""
    left = getattr(plan, "delta_left", None)
    of = "" if left is None else f" of the {formatting.left(float(left))} that is left for thresholds"
    return f"Hiding small groups takes δ {formatting.cost(float(taken))}{of}"


def short_of_delta(plan: Plan) -> str:
    """Return that the thresholds of a statement take more delta than is left; empty where they do not."""
    taken, left = getattr(plan, "threshold_delta", 0), getattr(plan, "delta_left", None)
    if left is None or taken <= left:
        return ""
    return (
        f"Not enough delta: hiding small groups needs δ {formatting.cost(float(taken))}, and "
        f"{formatting.left(float(left))} of what the budget keeps for thresholds is left"
    )


def _title(part: PlannedMeasure) -> str:
    return part.words if part.words == part.name else f"{part.name} = {part.words}"


def _error(part: PlannedMeasure) -> str:
    if math.isfinite(part.half_width):
        return f"±{formatting.error(part.half_width)} {part.unit}".rstrip()
    if part.between is None:
        return UNKNOWN
    if part.reach is not None:
        each = _each(part.reach[0])
        ends = dict.fromkeys(formatting.error(end * each / part.reach[0]) for end in part.between)
        return (
            f"{' to '.join(f'±{end}' for end in ends)} {part.unit}".rstrip() + f" for each {each:,.6g} {part.reach[1]}"
        )
    low, high = map(formatting.error, part.between)
    return (f"up to ±{high} {part.unit}" if part.may_be_less else f"±{low} to ±{high} {part.unit}").rstrip()


def _each(reach: float) -> float:
    """Return a power of ten, a hundredth to a tenth of how far declared values reach."""
    return float(10.0 ** (math.ceil(math.log10(reach)) - 2))


def _goes_by_rows(part: PlannedMeasure) -> bool:
    """Return whether an error is known only as far as that of units with few rows, to which it is in proportion."""
    return part.between is not None and part.between[0] != part.between[1]


def _note(part: PlannedMeasure, plan: Plan) -> str:
    """Return what an error rests on, where it does not for every aggregate: else the card says it once."""
    notes = {other.note for other in plan.parts}
    said = part.note if len(notes) > 1 else ""
    if part.between is None:
        found = [part.hint, said]
        return f"· {'; '.join(filter(None, found))}" if any(found) else ""
    depends = f"· the least if one unit has 1 row, the most if it has {MANY_ROWS}, {MORE_ROWS}"
    by_rows = not any(one.contribution.kind == "groups" for one in getattr(plan, "measurings", ()))
    if not by_rows:
        low, high = part.between
        groups = min(round(high / low), MANY_ROWS) if low else MANY_ROWS  # or all that there are
        depends = f"· the least if one unit is in 1 group, the most if it is in {groups}"
        depends += f", {MORE_GROUPS}" if groups == MANY_ROWS else ""
    if part.reach is not None:
        most = f"between which values they lie is found at the first run: at most ±{formatting.error(part.between[1])}"
        depends = f"{depends}; {most}" if _goes_by_rows(part) else f"· {most}"
    elif part.may_be_less and not _goes_by_rows(part):
        depends = "if values lie anywhere in what is declared; less where they lie closer together"
    elif part.may_be_less:
        least = formatting.error(part.between[0])
        depends = (
            f"if one unit has {MANY_ROWS} rows (±{least} if it has 1, {MORE_ROWS}); less where values lie well inside "
            "their bounds"
        )
    of_one = ONE_ROW if by_rows and _goes_by_rows(part) and (part.reach is not None or not part.may_be_less) else ""
    return "; ".join(filter(None, [depends, of_one, said]))
