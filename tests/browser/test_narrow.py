"""Where a page is as narrow as that of a telephone, and names are long, every control can be seen and used."""

import pytest

NAME = "what the patient was asked first, in the words of the form 'A' (of 1998) of " + "x" * 4
SETUP = f"""
import numpy as np
import pandas as pd
import dpnotebook as dpn

rng = np.random.default_rng(1)
made = pd.DataFrame({{{NAME!r}: rng.integers(0, 5, 2000), "count": rng.integers(0, 9, 2000)}})
session = dpn.Session(budget=dpn.Budget(epsilon=1.0), confirm="never")
session.protect(made, "people", domain={{{NAME!r}: dpn.Range(0, 4), "count": dpn.Range(0, 8)}})
people = session.table("people")
people.histogram({NAME!r}, epsilon=0.1).run();
"""
CELLS = [
    "session.dashboard()",
    "session.workbench()",
    f"session.budget_planner(people.count(where='`{NAME.replace(chr(39), chr(92) + chr(39))}` >= 2', error=90),"
    " people.count(error=50))",
    "people.count(where='count >= 3', error=100)",
]
# Every control, and every card, that goes on beyond the right edge of its output.
BEYOND = """output => { const edge = output.getBoundingClientRect().right;
    const seen = 'input, select, textarea, button, .noUi-handle, div[style*="border-radius"]';
    return [...output.querySelectorAll(seen)].filter(one => one.getBoundingClientRect().width)
      .filter(one => one.getBoundingClientRect().right > edge + 1)
      .map(one => `${one.tagName} ${one.textContent.slice(0, 40)} ${one.getBoundingClientRect().right - edge}`); }"""

# Every field and slider that a long label has left too little of to be used.
TOO_SMALL = """output => [...output.querySelectorAll('input[type=text], input[type=number], select, .slider-container')]
    .filter(one => one.getBoundingClientRect().height && one.getBoundingClientRect().width < 40)
    .map(one => `${one.tagName} ${one.getBoundingClientRect().width}`)"""


@pytest.fixture
def narrow(go_on):
    notebook = go_on(CELLS, setup=SETUP)
    notebook.run_all()
    notebook.output(2).get_by_label("Filter on").select_option(NAME)
    notebook.output(2).get_by_role("button", name="Add the filter").click()
    notebook.output(2).get_by_label("Group by").select_option(NAME)
    notebook.output(2).get_by_role("button", name="Add to the groups").click()
    notebook.output(2).get_by_role("button", name="from the groups").wait_for()
    notebook.command("application:toggle-left-area")
    notebook.page.set_viewport_size({"width": 400, "height": 900})
    notebook.page.wait_for_timeout(500)
    yield notebook
    notebook.page.set_viewport_size({"width": 1400, "height": 1000})
    notebook.command("application:toggle-left-area")


def test_no_control_is_beyond_the_edge(narrow, shot):
    assert narrow.errors == []
    for number, name in enumerate(("dashboard", "workbench", "planner", "strip"), start=1):
        output = narrow.output(number)
        output.scroll_into_view_if_needed()
        shot(output, f"narrow_{name}")
        assert output.evaluate(BEYOND) == [], name
        assert output.evaluate(TOO_SMALL) == [], name


def test_a_long_name_leaves_room_for_its_field_where_it_is_wide(narrow):
    narrow.page.set_viewport_size({"width": 1400, "height": 1000})
    narrow.page.wait_for_timeout(500)
    for number in (2, 3):
        assert narrow.output(number).evaluate(TOO_SMALL) == []
