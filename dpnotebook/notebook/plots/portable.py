"""A plotly figure of one's own, made to be handed on as the figures of this package are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpnotebook.errors import ArgumentError, shorten

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from dpnotebook.notebook.plots.figure import NotebookFigure


def portable(figure: go.Figure, alt: str = "") -> NotebookFigure:
    """Return a plotly figure that is a picture wherever plotly is not: in exported pages, on GitHub, in mails.

    JupyterLab shows it live, as before. The picture has lines, markers, bars and heat maps with their error bars,
    titles, axes, legends, and lines and notes across them; what else plotly can draw is left out of it. `write_image`
    writes it as SVG or PNG, without a browser.

    Parameters
    ----------
    figure
        Drawn with plotly, as from the frames of releases; it is copied.
    alt
        What it shows, for whoever does not see it; its title when empty.

    Raises
    ------
    ArgumentError
        If it is no figure of plotly.

    Examples
    --------
    >>> import dpnotebook as dpn
    >>> import plotly.graph_objects as go
    >>> from dpnotebook.testing import example_session
    >>> ages = example_session().table("patients").histogram("age", epsilon=0.5).run().frame
    >>> figure = dpn.portable(go.Figure(go.Scatter(x=ages["age"], y=ages["value"])), alt="ten people of each age")
    >>> figure.write_image("ages.png")
    """
    import plotly.graph_objects as go

    from dpnotebook.notebook.plots.figure import NotebookFigure

    if not isinstance(figure, go.Figure):
        raise ArgumentError(f"portable() takes a figure of plotly, not {shorten(figure)}")
    return NotebookFigure(figure).described(alt)
