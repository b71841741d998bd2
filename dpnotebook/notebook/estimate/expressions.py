"""What an expression of a cell means, found without running it.

The text is parsed, and what it says is followed by an explicit list: literals, variables that hold plain values,
workloads by name, and the verbs of protected frames, tables and sessions. Variables are known by the type that they are
of exactly, so that nothing of the user's own is ever called: no property, no operator, no comparison.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any, cast

import pandas as pd

from dpnotebook import workload
from dpnotebook.domain.named_workloads import WorkloadRequest
from dpnotebook.notebook.magics.prefetch import BUILDERS
from dpnotebook.session.picked_columns import PickedColumns
from dpnotebook.session.protected import ProtectedTable, frames
from dpnotebook.session.query import Query
from dpnotebook.session.session import Session
from dpnotebook.session.verbs import Grouped, Verbs

PLAIN = (int, float, str, bool, type(None))
DEEPEST = 4  # lists in lists
MOST_PARTS = 10_000  # of a list or a dict
LARGEST = 10**6  # of a number that says how many cells a workload is over

# Workloads over cells that are made of their number alone.
SIZED: dict[str, Callable[..., workload.Workload]] = {
    name: getattr(workload, name) for name in ("AllRange", "Identity", "Prefix", "Total")
}
LAZY = ("Query", "Grouped")  # what a verb returns that neither reads nor spends
STEPS: dict[type, tuple[str, ...]] = {
    Session: ("sql", "table"),
    Query: ("at", "assuming", "with_purchase", "without_purchase"),
}
ASKED = (ProtectedTable, Verbs, Grouped)

Receiver = Session | Grouped | PickedColumns | Query


class UnknownExpression(Exception):
    """An expression whose meaning is not known before it runs."""


def query_in(cell: str, scope: Mapping[str, Any]) -> Query | None:
    """Return the query of a cell that is one call and nothing else; None of any other cell.

    Parameters
    ----------
    cell
        Python: `patients.dp.count(error=25)`, `q = session.sql("SELECT ...", epsilon=0.1).run()`.
    scope
        The notebook's variables.

    Raises
    ------
    DPError
        If the call would be refused; its text says why.
    """
    try:
        body = ast.parse(cell).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    match body:
        case [ast.Expr(value=ast.Call() | ast.Attribute() | ast.Subscript() as said)]:
            pass
        case [ast.Assign(targets=[ast.Name()], value=ast.Call() | ast.Attribute() | ast.Subscript() as said)]:
            pass
        case _:
            return None
    try:
        found = receiver_of(_run_by(said), scope)
    except UnknownExpression:
        return None
    return found if isinstance(found, Query) else None


def receiver_of(node: ast.expr, scope: Mapping[str, Any]) -> Receiver:
    """Return the session, table or query that an expression says, its verbs followed.

    Raises
    ------
    UnknownExpression
        If it says anything else.
    DPError
        If a call in it would be refused.
    """
    match node:
        case ast.Name(id=name):
            found = scope.get(name)
            if any(type(found) is kind for kind in (*STEPS, *ASKED)):
                return cast("Receiver", found)
        case ast.Attribute(value=ast.Name(id=name), attr="dp"):
            frame = scope.get(name)
            if type(frame) is pd.DataFrame:
                return frames.unguarded(frame)
        case ast.Subscript(value=before, slice=place):
            receiver = receiver_of(before, scope)
            if isinstance(receiver, Grouped):
                return receiver[value_of(place, scope)]
        case ast.Attribute(value=before, attr=column):
            receiver = receiver_of(before, scope)
            if isinstance(receiver, Grouped) and column in dir(receiver) and not hasattr(type(receiver), column):
                return receiver[column]
        case ast.Call(func=ast.Attribute(value=before, attr=verb)):
            receiver = receiver_of(before, scope)
            function = step_of(receiver, verb)
            if function is not None:
                arguments = [value_of(one, scope) for one in node.args]
                made: Receiver = function(receiver, *arguments, **keywords_of(node, scope))
                return made
    raise UnknownExpression


def step_of(receiver: Receiver, name: str) -> Callable[..., Any] | None:
    """Return a method that makes a query, or leads to one, and neither reads nor spends; None of any other name."""
    if isinstance(receiver, PickedColumns):
        return _asked_of_columns(receiver, name)
    kind = type(receiver)
    member = getattr(kind, name, None)
    if name.startswith("_") or not inspect.isfunction(member):
        return None
    if kind in STEPS:
        return member if name in STEPS[kind] else None
    return member if inspect.unwrap(member).__annotations__.get("return") in LAZY else None


def _asked_of_columns(columns: PickedColumns, name: str) -> Callable[..., Any] | None:
    """Return a verb of columns picked in brackets as a function of them; its signature is without what they say."""
    if name not in dir(columns):
        return None
    verb = getattr(columns, name)

    def asked(_: PickedColumns, *arguments: Any, **options: Any) -> Any:
        return verb(*arguments, **options)

    vars(asked)["__signature__"] = inspect.signature(verb)
    return asked


def steps(receiver: Receiver) -> list[str]:
    """Return the names of all such methods."""
    return [name for name in dir(type(receiver)) if step_of(receiver, name) is not None]


def keywords_of(node: ast.Call, scope: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments of a call; UnknownExpression if a value is not known."""
    if any(keyword.arg is None for keyword in node.keywords):
        raise UnknownExpression
    return {str(keyword.arg): value_of(keyword.value, scope) for keyword in node.keywords}


def value_of(node: ast.expr, scope: Mapping[str, Any]) -> Any:
    """Return the value of an argument: a literal, a plain variable, an f-string of these, or a workload.

    Raises
    ------
    UnknownExpression
        If it is anything else.
    """
    match node:
        case ast.Constant(value=value):
            return plain(value)
        case ast.Name(id=name) if name in scope:
            return plain(scope[name])
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=ast.Constant(value=int() | float() as number)):
            return -number if isinstance(sign, ast.USub) else number
        case ast.List(elts=parts):
            return [value_of(part, scope) for part in parts]
        case ast.Tuple(elts=parts):
            return tuple(value_of(part, scope) for part in parts)
        case ast.Dict(keys=keys, values=values):
            if None not in keys:
                return {
                    _key(value_of(key, scope)): value_of(value, scope)  # type: ignore[arg-type]
                    for key, value in zip(keys, values, strict=True)
                }
        case ast.JoinedStr(values=parts):
            return "".join(_formatted(part, scope) for part in parts)
        case ast.BinOp(left=left, op=ast.Add() | ast.Mult() as operator, right=right):
            return _combined(value_of(left, scope), operator, value_of(right, scope))
        case ast.Call():
            return _workload(node, scope)
    raise UnknownExpression


def plain(value: Any, depth: int = 0) -> Any:
    """Return a copy of a value that is plain all through, or a workload of this package; else UnknownExpression."""
    kind = type(value)
    if any(kind is one for one in (*PLAIN, WorkloadRequest, *SIZED.values())):
        return value
    if depth < DEEPEST and (kind is list or kind is tuple) and len(value) <= MOST_PARTS:
        return kind(plain(part, depth + 1) for part in tuple(value))
    if depth < DEEPEST and kind is dict and len(value) <= MOST_PARTS:
        return {_key(plain(key, depth + 1)): plain(part, depth + 1) for key, part in tuple(value.items())}
    raise UnknownExpression


def _key(value: Any) -> Any:
    if not any(type(value) is one for one in PLAIN):
        raise UnknownExpression
    return value


def _formatted(part: ast.expr, scope: Mapping[str, Any]) -> str:
    """Return a piece of an f-string."""
    match part:
        case ast.Constant(value=str(text)):
            return text
        case ast.FormattedValue(value=said, conversion=-1, format_spec=None):
            return str(_key(value_of(said, scope)))
    raise UnknownExpression


def _combined(left: Any, operator: ast.operator, right: Any) -> WorkloadRequest:
    """Return the sum of two workloads by name, or a multiple of one."""
    requests = [isinstance(side, WorkloadRequest) for side in (left, right)]
    made: WorkloadRequest
    if isinstance(operator, ast.Add) and all(requests):
        made = left + right
        return made
    if isinstance(operator, ast.Mult) and any(requests):
        other = right if requests[0] else left
        if type(other) is int or type(other) is float:
            made = left * right
            return made
    raise UnknownExpression


def _workload(node: ast.Call, scope: Mapping[str, Any]) -> Any:
    """Return a workload that is made by name: `dpn.ranges("age")`, `marginals(2)`, `dpn.workload.Prefix(100)`."""
    package = sys.modules["dpnotebook"]
    arguments, options = [value_of(one, scope) for one in node.args], keywords_of(node, scope)
    match node.func:
        case ast.Attribute(value=ast.Name(id=name), attr=verb) if verb in BUILDERS and scope.get(name) is package:
            return BUILDERS[verb](*arguments, **options)
        case ast.Name(id=name) if name in BUILDERS and scope.get(name) is vars(package)[name]:
            return BUILDERS[name](*arguments, **options)
        case ast.Attribute(value=ast.Attribute(value=ast.Name(id=name), attr="workload"), attr=verb):
            sized = all(type(one) is int and 0 < one <= LARGEST for one in arguments)
            if verb in SIZED and scope.get(name) is package and sized and not options:
                return SIZED[verb](*arguments)
    raise UnknownExpression


def _run_by(node: ast.expr) -> ast.expr:
    """Return the query in `query.run()`, `query.run().plot()` or `query.run().frame["n"]`; others as they are.

    What is made of a release costs nothing, as long as it asks for nothing itself.
    """
    inner = node
    while True:
        match inner:
            case ast.Call(func=ast.Attribute(value=query, attr="run"), args=[], keywords=[]):
                return query
            case ast.Call(func=ast.Attribute(value=before), args=args, keywords=keywords):
                said = [*args, *(keyword.value for keyword in keywords)]
            case ast.Attribute(value=before):
                said = []
            case ast.Subscript(value=before, slice=place):
                said = [place]
            case _:
                return node
        if any(isinstance(part, ast.Call) for one in said for part in ast.walk(one)):
            return node
        inner = before
