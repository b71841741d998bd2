"""Still pictures as files and as parts of a page: SVG without what nobody sees, PNG with few colours."""

from __future__ import annotations

import base64
import io
import re
from html import escape
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from dpnotebook.notebook.plots.still import DOTS, still
from dpnotebook.notebook.plots.theme import FONT

if TYPE_CHECKING:
    import plotly.graph_objects as go

NAMESPACES = {"": "http://www.w3.org/2000/svg", "xlink": "http://www.w3.org/1999/xlink"}
SHORTENED = ("d", "x", "y", "width", "height", "transform", "points")  # attributes of coordinates, never a text
COLOURS = 128  # of a PNG in a notebook: flat colours and the edges of letters need no more
SCALE = 1.5  # dots a pixel of a PNG in a notebook
FINE = 2.0  # dots a pixel of a PNG file

_NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
_FAMILY = re.compile(r"'?DejaVu Sans'?(?:, [^;]*)?")


def svg(shown: go.Figure) -> str:
    """Return a figure as SVG; its texts are texts, in a font of the reader's system.

    Parameters
    ----------
    shown
        What to draw.
    """
    written = io.BytesIO()
    with still(shown) as drawn:
        drawn.savefig(written, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return _shortened(written.getvalue())


def png(shown: go.Figure, scale: float = FINE, *, few_colours: bool = False) -> bytes:
    """Return a figure as a PNG file.

    Parameters
    ----------
    shown
        What to draw.
    scale
        Dots a pixel.
    few_colours
        Whether to make it a third as large, by a palette.
    """
    written = io.BytesIO()
    with still(shown) as drawn:
        drawn.savefig(written, format="png", dpi=DOTS * scale)
    if not few_colours:
        return written.getvalue()
    from PIL import Image

    small = io.BytesIO()
    Image.open(written).quantize(COLOURS, method=Image.Quantize.FASTOCTREE).save(small, "PNG", optimize=True)
    return small.getvalue()


def image(shown: go.Figure, alt: str) -> str:
    """Return a figure as an `<img>` that untrusted and exported notebooks keep.

    Parameters
    ----------
    shown
        What to draw.
    alt
        What it shows, in words; escaped here.
    """
    data = base64.b64encode(svg(shown).encode()).decode()
    return f'<img style="max-width:100%" alt="{escape(alt)}" src="data:image/svg+xml;base64,{data}">'


def _shortened(written: bytes) -> str:
    """Return SVG of matplotlib with coordinates to a tenth of a pixel, in half the characters.

    Numbers are shortened in attributes that hold coordinates and nowhere else: what a text says is not touched.
    """
    for prefix, address in NAMESPACES.items():
        ElementTree.register_namespace(prefix, address)
    tree = ElementTree.fromstring(written)  # noqa: S314 - it was written a line before
    svg_tag = f"{{{NAMESPACES['']}}}"
    for parent in list(tree.iter()):
        for child in list(parent):
            if child.tag == f"{svg_tag}metadata":
                parent.remove(child)
    used = {element.get(f"{{{NAMESPACES['xlink']}}}href", "")[1:] for element in tree.iter()}
    used |= set(re.findall(r"url\(#([^)]+)\)", written.decode()))
    for element in tree.iter():
        if element.get("id") not in used:
            element.attrib.pop("id", None)
        if element.tag != f"{svg_tag}text":
            element.tail = element.text = None
        for name in SHORTENED:
            if name in element.attrib:
                element.set(name, " ".join(_NUMBER.sub(_rounded, element.get(name, "")).split()))
        if "style" in element.attrib:
            element.set("style", _FAMILY.sub(FONT, element.get("style", "")).replace(": ", ":").replace("; ", ";"))
    for side in ("width", "height"):
        tree.set(side, tree.get(side, "").removesuffix("pt"))
    return ElementTree.tostring(tree, encoding="unicode")


def _rounded(found: re.Match[str]) -> str:
    text = f"{float(found[0]):.1f}".removesuffix(".0")
    return "0" if text == "-0" else text
