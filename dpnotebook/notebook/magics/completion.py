"""What Tab offers in `%%dpsql`: options, tables, columns, levels, and after `-e` what each epsilon would buy.

The planner alone answers here: nothing is read from the data and nothing is written to the ledger.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError

from dpnotebook.errors import DPError
from dpnotebook.notebook import currency
from dpnotebook.notebook.cards.statement_lines import in_short
from dpnotebook.notebook.magics import dp_magic, options, prefetch
from dpnotebook.session.session import Session, active_session

if TYPE_CHECKING:
    from dpnotebook.session.query import Query

PRIVACY_OPTIONS = (
    "epsilon", "delta", "max_groups_contributed", "max_rows_contributed", "privacy_unit_column",
    "group_selection_strategy", "min_privacy_units_per_group",
)  # fmt: skip
KEYWORDS = (
    "SELECT", "COUNT(*)", "COUNT(DISTINCT", "AS", "FROM", "JOIN", "LEFT JOIN", "ON", "USING (", "WHERE",
    "GROUP BY", "HAVING", "ORDER BY", "DESC", "LIMIT", "AND", "OR", "NOT", "IN (", "BETWEEN", "IS NULL", "IS NOT NULL",
    "CASE WHEN", "THEN", "ELSE", "END", "UNION ALL", "TRUE", "FALSE", "WITH DIFFERENTIAL_PRIVACY", "OPTIONS(",
    *(f"{name} = " for name in PRIVACY_OPTIONS),
    "contribution_bounds_per_group => (", "contribution_bounds_per_row => (",
)  # fmt: skip
LADDER = (1.0, 2.0, 5.0)  # in every factor of ten: the epsilons that Tab offers,
RUNGS = 7  # so many of them: two factors of ten and a rung
ROUNDING = 1 + 1e-9  # by which an epsilon may pass what is left, and be that
EPSILON = re.compile(r"(?:^|\s)(?:--e(?:p\w*)?[ =]|-[nyq]*e[ ]?)\s*([\d.e-]*)\Z")
ERROR = re.compile(r"(?:^|\s)--er\w*[ =]\s*([\d.]*%?)\Z")
PERCENT = ("1%", "2%", "5%", "10%", "20%")
SESSION = re.compile(r"(?:^|\s)(?:--s\w*[ =]|-[nyq]*s[ ])\s*(\w*)\Z")
TEXT = re.compile(r"""(\w+|"[^"]+")\s*(?:=|<>|!=|(?:NOT\s+)?IN\s*\((?:\s*'[^']*'\s*,)*)\s*'([^']*)\Z""", re.IGNORECASE)

Found = tuple[str, str]


def offers(before: str, cell: str, scope: dict[str, Any]) -> tuple[str, list[Found]]:
    """Return the piece of text that is completed, and what it can become, each with a word on what that is.

    Parameters
    ----------
    before
        The cell up to the cursor.
    cell
        The whole cell.
    scope
        The notebook's variables.
    """
    whole = re.match(r"\s*%%dpsql\b(.*)", cell)
    line = before.rsplit("\n", 1)[-1]
    if whole and "\n" not in before:
        return _options(before[whole.start(1) :], cell.partition("\n")[2], scope)
    if whole:
        head, sql = whole.group(1), before.partition("\n")[2]
        return in_sql(sql, cell, _session(head, scope), scope)
    single = re.match(r"(?:[^=]*=)?\s*%dpsql\b(.*)", line) or re.match(r"\s*%dp\s+(?:-s\s+\w+\s+)?preview\b(.*)", line)
    if single:
        head, sql = options.split(single.group(1))
        rest = cell[len(before) :].partition("\n")[0]
        if sql and not EPSILON.search(single.group(1)):
            return in_sql(sql, sql + rest, _session(head, scope), scope)
        return _options(single.group(1), rest, scope)
    command = re.match(r"\s*%dp\s+(?:-s\s+\w+\s+)?(\w*)\Z", line)
    if command:
        return command.group(1), [(name, "command") for name in dp_magic.COMMANDS if name.startswith(command.group(1))]
    table = re.match(r"\s*%dp\s+(?:-s\s+(\w+)\s+)?(?:columns|prefetch)\s+(\w*)\Z", line)
    if table:
        return starting(table.group(2), _tables(_session(f"-s {table.group(1)}" if table.group(1) else "", scope)))
    bought = re.match(r"\s*%dp\s+(?:-s\s+(\w+)\s+)?prefetch\s+(?:\"[^\"]*\"|\w+)\s+(.*)\Z", line)
    if bought:
        return _workload(bought.group(2), _session(f"-s {bought.group(1)}" if bought.group(1) else "", scope))
    return "", []


def _options(typed: str, sql: str, scope: dict[str, Any]) -> tuple[str, list[Found]]:
    """Return what the first line can go on with."""
    epsilon = EPSILON.search(typed)
    if epsilon:
        query = _query(typed[: epsilon.start()], sql, scope)
        return starting(epsilon.group(1), prices(query, _session(typed[: epsilon.start()], scope)))
    error = ERROR.search(typed)
    if error:
        query = _query(typed[: error.start()], sql, scope)
        return starting(error.group(1), ((percent, price_of(query, percent)) for percent in PERCENT))
    session = SESSION.search(typed)
    if session:
        return starting(session.group(1), ((name, "session") for name, value in scope.items() if _is_session(value)))
    word = re.search(r"[\w-]*\Z", typed)
    fragment = word.group() if word else ""
    return starting(fragment, [(name, "option") for name in options.names()]) if fragment[:1] in ("", "-") else ("", [])


def prices(query: Query | None, session: Session | None) -> Iterator[Found]:
    """Yield round epsilons up to what is left, each with the error that a query would have at it."""
    if session is None:
        return
    for epsilon in rungs(session.remaining.epsilon):
        yield f"{epsilon:g}", _worth(query, epsilon)


def rungs(most: float) -> list[float]:
    """Return the seven greatest of ..., 0.1, 0.2, 0.5, 1, 2, ... that are at most `most`, from the least up."""
    if most <= 0:
        return []
    top = math.floor(math.log10(most))
    steps = [float(f"{step:g}e{power}") for power in range(top - RUNGS // len(LADDER) - 1, top + 1) for step in LADDER]
    return [step for step in steps if step <= most * ROUNDING][-RUNGS:]


def _worth(query: Query | None, epsilon: float) -> str:
    if query is None:
        return "epsilon"
    try:
        plan = query.at(epsilon=epsilon).plan
    except DPError:
        return "epsilon"
    # spaces would break the line in JupyterLab's list
    price = "stored: free" if plan.free else currency.percent(plan.budget.cost_fraction)
    text = f"{price}, {in_short(plan)}"
    return text.replace(" ", "\u00a0")


def price_of(query: Query | None, percent: str) -> str:
    """Return what a relative error costs, in a few words."""
    if query is None:
        return "of\u00a0the\u00a0answer"
    try:
        plan = query.at(error=percent).plan
    except DPError:  # no past answer says how large this one is
        return "of\u00a0the\u00a0answer"
    price = currency.short_price(plan.budget.cost_fraction, plan.cost.epsilon) if plan.cost.units else "free"
    return f"{price}, {in_short(plan)}".replace(" ", "\u00a0")


def _query(head: str, sql: str, scope: dict[str, Any]) -> Query | None:
    """Return the query of a cell that is being written, if it is one already."""
    session = _session(head, scope)
    if session is None or not sql.strip():
        return None
    text = options.split(sql)[1] if sql.lstrip().startswith("-") else sql
    try:
        return session.sql(text, epsilon=None if options.says_epsilon(text) else 1.0, parameters=scope)
    except DPError:
        return None


def in_sql(typed: str, cell: str, session: Session | None, scope: dict[str, Any]) -> tuple[str, list[Found]]:
    """Return what the SQL can go on with."""
    text = TEXT.search(typed)
    if text and typed.count("'") % 2:
        return starting(text.group(2), _levels(text.group(1).strip('"'), cell, session))
    if typed.count("'") % 2:
        return "", []
    bound = re.search(r"(?<![:\w]):(\w*)\Z", typed)
    if bound:
        plain = (int, float, str, bool)
        return starting(bound.group(1), ((n, "value") for n, v in scope.items() if n[0] != "_" and type(v) in plain))
    word = re.search(r'"?\w*\Z', typed)
    fragment = word.group() if word else ""
    found = [*_columns(cell, session)]
    if not typed[: len(typed) - len(fragment)].endswith("."):
        from dpnotebook.sql.aggregates.catalogue import names  # with much that is not needed before somebody types SQL

        aggregates = (f"{name}(" for name in names())
        found += [*_tables(session), *((name, "keyword") for name in (*KEYWORDS, *aggregates))]
    return starting(fragment, found)


def _workload(typed: str, session: Session | None) -> tuple[str, list[Found]]:
    """Return how the workload of an offer can go on: kinds of queries, and columns within quotation marks."""
    quoted = re.search(r"[\"']([^\"']*)\Z", typed)
    if quoted and len(re.findall(r"[\"']", typed)) % 2:
        names = {column for _, domain in _domains("", session) for column in domain}
        return starting(quoted.group(1), ((name, "column") for name in sorted(names)))
    word = re.search(r"\w*\Z", typed)
    return starting(word.group() if word else "", ((f"{name}(", "workload") for name in prefetch.NAMES))


def _tables(session: Session | None) -> Iterator[Found]:
    for name, relation in ({} if session is None else session.relations).items():
        yield _quoted(name), "table" if relation.private else "public\u00a0table"


def _columns(cell: str, session: Session | None) -> Iterator[Found]:
    """Yield the declared columns of the tables that a cell names first, then all their others."""
    for name, domain in _domains(cell, session):
        for column in domain:
            yield _quoted(column), f"column\u00a0of\u00a0{name}"
    every = {} if session is None else session.relations
    for name in _named(cell, every):
        for column in every[name].columns:
            yield _quoted(column), f"column\u00a0of\u00a0{name}"


def _levels(column: str, cell: str, session: Session | None) -> Iterator[Found]:
    for _, domain in _domains(cell, session):
        for name, attribute in domain.items():
            if name.casefold() == column.casefold():
                yield from ((label.replace("'", "''"), "level") for label in attribute.labels if isinstance(label, str))


def _domains(cell: str, session: Session | None) -> list[tuple[str, Any]]:
    """Return the domains of the tables that a cell names; of all of them when it names none."""
    if session is None:
        return []
    every = {name: session.table(name).table.domain for name in session.tables()["table"]}
    return [(name, every[name]) for name in _named(cell, every)]


def _named(cell: str, every: Collection[str]) -> list[str]:
    """Return the tables that a cell names; all of them when it names none."""
    named = [name for name in every if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", cell, re.IGNORECASE)]
    return named or list(every)


def starting(fragment: str, found: Iterable[Found]) -> tuple[str, list[Found]]:
    """Return what begins with a fragment, each text once, with the fragment."""
    kept: dict[str, str] = {}
    for text, kind in found:
        if text.casefold().startswith(fragment.casefold()):
            kept.setdefault(text, kind)
    return fragment, list(kept.items())


def _quoted(name: str) -> str:
    return name if name.isidentifier() else '"' + name.replace('"', '""') + '"'


def _session(head: str, scope: dict[str, Any]) -> Session | None:
    """Return the session that the first line names, or the latest; None if there is none."""
    named = re.search(r"(?:^|\s)(?:--s\w*[ =]|-[nyq]*s\s)\s*(\w+)", head)
    try:
        found = scope.get(named.group(1)) if named else active_session()
    except (DPError, UsageError):
        return None
    return found if _is_session(found) else None


def _is_session(value: Any) -> bool:
    return issubclass(type(value), Session)  # asked of its type: a variable may be anything
