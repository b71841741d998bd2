"""A statement over two tables, as a person sees it in JupyterLab: its card, its controls, its groups."""

import re

import pytest

SETUP = """
import numpy as np
import pandas as pd
import dpnotebook as dpn

people = pd.DataFrame({"id": range(3000), "ward": ["North", "South", "<West> & co"] * 1000})
visits = pd.DataFrame({
    "id": np.repeat(np.arange(3000), 4),
    "drug": np.where(np.arange(12_000) == 0, "rare <drug>", np.where(np.arange(12_000) % 4, "aspirin", "statin")),
    "cost": np.arange(12_000) % 90,
})
session = dpn.Session(budget=dpn.Budget(epsilon=4.0, delta=1e-6))
session.protect(people, "people", unit="id", max_rows=1)
session.protect(visits, "visits", unit="id", max_rows=4);
"""
SQL = (
    "SELECT drug, COUNT(*, contribution_bounds_per_group => (0, 4)) AS n, AVG(cost) AS mean "
    "FROM visits JOIN people USING (id) GROUP BY drug"
)
CELLS = [
    f'session.sql("{SQL}", epsilon=2)',
    "session.dashboard()",
    "%load_ext dpnotebook",
    "%%dpsql -ye 1\nSELECT drug, COUNT(*) AS n FROM visits GROUP BY drug HAVING n > 100 ORDER BY n DESC",
    "session.release(2).plot()",
    "%dpsql --help",
]
OVERFLOW = "element => [element.scrollWidth, element.clientWidth]"


@pytest.fixture
def asked(go_on):
    notebook = go_on(CELLS, setup=SETUP)
    notebook.run_cell(0)
    notebook.run_cell(1)
    return notebook


def whole(output):
    """Hold every card of an output to being shown whole, without scrolling sideways."""
    cards = output.locator(".jp-RenderedHTML > div")
    assert cards.count() > 0
    for card in cards.all():
        needs, has = card.evaluate(OVERFLOW)
        assert needs <= has + 1


def test_the_card_of_a_statement_and_its_run(asked, shot):
    output = asked.output(1)
    button = output.get_by_role("button", name=re.compile(r"Run: spend [\d.]+% \(ε 2\)"))
    button.wait_for()
    text = output.inner_text()
    assert "in visits and people" in text
    assert "n = COUNT" in text
    assert "mean = AVG" in text
    assert "not known yet" in text
    assert "stay hidden" in text
    output.get_by_text("Other prices").click()
    assert "of the 1e-7 that is left for thresholds" in output.inner_text()
    whole(output)
    shot(output, "statement_card")
    button.click()
    output.locator(".jp-RenderedHTML", has_text="release #1").last.wait_for()
    text = output.inner_text()
    assert "aspirin" in text
    assert "rare" not in text  # one person: shown with a chance below the δ for thresholds
    whole(output)
    shot(output, "statement_release")
    asked.run_cell(2)
    asked.output(2).get_by_text("hiding small groups took δ").first.wait_for()
    whole(asked.output(2))
    shot(asked.output(2), "statement_dashboard")
    assert asked.errors == []


def test_the_magic_works_out_the_rest_and_plots(asked, shot):
    for cell in (3, 4):
        asked.run_cell(cell)
    output = asked.output(4)
    text = output.inner_text()
    assert "nothing is spent" not in text
    assert "paid" in text
    assert output.locator(".jp-RenderedHTML > div").count() == 1  # one card
    assert text.index("statin") > text.index("aspirin")
    whole(output)
    shot(output, "statement_magic")
    asked.run_cell(6)
    assert "--contribution l2" in asked.output(6).inner_text()
    assert asked.errors == []
