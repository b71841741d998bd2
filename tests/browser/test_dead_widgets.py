"""What is left of widgets whose kernel is gone: words that say what to do, and numbers that can be read."""

from pathlib import Path

import nbformat as nbf

CELLS = ["patients.dp.histogram('region', error=200)", "session.dashboard()", "dpn.explore(dpn.workload.AllRange(32))"]
DEAD = ("Loading widget", "Error displaying widget", "model not found")


def texts(notebook):
    return [notebook.output(number).inner_text() for number in range(1, len(CELLS) + 1)]


def test_every_widget_leaves_words_when_its_notebook_is_opened_again(open_notebook, reopen):
    notebook = open_notebook("dead.ipynb", CELLS)
    notebook.run_all()
    notebook.output(1).get_by_role("button", name="Run").wait_for()
    notebook.save()
    again = reopen(notebook)
    for number in range(1, len(CELLS) + 1):
        again.output(number).get_by_text("went with their kernel").first.wait_for()
    for text in texts(again):
        assert not any(words in text for words in DEAD), text
    # What the live tabs showed is there, and opens without a kernel.
    board = again.output(2)
    board.get_by_text("The same without controls").click()
    board.get_by_text("No releases yet").wait_for()
    # Run again it is alive, and nothing stands in for it any more.
    again.run_all()
    again.output(1).get_by_role("button", name="Run").wait_for()
    again.page.wait_for_timeout(300)
    assert "went with their kernel" not in again.output(1).inner_text()


def test_a_notebook_without_any_kernel_is_read(open_notebook, workdir):
    notebook = open_notebook("no_kernel.ipynb", CELLS[:2])
    notebook.run_all()
    notebook.save()
    page, base = notebook.page, notebook.page.url.split("/lab")[0]
    notebook.shutdown()
    page.goto(f"{base}/lab/tree/no_kernel.ipynb?reset")
    page.wait_for_function("window.jupyterapp?.shell?.currentWidget?.content?.widgets")
    page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
    page.get_by_text("went with their kernel").first.wait_for()
    assert not any(words in page.locator(".jp-Notebook").inner_text() for words in DEAD)


def test_controls_of_a_kernel_that_was_restarted_say_what_to_do(open_notebook):
    notebook = open_notebook("restarted.ipynb", CELLS[:2])
    notebook.run_all()
    run = notebook.output(1).get_by_role("button", name="Run")
    run.wait_for()
    notebook.js("panel.sessionContext.session.kernel.restart()")
    notebook.output(1).get_by_text("run the cell again to bring them back").wait_for()
    notebook.output(2).get_by_text("run the cell again to bring them back").wait_for()
    assert run.count() == 0  # nothing is left that can be clicked and does nothing
    notebook.wait_kernel()
    notebook.run_all()
    run.click()
    notebook.output(1).get_by_text("release #1").wait_for()


def test_the_keyboard_goes_on_from_the_cell_after_run(open_notebook):
    notebook = open_notebook("focus.ipynb", CELLS[:1])
    notebook.run_all()
    run = notebook.output(1).get_by_role("button", name="Run")
    run.focus()
    notebook.page.keyboard.press("Enter")
    notebook.output(1).get_by_text("release #1").wait_for()
    notebook.page.wait_for_function(
        """() => { const cell = window.jupyterapp.shell.currentWidget.content.activeCell;
            return document.activeElement !== document.body && cell.node.contains(document.activeElement); }"""
    )
    assert notebook.js("panel.content.activeCellIndex") == 1


def test_a_slider_is_named_and_says_its_value_in_words(open_notebook):
    notebook = open_notebook("slider.ipynb", ["patients.dp.mean('income', epsilon=0.05)"])
    notebook.run_all()
    slider = notebook.output(1).get_by_role("slider", name="cost")
    slider.wait_for()
    before = slider.get_attribute("aria-valuetext")
    assert "% (ε " in before
    slider.focus()
    notebook.page.keyboard.press("ArrowRight")
    notebook.page.wait_for_function(
        """before => { const now = document.querySelector('.dpnotebook .noUi-handle').ariaValueText;
            return now !== before && now.includes('% (ε '); }""",
        arg=before,
    )


def test_exported_pages_have_words_where_widgets_were(workdir, open_notebook):
    from nbconvert import HTMLExporter

    notebook = open_notebook("exported_widgets.ipynb", CELLS[:2])
    notebook.run_all()
    notebook.save()
    html = HTMLExporter().from_notebook_node(nbf.read(Path(workdir) / "exported_widgets.ipynb", 4))[0]
    assert "went with their kernel" in html
    assert "100% of the budget left" in html
    assert "Loading widget" not in html
