"""The widgets of the guide: one form for the column that is looked at, so that 300 columns are as quick as three."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

from dpnotebook.notebook import currency, formatting
from dpnotebook.notebook.guide.draft import KINDS, LABELLED, SPANS_OF, WHY, ColumnDraft, TableDraft
from dpnotebook.notebook.html import escape, line, quiet, table

ROW = "each row is a unit of its own"
NAMED = 5  # fields that are named where something is missing
BELOW = "margin:0 2px 10px"  # of the sentence below a control, which belongs to what is above it
LISTED = 30  # columns that the summary lists; all are in the code
FIELDS = ("low", "high", "width", "levels", "other", "by", "missing", "measured")
WORDS = {
    "low": "Lowest",
    "high": "Highest",
    "width": "Width of a bin",
    "levels": "Levels",
    "other": "Other levels count as one more",
    "by": "One level is a",
    "missing": "Values may be missing",
    "measured": "Counted in",
}


class Guided(Protocol):
    """What the controls act on; `guide.ProtectGuide` is that."""

    draft: TableDraft

    @property
    def protected(self) -> bool:
        """Whether the table is protected already."""

    def try_to_protect(self) -> None:
        """Protect the table, and say what became of it."""


class GuidePanel:
    """The widgets of one guide.

    Parameters
    ----------
    guide
        Whose draft they change.
    """

    def __init__(self, guide: Guided) -> None:
        import ipywidgets as widgets

        self.guide = guide
        self._filling = False
        draft = guide.draft
        named = {"description_width": "190px"}

        def text(words: str, value: str, **options: Any) -> Any:
            return widgets.Text(
                value, description=words, continuous_update=False, style=named, layout=wide(), **options
            )

        def wide() -> Any:
            return widgets.Layout(width="520px", max_width="calc(100% - 4px)")  # less its margins

        def box() -> Any:  # with room for the mark of the keyboard around it
            return widgets.Layout(width="520px", max_width="calc(100% - 4px)", padding="4px")

        columns = list(draft.columns)
        self.column = widgets.Dropdown(
            options=[(_listed(draft.columns[name]), name) for name in columns],
            value=columns[0] if columns else None,
            description="Column",
            style=named,
            layout=wide(),
        )
        self.next_button = widgets.Button(description="Next column", layout=widgets.Layout(width="auto"))
        self.kind = widgets.Dropdown(options=list(KINDS), description="What it holds", style=named, layout=wide())
        self.fields: dict[str, Any] = {
            "low": text(WORDS["low"], ""),
            "high": text(WORDS["high"], ""),
            "width": text(WORDS["width"], ""),
            "levels": widgets.Textarea(
                description=WORDS["levels"], continuous_update=False, style=named, layout=wide(), rows=5
            ),
            "other": widgets.Checkbox(description=WORDS["other"], indent=False, layout=box()),
            "by": widgets.Dropdown(description=WORDS["by"], options=[""], style=named, layout=wide()),
            "missing": widgets.Checkbox(description=WORDS["missing"], indent=False, layout=box()),
            "measured": text(WORDS["measured"], ""),
        }
        self.why = {name: widgets.HTML(_close(line(quiet(escape(WHY[name])), BELOW))) for name in WHY}
        self.status = widgets.HTML()
        self.unit = widgets.Dropdown(
            options=[(ROW, ""), *((name, name) for name in columns)],
            value=draft.unit,
            description="Privacy unit",
            style=named,
            layout=wide(),
        )
        self.max_rows = text("Rows of a unit that count", draft.max_rows)
        self.name = text("Name of the table", draft.name)
        self.epsilon = text("Budget: epsilon", draft.epsilon)
        self.delta = text("Budget: delta", draft.delta, placeholder="none")
        self.ledger = text("File of the ledger", draft.ledger)
        self.meaning = widgets.HTML()
        self.summary = widgets.HTML()
        self.code = widgets.HTML()
        self.protect_button = widgets.Button(
            description="Protect the table",
            button_style="primary",
            layout=widgets.Layout(width="auto", align_self="flex-start"),
        )
        self.message = widgets.HTML()
        self.widget = widgets.VBox(
            [
                widgets.HTML(_step("1. What is protected")),
                *self._with_why("unit", self.unit),
                *self._with_why("max_rows", self.max_rows),
                widgets.HTML(_step("2. What is publicly known of each column")),
                widgets.HBox([self.column, self.next_button], layout=widgets.Layout(flex_flow="wrap")),
                *self._with_why("kind", self.kind),
                *(one for name in FIELDS for one in self._with_why(name, self.fields[name])),
                self.status,
                self.summary,
                widgets.HTML(_step("3. The budget")),
                *self._with_why("epsilon", self.epsilon),
                *self._with_why("delta", self.delta),
                self.meaning,
                *self._with_why("name", self.name),
                *self._with_why("ledger", self.ledger),
                widgets.HTML(_step("4. The code")),
                self.code,
                self.protect_button,
                self.message,
            ]
        )
        self._fill()
        self.draw()
        self.column.observe(lambda _: self._fill(), "value")
        self.kind.observe(self._said("kind"), "value")
        for name, control in self.fields.items():
            control.observe(self._said("unit" if name == "measured" else name), "value")
        for name in ("unit", "max_rows", "name", "epsilon", "delta", "ledger"):
            getattr(self, name).observe(self._set(name), "value")
        self.next_button.on_click(lambda _: self._next())
        self.protect_button.on_click(lambda _: guide.try_to_protect())

    def draw(self) -> None:
        """Show what follows from the draft."""
        draft = self.guide.draft
        problems = draft.problems
        self.code.value = code_html(draft)
        self.summary.value = summary_html(draft)
        self.meaning.value = meaning_html(draft)
        self._show("max_rows", self.max_rows, bool(draft.unit))
        name = self.column.value
        said = "" if name is None else "the privacy unit" if name == draft.unit else problems.get(name, "")
        self.status.value = line(f"⚠ {escape(f'{name}: {said}')}") if said else ""
        self.protect_button.disabled = bool(problems) or self.guide.protected
        if not self.guide.protected:
            self.message.value = missing_html(draft)

    def say(self, text: str) -> None:
        """Say in one line what became of it."""
        self.message.value = line(escape(text))

    def follow(self) -> None:
        """Show the draft in the controls, after it was changed by code."""
        draft = self.guide.draft
        self._filling = True
        try:
            for name in ("unit", "max_rows", "name", "epsilon", "delta", "ledger"):
                getattr(self, name).value = getattr(draft, name)
        finally:
            self._filling = False
        self._fill()
        self.draw()

    def _with_why(self, name: str, control: Any) -> tuple[Any, Any]:
        return control, self.why[name]

    def _show(self, name: str, control: Any, visible: bool) -> None:
        for one in self._with_why(name, control):
            one.layout.display = None if visible else "none"

    def _fill(self) -> None:
        """Show the column that is looked at in the form."""
        if self.column.value is None:
            return
        column: ColumnDraft = self.guide.draft.columns[self.column.value]
        self._filling = True
        try:
            self.kind.value = column.kind
            spans = SPANS_OF.get(column.kind, ("",))
            self.fields["by"].options = list(spans)
            for name, control in self.fields.items():
                if name == "by":
                    control.value = column.by if column.by in spans else spans[0]
                else:
                    control.value = getattr(column, "unit" if name == "measured" else name)
        finally:
            self._filling = False
        shown = {*KINDS[column.kind]} | ({"missing"} if column.kind != next(iter(KINDS)) else set())
        shown |= {"measured"} if column.kind in LABELLED else set()
        for name, control in self.fields.items():
            self._show(name, control, name in shown)
        self.draw()

    def _said(self, name: str) -> Callable[[Any], None]:
        def changed(change: Any) -> None:
            if not self._filling:
                self.guide.draft = self.guide.draft.with_column(self.column.value, **{name: change["new"]})
                if name == "kind":
                    self._fill()
                self.draw()

        return changed

    def _set(self, name: str) -> Callable[[Any], None]:
        def changed(change: Any) -> None:
            if not self._filling:
                self.guide.draft = replace(self.guide.draft, **{name: change["new"]})
                self.draw()

        return changed

    def _next(self) -> None:
        names = [name for _, name in self.column.options]
        if names:
            self.column.value = names[(names.index(self.column.value) + 1) % len(names)]


def _listed(column: ColumnDraft) -> str:
    return f"{column.name} ({column.dtype})"


def _step(title: str) -> str:
    return f'<b style="font-size:15px">{escape(title)}</b>'


def _close(content: str) -> str:
    """Return HTML with its lines as close as those of a card: widgets have twice the distance."""
    return f'<div style="line-height:1.4;max-width:680px">{content}</div>'


def code_html(draft: TableDraft) -> str:
    """Return the code of a draft, to copy."""
    return f'<pre style="margin:4px 0">{escape(draft.code)}</pre>'


def summary_html(draft: TableDraft) -> str:
    """Return what has been said of the columns, as a table: names and dtypes, and no value."""
    problems, rows = draft.problems, []
    for name, one in list(draft.columns.items())[:LISTED]:
        said = "the privacy unit" if name == draft.unit else problems.get(name) or one.code or one.kind
        rows.append([escape(name), escape(one.dtype), escape(said if len(said) <= 80 else f"{said[:79]}…")])
    more = len(draft.columns) - len(rows)
    below = line(quiet(f"… and {formatting.plural(more, 'more column')}, in the code")) if more > 0 else ""
    for name in draft.skipped:
        below += line(f"⚠ {escape(f'{name} is no name that can be asked for, or several columns have it: rename it')}")
    return _close(table(("column", "dtype", "declared as"), rows, "lll") + below)


def missing_html(draft: TableDraft) -> str:
    """Return why the table cannot be protected yet: what is still to be said, some of it by name."""
    names = list(draft.problems)
    more = len(names) - NAMED
    said = ", ".join(names[:NAMED]) + (f" and {formatting.plural(more, 'more field')}" if more > 0 else "")
    return line(quiet(escape(f"Before the table can be protected, say what is missing of: {said}."))) if names else ""


def meaning_html(draft: TableDraft) -> str:
    """Return what the budget means, in odds; or what is wrong with it."""
    if problem := draft.problems.get("epsilon"):
        return line(f"⚠ {escape(problem)}")
    budget = draft.budget()
    return _close(line(quiet(escape(f"What it means: {currency.meaning(budget.epsilon, budget.delta)}."))))
