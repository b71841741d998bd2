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
    from matplotlib.figure import Figure

NAMESPACES = {"": "http://www.w3.org/2000/svg", "xlink": "http://www.w3.org/1999/xlink"}
SHORTENED = ("d", "x", "y", "width", "height", "transform", "points")  # attributes of coordinates, never a text
COLOURS = 64  # of a PNG in a notebook: flat colours and the edges of letters need no more
SCALE = 1.0  # dots a pixel of a PNG in a notebook
FINE = 2.0  # dots a pixel of a PNG file

SVG = f"{{{NAMESPACES['']}}}"
TEXT_TAG, LINK = f"{SVG}text", f"{{{NAMESPACES['xlink']}}}href"

_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_SPACED = re.compile(r" ?([A-Za-z]) ?")  # a letter of a path and the spaces that it needs not
_NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
_FAMILY = re.compile(r"'?DejaVu Sans'?(?:, [^;]*)?")


def svg(shown: go.Figure) -> str:
    """Return a figure as SVG; its texts are texts, in a font of the reader's system.

    Parameters
    ----------
    shown
        What to draw.
    """
    with still(shown) as drawn:
        return _svg(drawn)


def png(shown: go.Figure, scale: float = FINE) -> bytes:
    """Return a figure as a PNG file.

    Parameters
    ----------
    shown
        What to draw.
    scale
        Dots a pixel.
    """
    with still(shown) as drawn:
        return _png(drawn, scale)


def svg_and_png(shown: go.Figure) -> tuple[str, bytes]:
    """Return a figure as SVG and as a PNG of few colours, both small, drawn once.

    Parameters
    ----------
    shown
        What to draw.
    """
    from PIL import Image

    with still(shown) as drawn:
        pictures = _svg(drawn), _png(drawn, SCALE)
    small = io.BytesIO()
    whole = Image.open(io.BytesIO(pictures[1]))
    whole.quantize(COLOURS, method=Image.Quantize.FASTOCTREE).save(small, "PNG", optimize=True)
    return pictures[0], small.getvalue()


def image(picture: str | bytes, alt: str) -> str:
    """Return a picture as an `<img>` that untrusted and exported notebooks keep.

    Parameters
    ----------
    picture
        SVG, or the bytes of a PNG.
    alt
        What it shows, in words; escaped here.
    """
    kind, content = ("svg+xml", picture.encode()) if isinstance(picture, str) else ("png", picture)
    data = base64.b64encode(content).decode()
    return f'<img style="max-width:100%" alt="{escape(alt)}" src="data:image/{kind};base64,{data}">'


def _svg(drawn: Figure) -> str:
    written = io.BytesIO()
    drawn.savefig(written, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return _shortened(written.getvalue())


def _png(drawn: Figure, scale: float) -> bytes:
    written = io.BytesIO()
    drawn.savefig(written, format="png", dpi=DOTS * scale)
    return written.getvalue()


def _shortened(written: bytes) -> str:
    """Return SVG of matplotlib in less than half of its characters: what is seen, to a tenth of a pixel.

    Numbers are shortened in attributes that hold coordinates and nowhere else: what a text says is not touched.
    """
    for prefix, address in NAMESPACES.items():
        ElementTree.register_namespace(prefix, address)
    tree = ElementTree.fromstring(written)  # noqa: S314 - it was written a line before
    names = _names(tree)
    styles: dict[str, str] = {}
    for element in tree.iter():
        if element.tag != TEXT_TAG:
            element.text = None
        element.tail = None
        _shorten_attributes(element, names)
        if style := element.attrib.pop("style", ""):
            style = _FAMILY.sub(FONT, style).replace(": ", ":").replace("; ", ";")
            element.set("class", styles.setdefault(style, f"c{len(styles)}"))
    _without_what_nobody_sees(tree, {name for style, name in styles.items() if _unseen(style)})
    for side in ("width", "height"):
        tree.set(side, tree.get(side, "").removesuffix("pt"))
    rules = ElementTree.Element(f"{SVG}style")
    rules.text = "".join(f".{name}{{{style}}}" for style, name in styles.items() if not _unseen(style))
    tree.insert(0, rules)
    return ElementTree.tostring(tree, encoding="unicode")


def _names(tree: ElementTree.Element) -> dict[str, str]:
    """Return a short name for every part that another refers to."""
    used = {link[1:] for element in tree.iter() if (link := element.get(LINK, "")).startswith("#")}
    used |= {found for element in tree.iter() for found in _REFERENCE.findall(element.get("clip-path", ""))}
    return {name: f"i{number}" for number, name in enumerate(sorted(used))}


def _shorten_attributes(element: ElementTree.Element, names: dict[str, str]) -> None:
    known = names.get(element.attrib.pop("id", ""))
    if known:
        element.set("id", known)
    if LINK in element.attrib and element.get(LINK, "").startswith("#"):
        element.set(LINK, f"#{names[element.get(LINK, '')[1:]]}")
    if "clip-path" in element.attrib:
        element.set("clip-path", _REFERENCE.sub(lambda found: f"url(#{names[found[1]]})", element.get("clip-path", "")))
    if element.get("transform", "").startswith("rotate(-0 "):
        del element.attrib["transform"]
    for name in SHORTENED:
        if name in element.attrib:
            element.set(name, " ".join(_NUMBER.sub(_rounded, element.get(name, "")).split()))
    if "d" in element.attrib:
        element.set("d", _SPACED.sub(r"\1", element.get("d", "")))


def _unseen(style: str) -> bool:
    parts = style.split(";")
    return "opacity:0" in parts or parts == ["fill:none"]


def _without_what_nobody_sees(tree: ElementTree.Element, unseen: set[str]) -> None:
    """Remove what has no colour, and groups that say nothing of what is in them."""
    for parent in list(tree.iter()):
        kept: list[ElementTree.Element] = []
        for child in parent:
            if child.tag in (f"{SVG}metadata", f"{SVG}style") or child.get("class") in unseen:
                continue
            kept.append(child)
        parent[:] = kept
    for parent in reversed(list(tree.iter())):
        flat: list[ElementTree.Element] = []
        for child in parent:
            flat += list(child) if child.tag == f"{SVG}g" and not child.attrib else [child]
        parent[:] = [child for child in flat if child.tag != f"{SVG}defs" or len(child)]


def _rounded(found: re.Match[str]) -> str:
    text = f"{float(found[0]):.1f}".removesuffix(".0")
    return "0" if text == "-0" else text
