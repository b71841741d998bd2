import nbformat as nbf
import pytest

from dpnotebook.notebook import interactive


class Shell:
    def __init__(self, kind, **content):
        self.parent = {"header": {"msg_type": kind}, "content": content}

    def get_parent(self):
        return self.parent


@pytest.mark.parametrize(
    ("shell", "expected"),
    [
        (None, False),  # plain Python
        (object(), False),  # IPython in a terminal
        (Shell("execute_request", allow_stdin=True), True),
        (Shell("execute_request", allow_stdin=False), False),
        (Shell("execute_request"), False),
        (Shell("comm_msg", data={}), True),
        (Shell(""), False),
    ],
)
def test_somebody_is_there_when_input_could_be_answered(monkeypatch, shell, expected):
    monkeypatch.setattr(interactive, "shell", lambda: shell)
    assert interactive.interactive() is expected


def test_without_a_notebook_the_text_is_printed(monkeypatch, capsys):
    monkeypatch.setattr(interactive, "shell", lambda: None)
    assert interactive.display_bundle({"text/plain": "hello", "text/html": "<b>hello</b>"}, updatable=True) is None
    assert capsys.readouterr().out == "hello\n"
    interactive.replace(None, "<b>x</b>", "x")  # nothing to replace, and no error


HEADLESS = """
import pandas as pd, dpnotebook as dpn
from dpnotebook.notebook.interactive import interactive
frame = pd.DataFrame({"sex": ["F", "M"] * 50})
session = dpn.Session(budget=dpn.Budget(epsilon=1.0))
session.protect(frame, "frame", domain={"sex": ["F", "M"]})
print("interactive", interactive())
"""


@pytest.fixture(scope="module")
def executed():
    """Return a notebook that nbclient ran, as nbconvert, papermill and nbval do."""
    client = pytest.importorskip("nbclient", reason="nbclient is not installed")
    sources = [
        HEADLESS,
        "query = frame.dp.histogram('sex', epsilon=0.1)\nquery",
        "query.run()",
        "query",
        "session.dashboard()",
    ]
    notebook = nbf.v4.new_notebook(cells=[nbf.v4.new_code_cell(source) for source in sources])
    client.NotebookClient(notebook, kernel_name="python3", timeout=120).execute()
    return notebook


def test_programs_that_run_notebooks_are_nobody(executed):
    assert executed.cells[0].outputs[0].text == "interactive False\n"


def test_without_a_reader_outputs_are_static(executed):
    bundles = [output.data for cell in executed.cells[1:] for output in cell.outputs]
    assert bundles
    assert all(set(bundle) == {"text/plain", "text/html"} for bundle in bundles)
    assert "widgets" not in executed.metadata


def test_every_output_says_what_became_of_its_question(executed):
    first, again = executed.cells[1].outputs, executed.cells[3].outputs
    assert [len(first), len(again)] == [1, 1]
    assert "answered by release #1, which took 10% of the budget (ε 0.1)" in first[0].data["text/plain"]
    assert "nothing is spent" not in first[0].data["text/plain"] + first[0].data["text/html"]
    assert "paid 10% (ε 0.1) · left 90%" in executed.cells[2].outputs[0].data["text/plain"]
    assert "COUNT by sex" in again[0].data["text/plain"]
    assert "Answered from the ledger: costs nothing · left 90%" in again[0].data["text/plain"]


def test_a_headless_dashboard_is_the_whole_picture(executed):
    html = executed.cells[4].outputs[0].data["text/html"]
    assert "90% of the budget left" in html
    for part in ("What is left could buy", "Burn-down", "Spend by column", "Releases"):
        assert part in html
