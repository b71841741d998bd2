"""What answers are grouped by, as rows of controls: a column each, and of dates the span."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dpnotebook.domain import Attribute, Dates
from dpnotebook.domain.calendar import SPANS
from dpnotebook.domain.dates import OF_EVERY
from dpnotebook.errors import DPError


class KeyControls:
    """The controls of one column that answers are grouped by.

    Parameters
    ----------
    name, label, attribute
        Of the column, what people call it, and its declaration.
    changed
        Called whenever another span is chosen.
    """

    def __init__(self, name: str, label: str, attribute: Attribute, changed: Callable[[], None]) -> None:
        import ipywidgets as widgets

        self.name = name
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
            self.span.observe(lambda _: changed(), "value")
            parts.append(self.span)
        self.widget = widgets.HBox(
            [*parts, self.remove_button], layout=widgets.Layout(align_items="center", flex_flow="wrap")
        )

    @property
    def asked(self) -> tuple[str, str | None]:
        """The column, and its span where that is longer than what is declared."""
        return self.name, None if self.span is None else self.span.value


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
