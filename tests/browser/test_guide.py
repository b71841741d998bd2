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


def test_a_table_is_protected_by_keyboard_alone(go_on, shot):
    notebook = go_on(CELLS, setup=None)
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


ODD = """
import pandas as pd
import dpnotebook as dpn
levels = ["$5 to $10", "\\\\(x^2\\\\) 🏥", "<b>'a' \\"b\\"</b>"]
odd = "<img src=x onerror=alert(1)>"
shop = pd.DataFrame({"price $a$": levels * 50, "it's \\"<i>q</i>\\" 🏥": range(150), odd: 1.5})
guide = dpn.protect_guide(shop, "shop")
guide.settings(ledger="")
guide
"""
NAMES = ["price $a$", 'it\'s "<i>q</i>" 🏥', "<img src=x onerror=alert(1)>"]
CUT_OFF = """output => { const edge = output.getBoundingClientRect().right + 1;
    const shown = [...output.querySelectorAll('select, input, textarea, button, td, pre, div')];
    return shown.filter(one => one.getBoundingClientRect().right > edge).map(one => one.outerHTML.slice(0, 200)); }"""


def test_odd_names_are_declared_as_they_are_in_both_themes_wide_and_narrow(go_on, shot):
    notebook = go_on([ODD, "shop.dp.groupby('price $a$').count(epsilon=0.5).run()"], setup=None)
    notebook.run_cell(0)
    page, output = notebook.page, notebook.output(0)
    column = output.get_by_label("Column", exact=True)
    column.wait_for()
    assert [
        text.rpartition("\xa0")[0].replace("\xa0", " ") for text in column.locator("option").all_inner_texts()
    ] == NAMES
    levels = output.get_by_label("Levels", exact=True)
    levels.fill("$5 to $10\n\\(x^2\\) 🏥\n<b>'a' \"b\"</b>")
    levels.press("Tab")
    following = output.get_by_role("button", name="Next column")
    following.press("Enter")
    output.get_by_label("Lowest").fill("0")
    output.get_by_label("Highest").fill("200")
    output.get_by_label("Highest").press("Tab")
    # What is missing is said beside the button that does nothing yet.
    output.get_by_text(f"say what is missing of: {NAMES[2]}.").wait_for()
    button = output.get_by_role("button", name="Protect the table")
    assert button.is_disabled()
    for theme in ("Light", "Dark"):
        notebook.theme(theme)
        for width in (800, 1280):
            page.set_viewport_size({"width": width, "height": 2400})
            page.wait_for_timeout(300)
            assert output.evaluate(CUT_OFF) == [], (theme, width)
            shot(output, f"guide_{theme}_{width}")
        assert axe.violations(page, ".jp-OutputArea-output") == [], theme
    notebook.theme("Light")
    page.set_viewport_size({"width": 1400, "height": 1000})
    following.press("Enter")
    output.get_by_label("What it holds").select_option("left out")
    page.wait_for_function("one => !one.disabled", arg=button.element_handle())
    assert page.locator("mjx-container, .jp-OutputArea-output :is(i, img[src=x])").count() == 0
    cells = output.locator("tbody tr td:first-child").all_inner_texts()
    assert cells == NAMES
    button.press("Enter")
    output.get_by_text("Protected: <protected table 'shop'").wait_for()
    notebook.run_cell(1)
    text = notebook.output(1).inner_text()
    assert all(level in text for level in ("$5 to $10", "\\(x^2\\) 🏥", "<b>'a' \"b\"</b>")), text
    assert notebook.errors == []
