"""Small pictures as `<img>` data URIs, with the numbers in the `alt` text.

Notebooks that JupyterLab does not trust lose inline SVG, style sheets and ARIA attributes, but keep `<img alt=...>`.
An image cannot see the page's colours: these tones keep a contrast of 3:1 to white and to near-black, and a hatch or
a shape says the same as a colour.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape

SPENT = "#6b7280"  # grey: spent, or the value itself
THIS = "#c2680a"  # amber, hatched where it is an area: this query, or its error
BOUGHT = "#1f77b4"  # blue, chequered: a query that also buys for later ones
LINE = "#8b8f98"
MOST_STEPS = 220  # of a line: one in two pixels
RADIUS = 2.6  # pixels of a dot

_HATCH = (
    '<pattern id="h" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    f'<rect width="6" height="6" fill="#fff"/><rect width="3.4" height="6" fill="{THIS}"/></pattern>'
)
_CHEQUERED = (
    '<pattern id="h" width="8" height="8" patternUnits="userSpaceOnUse">'
    f'<rect width="8" height="8" fill="#fff"/><path d="M0 0h4v8h4V4H0z" fill="{BOUGHT}"/></pattern>'
)


def image(body: str, width: int, height: int, alt: str) -> str:
    """Return an `<img>` with the SVG inside it.

    Parameters
    ----------
    body
        SVG elements; no text of users goes in here.
    width, height
        Pixels.
    alt
        What the picture says, numbers included; escaped here.
    """
    picture = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}">{body}</svg>'
    data = base64.b64encode(picture.encode()).decode()
    return f'<img style="vertical-align:middle" alt="{escape(alt)}" src="data:image/svg+xml;base64,{data}">'


def budget_bar(spent: float, this: float, alt: str, width: int = 440, height: int = 16, *, bought: bool = False) -> str:
    """Return the budget as a bar: spent (solid), this query (hatched), left (empty).

    Parameters
    ----------
    spent, this
        Fractions of the whole budget, in [0, 1]; a query that does not fit is cut at the end of the bar.
    alt
        The same in words.
    bought
        Whether the query also buys for later ones: another pattern and colour.
    """
    pattern, colour = (_CHEQUERED, BOUGHT) if bought else (_HATCH, THIS)
    first = min(1.0, max(0.0, spent)) * width
    second = min(width - first, max(0.0, this) * width)
    if this > 0:
        second = max(second, min(3.0, width - first))
    body = f"<defs>{pattern}</defs>" if second else ""
    body += f'<rect x="1" y="1" width="{first:.1f}" height="{height}" fill="{SPENT}"/>'
    if second:
        body += (
            f'<rect x="{1 + first:.1f}" y="1" width="{second:.1f}" height="{height}" fill="url(#h)" stroke="{colour}"/>'
        )
    body += f'<rect x="1" y="1" width="{width}" height="{height}" fill="none" stroke="{LINE}"/>'
    return image(body, width + 2, height + 2, alt)


def interval(
    lower: float, value: float, upper: float, low: float, high: float, alt: str, *, zero: bool = False, width: int = 150
) -> str:
    """Return a value and its interval on an axis from `low` to `high`.

    Parameters
    ----------
    lower, value, upper
        The interval and the value in it.
    low, high
        The ends of the axis, shared by all pictures of a table.
    zero
        Draw a faint line at zero.
    """
    span = (high - low) or 1.0

    def place(number: float) -> float:
        return 6 + (width - 12) * min(1.0, max(0.0, (number - low) / span))

    left, middle, right = place(lower), place(value), place(upper)
    body = f'<path d="M{place(0.0):.1f} 0v14" stroke="{LINE}" stroke-dasharray="2 2"/>' if zero else ""
    body += (
        f'<path d="M{left:.1f} 7H{right:.1f}M{left:.1f} 2v10M{right:.1f} 2v10" stroke="{THIS}" stroke-width="2"/>'
        f'<circle cx="{middle:.1f}" cy="7" r="3.5" fill="{SPENT}"/>'
    )
    return image(body, width, 14, alt)


def bar(fraction: float, alt: str, width: int = 150) -> str:
    """Return one horizontal bar that fills `fraction` of its width."""
    length = min(1.0, max(0.0, fraction)) * width
    body = (
        f'<rect x=".5" y="2.5" width="{length:.1f}" height="9" fill="{SPENT}"/>'
        f'<rect x=".5" y="2.5" width="{width - 1}" height="9" fill="none" stroke="{LINE}"/>'
    )
    return image(body, width, 14, alt)


def burn_down(fractions: Sequence[float], alt: str, width: int = 440, height: int = 70) -> str:
    """Return a falling step line, one step a release, from the line of the whole budget down.

    Parameters
    ----------
    fractions
        What was left after each release, as fractions of the budget.
    """
    base, top = height - 4, 6
    path = f"M4 {top}"
    drawn = dict(enumerate(fractions, start=1))
    if len(drawn) > MOST_STEPS:  # more cannot be told apart
        drawn = {number: drawn[number] for number in (*range(1, len(drawn), -(-len(drawn) // MOST_STEPS)), len(drawn))}
    for number, fraction in drawn.items():
        level = base - (base - top) * min(1.0, max(0.0, fraction))
        path += f"H{4 + (width - 8) * number / (len(fractions) + 1):.1f}V{level:.1f}"
    body = (
        f'<path d="M4 {top}H{width - 4}" stroke="{LINE}" stroke-dasharray="5 4"/>'
        f'<path d="M4 {base}H{width - 4}" stroke="{LINE}"/>'
        f'<path d="{path}H{width - 4}" fill="none" stroke="{THIS}" stroke-width="2"/>'
    )
    return image(body, width, height, alt)


def progress(fraction: float | None, tick: int, alt: str, width: int = 240) -> str:
    """Return a progress bar; a block that wanders from end to end when the fraction is not known."""
    if fraction is None:
        share = 0.2
        phase = (tick % 16) / 8
        start = (1 - share) * (phase if phase <= 1 else 2 - phase)
    else:
        start, share = 0.0, min(1.0, max(0.0, fraction))
    body = (
        f'<rect x="{1 + start * width:.1f}" y="1" width="{share * width:.1f}" height="10" fill="{THIS}"/>'
        f'<rect x="1" y="1" width="{width}" height="10" fill="none" stroke="{LINE}"/>'
    )
    return image(body, width + 2, 12, alt)


def dots(places: Sequence[float], low: float, high: float, alt: str, width: int = 220, height: int = 34) -> str:
    """Return values as dots that stand on each other where they are close, on an axis from `low` to `high`.

    Parameters
    ----------
    places
        The values.
    low, high
        The ends of the axis.
    """
    span = (high - low) or 1.0
    columns = max(1, int((width - 12) / (2 * RADIUS)))
    heights: dict[int, int] = {}
    body = f'<path d="M4 {height - 2}H{width - 4}" stroke="{LINE}"/>'
    for place in places:
        column = min(columns - 1, max(0, int((place - low) / span * columns)))
        level = heights[column] = heights.get(column, 0) + 1
        across, up = 6 + (2 * column + 1) * RADIUS, height - 2 - (2 * level - 1) * RADIUS
        body += f'<circle cx="{across:.1f}" cy="{max(up, RADIUS):.1f}" r="{RADIUS - 0.4}" fill="{THIS}"/>'
    return image(body, width, height, alt)
