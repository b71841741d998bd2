"""What a cell would cost and how wrong its answer would be, as one line: of a `%%dpsql` cell, or of a call alone.

The planner answers, from the declared domain and the ledger as it is: no row is read, nothing is charged or recorded.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError

from dpnotebook.errors import AccuracyError, DPError
from dpnotebook.notebook import currency, formatting
from dpnotebook.notebook.cards.statement_lines import MOST_NAMED, in_short, several
from dpnotebook.notebook.estimate.expressions import PLAIN, query_in
from dpnotebook.notebook.magics.magics import SAY_HOW_MUCH, find_session
from dpnotebook.planner.plan import BESIDE_ERROR
from dpnotebook.session.session import Session

if TYPE_CHECKING:
    from dpnotebook.notebook.magics.magics import DPMagics
    from dpnotebook.planner.plan import Plan, Rest
    from dpnotebook.session.query import Query, SessionProtocol

CELL = re.compile(r"\s*%%dpsql\b([^\n]*)\n?(.*)", re.DOTALL)
LINE = re.compile(r"\s*(?:[^\W\d]\w*\s*=\s*)?%dpsql\b([^\n]*)\s*")
ONCE_FOUND = "once a first run has found how much one unit adds"  # from units of one row to units of many
FIRST_RUN = "error needs a first run"  # bounds are found from the data then, with a part of what is paid


@dataclass(frozen=True)
class CellEstimate:
    """What there is to say of a cell before it runs; empty where nothing is.

    Parameters
    ----------
    text
        One line: the share of the budget, the error, what is left.
    title
        The same in sentences, for who rests the mouse on it.
    session
        Whose budget it is about.
    shorter
        The line in fewer and fewer words, for where there is no room for it.
    """

    text: str = ""
    title: str = ""
    session: SessionProtocol | None = field(default=None, repr=False, compare=False)
    shorter: tuple[str, ...] = ()


SILENCE = CellEstimate()


def estimate(cell: str, scope: Mapping[str, Any], magics: DPMagics | None) -> CellEstimate:
    """Return the estimate of a cell as it stands, finished or not.

    Parameters
    ----------
    cell
        Its text.
    scope
        The notebook's variables.
    magics
        The magics that are loaded; None before `%load_ext dpnotebook`, when only Python can be told.
    """
    scope = dict(scope)  # at one moment: cells run meanwhile
    try:
        in_sql = CELL.fullmatch(cell) or LINE.fullmatch(cell)
        if in_sql is None:
            return _of_python(cell, scope)
        return SILENCE if magics is None else _of_sql(in_sql, scope, magics)
    except DPError:  # whoever runs the cell is told
        return SILENCE


def _of_python(cell: str, scope: Mapping[str, Any]) -> CellEstimate:
    try:
        query = query_in(cell, scope)
        return SILENCE if query is None else _of_query(query)
    except AccuracyError as error:
        return _hint(str(error))


def _of_sql(found: re.Match[str], scope: Mapping[str, Any], magics: DPMagics) -> CellEstimate:
    """Return the estimate of a statement; what is left of the budget where it is not finished."""
    line, sql = found.group(1), found.group(2) if found.re is CELL else None
    # What is bound is looked at by its type alone, and so nothing else is handed on.
    known = {name: value for name, value in scope.items() if any(type(value) is kind for kind in (*PLAIN, Session))}
    try:
        return _of_query(magics.query(line, sql, known))
    except AccuracyError as error:
        return _hint(str(error))
    except UsageError as error:
        if str(error) == SAY_HOW_MUCH:
            return _hint(SAY_HOW_MUCH.partition(": ")[2])
    except DPError:
        pass
    name = re.search(r"(?:^|\s)(?:-s|--session)[ =]\s*(\w+)", line)
    try:
        session = find_session(name.group(1) if name else None, known)
    except UsageError:
        return SILENCE
    return CellEstimate(f"{_left(session.ledger.spent / session.ledger.accountant.total)} left", session=session)


def _of_query(query: Query) -> CellEstimate:
    plan = query.session.plan(query)
    shorter = text_of(plan, brief=True), text_of(plan, brief=True, named=1)
    return CellEstimate(text_of(plan), title_of(plan), query.session, shorter)


def text_of(plan: Plan, *, brief: bool = False, named: int = MOST_NAMED) -> str:
    """Return a plan in one line: `12% of the budget (ε 0.12) · ±25 rows · 63% left`.

    Parameters
    ----------
    plan
        What to say.
    brief
        Whether to say the price in percent alone.
    named
        How many errors to say at most, where there are several.
    """
    state = plan.budget
    error, left = _error(plan, named), f"{_left(state.spent_fraction)} left"
    share = _percent(plan) if brief else _share(plan)
    if plan.free:
        return f"free · {error} · {left}"
    if plan.forbidden:
        return f"not allowed by the policy: needs {share}, {left}"
    if not plan.affordable:
        return f"not enough budget: needs {share}, {left}"
    if plan.rest is not None:
        return f"{share} for a first look, then at most {_most(plan.rest)} in all for {plan.rest.asked} · {left}"
    return f"{share} · {error} · {left}"


def title_of(plan: Plan) -> str:
    """Return a plan in sentences."""
    state = plan.budget
    left, after = _left(state.spent_fraction), _left(state.spent_fraction + state.cost_fraction)
    hints = "; ".join(dict.fromkeys(part.hint for part in plan.parts if part.hint))
    error = (
        _error(plan) + (f" ({hints})" if hints else "") if _unknown(plan) else f"the error would be {in_short(plan)}"
    )
    sure = "" if _unknown(plan) else f" in {formatting.share(plan.confidence)} cases"
    if plan.free:
        return f"{plan.title}: past answers are enough; {error}{sure}. {left} of the budget is left, before and after."
    if plan.forbidden:
        return f"{plan.title}: it would be refused. The policy does not allow it: {plan.forbidden}."
    if not plan.affordable:
        return f"{plan.title}: this would take {_share(plan)}, and {left} is left. It would be refused."
    if plan.rest is not None:
        return (
            f"{plan.title}: {currency.price_known(plan.rest)}. A first look takes {_share(plan)} and tells it; then "
            f"the rest would be paid, at most {_most(plan.rest)} in all. {left} of the budget is left now. Nothing has "
            f"been spent, and no data was read.{_beside(plan)}"
        )
    return (
        f"{plan.title}: this would take {_share(plan)}; {error}{sure}. {left} of the budget is left now, and {after} "
        f"after it. Nothing has been spent, and no data was read.{_beside(plan)}"
    )


def _beside(plan: Plan) -> str:
    """Return what an error that is asked for does not hold for, as a sentence more; empty where it holds for all."""
    said = next((one for one in plan.warnings if one.endswith(BESIDE_ERROR)), "")
    return f" Note: {said}." if said else ""


def _share(plan: Plan) -> str:
    return f"{_percent(plan)} of the budget (ε {formatting.cost(plan.cost.epsilon)})"


def _percent(plan: Plan) -> str:
    return f"{formatting.rounded(100 * plan.budget.cost_fraction, rounding=ROUND_CEILING)}%"


def _most(rest: Rest) -> str:
    return f"{formatting.rounded(100 * rest.share, rounding=ROUND_CEILING)}%"


def _left(spent: float) -> str:
    return f"{formatting.rounded(100 * max(0.0, 1 - spent), rounding=ROUND_FLOOR)}%"


def _unknown(plan: Plan) -> bool:
    """Return whether no error is known before the data was looked at."""
    return several(plan) and not any(math.isfinite(part.half_width) for part in plan.parts)


def _error(plan: Plan, named: int = MOST_NAMED) -> str:
    if not _unknown(plan):
        return in_short(plan, named)
    once = f", {ONCE_FOUND}" if named == MOST_NAMED else ""
    return f"{in_short(plan, named)}{once}" if all(part.between for part in plan.parts) else FIRST_RUN


def _hint(text: str) -> CellEstimate:
    """Return the first words of an error that says how to say the accuracy, and all of it for the mouse."""
    return CellEstimate(re.split("[:;]", text, maxsplit=1)[0], text)
