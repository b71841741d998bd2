"""The dashboard in use: releases shown again, what is bought, a view of its own, two notebooks on one ledger."""

import re

import pytest

LEDGER = """
session.close()
session = dpn.Session(budget=dpn.Budget(epsilon=1.0), ledger="two_notebooks.ledger", confirm="never")
session.protect(patients, "patients", rows=20_000, domain={
    "age": dpn.Range(0, 99), "sex": ["F", "M"], "region": ["North", "South", "<West> & co"]});
"""


def tab(notebook, cell, name):
    notebook.output(cell).locator(".lm-TabBar-tabLabel", has_text=name).click()


@pytest.fixture
def board(go_on):
    cells = ["session.dashboard()", "patients.dp.histogram('region', epsilon=0.2).run()"]
    notebook = go_on([*cells, "patients.dp.count(where='age < 30', epsilon=0.1).run()"])
    for number in range(3):
        notebook.run_cell(number)
    notebook.output(1).get_by_text("80% of the budget left").wait_for()
    return notebook


def test_releases_are_found_shown_again_and_copied_by_keyboard(board, shot):
    output, page = board.output(1), board.page
    tab(board, 1, "Releases")
    find = output.get_by_label("find")
    find.fill("no such")
    output.get_by_text("No release has all of these words").wait_for()
    find.fill("region")
    output.get_by_role("cell", name="COUNT by region").first.wait_for()
    page.wait_for_function(
        "code => document.querySelector('.dpnotebook-code textarea').value === code",
        arg="patients.dp.histogram('region', epsilon=0.2)",
    )
    output.get_by_label("release", exact=True).focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    output.get_by_text("Answered from the ledger: costs nothing").wait_for()
    # The focus is where it was: nothing was taken away from the keyboard.
    assert page.evaluate("document.activeElement.textContent") == "Show again (free)"
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    output.get_by_role("button", name="Copy code").click()
    page.wait_for_function("navigator.clipboard.readText().then(text => text.startsWith('patients.dp.histogram'))")
    shot(output, "dashboard_history")


def test_it_is_live_in_a_view_of_its_own(board):
    board.js("panel.content.activeCellIndex = 1")
    board.command("notebook:create-output-view")
    view = board.page.locator(".jp-LinkedOutputView")
    view.get_by_text("80% of the budget left").wait_for()
    board.js(
        "[...app.shell.widgets('main')].filter(one => one.content?.activeCell)"
        ".map(one => app.shell.activateById(one.id))"
    )
    board.page.wait_for_function("window.jupyterapp.shell.currentWidget.content?.activeCell")
    board.run_cell(3)
    board.output(1).get_by_text("70% of the budget left").wait_for()
    view.get_by_text("70% of the budget left").wait_for()
    view.locator(".lm-TabBar-tabLabel", has_text="Spend by column").click()
    view.get_by_label("levels of").wait_for()


def test_two_notebooks_buy_an_offer_once(open_notebook, saved):
    setup = ["session.dashboard()"]
    first = open_notebook("first_of_two.ipynb", [LEDGER, *setup])
    first.run_all()
    second = open_notebook("second_of_two.ipynb", [LEDGER, *setup])
    second.run_all()
    paid = []
    for notebook in (first, second):
        notebook.page.bring_to_front()
        tab(notebook, 2, "Offers")
        notebook.output(2).get_by_role("button", name="Buy: spend").wait_for()
    for notebook in (first, second):  # both show a price; each is clicked twice
        notebook.page.bring_to_front()
        buy = notebook.output(2).get_by_role("button", name=re.compile("^(Buy|Nothing to buy)"))
        buy.dblclick()
        said = notebook.output(2).get_by_text(re.compile("^(Bought|Nothing to buy): every"))
        said.wait_for()
        paid.append(notebook.output(2).get_by_text(re.compile("of the budget left$")).first.inner_text())
        # The other one is told without being used.
        second.output(2).get_by_text("100% of the budget left").first.wait_for(state="detached")
    assert paid[0] == paid[1]
    assert paid[0] != "100% of the budget left"
    assert "costs nothing now" in second.output(2).inner_text()
    assert "2 releases" not in second.output(2).inner_text()
