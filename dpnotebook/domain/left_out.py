"""Which rows a declared domain leaves out, in words: nobody is told how many that are, as that would read the data."""

from __future__ import annotations

from collections.abc import Sequence

from dpnotebook.domain.attribute import Attribute
from dpnotebook.domain.numeric import Numeric
from dpnotebook.domain.schema import Domain
from dpnotebook.domain.times import Times

MOST_NAMED = 6  # columns


def left_out(domain: Domain) -> str:
    """Return which rows are not counted, as they have no place among the declared levels; empty where all have one.

    Parameters
    ----------
    domain
        What is declared of a table.

    Examples
    --------
    >>> from dpnotebook.domain import Bins, Categories, Domain
    >>> left_out(Domain({"sex": Categories(["F", "M"]), "income": Bins(0, 100, width=10)}))
    'rows with no sex or income, or with an undeclared sex,'
    >>> left_out(Domain({"sex": Categories(["F", "M"], other="other", nullable=True)}))
    ''
    """
    missing = lacking(domain)
    closed = [name for name, attribute in domain.items() if drops_undeclared(attribute)]
    undeclared = [name for name in closed if domain[name].holds != "boolean"]  # of which there are but two
    said = [f"with {word} {_named(names)}" for word, names in (("no", missing), ("an undeclared", undeclared)) if names]
    return f"rows {', or '.join(said)}{',' * (len(said) > 1)}" if said else ""


def lacking(domain: Domain) -> list[str]:
    """Return the columns without whose values rows are not counted.

    Also those of a dtype that cannot hold missing values: one missing value makes another dtype of it, and would show.
    """
    return [name for name, attribute in domain.items() if not attribute.nullable]


def drops_undeclared(attribute: Attribute) -> bool:
    """Return whether values beside the declared ones have no level, if a column of that kind can hold such."""
    has_place = attribute.clamps or attribute.other_index is not None
    return not (isinstance(attribute, Numeric | Times) or has_place)


def _named(names: Sequence[str]) -> str:
    if len(names) > MOST_NAMED:
        return f"{', '.join(names[: MOST_NAMED - 1])} or one of {len(names) - MOST_NAMED + 1} more"
    return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
