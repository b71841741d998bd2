"""Names and levels with quotes, HTML, `$` and emoji are texts in every output, also those of whole sessions."""

import tempfile
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.notebook.dashboard.summary import dashboard_html

ODD = '<img src=x onerror=alert(1)> "it\'s" $x$ & 🏥'
UNTOUCHED = ("pre", "code", "textarea", "style", "script")  # where nobody looks for mathematics
ELSEWHERE = ("report",)  # pages that are not JupyterLab's
LEVELS = [f"{ODD}{place}" for place in "ab"]


class _Tags(HTMLParser):
    """Which handlers of events the elements of a page have."""

    def __init__(self, html):
        super().__init__()
        self.attributes, self.texts, self.tag = set(), [], ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tag = tag
        self.attributes |= {name for name, _ in attrs if name.startswith("on")}

    def handle_data(self, data):
        if self.tag not in UNTOUCHED:
            self.texts.append(data)


@pytest.fixture(scope="module")
def asked():
    frame = pd.DataFrame({ODD: LEVELS * 200, "age": np.arange(400) % 50})
    with dpn.Session(budget=dpn.Budget(20.0)) as session:
        table = session.protect(
            frame, ODD, domain={ODD: dpn.Categories(LEVELS, label=ODD), "age": dpn.Range(0, 49, unit=ODD, label=ODD)}
        )
        yield session, table, table.histogram(ODD, epsilon=1.0).run(), table.groupby(ODD).mean("age", epsilon=1.0)


def htmls(widget):
    """Yield the HTML of all widgets below one."""
    import ipywidgets as widgets

    if isinstance(widget, widgets.HTML):
        yield widget.value
    for child in getattr(widget, "children", ()):
        yield from htmls(child)


def shown(thing):
    """Return the HTML that a notebook shows of something."""
    bundle = thing._repr_mimebundle_()
    return (bundle[0] if isinstance(bundle, tuple) else bundle)["text/html"]


def report(session):
    """Return all pages of a report."""
    with tempfile.TemporaryDirectory() as folder:
        written = session.publish(Path(folder) / "report", title=ODD, curator=ODD, description=ODD)
        return "".join(page.read_text("utf8") for page in sorted(written.rglob("*.html")))


OUTPUTS = {
    "plan": lambda s, t, r, q: shown(q.plan),
    "release": lambda s, t, r, q: shown(r),
    "table of a release": lambda s, t, r, q: r.to_html(),
    "dashboard": lambda s, t, r, q: dashboard_html(s),
    "dashboard's widgets": lambda s, t, r, q: "".join(htmls(s.dashboard().panel.widget)),
    "workbench": lambda s, t, r, q: "".join(htmls(s.workbench().widget)),
    "plot": lambda s, t, r, q: shown(r.plot()),
    "report": lambda s, t, r, q: report(s),
    "suggestion": lambda s, t, r, q: dpn.suggest_domain(pd.DataFrame({ODD: LEVELS}))._repr_html_(),
}


@pytest.mark.parametrize("output", OUTPUTS)
def test_they_are_texts(asked, output):
    html = OUTPUTS[output](*asked)
    page = _Tags(html)
    assert "onerror" in html  # it is there
    assert page.attributes == set()
    assert "<img src=x" not in html
    if output not in ELSEWHERE:
        assert [text for text in page.texts if "$x$" in text] == []  # which JupyterLab would set as mathematics
