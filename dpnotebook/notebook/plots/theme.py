"""The look that all figures share: tones that are read on white, on near-black, and on paper.

No kernel knows the theme of the page that shows its output, and the same saved output is read in both and printed. So
backgrounds are left to the page, and every tone keeps a contrast of about 4:1 to white and to the near-black of
JupyterLab: more to one would be less to the other.
"""

from __future__ import annotations

from html import escape
from typing import Any

INK, LINE = "#757b85", "#9096a0"  # texts; axes
GRID = "rgba(128,134,144,0.22)"
CLEAR = "rgba(0,0,0,0)"
# Apart from one another also for people who do not see red or green.
COLOURS = ("#2a7fc1", "#c2680a", "#2f8f5f", "#a05fbb", "#767d87", "#d0475c")
SHADES = ((0.0, "#e6eef6"), (0.5, "#6ea6d0"), (1.0, "#0a3f6b"))  # of a heat map: it is its own background
FONT = "system-ui, -apple-system, Segoe UI, sans-serif"
TITLE, TEXT, SMALL = 17, 13, 12  # pixels
WIDTH, HEIGHT = 700, 400  # pixels of a figure where nothing else says them


def base_layout(**changes: Any) -> dict[str, Any]:
    """Return the layout that all figures share, a template included that adds nothing to their size.

    Parameters
    ----------
    changes
        `xaxis`, `yaxis` and their like (`xaxis2`) are laid over the shared axes, everything else is added.
    """
    axis = {"gridcolor": GRID, "zerolinecolor": LINE, "linecolor": LINE, "tickcolor": LINE, "ticks": "outside",
            "automargin": True, "separatethousands": True, "exponentformat": "none"}  # fmt: skip
    layout = {
        "template": "none",
        "font": {"color": INK, "size": TEXT, "family": FONT},
        "paper_bgcolor": CLEAR,
        "plot_bgcolor": CLEAR,
        "bargap": 0.25,
    }
    for name in {"xaxis", "yaxis", *(name for name in changes if name[1:].startswith("axis"))}:
        changes[name] = {**axis, **changes.get(name, {})}
        if "title" in changes[name]:
            changes[name]["title"] = {"standoff": 12, "font": {"size": TEXT}, **changes[name]["title"]}
    return {**layout, **changes}


def faint(colour: str, opacity: float = 0.25) -> str:
    """Return a colour that lets the page through."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"


def plain(text: str) -> str:
    """Return text that plotly does not read as HTML."""
    return escape(text, quote=False)
