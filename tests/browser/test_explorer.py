"""The strategy explorer in JupyterLab: compare, cancel while something works, look closer, open again."""

import re

from clocks import wait_until

SETUP = """
import numpy as np
import dpnotebook as dpn
from dpnotebook.strategy import catalogue


def endless(workload, noise, report):
    while True:
        np.linalg.eigvalsh(np.ones((300, 300)))
        report(0.5, "searching")


slow = catalogue.Candidate("slow", "endless", "a search without an end", endless, lambda *_: "", optimized=True)
catalogue.CANDIDATES += (slow,)
"""


def test_from_queries_to_a_strategy(open_notebook, reopen, saved, shot):
    notebook = open_notebook("explorer.ipynb", ["dpn.explore()", "6 * 7"], setup=SETUP)
    notebook.run_cell(0)
    notebook.run_cell(1)
    output = notebook.output(1)
    output.get_by_label("cells").fill("64")
    output.get_by_role("button", name="Compare strategies").click()

    # Bars appear while the endless one works, and so does another cell.
    output.get_by_role("cell", name="binary tree (H2)").wait_for()
    output.locator("img[alt*='endless: searching']").wait_for()
    notebook.run_cell(2)
    notebook.output(2).get_by_text("42", exact=True).wait_for()
    shot(output, "explorer_working")
    output.get_by_role("button", name="Cancel").click()
    output.get_by_text("Cancelled; not tried: endless").first.wait_for()
    output.locator("img[alt*='endless: searching']").wait_for(state="detached")
    assert wait_until(output.get_by_role("button", name="Cancel").is_disabled)

    # Another strategy: the card, the facts and the heat maps follow.
    output.locator(".js-plotly-plot:visible .heatmaplayer").first.wait_for()
    choice = output.get_by_label("look at")
    choice.select_option(choice.locator("option", has_text=re.compile(r"\.\swavelet$")).inner_text())
    output.get_by_role("cell", name="▶ wavelet").wait_for()
    output.locator(".lm-TabBar-tabLabel", has_text="What is measured").click()
    output.locator(".js-plotly-plot:visible .main-svg", has_text="what is measured").first.wait_for()
    output.get_by_text("measurement down and cell across: from -0.143 to 0.143").wait_for()
    shot(output, "explorer")

    # What cannot be is said in a line; a new price needs no search.
    output.get_by_label("ε").fill("0")
    output.get_by_role("button", name="Compare strategies").click()
    output.get_by_text("epsilon must be a finite number above 0").wait_for()
    output.get_by_label("ε").fill("0.5")
    output.get_by_label("ε").press("Enter")
    output.get_by_text("Laplace noise, ε 0.5").first.wait_for()
    assert notebook.errors == []

    notebook.save()
    assert "widgets" not in saved("explorer.ipynb").metadata
    again = reopen(notebook)
    again.output(1).get_by_role("cell", name="▶ wavelet").wait_for()
    again.output(1).get_by_text("A closer look at: wavelet").click()
    again.output(1).locator("img[alt^='heat map of 64 by 64, first cell down']").wait_for()
    shot(again.output(1), "explorer_again")
