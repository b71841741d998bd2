"""The axes of a still picture: where values lie on them, and which numbers, names or dates are written beside them."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.notebook.plots.still_text import unmarked
from dpnotebook.notebook.plots.theme import GRID, INK, LINE, SMALL, TEXT

MOST_TICKS = 7  # of numbers and dates; as many fit beside one another
ROOM = 6  # pixels between two labels
LONGEST = 60  # letters of a name beside an axis
WAYS = (0, 35, 90)  # degrees by which names lean that would else run into one another

_RGBA = re.compile(r"rgba?\((\d+), ?(\d+), ?(\d+)(?:, ?([\d.]+))?\)")


def colour(text: str) -> Any:
    """Return a colour of plotly as matplotlib takes it."""
    found = _RGBA.fullmatch(text.strip())
    if found is None:
        return text
    red, green, blue = (int(part) / 255 for part in found.groups()[:3])
    return red, green, blue, float(found[4] or 1)


def unpacked(values: Any) -> Any:
    """Return values as plotly was given them: it packs arrays of numbers when a figure is copied or read from JSON."""
    if not (isinstance(values, Mapping) and "bdata" in values):
        return values
    found = np.frombuffer(base64.b64decode(values["bdata"]), dtype=values["dtype"])
    return found.reshape([int(size) for size in str(values.get("shape", "-1")).split(",")])


def number(value: float, position: int = 0) -> str:
    """Return a number beside an axis: all digits, thousands separated."""
    return f"{value:,.10g}".replace("-", "\N{MINUS SIGN}")


class StillAxis:
    """One axis of a panel.

    Parameters
    ----------
    side
        "x" or "y".
    layout
        What plotly's layout says of it.
    kind
        "linear", "log", "date" or "category".
    names
        Of a category axis, its categories in order.
    """

    def __init__(self, side: str, layout: Any, kind: str, names: Sequence[Any]) -> None:
        self.side, self.layout, self.kind, self.names = side, layout, kind, list(names)
        self.domain = tuple(layout.domain or (0.0, 1.0))
        self.reversed = layout.autorange == "reversed"
        self._index = {name: place for place, name in enumerate(self.names)}

    def place(self, values: Any) -> NDArray[np.float64]:
        """Return where values lie; NaN for those that do not."""
        values = unpacked(values)
        if values is None:
            return np.zeros(0)
        if self.kind == "category":
            return np.array([self._index.get(value, np.nan) for value in list(values)], dtype=float)
        if self.kind == "date":
            moments = np.array([np.datetime64("NaT") if value is None else np.datetime64(value, "us")
                                for value in list(values)], dtype="datetime64[us]")  # fmt: skip
            days = (moments - np.datetime64("1970-01-01", "us")) / np.timedelta64(1, "D")
            return np.where(np.isnat(moments), np.nan, days)
        return np.array([np.nan if value is None else float(value) for value in list(values)], dtype=float)

    def finish(self, axes: Any) -> None:
        """Give an axis its ends, its title and its ticks."""
        axis, layout = getattr(axes, f"{self.side}axis"), self.layout
        ends, limit = getattr(axes, f"get_{self.side}lim"), getattr(axes, f"set_{self.side}lim")
        if self.kind == "log":
            getattr(axes, f"set_{self.side}scale")("log")
        if self.kind == "category":
            limit(-0.5, len(self.names) - 0.5)
        elif layout.range is not None and self.kind == "linear":
            limit(*layout.range)
        elif layout.rangemode == "tozero" and self.kind == "linear":
            low, high = ends()
            limit(min(low, 0.0), max(high, 0.0))
        if self.reversed and ends()[0] < ends()[1]:
            limit(*ends()[::-1])
        axes.spines["bottom" if self.side == "x" else "left"].set_color(LINE)
        shown = layout.showticklabels is not False
        axes.tick_params(self.side, colors=LINE, labelcolor=INK, labelsize=SMALL, length=4,
                         **{f"label{'bottom' if self.side == 'x' else 'left'}": shown})  # fmt: skip
        if layout.showgrid is not False and self.kind != "category":
            axis.grid(True, color=colour(layout.gridcolor or GRID), lw=1)
            low, high = sorted(ends())
            if self.kind == "linear" and layout.zeroline is not False and low < 0 < high:
                line = axes.axvline if self.side == "x" else axes.axhline
                line(0, color=colour(layout.zerolinecolor or LINE), lw=1, zorder=1)
        axes.set_axisbelow(True)
        if layout.title.text:
            axis.set_label_text(unmarked(layout.title.text), size=TEXT, color=INK)
            axis.labelpad = 6
        self._ticks(axis)

    def _ticks(self, axis: Any) -> None:
        from matplotlib import dates as untyped
        from matplotlib import ticker

        dates: Any = untyped

        layout = self.layout
        if layout.tickvals is not None:
            axis.set_major_locator(ticker.FixedLocator(self.place(layout.tickvals).tolist()))
            axis.set_minor_locator(ticker.NullLocator())
            axis.set_major_formatter(ticker.FixedFormatter([unmarked(str(text)) for text in layout.ticktext]))
        elif self.kind == "category":
            self._named(axis, 1)
        elif self.kind == "date":
            locator = dates.AutoDateLocator(minticks=3, maxticks=MOST_TICKS + 1)
            axis.set_major_locator(locator)
            axis.set_major_formatter(dates.ConciseDateFormatter(locator, show_offset=False, formats=[
                "%Y", "%b\n%Y", "%d %b", "%H:%M", "%H:%M", "%S"], zero_formats=[
                "%Y", "%b\n%Y", "%d %b", "%d %b", "%H:%M", "%H:%M"]))  # fmt: skip
        elif self.kind == "log":
            axis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.set_major_formatter(ticker.FuncFormatter(number))
            axis.set_minor_formatter(ticker.NullFormatter())
        else:
            axis.set_major_locator(ticker.MaxNLocator(MOST_TICKS, steps=[1, 2, 5, 10]))
            axis.set_major_formatter(ticker.FuncFormatter(number))

    def _named(self, axis: Any, step: int) -> None:
        from matplotlib import ticker

        said = [unmarked(str(name)) for name in self.names]
        said = [text if len(text) <= LONGEST else text[: LONGEST - 1] + "…" for text in said]
        axis.set_major_locator(ticker.FixedLocator(list(range(0, len(said), step))))
        axis.set_major_formatter(ticker.FixedFormatter(said[::step]))

    def thin(self, axes: Any, renderer: Any) -> None:
        """Let names lean, and leave out some, until none runs into the next."""
        if self.kind != "category" or not self.names or self.layout.showticklabels is False:
            return
        axis, box = getattr(axes, f"{self.side}axis"), axes.get_window_extent(renderer)
        between = (box.width if self.side == "x" else box.height) / len(self.names)
        sizes = [text.get_window_extent(renderer) for text in axis.get_ticklabels()]
        tall = SMALL + ROOM - 2
        if self.side == "y":
            self._named(axis, max(1, int(np.ceil(tall / between))))
            return
        widest = (
            max((size.width for size in sizes), default=0.0) if axis.get_ticklabels()[0].get_rotation() == 0 else 1e9
        )
        way = WAYS[0] if widest + ROOM <= between else WAYS[1] if between > 2 * tall else WAYS[2]
        if axis.get_ticklabels()[0].get_rotation():
            return
        self._named(axis, 1 if way == 0 else max(1, int(np.ceil(tall / between))))
        axes.tick_params("x", labelrotation=way)
        for text in axis.get_ticklabels():
            text.set_ha("right" if way == WAYS[1] else "center")
            text.set_rotation_mode("anchor" if way == WAYS[1] else "default")


def still_axis(layout: Any, side: str, name: str, traces: Sequence[Any]) -> StillAxis:
    """Return an axis of plotly's layout, with its kind read from what is drawn on it where nothing says it.

    Parameters
    ----------
    layout
        The layout of the figure.
    side, name
        "x" or "y", and which, as traces name it: "x2".
    traces
        What is drawn on it.
    """
    said = layout[f"{side}axis{name[1:]}"]
    found = [values for trace in traces if (values := unpacked(getattr(trace, side, None))) is not None]
    first = next((value for values in found for value in list(values)[:50] if value is not None), None)
    kind = said.type if said.type not in (None, "-") else None
    if kind is None:
        moment = isinstance(first, np.datetime64) or hasattr(first, "isoformat")
        kind = "date" if moment else "category" if isinstance(first, str) else "linear"
    names: dict[Any, None] = {}
    if kind == "category":
        for values in found:
            names.update(dict.fromkeys(list(values)))
    return StillAxis(side, said, kind, list(names))
