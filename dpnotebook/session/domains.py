"""What protecting a table with another domain than before comes to: a correction, an extension, or another table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from dpnotebook.domain import Categories, Domain
from dpnotebook.domain.extension import Extension, changes, extension, in_known_order
from dpnotebook.domain.parts import with_parts, without_parts
from dpnotebook.domain.schema import without_words
from dpnotebook.errors import DomainError, shorten
from dpnotebook.ledger import Ledger
from dpnotebook.ledger.chain import to_bytes
from dpnotebook.ledger.checks import free_name
from dpnotebook.ledger.replay import parts_of
from dpnotebook.planner.history import History
from dpnotebook.planner.table import TableSchema
from dpnotebook.privacy.unit import Unit


@dataclass(frozen=True)
class Redeclared:
    """How a table is declared, against what the ledger knows of it.

    Parameters
    ----------
    known
        What the ledger knows; empty where it knows no such table.
    table
        What is declared; of a table that grew, with the attribute that tells its parts apart.
    same
        Whether the domain is the same.
    since
        The entry that said the domain that is known, 0 where there is none.
    extends
        The extension that the domain is, where something was charged under the one that is known.
    refusal
        Why it is none, where it is none; empty where it needs not be.
    reordered
        Of the attributes whose levels were declared in another order than the one that is known: their names.
    """

    known: dict[str, Any]
    table: TableSchema
    same: bool
    since: int = 0
    extends: Extension | None = None
    refusal: str = ""
    reordered: tuple[str, ...] = ()


def handed_on(ledger: Ledger, name: object, unit: str | Unit | None) -> tuple[Domain | None, str | Unit | None]:
    """Return the domain and the unit that a ledger knows of a table, for whoever says none; None where it knows none.

    Parameters
    ----------
    ledger, name
        The ledger, and what the table is called.
    unit
        The unit that is said, if one is: it is checked against the known one.
    """
    known = ledger.tables().get(name) if isinstance(name, str) else None
    if known is None:
        return None, unit
    domain = Domain.from_json(known["domain"])
    return without_parts(domain) if "parts" in known else domain, known["unit"] if unit is None else unit


def redeclared(ledger: Ledger, table: TableSchema, said: Domain | None = None) -> Redeclared:
    """Return how a table is declared, against what the ledger knows of it.

    The order of columns and of levels that have none is no part of a domain: everybody has it as it was declared first,
    so that rows of answers are the same for all.

    Parameters
    ----------
    ledger, table
        What is known, and what is declared.
    said
        What the same session declared before, if it did: who says it otherwise now corrects the order too, as long as
        nothing was charged.
    """
    known = ledger.tables().get(table.name)
    if known is None:
        return Redeclared({}, table, same=False)
    found = _redeclared(ledger, known, table)
    if ledger.unused(table.name) and said is not None and said != table.domain:
        return found
    before = Domain.from_json(known["domain"])
    ordered = in_known_order(without_parts(before) if "parts" in known else before, table.domain)
    if ordered == table.domain:
        return found
    return replace(
        _redeclared(ledger, known, replace(table, domain=ordered)),
        reordered=tuple(name for name, attribute in ordered.items() if attribute != table.domain[name]),
    )


def _redeclared(ledger: Ledger, known: dict[str, Any], table: TableSchema) -> Redeclared:
    if table.max_rows is None:  # what was said once holds for everyone
        table = replace(table, max_rows=known["max_rows"])
    since, unused, parts = ledger.domains(table.name)[-1].since, ledger.unused(table.name), len(parts_of(known))
    here = table
    if "parts" in known:
        here = replace(table, domain=with_parts(table.domain, parts), parts=parts, adds=known["adds"])
    same = to_bytes(without_words(known["domain"])) == to_bytes(without_words(here.domain.to_json()))
    if same:
        return Redeclared(known, here, same, since)
    if unused:  # of a table that grew, its first part starts over
        return Redeclared(known, table, same, since)
    try:
        found = extension(Domain.from_json(known["domain"]), here.domain)
    except DomainError as why:
        free = free_name(table.name, ledger.tables())
        return Redeclared(known, here, same, since, refusal=_no_extension(table.name, str(why), free))
    return Redeclared(known, here, same, since, found)


def _no_extension(name: str, why: str, free: str) -> str:
    return (
        f"answers about {shorten(name)} rest on its domain, which may be extended now: by columns, levels, finer bins, "
        f"wider bounds. Here {why}. Leave domain= out to use it as it was declared last. By another name, such as "
        f"{shorten(free)}, it starts without answers, and what both cost adds up"
    )


def corrected_words(name: str, before: Domain, after: Domain) -> str:
    """Return what to tell whoever corrected a domain."""
    return (
        f"the domain of {shorten(name)} was corrected: {changes(before, after)}. Nothing had been charged for it, and "
        "other kernels must protect it again"
    )


def order_words(name: str, domain: Domain, reordered: Sequence[str]) -> str:
    """Return what to tell whoever declared levels in another order than the one that everybody has."""
    shown = [domain[column] for column in reordered]
    orders = [
        f"{shorten(column)} goes {shorten(list(one.levels), 80)}"
        for column, one in zip(reordered, shown, strict=True)
        if isinstance(one, Categories)
    ]
    return f"answers about {shorten(name)} have their rows in the order that was declared first: {'; '.join(orders)}"


def losing_words(name: str, found: Extension, lost: int, releases: int, others: int, free: str) -> str:
    """Return why a domain is not extended before somebody agrees to what that loses.

    Parameters
    ----------
    name, found
        Of the table, and its extension.
    lost, releases
        How many answers of the planner could not be used any more, and how many there are.
    others
        How many answers to other statements would be measured anew.
    free
        A name that no table has.
    """
    text = (
        f"nothing was changed: the domain of {shorten(name)} would be extended ({changes(found.before, found.after)})"
    )
    told = [f"{lost} of its {_many(releases, 'answer')} could not be used under it"] if lost else []
    told += [f"{_many(others, 'other statement')} would be measured anew when asked again"] if others else []
    text += f", and {', and '.join(told)}; what they cost stays. "
    if found.leaves_rows_out and lost:
        new = ", ".join(shorten(column) for column in found.added)
        text += (
            f"Rows without a level of {new} were counted and would not be: other= and nullable=True count them too. "
        )
    return (
        f"{text}Leave domain= out to use it as it was declared last; protect(..., lose_answers=True) extends it all "
        f"the same; by another name, such as {shorten(free)}, it starts without answers, and what both cost adds up"
    )


def extended_words(name: str, found: Extension, releases: int, history: History, others: int) -> str:
    """Return what to tell whoever extended a domain.

    Parameters
    ----------
    name, found
        Of the table, and its extension.
    releases, history
        How many answers of the planner there were, and what is left of them.
    others
        How many answers to other statements there were.
    """
    text = (
        f"the domain of {shorten(name)} was extended: {changes(found.before, found.after)}. {_kept(releases, history)}"
    )
    if others:
        text += f". {_many(others, 'other statement')} would be measured anew when asked again"
    if found.leaves_rows_out and releases:
        new = ", ".join(shorten(column) for column in found.added)
        text += f". Rows without a level of {new} were counted and are not: other= and nullable=True count them too"
    return text


def lost_words(history: History) -> str:
    """Return what a plan says of answers that cannot be used under the extended domain; empty where all can be."""
    if not history.lost:
        return ""
    return (
        f"{_many(len(history.lost), 'answer')} from before the domain was extended cannot be used under it; what "
        f"{'it' if len(history.lost) == 1 else 'they'} cost stays"
    )


def _kept(releases: int, history: History) -> str:
    lost = len(history.lost)
    if not releases:
        return "It had no answers from declared columns"
    if not lost:
        return f"Its {_many(releases, 'answer')} {'is' if releases == 1 else 'are'} kept"
    kept = f"{releases - lost} of its {_many(releases, 'answer')} are kept, " if lost < releases else ""
    subject = f"{lost}" if kept else f"its {_many(releases, 'answer')}"
    cost = "it" if lost == 1 else "they"
    return f"{kept or subject.capitalize()}{subject if kept else ''} cannot be used under it: what {cost} cost stays"


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}" + ("" if count == 1 else "s")
