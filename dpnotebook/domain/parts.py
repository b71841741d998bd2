"""Tables that grow by parts: which part a row came with, as an attribute of its own, the last one.

A row is in one part and stays there, so parts are told apart like the levels of any other attribute: what is asked of
one part costs nothing in the cells of the others, and what was asked before a part came was asked of those that were
there.
"""

from __future__ import annotations

from collections.abc import Iterable

from dpnotebook.domain.categorical import Categories
from dpnotebook.domain.schema import Domain
from dpnotebook.errors import DomainError, shorten

PART = "part"
MOST_PARTS = 10_000


def with_parts(domain: Domain, parts: int) -> Domain:
    """Return a domain that tells parts apart, numbered from 1, by an attribute behind all others.

    Parameters
    ----------
    domain
        The declared columns.
    parts
        How many parts there are; with none, the domain is as it is.

    Raises
    ------
    DomainError
        If a column has the name of that attribute, or there are too many parts.

    Examples
    --------
    >>> import dpnotebook as dpn
    >>> with_parts(dpn.Domain({"sex": ["F", "M"]}), 2).sizes
    {'sex': 2, 'part': 2}
    """
    if not parts:
        return domain
    if parts > MOST_PARTS:
        raise DomainError(f"a table has at most {MOST_PARTS:,} parts: put rows together before they are added")
    check_no_part(domain)
    return Domain({**domain, PART: Categories(list(range(1, parts + 1)), ordered=True)})


def without_parts(domain: Domain) -> Domain:
    """Return the domain without the attribute that `with_parts` put behind it."""
    return domain.project([name for name in domain.names if name != PART])


def check_no_part(columns: Iterable[str]) -> None:
    """Raise DomainError if one of some columns has the name of the attribute that tells parts apart."""
    taken = [name for name in columns if name.casefold() == PART]
    if taken:
        raise DomainError(
            f"the column {shorten(taken[0])} has the name by which the parts of a table that grows are told apart; "
            "rename the column"
        )
