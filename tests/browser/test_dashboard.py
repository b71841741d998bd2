"""The live dashboard and figures in JupyterLab."""

import pytest

CELLS = [
    "session.dashboard()",
    "patients.dp.histogram('region', epsilon=0.2).run()",
    "patients.dp.count(where='age < 30', epsilon=0.1).run()",
]


@pytest.fixture
def board(go_on):
    notebook = go_on(CELLS)
    notebook.run_cell(0)
    notebook.run_cell(1)
    notebook.output(1).locator(".js-plotly-plot .main-svg").first.wait_for()
    return notebook


def tab(board, name):
    board.output(1).locator(".lm-TabBar-tabLabel", has_text=name).click()


def test_it_follows_what_later_cells_spend(board, shot):
    output = board.output(1)
    output.get_by_text("100% of the budget left").first.wait_for()
    board.run_cell(2)
    output.get_by_text("80% of the budget left").wait_for()
    board.run_cell(3)
    output.get_by_text("70% of the budget left").wait_for()
    output.get_by_text("spent 30% (ε 0.3) · left 70% (ε 0.7)").first.wait_for()
    board.page.wait_for_timeout(500)
    shot(output, "dashboard")
    assert board.errors == []


def test_every_tab_fills_its_width(board, shot):
    board.run_cell(2)
    output = board.output(1)
    for name in ("Spend by column", "Burn-down"):
        tab(board, name)
        plot = output.locator(".js-plotly-plot:visible .main-svg").first
        plot.wait_for()
        board.page.wait_for_timeout(500)
        shot(output, f"dashboard_{name.split()[-1]}")
        assert plot.bounding_box()["width"] > 500
    tab(board, "Releases")
    output.get_by_role("button", name="Show again").click()
    output.get_by_text("Answered from the ledger: costs nothing").wait_for()
    shot(output, "dashboard_releases")
    board.theme("Dark")
    shot(output, "dashboard_dark")
    board.theme("Light")


def test_titles_of_tabs_are_whole_where_it_is_narrow(board):
    board.page.set_viewport_size({"width": 800, "height": 1000})
    titles = board.output(1).locator(".lm-TabBar-tabLabel")
    widths = titles.evaluate_all("all => all.map(one => [one.textContent, one.scrollWidth, one.clientWidth])")
    board.page.set_viewport_size({"width": 1400, "height": 1000})
    assert [title for title, *_ in widths] == ["Burn-down", "Spend by column", "Releases", "Offers"]
    assert [title for title, needed, given in widths if needed > given] == []


def test_its_numbers_stay_when_it_is_opened_again(open_notebook, reopen):
    board = open_notebook("board.ipynb", CELLS)
    for number in range(3):
        board.run_cell(number)
    board.output(1).get_by_text("80% of the budget left").wait_for()
    board.save()
    again = reopen(board)
    again.output(1).get_by_text("80% of the budget left").wait_for()
    assert "a count in patients" in again.output(1).inner_text()


FIGURES = [
    "patients.dp.histogram('region', epsilon=0.02).run().plot()",
    "patients.dp.crosstab('region', 'sex', epsilon=0.02).run().plot()",
    "patients.dp.histogram('age', epsilon=0.02).run().plot()",
    "patients.dp.crosstab('income', 'age', epsilon=0.02).run().plot()",
    "patients.dp.mean('income', epsilon=0.1).run().plot()",
]


def test_figures_are_drawn_and_stay(open_notebook, reopen, saved, shot):
    notebook = open_notebook("figures.ipynb", FIGURES)
    notebook.run_all()
    for i in range(1, len(FIGURES) + 1):
        notebook.js("panel.content.scrollToItem(arg, 'start')", i)
        notebook.output(i).locator(".js-plotly-plot .main-svg").first.wait_for()
        notebook.page.wait_for_timeout(300)
        shot(notebook.output(i), f"figure_{i}")
        assert notebook.output(i).get_by_text("95% intervals from noise").count() == 1
    notebook.save()
    data = saved("figures.ipynb").cells[1].outputs[0].data
    assert len(str(data["application/vnd.plotly.v1+json"])) < 4_000
    again = reopen(notebook)
    # JupyterLab keeps a picture beside the figure, and shows that until somebody points at it.
    again.output(1).locator("img.plot-img, .main-svg").first.wait_for()
    assert again.errors == []
