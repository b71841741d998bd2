"""The guide in JupyterLab: filled in and run by keyboard, every control with its name."""

import importlib.util
from pathlib import Path

_spec = importlib.util.spec_from_file_location("axe", Path(__file__).parent / "axe.py")
axe = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(axe)

CELLS = [
    "import pandas as pd\nimport dpnotebook as dpn\n"
    "visits = pd.DataFrame({'age': [31, 47] * 50, 'sex': ['F', 'M'] * 50, 'remark': ['CANARY'] * 100})\n"
    "guide = dpn.protect_guide(visits)\nguide.settings(ledger='')\nguide",
    "visits.dp.count(epsilon=0.5).run().number",
]


def test_a_table_is_protected_by_keyboard_alone(open_notebook, shot):
    notebook = open_notebook("guide.ipynb", CELLS, setup=None)
    notebook.run_cell(0)
    page, output = notebook.page, notebook.output(0)
    output.get_by_label("Lowest").wait_for()
    assert axe.violations(page, ".jp-OutputArea-output") == []
    output.get_by_label("Column").focus()
    output.get_by_label("Lowest").focus()
    page.keyboard.type("0")
    page.keyboard.press("Tab")
    assert output.get_by_label("Highest").evaluate("one => one === document.activeElement")
    page.keyboard.type("115")
    page.keyboard.press("Enter")
    output.get_by_text("dpn.Range(0, 115)").first.wait_for()
    following = output.get_by_role("button", name="Next column")
    following.press("Enter")
    levels = output.get_by_label("Levels", exact=True)
    levels.wait_for()
    levels.fill("F\nM")
    levels.press("Tab")
    following.press("Enter")
    output.get_by_label("What it holds").select_option("left out")
    button = output.get_by_role("button", name="Protect the table")
    page.wait_for_function("one => !one.disabled", arg=button.element_handle())
    shot(output, "guide")
    button.press("Enter")
    output.get_by_text("Protected: <protected table 'visits'").wait_for()
    assert "CANARY" not in output.inner_text()
    notebook.run_cell(1)
    assert notebook.output(1).inner_text().split()[-1] == "1"
