"""What answers are grouped by, as rows of controls: a column each, of dates the span, and of numbers the bands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dpnotebook.domain import Attribute, Dates
from dpnotebook.domain.bands import band_text
from dpnotebook.domain.calendar import SPANS
from dpnotebook.domain.dates import OF_EVERY
from dpnotebook.domain.numeric import Numeric
from dpnotebook.errors import DPError


class KeyControls:
    """The controls of one column that answers are grouped by.

    Parameters
    ----------
    name, label, attribute
        Of the column, what people call it, and its declaration.
    changed
        Called whenever another span is chosen, or other bands are written.
    """

    def __init__(self, name: str, label: str, attribute: Attribute, changed: Callable[[], None]) -> None:
        import ipywidgets as widgets

        self.name, self.numeric = name, isinstance(attribute, Numeric)
        self.span: Any = None
        self.remove_button = widgets.Button(
            description=f"Remove {label} from the groups", layout=widgets.Layout(width="auto")
        )
        parts: list[Any] = [widgets.Label(value=f"by {label}", layout=widgets.Layout(flex="0 0 auto"))]
        if isinstance(attribute, Dates):
            spans = [(f"each {attribute.by}", None), *((each, each) for each in spans_of(attribute))]
            self.span = widgets.Dropdown(
                options=spans,
                value=None,
                description=f"{label} by",
                style={"description_width": "initial"},
                layout=widgets.Layout(width="auto"),
            )
        elif isinstance(attribute, Numeric):
            self.span = widgets.Text(
                value="",
                placeholder="each; or 10, or 0, 18, 65",
                continuous_update=False,
                description=f"{label} in bands of, or from",
                style={"description_width": "initial"},
                layout=widgets.Layout(width="auto"),
            )
        if self.span is not None:
            self.span.observe(lambda _: changed(), "value")
            parts.append(self.span)
        self.widget = widgets.HBox(
            [*parts, self.remove_button], layout=widgets.Layout(align_items="center", flex_flow="wrap")
        )

    @property
    def asked(self) -> tuple[str, str | None]:
        """The column, and its span, or bands, where these are longer than what is declared."""
        span = None if self.span is None else self.span.value
        return self.name, typed_bands(span) if self.numeric and span is not None else span


def typed_bands(text: str) -> str | None:
    """Return bands that were typed, a width or where they begin; None where nothing was; what is wrong as it is."""
    parts = text.replace("[", " ").replace("]", " ").replace(",", " ").split()
    if not parts:
        return None
    try:
        numbers = [float(part) for part in parts]
        return band_text(numbers[0] if len(numbers) == 1 else numbers)
    except (ValueError, DPError):
        return text


def spans_of(attribute: Dates) -> list[str]:
    """Return the spans by which dates can be grouped beside the declared one."""
    found = []
    for by in (*SPANS, *OF_EVERY):
        try:
            attribute.coarser(by)
        except DPError:
            continue
        if by != attribute.by:
            found.append(by)
    return found
