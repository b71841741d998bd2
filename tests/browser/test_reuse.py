"""What a person sees of reuse in JupyterLab: the plan card's lines on it, whole, and answers that are free."""

import pytest

TABLE = 'patients.dp.crosstab("sex", "region", error={})'
PART = "patients.dp.count(where=\"sex == 'F' and region == 'North'\", error=110)"
OVERFLOW = "element => [element.scrollWidth, element.clientWidth]"


@pytest.fixture
def asked(go_on):
    """Open a notebook in which a table was released within ±100 rows, and parts of it and it again are asked for."""
    cells = [f"{TABLE.format(100)}.run()", PART, TABLE.format(40), "session.dashboard()"]
    notebook = go_on(cells)
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


def test_what_follows_from_an_answer_is_there_at_once_and_free(asked, shot):
    asked.run_cell(2)
    output = asked.output(2)
    output.get_by_text("Answered from the ledger: costs nothing").first.wait_for()
    text = output.inner_text()
    assert "combined from release #1" in text
    assert "Sharper because past answers are reused, not because less is protected." in text
    assert "±100" in text
    assert output.get_by_role("button").count() == 0
    whole(output)
    shot(output, "free")
    assert asked.errors == []


def test_a_refinement_shows_what_it_saves_and_runs(asked, shot):
    asked.run_cell(3)
    output = asked.output(3)
    button = output.get_by_role("button", name="Run: spend ")
    button.wait_for()
    text = output.inner_text()
    assert "release #1" in text
    assert "% saved" in text
    whole(output)
    shot(output, "refined")
    button.click()
    output.locator(".jp-RenderedHTML", has_text="release #2").last.wait_for()
    asked.run_cell(4)
    dashboard = asked.output(4)
    dashboard.get_by_text("Saved by reuse").first.wait_for()
    whole(dashboard)
    shot(dashboard, "dashboard")
    assert asked.errors == []


def test_an_offer_is_shown_whole_and_spends_nothing(go_on, shot):
    notebook = go_on(["%load_ext dpnotebook", '%dp prefetch patients ranges("age")', "session"])
    for cell in range(4):
        notebook.run_cell(cell)
    offer = notebook.output(2)
    offer.filter(has_text="For sale").locator("table tbody tr").first.wait_for()  # drawn later than the kernel is idle
    assert offer.locator("table tbody tr").count() > 3
    whole(offer)
    offer.get_by_text("The code that buys it").click()
    offer.get_by_text("session.prefetch(").first.wait_for()
    assert 'session.prefetch(dpn.ranges("age")).buy(error=' in offer.inner_text().replace("'", '"')
    shot(offer, "offer")
    notebook.output(3).get_by_text("100% of the budget left").first.wait_for()
    assert notebook.errors == []


def test_a_row_that_stood_out_is_measured_afresh_by_a_button(go_on, shot):
    seen = 'patients.dp.histogram("age", error=40).run()'
    notebook = go_on([seen, 'patients.dp.count(where="age == 30", error=40)', "session"])
    for cell in range(3):
        notebook.run_cell(cell)
    output = notebook.output(2)
    button = output.get_by_role("button", name="Measure afresh: spend ")
    button.wait_for()
    output.get_by_text("because it stood out among the 100 rows of release #1").first.wait_for()
    whole(output)
    shot(output, "picked")
    button.click()
    output.locator(".jp-RenderedHTML", has_text="release #3").last.wait_for()
    assert "stood out" not in output.inner_text()  # the answer that was measured afresh stands in its place
    notebook.run_cell(3)
    notebook.output(3).get_by_text("3 releases").first.wait_for()
    assert notebook.errors == []
