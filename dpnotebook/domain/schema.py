"""The declared domain of a table: which columns may be asked about, and the levels of each.

A domain is what its author knows from outside the data. Nothing here looks at data, and everything that is released
is said in the levels declared here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from dpnotebook.domain.attribute import SAID, Attribute
from dpnotebook.domain.bins import Bins
from dpnotebook.domain.categorical import Boolean, Categories
from dpnotebook.domain.dates import Dates
from dpnotebook.domain.domain_workloads import Asking
from dpnotebook.domain.numeric import Range
from dpnotebook.domain.times import Times
from dpnotebook.errors import DomainError, is_column_of_data, shorten

MAX_ATTRIBUTES = 10_000


class Domain(Mapping[str, Attribute], Asking):
    """The declared columns of a table, in order. Immutable, hashable, equal by value and order.

    Parameters
    ----------
    attributes
        Column names with what they hold: a `Range`, `Bins`, `Categories`, `Boolean`, `Dates` or `Times`, or, for
        short, a list of levels, `bool`, a `range`, or a pandas categorical dtype.

    Raises
    ------
    DomainError
        If there is no column, or one is not declared in such a way.

    Examples
    --------
    >>> import dpnotebook as dpn
    >>> domain = dpn.Domain({"age": dpn.Range(0, 115), "sex": ["F", "M"], "insured": bool})
    >>> domain.sizes
    {'age': 116, 'sex': 2, 'insured': 2}
    >>> domain.size
    464
    >>> domain.project(["sex", "insured"]).shape
    (2, 2)
    >>> domain.marginals(1).shape  # queries, cells
    (120, 464)
    """

    _attributes: dict[str, Attribute]

    def __init__(self, attributes: Mapping[str, Any]) -> None:
        if not isinstance(attributes, Mapping):
            raise DomainError(f"a domain is a dict from column names to levels, not {shorten(attributes)}")
        if not attributes:
            raise DomainError("a domain declares at least one column, such as {'age': Range(0, 115)}")
        if len(attributes) > MAX_ATTRIBUTES:
            raise DomainError(f"a domain declares at most {MAX_ATTRIBUTES:,} columns, not {len(attributes):,}")
        found: dict[str, Attribute] = {}
        folded: dict[str, str] = {}
        for name, declared in attributes.items():
            _check_name(name)
            twin = folded.setdefault(name.casefold(), name)
            if twin != name:
                raise DomainError(
                    f"the columns {shorten(twin)} and {shorten(name)} differ only in case, which SQL cannot tell "
                    "apart; rename one"
                )
            try:
                found[name] = _attribute(declared)
            except DomainError as error:
                raise DomainError(f"column {shorten(name)}: {error}") from None
        object.__setattr__(self, "_attributes", found)

    @classmethod
    def nothing(cls) -> Domain:
        """Return the domain that declares no column: one cell, which every row is in."""
        made = object.__new__(cls)
        object.__setattr__(made, "_attributes", {})
        return made

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("a Domain does not change; make a new one")

    def __getitem__(self, name: str) -> Attribute:
        return self._attributes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._attributes)

    def __len__(self) -> int:
        return len(self._attributes)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(self._attributes)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The number of levels of each column."""
        return tuple(attribute.size for attribute in self._attributes.values())

    @property
    def sizes(self) -> dict[str, int]:
        """The number of levels of each column, by name."""
        return dict(zip(self.names, self.shape, strict=True))

    @cached_property
    def size(self) -> int:
        """The number of cells, an exact int however large."""
        return math.prod(self.shape)

    def label_of(self, name: str) -> str:
        """Return what people call a column: its label, or else its name.

        Examples
        --------
        >>> import dpnotebook as dpn
        >>> domain = dpn.Domain({"pay": dpn.Range(0, 99, unit="dollars", label="Pay an hour"), "sex": ["F", "M"]})
        >>> domain.label_of("pay"), domain.unit_of("pay"), domain.label_of("sex"), domain.unit_of("sex")
        ('Pay an hour', 'dollars', 'sex', 'sex')
        """
        attribute = self._attributes.get(name)
        return name if attribute is None or attribute.label is None else attribute.label

    def unit_of(self, name: str) -> str:
        """Return what the values of a column are counted in: its unit, or else what the column is called."""
        attribute = self._attributes.get(name)
        return self.label_of(name) if attribute is None or attribute.unit is None else attribute.unit

    def project(self, names: Iterable[str]) -> Domain:
        """Return the domain of some columns, in the order given; of none, a domain of one cell.

        Raises
        ------
        DomainError
            If a name is not declared or comes twice.
        """
        if isinstance(names, str) or hasattr(names, "iloc"):
            raise DomainError(f"names are a list such as [{shorten(names)}]")
        chosen = list(islice(names, MAX_ATTRIBUTES + 1))
        if not chosen:
            return Domain.nothing()
        for place, name in enumerate(chosen):
            if name not in self._attributes:
                raise DomainError(self.unknown(name))
            if name in chosen[:place]:
                raise DomainError(f"the column {shorten(name)} is named twice")
        projected = object.__new__(Domain)  # its parts are checked already
        object.__setattr__(projected, "_attributes", {name: self._attributes[name] for name in chosen})
        return projected

    def with_missing(self, columns: bool | Iterable[str]) -> Domain:
        """Return the domain where missing values of some columns have a level of their own: of all, or of those named.

        Raises
        ------
        DomainError
            If a name is not declared.

        Examples
        --------
        >>> import dpnotebook as dpn
        >>> domain = dpn.Domain({"age": dpn.Range(0, 2), "insured": bool})
        >>> domain.with_missing(["insured"])
        Domain({'age': Range(0, 2), 'insured': Boolean(nullable=True)})
        >>> domain.with_missing(True).sizes
        {'age': 4, 'insured': 3}
        """
        chosen = (self.names if columns else ()) if isinstance(columns, bool) else self.project(columns).names
        if not chosen:
            return self
        named = {name: attribute_from_json(self[name].to_json() | {"nullable": True}) for name in chosen}
        return Domain(self._attributes | named)

    def unknown(self, name: object) -> str:
        """Return what to tell someone who asked for a column that is not declared."""
        if not self:
            return f"no column of this table is declared; declare {shorten(name)} in domain= when you protect it"
        near = get_close_matches(name, self.names, 1) if isinstance(name, str) else []
        near = near or [known for known in self.names if isinstance(name, str) and known.casefold() == name.casefold()]
        if near:
            return f"there is no declared column {shorten(name)}; did you mean {shorten(near[0])}?"
        shown = ", ".join(self.names[:12]) + (f" and {len(self) - 12:,} more" if len(self) > 12 else "")
        return f"there is no declared column {shorten(name)}; the domain declares {shown}"

    def to_json(self) -> dict[str, Any]:
        """Return the domain as JSON values; the order of the columns is kept."""
        return {"attributes": [{"name": name, **item.to_json()} for name, item in self._attributes.items()]}

    @classmethod
    def from_json(cls, obj: Mapping[str, Any]) -> Domain:
        """Return the domain that `to_json` wrote."""
        try:
            items = [(item["name"], attribute_from_json(item)) for item in obj["attributes"]]
        except (KeyError, TypeError) as error:
            raise DomainError("this is not a recorded domain") from error
        return cls(dict(items)) if items else cls.nothing()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Domain):
            return NotImplemented
        return self is other or list(self._attributes.items()) == list(other._attributes.items())

    def __hash__(self) -> int:
        return hash(tuple(self._attributes.items()))

    def __repr__(self) -> str:
        return f"Domain({{{', '.join(f'{name!r}: {item!r}' for name, item in self._attributes.items())}}})"


def without_words(recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Return a domain that `Domain.to_json` wrote without units and labels, which tell no domains apart."""
    if "attributes" not in recorded:
        return dict(recorded)
    attributes = [{name: value for name, value in each.items() if name not in SAID} for each in recorded["attributes"]]
    return {**recorded, "attributes": attributes}


def attribute_from_json(obj: Mapping[str, Any]) -> Attribute:
    """Return the attribute that `Attribute.to_json` wrote.

    Raises
    ------
    DomainError
        If the object does not describe an attribute.
    """
    found = _levels_from_json(obj)
    return found.named(*(obj.get(name) for name in SAID)) if any(name in obj for name in SAID) else found


def _levels_from_json(obj: Mapping[str, Any]) -> Attribute:
    try:
        match obj["kind"]:
            case "range":
                return Range(obj["low"], obj["high"], outside=obj["outside"], nullable=obj["nullable"])
            case "bins":
                options = {"outside": obj["outside"], "nullable": obj["nullable"]}
                if "edges" in obj:
                    return Bins(edges=obj["edges"], **options)
                return Bins(obj["low"], obj["high"], count=obj["count"], **options)
            case "categories":
                return Categories(obj["levels"], other=obj["other"], nullable=obj["nullable"], ordered=obj["ordered"])
            case "boolean":
                return Boolean(nullable=obj["nullable"])
            case "dates":
                options = {name: obj[name] for name in ("by", "outside", "nullable", "timezone")}
                return Dates(obj["first"], obj["last"], **options)
            case "times":
                return Times(by=obj["by"], nullable=obj["nullable"], timezone=obj["timezone"])
    except (KeyError, TypeError) as error:
        raise DomainError("this is not a recorded attribute") from error
    raise DomainError("this is not a recorded attribute")


def _check_name(name: object) -> None:
    if not isinstance(name, str):
        raise DomainError(f"column names are text, and {shorten(name)} is not; rename the column")
    if not name.strip():
        raise DomainError("a column name is empty; rename the column")
    if "`" in name or not name.replace("\n", " ").replace("\t", " ").isprintable():
        raise DomainError(
            f"the column name {shorten(name)} has a backtick or an invisible character in it; rename the column"
        )


def _attribute(declared: Any) -> Attribute:
    """Return an attribute for what a user wrote: an attribute, or a short form of one."""
    if isinstance(declared, Attribute):
        return declared
    if declared is bool or declared is np.bool_:
        return Boolean()
    if isinstance(declared, type):
        raise DomainError(
            f"{declared.__name__} alone does not say which values there are; write Range(low, high) for whole numbers, "
            "Bins(low, high, width=...) for others, a list for texts"
        )
    if isinstance(declared, range):
        if declared.step != 1 or not declared:
            raise DomainError(f"{shorten(declared)} is empty or leaves numbers out; write Range(low, high), or a list")
        return Range(declared[0], declared[-1])
    if hasattr(declared, "categories") and hasattr(declared, "ordered"):
        if declared.categories is None:
            raise DomainError("this categorical type lists no categories; list them")
        return Categories(list(declared.categories), ordered=bool(declared.ordered))
    if is_column_of_data(declared):
        raise DomainError(
            "this is a column of data; a domain says what you know without it: write its levels as a list"
        )
    if isinstance(declared, np.ndarray) or (hasattr(declared, "tolist") and hasattr(declared, "ndim")):
        if declared.ndim != 1:
            raise DomainError(f"levels have one dimension, not {declared.ndim}")
        return Categories(declared)
    return Categories(declared)
