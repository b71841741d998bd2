"""From a query to its answer, as a person sees it in JupyterLab."""

import re

import pytest
from clocks import wait_until

QUERY = 'patients.dp.count(where="age >= 65", epsilon=0.1)'
EMPTY = {"text/html", "text/plain"}


def run_button(output):
    return output.get_by_role("button", name="Run: spend")


def wait_released(output, text="paid 10% (ε 0.1) · left 90%"):
    """Wait for a release as static HTML, not inside a widget."""
    output.locator(".jp-RenderedHTML", has_text=text).wait_for()


def press(notebook, output, key, times):
    output.locator(".noUi-handle").focus()
    for _ in range(times):
        notebook.page.keyboard.press(key)


@pytest.fixture
def asked(go_on):
    """Show a query with its card and controls."""
    notebook = go_on([QUERY, "session", "len(session.history())"])
    notebook.run_cell(0)
    notebook.run_cell(1)
    run_button(notebook.output(1)).wait_for()
    return notebook


def test_the_card_comes_before_the_answer(asked, shot):
    text = asked.output(1).inner_text()
    assert "nothing is spent by looking" in text
    assert "±30 rows" in text
    assert "spent 0% · this question 10% (ε 0.1) · left 90%" in text
    assert "release #" not in text
    shot(asked.output(1), "card")
    asked.run_cell(3)
    asked.output(3).get_by_text("0", exact=True).wait_for()
    assert asked.errors == []


def test_the_slider_changes_cost_and_error_in_place(asked, shot):
    output = asked.output(1)
    press(asked, output, "ArrowRight", 3)
    output.get_by_role("button", name="Run: spend 20% (ε 0.2)").wait_for()
    output.get_by_text("this question 20% (ε 0.2)").wait_for()  # the card
    output.get_by_text("leaves 80%").wait_for()  # beside the slider
    output.get_by_text("±15 rows").first.wait_for()
    shot(output, "card_moved")
    asked.run_cell(3)
    asked.output(3).get_by_text("0", exact=True).wait_for()


def test_run_shows_the_result_and_moves_the_budget(asked, shot):
    output = asked.output(1)
    asked.run_cell(2)
    asked.output(2).get_by_text("100% of the budget left").first.wait_for()
    run_button(output).click()
    wait_released(output)
    text = output.inner_text()
    assert "release #1 · 95% intervals from noise" in text
    assert "nothing is spent" not in text
    assert output.locator(".jp-RenderedHTML > div").count() == 1  # the answer in place of the plan, and nothing below
    value = re.search(r"COUNT in patients where age >= 65\n([\d,]+)\s+±30 rows", text).group(1)
    assert 6_500 < int(value.replace(",", "")) < 7_500
    run_button(output).wait_for(state="detached")
    shot(output, "released")
    asked.run_cell(2)
    asked.output(2).get_by_text("90% of the budget left").first.wait_for()
    assert asked.errors == []


def test_a_double_click_spends_once(asked):
    output = asked.output(1)
    run_button(output).dblclick()
    wait_released(output)
    asked.run_cell(3)
    asked.output(3).get_by_text("1", exact=True).wait_for()


def test_discard_leaves_a_line(asked):
    output = asked.output(1)
    output.get_by_role("button", name="Discard").click()
    wait_released(output, "discarded: nothing was spent")
    run_button(output).wait_for(state="detached")


def test_a_run_in_another_cell_ends_the_controls(asked, shot):
    output = asked.output(1)
    asked.js("panel.content.widgets[3].model.sharedModel.setSource(arg)", f"{QUERY}.run()")
    asked.run_cell(3)
    wait_released(output, "answered by release #1, which took 10% of the budget (ε 0.1)")
    run_button(output).wait_for(state="detached")
    assert "this question 10% (ε 0.1)" in output.inner_text()
    shot(output, "answered_elsewhere")


def test_an_error_stays_in_its_line(asked, shot):
    output = asked.output(1)
    asked.js("panel.content.widgets[3].model.sharedModel.setSource(arg)", "patients.loc[0, 'age'] = 3")
    asked.run_cell(3)
    run_button(output).click()
    output.get_by_text("⚠ FrameChanged").wait_for()
    assert "not answered (FrameChanged): nothing was spent" in output.inner_text()
    assert run_button(output).is_enabled()
    shot(output, "error")


def test_a_saved_notebook_opens_as_it_was_left(open_notebook, saved, reopen):
    asked = open_notebook("left.ipynb", [QUERY])
    asked.run_all()
    run_button(asked.output(1)).click()
    wait_released(asked.output(1))
    before = asked.output(1).inner_text()
    asked.save()
    notebook = saved(asked.path)
    assert [set(output.data) for output in notebook.cells[1].outputs] == [EMPTY, EMPTY]
    assert "widgets" not in notebook.metadata
    again = reopen(asked)
    wait_released(again.output(1))
    assert again.output(1).inner_text() == before
    assert "model not found" not in again.output(1).inner_text()
    assert again.errors == []


def test_a_known_answer_is_there_at_once(go_on, shot):
    notebook = go_on([f"{QUERY}.run()", QUERY])
    notebook.run_all()
    text = notebook.output(2).inner_text()
    assert "Answered from the ledger: costs nothing · left 90%" in text
    assert notebook.output(2).locator(".jp-RenderedHTML > div").count() == 1
    assert notebook.output(2).get_by_role("button").count() == 0
    shot(notebook.output(2), "known")


def test_run_all_does_not_wait_for_anybody(go_on):
    notebook = go_on([QUERY, "print('went on')"])
    notebook.run_all()
    notebook.output(2).get_by_text("went on").wait_for()


SLOW = """
import pathlib, time
from dpnotebook.notebook.progress import watched
with watched() as progress:
    while not pathlib.Path("seen").exists():
        progress(0.5, "measuring")
        time.sleep(0.1)
"""


def test_a_progress_bar_for_what_takes_over_a_second(go_on, workdir):
    notebook = go_on(["with watched() as progress: pass"], setup=SLOW)
    notebook.js("panel.content.activeCellIndex = 0")
    notebook.js("(void app.commands.execute('notebook:run-cell'))")
    output = notebook.output(0)
    output.get_by_text(re.compile(r"\d+% measuring, \ds")).or_(output.get_by_text("measuring")).first.wait_for()
    assert output.locator("img").count() == 1
    (workdir / "seen").touch()
    notebook.wait_kernel()
    assert wait_until(lambda: output.inner_text().strip() == "")
    notebook.run_cell(1)
    assert notebook.output(1).locator("img").count() == 0
