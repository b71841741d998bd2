"""Which rows take part, as controls over the declared domain: sliders, check boxes, dates, lists to search in.

A control is made when somebody adds it, so that a table of 300 columns opens like one of three; and a list shows as
many levels as can be read, so that ten thousand open like ten. Nothing here looks at a row.
"""

from __future__ import annotations

import datetime
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from dpnotebook.domain import Attribute, Dates, Range
from dpnotebook.domain.values import Mask
from dpnotebook.notebook.html import at_most, escape, line, quiet

MOST_BOXES = 12  # levels that have a check box each
MOST_LISTED = 200  # levels that a list shows at a time: the rest is found by typing
MOST_STOPS = 1_000  # levels that a slider has as texts; of more it has numbers
READ_OUT = 16  # characters that fit beside a slider
ALL = "every level"


def level_filter(name: str, label: str, attribute: Attribute, changed: Callable[[], None]) -> LevelFilter:
    """Return the control that suits how a column is declared.

    Parameters
    ----------
    name, label
        Of the column, and what people call it.
    attribute
        Its declaration.
    changed
        Called whenever other levels are chosen.
    """
    if isinstance(attribute, Dates) and attribute.by == "day":
        return DateFilter(name, label, attribute, changed)
    if attribute.ordered and attribute.regular > 2:
        return RangeFilter(name, label, attribute, changed)
    if attribute.regular <= MOST_BOXES:
        return BoxFilter(name, label, attribute, changed)
    return ListFilter(name, label, attribute, changed)


class LevelFilter(ABC):
    """The controls of one column, its levels in words, and a way to take it away.

    Parameters
    ----------
    name, label, attribute, changed
        See `level_filter`.
    """

    def __init__(self, name: str, label: str, attribute: Attribute, changed: Callable[[], None]) -> None:
        import ipywidgets as widgets

        self.name, self.label, self.attribute = name, label, attribute
        self._changed, self._following = changed, False
        self.words = widgets.HTML()
        self.remove_button = widgets.Button(
            description=f"Remove the filter on {label}", layout=widgets.Layout(width="auto")
        )
        self.extras = {
            place: widgets.Checkbox(
                value=True,
                description=f"{label}: {word}",
                indent=False,
                layout=widgets.Layout(width="auto"),
            )
            for place, word in ((attribute.other_index, "other values"), (attribute.null_index, "missing"))
            if place is not None
        }
        self._own_extras = False
        for box in self.extras.values():
            box.observe(self._chose_extras, "value")
        wrap = widgets.Layout(align_items="center", flex_flow="wrap")
        self.widget = widgets.HBox(
            [*self._controls(), *self.extras.values(), self.words, self.remove_button], layout=wrap
        )
        self._say()

    @property
    def mask(self) -> Mask:
        """Which levels take part, shape (size,)."""
        found = np.zeros(self.attribute.size, dtype=bool)
        found[: self.attribute.regular] = self._regular()
        for place, box in self.extras.items():
            found[place] = box.value
        return found

    @abstractmethod
    def _controls(self) -> list[Any]:
        """Make the widgets, once."""

    @abstractmethod
    def _regular(self) -> Mask:
        """Return which regular levels take part, shape (regular,)."""

    def _chose_extras(self, _change: object) -> None:
        if not self._following:
            self._own_extras = True
            self._moved()

    def _moved(self, _change: object = None) -> None:
        if not self._following:
            self._follow()
            self._say()
            self._changed()

    def _follow(self) -> None:
        """Leave out other and missing values as soon as some levels are, as `where=` does, unless they were chosen."""
        if not self._own_extras:
            self._following = True
            try:
                for box in self.extras.values():
                    box.value = bool(self._regular().all())
            finally:
                self._following = False

    def _say(self) -> None:
        mask = self.mask
        said = ALL if mask.all() else self.attribute.describe(mask)
        self.words.value = line(quiet(escape(f"{self.label}: {said}")))

    def _set(self, **values: Any) -> None:
        """Move controls that follow another one, as one change."""
        self._following = True
        try:
            for name, value in values.items():
                getattr(self, name).value = value
        finally:
            self._following = False


class RangeFilter(LevelFilter):
    """From one level to another: a slider for the hand, and two fields for whoever types."""

    def _controls(self) -> list[Any]:
        import ipywidgets as widgets

        wide, width = {"description_width": "initial"}, widgets.Layout(width="340px", max_width=at_most(340))
        declared = self.attribute
        last = declared.regular - 1
        self._first = declared.low if isinstance(declared, Range) else 0
        self._options: list[tuple[str, int]] = []
        if not isinstance(declared, Range) and declared.regular <= MOST_STOPS:
            self._options = [(str(label), place) for place, label in enumerate(declared.labels[: declared.regular])]
        slides: dict[str, Any] = {"description": self.label, "style": wide, "layout": width}
        fields: dict[str, Any] = {"style": wide, "layout": widgets.Layout(width="auto", max_width=at_most(240))}
        if self._options:
            # Where two labels do not fit beside the slider, the fields and the words say them, and what is read aloud.
            slides["readout"] = 2 * max(len(label) for label, _ in self._options) <= READ_OUT
            self.slider = widgets.SelectionRangeSlider(options=self._options, value=(0, last), **slides)
            self.low = widgets.Dropdown(options=self._options, value=0, description=f"{self.label} from", **fields)
            self.high = widgets.Dropdown(options=self._options, value=last, description=f"{self.label} to", **fields)
        else:
            ends = {"min": self._first, "max": self._first + last}
            self.slider = widgets.IntRangeSlider(value=tuple(ends.values()), **ends, **slides)
            what = self.label if isinstance(declared, Range) else f"{self.label}: level"
            self.low = widgets.BoundedIntText(value=ends["min"], **ends, description=f"{what} from", **fields)
            self.high = widgets.BoundedIntText(value=ends["max"], **ends, description=f"{what} to", **fields)
        self.slider.observe(self._slid, "value")
        self.low.observe(self._typed, "value")
        self.high.observe(self._typed, "value")
        return [self.slider, self.low, self.high]

    def _slid(self, _change: object) -> None:
        if not self._following:
            low, high = self.slider.value
            self._set(low=low, high=high)
            self._moved()

    def _typed(self, change: Any) -> None:
        if not self._following:
            low, high = self.low.value, self.high.value
            if low > high:  # who moves one end past the other means to push it
                low = high = change["new"]
                self._set(low=low, high=high)
            self._set(slider=(low, high))
            self._moved()

    def _regular(self) -> Mask:
        places = np.arange(self.attribute.regular) + self._first
        return np.asarray((places >= self.low.value) & (places <= self.high.value))


class DateFilter(LevelFilter):
    """From one day to another, by the browser's own fields for dates."""

    attribute: Dates

    def _controls(self) -> list[Any]:
        import ipywidgets as widgets

        first, last = self.attribute.first, self.attribute.last
        wide: dict[str, Any] = {"style": {"description_width": "initial"}, "min": first, "max": last}
        self.low = widgets.DatePicker(value=first, description=f"{self.label} from", **wide)
        self.high = widgets.DatePicker(value=last, description=f"{self.label} to", **wide)
        self.low.observe(self._moved, "value")
        self.high.observe(self._moved, "value")
        return [self.low, self.high]

    def _regular(self) -> Mask:
        # A field that is being typed in holds no date for a moment: then its end is open.
        low: datetime.date = self.low.value or self.attribute.first
        high: datetime.date = self.high.value or self.attribute.last
        days = self.attribute.starts[:-1]
        return np.asarray((days >= np.datetime64(low)) & (days <= np.datetime64(high)))


class BoxFilter(LevelFilter):
    """A check box for each level."""

    def _controls(self) -> list[Any]:
        import ipywidgets as widgets

        self.boxes = [
            widgets.Checkbox(
                value=True, description=f"{self.label}: {label}", indent=False, layout=widgets.Layout(width="auto")
            )
            for label in self.attribute.labels[: self.attribute.regular]
        ]
        for box in self.boxes:
            box.observe(self._moved, "value")
        return list(self.boxes)

    def _regular(self) -> Mask:
        return np.array([box.value for box in self.boxes], dtype=bool)


class ListFilter(LevelFilter):
    """Levels to search for and to choose from; as long as none is chosen all take part."""

    def _controls(self) -> list[Any]:
        import ipywidgets as widgets

        labels = [str(label) for label in self.attribute.labels[: self.attribute.regular]]
        self._labels = list(zip(labels, range(len(labels)), strict=True))
        self._lowered = [label.casefold() for label in labels]
        self.chosen: set[int] = set()
        wide = {"description_width": "initial"}
        self.find = widgets.Text(placeholder="part of a name", description=f"Find in {self.label}", style=wide)
        self.list = widgets.SelectMultiple(rows=6, description=self.label, style=wide)
        self.found = widgets.HTML()
        self.clear_button = widgets.Button(
            description=f"Choose none of {self.label}", layout=widgets.Layout(width="auto")
        )
        self._search()
        self.find.observe(self._search, "value")
        self.list.observe(self._picked, "value")
        self.clear_button.on_click(self._clear)
        return [self.find, self.list, self.found, self.clear_button]

    def _search(self, _change: object = None) -> None:
        """List the levels whose name has what was typed, the first ones where they are many."""
        part = self.find.value.strip().casefold()
        places = [place for place, label in enumerate(self._lowered) if part in label]
        shown = [self._labels[place] for place in places[:MOST_LISTED]]
        self._following = True
        try:
            self.list.options = shown
            self.list.value = tuple(place for _, place in shown if place in self.chosen)
        finally:
            self._following = False
        more = f", the first {MOST_LISTED} are listed: type more of the name" if len(places) > MOST_LISTED else ""
        self.found.value = line(quiet(escape(f"{len(places):,} of {len(self._labels):,} levels{more}")))

    def _picked(self, _change: object) -> None:
        if not self._following:
            listed = {place for _, place in self.list.options}
            self.chosen = (self.chosen - listed) | set(self.list.value)
            self._moved()

    def _clear(self, _button: object) -> None:
        self.chosen = set()
        self._set(list=())
        self._moved()

    def _regular(self) -> Mask:
        found = np.zeros(self.attribute.regular, dtype=bool)
        found[list(self.chosen) if self.chosen else slice(None)] = True
        return found
