"""The tour as a newcomer has it: from the wheel, at the address that it prints, with the network off."""

import nbformat
import pytest

ALL_HAVE_RUN = """() => window.jupyterapp.shell.currentWidget.content.widgets.every(
    cell => cell.model.type !== 'code' || (cell.model.executionCount && cell.model.executionState !== 'running'))"""
PLOTLY = "application/vnd.plotly.v1+json"


def test_the_tour_runs_from_top_to_bottom(chromium, installed, labtest, tmp_path, shot):
    with installed.touring(cwd=tmp_path) as tour, chromium(tour.address.partition("/lab")[0]) as browser:
        base = tour.address.partition("/lab")[0]
        page = browser.new_page()
        opened = labtest.Notebook(page, base, "tour.ipynb", address=tour.address)
        assert "token" not in page.url
        opened.run_all(timeout=300)
        # The command is over at the first error, also where a cell is expected to raise it.
        page.wait_for_function(ALL_HAVE_RUN, timeout=300_000)
        assert page.locator(".jp-Dialog").count() == 0
        assert page.locator(".Toastify__toast").all_inner_texts() == []
        shot(page.locator("#main"), "tour")
        opened.save()
        assert opened.errors == []
        assert browser.blocked == []
        opened.shutdown()
        assert tour.stop() == 0
    made = tmp_path / "dpnotebook-tour"
    cells = [cell for cell in nbformat.read(made / "tour.ipynb", 4).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    errors = [output.ename for cell in cells for output in cell.outputs if output.output_type == "error"]
    assert errors == ["BudgetExceeded"]
    shown = ["".join(str(output.get("data", "")) for output in cell.outputs) for cell in cells]
    assert "±50 rows" in shown[2]  # the card, before
    assert "95% intervals" in shown[3]  # the answer, after
    assert sum(PLOTLY in each for each in shown) >= 4
    assert installed.asked() == ""


@pytest.fixture
def written(chromium, toured):
    """Open the page that `dpnotebook tour --run` wrote, in a browser that can reach nothing but this file."""
    address = (toured[0] / "dpnotebook-tour/tour.html").as_uri()
    with chromium(address) as browser:
        page = browser.new_page()
        errors = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text))
        page.goto(address)
        yield page
        assert errors == []
        assert browser.blocked == []


def test_the_page_shows_every_plot_and_every_card(written, toured, shot):
    cells = nbformat.read(toured[0] / "dpnotebook-tour/tour.ipynb", 4).cells
    outputs = [output.get("data", {}) for cell in cells for output in cell.get("outputs", [])]
    figures = [output[PLOTLY] for output in outputs if PLOTLY in output]
    plots = written.locator(".js-plotly-plot")
    assert plots.count() == len(figures) >= 4
    for i, figure in enumerate(figures):
        plot = plots.nth(i)
        plot.locator(".main-svg").first.wait_for()
        assert plot.bounding_box()["width"] > 500
        assert plot.bounding_box()["height"] > 200
        # Lines, bars, cells and points that are really drawn, with some size.
        marks = plot.locator(".js-line, .point path, .points path, .heatmaplayer image")
        sizes = marks.evaluate_all(
            "all => all.map(e => { const b = e.getBoundingClientRect(); return b.width + b.height; })"
        )
        assert sum(size > 2 for size in sizes) >= len(figure["data"])
        assert plot.get_by_text("95% intervals from noise").is_visible()
        shot(plot, f"page_plot_{i}")
    cards = written.locator(".jp-RenderedHTML > div").filter(has=written.locator("img"))
    assert cards.count() >= 5
    for card in cards.all():
        assert card.is_visible()
        assert card.bounding_box()["width"] > 300
    pictures = written.locator("img")
    assert pictures.count() > 10
    assert all(
        pictures.evaluate_all(
            "all => all.map(e => e.complete && e.naturalWidth > 10 && e.getBoundingClientRect().width > 5)"
        )
    )
    assert written.get_by_text("BudgetExceeded").is_visible()
    shot(written.locator("main"), "page")
