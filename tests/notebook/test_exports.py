"""What is handed on: notebooks with every kind of plot, exported, show a picture and the numbers of each."""

import base64
import io
import re
from pathlib import Path
from xml.etree import ElementTree

import nbformat
import pytest
from nbconvert import HTMLExporter, LatexExporter, MarkdownExporter
from PIL import Image

ROOT = Path(__file__).parents[2]
PLOTLY = "application/vnd.plotly.v1+json"
SETUP = """
import os
os.environ["DPNOTEBOOK_UNSAFE"] = "1"
import numpy as np, pandas as pd, plotly.graph_objects as go
import dpnotebook as dpn
from dpnotebook.testing import exact_session
number = np.arange(2_000)
visits = pd.DataFrame({
    "age": number % 40, "sex": np.where(number % 3, "F", "M"), "ward": [f"ward {i % 7} <b>&" for i in number],
    "cost": 10.0 * (number % 97), "seen": pd.Timestamp("2023-01-01") + pd.to_timedelta(number % 730, "D"),
})
session = exact_session(dpn.Budget(epsilon=100.0))
visits = session.protect(visits, "visits", domain={
    "age": dpn.Range(0, 39), "sex": ["F", "M"], "ward": [f"ward {i} <b>&" for i in range(7)],
    "cost": dpn.Bins(0, 1000, width=100), "seen": dpn.Dates("2023-01-01", "2024-12-30"),
})
"""
PLOTS = {
    "bars": 'visits.histogram("sex", epsilon=1).run().plot()',
    "lying bars": 'visits.histogram("ward", epsilon=1).run().plot()',
    "line": 'visits.histogram("age", epsilon=1).run().plot()',
    "bins": 'visits.histogram("cost", epsilon=1).run().plot()',
    "cumulative": 'visits.cdf("age", epsilon=1).run().plot()',
    "months": 'visits.groupby({"seen": "month"}).count(epsilon=1).run().plot()',
    "days": 'visits.histogram("seen", epsilon=1).run().plot()',
    "grouped": 'visits.crosstab("ward", "sex", epsilon=1).run().plot()',
    "lines": 'visits.crosstab("age", "sex", epsilon=1).run().plot()',
    "panels": 'visits.crosstab("age", "ward", epsilon=1).run().plot()',
    "heat map": 'visits.crosstab("age", "cost", epsilon=1).run().plot()',
    "point": 'visits.mean("cost", epsilon=1).run().plot()',
    "points": 'visits.groupby("sex").mean("cost", epsilon=1).run().plot()',
    "measures": 'visits.groupby("sex").agg({"cost": ["count", "mean"]}, epsilon=1).run().plot()',
    "sql": 'session.sql("SELECT sex, AVG(cost) AS cost FROM visits GROUP BY sex", epsilon=1).run().plot()',
    "compared": 'dpn.compare(visits.histogram("age", where="sex == \'F\'", epsilon=1).run(), '
    'visits.histogram("age", where="sex == \'M\'", epsilon=1).run(), difference=True)',
    "strategy": "dpn.strategy.h2(dpn.workload.Prefix(32)).plot()",
    "errors": 'dpn.strategy.h2(dpn.workload.Prefix(32)).plot("errors")',
    "their own": 'dpn.portable(go.Figure(go.Scatter(x=[1, 2, 3], y=[3, 1, 2], name="mine")), alt="mine")',
    "show()": 'visits.histogram("sex", epsilon=1).run().plot().show()',
}


@pytest.fixture
def made(plotted):
    return plotted([SETUP, *PLOTS.values(), "session.dashboard()"])


def figures(notebook):
    return [(cell.source, output.data) for cell in notebook.cells if cell.cell_type == "code"
            for output in cell.outputs if PLOTLY in output.get("data", {})]  # fmt: skip


def images(html):
    """Return (alt, SVG) of every picture in some HTML whose source is in it."""
    found = [(re.search(r'alt="([^"]*)"', tag), re.search(r'src="data:image/svg\+xml;base64,([^"]+)"', tag))
             for tag in re.findall(r"<img[^>]*>", html)]  # fmt: skip
    return [(alt[1], ElementTree.fromstring(base64.b64decode(source[1]))) for alt, source in found if alt and source]


def drawn(svg):
    return [element for element in svg.iter() if element.tag.rpartition("}")[2] in ("path", "use", "image", "rect")]


def test_every_plot_has_a_picture_and_its_numbers_in_the_page(made):
    found = figures(made)
    assert [source for source, _ in found] == list(PLOTS.values())
    page, _ = HTMLExporter().from_notebook_node(made)
    for source, data in found:
        ((alt, svg),) = images(data["text/html"])
        assert alt, source
        assert len(drawn(svg)) > 4, source
        assert re.search(r'src="([^"]+)"', data["text/html"])[1] in page, source
        if "portable" not in source and "strategy" not in source:
            assert "<details" in data["text/html"], source
            assert "±" in data["text/plain"] or " to " in data["text/plain"], source


def test_the_outputs_are_small(made):
    for source, data in figures(made):
        ((_, svg),) = images(data["text/html"])
        most = 45_000 if "seen" in source or '"ward", epsilon' in source else 30_000
        assert len(ElementTree.tostring(svg)) < most, source
        assert len(str(data[PLOTLY])) < 75_000, source


def test_pdf_and_mail_have_a_png(made):
    latex, resources = LatexExporter().from_notebook_node(made)
    pictures = [content for name, content in resources["outputs"].items() if name.endswith(".png")]
    assert len(pictures) == len(PLOTS)
    assert latex.count(r"\includegraphics") + latex.count(r"\adjustimage") >= len(PLOTS)
    for content in pictures:
        image = Image.open(io.BytesIO(content))
        assert min(image.size) > 100
        assert len(image.convert("RGBA").getcolors(2**16)) > 8


def test_markdown_has_the_picture_too(made):
    text, _ = MarkdownExporter().from_notebook_node(made)
    assert len(images(text)) >= len(PLOTS)


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem)
def test_every_saved_notebook_shows_its_plots(path):
    notebook = nbformat.read(path, 4)
    page, _ = HTMLExporter().from_notebook_node(notebook)
    shown = images(page)
    found = figures(notebook)
    for source, data in found:
        ((alt, svg),) = images(data.get("text/html", "")) or (("", None),)
        assert svg is not None, f"no picture of {source}"
        assert alt
        assert len(drawn(svg)) > 4
    assert len(shown) >= len(found)
