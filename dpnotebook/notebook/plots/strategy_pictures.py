"""Small static pictures of strategies, which a saved, exported or untrusted notebook keeps."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpnotebook.notebook import formatting, svg
from dpnotebook.notebook.html import escape, line, quiet, table
from dpnotebook.notebook.plots.strategy_views import Bars, Curve, Grid, View, Words

SIDE = 180  # pixels of a heat map's longer side
WIDTH, HEIGHT = 300, 90  # pixels of a curve
MOST_BARS = 8  # of a small picture
TONES = 31  # beside none: enough to see, and much smaller to store
LEAST_SIDE = 8  # pixels of a heat map's shorter side
MOST_POINTS = 150  # of a small curve: one every two pixels
UP, DOWN, EMPTY = (0x0B, 0x62, 0xA4), (0xC2, 0x68, 0x0A), (0xE9, 0xEB, 0xEE)
BOUND = "#b0364a"


def ranking_bar(length: float, bound: float | None, cut: bool, alt: str, width: int = 220) -> str:
    """Return the bar of one strategy, against the line that none can be below, where that is known.

    Parameters
    ----------
    length, bound
        The error and its lower bound, as fractions of the width.
    cut
        Whether the bar is longer than can be drawn; it then ends in an arrow.
    alt
        The same in words.
    """
    end = width - 8 if cut else max(2.0, min(1.0, length) * (width - 8))
    body = f'<rect x=".5" y="3.5" width="{end:.1f}" height="11" fill="{svg.SPENT}"/>'
    if cut:
        body += f'<path d="M{end:.1f} 3.5l7 5.5l-7 5.5z" fill="{svg.SPENT}"/>'
    if bound is None:
        return svg.image(body, width, 18, alt)
    place = min(1.0, bound) * (width - 8)
    # Drawn over white, so that it shows within a bar as well as beside it.
    body += f'<path d="M{place:.1f} 0v18" stroke="#fff" stroke-width="4"/>'
    body += f'<path d="M{place:.1f} 0v18" stroke="{BOUND}" stroke-width="2" stroke-dasharray="4 2"/>'
    return svg.image(body, width, 18, alt)


def pictures(views: Sequence[View]) -> str:
    """Return static HTML of some views."""
    return "".join(map(picture, views))


def picture(view: View) -> str:
    """Return static HTML of a view: its title, and a picture with its numbers in words."""
    if isinstance(view, Words):
        return line(quiet(escape(view.title)))
    title = f"<div>{quiet(escape(view.title))}</div>"
    if isinstance(view, Bars):
        return line(title + _bars(view))
    return line(title + (_grid(view) if isinstance(view, Grid) else _curve(view)))


def summary(view: View) -> str:
    """Return a view in words."""
    if isinstance(view, Words):
        return view.title
    least, most = formatting.rounded(float(np.nanmin(view.values))), formatting.rounded(float(np.nanmax(view.values)))
    if isinstance(view, Grid):
        rows, columns = view.values.shape
        return f"heat map of {rows} by {columns}, {view.y} down and {view.x} across: from {least} to {most}"
    if isinstance(view, Curve):
        return f"line over {view.x}: from {least} to {most}"
    unit = "%" if view.unit == "percent" else ""
    return f"{formatting.plural(len(view.names), 'bar')}: from {least}{unit} to {most}{unit}"


def ends(view: Grid) -> tuple[float, float]:
    """Return what the lightest and the darkest tone of a heat map stand for; zero is always white."""
    largest = float(np.nanmax(np.abs(view.values))) or 1.0
    return (-largest if np.nanmin(view.values) < 0 else 0.0), largest


def png(pixels: NDArray[np.uint8]) -> bytes:
    """Return pixels of shape (rows, columns, 3) as a PNG file."""
    height, width, _ = pixels.shape
    raw = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], axis=1).tobytes()

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(raw, 9)) + chunk(b"IEND", b"")


def _grid(view: Grid) -> str:
    low, high = ends(view)
    shade = np.nan_to_num(view.values / high)[..., None]
    colour = np.where(shade < 0, DOWN, UP)
    strength = np.round(np.abs(shade) * TONES) / TONES
    tones = 255 - strength * (255 - colour)
    tones[np.isnan(view.values)] = EMPTY
    rows, columns = view.values.shape
    across = SIDE if columns >= rows else max(LEAST_SIDE, round(SIDE * columns / rows))
    down = SIDE if rows >= columns else max(LEAST_SIDE, round(SIDE * rows / columns))
    data = base64.b64encode(png(tones.round().astype(np.uint8))).decode()
    body = (
        f'<image width="{across}" height="{down}" preserveAspectRatio="none" style="image-rendering:pixelated" '
        f'href="data:image/png;base64,{data}"/>'
        f'<rect x=".5" y=".5" width="{across - 1}" height="{down - 1}" fill="none" stroke="{svg.LINE}"/>'
    )
    says = "darker is more" + ("; amber is below zero" if low < 0 else "")
    return f"{svg.image(body, across, down, summary(view))} {quiet(f'{_span(view)}, {says}')}"


def _curve(view: Curve) -> str:
    most = float(view.values.max()) or 1.0
    span = max(1.0, float(view.where[-1] - view.where[0]))
    x = 4 + (WIDTH - 8) * (view.where - view.where[0]) / span
    y = HEIGHT - 4 - (HEIGHT - 10) * view.values / most
    kept = np.unique(np.linspace(0, view.where.size - 1, MOST_POINTS).round().astype(int))
    path = "L".join(f"{x[i]:.1f} {y[i]:.1f}" for i in kept)
    body = (
        f'<path d="M4 {HEIGHT - 4}H{WIDTH - 4}" stroke="{svg.LINE}"/>'
        f'<path d="M{path}" fill="none" stroke="{svg.THIS}" stroke-width="2"/>'
    )
    return f"{svg.image(body, WIDTH, HEIGHT, summary(view))} {quiet(_span(view))}"


def _bars(view: Bars) -> str:
    most = float(view.values.max()) or 1.0
    unit = "%" if view.unit == "percent" else ""
    rows = [
        (
            escape(name),
            svg.bar(value / most, f"{formatting.rounded(value)}{unit}"),
            f"{formatting.rounded(value)}{unit}",
        )
        for name, value in zip(view.names[:MOST_BARS], view.values[:MOST_BARS], strict=True)
    ]
    more = len(view.names) - MOST_BARS
    return table(("", "", ""), rows, "llr") + (line(quiet(f"and {more} more")) if more > 0 else "")


def _span(view: Grid | Curve) -> str:
    return f"{formatting.rounded(float(np.nanmin(view.values)))} to {formatting.rounded(float(np.nanmax(view.values)))}"
