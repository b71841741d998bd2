"""How many rows joins with public tables make of one row of a unit: as many as meet it, of which public tables tell.

What is declared of a protected table is of its own rows. A public table that each meets once, such as wards by their
number, leaves them as they are; one that each meets often, such as the days of a stay, makes more of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpnotebook.sql.ownership.queries import From, FromItem
from dpnotebook.sql.ownership.scope import Column
from dpnotebook.sql.statement import Relation


def repeats(relation: Relation, columns: tuple[str, ...]) -> int | None:
    """Return how many rows of a public table have the same values in some columns, at most.

    Of tables that are not at hand that is not known; a column that is joined by "=" is taken for their key then.

    Parameters
    ----------
    relation
        The table.
    columns
        Names of its columns; none for how many rows it has.

    Returns
    -------
    At least 1; None where it is not known.
    """
    if relation.repeats is None:
        return 1 if columns else None
    return max(relation.repeats(columns), 1)


def multiplied(
    left: From, right: FromItem, equal: Sequence[tuple[Column, Column]], relations: Mapping[str, Relation]
) -> int | None:
    """Return how many rows a join makes of one row of a unit, at most, by the public tables in it; None if not known.

    Parameters
    ----------
    left, right
        What is joined.
    equal
        The columns that its condition equates.
    relations
        What is public about the tables.
    """
    if right.lateral:  # lists of a row itself: what is declared of its unit is taken to be of their elements
        return left.times
    if (left.owner is None) == (right.owner is None):
        return together(left.times, right.times)
    if left.owner is None:
        only = left.joined[0].source if len(left.joined) == 1 else None
        return together(_meeting(only, left.times, equal, relations), right.times)
    return together(left.times, _meeting(right, right.times, equal, relations))


def together(*times: int | None) -> int | None:
    """Return a product, or None where a factor is not known."""
    found = 1
    for one in times:
        if one is None:
            return None
        found *= one
    return found


def _meeting(
    public: FromItem | None,
    size: int | None,
    equal: Sequence[tuple[Column, Column]],
    relations: Mapping[str, Relation],
) -> int | None:
    """Return how many rows of what is public one row meets, at most."""
    if public is None:
        return size
    own = {id(column.node): column.origin for column in public.columns}
    origins = [own[id(column.node)] for pair in equal for column in pair if id(column.node) in own]
    known = sorted({origin[1] for origin in origins if origin is not None and (origin[0],) == public.public})
    if not known:
        return size
    found = repeats(relations[public.public[0]], tuple(known))
    return found if size is None or found is None else min(found, size)
