"""The workbench in JupyterLab and in Voila: from empty to a released chart, by mouse and by keyboard alone."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from clocks import PATIENCE, wait_until

ROOT = Path(__file__).parents[2]
CELLS = ["session.workbench()"]
FOCUSED = """() => { const one = document.activeElement; const said = one.labels?.[0] ?? one;
    return one.getAttribute('aria-label') ?? said.textContent.trim(); }"""
# Counts the plans that a drag of the slider shows, and when each came after the move before it.
WATCH = """output => { window.seen = []; window.moved = 0;
    document.addEventListener('keydown', () => { window.moved = performance.now(); }, true);
    new MutationObserver(() => { if (window.moved) { window.seen.push(performance.now() - window.moved);
      window.moved = 0; } }).observe(output, {childList: true, subtree: true, characterData: true}); }"""


def used(notebook):
    """Run the cell, and return its output with the controls in it."""
    notebook.run_all()
    output = notebook.output(1)
    output.get_by_role("button", name="Run: spend").wait_for()
    return output


def test_by_mouse_from_empty_to_a_chart_that_stays(open_notebook, reopen, saved, shot, labtest):
    notebook = open_notebook("workbench_mouse.ipynb", CELLS)
    output = used(notebook)
    output.get_by_label("Filter on").select_option("age")
    output.get_by_role("button", name="Add the filter").click()
    output.get_by_label("age from").fill("40")
    output.get_by_label("age from").press("Enter")
    output.get_by_text("where age >= 40").wait_for()
    # The slider by mouse: its first handle to the right.
    handle = output.locator(".noUi-handle").first
    box = handle.bounding_box()
    notebook.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    notebook.page.mouse.down()
    notebook.page.mouse.move(box["x"] + 60, box["y"] + box["height"] / 2, steps=12)
    notebook.page.mouse.up()
    notebook.page.wait_for_function(
        "output => /where age >= (?!40)\\d+/.test(output.textContent)", arg=output.element_handle()
    )
    output.get_by_label("Filter on").select_option("region")
    output.get_by_role("button", name="Add the filter").click()
    output.get_by_label("region: North", exact=True).click()
    output.get_by_label("Group by").select_option("sex")
    output.get_by_role("button", name="Add to the groups").click()
    output.get_by_text("COUNT by sex").first.wait_for()
    shot(output, "workbench")
    output.get_by_role("button", name="Copy as pandas").click()
    output.get_by_label("The question as text").wait_for()
    code = output.get_by_label("The question as text").input_value()
    assert code.startswith("patients.dp.groupby('sex').count(where=")
    output.get_by_text("Copied to the clipboard").wait_for()
    notebook.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    assert notebook.page.evaluate("navigator.clipboard.readText()") == code
    output.get_by_role("button", name="Run: spend").click()
    output.get_by_text("release #1").first.wait_for()
    chart = output.locator("img[alt*='COUNT by sex']").last
    chart.wait_for()
    assert chart.evaluate("picture => picture.naturalWidth") > 200
    shot(output, "workbench_answered")
    assert notebook.errors == []

    notebook.save()
    assert "widgets" not in saved("workbench_mouse.ipynb").metadata
    again = reopen(notebook)
    again.output(1).get_by_text("run the cell again to bring them back").wait_for()
    again.output(1).locator("img[alt*='COUNT by sex']").last.wait_for()
    assert "release #1" in labtest.alive(again.output(1))


def test_by_keyboard_alone_and_the_focus_stays(go_on):
    notebook = go_on(CELLS)
    output = used(notebook)
    page = notebook.page

    def to(name):
        """Press Tab until a control of this name has the keyboard."""
        for _ in range(60):
            if page.evaluate(FOCUSED).startswith(name):
                return
            page.keyboard.press("Tab")
        raise AssertionError(f"Tab never came to {name!r}; it is at {page.evaluate(FOCUSED)!r}")

    page.wait_for_selector(".dpnotebook select[data-lm-suppress-shortcuts]")  # else Lab takes keys typed in lists
    output.get_by_label("Table").focus()  # where somebody comes to by Tab from the cell
    to("Filter on")
    page.keyboard.type("sex")
    to("Add the filter")
    page.keyboard.press("Enter")
    output.get_by_label("sex: F").wait_for()
    to("sex: F")
    page.keyboard.press("Space")
    output.get_by_text("where sex == 'M'").wait_for()
    to("Group by")
    page.keyboard.type("region")
    to("Add to the groups")
    page.keyboard.press("Enter")
    output.get_by_text("COUNT by region").first.wait_for()
    to("that is")
    page.keyboard.press("Control+A")
    page.keyboard.type("80")
    output.get_by_text("±80 rows").first.wait_for()
    to("Run")
    page.keyboard.press("Enter")
    output.get_by_text("release #1").first.wait_for()
    output.locator("img[alt*='COUNT by region']").last.wait_for()
    assert page.evaluate(FOCUSED).startswith("Answered")  # the button that was pressed still has the keyboard
    assert notebook.errors == []


EIGHT = """
people = session.table("patients")
session.budget_planner(
    people.count(error=300), people.count(where="age >= 40", error=600), people.histogram("sex", error=500),
    people.count(where="age >= 40 and sex == 'F'", error=600), people.histogram("region", error=500),
    people.crosstab("sex", "region", error=800), people.histogram("age", error=800), people.cdf("age", error=1000),
)
"""


SLOW = """
import threading
from dpnotebook.session.joint_purchase import JointPurchase
shown, plans = threading.Event(), JointPurchase.plans.func
@property
def slow(purchase):
    shown.wait()
    return plans(purchase)
JointPurchase.plans = slow
threading.Timer(5, shown.set).start()
session.budget_planner(patients.dp.count(error=300), patients.dp.histogram("sex", error=500))
"""


def test_a_plan_that_takes_long_says_that_it_works_before_its_controls_are_there(open_notebook):
    notebook = open_notebook("slow_plan.ipynb", [SLOW])
    notebook.run_cell(0)
    notebook.js("panel.content.activeCellIndex = 1")
    notebook.js("app.commands.execute('notebook:run-cell') && null")
    output = notebook.output(1)
    output.get_by_text("planning, ").wait_for()
    assert output.get_by_role("button").count() == 0
    output.get_by_role("button", name="Run all: spend").wait_for()
    output.get_by_text("planning, ").wait_for(state="detached")
    notebook.wait_kernel()


def test_eight_questions_cost_less_together_and_the_dashboard_follows(go_on, shot):
    notebook = go_on([EIGHT, "session.dashboard()"])
    notebook.run_all()
    output, board = notebook.output(1), notebook.output(2)
    run = output.get_by_role("button", name="Run all: spend")
    run.wait_for()
    output.get_by_text("All together cost").first.wait_for()
    text = output.inner_text()
    together, alone = (
        float(re.search(rf"{words}[^(]*\(ε ([\d.]+)\)", text)[1])
        for words in ("All together cost", "One by one their prices add up to")
    )
    assert 0 < together < alone
    board.get_by_text("100% of the budget left").first.wait_for()
    shot(output, "budget_planner")
    run.press("Enter")
    output.get_by_text("Answered: releases").wait_for()
    board.get_by_text("100% of the budget left").first.wait_for(state="detached")
    spent = wait_until(lambda: re.search(r"spent [^(]*\(ε ([\d.]+)\)", board.inner_text()))
    assert float(spent[1]) == pytest.approx(together, rel=0.01)  # of two numbers as they are written
    assert notebook.errors == []


def test_a_restarted_kernel_and_how_fast_the_card_follows(open_notebook):
    notebook = open_notebook("workbench_restart.ipynb", CELLS)
    output = used(notebook)
    output.get_by_label("Filter on").select_option("age")
    output.get_by_role("button", name="Add the filter").click()
    field = output.get_by_label("age from")
    field.wait_for()
    output.evaluate(WATCH)
    for number in range(1, 31):
        field.press("ArrowUp")
        output.get_by_text(f"where age >= {number}", exact=False).first.wait_for()
    seen = sorted(notebook.page.evaluate("window.seen"))
    assert len(seen) >= 30
    print(f"\nfrom the key to the new card: median {seen[len(seen) // 2]:.0f} ms, 95% {seen[-2]:.0f} ms")
    notebook.js("panel.sessionContext.session.kernel.restart()")
    output.get_by_text("run the cell again to bring them back").wait_for()
    assert output.get_by_role("button", name="Run").count() == 0  # nothing is left that can be clicked and does nothing


@pytest.fixture
def voila(tmp_path, labtest):
    """Serve the notebook of the workbench with Voila and our template, and return its address."""
    pytest.importorskip("voila", reason="voila is not installed")
    shutil.copytree(ROOT / "dpnotebook/notebook/voila_template", tmp_path / "data/voila/templates/dpnotebook")
    extension = ROOT / "dpnotebook/notebook/estimate/labextension"  # as it is here, whatever is installed
    shutil.copytree(extension, tmp_path / "data/labextensions/dpnotebook")
    shutil.copy(ROOT / "notebooks/workbench.ipynb", tmp_path)
    port = labtest.free_port()
    own = {"JUPYTER_PATH": str(tmp_path / "data"), "PYTHONPATH": str(ROOT)}
    own |= {name: str(tmp_path / name) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")}
    command = [sys.executable, "-m", "voila", "workbench.ipynb", "--no-browser", f"--port={port}"]
    with (tmp_path / "voila.log").open("wb") as log:
        server = subprocess.Popen(
            [*command, "--template=dpnotebook"], cwd=tmp_path, env=os.environ | own, stdout=log, stderr=log
        )
    base = f"http://127.0.0.1:{port}"

    def answers():
        try:
            return urllib.request.urlopen(f"{base}/static/favicon.ico", timeout=10).status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return None

    try:
        wait_until(lambda: server.poll() is not None or answers(), PATIENCE)
        assert server.poll() is None, (tmp_path / "voila.log").read_text()[-2000:]
        yield base
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()


@contextlib.contextmanager
def served(voila, chromium, tmp_path, script=""):
    """Open Voila's page, and yield it, its browser and the workbench; say what was there where something fails."""
    with chromium(voila) as context:
        page, said = context.new_page(), []
        page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        if script:
            page.add_init_script(script)
        page.goto(voila)
        # Not the first that says "Run: spend": the notebook shows other questions too.
        bench = page.locator(".dpnotebook").filter(has=page.get_by_label("Group by"))
        try:
            yield page, context, bench
        except Exception as error:
            error.add_note("\n".join(["On the page:", page.locator("body").inner_text()[:4000], "Its console:", *said]))
            error.add_note(f"Voila: {(tmp_path / 'voila.log').read_text()[-2000:]}")
            raise


def test_voila_serves_it_and_asks_nobody_outside(voila, chromium, tmp_path, labtest, shot):
    with served(voila, chromium, tmp_path) as (page, context, bench):
        bench.get_by_role("button", name="Run: spend").wait_for()
        bench.get_by_label("Group by").select_option("gender")
        bench.get_by_role("button", name="Add to the groups").click()
        bench.get_by_text("COUNT by gender in workers").first.wait_for()
        bench.get_by_role("button", name=re.compile("^Run: ")).click()
        bench.locator("img[alt*='COUNT by gender']").first.wait_for()
        labtest.alive(page.locator("body"))
        shot(page.locator("body"), "voila")
        assert context.blocked == []


# A page that is busy while widgets are loaded: whoever looks for one every 100 ms, for two seconds, comes too late.
BUSY = """{ const real = window.setTimeout;
    window.setTimeout = (call, ms, ...more) => real(call, ms === 100 ? 8000 : ms, ...more); }"""


def test_voila_shows_every_control_on_a_page_that_was_busy(voila, chromium, tmp_path, labtest):
    with served(voila, chromium, tmp_path, BUSY) as (page, _, bench):
        last = page.locator(".dpnotebook").filter(has=page.get_by_role("button", name="Discard"))
        for shown in (bench, last):
            shown.or_(page.get_by_text("Error displaying widget")).first.wait_for()
            assert shown.count() == 1
        labtest.alive(page.locator("body"))
