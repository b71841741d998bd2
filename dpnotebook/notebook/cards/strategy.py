"""A strategy as text, as static HTML, and as a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from dpnotebook.errors import WorkloadError, shorten
from dpnotebook.notebook import formatting
from dpnotebook.notebook.cards.model import Card, Heading, Picture, line, quiet
from dpnotebook.notebook.explorer.choices import DELTA, Privacy, attribute_names
from dpnotebook.notebook.formatting import BEST
from dpnotebook.notebook.plots.strategy_figures import figure
from dpnotebook.notebook.plots.strategy_pictures import pictures
from dpnotebook.notebook.plots.strategy_views import described, measured, query_errors
from dpnotebook.strategy.strategy import Strategy

if TYPE_CHECKING:
    import plotly.graph_objects as go

MOST_VIEWS = 2  # pictures of what is measured


def strategy_card(strategy: Strategy) -> Card:
    """Return what a strategy answers, how far it is from the best possible, and pictures of what it measures."""
    views = measured(strategy, attribute_names(strategy.workload))[:MOST_VIEWS]
    return Card(
        (
            Heading(f"Strategy: {strategy.name}"),
            line(_answers(strategy)),
            line(quiet(_optimality(strategy))),
            line(Picture(pictures(views))),
        )
    )


def plot_strategy(
    strategy: Strategy,
    what: Literal["measured", "errors"] = "measured",
    *,
    part: int = 0,
    epsilon: float = 1.0,
    delta: float | None = None,
) -> go.Figure:
    """Return a plotly figure of what is measured, or of the error of every answer.

    Parameters
    ----------
    strategy
        What to draw.
    what
        "measured": a heat map of the measurements of an attribute, or how the sensitivity is shared by sets of
        attributes. "errors": the root mean squared error of every answer.
    part
        Which of its figures, where there are several.
    epsilon, delta
        Privacy that the errors are for; delta for Gaussian noise only, 1e-6 unless given.

    Raises
    ------
    WorkloadError
        If there is no such figure.
    """
    names = attribute_names(strategy.workload)
    if what not in ("measured", "errors"):
        raise WorkloadError(f'a figure of a strategy is of what is "measured" or of "errors", not of {shorten(what)}')
    if what == "measured":
        views = measured(strategy, names)
    else:
        spent = Privacy(strategy.noise, epsilon, (DELTA if delta is None else delta) if strategy.law.needs_delta else 0)
        views = query_errors(strategy, spent.unit_variance, names)
    drawn = [made for made in map(figure, views) if made is not None]
    if not 0 <= part < len(drawn):
        said = "; ".join(view.title for view in views) if not drawn else f"there are {len(drawn)}, from part=0"
        raise WorkloadError(f"there is no such figure of this strategy: {said}")
    return drawn[part]


def _answers(strategy: Strategy) -> str:
    queries = formatting.plural(strategy.workload.shape[0], "answer")
    return f"{queries} from {described(strategy)}; {strategy.law.title} noise"


def _optimality(strategy: Strategy) -> str:
    ratio = strategy.optimality
    if ratio is None:
        return "how far it is from the least error that is possible is not known"
    if ratio < BEST:
        return "the best possible"
    return f"at most {formatting.error(ratio)} times the least error that is possible"
