"""The releases of a session to look through: sorted, filtered, page by page, to be shown again or copied as code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dpnotebook.errors import DPError
from dpnotebook.notebook import cards, currency
from dpnotebook.notebook.cards.budget import budget_state
from dpnotebook.notebook.dashboard.options import set_options
from dpnotebook.notebook.dashboard.summary import releases_table
from dpnotebook.notebook.html import at_most, escape, line, quiet

if TYPE_CHECKING:
    from dpnotebook.session.session import Session

Entry = Mapping[str, Any]
PAGE = 20  # releases that are listed at a time

# How releases can be sorted: what a person reads, the column of the history, and whether the largest comes first.
ORDERS = {
    "newest": ("newest first", "number", True),
    "oldest": ("oldest first", "number", False),
    "dearest": ("dearest first", "paid", True),
    "saved": ("what reuse saved most first", "saved", True),
    "table": ("by table", "table", False),
    "question": ("by question", "question", False),
}


def arranged(history: Sequence[Entry], how: Mapping[int, str], text: str, order: str) -> list[Entry]:
    """Return the releases in which every word of a text occurs, in an order; equal ones with the newest first.

    Parameters
    ----------
    history
        The rows of `session.history()`.
    how
        A word on what each took from others, by its number.
    text
        Words to be found in the number, the table, the question or what is said of the release; of any case.
    order
        One of `ORDERS`.
    """
    words = text.casefold().split()
    _, column, falling = ORDERS[order]
    found = [entry for entry in history if all(word in _searched(entry, how) for word in words)]
    newest = sorted(found, key=lambda entry: -int(entry["number"]))

    def value(entry: Entry) -> Any:
        return entry["alone"] - entry["paid"] if column == "saved" else entry[column]

    return sorted(newest, key=value, reverse=falling)


def _searched(entry: Entry, how: Mapping[int, str]) -> str:
    said = how.get(int(entry["number"]), "")
    return f"#{entry['number']} {entry['table']} {entry['question']} {said} {entry['state']}".casefold()


class HistoryTab:
    """The widgets of the releases.

    Parameters
    ----------
    session
        Whose releases.
    """

    def __init__(self, session: Session) -> None:
        import ipywidgets as widgets

        self.session = session
        self._history: list[Entry] = []
        self._how: Mapping[int, str] = {}
        self._page = 0
        self._drawing = False
        auto = widgets.Layout(width="auto")
        wide = {"description_width": "70px"}
        self.find = widgets.Text(
            description="find", placeholder="words of a table or question", continuous_update=True, style=wide
        )
        self.order = widgets.Dropdown(
            options=[(title, name) for name, (title, *_) in ORDERS.items()], description="sorted", style=wide
        )
        self.earlier = widgets.Button(description="Previous releases", layout=auto)
        self.later = widgets.Button(description="Next releases", layout=auto)
        self.count = widgets.HTML()
        self.table = widgets.HTML()
        self.choice = widgets.Dropdown(
            options=[], description="release", layout=widgets.Layout(width="auto", max_width=at_most(520)), style=wide
        )
        self.again_button = widgets.Button(description="Show again (free)", layout=auto)
        self.code = widgets.Textarea(description="code", rows=2, layout=widgets.Layout(width="98%"), style=wide)
        self.copy_button = widgets.Button(
            description="Copy code", layout=widgets.Layout(width="auto", align_self="flex-start")
        )
        self.copy_button.add_class("dpnotebook-copy")  # the labextension puts what is in the box on the clipboard
        self.again = widgets.HTML()
        wrap = widgets.Layout(align_items="center", flex_flow="wrap")
        box = widgets.VBox([self.code, self.copy_button])
        box.add_class("dpnotebook-code")
        self.widget = widgets.VBox(
            [
                widgets.HBox([self.find, self.order], layout=wrap),
                widgets.HBox([self.earlier, self.later, self.count], layout=wrap),
                self.table,
                widgets.HBox([self.choice, self.again_button], layout=wrap),
                box,
                self.again,
            ]
        )
        for control in (self.find, self.order):
            control.observe(lambda _: self._turn_to(0), "value")
        self.earlier.on_click(lambda _: self._turn_to(self._page - 1))
        self.later.on_click(lambda _: self._turn_to(self._page + 1))
        self.choice.observe(lambda _: self._chosen(), "value")
        self.again_button.on_click(lambda _: self.show_again())
        self.copy_button.on_click(lambda _: self.say(COPIED))

    @property
    def controls(self) -> tuple[Any, ...]:
        """What can be used."""
        return (self.find, self.order, self.earlier, self.later, self.choice, self.again_button, self.copy_button)

    def draw(self, history: Sequence[Entry], how: Mapping[int, str]) -> None:
        """Draw the releases anew; what was chosen and found stays."""
        self._history, self._how = list(history), how
        self._turn_to(self._page)

    def show_again(self) -> None:
        """Show the chosen release again; it comes from the ledger and costs nothing."""
        if self.choice.value is None:
            return
        try:
            self.again.value = cards.as_html(cards.release_card(self.session.release(self.choice.value)))
        except DPError as error:
            self.say(str(error), "⚠ ")

    def say(self, text: str, mark: str = "") -> None:
        """Say something below the controls."""
        self.again.value = line(f"{mark}{escape(text)}")

    def _turn_to(self, page: int) -> None:
        found = arranged(self._history, self._how, self.find.value, self.order.value)
        pages = max(1, -(-len(found) // PAGE))
        self._page = page = min(max(page, 0), pages - 1)
        shown, state = found[page * PAGE : (page + 1) * PAGE], budget_state(self.session)
        self.table.value = releases_table(shown, state, self._how) if shown else line(quiet(NOTHING))
        first = page * PAGE + 1
        self.count.value = line(
            quiet(f"{first:,} to {first - 1 + len(shown):,} of {len(found):,}" if shown else "none of them")
        )
        self.earlier.disabled, self.later.disabled = page == 0, page == pages - 1
        options = [
            (
                f"#{entry['number']}  {entry['question']}  {currency.cost_in(state, entry['paid'])}",
                int(entry["number"]),
            )
            for entry in shown
            if entry["state"] == "recorded"
        ]
        self._drawing = True
        try:
            set_options(self.choice, options)
        finally:
            self._drawing = False
        self.again_button.disabled = self.copy_button.disabled = not options
        self._chosen()

    def _chosen(self) -> None:
        if self._drawing:
            return
        try:
            self.code.value = "" if self.choice.value is None else self.session.code(self.choice.value)
        except DPError as error:  # of a table that is not protected here
            self.code.value = f"# {error}"


COPIED = "The code is in the box, and on the clipboard where the front end lets it: in a cell it costs nothing again."
NOTHING = "No release has all of these words."
