"""`%dp prefetch TABLE EXPRESSION [where CONDITION]`: what a strategy for a whole workload would cost, and would spare.

The expression is read, never executed: workloads by name, sums of them, weights, and variables that hold a workload.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError

from dpnotebook.domain import named_workloads
from dpnotebook.domain.named_workloads import WorkloadRequest
from dpnotebook.errors import WorkloadError
from dpnotebook.workload import Workload

if TYPE_CHECKING:
    from dpnotebook.session.session import Session

NAMES = (
    "cdf", "identity", "marginals", "prefix_marginals", "ranges", "small_marginals", "small_prefix_marginals", "total",
)  # fmt: skip
BUILDERS: dict[str, Callable[..., WorkloadRequest]] = {name: getattr(named_workloads, name) for name in NAMES}
USAGE = 'write %dp prefetch TABLE EXPRESSION, such as %dp prefetch patients ranges("age") + marginals(2)'


@dataclass(frozen=True)
class Wanted:
    """What is to be prefetched: a workload of a table, and of which rows."""

    table: str
    workload: Workload | WorkloadRequest
    where: str | None


def prefetch(session: Session, rest: str, scope: Mapping[str, Any]) -> Any:
    """Return the offer of a session for what the line asks; nothing is spent by that."""
    wanted = read(rest, list(session.tables()["table"]), scope)
    return session.prefetch(wanted.workload, table=wanted.table, where=wanted.where)


def read(rest: str, tables: list[str], scope: Mapping[str, Any]) -> Wanted:
    """Return what a line asks for.

    Parameters
    ----------
    rest
        What stands behind `%dp prefetch`.
    tables
        Names of the protected tables; where there is one, it need not be named.
    scope
        The notebook's variables.

    Raises
    ------
    UsageError
        If the line does not say a table and a workload.
    """
    asked, *where = re.split(r"\swhere\s", rest, maxsplit=1)
    table, text = _table(asked.strip(), tables)
    if not text:
        raise UsageError(f"%dp prefetch: of what? {USAGE}")
    try:
        found = _value(ast.parse(text, mode="eval").body, scope)
    except SyntaxError:
        raise UsageError(f"%dp prefetch: {text} is no expression; {USAGE}") from None
    if not isinstance(found, Workload | WorkloadRequest):
        raise UsageError(f"%dp prefetch: {text} is no workload; {USAGE}")
    return Wanted(table, found, where[0].strip() if where else None)


def _table(text: str, tables: list[str]) -> tuple[str, str]:
    """Return the table and what follows it."""
    for name in sorted(tables, key=len, reverse=True):
        for written in (name, f'"{name}"', f"'{name}'"):
            if text == written or text.startswith(f"{written} "):
                return name, text[len(written) :].strip()
    if len(tables) == 1 and (not text or re.match(r"[\w.]+\s*\(|\d", text)):
        return tables[0], text
    word = text.split(maxsplit=1)[0] if text else ""
    close = get_close_matches(word, tables, n=1)
    hint = f"did you mean {close[0]}?" if close else f"protected are {', '.join(tables) or 'none'}"
    raise UsageError(f"%dp prefetch: {word or 'of which table?'} is no protected table; {hint}")


def _value(node: ast.expr, scope: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name) if name in scope:
            return scope[name]
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return [_value(part, scope) for part in parts]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _combined(left, right, scope, lambda one, other: one + other)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _combined(left, right, scope, lambda one, other: one * other)
        case ast.Call(func=function, args=given, keywords=named):
            name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            if name not in BUILDERS or any(word.arg is None for word in named):
                raise UsageError(f"%dp prefetch: {ast.unparse(node)} is no workload; there are {', '.join(NAMES)}")
            arguments = [_value(one, scope) for one in given]
            options = {str(word.arg): _value(word.value, scope) for word in named}
            try:
                return BUILDERS[name](*arguments, **options)
            except (TypeError, WorkloadError) as error:
                raise UsageError(f"%dp prefetch: {ast.unparse(node)}: {error}") from None
    raise UsageError(f"%dp prefetch: {ast.unparse(node)} is neither a workload nor a variable; {USAGE}")


def _combined(left: ast.expr, right: ast.expr, scope: Mapping[str, Any], how: Callable[[Any, Any], Any]) -> Any:
    one, other = _value(left, scope), _value(right, scope)
    try:
        return how(one, other)
    except (TypeError, WorkloadError):
        text = f"{ast.unparse(left)} and {ast.unparse(right)}"
        raise UsageError(
            f"%dp prefetch: {text} cannot be combined: add workloads, or multiply one by a number"
        ) from None
