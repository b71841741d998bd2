"""What is left of widgets whose kernel is gone: words that say what to do, and numbers that can be read."""

from pathlib import Path

import nbformat as nbf

CELLS = [
    "patients.dp.histogram('region', error=200)",
    "session.dashboard()",
    "dpn.explore(dpn.workload.AllRange(32))",
    "session.workbench()",
    "session.budget_planner(patients.dp.count(error=30), patients.dp.histogram('sex', error=50))",
    "dpn.protect_guide(pd.DataFrame({'age': [31], 'ward': ['A']}))",
]
GONE = "went with their kernel"


def check_words(notebook, labtest):
    """Check that each of the cells says that its controls are gone, and none that it is loading them."""
    for number in range(1, len(CELLS) + 1):
        output = notebook.output(number)
        output.get_by_text(GONE).first.wait_for()
        labtest.alive(output)


def test_every_widget_leaves_words_when_its_kernel_is_gone(open_notebook, reopen, workdir, labtest):
    from nbconvert import HTMLExporter

    notebook = open_notebook("dead.ipynb", CELLS)
    notebook.run_all()
    notebook.output(1).get_by_role("button", name="Run").wait_for()
    notebook.save()
    # Exported, it has words where widgets were.
    html = HTMLExporter().from_notebook_node(nbf.read(Path(workdir) / "dead.ipynb", 4))[0]
    assert GONE in html
    assert "100% of the budget left" in html
    assert "Loading widget" not in html
    # Opened again, with a new kernel: what the live tabs showed is there.
    again = reopen(notebook)
    check_words(again, labtest)
    board = again.output(2)
    board.get_by_text("The same without controls").click()
    board.get_by_text("No releases yet").wait_for()
    # Without any kernel.
    again.shutdown()
    again.page.reload()
    again.page.wait_for_function("window.jupyterapp?.shell?.currentWidget?.content?.widgets")
    again.js("panel.sessionContext.ready.then(() => panel.sessionContext.shutdown())")
    check_words(again, labtest)
    # Run again it is alive, and nothing stands in for it any more.
    again.js("panel.sessionContext.changeKernel({name: 'python3'}).then(() => null)")
    again.wait_kernel()
    again.run_all()
    again.output(1).get_by_role("button", name="Run").wait_for()
    again.output(1).get_by_text(GONE).wait_for(state="detached")


def test_controls_of_a_restarted_kernel_say_what_to_do_and_the_keyboard_keeps_its_place(open_notebook):
    notebook = open_notebook("restarted.ipynb", ["patients.dp.mean('income', epsilon=0.05)", "session.dashboard()"])
    notebook.run_all()
    output, page = notebook.output(1), notebook.page
    run = output.get_by_role("button", name="Run")
    run.wait_for()
    notebook.js("panel.sessionContext.session.kernel.restart()")
    for number in (1, 2):
        notebook.output(number).get_by_text("run the cell again to bring them back").wait_for()
    assert run.count() == 0  # nothing is left that can be clicked and does nothing
    notebook.wait_kernel()
    notebook.run_all()
    # The slider has a name, and says its value in words.
    slider = output.get_by_role("slider", name="cost")
    slider.wait_for()
    before = slider.get_attribute("aria-valuetext")
    assert "% (ε " in before
    slider.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function(
        """before => { const now = document.querySelector('.dpnotebook .noUi-handle').ariaValueText;
            return now !== before && now.includes('% (ε '); }""",
        arg=before,
    )
    # By keyboard alone to Run; its button is gone then, and the keyboard goes on from the cell.
    page.keyboard.press("Tab")
    while not page.evaluate("document.activeElement.textContent").startswith("Run"):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    output.get_by_text("release #1").wait_for()
    page.wait_for_function(
        """() => { const cell = window.jupyterapp.shell.currentWidget.content.activeCell;
            return document.activeElement !== document.body && cell.node.contains(document.activeElement); }"""
    )
    assert notebook.js("panel.content.activeCellIndex") == 1
