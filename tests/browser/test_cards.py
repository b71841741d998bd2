"""Cards in JupyterLab: how high they are, what becomes of them, and what a saved notebook says was spent."""

import pytest

HIGHEST = 160  # pixels, of the card of an ordinary question and of its answer
COUNT = 'patients.dp.count(where="age >= 65", epsilon=0.1)'
GROUPS = 'patients.dp.histogram("region", error=150)'
STATEMENT = (
    'session.sql("SELECT region, COUNT(*) AS n, AVG(income) AS mean, SUM(income) AS total '
    'FROM patients GROUP BY region", epsilon=0.2)'
)
REFUSED = "patients.dp.count(epsilon=3.0)"
CARDS = ".jp-RenderedHTML > div"


def card(output):
    return output.locator(CARDS).first


def height(output):
    card(output).wait_for()
    return card(output).bounding_box()["height"]


@pytest.fixture
def shown(go_on):
    """Open a notebook with four questions, and show their cards."""
    notebook = go_on([COUNT, GROUPS, STATEMENT, REFUSED])
    for cell in range(5):
        notebook.run_cell(cell)
    card(notebook.output(4)).wait_for()
    return notebook


def test_a_card_is_small_and_so_is_the_answer_in_its_place(shown, shot):
    for cell in (1, 2, 4):
        assert height(shown.output(cell)) <= HIGHEST, cell
    shown.output(1).get_by_role("button", name="Run: spend 10% (ε 0.1)").click()
    shown.output(1).get_by_text("paid 10% (ε 0.1)").wait_for()
    assert height(shown.output(1)) <= HIGHEST
    assert shown.output(1).locator(CARDS).count() == 1  # one card, and nothing where the controls were
    assert shown.output(1).bounding_box()["height"] <= HIGHEST + 40
    shown.output(2).get_by_role("button", name="Run: spend").click()
    shown.output(2).get_by_text("release #2").first.wait_for()
    for theme in ("Light", "Dark"):
        shown.theme(theme)
        for width in (800, 1280):
            shown.page.set_viewport_size({"width": width, "height": 1000})
            shown.page.wait_for_timeout(400)
            for cell, name in enumerate(("answer", "answers", "statement", "refused"), start=1):
                shot(shown.output(cell), f"{name}_{theme.lower()}_{width}")
                needs, has = card(shown.output(cell)).evaluate("e => [e.scrollWidth, e.clientWidth]")
                assert needs <= has + 1, (name, width)
    shown.theme("Light")
    shown.page.set_viewport_size({"width": 1400, "height": 1000})
    assert shown.errors == []


SETUP = """

import numpy as np
import pandas as pd
import dpnotebook as dpn
%load_ext dpnotebook

patients = pd.DataFrame({"age": np.arange(20_000) % 100, "sex": ["F", "M"] * 10_000})
session = dpn.Session(budget=dpn.Budget(epsilon=1.0), ledger="twice.ledger")
session.protect(patients, "patients", domain={"age": dpn.Range(0, 99), "sex": ["F", "M"]});
"""
PATHS = {  # every way in which a cell may spend, and what it must say afterwards
    "%%dpsql -y -e 0.1\nSELECT COUNT(*) AS n FROM patients WHERE age < 5": "paid 10% (ε 0.1)",
    "%%dpsql -e 0.04\nSELECT COUNT(*) AS n FROM patients WHERE age < 15": "paid 4% (ε 0.04)",
    "%%dpsql kept << -y -e 0.1\nSELECT COUNT(*) AS n FROM patients WHERE age < 25": "paid 10% of the budget (ε 0.1)",
    'preview = patients.dp.count(where="age < 35", epsilon=0.1)\npreview': "which took 10% of the budget (ε 0.1)",
    "preview.run()": "paid 10% (ε 0.1)",
    'patients.dp.histogram("sex", epsilon=0.1).run()': "paid 10% (ε 0.1)",
}


def test_run_all_twice_spends_once_and_every_cell_says_what_was_spent(open_notebook, saved, shot, workdir):
    for file in workdir.glob("twice.ledger*"):
        file.unlink()
    cells = [*PATHS, "session.spent.epsilon", "len(session.history())"]
    notebook = open_notebook("twice.ipynb", cells, setup=SETUP)
    notebook.run_all()
    for cell, said in enumerate(PATHS.values(), start=1):
        output = notebook.output(cell)
        output.get_by_text(said).first.wait_for()
        assert output.locator(CARDS).count() == 1, cell
        shot(output, f"path_{cell}")
    assert float(notebook.output(7).inner_text().split()[-1]) == pytest.approx(0.44)
    notebook.save()
    texts = _texts(saved("twice.ipynb"))
    for said, text in zip(PATHS.values(), texts[1:7], strict=True):
        assert said in text
        assert "nothing is spent by looking" not in text
    notebook.run_all()
    assert float(notebook.output(7).inner_text().split()[-1]) == pytest.approx(0.44)
    assert notebook.output(8).inner_text().split()[-1] == "5"
    notebook.save()
    for cell, text in enumerate(_texts(saved("twice.ipynb"))[1:7], start=1):
        assert "costs nothing" in text, cell
        assert "nothing is spent by looking" not in text
    assert notebook.errors == []


def _texts(notebook):
    """Return the text and the HTML of every cell of a saved notebook."""
    return [
        "".join(str(part) for output in cell.outputs for part in output.get("data", {}).values())
        for cell in notebook.cells
    ]


def test_the_prompt_leaves_the_answer_in_place_of_its_plan(go_on, saved, shot):
    sql = "%%dpsql --ask -e 0.1\nSELECT COUNT(*) AS n FROM patients WHERE age < 45"
    notebook = go_on([sql], setup=SETUP.replace("twice.ledger", ":memory:"))
    notebook.run_cell(0)
    notebook.js("panel.content.activeCellIndex = 1")
    notebook.js("(void app.commands.execute('notebook:run-cell'))")
    output = notebook.output(1)
    output.get_by_text("Spend 10% of the budget (ε 0.1) for").wait_for()
    assert "nothing is spent by looking" in output.inner_text()
    shot(output, "asked")
    notebook.page.locator(".jp-Stdin-input").fill("y")
    notebook.page.locator(".jp-Stdin-input").press("Enter")
    output.get_by_text("paid 10% (ε 0.1) · left 90%").wait_for()
    notebook.wait_kernel()
    assert output.locator(CARDS).count() == 1
    assert "nothing is spent by looking" not in output.inner_text()
    notebook.save()
    assert "nothing is spent by looking" not in _texts(saved(notebook.path))[1]


def test_what_unfolds(go_on, shot):
    notebook = go_on([COUNT])
    notebook.run_cell(0)
    notebook.run_cell(1)
    output = notebook.output(1)
    output.get_by_text("Other prices").click()
    text = output.inner_text()
    assert "someone who thinks 50 of 100 that a person is in the data could think at most 73.2 after" in text
    assert "patients.dp.count(where='age >= 65', epsilon=0.1)" in text
    prices = output.locator("table").first.locator("tbody tr")
    assert prices.count() == 4
    for row in prices.all():
        _, taken, _, _, _, left = row.locator("td").all_inner_texts()
        assert float(taken.rstrip("%")) + float(left.rstrip("%")) == 100
    shot(output, "plan_card")


ODD = """
import pandas as pd
import dpnotebook as dpn
prices = ["$5 to $10", "\\\\(x^2\\\\) 🏥", "<b>'a' \\"b\\"</b>"]
goods = pd.DataFrame({"price $a$": prices * 100})
session = dpn.Session(budget=dpn.Budget(epsilon=1.0))
session.protect(goods, "goods", domain={"price $a$": prices});
"""


def test_odd_names_are_shown_as_they_are(go_on, shot):
    where = "goods.dp.count(where=\"`price $a$` == '$5 to $10'\", epsilon=0.1)"
    notebook = go_on(['goods.dp.histogram("price $a$", epsilon=0.1).run()', where], setup=ODD)
    for cell in range(3):
        notebook.run_cell(cell)
    card(notebook.output(2)).wait_for()
    notebook.page.wait_for_timeout(1_000)  # for mathematics, if there were any
    text = notebook.output(1).inner_text()
    for said in ("$5 to $10", "\\(x^2\\) 🏥", "<b>'a' \"b\"</b>", "COUNT by price $a$"):
        assert said in text
    assert notebook.page.locator("mjx-container").count() == 0
    shot(notebook.output(1), "odd")
