"""Two releases in one figure: each with its intervals, and on demand how much they differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dpnotebook.errors import ArgumentError, WorkloadError, shorten

if TYPE_CHECKING:
    from dpnotebook.notebook.cards.release import Series
    from dpnotebook.notebook.plots.figure import NotebookFigure
    from dpnotebook.notebook.plots.levels import PlacedLevels
    from dpnotebook.notebook.tables import AnswerTable
    from dpnotebook.session.release import Release

MOST_SAID = 6  # rows that the text for who does not see the picture names
MOST_PAIRS = 24  # of bars that stand beside one another


def compare(
    one: Release,
    other: Release,
    *,
    names: Sequence[str] | None = None,
    measure: str | None = None,
    difference: bool = False,
) -> NotebookFigure:
    """Return a figure of two releases: both with their intervals on one axis, and below it how much they differ.

    It is a picture and a table in exported notebooks, as that of `Release.plot`. Intervals of two answers may overlap
    where that of their difference leaves 0 out: to tell them apart, look at the difference, in which noise that they
    share cancels. Nothing is spent.

    Parameters
    ----------
    one, other
        Releases by the same keys, of the same unit.
    names
        What to call the two; what tells them apart when None.
    measure
        Which column to compare; the first that both have when None.
    difference
        Whether to draw `one - other`, with its own intervals, in a panel below.

    Raises
    ------
    WorkloadError
        If they have other keys or units, no measure in common, no rows, or too many levels to stand beside one
        another.
    ArgumentError
        If the names are not two texts, or one of the two is no release.

    Examples
    --------
    >>> import dpnotebook as dpn
    >>> from dpnotebook.testing import example_session
    >>> patients = example_session().table("patients")
    >>> young = patients.histogram("sex", where="age < 50", epsilon=0.2).run()
    >>> old = patients.histogram("sex", where="age >= 50", epsilon=0.2).run()
    >>> figure = dpn.compare(young, old, names=("young", "old"), difference=True)
    >>> [trace.name for trace in figure.data if trace.name]
    ['young', 'old']
    """
    from dpnotebook.notebook.cards.release import EMPTY, facts, scope
    from dpnotebook.notebook.plots.figure import NotebookFigure
    from dpnotebook.notebook.plots.panels import panelled
    from dpnotebook.notebook.plots.release import dress

    for release in (one, other):
        if not all(hasattr(release, part) for part in ("frame", "measures", "keys")):
            raise ArgumentError(f"two releases are compared, what .run() returns, not {shorten(release)}")
    if set(one.keys) != set(other.keys):
        keys = [", ".join(release.keys) or "nothing" for release in (one, other)]
        raise WorkloadError(f"releases are compared by the same keys: not by {keys[0]} and by {keys[1]}")
    if not (len(one.frame) and len(other.frame)):
        raise WorkloadError(f"there is nothing to compare: {EMPTY}")
    called = _names(one, other, names)
    pair = _pair(one, other, measure)
    figure = NotebookFigure()
    levels = _draw(figure, one, other, pair, called)
    drawn, titles, less = [figure], [""], None
    if difference:
        less = one - other
        drawn.append(_difference(less, pair[0], levels))
        titles.append(f"{called[0]} − {called[1]}")
    if len(drawn) > 1:
        figure = panelled(drawn, titles, columns=1)
        figure.update_layout(barmode="group")
    title = one.title if one.title == other.title else f"{one.title}, {other.title}"
    where = scope(one) if scope(one) == scope(other) else f"{scope(one)}, and {scope(other)}"
    notes = [
        facts(release) if facts(release).startswith(name) else f"{name}: {facts(release)}"
        for name, release in zip(called, (one, other), strict=True)
    ]
    dress(figure, title, where, notes)
    table = _table(one, other, pair, called, less)
    said = (f"{row[0]} {called[0]} {row[1]}, {called[1]} {row[2]}" for row in table.rows[:MOST_SAID])
    return figure.described(f"{title}, {called[0]} and {called[1]}: {'; '.join(said)}", table)


def _names(one: Release, other: Release, names: Sequence[str] | None) -> tuple[str, str]:
    """Return what to call two releases: what somebody says, else the first that tells them apart."""
    if names is not None:
        if isinstance(names, str) or len(names) != 2 or not all(isinstance(name, str) for name in names):
            raise ArgumentError(f"names= is two texts, as names=('2023', '2024'), not {shorten(names)}")
        return names[0], names[1]
    for first, second in (
        (one.where or "all", other.where or "all"),
        (one.table, other.table),
        (one.title, other.title),
        (f"release #{one.number}", f"release #{other.number}"),
    ):
        if first != second:
            return first, second
    return "first", "second"


def _pair(one: Release, other: Release, measure: str | None) -> tuple[Series, Series]:
    """Return the measure of each that is compared."""
    from dpnotebook.notebook.cards.release import series_of
    from dpnotebook.notebook.plots.release import drawable

    mine, others = ({series.name: series for series in series_of(release)} for release in (one, other))
    same = [name for name in mine if name in others]
    if measure is not None and measure not in same:
        raise WorkloadError(f"both releases have no measure {shorten(measure)}; they share {', '.join(same) or 'none'}")
    if not same and not len(mine) == len(others) == 1:
        raise WorkloadError("these releases have no measure in common: give them the same names")
    found = (mine[measure or same[0]], others[measure or same[0]]) if same else (*mine.values(), *others.values())
    if found[0].unit != found[1].unit:
        raise WorkloadError(f"these are of different units and share no axis: {found[0].unit} and {found[1].unit}")
    return drawable(found[0]), drawable(found[1])


def _draw(
    figure: NotebookFigure, one: Release, other: Release, pair: tuple[Series, Series], called: tuple[str, str]
) -> PlacedLevels | None:
    """Draw both; return the levels that stand along the axis."""
    from dpnotebook.notebook.plots.levels import PlacedLevels, key_levels
    from dpnotebook.notebook.plots.release import is_amount
    from dpnotebook.notebook.plots.theme import COLOURS, plain
    from dpnotebook.notebook.plots.traces import band, folded, group, ordered_axis

    unit = {"title": {"text": plain(pair[0].unit)}}
    amount = is_amount(one, pair[0])
    if not one.keys:
        for series, name, colour in zip(pair, called, COLOURS, strict=False):
            level = PlacedLevels("", [name], [name], None)
            group(figure, replace(series, name=name), level, colour, points=True)
        figure.update_layout(xaxis={"type": "category", "showgrid": False}, yaxis=unit, showlegend=False)
        return None
    sides = [folded([key_levels(release, key) for key in one.keys]) for release in (one, other)]
    if all(side.where is not None for side in sides):
        for series, side, name, colour in zip(pair, sides, called, COLOURS, strict=False):
            band(figure, series, side, colour, name, rows=2)
        figure.update_layout(
            xaxis=ordered_axis(sides[0]),
            yaxis={**unit, **({"rangemode": "tozero"} if amount else {})},
        )
        return sides[0]
    if max(len(side.names) for side in sides) > MOST_PAIRS:
        raise WorkloadError(
            f"more than {MOST_PAIRS} levels without an order do not fit beside one another: (one - other).plot() draws "
            "where the two differ most"
        )
    for series, side, name, colour in zip(pair, sides, called, COLOURS, strict=False):
        group(figure, replace(series, name=name), side, colour, points=not amount)
    figure.update_layout(
        barmode="group",
        scattermode="group",
        xaxis={"title": {"text": plain(sides[0].title)}, "type": "category", "showgrid": False},
        yaxis={**unit, **({"rangemode": "tozero"} if amount else {})},
    )
    return sides[0]


def _difference(less: Release, like: Series, levels: PlacedLevels | None) -> NotebookFigure:
    """Return a figure of the differences, along the axis of what they are of."""
    from dpnotebook.notebook.cards.release import series_of
    from dpnotebook.notebook.plots.figure import NotebookFigure
    from dpnotebook.notebook.plots.levels import PlacedLevels, key_levels
    from dpnotebook.notebook.plots.release import drawable
    from dpnotebook.notebook.plots.theme import INK, plain
    from dpnotebook.notebook.plots.traces import band, bars, folded, ordered_axis

    made = NotebookFigure()
    found = {series.name: series for series in series_of(less)}
    series = drawable(found.get(like.name) or next(iter(found.values())))
    keys = [key_levels(less, key) for key in less.keys]
    side = folded(keys) if keys else PlacedLevels("", ["difference"], ["difference"], None)
    if levels is not None and levels.where is not None and side.where is not None:
        band(made, series, side, INK)
        axis = ordered_axis(side)
    else:
        bars(made, series, side, lying=False, points=True)
        axis = {"title": {"text": plain(side.title)}, "type": "category", "showgrid": False}
    made.update_layout(xaxis=axis, yaxis={"title": {"text": plain(like.unit)}, "rangemode": "tozero", "zeroline": True})
    return made


def _table(
    one: Release, other: Release, pair: tuple[Series, Series], called: tuple[str, str], less: Release | None
) -> AnswerTable:
    """Return both and their difference, a row a level."""
    from dpnotebook.notebook.cards.release import series_of
    from dpnotebook.notebook.plots.levels import key_levels
    from dpnotebook.notebook.plots.numbers import said
    from dpnotebook.notebook.plots.traces import folded
    from dpnotebook.notebook.tables import AnswerTable

    columns: list[dict[str, str]] = []
    releases = [(one, pair[0]), (other, pair[1])]
    if less is not None:
        found = {series.name: series for series in series_of(less)}
        releases.append((less, found.get(pair[0].name) or next(iter(found.values()))))
    for release, series in releases:
        keys = [key_levels(release, key) for key in one.keys]
        names = folded(keys).names if keys else [pair[0].words]
        columns.append(dict(zip(names, said(series, unit=False), strict=True)))
    rows = list(dict.fromkeys(name for column in columns for name in column))
    head = (" · ".join(one.keys), *called, *(["difference"] if less is not None else []))
    body = tuple((row, *(column.get(row, "") for column in columns)) for row in rows)
    return AnswerTable(head, body, "l" + "r" * len(columns), caption=f"in {pair[0].unit}" if pair[0].unit else "")
