"""Populations: which rows of different tables may be put together, and what one unit that leaves then changes.

Every query Q over private rows gives for each value u of the unit a bag of rows Q_u, which depends on public tables and
on the rows with unit u of its tables alone; that is what the other modules here see to. Neighbours differ by one unit u
of one population: all rows with unit u of all tables of that population, and no others. So nothing but Q_u changes.
The noise pays for all that a bounded Q_u has: for a change from Q_u to nothing, or from nothing to Q_u. A change from
one Q_u to another could be twice that, as when the row of a LEFT JOIN moves from the group of its partner to NULL.

What is checked is therefore: *Q_u is empty as soon as u has left any of the populations of Q*, which are those of all
tables that Q reads. By induction over the operators, for operands X and Y:

* a table: its rows with unit u leave with u; projections, conditions and groupings by the unit make nothing of nothing;
* X JOIN Y with equal units gives X_u x Y_u, which is empty as soon as either is. Their populations may differ: the unit
  of a row is u on both sides, rows are bounded by u, and whether u leaves one of them or both at once (two populations
  may be the same people after all), Q_u goes to nothing once: that is charged once, to the total of the session;
* X LEFT JOIN Y has rows as long as X_u has: u must have left X when it has left Y, so each population of Y is one of
  X's; RIGHT the other way round, and FULL JOIN both;
* UNION, INTERSECT and EXCEPT: both branches are of the same populations, so both are empty.

A table that is protected with the name of a column has a population of its own. Whoever says of two tables that they
are of one population says that units leave both at once: there are fewer neighbours then, and what was answered before,
when there were more, stays within what was charged for it. So a table may be given a population later, and none may be
taken away: that would make neighbours of what were none when outer joins were answered.

Somebody whom two tables know by different values is two units, and counts twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from keyword import iskeyword

from dpnotebook.dialect.expressions import WORDS
from dpnotebook.errors import shorten
from dpnotebook.sql.ownership.scope import Owner
from dpnotebook.sql.statement import Relation

ENDING = re.compile(r"[\W_]*(id|key|nr|no|num|number|uuid|guid|code|hash)$", re.IGNORECASE)
USUAL = "person"
HELD = WORDS | {"integer": "whole numbers", "number": "floating-point numbers"}


def population_of(relation: Relation) -> tuple[str, str]:
    """Return what identifies the population of a private table: a name that was given, or else the table's own."""
    return ("table", relation.name) if relation.population is None else ("population", relation.population)


def joined(left: Owner, right: Owner) -> Owner:
    """Return whose rows a join of two private sides has."""
    return left.of(left.populations | right.populations)


def stays(how: str, left: Owner, right: Owner) -> bool:
    """Whether rows could be left of a join although their unit has left one of its populations.

    Parameters
    ----------
    how
        "INNER", "CROSS", "LEFT", "RIGHT" or "FULL".
    left, right
        Whose rows they are; their units are equated.
    """
    kept_left = how in ("LEFT", "FULL") and not right.populations <= left.populations
    return kept_left or (how in ("RIGHT", "FULL") and not left.populations <= right.populations)


def different_kinds(left: Owner, right: Owner) -> str:
    """Return why units that hold different things are not equated, and what to do."""
    held = [HELD.get(owner.kind or "other", "other values") for owner in (left, right)]
    # The usual case: a column of whole numbers with a missing one among them, as pandas reads it.
    whole = [owner for owner in (left, right) if owner.kind == "number"] if "integer" in (left.kind, right.kind) else []
    how = f', such as {whole[0].table}[{_quoted(whole[0].unit or "")}].astype("Int64")' if whole else ""
    return (
        f"the units of {left.table} and {right.table} are of different kinds, {held[0]} and {held[1]}: "
        f"protect both by columns of one type{how}"
    )


def refusal(word: str, tables: Iterable[str], relations: Mapping[str, Relation], joins: bool) -> str:
    """Return why rows of several populations are not put together, and what to write.

    Parameters
    ----------
    word
        What puts them together, such as "LEFT JOIN" or "UNION".
    tables
        The protected tables that take part.
    relations
        What is public about them.
    joins
        Whether an inner join can be written instead.
    """
    found = [relations[name] for name in dict.fromkeys(tables)]
    instead = "write JOIN, which keeps what both have" if joins else "ask each by itself, or join them on the unit"
    needs = f"{word} needs tables of one population"
    named = list(dict.fromkeys(each.population for each in found if each.population is not None))
    if len(named) > 1:
        whose = _all(f"{each.name} of {shorten(each.population)}" for each in found if each.population is not None)
        same = len({name.casefold() for name in named}) < len(named)
        return f"{needs}{', whose name is written alike' if same else ''}, and here is {whose}: {instead}"
    chosen = named[0] if named else _suggested(found)
    lines = _all(line(each, chosen) for each in found if each.population is None)
    return (
        f"{needs}, and {_all(each.name for each in found)} are not declared to be: {instead}. "
        f"Or say that equal units in them are the same {chosen}: {lines}"
    )


def line(relation: Relation, population: str) -> str:
    """Return the line of Python that protects a table as one of a population."""
    data = relation.name if relation.name.isidentifier() and not iskeyword(relation.name) else "data"
    unit = f"dpn.Unit({_quoted(population)}, column={_quoted(relation.unit or '')})"
    name = _quoted(relation.name)
    declared = relation.domain is not None and relation.domain.names
    more = f", domain=session.table({name}).domain" if declared else ""
    most = "" if relation.max_rows is None else f", max_rows={relation.max_rows}"
    return f"session.protect({data}, {name}, unit={unit}{most}{more})"


def _suggested(relations: Iterable[Relation]) -> str:
    """Return what units may be called by the names of their columns: "patient" where all are patient_id."""
    stems = {ENDING.sub("", relation.unit or "").casefold() for relation in relations}
    stem = stems.pop() if len(stems) == 1 else ""
    return stem if len(stem) > 2 and stem.isalpha() else USUAL


def _all(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def _quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)
