"""Arguments of public functions that are of another kind than the function takes: said in the user's words.

Functions check what they are given themselves where they know more of it than its kind. This is for the rest: what
fails with an error that is none of ours, however deep, and was given something that its signature does not allow, fails
for that. It runs only then, and says nothing but what was passed; what fails with all in order is not touched.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import math
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from difflib import get_close_matches
from numbers import Real
from os import PathLike
from typing import Any, TypeVar

import numpy as np

from dpnotebook.domain.named import NamedAttributes
from dpnotebook.errors import ArgumentError, bare, shorten
from dpnotebook.planner.table import TableSchema
from dpnotebook.session.call_habits import about_call, about_option

Function = TypeVar("Function", bound=Callable[..., Any])

ARRAYS = ("ArrayLike", "Array", "NDArray", "ndarray")
MOST_CHECKED = 1000  # elements of a list or a dict
DEEPEST = 4  # lists in lists
OPERATORS = ("__init__", "__add__", "__mul__", "__rmul__")
KNOWN = {"builtins", "functools", "datetime", "decimal", "fractions", "pathlib"}  # whose objects are what they seem
KNOWN |= {"dpnotebook", "numpy", "pandas", "duckdb", "pyspark"}


def public(function: Function, name: str | None = None) -> Function:
    """Return a public function that says which of its arguments is of another kind than it takes, where it fails.

    Parameters
    ----------
    function
        Its annotations say what it takes.
    name
        What users call it; its own name when None.
    """

    def wrong(args: tuple[Any, ...], kwargs: dict[str, Any]) -> ArgumentError | None:
        said = _wrong(function, args, kwargs)
        return None if said is None else ArgumentError(f"{name or function.__name__}() {said}")

    outer = bare(function, wrong)
    if hasattr(function, "cache_clear"):
        vars(outer)["cache_clear"] = function.cache_clear
    return typing.cast("Function", outer)


def public_class(kind: type, done: set[type]) -> None:
    """Make the constructor, the arithmetic and every method without an underscore of a class public functions.

    Parameters
    ----------
    kind
        The class; its bases of this package are made so too.
    done
        The classes that are so already.
    """
    for base in kind.__mro__:
        if base in done or not base.__module__.startswith("dpnotebook."):
            continue
        done.add(base)
        for name, member in list(vars(base).items()):
            if name.startswith("_") and name not in OPERATORS:
                continue
            if isinstance(member, types.FunctionType):
                setattr(base, name, public(member, base.__name__ if name == "__init__" else name))
            elif isinstance(member, classmethod | staticmethod):
                setattr(base, name, type(member)(public(member.__func__, f"{base.__name__}.{name}")))


def _wrong(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str | None:
    """Return what is to be said of the first argument that is not what its annotation says; None where all are."""
    signature, names = inspect.signature(function), inspect.unwrap(function).__globals__
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:  # too few, too many, or of an unknown name
        table, said = _table_of(args), shorten(str(error), 120)[1:-1]
        hint = about_call(function.__name__, "missing" in said, table) if table is not None else ""
        return (
            _unknown(kwargs, signature, function.__name__, table) or f"cannot be called so: {said}{hint and '; '}{hint}"
        )
    sized = None
    for name, given in bound.arguments.items():
        parameter = signature.parameters[name]
        kind = "Any" if parameter.annotation is parameter.empty else parameter.annotation
        several, named = parameter.kind is parameter.VAR_POSITIONAL, parameter.kind is parameter.VAR_KEYWORD
        for key, value in given.items() if named else ((name, one) for one in (given if several else (given,))):
            said = f"cannot use {shorten(value)} for {shorten(key)[1:-1]}{'' if several else '='}"
            if key != "self" and not _fits(value, kind, names):
                words = " or ".join(dict.fromkeys(_words(kind, names)))
                return f"{said}; it takes {words}" if words else said
            if any(head in ARRAYS for head, _ in _allowed(kind, names)):
                sized = sized or f"{said}; its size or its values do not fit"
            elif hasattr(value, "iloc"):
                sized = sized or f"{said}; a value in it cannot be read"
    return sized


def _table_of(args: tuple[Any, ...]) -> TableSchema | None:
    """Return what is public of the table that a verb was asked of; None of other functions."""
    found = getattr(args[0], "__dict__", {}).get("_table") if args and _ours(args[0]) else None
    return found if isinstance(found, TableSchema) else None


def _ours(value: Any) -> bool:
    return type(value).__module__.split(".")[0] == "dpnotebook"


def _unknown(
    kwargs: Mapping[str, Any], signature: inspect.Signature, verb: str, table: TableSchema | None
) -> str | None:
    """Return what is to be said of a keyword that a function does not have; None where it has them all."""
    known = [name for name in signature.parameters if name != "self"]
    for name in kwargs:
        if name not in known:
            if table is not None and (said := about_option(verb, name, table)):
                return f"takes no {name}=; {said}"
            close = get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f"; did you mean {close[0]}=?" if close else f"; it takes {', '.join(known) or 'nothing'}"
            return f"takes no {shorten(name)[1:-1]}={hint}"
    return None


def _split(text: str, separator: str) -> Iterator[str]:
    """Yield the parts of an annotation between separators that stand in no brackets."""
    depth, part = 0, ""
    for piece in re.split(r"([\[\]]|" + re.escape(separator) + ")", text):
        depth += (piece == "[") - (piece == "]")
        if piece == separator and not depth:
            yield part
            part = ""
        else:
            part += piece
    yield part


def _allowed(annotation: Any, names: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what an annotation allows, each as a name and what stands in its brackets; aliases are looked up."""
    if isinstance(annotation, type) and not hasattr(annotation, "__args__"):
        annotation = annotation.__name__
    elif not isinstance(annotation, str):
        annotation = re.sub(r"\b([a-z_]+\.)+", "", repr(annotation))
    for part in _split(annotation, " | "):
        head, _, inner = part.strip().partition("[")
        meant = names.get(head)
        if head in KINDS or meant is None or isinstance(meant, type):
            yield head.split(".")[-1], inner[:-1]
        else:
            yield from _allowed(meant, {})


def _fits(value: Any, annotation: Any, names: Mapping[str, Any], depth: int = 0) -> bool:
    """Return whether a value is what an annotation says; of classes that are not known, no code is run."""
    try:
        return any(_is(value, head, inner, names, depth) for head, inner in _allowed(annotation, names))
    except Exception:  # such as a number that is too large for floating point
        return False


def _is(value: Any, head: str, inner: str, names: Mapping[str, Any], depth: int) -> bool:
    kind = type(value)
    if kind.__module__.split(".")[0] not in KNOWN or depth > DEEPEST:
        return False
    if head == "Literal":
        return any(kind is type(one) and value == one for one in ast.literal_eval(f"[{inner}]"))
    if head not in KINDS:
        return any(base.__name__ == head for base in kind.__mro__)
    word, check = KINDS[head]
    listed = value.values() if isinstance(value, Mapping) else value if kind in (list, tuple, range) else ()
    parts = [*_split(inner, ", ")]  # of a dict, what its values are
    element = (parts[-1] if word == "a dict" else parts[0] if word == "a list" else "") or "Any"
    return check(value) and all(_fits(one, element, names, depth + 1) for one in itertools.islice(listed, MOST_CHECKED))


def _words(annotation: Any, names: Mapping[str, Any]) -> Iterator[str]:
    for head, inner in _allowed(annotation, names):
        word = KINDS[head][0] if head in KINDS else f"{'an' if head[0] in 'AEIOU' else 'a'} {head}"
        of = next(_words(next(_split(inner, ", ")), names), "") if word == "a list" and inner else ""
        yield inner.replace(", ", " or ") if head == "Literal" else f"{word} of {of[2:]}s" if of[:2] == "a " else word


def _whole(value: Any) -> bool:
    whole = value.item() if isinstance(value, np.integer) else value
    return type(whole) is int and whole.bit_length() < 64


def _number(value: Any) -> bool:
    return isinstance(value, Real | Decimal) and not isinstance(value, bool) and math.isfinite(float(value))


def _text(value: Any) -> bool:
    return isinstance(value, str) and "\0" not in value and len(value.encode()) >= 0


KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "Any": ("", lambda _: True),
    "Literal": ("", bool),
    "None": ("None", lambda value: value is None),
    "str": ("a text", _text),
    "int": ("a whole number", _whole),
    "float": ("a number", _number),
    "bool": ("True or False", lambda value: isinstance(value, bool | np.bool_)),
    **dict.fromkeys(
        ("Sequence", "Iterable", "tuple", "list"),
        ("a list", lambda value: isinstance(value, list | tuple | range) or getattr(value, "ndim", 0) == 1),
    ),
    **dict.fromkeys(("Mapping", "dict"), ("a dict", lambda value: isinstance(value, Mapping))),
    **dict.fromkeys(("Callable", "Progress"), ("a function", callable)),
    "SessionProtocol": ("a Session", lambda value: any(base.__name__ == "Session" for base in type(value).__mro__)),
    "NamedAttributes": ("a Domain", lambda value: isinstance(value, NamedAttributes)),
    **dict.fromkeys(("PathLike", "Path"), ("a path", lambda value: isinstance(value, PathLike))),
    **dict.fromkeys(ARRAYS, ("numbers", lambda value: np.asarray(value).dtype.kind in "biuf")),
}
