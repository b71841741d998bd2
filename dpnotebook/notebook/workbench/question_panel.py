"""The controls of one question: table, verb, filters, groups, accuracy; and what can be done with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from dpnotebook.notebook import models
from dpnotebook.notebook.html import at_most, escape, line
from dpnotebook.notebook.workbench.button_words import COPIES, copied
from dpnotebook.notebook.workbench.composed import BY_NAME, ComposedQuestion, verbs_of
from dpnotebook.notebook.workbench.filters import LevelFilter, level_filter
from dpnotebook.notebook.workbench.keys import KeyControls
from dpnotebook.predicate import Predicate

if TYPE_CHECKING:
    from dpnotebook.session.protected import ProtectedTable

RUN = "Run"
AMOUNTS = (("an error of at most ±", "error"), ("a price of at most ε", "epsilon"))
START = {"error": "50", "epsilon": "0.1"}
WIDE = {"description_width": "initial"}


class QuestionActions(Protocol):
    """What the controls act on; `workbench.Workbench` is that."""

    @property
    def table_names(self) -> list[str]:
        """The tables that can be asked."""

    def table(self, name: str) -> ProtectedTable:
        """Return a table by its name."""

    def changed(self) -> None:
        """Plan what the controls say now."""

    def run(self) -> None:
        """Answer what is shown."""

    def keep(self) -> None:
        """Put the question into the budget plan."""

    def copy(self, language: str) -> None:
        """Show the question as text."""


class QuestionPanel:
    """The widgets of one question.

    Parameters
    ----------
    asking
        What the controls act on.
    table
        Name of the table to begin with.
    """

    def __init__(self, asking: QuestionActions, table: str) -> None:
        import ipywidgets as widgets

        self.asking = asking
        self.filters: dict[str, LevelFilter] = {}
        self.keys: dict[str, KeyControls] = {}
        self._filling = False
        auto, wrap = {"width": "auto"}, {"align_items": "center", "flex_flow": "wrap"}

        def choice(label: str, options: Any = (), **more: Any) -> Any:
            return widgets.Dropdown(
                options=options,
                description=label,
                style=WIDE,
                layout=widgets.Layout(**auto, max_width=at_most(420)),
                **more,
            )

        def button(label: str, **more: Any) -> Any:
            return widgets.Button(description=label, layout=widgets.Layout(**auto), **more)

        self.table = choice("Table", asking.table_names, value=table)
        self.verb = choice("Ask for")
        self.column, self.other = choice("of"), choice("and")
        self.fraction = widgets.BoundedFloatText(
            value=0.5, min=0, max=1, step=0.05, description="at the fraction", style=WIDE,
            layout=widgets.Layout(width="200px"),
        )  # fmt: skip
        self.filter_column, self.add_filter_button = choice("Filter on"), button("Add the filter")
        self.filter_rows = widgets.VBox()
        self.key_column, self.add_key_button = choice("Group by"), button("Add to the groups")
        self.key_rows = widgets.VBox()
        self.amount = choice("With", AMOUNTS, value="error")
        self.said = widgets.Text(
            START["error"], description="that is", style=WIDE, layout=widgets.Layout(width="160px")
        )
        self.run_button = button(RUN, button_style="primary")
        self.keep_button = button("Add to the budget plan")
        self.pandas_button, self.sql_button = button("Copy as pandas"), button("Copy as SQL")
        self.pandas_button.add_class(COPIES)
        self.sql_button.add_class(COPIES)
        self.message, self.progress = widgets.HTML(), widgets.HTML()
        self.code = widgets.Textarea(
            description="The question as text", rows=4, style=WIDE,
            layout=widgets.Layout(width="100%", max_width=at_most(680), display="none"),
        )  # fmt: skip
        rows = [
            [self.table, self.verb, self.column, self.other, self.fraction],
            [self.filter_column, self.add_filter_button],
            self.filter_rows,
            [self.key_column, self.add_key_button],
            self.key_rows,
            [self.amount, self.said],
            [self.run_button, self.keep_button, self.pandas_button, self.sql_button],
            self.progress,
            self.message,
            self.code,
        ]
        self.widget = widgets.VBox(
            [widgets.HBox(row, layout=widgets.Layout(**wrap)) if isinstance(row, list) else row for row in rows]
        )
        self._fill()
        self.table.observe(lambda _: self._other_table(), "value")
        self.verb.observe(lambda _: self._other_verb(), "value")
        for control in (self.column, self.other, self.fraction, self.said):
            control.observe(self._moved, "value")
        self.amount.observe(self._other_amount, "value")
        self.add_filter_button.on_click(lambda _: self.add_filter(self.filter_column.value))
        self.add_key_button.on_click(lambda _: self.add_key(self.key_column.value))
        self.run_button.on_click(lambda _: asking.run())
        self.keep_button.on_click(lambda _: asking.keep())
        self.pandas_button.on_click(lambda _: asking.copy("pandas"))
        self.sql_button.on_click(lambda _: asking.copy("SQL"))

    @property
    def protected(self) -> ProtectedTable:
        """The table that is asked."""
        return self.asking.table(self.table.value)

    @property
    def composed(self) -> ComposedQuestion:
        """What the controls say."""
        domain = self.protected.table.domain
        masks = {name: one.mask for name, one in self.filters.items()}
        narrowed = {name: mask for name, mask in masks.items() if not mask.all()}
        where = Predicate.box(domain, narrowed).text if narrowed else ""
        return ComposedQuestion(
            self.verb.value,
            tuple(one.value for one in (self.column, self.other)[: BY_NAME[self.verb.value].columns]),
            self.fraction.value,
            tuple(key.asked for key in self.keys.values()),
            where,
            self.amount.value,
            self.said.value,
        )

    def add_filter(self, name: str | None) -> LevelFilter | None:
        """Let a column say which rows take part; one that does already stays as it is."""
        if name is None or name in self.filters:
            return self.filters.get(name or "")
        domain = self.protected.table.domain
        made = level_filter(name, domain.label_of(name), domain[name], self._moved)
        made.remove_button.on_click(lambda _: self._remove(self.filters, name, self.filter_rows))
        self.filters[name] = made
        self.filter_rows.children = (*self.filter_rows.children, made.widget)
        return made

    def add_key(self, name: str | None) -> KeyControls | None:
        """Group by a column; one that is grouped by already stays as it is."""
        if name is None or name in self.keys:
            return self.keys.get(name or "")
        domain = self.protected.table.domain
        made = KeyControls(name, domain.label_of(name), domain[name], self._moved)
        made.remove_button.on_click(lambda _: self._remove(self.keys, name, self.key_rows))
        self.keys[name] = made
        self.key_rows.children = (*self.key_rows.children, made.widget)
        self._moved()
        return made

    def say(self, text: str) -> None:
        """Say in one line what is wrong, or nothing."""
        self.message.value = f'<div role="status">{line(f"⚠ {escape(text)}")}</div>' if text else ""

    def show_code(self, text: str) -> None:
        """Show the question as text, and have it copied."""
        self.code.value = text
        self.code.rows = min(12, 2 + text.count("\n"))
        self.code.layout.display = ""
        self.message.value = copied(text)

    def _remove(self, rows: dict[str, Any], name: str, box: Any) -> None:
        gone = rows.pop(name)
        box.children = tuple(child for child in box.children if child is not gone.widget)
        models.close(gone.widget)
        self._moved()

    def _other_table(self) -> None:
        for rows, box in ((self.filters, self.filter_rows), (self.keys, self.key_rows)):
            gone = [one.widget for one in rows.values()]
            rows.clear()
            box.children = ()
            models.close(*gone)
        self._fill()
        self._moved()

    def _fill(self) -> None:
        """Offer what the table has."""
        table = self.protected.table
        named = [(table.domain.label_of(name), name) for name in table.domain.names]
        self._filling = True
        try:
            self.verb.options = [(verb.title, verb.name) for verb in verbs_of(table)]
            self.verb.value = "count"
            self.filter_column.options = named
            self.key_column.options = named
            self.filter_column.value = self.key_column.value = named[0][1] if named else None
            self._fit()
        finally:
            self._filling = False

    def _other_verb(self) -> None:
        before, self._filling = self._filling, True
        try:
            self._fit()
        finally:
            self._filling = before
        self._moved()

    def _fit(self) -> None:
        """Show the columns that the verb can take."""
        table, verb = self.protected.table, BY_NAME[self.verb.value]
        named = [(table.domain.label_of(name), name) for name in table.columns.names if verb.takes(table.domain[name])]
        for place, control in enumerate((self.column, self.other)):
            visible = place < verb.columns
            control.layout.display = "" if visible else "none"
            if visible and list(control.options) != named:
                control.options = named
                control.value = named[min(place, len(named) - 1)][1]
        self.fraction.layout.display = "" if verb.fraction else "none"

    def _other_amount(self, change: Any) -> None:
        before, self._filling = self._filling, True
        self.said.value = START[change["new"]]
        self._filling = before
        self._moved()

    def _moved(self, _change: object = None) -> None:
        if not self._filling:
            self.asking.changed()
