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
LINES = f"{ODD}\nsecond line"  # a name may have several
UNTOUCHED = ("pre", "code", "textarea", "style", "script")  # where nobody looks for mathematics
ELSEWHERE = ("report",)  # pages that are not JupyterLab's
LEVELS = [f"{ODD}{place}" for place in "ab"]
PATIENCE = 60.0  # seconds: far more than a comparison of a few cells takes


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


def guide_html():
    """Return the HTML of a guide with odd names everywhere: its page, each column in its widgets, and its message."""
    frame = pd.DataFrame({ODD: LEVELS, LINES: LEVELS, "": LEVELS})  # the last cannot be asked for
    guide = dpn.protect_guide(frame, ODD).declare(ODD, "levels", levels=LEVELS).settings(unit=LINES, epsilon=ODD)
    found = [shown(guide)]
    for name in (ODD, LINES):
        guide.panel.column.value = name
        for kind in ("whole numbers", "levels"):  # the first has no bounds, which is said by the column's name
            guide.panel.kind.value = kind
            found += htmls(guide.panel.widget)
    guide.panel.say(ODD)
    return "".join([*found, *htmls(guide.panel.widget)])


def explorer_html():
    """Return the HTML of a strategy explorer of odd attributes: its card, and its widgets once all was compared."""
    domain = {ODD: dpn.Range(0, 3, unit=ODD, label=ODD), LINES: dpn.Range(0, 3)}  # units and labels are one line
    explorer = dpn.explore(dpn.ranges(ODD) + dpn.marginals(2), domain)
    explorer.panel.start_button.click()
    assert explorer.comparison.wait(PATIENCE)
    explorer.panel.say(ODD)
    return shown(explorer) + "".join(htmls(explorer.widget))


def session_html():
    """Return the card of a session whose budget was raised for an odd reason."""
    with dpn.Session(budget=dpn.Budget(1.0)) as session:
        session.raise_budget(dpn.Budget(2.0), reason=ODD)
        return shown(session)


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
    "session": lambda s, t, r, q: session_html(),
    "guide": lambda s, t, r, q: guide_html(),
    "explorer": lambda s, t, r, q: explorer_html(),
    "suggestion": lambda s, t, r, q: dpn.suggest_domain(pd.DataFrame({ODD: LEVELS}))._repr_html_(),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("output", OUTPUTS)
def test_they_are_texts(asked, output):
    html = OUTPUTS[output](*asked)
    page = _Tags(html)
    assert "onerror" in html  # it is there
    assert page.attributes == set()
    assert "<img src=x" not in html
    if output not in ELSEWHERE:
        assert [text for text in page.texts if "$x$" in text] == []  # which JupyterLab would set as mathematics
