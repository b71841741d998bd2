"""The widgets of the strategy explorer: what to compare, how far that is, and figures of one strategy."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from dpnotebook.notebook import models
from dpnotebook.notebook.explorer.choices import (
    BY_NAME,
    DELTA,
    KINDS,
    MOST_ATTRIBUTES,
    OWN,
    ComparedWorkload,
    Privacy,
    privacy,
    question,
)
from dpnotebook.notebook.explorer.summary import facts
from dpnotebook.notebook.html import escape, line, quiet
from dpnotebook.notebook.interactive import SAYS
from dpnotebook.notebook.plots.strategy_figures import figure
from dpnotebook.notebook.plots.strategy_pictures import summary
from dpnotebook.notebook.plots.strategy_views import View
from dpnotebook.notebook.progress import Progress
from dpnotebook.privacy.laws import LAWS, law_of

if TYPE_CHECKING:
    from dpnotebook.strategy.catalogue import Candidate
    from dpnotebook.strategy.strategy import Strategy

SOON = 0.2  # seconds after which a comparison shows how far it is
SHORT = 48  # characters of a workload's own name in the list


class Controlled(Protocol):
    """What the controls act on; `explorer.Explorer` is that."""

    own: ComparedWorkload | None
    privacy: Privacy

    def start(self) -> None:
        """Compare what the controls say."""

    def cancel(self) -> None:
        """Stop comparing."""

    def price(self) -> None:
        """Show the same at another epsilon and delta."""

    def pick(self, name: str) -> None:
        """Look at one strategy."""


class ExplorerPanel:
    """The widgets of one explorer.

    Parameters
    ----------
    explorer
        What the controls act on.
    """

    def __init__(self, explorer: Controlled) -> None:
        import ipywidgets as widgets

        self.explorer = explorer
        offered = [(kind.title, kind.name) for kind in KINDS]
        if explorer.own is not None:
            title = explorer.own.title
            offered.insert(0, (title if len(title) <= SHORT else title[: SHORT - 1] + "…", OWN))
        start = explorer.privacy

        def labelled(label: str, width: str, narrow: str = "60px") -> dict[str, Any]:
            return {
                "description": label,
                "layout": widgets.Layout(width=width),
                "style": {"description_width": narrow},
            }

        self.kind = widgets.Dropdown(options=offered, value=offered[0][1], **labelled("queries", "340px"))
        self.cells = widgets.Text("128", continuous_update=False, **labelled("cells", "220px", "50px"))
        self.ways = widgets.BoundedIntText(
            2, min=0, max=MOST_ATTRIBUTES, **labelled("of up to so many attributes", "250px", "180px")
        )
        self.noise = widgets.Dropdown(
            options=[(law.title, law.name) for law in LAWS.values()],
            value=start.noise,
            **labelled("noise", "200px"),
        )
        self.epsilon = widgets.Text(f"{start.epsilon:.12g}", continuous_update=False, **labelled("ε", "130px", "20px"))
        self.delta = widgets.Text(
            f"{start.delta or DELTA:.12g}", continuous_update=False, **labelled("δ", "130px", "20px")
        )
        auto = widgets.Layout(width="auto")
        self.start_button = widgets.Button(description="Compare strategies", button_style="primary", layout=auto)
        self.cancel_button = widgets.Button(description="Cancel", layout=auto, disabled=True)
        self.progress = widgets.HTML()
        self.message = widgets.HTML()
        self.message.add_class(SAYS)
        self.card = widgets.HTML()
        wrap = widgets.Layout(align_items="center", flex_flow="wrap")
        rows = [[self.kind, self.cells, self.ways], [self.noise, self.epsilon, self.delta],
                [self.start_button, self.cancel_button, self.progress]]  # fmt: skip
        self.controls = widgets.VBox([*(widgets.HBox(row, layout=wrap) for row in rows), self.message])

        self.choice = widgets.Dropdown(options=[], **labelled("look at", "420px"))
        self.facts = widgets.HTML()
        self.errors, self.measured = widgets.VBox(), widgets.VBox()
        self.tabs = widgets.Tab([self.errors, self.measured])
        self.tabs.titles = ("Error of each answer", "What is measured")
        self.closer = widgets.VBox([self.choice, self.facts, self.tabs])
        self.widget = widgets.VBox([self.controls, self.card, self.closer])

        self._drawn: list[object] = [None, None]
        self._offering = False
        self._watching: Progress | None = None
        self._fit()
        self.kind.observe(self._other_kind, "value")
        self.noise.observe(lambda _: self._fit(), "value")
        self.start_button.on_click(lambda _: explorer.start())
        self.cancel_button.on_click(lambda _: self._cancel())
        self.choice.observe(self._chosen, "value")
        for text in (self.epsilon, self.delta):
            text.observe(lambda _: explorer.price(), "value")

    def question(self) -> ComparedWorkload:
        """Return the workload that the controls say, or raise WorkloadError."""
        return question(self.kind.value, self.cells.value, self.ways.value)

    def privacy(self) -> Privacy:
        """Return the privacy that the controls say, or raise AccuracyError."""
        return privacy(self.noise.value, self.epsilon.value, self.delta.value)

    def say(self, text: str) -> None:
        """Say in one line what went wrong, or nothing."""
        self.message.value = line(f"⚠ {escape(text)}") if text else ""

    def watch(self, fraction: float | None, doing: str) -> None:
        """Take note of how far the comparison is."""
        if self._watching is not None:
            self._watching(fraction, doing)

    def working(self, working: bool) -> None:
        """Show that a comparison is at work, with its progress and a way to stop it; or that it is not."""
        self.cancel_button.disabled = not working
        self.cancel_button.description = "Cancel"
        if self._watching is not None:
            self._watching.__exit__(None, None, None)
            self._watching = None
        if working:
            self._watching = Progress(self._show_progress, after=SOON).__enter__()

    def offer(self, ranked: Sequence[tuple[Candidate, Strategy]], chosen: str | None) -> None:
        """Offer the strategies that were found, the best first."""
        options = [(f"{number}. {each.title}", each.name) for number, (each, _) in enumerate(ranked, start=1)]
        self._offering = True
        try:
            if list(self.choice.options) != options:
                self.choice.options = options
            if chosen is not None:
                self.choice.value = chosen
        finally:
            self._offering = False
        self.closer.layout.display = "" if ranked else "none"
        self.facts.value = next((line(facts(*pair)) for pair in ranked if pair[0].name == chosen), "")

    def show(self, errors: Sequence[View], matrices: Sequence[View]) -> None:
        """Show figures of a strategy; those that are shown already stay."""
        for place, (where, views) in enumerate(((self.errors, errors), (self.measured, matrices))):
            if self._drawn[place] is not views:
                self._drawn[place] = views
                before, where.children = where.children, tuple(map(_drawn, views))
                models.close(*before)

    def _show_progress(self, html: str, _text: str) -> None:
        self.progress.value = html

    def _cancel(self) -> None:
        self.cancel_button.disabled = True
        self.cancel_button.description = "Cancelling"
        self.explorer.cancel()

    def _chosen(self, change: Any) -> None:
        if not self._offering and change["new"] is not None:
            self.explorer.pick(change["new"])

    def _fit(self) -> None:
        """Show the controls that matter for what is chosen."""
        kind = BY_NAME.get(self.kind.value)
        _visible(self.cells, kind is not None)
        _visible(self.ways, kind is not None and kind.several)
        _visible(self.delta, law_of(self.noise.value).needs_delta)

    def _other_kind(self, change: Any) -> None:
        self._fit()
        before, now = BY_NAME.get(change["old"]), BY_NAME.get(change["new"])
        if now is not None and now.several != (before is not None and before.several):
            self.cells.value = "2, 5, 50, 100" if now.several else "128"


def _visible(control: Any, visible: bool) -> None:
    control.layout.display = "" if visible else "none"


def _drawn(view: View) -> Any:
    """Return a widget that shows a view: a figure, and below it in words from where to where it goes."""
    import ipywidgets as widgets

    made = figure(view)
    says = widgets.HTML(line(quiet(escape(summary(view)))))
    if made is None:
        return says
    # By the trait, which works in every thread and captures nothing else.
    data = {"application/vnd.plotly.v1+json": json.loads(made.to_json()), "text/plain": view.title}
    return widgets.VBox(
        [widgets.Output(outputs=({"output_type": "display_data", "data": data, "metadata": {}},)), says]
    )
