"""Whose clock the days of a column of dates go by: what is declared, against what the column's type says."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from dpnotebook.domain import Attribute, Dates, Domain, Times
from dpnotebook.domain.calendar import NoDate, time_zone
from dpnotebook.errors import DomainError, shorten

UTC = ("UTC", "Etc/UTC", "GMT")


def with_time_zones(domain: Domain, data: Any) -> Domain:
    """Return a domain in which dates are told in the time zones of a frame's columns, where no other is declared.

    Parameters
    ----------
    domain
        What is declared.
    data
        What is to be protected; only types of columns are looked at.
    """
    found: dict[str, Attribute] = {}
    for name, attribute in domain.items():
        if isinstance(attribute, Dates | Times) and attribute.timezone is None:
            zone = _zone_of(data, name)
            if zone is not None:
                found[name] = attribute.in_zone(zone)
    return Domain({**domain, **found}) if found else domain


def clocks_of(data: Any, names: Iterable[str]) -> dict[str, str]:
    """Return the time zones of columns of a frame, but for UTC and zones without a name.

    Parameters
    ----------
    data
        The frame; only types of columns are looked at.
    names
        Of the columns.
    """
    found = ((name, _zone_of(data, name)) for name in names)
    return {name: zone for name, zone in found if zone is not None and zone not in UTC and is_known(zone)}


@cache
def is_known(zone: str) -> bool:
    """Whether a time zone has a name that statements can tell moments by."""
    try:
        time_zone(zone)
    except NoDate:
        return False
    return True


def check_time_zone(name: str, attribute: Dates | Times, zoned: bool) -> None:
    """Refuse dates of moments without a time zone to tell them in, and of times without one to tell them from.

    Parameters
    ----------
    name, attribute
        The column, and what is declared of it.
    zoned
        Whether its type is one of moments, which databases keep in UTC.

    Raises
    ------
    DomainError
        If it does not fit.
    """
    if zoned and attribute.timezone is None:
        raise DomainError(
            f"{shorten(name)} holds moments, which are on different days in different places; say whose days are "
            f"meant: {type(attribute).__name__}(..., timezone='Europe/Paris'), or timezone='UTC'"
        )
    if not zoned and attribute.timezone is not None:
        raise DomainError(
            f"{shorten(name)} holds times without a time zone, so there is nothing to tell in "
            f"{shorten(attribute.timezone)}; leave timezone= out, and its days are as they are written"
        )


def _zone_of(data: Any, name: str) -> str | None:
    """Return the time zone of a column of pandas or Arrow, as its type names it."""
    try:
        if hasattr(data, "dtypes") and hasattr(data, "iloc"):
            dtype = data.dtypes[name]
            zone = getattr(dtype, "tz", None) or getattr(getattr(dtype, "pyarrow_dtype", None), "tz", None)
        else:
            schema = data.schema
            kind = schema.field(name).type if hasattr(schema, "field") else schema[name]
            zone = getattr(kind, "tz", None) or getattr(kind, "time_zone", None)
    except Exception:  # a source of another kind, or without such a column, which is told elsewhere
        return None
    return None if zone is None else str(zone)
