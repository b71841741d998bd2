"""SQL of a unit's vector over all groups, scaled down to a norm: nothing else of a unit is bounded then.

What the unit has in each group is an integer, in parts of a step; squares are added up as integers too, so that the
norm does not depend on the order of rows.
"""

from __future__ import annotations

from dpnotebook.dialect.attributes import number
from dpnotebook.sql.aggregates.catalogue import statistic_of
from dpnotebook.sql.bounded_sums import Component
from dpnotebook.sql.rewrite import steps
from dpnotebook.sql.rewrite.partials import Columns

FINER = 20  # bits of a step that entries keep until they are cut off
SAFE = 1 << 24  # steps up to which a clipped vector of whole numbers cannot exceed its norm by rounding
SCALED = 19  # bits of the bound of a norm, when squares are added up as integers
LONGEST = 10**9 - 1  # largest entry of a vector then: its square has 18 digits


def of_vector(component: Component, columns: Columns) -> str:
    """Return what a unit has in a group, in parts of a step, as a number without fraction.

    Parameters
    ----------
    component
        What is added up.
    columns
        What is added up over the rows of the unit in the group; more is added to it.
    """
    return statistic_of(component).of_vector(component, component.step / 2 ** _finer(component), columns)


def entry(component: Component, value: str) -> str:
    """Return what a unit has in a group, which is never NULL, as far as it counts: its square fits."""
    most = number(float(LONGEST * _coarse(component)))
    return f"least(greatest({value}, -{most}), {most})"


def squares(component: Component, name: str) -> str:
    """Return the square of an `entry`, as an integer that can be added up without limit."""
    size = steps.integer(f"ceil(abs({name}) / {number(float(_coarse(component)))})")
    return steps.exact(f"{size} * {size}")


def factor(component: Component, squared: str) -> str:
    """Return by what a unit's vector over groups is scaled down to the norm.

    Parameters
    ----------
    component
        What is added up.
    squared
        The sum of the squares of the vector.
    """
    norm = f"sqrt(CAST({squared} AS DOUBLE))"
    inner, bound = (_coarsely(component, norm) for norm in (component.beyond, component.largest))
    if component.beyond:  # a little less than what is beyond, which rounding must not make more
        safe = 1.0 - 2.0**-40
        beyond = f"{number(safe)} - {number(inner * safe)} / {norm}"
        return (
            f"CASE WHEN {squared} <= {inner * inner} THEN {number(0.0)} WHEN {squared} <= {(inner + bound) ** 2} "
            f"THEN {beyond} ELSE {number(bound * safe)} / {norm} END"
        )
    safe = 1.0 if component.largest <= SAFE else 1.0 - 2.0**-40
    return f"CASE WHEN {squared} <= {bound * bound} THEN {number(1.0)} ELSE {number(bound * safe)} / {norm} END"


def clipped(component: Component, name: str, factor: str) -> str:
    """Return a unit's entry of its vector over groups, scaled down to the norm, cut off to whole steps.

    The result's squares never add up to more than `largest` squared: squares of whole numbers do not, where floating
    point is off by less than one; larger ones are scaled by a little less.

    Parameters
    ----------
    component, name
        What is added up, and SQL of the `entry`.
    factor
        What it is scaled by; see `factor`.
    """
    part = number(float(1 << _finer(component)))
    scaled = f"{name} * {factor} / {part}"
    cut = f"CASE WHEN {name} < 0 THEN ceil({scaled}) ELSE floor({scaled}) END"
    return steps.within(cut, -component.largest, component.largest)


def _coarsely(component: Component, norm: int) -> int:
    """Return a norm in steps as norms are compared."""
    return (norm << _finer(component)) // _coarse(component)


def _coarse(component: Component) -> int:
    """Return what the entries of a vector are divided by, so that squares fit, and still tell a norm to 2^-18."""
    bits = (_longest(component) << _finer(component)).bit_length()
    return 1 << max(0, bits - SCALED)


def _finer(component: Component) -> int:
    return max(0, min(FINER, steps.WIDEST - steps.ABOVE - _longest(component).bit_length()))


def _longest(component: Component) -> int:
    """Return the norm, in steps, beyond which nothing more is added up."""
    return component.beyond + component.largest
