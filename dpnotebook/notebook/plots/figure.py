"""The figure that every plot is: live where plotly is, and a still picture and its numbers wherever it is not."""

from __future__ import annotations

import base64
import json
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import plotly.graph_objects as go

from dpnotebook.errors import ArgumentError, shorten
from dpnotebook.notebook.html import details
from dpnotebook.notebook.interactive import interactive, shell
from dpnotebook.notebook.plots.images import FINE, image, png, svg, svg_and_png
from dpnotebook.notebook.plots.still_text import unmarked
from dpnotebook.notebook.tables import AnswerTable, table_html, table_text

PLOTLY = "application/vnd.plotly.v1+json"
FORMATS = ("svg", "png")  # that are written without a browser
OTHERS = ("jpg", "jpeg", "webp", "pdf", "eps", "json")  # that plotly writes with one
LARGEST_PNG = 60_000  # bytes; a larger one is left out of a notebook, which has the SVG
LARGEST_SVG = 250_000  # characters; of a larger one the PNG is shown
SAID_ROWS = 20  # of the table beside a figure; all are in the release's frame


class NotebookFigure(go.Figure):  # type: ignore[misc]  # plotly has no types
    """A plotly figure that carries a still picture and a table of its numbers into every output.

    JupyterLab and VS Code show the live figure; an exported page, GitHub, a PDF and an e-mail show the picture, with
    the numbers below it. `write_image` and `to_image` make SVG and PNG files without a browser.

    Parameters
    ----------
    args, options
        As for `plotly.graph_objects.Figure`.
    """

    _ipython_display_ = None  # plotly's own would show nothing but the live figure

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._alt = ""
        self._table: AnswerTable | None = None

    def described(self, alt: str = "", table: AnswerTable | None = None) -> NotebookFigure:
        """Return the figure, with what it shows in words and in numbers.

        Parameters
        ----------
        alt
            For whoever does not see the picture; the title when empty.
        table
            The numbers that are drawn.
        """
        self._alt, self._table = alt, table
        return self

    @property
    def alt(self) -> str:
        """What it shows, in words."""
        return self._said()

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep words and numbers in copies, which plotly makes of its own parts only."""
        return _again, (super().__reduce__()[1], self._alt, self._table)

    def to_image(self, format: str = "png", *, scale: float | None = None, **options: Any) -> bytes:
        """Return the figure as the bytes of a picture; SVG and PNG are drawn without a browser.

        Parameters
        ----------
        format
            "svg" or "png"; others are left to plotly, which needs its package kaleido and a browser for them.
        scale
            Dots a pixel of a PNG, 2 unless given.
        options
            `width` and `height` in pixels; of other formats whatever plotly takes.

        Raises
        ------
        ArgumentError
            If it is no format, or one of plotly's and what that needs is not here.
        """
        kind = _format(format)
        if kind in OTHERS:
            return self._by_plotly(kind, scale, options)
        shown = self._of_size(options)
        return svg(shown).encode() if kind == "svg" else png(shown, FINE if scale is None else scale)

    def _by_plotly(self, kind: str, scale: float | None, options: dict[str, Any]) -> bytes:
        try:
            return bytes(super().to_image(kind, scale=scale, **options))
        except (RuntimeError, ImportError) as error:  # no kaleido, or no browser that it could use
            lines = [line.strip(" ,.") for line in str(error).splitlines()]
            said = next(filter(None, lines), type(error).__name__)
            raise ArgumentError(
                f"a picture as {kind} is left to plotly, which says: {said}. As svg or png it is written without"
            ) from None

    def write_image(self, file: Any, format: str | None = None, **options: Any) -> None:
        """Write the figure as a picture; SVG and PNG are drawn without a browser.

        Parameters
        ----------
        file
            A path, whose ending says the format, or a file that is open for bytes.
        format
            "svg" or "png", where no ending says it.
        options
            As for `to_image`.

        Raises
        ------
        ArgumentError
            If it is no format, or there is no folder of that name.
        """
        if isinstance(file, str | PathLike):
            path = Path(fspath(file))
            written = self.to_image(format or path.suffix[1:] or "png", **options)
            try:
                path.write_bytes(written)
            except OSError as error:
                raise ArgumentError(f"cannot write {shorten(str(path))}: {error.strerror}") from None
        else:
            file.write(self.to_image(format or "png", **options))

    def show(self, *args: Any, **options: Any) -> None:
        """Show the figure: in a notebook as at the end of a cell; with a renderer, or elsewhere, as plotly does."""
        running = shell()
        if args or options or running is None or not hasattr(running, "kernel"):
            super().show(*args, **options)
        else:
            from IPython.display import display

            display(self)

    def __repr__(self) -> str:
        return self._text()

    def _repr_html_(self) -> str:
        return self._still(*svg_and_png(self))

    def _repr_mimebundle_(self, include: object = None, exclude: object = None, **_: Any) -> dict[str, Any]:
        large, small = svg_and_png(self)
        bundle = {
            "text/plain": self._text(),
            "text/html": self._still(large, small),
            PLOTLY: json.loads(self.to_json()),
        }
        # JupyterLab shows a PNG in place of the live figure until somebody points at it, and saves one of its own:
        # so it is for notebooks that run with nobody there, which are exported as they are.
        if not interactive() and len(small) <= LARGEST_PNG:
            bundle["image/png"] = base64.b64encode(small).decode()
        return bundle

    def _still(self, large: str, small: bytes) -> str:
        """Return the picture and the numbers as HTML."""
        picture = image(large if len(large) <= LARGEST_SVG else small, self._said())
        if self._table is None or not self._table.rows:
            return picture
        shown = self._table.first(SAID_ROWS)
        return picture + details(f"The numbers: {shown.size_in_words}", table_html(shown))

    def _text(self) -> str:
        if self._table is None:
            return self._said() or "figure"
        return f"{self._said()}\n{table_text(self._table.first(SAID_ROWS))}"

    def _said(self) -> str:
        title = unmarked(self.layout.title.text or "")
        return self._alt or title

    def _of_size(self, options: dict[str, Any]) -> go.Figure:
        unknown = set(options) - {"width", "height", "validate", "engine"}
        if unknown:
            raise ArgumentError(f"an SVG or a PNG takes width= and height= in pixels and scale=, not {min(unknown)}=")
        sizes = {side: options[side] for side in ("width", "height") if options.get(side) is not None}
        return go.Figure(self).update_layout(**sizes) if sizes else self


def _again(parts: tuple[Any, ...], alt: str, table: AnswerTable | None) -> NotebookFigure:
    return NotebookFigure(*parts).described(alt, table)


def _format(said: Any) -> str:
    kind = said.lower().removeprefix(".") if isinstance(said, str) else ""
    if kind not in (*FORMATS, *OTHERS):
        raise ArgumentError(f"a picture is written as svg or png, not as {shorten(said)}")
    return kind
